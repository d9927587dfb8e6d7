//! Virtual clocks: the time that a test advances, and the runtimes that use it.
//!
//! Time passes only in [`Clock::advance`]. It lets all runtimes of the clock become idle, moves to the next moment at
//! which a timer is due, fires the timers of that moment on the calling thread, in the order in which they were set,
//! and repeats this until it reaches the target. So ten ticks of a second are ten events one second apart, and all
//! consequences of each are done before the next. With one worker, everything happens in the same order each time; with
//! several, processes that run at the same time may overlap, as on any clock.
//!
//! # All at rest
//!
//! Runtimes of one clock may send to each other, so it is not enough that each was idle at some time. Each runtime has
//! a number that changes whenever one of its threads unparks ([`ClockUser::at_rest`]). If two checks of all runtimes
//! find the same numbers, there was a moment between the two at which no thread was running; and whatever the threads
//! pushed before they parked is in queues that the second check examines.

use crate::env::clock::{ClockOverride, Moment, SharedMoment, has_virtual_clock, instant_now, with_clock};
use crate::env::world::World;
use crate::sync::{Arc, Mutex, MutexGuard, lock};
use std::ptr;
use std::time::{Duration, Instant};

/// How long, by the system clock, to wait for processes to become idle. A guess: if they take longer, they most likely
/// never will.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// The reason why the wait for a runtime to become idle failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum IdleError {
    /// The caller is inside a process, a hook or a command handler, so the runtime cannot become idle while the caller
    /// waits.
    #[error("a thread that runs processes cannot wait until they are idle; do it on a thread outside")]
    Inside,
    /// A paused runtime has not been resumed.
    #[error("the runtime `{0}` is paused, and what was spawned there cannot run; call `resume` first")]
    Paused(String),
    /// The runtime has been shut down.
    #[error("the runtime `{0}` has been shut down")]
    Shutdown(String),
    /// The processes of the runtime have not become idle in time.
    #[error(
        "processes of the runtime `{runtime}` are still not idle after {waited:?}, among them: {processes}; one that \
         never stops running, or waits in a step for something other than messages and time, is never idle"
    )]
    Busy {
        /// The name of the runtime.
        runtime: String,
        /// The time waited, by the system's clock.
        waited: Duration,
        /// Some of the processes that run or are ready to run.
        processes: String,
    },
}

/// The reason why a clock cannot be advanced.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ClockError {
    /// The clock is the system's.
    #[error("the system's clock cannot be moved; build the runtime with a clock from `Clock::manual()`")]
    System,
    /// The wait for the clock's runtimes to become idle failed.
    #[error(transparent)]
    Idle(#[from] IdleError),
}

pub(crate) trait ClockUser: Sync {
    /// Returns the number of unparks so far if, as far as a single check shows, nothing runs or can run. If two checks
    /// return the same number, the user was idle between them.
    fn at_rest(&self) -> Option<u64>;

