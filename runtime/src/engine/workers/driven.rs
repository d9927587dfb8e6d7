//! The permits of a host that have no threads of their own, and the watchdog's part in driving them: *late* and *rest*
//! of `sched/driven`.

use crate::sync::{Arc, AtomicBool, Mutex, Ordering, lock};
use std::time::Duration;

/// Number of ticks after which a thread of the host helps out: 10 ms by default.
const LATE: u32 = 4;

/// The interval at which the watchdog looks while it dozes.
const DOZE: Duration = Duration::from_millis(50);

/// A permit that is driven by threads that do not belong to it.
pub(crate) trait Driven: Send + Sync {
    /// Returns whether the permit has been called, and no thread drives it.
    fn waits(&self) -> bool;

    /// Returns how many times it has been driven.
    fn drives(&self) -> u64;

    /// Has a thread of the host's own drive it until its task is polled again.
    fn help_out(self: Arc<Self>);

    fn has_ended(&self) -> bool;
}

#[derive(Default)]
pub(crate) struct DrivenPermits {
    permits: Mutex<Vec<Arc<dyn Driven>>>,
    /// Whether the watchdog rests, and does not only doze.
    watchdog_rests: AtomicBool,
}

/// What the watchdog knows of the driven permits from its earlier ticks.
#[derive(Default)]
pub(crate) struct DrivenWatch {
    /// For each permit, the number of drives, and for how many ticks in a row it has waited since the last one.
    late: Vec<(u64, u32)>,
    /// Number of times that threads had left the list of sleepers when the watchdog last dozed.
    rises: Option<u64>,
}

impl DrivenPermits {
    pub(crate) fn add(&self, permit: Arc<dyn Driven>) {
        lock(&self.permits).push(permit);
    }

    /// Performs *late*. Called at each tick.
    pub(crate) fn look(&self, watch: &mut DrivenWatch) {
        let permits = lock(&self.permits).clone();
        watch.late.resize(permits.len(), (0, 0));
        for (permit, (drives, ticks)) in permits.iter().zip(&mut watch.late) {
            let before = std::mem::replace(drives, permit.drives());
            *ticks = if permit.waits() && *drives == before { *ticks + 1 } else { 0 };
            if *ticks >= LATE {
                permit.clone().help_out();
            }
        }
    }

    /// Performs *rest* for a watchdog that is about to rest for `longest`; `rises` returns how many times threads
    /// have left the list of sleepers. Returns how long it may rest.
    pub(crate) fn limit_rest(
        &self,
        watch: &mut DrivenWatch,
        longest: Option<Duration>,
        rises: impl FnOnce() -> u64,
    ) -> Option<Duration> {
        let permits = lock(&self.permits);
        if permits.is_empty() {
            return longest;
        }
        let doze = Some(longest.map_or(DOZE, |longest| longest.min(DOZE)));
        let rises = rises();
        if watch.rises.replace(rises) != Some(rises) {
            return doze;
        }
        self.watchdog_rests.store(true, Ordering::SeqCst);
        if permits.iter().any(|permit| permit.waits()) { doze } else { longest }
    }

    /// Forgets the permits that have ended: a task's waker keeps parts of its library alive.
    pub(crate) fn forget_ended(&self) {
        lock(&self.permits).retain(|permit| !permit.has_ended());
    }

    /// Has threads help out wherever a permit waits. Called when the watchdog has ended.
    pub(crate) fn help_all(&self) {
        let permits = lock(&self.permits).clone();
        permits.into_iter().filter(|permit| permit.waits()).for_each(Driven::help_out);
    }

    pub(crate) fn rest_is_over(&self) {
        self.watchdog_rests.store(false, Ordering::SeqCst);
    }

    pub(crate) fn does_watchdog_rest(&self) -> bool {
        self.watchdog_rests.load(Ordering::SeqCst)
    }
}
