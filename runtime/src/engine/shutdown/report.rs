//! The report of a shutdown.

use crate::pid::Pid;
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
    /// Some of the processes that were killed or are stuck, with their types. The usual cause is a `#[signal]` method
    /// for [`Cancel`](crate::Cancel) that does not call `ctx.stop()`.
    pub alive_at_deadline: Vec<(Pid, &'static str)>,
    /// Processes in a step that did not return, with their types. Their threads are left behind.
    pub stuck: Vec<(Pid, &'static str)>,
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

/// A process that still had work when the time for a [drain](crate::Runtime::drain) ran out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Unfinished {
    /// Its PID.
    pub pid: Pid,
    /// Its type.
    pub process: &'static str,
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
        let Self { pid, process, entry, queued, is_working } = self;
        let items = if *queued == 1 {
            "1 message or stop request".to_owned()
        } else {
            format!("{queued} messages or stop requests")
        };
        match (is_working, entry) {
            (true, _) => write!(f, "{process} {pid} was still working, with {items} in its mailbox"),
            (false, Some(entry)) => write!(f, "{process} {pid} had {items} that its entry `{entry}` did not take"),
            (false, None) => write!(f, "{process} {pid} had {items} that it did not take"),
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
        let is_stuck = |pid: &Pid| self.stuck.iter().any(|(stuck, _)| stuck == pid);
        let mut killed = self.alive_at_deadline.iter().filter(|(pid, _)| !is_stuck(pid)).take(SHOWN);
        if let Some((pid, process)) = killed.next() {
            write!(f, ", among them {process} {pid}")?;
            killed.try_for_each(|(pid, process)| write!(f, " and {process} {pid}"))?;
        }
        for (pid, process) in self.stuck.iter().take(SHOWN) {
            write!(f, ", {process} {pid} did not return from a step")?;
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

    /// Catches: a log line with thousands of PIDs.
    #[test]
    fn the_text_of_a_report_names_a_few_of_many() {
        let pid = Pid::new(crate::NodeId::new(7).expect("not 0"), 1, 1, 1);
        let text =
            |stuck| ShutdownReport { stuck: vec![(pid, "Stuck"); stuck], ..ShutdownReport::default() }.to_string();
        assert_eq!(text(5).matches("Stuck").count(), 5);
        assert!(!text(5).contains("more"));
        assert_eq!(text(700).matches("Stuck").count(), 5);
        assert!(text(700).contains("did not return from a step, nor did 695 more ("), "{}", text(700));
    }

    /// Catches: a report that calls a shutdown clean although, in one way or another, it was not.
    #[test]
    fn a_shutdown_is_forced_by_what_was_killed_or_is_stuck_and_clean_if_nothing_was_lost() {
        let stuck = vec![(Pid::new(crate::NodeId::new(7).expect("not 0"), 1, 1, 1), "Stuck")];
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
