//! How long a message waits in a mailbox, measured by a note that waits there like one.

use crate::env::clock::instant_now;
use crate::sync::{Arc, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// In place of the nanoseconds that it has waited.
const WAITS: u64 = u64::MAX;
const GONE: u64 = u64::MAX - 1;

/// The note, among the messages of a process. Dropped if the process ends before it comes to it.
pub(crate) struct WaitProbe(Arc<ProbeState>);

#[derive(Debug)]
struct ProbeState {
    began: Instant,
    waited: AtomicU64,
}

impl WaitProbe {
    pub(crate) fn new() -> (Self, WaitMeasurement) {
        let state = Arc::new(ProbeState { began: instant_now(), waited: AtomicU64::new(WAITS) });
        (Self(state.clone()), WaitMeasurement(state))
    }

    /// The process has come to it.
    pub(crate) fn has_come(&self) {
        let waited = instant_now().saturating_duration_since(self.0.began).as_nanos();
        self.0.waited.store(u64::try_from(waited).unwrap_or(GONE - 1).min(GONE - 1), Ordering::Release);
    }
}

impl Drop for WaitProbe {
    fn drop(&mut self) {
        // No effect if it has come.
        let _come = self.0.waited.compare_exchange(WAITS, GONE, Ordering::AcqRel, Ordering::Relaxed);
    }
}

/// A measurement of how long a message waits in a mailbox: made by [`Pid::measure_wait`](crate::Pid::measure_wait).
#[derive(Debug)]
pub struct WaitMeasurement(Arc<ProbeState>);

/// What a [`WaitMeasurement`] shows so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Waited {
    /// The process has not come to it; it has waited so long.
    SoFar(Duration),
    /// It waited so long.
    For(Duration),
    /// The process ended before it came to it.
    Gone,
}

impl WaitMeasurement {
    /// Looks at it. Blocks nothing, and may be called as often as one likes.
    pub fn look(&self) -> Waited {
        match self.0.waited.load(Ordering::Acquire) {
            WAITS => Waited::SoFar(instant_now().saturating_duration_since(self.0.began)),
            GONE => Waited::Gone,
            nanoseconds => Waited::For(Duration::from_nanos(nanoseconds)),
        }
    }
}