    /// Waits until the user is idle or has been shut down.
    fn wait_until_at_rest(&'static self, until: Instant) -> Result<(), IdleError>;

    /// Returns the error for a user that is still not idle, or that always has something due.
    fn busy(&'static self) -> IdleError;

    fn next_due(&self) -> Moment;

    fn fire(&'static self, now: Moment);
}

/// State of a virtual clock. Like the hosts that use it, it is never freed, but reused.
struct VirtualClock {
    now: SharedMoment,
    /// Held by the thread that advances the clock or waits for the users of the clock.
    turn: Mutex<()>,
    users: Mutex<Vec<&'static dyn ClockUser>>,
}

/// The clock of a runtime: the system's, or one that a test advances. This is a handle, cheap to clone.
///
/// A runtime's clock determines the sleeps, intervals, timeouts and deadlines of its processes, delayed sends to them,
/// `ctx.now()`, and the deadlines of calls to its processes from async code outside. System threads wait by system
/// time: `wait` on a plain thread, `receive_timeout`, `shutdown` and `drain`. Runtimes whose processes call each other
/// should share a clock, since a call's deadline is passed to the called process.
///
/// ```
/// use postroom::prelude::*;
/// use postroom::test::{Clock, Probe};
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
pub struct Clock(Option<Arc<VirtualClockOwner>>);

/// Owner of a virtual clock's state. The state is reused after the last handle is dropped.
struct VirtualClockOwner(&'static VirtualClock);

/// States that no clock uses.
static UNUSED_TIMES: World<Mutex<Vec<&'static VirtualClock>>> = World::new(Mutex::new(Vec::new()));

impl Drop for VirtualClockOwner {
    fn drop(&mut self) {
        lock(&UNUSED_TIMES).push(self.0);
    }
}

impl Clock {
    /// Returns the system's clock, the default.
    pub fn system() -> Self {
        Self(None)
    }

    /// Creates a virtual clock that starts at the current time and stands still until it is advanced. Intended for
    /// tests.
    pub fn manual() -> Self {
        Self::starting_at(Moment::now_by(None))
    }

    /// Creates a virtual clock that starts at `now`.
    pub(crate) fn starting_at(now: Moment) -> Self {
        let unused = lock(&UNUSED_TIMES).pop();
        let clock = unused.unwrap_or_else(|| {
            let now = SharedMoment::new(now);
            Box::leak(Box::new(VirtualClock { now, turn: Mutex::default(), users: Mutex::default() }))
        });
        clock.now.store(now);
        lock(&clock.users).clear();
        Self(Some(Arc::new(VirtualClockOwner(clock))))
    }

    fn virtual_clock(&self) -> Option<&'static VirtualClock> {
        self.0.as_ref().map(|owner| owner.0)
    }

    /// Returns whether this is a virtual clock.
    pub fn is_manual(&self) -> bool {
        self.0.is_some()
    }

    /// Returns the current time.
    pub fn now(&self) -> Instant {
        self.moment().instant()
    }

    pub(crate) fn moment(&self) -> Moment {
        Moment::now_by(self.clock_override())
    }

    /// Returns the time of this clock, unless it is the system clock.
    pub(crate) fn clock_override(&self) -> ClockOverride {
        self.virtual_clock().map(|clock| &clock.now)
    }

    /// Advances the clock by `duration`, from one due moment to the next: all its runtimes become idle before each
    /// move, and at the end. If several threads advance a clock, they take turns.
    ///
    /// Does not wait for work outside of the processes of these runtimes (threads that handle commands, tasks of other
    /// executors).
    ///
    /// # Errors
    /// [`ClockError::System`] for the system clock; [`ClockError::Idle`] if the caller is inside a process, if a
    /// runtime of the clock is paused, or if processes do not become idle within a minute of system time. The clock
    /// stays at the moment that it had reached.
    pub fn advance(&self, duration: Duration) -> Result<(), ClockError> {
        self.advance_until(duration, || false)
    }

    /// Like [`advance`](Self::advance), but ends early when `is_enough`, called whenever all runtimes are idle, returns
    /// true.
    pub(crate) fn advance_until(
        &self,
        duration: Duration,
        mut is_enough: impl FnMut() -> bool,
    ) -> Result<(), ClockError> {
        let clock = self.virtual_clock().ok_or(ClockError::System)?;
        let _turn = clock.take_turn()?;
        let target = clock.now.load().after(duration).min(Moment::LAST);
        loop {
            clock.settle()?;
            if is_enough() {
                return Ok(());
            }
            let next = clock.users().iter().map(|user| user.next_due()).min().unwrap_or(Moment::NEVER);
            if next > target {
                break;
            }
            // The timer may have been set late, by a thread outside that had read the time before the clock moved.
            clock.now.store(next.max(clock.now.load()));
            clock.fire();
        }
        clock.now.store(target);
        Ok(())
    }

    /// Waits until everything on a virtual clock is idle and nothing is due. Returns false for the system clock.
    pub(crate) fn settle(&self) -> Result<bool, IdleError> {
        let Some(clock) = self.virtual_clock() else { return Ok(false) };
        let _turn = clock.take_turn()?;
        clock.settle().map(|()| true)
    }

    /// Moves to the next moment at which a timer is due, or to `limit` if that is earlier. Adds `late` to that moment,
    /// and fires what is due. Returns the new time, or `None` if there is no timer and no limit. All users must be
    /// idle.
    #[cfg(feature = "test")]
    pub(crate) fn leap(&self, limit: Moment, late: Duration) -> Option<Moment> {
        let clock = self.virtual_clock()?;
        let next = clock.users().iter().map(|user| user.next_due()).min()?.min(limit);
        if next == Moment::NEVER {
            return None;
        }
        let moved = clock.now.load().max(next.after(late).min(Moment::LAST));
        clock.now.store(moved);
        clock.fire();
        Some(moved)
    }

    pub(crate) fn add_user(&self, user: &'static dyn ClockUser) {
        if let Some(clock) = self.virtual_clock() {
            lock(&clock.users).push(user);
        }
    }

    pub(crate) fn remove_user(&self, user: &'static dyn ClockUser) {
        if let Some(clock) = self.virtual_clock() {
            lock(&clock.users).retain(|other| !ptr::addr_eq(ptr::from_ref(*other), ptr::from_ref(user)));
        }
    }
}

impl VirtualClock {
    /// Takes the right to advance the clock. Refused on threads that use a virtual clock: workers, and threads that are
    /// starting a process or firing a timer.
    fn take_turn(&self) -> Result<MutexGuard<'_, ()>, IdleError> {
        if let Some(simulator) = crate::sync::simulated::here() {
            if !simulator.is_test() {
                return Err(IdleError::Inside);
            }
            simulator.begins_to_wait();
            return Ok(lock(&self.turn));
        }
        if has_virtual_clock() { Err(IdleError::Inside) } else { Ok(lock(&self.turn)) }
    }

    /// Returns the current users. A user that is shut down in the meantime has nothing left to do.
    fn users(&self) -> Vec<&'static dyn ClockUser> {
        lock(&self.users).clone()
    }

    /// Waits until all users are idle at the same time, and nothing is due.
    fn settle(&'static self) -> Result<(), IdleError> {
        self.settle_until(instant_now() + PATIENCE)
    }

    fn settle_until(&'static self, until: Instant) -> Result<(), IdleError> {
        loop {
            let users = self.users();
            users.iter().try_for_each(|user| user.wait_until_at_rest(until))?;
            let look = || users.iter().map(|user| user.at_rest()).collect::<Option<Vec<_>>>();
            let (first, second) = (look(), look());
            let are_idle = first.is_some() && first == second;
            let now = self.now.load();
            let due = users.iter().find(|user| user.next_due() <= now);
            if are_idle && due.is_none() {
                return Ok(());
            }
            // Each user was idle at some time, but new work keeps arriving at once.
            if instant_now() >= until
                && let Some(user) = due.or(users.first())
            {
                return Err(user.busy());
            }
            if are_idle {
                self.fire();
            }
        }
    }

    fn fire(&'static self) {
        let now = self.now.load();
        with_clock(Some(&self.now), || self.users().into_iter().for_each(|user| user.fire(now)));
    }
}

crate::util::debug::impl_debug!([] Clock, self => "Clock" {
    kind: if self.is_manual() { "manual" } else { "system" }, now: self.now()
});

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Runtime;
    use crate::sync::{AtomicU64, Ordering};
    use crate::time::timers::TimerAction;

