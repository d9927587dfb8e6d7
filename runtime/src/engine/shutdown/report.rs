//! The report of a shutdown.

use crate::pid::Pid;
use crate::sync::Arc;
use std::fmt;
use std::time::Duration;

/// The outcome of a shutdown or a drain.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct ShutdownReport {
    /// Number of processes that were alive when the shutdown began.
    pub alive: u64,
    /// Number of those processes that ended before the deadline.
    pub ended: u64,
    /// Number of those processes that were killed at the deadline.
    pub killed: u64,
    /// Some of the processes that were killed or are stuck. The usual cause is a `#[signal]` method for
    /// [`Cancel`](crate::Cancel) that does not call `ctx.stop()`.
    pub alive_at_deadline: Vec<Remaining>,
    /// Processes in a step that did not return. Their threads are left behind.
    pub stuck: Vec<Remaining>,
    /// Number of accepted messages that were discarded because their processes ended before handling them. Delayed
    /// messages (`send_after`, `send_every`) count only if they had become due.
    pub thrown_away: u64,
    /// Whether everything queued was handled first; `None` without a [drain](crate::Runtime::drain).
    pub drained: Option<bool>,
    /// Some of the unfinished processes, if the drain did not complete.
    pub unfinished: Vec<Unfinished>,
    /// The time that the shutdown took, including the drain.
    pub took: Duration,
}

/// A process that had not ended at the deadline of a shutdown.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Remaining {
    /// Its PID.
    pub pid: Pid,
    /// Its type.
    pub process: &'static str,
    /// Its label, if it has one.
    pub label: Option<Arc<str>>,
}

impl fmt::Display for Remaining {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_name(f, self.process, self.label.as_deref(), self.pid)
    }
}

fn write_name(f: &mut fmt::Formatter<'_>, process: &str, label: Option<&str>, pid: Pid) -> fmt::Result {
    match label {
        Some(label) => write!(f, "{process} {label:?} {pid}"),
        None => write!(f, "{process} {pid}"),
    }
}

/// A process that still had work when the time for a [drain](crate::Runtime::drain) ran out.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Unfinished {
    /// Its PID.
    pub pid: Pid,
    /// Its type.
    pub process: &'static str,
    /// Its label, if it has one.
    pub label: Option<Arc<str>>,
    /// The entry that it was started with; `None` for a process that is written by hand.
    pub entry: Option<&'static str>,
    /// Number of messages and requests to [stop](Pid::stop) in its mailbox. If it was not working, its entry does not
    /// take messages.
    pub queued: u64,
    /// Whether it was running, was in the middle of a message, or had taken messages that it had not handled.
    pub is_working: bool,
}

impl fmt::Display for Unfinished {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { pid, process, label, entry, queued, is_working } = self;
        let items = if *queued == 1 {
            "1 message or stop request".to_owned()
        } else {
            format!("{queued} messages or stop requests")
        };
        write_name(f, process, label.as_deref(), *pid)?;
        match (is_working, entry) {
            (true, _) => write!(f, " was still working, with {items} in its mailbox"),
            (false, Some(entry)) => write!(f, " had {items} that its entry `{entry}` did not take"),
            (false, None) => write!(f, " had {items} that it did not take"),
        }
    }
}

impl ShutdownReport {
    /// Returns true if no work was lost: every process ended by itself before the deadline, no message was discarded,
    /// no call was left unanswered, and a drain, if one was requested, completed.
    pub fn is_clean(&self) -> bool {
        !self.was_forced() && self.thrown_away == 0 && self.drained != Some(false)
    }

    /// Returns whether some processes were killed or stuck at the deadline.
    pub fn was_forced(&self) -> bool {
        self.killed > 0 || !self.stuck.is_empty()
    }

    /// Logs a warning if messages or processes of the runtime were lost.
    pub(crate) fn log(&self, runtime: &str) {
        if self.is_clean() {
            return;
        }
        let (report, thrown_away) = (self, self.thrown_away);
        if thrown_away > 0 && report.drained.is_none() {
            crate::util::log::warn!(
                runtime,
                thrown_away,
                %report,
                "a runtime was shut down before its processes had handled their messages; `Runtime::drain` handles \
                    them first"
            );
        } else {
            crate::util::log::warn!(runtime, thrown_away, %report, "a runtime was shut down, and work was lost");
        }
    }
}

