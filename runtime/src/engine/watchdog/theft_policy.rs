//! Whether thieves take from a thread's deque: decided by the watchdog, from what thefts have gained and from how fast
//! the program is with and without them. No thread and no clock: the caller passes samples.
//!
//! # Why
//!
//! A theft pays if the thief is then busy with what it has taken. Where many processes talk to one (a dictionary and
//! its clients, an arbiter and those that it serves) it does not: what was stolen runs one short step, sends something
//! to the process on the other core, is woken there by the answer, and the thief has nothing again. Then each message
//! moves some lines of memory between the cores, and each of the two threads steals back what the other one has just
//! stolen. Measured: four times slower on two workers than on one. But nothing in a deque tells these processes from
//! pairs that talk among themselves, for which a theft doubles the speed.
//!
//! # The rule
//!
//! * *judge*: a thief that has run out of work judges its last theft: it was *poor* if the thief's steps since then
//!   were [`BRIEF`], and either fewer than [`WORTH`] for each stolen process, or over in less than [`SHORT`].
//! * *try*: a thread whose steps are brief, and from which there have been [`POOR`] poor thefts since the last tick,
//!   is *left alone*: thieves take nothing from its deque, and it wakes none for what it pushes there.
//! * *compare*: at the next tick the rate of events of the whole program is compared with that of the tick before. If
//!   it is lower without thieves ([`LOSS`]), they come back, and poor thefts are of no consequence for [`STAY`] ticks.
//!   Otherwise the thread is left alone for as many, and then thieves come back, to be judged anew.
//! * *end*: a thread whose steps are not brief any more, or that has no permit, is not left alone any longer.
//!
//! The comparison is what decides; *judge* only keeps programs in which thefts pay from trying without. So it may be
//! rough, and costs one tick of 65 where it is wrong.
//!
//! # How long a process waits
//!
//! What lies in the deque of a thread that is left alone waits for brief steps of this thread. Behind a step that is
//! not brief it waits until the next tick (*end*), which announces it: 2.5 ms at most, where without this rule another
//! thread would take it at once. All other queues, and the other ways to a deque (`find`), are not concerned.
//!
//! Source: own. Erlang's schedulers balance the lengths of their queues at intervals, and otherwise steal only when
//! they have nothing; Go and Tokio steal whatever there is.

use std::time::Duration;

/// Steps that take less than this on average. A message between two cores takes 0.1 to 0.2 µs, and with a theft, its
/// search and a wake-up in between some microseconds.
const BRIEF: Duration = Duration::from_micros(2);

/// How many steps there must be for each stolen process.
const WORTH: u64 = 16;

/// How long a thief must be busy: about as long as it takes to wake one.
const SHORT: Duration = Duration::from_micros(50);

/// The number of poor thefts in a tick from which a thread is left alone.
const POOR: u64 = 4;

/// For how many ticks a comparison holds: 160 ms.
const STAY: u32 = 64;

/// Thieves come back if the rate without them is below this part of the rate with them, in quarters. (A tick on a busy
/// machine is one tenth faster or slower than the next.)
const LOSS: u64 = 3;

fn are_brief(steps: u64, took: Duration) -> bool {
    took.as_nanos() < u128::from(steps) * BRIEF.as_nanos()
}

/// What a thief has done since its last theft.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Gain {
    /// How many processes it took.
    pub(crate) stolen: u64,
    pub(crate) steps: u64,
    pub(crate) took: Duration,
}

impl Gain {
    /// *judge*
    pub(crate) fn is_poor(self) -> bool {
        are_brief(self.steps, self.took) && (self.steps < self.stolen * WORTH || self.took < SHORT)
    }
}

/// What a thread has done since the last tick.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ThreadWork {
    pub(crate) steps: u64,
    pub(crate) poor_thefts: u64,
    pub(crate) has_permit: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Treatment {
    #[default]
    Shared,
    /// Left alone for one tick, after one with this rate.
    Trial(u64),
    /// Left alone for so many more ticks.
    Alone(u32),
    /// Not left alone for so many more ticks, whatever thefts gain.
    Barred(u32),
}

#[derive(Debug, Default)]
pub(crate) struct TheftPolicy {
    treatments: Vec<Treatment>,
}