    /// A user that always has something due, even right after it has fired.
    struct NeverDone(AtomicU64);

    impl ClockUser for NeverDone {
        fn at_rest(&self) -> Option<u64> {
            Some(0)
        }
        fn wait_until_at_rest(&'static self, _: Instant) -> Result<(), IdleError> {
            Ok(())
        }
        fn busy(&'static self) -> IdleError {
            IdleError::Busy { runtime: "loops".into(), waited: PATIENCE, processes: "this".into() }
        }
        fn next_due(&self) -> Moment {
            Moment::now_by(None)
        }
        fn fire(&'static self, _: Moment) {
            assert!(self.0.fetch_add(1, Ordering::Relaxed) < 1_000, "it never ends");
        }
    }

    /// Catches: a clock that waits forever for a process that is idle in between, such as one that makes one call after
    /// another with a time limit of zero.
    #[test]
    fn one_that_always_has_something_due_is_busy() {
        let clock = Clock::starting_at(Moment::now_by(None).after(Duration::from_secs(3_600)));
        let user: &'static NeverDone = Box::leak(Box::new(NeverDone(AtomicU64::new(0))));
        clock.add_user(user);
        let state = clock.virtual_clock().expect("it is one");
        assert!(matches!(state.settle_until(instant_now()), Err(IdleError::Busy { .. })));
        clock.remove_user(user);
    }

    /// Catches: a clock that moves back to a timer that was set by a thread that had read the time before the clock
    /// moved.
    #[test]
    fn a_timer_that_is_set_too_late_does_not_put_the_clock_back() {
        let clock = Clock::manual();
        let runtime = Runtime::builder().workers(1).clock(clock.clone()).build().expect("one worker");
        let host = runtime.host().scheduler();
        let began = clock.moment();
        let after = |seconds| began.after(Duration::from_secs(seconds));
        let (tell, told) = std::sync::mpsc::channel();
        let set = |due| {
            let (tell, clock) = (tell.clone(), clock.clone());
            let action = move || tell.send(clock.moment()).expect("it is waited for");
            host.set_timer(due, TimerAction::Run(Box::new(action))).expect("there is room");
        };
        let mut rests = 0;
        let set_late = || {
            rests += 1;
            match rests {
                1 => set(after(5)),
                2 => set(after(1)),
                _ => {}
            }
            false
        };
        clock.advance_until(Duration::from_secs(10), set_late).expect("it is idle");
        assert_eq!([told.recv(), told.recv()], [Ok(after(5)), Ok(after(5))]);
        assert!(clock.moment() == after(10));
    }
}
