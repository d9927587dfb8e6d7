//! Decides how long a shutdown waits, and for which steps. Uses no thread and no clock: the shutdown passes in its
//! observations and the time.
//!
//! Only time can tell whether a step will return. So a step that has been running for [`GRACE`], and whose process has
//! been killed, counts as *stuck*. The time counts from when the step was first seen, and the shutdown first looks
//! [`GRACE`] before its deadline. Hence
//!
//! * a step that was running then is stuck at the deadline, and does not extend the shutdown;
//! * a step that began later extends it by at most [`GRACE`];
//! * code that runs only because its process was killed (`close`, or the drop of the state) may begin as late as the
//!   end of that extension; all such code together extends the shutdown by at most [`GRACE`] once more.
//!
//! Processes outside of steps need no time limit except the final one: they end as soon as a thread takes them.
//!
//! A thread that has been told to end may also be in user code that is not a step. It gets [`GRACE`] as well, from when
//! it was first seen in such code, whether or not a process was killed.

use crate::engine::watchdog::detector::StepId;
use std::time::{Duration, Instant};

/// How long a step may run after its process was killed. A guess: a thread may wait for a core that long.
pub(crate) const GRACE: Duration = Duration::from_millis(200);

#[derive(Debug)]
pub(crate) struct Grace {
    deadline: Option<Instant>,
    killed: Option<Instant>,
    /// The steps passed to the most recent call of `look`, and the time at which each was first seen.
    steps: Vec<(StepId, Instant)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum GraceStep {
    /// Wait until this moment (`None`: forever), or until at most this many processes are left, and look again.
    Wait(Option<Instant>, u64),
    Kill,
    Stop,
}

impl Grace {
    /// Returns the state for a shutdown that kills at `deadline`.
    pub(crate) fn until(deadline: Option<Instant>) -> Self {
        Self { deadline, killed: None, steps: Vec::new() }
    }

    pub(crate) fn look(&mut self, now: Instant, steps: impl Iterator<Item = StepId>) {
        let before = std::mem::take(&mut self.steps);
        let since = |step: StepId| before.iter().find(|(other, _)| *other == step).map_or(now, |(_, since)| *since);
        self.steps = steps.map(|step| (step, since(step))).collect();
    }

    /// Forgets the steps seen so far.
    pub(crate) fn begin_anew(&mut self) {
        self.steps.clear();
    }

    /// Returns the next action when `left` processes are left. Must be called after [`look`](Self::look), which gets
    /// their steps.
    pub(crate) fn next(&mut self, now: Instant, left: u64) -> GraceStep {
        if left == 0 {
            return GraceStep::Stop;
        }
        let Some(killed) = self.killed else { return self.before_deadline(now) };
        let stuck = self.steps.iter().filter(|(_, since)| now >= *since + GRACE).count() as u64;
        if left <= stuck || now >= killed + GRACE {
            return GraceStep::Stop;
        }
        let lasts = self.steps.iter().map(|(_, since)| *since + GRACE).filter(|until| *until > now);
        GraceStep::Wait(lasts.chain([killed + GRACE]).min(), stuck)
    }

    fn before_deadline(&mut self, now: Instant) -> GraceStep {
        match self.deadline {
            None => GraceStep::Wait(None, 0),
            Some(deadline) if now >= deadline => {
                self.killed = Some(now);
                GraceStep::Kill
            }
            Some(deadline) => {
                let look = deadline.checked_sub(GRACE).filter(|look| *look > now);
                GraceStep::Wait(look.or(self.deadline), 0)
            }
        }
    }

