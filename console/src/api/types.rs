//! Processes by type.

use super::query::MAX_ROWS;
use crate::methods::method_of;
use crate::samples::{MethodFigures, Samples};
use postroom::Host;
use postroom::inspect::{ProcessInfo, ProcessState};
use serde::Serialize;
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// Maximum number of methods listed for a type.
const METHODS: usize = 50;

/// Upper bounds of the buckets in the histogram of mailbox lengths.
pub(crate) const DEPTHS: [u64; 6] = [0, 1, 10, 100, 1_000, 10_000];

/// The totals of all live processes of a type.
#[derive(Clone, Default, Serialize)]
pub(crate) struct TypeTotals {
    pub(crate) processes: u64,
    /// Number of processes that are running or ready.
    pub(crate) active: u64,
    /// Number of processes that are suspended at a full mailbox.
    pub(crate) suspended: u64,
    /// Messages handled by the live processes.
    pub(crate) messages: u64,
    pub(crate) steps: u64,
    /// Messages waiting in all mailboxes of the type.
    pub(crate) queued: u64,
    pub(crate) longest_mailbox: u64,
    /// For each of [`DEPTHS`], the number of mailboxes that are no longer than that.
    #[serde(skip)]
    pub(crate) depths: [u64; DEPTHS.len()],
}

impl TypeTotals {
    /// Adds the totals of another type.
    pub(crate) fn merge(&mut self, other: &Self) {
        self.processes += other.processes;
        self.active += other.active;
        self.suspended += other.suspended;
        self.messages += other.messages;
        self.steps += other.steps;
        self.queued += other.queued;
        self.longest_mailbox = self.longest_mailbox.max(other.longest_mailbox);
        self.depths.iter_mut().zip(other.depths).for_each(|(count, more)| *count += more);
    }

    fn add(&mut self, info: &ProcessInfo) {
        self.processes += 1;
        self.active += u64::from(matches!(info.state, ProcessState::Running | ProcessState::Ready));
        self.suspended += u64::from(matches!(info.state, ProcessState::Suspended { .. }));
        self.messages += info.messages;
        self.steps += info.steps;
        self.queued += info.mailbox;
        self.longest_mailbox = self.longest_mailbox.max(info.mailbox);
        for (count, depth) in self.depths.iter_mut().zip(DEPTHS) {
            *count += u64::from(info.mailbox <= depth);
        }
    }
}

/// Returns the totals of each type that has live processes.
pub(crate) fn by_type(processes: &[ProcessInfo]) -> BTreeMap<&'static str, TypeTotals> {
    let mut types: BTreeMap<&'static str, TypeTotals> = BTreeMap::new();
    processes.iter().for_each(|info| types.entry(info.process).or_default().add(info));
    types
}

#[derive(Serialize)]
pub(super) struct Types {
    total: usize,
    rows: Vec<Type>,
}

#[derive(Serialize)]
struct Type {
    #[serde(rename = "type")]
    process: &'static str,
    #[serde(flatten)]
    totals: TypeTotals,
    /// Share of one processor, sampled over the last minute.
    cpu: f64,
    /// How many seconds messages wait in mailboxes that are not empty, measured over the last minute.
    wait: Option<Quantiles>,
    methods: Vec<MethodRow>,
}

#[derive(Serialize)]
struct Quantiles {
    p50: f64,
    p99: f64,
}

#[derive(Serialize)]
struct MethodRow {
    /// Empty for steps without a message: those that handle answers, timers and signals.
    method: String,
    cpu: f64,
    /// Number of messages timed over the last minute.
    timed: u64,
    /// How many seconds those messages took to handle, until the end or the first await.
    handling: Option<Quantiles>,
}

impl From<(f64, f64)> for Quantiles {
    fn from((p50, p99): (f64, f64)) -> Self {
        Self { p50, p99 }
    }
}

impl MethodRow {
    fn of(process: &str, figures: MethodFigures) -> Self {
        let MethodFigures { method, cpu, timed, handling } = figures;
        Self { method: method_of(process, method).into_owned(), cpu, timed, handling: handling.map(Quantiles::from) }
    }
}

pub(super) fn look(host: Host, samples: &Samples) -> Types {
    let types = by_type(&host.processes());
    let total = types.len();
    let mut figures = samples.look().types();
    let row = |(process, totals)| {
        let of_type = figures.remove(process).unwrap_or_default();
        let mut methods: Vec<_> = of_type.methods.into_iter().map(|figures| MethodRow::of(process, figures)).collect();
        methods.sort_by(|one, other| other.cpu.total_cmp(&one.cpu).then_with(|| other.timed.cmp(&one.timed)));
        methods.truncate(METHODS);
        Type { process, totals, cpu: of_type.cpu, wait: of_type.wait.map(Quantiles::from), methods }
    };
    let mut rows: Vec<_> = types.into_iter().map(row).collect();
    rows.sort_by_key(|row| Reverse(row.totals.processes));
    rows.truncate(MAX_ROWS);
    Types { total, rows }
}
