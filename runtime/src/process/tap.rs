//! The types of the next messages of a process, for one who looks. With a limit of number and of time: one who forgets
//! to look away costs little.

use crate::env::clock::instant_now;
use crate::sync::{Arc, AtomicBool, Mutex, Ordering, lock};
use std::time::{Duration, Instant};

/// The most messages, and the longest time, that can be asked for.
const MOST: usize = 100;
const LONGEST: Duration = Duration::from_secs(10);

/// A message that a process has handled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TappedMessage {
    /// When its handling was over, or when its async method began.
    pub at: Instant,
    /// The name of its type.
    pub message: &'static str,
}

#[derive(Debug)]
struct TapState {
    most: usize,
    until: Instant,
    kept: Mutex<Vec<TappedMessage>>,
    is_over: AtomicBool,
}

/// The end at the process, which gives it up when there is nothing more to note.
#[doc(hidden)]
#[derive(Debug)]
pub struct TapSink(Arc<TapState>);

impl TapSink {
    pub(crate) fn new(most: usize, within: Duration) -> (Self, Tap) {
        let (most, until) = (most.min(MOST), instant_now() + within.min(LONGEST));
        let state = Arc::new(TapState { most, until, kept: Mutex::new(Vec::new()), is_over: AtomicBool::new(false) });
        (Self(state.clone()), Tap(state))
    }

    /// Notes a message. Returns whether there may be another.
    pub(crate) fn note(&self, message: &'static str) -> bool {
        let (state, at) = (&*self.0, instant_now());
        if at >= state.until {
            return false;
        }
        let mut kept = lock(&state.kept);
        if kept.len() < state.most {
            kept.push(TappedMessage { at, message });
        }
        kept.len() < state.most
    }
}

impl Drop for TapSink {
    fn drop(&mut self) {
        self.0.is_over.store(true, Ordering::Release);
    }
}

/// The next messages of a process, as far as they have come: made by [`Pid::tap`](crate::Pid::tap).
#[derive(Debug)]
pub struct Tap(Arc<TapState>);

impl Tap {
    /// Returns the messages so far, the oldest first.
    pub fn messages(&self) -> Vec<TappedMessage> {
        lock(&self.0.kept).clone()
    }

    /// Returns whether no more will come: the number or the time is reached, or the process has ended.
    pub fn is_over(&self) -> bool {
        self.0.is_over.load(Ordering::Acquire) || instant_now() >= self.0.until
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_tap_ends_with_its_number_or_its_time() {
        let (sink, tap) = TapSink::new(2, Duration::MAX);
        assert!(sink.note("a") && !sink.note("b") && !sink.note("c"));
        assert_eq!(tap.messages().iter().map(|tapped| tapped.message).collect::<Vec<_>>(), ["a", "b"]);
        assert!(!tap.is_over());
        drop(sink);
        assert!(tap.is_over());
        let (late, tap) = TapSink::new(usize::MAX, Duration::ZERO);
        assert!(!late.note("a") && tap.is_over() && tap.messages().is_empty());
    }
}
