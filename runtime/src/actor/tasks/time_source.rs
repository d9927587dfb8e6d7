//! Who keeps the time for a process, and what time that is.

use crate::engine::context::local::with_current;
use crate::engine::lifecycle::spawn::current_host;
use crate::env::clock::{Moment, TimeKeeper, is_told};
use crate::pid::Pid;
use crate::routing::alias::behind;
use crate::slots::{Slot, TABLE};
use crate::time::timekeeper::timekeeper;

/// Now, for a call of `pid`: by the time of the process that calls, or outside of processes by that of the one called.
pub(crate) fn now_for(pid: Pid) -> Moment {
    if is_told() || with_current(|context| context.is_some()) {
        Moment::now()
    } else {
        Moment::now_by(keeper(pid).and_then(TimeKeeper::told))
    }
}

/// Who does later what is sent later to `pid`; `None` if no such process lives in this program.
pub(crate) fn keeper(pid: Pid) -> Option<&'static dyn TimeKeeper> {
    let own = match pid.resolve().and_then(|pid| TABLE.living(pid)).and_then(Slot::home) {
        Some(home) => home.scheduler.time_keeper(),
        // No process serves behind it now, and one may then.
        None if behind(pid).is_some() => None,
        None => return None,
    };
    // Nor does a thread that owns a mailbox keep time.
    Some(own.unwrap_or_else(|| current_host().map_or(timekeeper() as &'static dyn TimeKeeper, |host| host)))
}
