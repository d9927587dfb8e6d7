//! Abnormal ends, stalls and dead letters.

use crate::methods::method_of;
use postroom::Pid;
use postroom::inspect::{AbnormalEnd, Incidents, KeptStall, LostMessage, Recent, Stall};
use serde::Serialize;
use std::time::Instant;

/// Maximum number of characters of a reason in a row; the log has the full text.
const REASON: usize = 300;

#[derive(Serialize)]
pub(super) struct Ends {
    ends: IncidentList<End>,
    stalls: IncidentList<StallRow>,
    dead_letters: IncidentList<Lost>,
    /// Number of incidents that are missing from the lists because another thread was writing to their place.
    missed: usize,
}

#[derive(Serialize)]
struct IncidentList<T> {
    /// Number of incidents since the console started.
    total: u64,
    /// The most recent incidents, newest first.
    rows: Vec<T>,
}

#[derive(Serialize)]
struct End {
    /// Seconds since the process ended.
    ago: f64,
    pid: Pid,
    #[serde(rename = "type")]
    process: &'static str,
    entry: &'static str,
    label: Option<String>,
    parent: Option<Pid>,
    place: Option<String>,
    reason: String,
    /// The method in which the process failed.
    method: Option<String>,
    /// The processes that were linked with this one, and those that monitored it.
    told: Vec<Pid>,
    supervised: bool,
}

#[derive(Serialize)]
struct StallRow {
    ago: f64,
    pid: Pid,
    #[serde(rename = "type")]
    process: &'static str,
    label: Option<String>,
    method: Option<String>,
    /// Duration in seconds.
    lasted: f64,
    is_over: bool,
    taken_over: bool,
}

#[derive(Serialize)]
struct Lost {
    ago: f64,
    /// None if the sender is not known; see `DeadLetter::from` in the runtime.
    from: Option<Pid>,
    to: Pid,
    #[serde(rename = "type")]
    process: Option<&'static str>,
    label: Option<String>,
    message: &'static str,
    reason: String,
}

fn owned(label: Option<&std::sync::Arc<str>>) -> Option<String> {
    label.map(|label| label.to_string())
}

impl End {
    fn of(end: &AbnormalEnd, now: Instant) -> Self {
        let mut reason: String = end.reason.chars().take(REASON).collect();
        if reason.len() < end.reason.len() && !reason.ends_with('…') {
            reason.push('…');
        }
        Self {
            ago: ago(end.at, now),
            pid: end.pid,
            process: end.process,
            entry: end.entry,
            label: owned(end.label.as_ref()),
            parent: end.parent,
            place: end.place.map(ToString::to_string),
            reason,
            method: end.message.map(|message| method_of(end.process, message).into_owned()),
            told: end.told.clone(),
            supervised: end.supervised,
        }
    }
}

impl StallRow {
    fn of(kept: &KeptStall, now: Instant) -> Self {
        let Stall { pid, process, message, lasted, taken_over, is_over, .. } = kept.stall;
        let (ago, lasted) = (ago(kept.at, now), lasted.as_secs_f64());
        let method = message.map(|message| method_of(process, message).into_owned());
        Self { ago, pid, process, label: owned(kept.label.as_ref()), method, lasted, is_over, taken_over }
    }
}

impl Lost {
    fn of(lost: &LostMessage, now: Instant) -> Self {
        Self {
            ago: ago(lost.at, now),
            from: lost.from,
            to: lost.to,
            process: lost.process,
            label: owned(lost.label.as_ref()),
            message: lost.message,
            reason: lost.reason.to_string(),
        }
    }
}

fn ago(at: Instant, now: Instant) -> f64 {
    now.saturating_duration_since(at).as_secs_f64()
}

fn part<T, R>(recent: &Recent<T>, count: usize, now: Instant, row: fn(&T, Instant) -> R) -> IncidentList<R> {
    IncidentList {
        total: recent.total,
        rows: recent.kept.iter().rev().take(count).map(|kept| row(kept, now)).collect(),
    }
}

pub(super) fn look(incidents: &Incidents, count: usize) -> Ends {
    let now = Instant::now();
    Ends {
        ends: part(&incidents.ends(), count, now, End::of),
        stalls: part(&incidents.stalls(), count, now, StallRow::of),
        dead_letters: part(&incidents.dead_letters(), count, now, Lost::of),
        missed: incidents.missed(),
    }
}