    /// Returns whether to stop waiting for a thread that has been told to end and is in `step`. Must be called after
    /// [`look`](Self::look), which gets all such steps.
    pub(crate) fn gives_up(&self, now: Instant, step: StepId) -> bool {
        let is_last = self.killed.is_some_and(|killed| now >= killed + 2 * GRACE);
        is_last || self.steps.iter().any(|(other, since)| *other == step && now >= *since + GRACE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(slot: usize) -> StepId {
        StepId { slot, steps: 7 }
    }

    /// Simulates a shutdown with this deadline that starts at time zero. One process is in a step that begins at
    /// `begins` and never returns; `others` more processes end when they are killed. Returns the times at which the
    /// shutdown tells the threads to end, and at which it gives up on them.
    fn shutdown(deadline: Duration, begins: Duration, others: u64) -> (Duration, Duration) {
        let (start, tick) = (Instant::now(), Duration::from_millis(1));
        let mut grace = Grace::until(start.checked_add(deadline));
        let (mut now, mut left) = (start, 1 + others);
        let at_work = |now: Instant| (now >= start + begins).then_some(step(1));
        loop {
            grace.look(now, at_work(now).into_iter());
            match grace.next(now, left) {
                GraceStep::Wait(Some(until), most) if left > most => now = until,
                GraceStep::Wait(..) => now += tick,
                GraceStep::Kill => left = 1,
                GraceStep::Stop => break,
            }
        }
        let stopped = now - start;
        while !grace.gives_up(now, step(1)) {
            now += tick;
            grace.look(now, at_work(now).into_iter());
        }
        (stopped, now - start)
    }

    const fn ms(milliseconds: u64) -> Duration {
        Duration::from_millis(milliseconds)
    }

    #[test]
    fn a_step_that_was_going_on_long_before_the_deadline_costs_nothing_beyond_it() {
        for others in [0, 5] {
            assert_eq!(shutdown(ms(300), ms(0), others), (ms(300), ms(300)));
            assert_eq!(shutdown(ms(10_000), ms(9_800), others), (ms(10_000), ms(10_000)));
        }
    }

    #[test]
    fn a_step_that_begins_later_costs_the_grace_once() {
        // The step is first seen when all are killed.
        assert_eq!(shutdown(ms(300), ms(299), 0), (ms(500), ms(500)));
        // The step is seen from the start.
        assert_eq!(shutdown(ms(50), ms(0), 3), (ms(200), ms(200)));
        assert_eq!(shutdown(ms(0), ms(0), 3), (GRACE, GRACE));
    }

    #[test]
    fn what_begins_because_of_the_kill_costs_at_most_the_grace_twice() {
        // Clean-ups that run one after the other, so later ones begin late.
        let start = Instant::now();
        let mut grace = Grace::until(Some(start));
        assert_eq!(grace.next(start, 3), GraceStep::Kill);
        let mut now = start;
        let mut steps = 0;
        let mut seen = || {
            steps += 1;
            StepId { slot: 1, steps }
        };
        let stopped = loop {
            grace.look(now, [seen()].into_iter());
            match grace.next(now, 3) {
                GraceStep::Stop => break now,
                GraceStep::Wait(Some(_), _) => now += ms(7),
                other => panic!("{other:?}"),
            }
        };
        assert!(stopped >= start + GRACE && stopped <= start + GRACE + ms(7));
        loop {
            let step = seen();
            grace.look(now, [step].into_iter());
            if grace.gives_up(now, step) {
                break;
            }
            now += ms(7);
        }
        assert!(now >= start + 2 * GRACE && now <= start + 2 * GRACE + ms(7));
    }

    #[test]
    fn those_in_no_step_are_waited_for_until_they_have_ended() {
        let start = Instant::now();
        let mut grace = Grace::until(Some(start + ms(300)));
        assert_eq!(grace.next(start, 2), GraceStep::Wait(Some(start + ms(100)), 0));
        grace.look(start + ms(100), [step(1)].into_iter());
        assert_eq!(grace.next(start + ms(100), 2), GraceStep::Wait(Some(start + ms(300)), 0));
        grace.look(start + ms(300), [step(1)].into_iter());
        assert_eq!(grace.next(start + ms(300), 2), GraceStep::Kill);
        // One is stuck, and the other is about to end.
        assert_eq!(grace.next(start + ms(300), 2), GraceStep::Wait(Some(start + ms(500)), 1));
        assert_eq!(grace.next(start + ms(301), 1), GraceStep::Stop);
    }

    #[test]
    fn a_shutdown_without_a_deadline_kills_nobody() {
        let mut grace = Grace::until(None);
        assert_eq!(grace.next(Instant::now(), 1), GraceStep::Wait(None, 0));
        assert_eq!(grace.next(Instant::now(), 0), GraceStep::Stop);
    }

    #[test]
    fn another_step_of_the_same_process_begins_anew() {
        let start = Instant::now();
        let mut grace = Grace::until(Some(start));
        assert_eq!(grace.next(start, 1), GraceStep::Kill);
        grace.look(start, [StepId { slot: 1, steps: 1 }].into_iter());
        let later = start + GRACE / 2;
        grace.look(later, [StepId { slot: 1, steps: 2 }].into_iter());
        assert!(!grace.gives_up(start + GRACE, StepId { slot: 1, steps: 2 }));
        assert!(grace.gives_up(later + GRACE, StepId { slot: 1, steps: 2 }));
    }
}
