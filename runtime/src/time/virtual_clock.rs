//! The time that a test moves by hand, and the runtimes that go by it.
//!
//! Nothing happens on such a clock but by [`Clock::advance`]. It goes from due moment to due moment: it lets all
//! runtimes of the clock come to rest, sets the time to the next moment that anything is due at, fires what is due
//! then, on the calling thread and in the order that it was set, and so on until the target. So ten ticks of a second
//! are ten events ten seconds apart for those who hear them, each with all that follows from it done before the next.
//! With one worker the order of everything is the same each time; with several, as on any clock, those that run at once
//! may overlap.
//!
//! # All at rest
//!
//! Runtimes of one clock may send to each other, so it is not enough that each has been at rest at some time. Each
//! gives a number that changes whenever one of its threads gets up ([`ClockUser::at_rest`]). Two looks at all of them
//! that give the same numbers prove a moment, between the two, at which no thread of any was up; and what the threads
//! had pushed before they lay down is in queues that the second look finds.

use crate::env::clock::{ClockOverride, Moment, SharedMoment, instant_now, is_told, while_going_by};
use crate::env::world::World;
use crate::sync::{Arc, Mutex, MutexGuard, lock};
use std::fmt;
use std::ptr;
use std::time::{Duration, Instant};

/// How long to wait, by the system's time, for processes to come to rest. Those that have not by then, most likely
/// never do; a guess, long enough for a machine that is busy with other things.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// Why a runtime cannot be waited for until it is idle.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum IdleError {
    /// Inside a process, or in a hook or command handler, which is not idle as long as it waits for that.
    #[error("a thread that runs processes cannot wait until they are idle; do it on a thread outside")]
    Inside,
    /// A runtime that was built paused has not been resumed.
    #[error("the runtime `{0}` is paused, and what was spawned there cannot run; call `resume` first")]
    Paused(String),
    /// The runtime has been shut down.
    #[error("the runtime `{0}` has been shut down")]
    Shutdown(String),
    /// Its processes have not come to rest.
    #[error(
        "processes of the runtime `{runtime}` have not come to rest in {waited:?}, among them: {processes}; one that goes \
         on without end, or waits in a step for something else than messages and time, is never idle"
    )]
    Busy {
        /// Its name.
        runtime: String,
        /// How long it was waited for, by the system's time.
        waited: Duration,
        /// Some of those that run, or are ready to.
        processes: String,
    },
}

/// Why a clock cannot be moved.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ClockError {
    /// It is the system's.
    #[error("the system's clock cannot be moved; build the runtime with a clock from `Clock::manual()`")]
    System,
    /// What goes by it cannot be waited for.
    #[error(transparent)]
    Idle(#[from] IdleError),
}

/// What goes by a manual clock.
pub(crate) trait ClockUser: Sync {
    /// Returns whether nothing of it runs or can run, as far as one look shows: the number of times that its threads
    /// had got up. Two looks with the same number show that it was at rest between them.
    fn at_rest(&self) -> Option<u64>;

    /// Waits until it is at rest, or has been shut down.
    fn wait_until_at_rest(&'static self, until: Instant) -> Result<(), IdleError>;

    /// When the next of its timers is due.
    fn next_due(&self) -> Moment;

    /// Fires those that are due.
    fn fire(&'static self, now: Moment);
}

/// A time that a test moves. Never freed, as the hosts that go by it, but used again.
struct Manual {
    now: SharedMoment,
    /// Held by the thread that moves the time, or lets its users come to rest.
    turn: Mutex<()>,
    driven: Mutex<Vec<&'static dyn ClockUser>>,
}

/// The clock that a runtime goes by: the system's, or one that a test moves by hand. A handle, cheap to clone.
///
/// What goes by a runtime's clock: sleeps, intervals, time-outs and deadlines of its processes, whatever is sent later
/// to one of them, `ctx.now()`, and the limits of calls that are made to its processes from async code outside. What
/// does not, because a thread of the system waits there: `wait` on a plain thread, `receive_timeout`, `shutdown` and
/// `drain`. Runtimes whose processes call each other should share a clock, since a call's deadline is told to
/// the called process.
///
/// ```
/// use postroom::prelude::*;
/// use postroom::testing::{Clock, Probe};
/// use std::time::Duration;
///
/// struct Ring;
///
/// #[process]
/// struct Alarm;
///
/// #[process]
/// impl Alarm {
///     #[entry]
///     async fn ring(&mut self, ctx: &mut Context<Self>, bell: Recipient<Ring>) {
///         ctx.sleep(Duration::from_secs(8 * 3600)).await;
///         let _gone = bell.send(Ring);
///     }
/// }
///
/// let clock = Clock::manual();
/// let runtime = Runtime::builder().clock(clock.clone()).build()?;
/// let mut bell = Probe::<Ring>::new(runtime.host())?;
/// let _night = runtime.spawn(Alarm).ring(bell.recipient())?;
/// bell.expect_nothing_for(Duration::from_secs(8 * 3600 - 1)); // in no time
/// clock.advance(Duration::from_secs(1))?;
/// bell.expect();
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Default)]
pub struct Clock(Option<Arc<ManualOwner>>);

