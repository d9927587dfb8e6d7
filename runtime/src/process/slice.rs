//! The budget of a time slice and its current activity, which the watchdog can see.
//!
//! A time slice ends when its budget of events is spent or when it has taken too long. The thread reads no clock for
//! this: at each *tick* (see `engine/watchdog`) the watchdog marks the running time slices, and removes the budget of
//! those that it has marked before.
//!
//! The thread's count of spent events only grows. It is compared with a word that holds the count at which the time
//! slice ends. The thread writes this word at the start of a time slice, and the watchdog changes it:
//!
//! * V1 the thread begins a time slice: it stores the end, an odd number.
//! * V2 the watchdog, at a tick, exchanges an odd end for the even one below it: one tick has passed.
//! * V3 the watchdog, at a tick, exchanges an even end for zero: a second tick has passed, and the time slice ends
//!   after the current event. So a time slice lasts between one and two ticks, plus the rest of that event.
//! * V4 the thread's comparison before each event finds that the budget is spent.
//!
//! The watchdog exchanges only a value that it has read, and no two time slices of a thread have the same end unless
//! the first spent nothing. So V2 and V3 affect only the time slice whose end was read, and a mark that V1 overwrites
//! belonged to the previous time slice. (A time slice that spends nothing runs user code only within one step.) The
//! marks cost one or two events of the budget, which does not matter.
//!
//! The word belongs to the thread, so a tick costs the thread one cache miss and nothing else. (Rejected: a shared
//! count of ticks, recorded at the start of each time slice. It costs two more loads and a subtraction per event.)

use crate::mailbox::payload::{Payload, TypeMark};
use crate::sync::{AtomicU64, Ordering};

/// The budget and the activity of a thread's time slice.
pub(crate) struct TimeSlice {
    /// The count of spent events at which the time slice ends.
    end: AtomicU64,
    message: TypeMark,
}

impl TimeSlice {
    pub(crate) fn new() -> Self {
        Self { end: AtomicU64::new(0), message: TypeMark::new() }
    }

    /// V1: begins a time slice with a budget of `budget` events, when `spent` events have been spent.
    #[inline(always)]
    pub(crate) fn begin(&self, spent: u64, budget: u32) {
        self.end.store((spent + u64::from(budget) - 1) | 1, Ordering::Relaxed);
        self.message.clear();
    }

    /// Begins a time slice of exactly `budget` events. (If its end is even, the slice looks as if a tick had passed, so
    /// the next tick ends it. V3 allows that.)
    pub(crate) fn begin_exactly(&self, spent: u64, budget: u32) {
        self.end.store(spent + u64::from(budget), Ordering::Relaxed);
        self.message.clear();
    }

    /// Ends the time slice after the current event.
    pub(crate) fn end(&self) {
        self.end.store(0, Ordering::Relaxed);
    }

    /// V4: returns whether the time slice is over when `spent` events have been spent.
    #[inline(always)]
    pub(crate) fn is_over(&self, spent: u64) -> bool {
        spent >= self.end.load(Ordering::Relaxed)
    }

    pub(crate) fn note_message(&self, message: &Payload) {
        if let Some(simulator) = crate::sync::simulated::here() {
            simulator.delivered(message.type_name());
        }
        self.message.set(message);
    }

    #[inline(always)]
    pub(crate) fn note_message_of<M: Send + 'static>(&self) {
        if let Some(simulator) = crate::sync::simulated::here() {
            simulator.delivered(std::any::type_name::<M>());
        }
        self.message.set_to::<M>();
    }

    /// Clears the recorded message type, because the step that begins does not handle a message.
    pub(crate) fn forget_message(&self) {
        self.message.clear();
    }

    /// Returns the type of the last message delivered in this time slice. It is meant for the watchdog. The result may
    /// already be out of date.
    pub(crate) fn message(&self) -> Option<&'static str> {
        self.message_type().map(|name| name())
    }

    /// Returns the function that names the type of the last message.
    pub(crate) fn message_type(&self) -> Option<&'static fn() -> &'static str> {
        self.message.name()
    }

    /// V2 and V3: handles a tick while the thread is in a time slice.
    pub(crate) fn tick(&self) {
        let seen = self.end.load(Ordering::Relaxed);
        let next = if seen.is_multiple_of(2) { 0 } else { seen - 1 };
        if seen != next {
            // If the exchange fails, the word that was read belonged to a time slice that is over.
            let _met = self.end.compare_exchange(seen, next, Ordering::Relaxed, Ordering::Relaxed);
        }
    }
}

/// The budget of one time slice: the number of events that it may take and messages that it may send.
pub(crate) const BUDGET: u32 = 128;
const _: () = assert!(BUDGET < 256, "a slot counts fewer than 256 messages a step");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slice_is_over_when_it_has_spent_its_budget() {
        for began in [0, 7, 1 << 40] {
            let slice = TimeSlice::new();
            slice.begin(began, 128);
            assert!(!slice.is_over(began) && !slice.is_over(began + 126) && slice.is_over(began + 128));
        }
    }

    #[test]
    fn the_second_tick_of_a_slice_ends_it() {
        let slice = TimeSlice::new();
        slice.begin(7, 128);
        slice.tick();
        assert!(!slice.is_over(7 + 125), "one tick may have come just after the slice began");
        slice.tick();
        assert!(slice.is_over(7));
        slice.tick();
        assert!(slice.is_over(7), "and nothing continues it");
    }

    #[test]
    fn a_slice_does_not_answer_for_the_ticks_of_the_one_before() {
        let slice = TimeSlice::new();
        for began in 0..10 {
            slice.begin(began, 128);
            slice.tick();
            assert!(!slice.is_over(began));
        }
    }

    #[test]
    fn a_slice_that_was_ended_stays_so() {
        let slice = TimeSlice::new();
        slice.begin(7, 128);
        slice.tick();
        slice.end();
        slice.tick();
        assert!(slice.is_over(7));
    }

    #[test]
    fn the_type_of_the_last_message_is_known_until_the_slice_is_over() {
        let slice = TimeSlice::new();
        slice.begin(0, 128);
        assert_eq!(slice.message(), None);
        slice.note_message(&Payload::new(7_i64));
        assert_eq!(slice.message(), Some("i64"));
        slice.begin(1, 128);
        assert_eq!(slice.message(), None);
    }
}
