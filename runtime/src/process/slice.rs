//! What a time slice may still spend, and what it is at, in a place that the watchdog looks into.
//!
//! A time slice ends when it has spent its budget of events, and it ends when it has taken too long. No clock is read
//! for that: whenever the watchdog looks at what the threads do (a *tick*, see `engine/watchdog`) it marks the time
//! slices that are at work, and takes the budget of one that it has marked before.
//!
//! What is compared is the thread's count of what was spent, which only grows, with a word that says where it ends. The
//! thread writes the word when a time slice begins, and the watchdog changes it:
//!
//! * B1 the thread begins a time slice: it stores the end, an odd number.
//! * M1 the watchdog, at a tick, exchanges an odd end for the even one before it: one tick has passed in this time
//!   slice.
//! * M2 the watchdog, at a tick, exchanges an even one for zero: a second tick has passed, and the time slice ends with
//!   the event that is at work. So a time slice ends between one tick and two after it began, and that event's rest.
//! * B2 the thread sees in the comparison that it makes before each event that nothing is left.
//!
//! The watchdog exchanges only what it has seen, and no two time slices of a thread have the same end unless the one
//! before has spent nothing: so what M1 marks and M2 takes is the time slice that was seen, and a mark that is lost to
//! B1 belonged to the time slice before. (A time slice that spends nothing calls no code of a process but one step's.)
//! The one or two events of the budget that the marks take are of no account.
//!
//! The word is the thread's own, so that a tick costs the thread a miss of the cache, and nothing else: the comparison
//! was there before. (Rejected: one word for all that counts ticks, of which each time slice keeps the value it began
//! with; two loads and a subtraction more for each event.)

use crate::mailbox::payload::{Payload, TypeMark};
use crate::sync::{AtomicU64, Ordering};

/// See the module.
pub(crate) struct TimeSlice {
    /// Where the thread's count of what was spent ends the time slice.
    end: AtomicU64,
    message: TypeMark,
}

impl TimeSlice {
    /// A time slice that has nothing to spend.
    pub(crate) fn new() -> Self {
        Self { end: AtomicU64::new(0), message: TypeMark::new() }
    }

    /// B1: a time slice begins, when so much has been spent, and may spend so much more.
    #[inline(always)]
    pub(crate) fn begin(&self, spent: u64, budget: u32) {
        self.end.store((spent + u64::from(budget) - 1) | 1, Ordering::Relaxed);
        self.message.clear();
    }

    /// The time slice may spend nothing more.
    pub(crate) fn end(&self) {
        self.end.store(0, Ordering::Relaxed);
    }

    /// B2: whether the time slice is over when so much has been spent.
    #[inline(always)]
    pub(crate) fn is_over(&self, spent: u64) -> bool {
        spent >= self.end.load(Ordering::Relaxed)
    }

    /// The process is given a message.
    pub(crate) fn note_message(&self, message: &Payload) {
        self.message.set(message);
    }

    /// The process is given an `M`.
    #[inline(always)]
    pub(crate) fn note_message_of<M: Send + 'static>(&self) {
        self.message.set_to::<M>();
    }

    /// The step that begins is about something else than messages.
    pub(crate) fn forget_message(&self) {
        self.message.clear();
    }

    /// The type of the message that the process was given last in this time slice. For the watchdog: it may be out of
    /// date at once.
    pub(crate) fn message(&self) -> Option<&'static str> {
        self.message.name()
    }

    /// M1 and M2: a tick, while the thread is in a time slice.
    pub(crate) fn tick(&self) {
        let seen = self.end.load(Ordering::Relaxed);
        let next = if seen.is_multiple_of(2) { 0 } else { seen - 1 };
        if seen != next {
            // Failing, it was another time slice's.
            let _met = self.end.compare_exchange(seen, next, Ordering::Relaxed, Ordering::Relaxed);
        }
    }
}

/// How much one time slice may take and send.
pub(crate) const BUDGET: u32 = 128;
const _: () = assert!(BUDGET < 256, "a slot counts fewer than 256 messages a step");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_turn_is_over_when_it_has_spent_its_budget() {
        for began in [0, 7, 1 << 40] {
            let turn = TimeSlice::new();
            turn.begin(began, 128);
            assert!(!turn.is_over(began) && !turn.is_over(began + 126) && turn.is_over(began + 128));
        }
    }

    #[test]
    fn the_second_tick_of_a_turn_ends_it() {
        let turn = TimeSlice::new();
        turn.begin(7, 128);
        turn.tick();
        assert!(!turn.is_over(7 + 125), "one tick may have come just after the turn began");
        turn.tick();
        assert!(turn.is_over(7));
        turn.tick();
        assert!(turn.is_over(7), "and nothing goes on with it");
    }

    #[test]
    fn a_turn_does_not_answer_for_the_ticks_of_the_one_before() {
        let turn = TimeSlice::new();
        for began in 0..10 {
            turn.begin(began, 128);
            turn.tick();
            assert!(!turn.is_over(began));
        }
    }

    #[test]
    fn a_turn_that_was_ended_stays_so() {
        let turn = TimeSlice::new();
        turn.begin(7, 128);
        turn.tick();
        turn.end();
        turn.tick();
        assert!(turn.is_over(7));
    }

    #[test]
    fn the_type_of_the_last_message_is_known_until_the_turn_is_over() {
        let turn = TimeSlice::new();
        turn.begin(0, 128);
        assert_eq!(turn.message(), None);
        turn.note_message(&Payload::new(7_i64));
        assert_eq!(turn.message(), Some("i64"));
        turn.begin(1, 128);
        assert_eq!(turn.message(), None);
    }
}