impl TheftPolicy {
    /// Handles a tick for one thread; `events` are what all threads have done since the last one. Returns whether the
    /// thread is left alone until the next one.
    pub(crate) fn look(&mut self, thread: usize, work: ThreadWork, took: Duration, events: u64) -> bool {
        if self.treatments.len() <= thread {
            self.treatments.resize(thread + 1, Treatment::Shared);
        }
        let rate = events.saturating_mul(1_000_000) / u64::try_from(took.as_nanos()).unwrap_or(u64::MAX).max(1);
        let may_be_alone = work.has_permit && are_brief(work.steps, took);
        let treatment = match self.treatments[thread] {
            Treatment::Barred(0) => Treatment::Shared,
            Treatment::Barred(ticks) => Treatment::Barred(ticks - 1),
            // *end*
            _ if !may_be_alone => Treatment::Shared,
            // *try*
            Treatment::Shared if work.poor_thefts >= POOR => Treatment::Trial(rate),
            // *compare*
            Treatment::Trial(before) if rate.saturating_mul(4) < before.saturating_mul(LOSS) => Treatment::Barred(STAY),
            Treatment::Trial(_) => Treatment::Alone(STAY),
            Treatment::Shared | Treatment::Alone(0) => Treatment::Shared,
            Treatment::Alone(ticks) => Treatment::Alone(ticks - 1),
        };
        self.treatments[thread] = treatment;
        matches!(treatment, Treatment::Trial(_) | Treatment::Alone(_))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TICK: Duration = Duration::from_micros(2_500);

    /// A thread that makes 100 ns steps, and is stolen from in vain.
    const HUB: ThreadWork = ThreadWork { steps: 25_000, poor_thefts: 9, has_permit: true };

    #[test]
    fn a_theft_is_judged_by_what_the_thief_then_did() {
        let gain = |stolen, steps, micros| Gain { stolen, steps, took: Duration::from_micros(micros) }.is_poor();
        assert!(gain(8, 100, 100), "each stolen process has run for some steps, and is gone");
        assert!(gain(1, 100, 30), "it was not worth a wake-up");
        assert!(!gain(8, 1_000, 100), "it was busy for long enough");
        assert!(!gain(8, 8, 80), "long steps are worth a theft each");
        assert!(!gain(1, 0, 10), "and so is one that has not ended");
    }

    #[test]
    fn a_thread_is_left_alone_as_long_as_thieves_gain_nothing() {
        let mut policy = TheftPolicy::default();
        assert!(!policy.look(1, ThreadWork { poor_thefts: POOR - 1, ..HUB }, TICK, 1_000));
        assert!(policy.look(1, HUB, TICK, 1_000), "they have gained nothing");
        let alone = ThreadWork { poor_thefts: 0, ..HUB };
        assert!((0..=STAY).all(|_| policy.look(1, alone, TICK, 3_000)), "the program is faster without");
        assert!(!policy.look(1, alone, TICK, 3_000), "but that is measured anew");
        assert!(policy.look(1, HUB, TICK, 1_000));
        assert!(!policy.look(0, alone, TICK, 1_000), "another thread is not concerned");
    }

    #[test]
    fn thieves_come_back_if_the_program_is_slower_without() {
        let mut policy = TheftPolicy::default();
        assert!(policy.look(0, HUB, TICK, 4_000));
        assert!(!policy.look(0, ThreadWork { poor_thefts: 0, ..HUB }, TICK, 2_900));
        assert!((0..=STAY).all(|_| !policy.look(0, HUB, TICK, 4_000)), "and stay");
        assert!(policy.look(0, HUB, TICK, 4_000));
        assert!(policy.look(0, HUB, 2 * TICK, 6_100), "a rate, whatever the length of a tick");
    }

    #[test]
    fn a_thread_with_long_steps_or_without_a_permit_is_not_left_alone() {
        for other in [ThreadWork { steps: 1_000, ..HUB }, ThreadWork { has_permit: false, ..HUB }] {
            let mut policy = TheftPolicy::default();
            assert!(!policy.look(0, other, TICK, 1_000));
            assert!(policy.look(0, HUB, TICK, 1_000));
            assert!(!policy.look(0, other, TICK, 1_000), "not even for the rest of a trial");
            assert!(policy.look(0, HUB, TICK, 1_000) && policy.look(0, HUB, TICK, 1_000));
            assert!(!policy.look(0, other, TICK, 1_000));
        }
    }
}