/// The right to a manual time: with the last handle another clock can have it.
struct ManualOwner(&'static Manual);

/// Those that no clock has.
static UNUSED_TIMES: World<Mutex<Vec<&'static Manual>>> = World::new(Mutex::new(Vec::new()));

impl Drop for ManualOwner {
    fn drop(&mut self) {
        lock(&UNUSED_TIMES).push(self.0);
    }
}

impl Clock {
    /// The system's.
    pub fn system() -> Self {
        Self(None)
    }

    /// One that stands still until it is moved, beginning at the system's present time. For tests.
    pub fn manual() -> Self {
        let now = Moment::now_by(None);
        let unused = lock(&UNUSED_TIMES).pop();
        let manual = unused.unwrap_or_else(|| {
            let now = SharedMoment::new(now);
            Box::leak(Box::new(Manual { now, turn: Mutex::default(), driven: Mutex::default() }))
        });
        manual.now.store(now);
        lock(&manual.driven).clear();
        Self(Some(Arc::new(ManualOwner(manual))))
    }

    fn manual_time(&self) -> Option<&'static Manual> {
        self.0.as_ref().map(|owner| owner.0)
    }

    /// Returns whether it is one that is moved by hand.
    pub fn is_manual(&self) -> bool {
        self.0.is_some()
    }

    /// Now.
    pub fn now(&self) -> Instant {
        self.moment().instant()
    }

    pub(crate) fn moment(&self) -> Moment {
        Moment::now_by(self.told())
    }

    /// The time that it tells, if it is not the system's.
    pub(crate) fn told(&self) -> ClockOverride {
        self.manual_time().map(|manual| &manual.now)
    }

    /// Moves the time on by `duration`, from due moment to due moment: all that goes by this clock comes to rest before
    /// the time is moved, between any two moments at which something is due, and in the end. Several threads that move
    /// a clock do so one after the other.
    ///
    /// What is done by others than the processes of these runtimes (threads that handle commands, tasks of other
    /// executors) is not waited for.
    ///
    /// # Errors
    /// [`ClockError::System`] for the system's clock; [`ClockError::Idle`] inside a process, with a runtime on the
    /// clock that is paused, and when processes do not come to rest for a minute of the system's time. The time is then
    /// where it had come to.
    pub fn advance(&self, duration: Duration) -> Result<(), ClockError> {
        self.advance_until(duration, || false)
    }

    /// The same; it ends early, at rest, when `is_enough`, which is asked whenever all have come to rest.
    pub(crate) fn advance_until(
        &self,
        duration: Duration,
        mut is_enough: impl FnMut() -> bool,
    ) -> Result<(), ClockError> {
        let manual = self.manual_time().ok_or(ClockError::System)?;
        let _turn = manual.take_turn()?;
        let target = manual.now.load().after(duration).min(Moment::LAST);
        loop {
            manual.settle()?;
            if is_enough() {
                return Ok(());
            }
            let next = manual.driven().iter().map(|driven| driven.next_due()).min().unwrap_or(Moment::NEVER);
            if next > target {
                break;
            }
            manual.now.store(next);
            manual.fire();
        }
        manual.now.store(target);
        Ok(())
    }

    /// Waits until all that goes by a manual clock is at rest, and nothing is due; gives whether it is a manual one.
    pub(crate) fn settle(&self) -> Result<bool, IdleError> {
        let Some(manual) = self.manual_time() else { return Ok(false) };
        let _turn = manual.take_turn()?;
        manual.settle().map(|()| true)
    }

    /// From here on `driven` goes by this clock.
    pub(crate) fn drive(&self, driven: &'static dyn ClockUser) {
        if let Some(manual) = self.manual_time() {
            lock(&manual.driven).push(driven);
        }
    }

    /// It does not any more.
    pub(crate) fn let_go(&self, driven: &'static dyn ClockUser) {
        if let Some(manual) = self.manual_time() {
            lock(&manual.driven).retain(|other| !ptr::addr_eq(ptr::from_ref(*other), ptr::from_ref(driven)));
        }
    }
}

impl Manual {
    /// The turn to move the time; not for a thread that goes by it, or by another such: a worker, or the thread that
    /// starts a process or fires a timer.
    fn take_turn(&self) -> Result<MutexGuard<'_, ()>, IdleError> {
        if is_told() { Err(IdleError::Inside) } else { Ok(lock(&self.turn)) }
    }

    /// Those that go by it now: one that is shut down meanwhile has nothing left to do.
    fn driven(&self) -> Vec<&'static dyn ClockUser> {
        lock(&self.driven).clone()
    }

    /// Waits until all are at rest at once, and nothing is due.
    fn settle(&'static self) -> Result<(), IdleError> {
        let until = instant_now() + PATIENCE;
        loop {
            let driven = self.driven();
            driven.iter().try_for_each(|driven| driven.wait_until_at_rest(until))?;
            let look = || driven.iter().map(|driven| driven.at_rest()).collect::<Option<Vec<_>>>();
            let (first, second) = (look(), look());
            if first.is_none() || first != second {
                continue;
            }
            let now = self.now.load();
            if driven.iter().all(|driven| driven.next_due() > now) {
                return Ok(());
            }
            self.fire();
        }
    }

    fn fire(&'static self) {
        let now = self.now.load();
        while_going_by(Some(&self.now), || self.driven().into_iter().for_each(|driven| driven.fire(now)));
    }
}

impl fmt::Debug for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = if self.is_manual() { "manual" } else { "system" };
        f.debug_struct("Clock").field("kind", &kind).field("now", &self.now()).finish()
    }
}
