//! The clock of a process, and the `TimeKeeper` of its timers.

use crate::engine::{context::thread::with_current, lifecycle::spawn::current_host};
use crate::env::clock::{Moment, TimeKeeper, TimerKey, has_virtual_clock};
use crate::routing::hosts::{is_elsewhere, is_here};
use crate::slots::{SlotHost, TABLE};
use crate::{Pid, routing::alias::target_of, time::timekeeper::timekeeper};
use std::time::Duration;

/// A timer that is cancelled on drop.
pub(crate) struct OwnedTimer {
    time_keeper: &'static dyn TimeKeeper,
    key: TimerKey,
}

impl OwnedTimer {
    /// Sets a timer. Returns `None` if it would never fire, or if the timekeeper no longer accepts timers.
    pub(crate) fn set(
        time_keeper: &'static dyn TimeKeeper,
        due: Moment,
        action: impl FnOnce() + Send + 'static,
    ) -> Option<Self> {
        let key = if due < Moment::NEVER { time_keeper.later(due, Box::new(action))? } else { return None };
        Some(Self { time_keeper, key })
    }
}

impl Drop for OwnedTimer {
    fn drop(&mut self) {
        let _was_pending = self.time_keeper.forget(self.key);
    }
}

/// Returns the current time for a call to `pid`, by the clock of the calling process, or else by that of the called
/// one.
pub(crate) fn now_for(pid: Pid) -> Moment {
    if has_virtual_clock() || with_current(|context| context.is_some()) {
        Moment::now()
    } else {
        Moment::now_by(time_keeper(pid).and_then(TimeKeeper::clock_override))
    }
}

/// Returns the current time for a call to `pid` from outside of processes, and the default timeout of such a call, if
/// the process lives here. Such a thread may have slept since it last read the clock.
pub(crate) fn now_and_timeout_outside(pid: Pid) -> (Moment, Option<Duration>) {
    let host = pid.resolve().and_then(host_of);
    let time_keeper = host.and_then(SlotHost::time_keeper);
    let is_real = time_keeper.is_some_and(|time_keeper| time_keeper.clock_override().is_none());
    let now = if is_real { Moment::now_after_rest() } else { now_for(pid) };
    (now, host.and_then(SlotHost::call_timeout))
}

/// Returns the host of a process, if the process is alive and belongs to this program.
fn host_of(process: Pid) -> Option<&'static dyn SlotHost> {
    if is_elsewhere(process) {
        return None;
    }
    Some(TABLE.living(process)?.owner()?.host)
}

/// Returns the timekeeper for delayed sends to `pid`, or `None` if `pid` belongs to this program and no such process is
/// alive. For a process on another node, returns the sender's timekeeper.
pub(crate) fn time_keeper(pid: Pid) -> Option<&'static dyn TimeKeeper> {
    let process = pid.resolve();
    let own = match process.and_then(host_of) {
        Some(host) => host.time_keeper(),
        None if process.is_some_and(|pid| !is_here(pid)) => None,
        // The alias has no target now, but may have one later.
        None if target_of(pid).is_some() => None,
        None => return None,
    };
    // A stand-alone mailbox has no timekeeper of its own.
    Some(own.unwrap_or_else(|| current_host().map_or(timekeeper() as &'static dyn TimeKeeper, |host| host)))
}
