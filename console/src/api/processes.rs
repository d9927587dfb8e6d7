//! Processes as rows, and the selection of rows.

use super::query::{QueryError, parse_count};
use crate::samples::{ProcessFigures, Samples};
use postroom::inspect::{ProcessInfo, ProcessState, WaitsFor};
use postroom::{Host, Pid};
use serde::Serialize;
use std::cmp::Reverse;

/// Which processes to return, in which order, and how many.
pub(crate) struct Selection {
    sort: Sort,
    count: usize,
    /// Text to search for in the PID, the type, the label, the names and the place.
    filter: Option<String>,
    process: Option<String>,
    state: Option<String>,
}

#[derive(Clone, Copy)]
enum Sort {
    Mailbox,
    Messages,
    Steps,
    /// How long a message waits in the mailbox.
    Wait,
    /// The share of a processor.
    Cpu,
    /// Messages per second.
    Rate,
}

impl Selection {
    pub(super) fn parse<'a>(value: &impl Fn(&str) -> Option<&'a str>) -> Result<Self, QueryError> {
        let wrong = |name, value: &str, expected| QueryError::Value { name, value: value.to_owned(), expected };
        let sort = match value("sort") {
            None | Some("mailbox") => Sort::Mailbox,
            Some("messages") => Sort::Messages,
            Some("steps") => Sort::Steps,
            Some("wait") => Sort::Wait,
            Some("cpu") => Sort::Cpu,
            Some("rate") => Sort::Rate,
            Some(other) => return Err(wrong("sort", other, "write mailbox, wait, cpu, rate, messages or steps")),
        };
        let count = parse_count(value)?;
        let state = value("state").filter(|state| !state.is_empty());
        if let Some(state) = state
            && !STATES.contains(&state)
        {
            let expected = "write ready, running, blocking, idle, suspended or waiting";
            return Err(wrong("state", state, expected));
        }
        let some = |name| value(name).filter(|text| !text.is_empty()).map(str::to_owned);
        Ok(Self {
            sort,
            count,
            filter: some("filter").map(|text| text.to_lowercase()),
            process: some("type"),
            state: state.map(str::to_owned),
        })
    }

    fn takes(&self, info: &ProcessInfo) -> bool {
        let contains = |text: &str| self.filter.as_ref().is_none_or(|filter| text.to_lowercase().contains(filter));
        self.process.as_ref().is_none_or(|process| info.process == process)
            && self.state.as_ref().is_none_or(|state| state_name(info.state) == state)
            && (contains(info.process)
                || contains(&info.pid.to_string())
                || info.label.as_deref().is_some_and(contains)
                || info.names.iter().any(|name| contains(name))
                || info.place.is_some_and(|place| contains(&place.to_string())))
    }
}

const STATES: [&str; 6] = ["ready", "running", "blocking", "idle", "suspended", "waiting"];

fn state_name(state: ProcessState) -> &'static str {
    match state {
        ProcessState::Ready => "ready",
        ProcessState::Running => "running",
        ProcessState::Blocking => "blocking",
        ProcessState::Idle => "idle",
        ProcessState::Suspended { .. } => "suspended",
        ProcessState::Waiting { .. } => "waiting",
        // A state that a newer version of the runtime has added.
        _ => "other",
    }
}

/// A row of the list of processes.
#[derive(Serialize)]
pub(super) struct ProcessRow {
    pub(super) pid: Pid,
    #[serde(rename = "type")]
    process: &'static str,
    entry: &'static str,
    label: Option<String>,
    names: Vec<String>,
    state: &'static str,
    /// The state in words, including what the process waits for.
    says: String,
    pub(super) parent: Option<Pid>,
    /// Where the process was spawned.
    place: Option<String>,
    worker: Option<usize>,
    mailbox: u64,
    messages: u64,
    steps: u64,
    waits_for: Option<Wait>,
    /// How many seconds a message waits in the mailbox, according to a recent measurement.
    wait: Option<f64>,
    /// Share of one processor, sampled over the last minute.
    cpu: f64,
    /// Messages per second.
    rate: u64,
}

/// The process that another process waits for.
#[derive(Clone, Serialize)]
pub(super) struct Wait {
    pub(super) pid: Pid,
    /// The method that was called; none if the process waits for room in the mailbox.
    pub(super) method: Option<&'static str>,
}

/// Returns the process that this one waits for, if it waits for exactly one.
pub(super) fn waits_for(info: &ProcessInfo) -> Option<Wait> {
    match (info.waits_for, info.state) {
        (Some(WaitsFor { pid, method, .. }), _) => Some(Wait { pid, method }),
        (None, ProcessState::Suspended { at }) => Some(Wait { pid: at, method: None }),
        (None, _) => None,
    }
}

impl ProcessRow {
    pub(super) fn of(info: &ProcessInfo, figures: ProcessFigures) -> Self {
        let ProcessFigures { wait, cpu, rate } = figures;
        let waits_for = waits_for(info);
        let says = match info.waits_for {
            Some(waits_for) => waits_for.to_string(),
            None => info.state.to_string(),
        };
        Self {
            pid: info.pid,
            process: info.process,
            entry: info.entry,
            label: info.label.as_deref().map(str::to_owned),
            names: info.names.iter().map(|name| name.to_string()).collect(),
            state: state_name(info.state),
            says,
            parent: info.parent,
            place: info.place.map(ToString::to_string),
            worker: info.worker,
            mailbox: info.mailbox,
            messages: info.messages,
            steps: info.steps,
            waits_for,
            wait,
            cpu,
            rate,
        }
    }
}

#[derive(Serialize)]
pub(super) struct Processes {
    /// Number of processes that are alive.
    total: usize,
    /// Number of processes that match the query.
    matching: usize,
    rows: Vec<ProcessRow>,
}

pub(super) fn look(host: Host, samples: &Samples, selection: &Selection) -> Processes {
    let processes = host.processes();
    let total = processes.len();
    let mut matching: Vec<_> = processes.iter().filter(|info| selection.takes(info)).collect();
    let profile = samples.look();
    matching.sort_by_cached_key(|info| {
        // The bits of nonnegative floats sort like their values.
        let figures = || profile.process(info.pid);
        Reverse(match selection.sort {
            Sort::Mailbox => info.mailbox,
            Sort::Messages => info.messages,
            Sort::Steps => info.steps,
            Sort::Wait => figures().wait.map_or(0, f64::to_bits),
            Sort::Cpu => figures().cpu.to_bits(),
            Sort::Rate => figures().rate,
        })
    });
    let rows = matching.iter().take(selection.count);
    let rows = rows.map(|info| ProcessRow::of(info, profile.process(info.pid))).collect();
    Processes { total, matching: matching.len(), rows }
}