/// Maximum number of processes of each kind that the printed report names.
const SHOWN: usize = 5;

impl fmt::Display for ShutdownReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {} processes ended, {} killed at the deadline", self.ended, self.alive, self.killed)?;
        let is_stuck = |killed: &Remaining| self.stuck.iter().any(|stuck| stuck.pid == killed.pid);
        let mut killed = self.alive_at_deadline.iter().filter(|killed| !is_stuck(killed)).take(SHOWN);
        if let Some(first) = killed.next() {
            write!(f, ", among them {first}")?;
            killed.try_for_each(|next| write!(f, " and {next}"))?;
        }
        for stuck in self.stuck.iter().take(SHOWN) {
            write!(f, ", {stuck} did not return from a step")?;
        }
        if let more @ 1.. = self.stuck.len().saturating_sub(SHOWN) {
            write!(f, ", nor did {more} more")?;
        }
        if self.drained == Some(false) {
            f.write_str("; the drain was not completed in time")?;
            for unfinished in &self.unfinished {
                write!(f, ", {unfinished}")?;
            }
        }
        if self.thrown_away > 0 {
            write!(
                f,
                "; {} {} thrown away",
                self.thrown_away,
                if self.thrown_away == 1 { "message was" } else { "messages were" }
            )?;
        }
        write!(f, " ({:?})", self.took)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn remaining(label: Option<&str>) -> Remaining {
        let pid = Pid::new(crate::NodeId::new(7).expect("not 0"), 1, 1, 1);
        Remaining { pid, process: "Stuck", label: label.map(Arc::from) }
    }

    /// Catches: a report in which processes of one type cannot be told apart although they have labels.
    #[test]
    fn the_text_of_a_report_has_labels() {
        let labelled = remaining(Some("customer 17"));
        let name = format!("Stuck \"customer 17\" {}", labelled.pid);
        let Remaining { pid, process, label } = labelled.clone();
        let unfinished = Unfinished { pid, process, label, entry: None, queued: 2, is_working: true };
        let killed = ShutdownReport { alive_at_deadline: vec![labelled.clone()], ..ShutdownReport::default() };
        assert!(killed.to_string().contains(&format!(", among them {name} (")), "{killed}");
        let stuck = ShutdownReport { stuck: vec![labelled], ..ShutdownReport::default() };
        assert!(stuck.to_string().contains(&format!(", {name} did not return")), "{stuck}");
        assert!(unfinished.to_string().starts_with(&format!("{name} was still working, with 2")), "{unfinished}");
    }

    /// Catches: a log line with thousands of PIDs.
    #[test]
    fn the_text_of_a_report_names_a_few_of_many() {
        let text =
            |stuck| ShutdownReport { stuck: vec![remaining(None); stuck], ..ShutdownReport::default() }.to_string();
        assert_eq!(text(5).matches("Stuck").count(), 5);
        assert!(!text(5).contains("more"));
        assert_eq!(text(700).matches("Stuck").count(), 5);
        assert!(text(700).contains("did not return from a step, nor did 695 more ("), "{}", text(700));
    }

    /// Catches: a report that calls a shutdown clean although, in one way or another, it was not.
    #[test]
    fn a_shutdown_is_forced_by_what_was_killed_or_is_stuck_and_clean_if_nothing_was_lost() {
        let stuck = vec![remaining(None)];
        let judged = |report: ShutdownReport| (report.was_forced(), report.is_clean());
        let good = ShutdownReport { alive: 3, ended: 3, ..ShutdownReport::default() };
        assert_eq!(judged(good.clone()), (false, true));
        assert_eq!(judged(ShutdownReport { killed: 1, ..good.clone() }), (true, false));
        assert_eq!(judged(ShutdownReport { stuck, ..good.clone() }), (true, false));
        assert_eq!(judged(ShutdownReport { thrown_away: 1, ..good.clone() }), (false, false));
        assert_eq!(judged(ShutdownReport { drained: Some(false), ..good.clone() }), (false, false));
        assert_eq!(judged(ShutdownReport { drained: Some(true), ..good }), (false, true));
    }
}
