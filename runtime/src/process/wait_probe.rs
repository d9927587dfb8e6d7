//! Measures how long messages wait in a mailbox, with a probe that queues there like a message.

use crate::env::clock::instant_now;
use crate::sync::{Arc, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Stored instead of a number of nanoseconds while the probe waits.
const WAITS: u64 = u64::MAX;
/// Stored instead of a number of nanoseconds once the probe was dropped without having been reached.
const GONE: u64 = u64::MAX - 1;

/// A probe among the messages of a process. If the process ends before it reaches the probe, the probe is dropped.
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

    /// Records that the process has reached the probe.
    pub(crate) fn has_come(&self) {
        let waited = instant_now().saturating_duration_since(self.0.began).as_nanos();
        self.0.waited.store(u64::try_from(waited).unwrap_or(GONE - 1).min(GONE - 1), Ordering::Release);
    }
}

impl Drop for WaitProbe {
    fn drop(&mut self) {
        // Has no effect if the process has reached the probe.
        let _come = self.0.waited.compare_exchange(WAITS, GONE, Ordering::AcqRel, Ordering::Relaxed);
    }
}

/// A measurement of how long a message waits in a mailbox. Created by [`Pid::measure_wait`](crate::Pid::measure_wait).
#[derive(Debug)]
pub struct WaitMeasurement(Arc<ProbeState>);

/// The result of a [`WaitMeasurement`] so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Waited {
    /// The process has not reached the probe. The probe has waited this long so far.
    SoFar(Duration),
    /// The process reached the probe after this time.
    For(Duration),
    /// The process ended before it reached the probe.
    Gone,
}

impl WaitMeasurement {
    /// Returns the result so far. Never blocks, and may be called any number of times.
    pub fn look(&self) -> Waited {
        match self.0.waited.load(Ordering::Acquire) {
            WAITS => Waited::SoFar(instant_now().saturating_duration_since(self.0.began)),
            GONE => Waited::Gone,
            nanoseconds => Waited::For(Duration::from_nanos(nanoseconds)),
        }
    }
}
