//! Detects timers that fire forever without a turn of any process. Without this check, such a run would never end.
//!
//! A timer that its own action sets again needs no process, so the limit on turns does not end the run. If it is due
//! again at the same moment, the limit on time does not end it either. Any number of pending timers may fire at one
//! moment, so only further timers count.

use std::collections::BTreeMap;

/// The timers that have fired since the most recent turn, by the processes to which they sent something.
#[derive(Default)]
pub(crate) struct FiredTimers {
    count: u64,
    /// Number of timers that were pending before the first one fired.
    pending: u64,
    of: BTreeMap<u32, u64>,
    /// The process to which the timer that is firing has sent something.
    receiver: Option<u32>,
    are_endless: bool,
    /// Number of timers that have fired in the whole run.
    total: u64,
}

impl FiredTimers {
    /// Resets the count after a turn, since the fired timers had consequences.
    pub(crate) fn end(&mut self) {
        if self.count > 0 {
            *self = Self { total: self.total, ..Self::default() };
        }
        self.receiver = None;
    }

    /// Prepares for timers that may fire now, so that no earlier send is attributed to them.
    pub(crate) fn begin(&mut self) {
        self.receiver = None;
    }

    /// Records that something is sent, perhaps by a timer.
    pub(crate) fn sent(&mut self, to: u32) {
        self.receiver.get_or_insert(to);
    }

    /// Records that a timer has fired. `pending` returns how many timers are pending after that. Returns whether more
    /// than `most` timers have fired that were not pending at first.
    pub(crate) fn fired(&mut self, pending: impl FnOnce() -> usize, most: u64) -> bool {
        if self.count == 0 {
            self.pending = 1 + pending() as u64;
        }
        self.count += 1;
        self.total += 1;
        if let Some(receiver) = self.receiver.take() {
            *self.of.entry(receiver).or_insert(0) += 1;
        }
        self.are_endless = self.count > self.pending.saturating_add(most);
        self.are_endless
    }

    /// Returns whether too many timers have fired.
    pub(crate) fn are_endless(&self) -> bool {
        self.are_endless
    }

    pub(crate) fn count(&self) -> u64 {
        self.count
    }

    pub(crate) fn total(&self) -> u64 {
        self.total
    }

    /// Returns the processes for which the most timers fired, with the number of timers for each. Timers that have sent
    /// nothing are under `None`.
    pub(crate) fn busiest(&self, most: usize) -> Vec<(Option<u32>, u64)> {
        let others = self.count - self.of.values().sum::<u64>();
        let of = self.of.iter().map(|(actor, count)| (Some(*actor), *count));
        let mut all: Vec<_> = of.chain([(None, others)]).filter(|(_, count)| *count > 0).collect();
        all.sort_by_key(|&(_, count)| std::cmp::Reverse(count));
        all.truncate(most);
        all
    }
}

#[cfg(test)]
mod tests {
    use super::super::campaign::Simulation;
    use super::super::sim::Sim;
    use super::*;
    use crate::Mailbox;
    use crate::engine::host::Scheduler;
    use crate::env::clock::{Moment, TimeKeeper};
    use std::time::Duration;

    /// Sets a timer for the current moment. That timer sets the next one, and so on, `left` times.
    fn set_again(host: &'static Scheduler, left: u32) {
        if left > 0 {
            let due = Moment::now_by(host.clock_override());
            host.later(due, Box::new(move || set_again(host, left - 1)));
        }
    }

    /// Catches: a clock that stays at one moment forever, both on the thread of the test and on that of processes.
    /// Without the bound these runs pass, after 10,000 timers each.
    #[test]
    fn a_timer_that_sets_itself_again_for_its_moment_ends_the_run() {
        let bodies: [fn(&Sim); 2] = [
            |sim| sim.advance(Duration::from_secs(1)),
            |_| _ = Mailbox::new().expect("there is a slot").receive_timeout(Duration::from_secs(1)),
        ];
        for body in bodies {
            let test = Simulation::new("at once").seed(0).max_turns(500).check(move |sim| {
                set_again(sim.host().scheduler(), 10_000);
                body(&sim);
            });
            let error = test.expect_err("time stands still").to_string();
            assert!(error.contains("livelock: 503 timers fired") && error.contains("no process: 503"), "{error}");
        }
    }

    /// Catches: a bound that counts timers that the test has set, and a bound that a turn does not reset.
    #[test]
    fn those_that_were_pending_do_not_count_and_a_turn_begins_anew() {
        let mut fired = FiredTimers::default();
        for round in 0..3 {
            // Each of the 100 timers that are pending at one moment sets another one.
            let endless = (0..110).filter(|_| fired.fired(|| 99, 10)).count();
            assert_eq!((endless, fired.count()), (0, 110), "in round {round}");
            assert!(fired.fired(|| 99, 10) && fired.are_endless(), "in round {round}");
            fired.end();
            assert!(!fired.are_endless(), "in round {round}");
        }
        assert_eq!(fired.total(), 333);
    }

    /// Catches: a timer that is counted for a process to which another timer has sent.
    #[test]
    fn each_counts_for_the_first_that_it_sends_to() {
        let mut fired = FiredTimers::default();
        fired.sent(9);
        fired.begin();
        for receivers in [&[1, 2][..], &[2], &[], &[2], &[2], &[], &[3]] {
            receivers.iter().for_each(|&to| fired.sent(to));
            fired.fired(|| 0, 100);
        }
        assert_eq!(fired.busiest(3), [(Some(2), 3), (None, 2), (Some(1), 1)]);
    }
}
