//! Timers of code without a host: calls awaited outside of processes.
//!
//! One thread serves the program. It is started for the first timer, and ends when it finds that there are no more. It
//! is woken only to wait for less long than it would, never because a timer was cancelled: most timers limit calls, and
//! most calls are answered long before. So calls first get along [without timers](super::limits).
//! [Notifiers](crate::util::notifiers) perform the due actions: an action may wake a task of another executor, or clone
//! and drop a user's message, and that must not delay other timers. Messages for one receiver still arrive in the order
//! in which they were due: each waits until the previous one has been sent.

use super::limits::{TimeLimits, Visited};
use super::timers::{Due, TimerAction, Timers};
use crate::env::clock::{Moment, TimeKeeper, TimerKey};
use crate::env::world::World;
use crate::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, ThreadKind, Weak, lock, spawn_thread, wait_for};
use crate::util::notifiers::{Job, notify};
use crate::util::panics::{Site, contain};
use crate::util::thread_bound::this_thread;
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

/// The time between two sweeps of the limits.
const SWEEP: Duration = Duration::from_millis(8);

/// How long the thread waits before it checks again whether there are timers.
const PATIENCE: Duration = Duration::from_secs(5);

/// Something that waits no longer than a limit, perhaps several times in a row. On the timekeeper's thread, it runs no
/// user code: not in the first two methods, nor when it is dropped after it has stopped waiting.
pub(crate) trait LimitedWait: Send + Sync {
    /// Called by each sweep.
    fn look(&self) -> FoundWait;

    /// Sets the timer that ends the wait at `limit`. Called once at most.
    fn set_timer(&self, this: Weak<dyn LimitedWait>, limit: Moment);

    /// Ends the wait. A notifier calls this, since it may run user code.
    fn expire(&self);
}

/// What a sweep finds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FoundWait {
    /// It does not wait, and has not begun to wait since the last sweep.
    Unused,
    /// It has begun to wait since the last sweep. That wait may be over.
    Used,
    /// It has waited since the last sweep, and will not wait for anything else. Its timer must be set to this limit.
    Long(Moment),
}

pub(crate) struct Timekeeper {
    /// Timers whose actions hand what is due to a notifier.
    timers: Timers,
    limits: TimeLimits<Arc<dyn LimitedWait>>,
    lines: Lines,
    /// Checked together with the timers, under this lock: by threads that set a timer, and by the thread itself before
    /// it ends.
    state: Mutex<TimekeeperState>,
    changed: Condvar,
}

#[derive(Default)]
struct TimekeeperState {
    runs: bool,
    /// Whether there may be limits to sweep.
    must_sweep: bool,
}

pub(crate) fn timekeeper() -> &'static Timekeeper {
    static TIMEKEEPER: World<OnceLock<Timekeeper>> = World::new(OnceLock::new());
    let new = || Timekeeper {
        timers: Timers::new(0),
        limits: TimeLimits::new(),
        lines: Lines::default(),
        state: Mutex::default(),
        changed: Condvar::new(),
    };
    TIMEKEEPER.get_or_init(new)
}

impl TimeKeeper for Timekeeper {
    fn later(&'static self, due: Moment, action: Box<dyn FnOnce() + Send>) -> Option<TimerKey> {
        self.set(due, move || notify(Box::new(move || _ = contain(Site::OutsideTimer, action))))
    }

    fn later_in_line(&'static self, line: u64, due: Moment, action: Box<dyn FnOnce() + Send>) -> Option<TimerKey> {
        self.set(due, move || self.lines.push(line, action))
    }

    fn forget(&'static self, key: TimerKey) -> bool {
        self.timers.cancel(key)
    }

    fn reset(&'static self, key: TimerKey, due: Moment) -> bool {
        let (was_pending, first) = self.timers.reset(key, due);
        if first {
            self.wake();
        }
        was_pending
    }

    fn is_pending(&'static self, key: TimerKey) -> bool {
        self.timers.is_pending(key)
    }
}

impl Timekeeper {
    /// Sets a timer that calls `dispatch` at `due`, on the timekeeper's thread. Returns `None` if there are too many
    /// timers, or if that thread cannot be started.
    fn set(&'static self, due: Moment, dispatch: impl FnOnce() + Send + 'static) -> Option<TimerKey> {
        let (key, first) = self.timers.set(None, due, TimerAction::Run(Box::new(dispatch)))?;
        let kept = if first { self.wake() } else { self.start().runs };
        if !kept {
            self.timers.cancel(key);
        }
        kept.then_some(key)
    }

    /// Returns whether a wait until `limit` that begins now is long enough to do without a timer at first.
    pub(crate) fn is_far(now: Moment, limit: Moment) -> bool {
        limit.since(now) >= 3 * SWEEP
    }

    /// Has sweeps look at `waiting` from now on, until it has a timer or belongs to no one else.
    pub(crate) fn watch(&'static self, waiting: Arc<dyn LimitedWait>) {
        self.limits.add(this_thread(), waiting);
    }

    /// Called when something that is watched has begun to wait.
    #[inline]
    pub(crate) fn see_to_sweep(&'static self) {
        if !self.limits.will_be_swept() {
            self.wake_to_sweep();
        }
    }

    #[cold]
    fn wake_to_sweep(&'static self) {
        let mut state = self.start();
        state.must_sweep = true;
        self.limits.note_sweep(true);
        self.changed.notify_all();
        let runs = state.runs;
        drop(state);
        if !runs {
            self.sweep();
            // The next wait tries again to start the thread.
            self.limits.note_sweep(false);
        }
    }

    /// Starts the thread, unless it runs.
    fn start(&'static self) -> MutexGuard<'static, TimekeeperState> {
        let mut state = lock(&self.state);
        if !state.runs {
            state.runs = spawn_thread(ThreadKind::Timekeeper, "postroom-time".to_string(), || self.run()).is_ok();
        }
        state
    }

    /// Wakes the thread. Takes the lock, so that the notification cannot fall between the thread's check and its wait.
    /// Returns whether the thread runs.
    fn wake(&'static self) -> bool {
        let state = self.start();
        self.changed.notify_all();
        state.runs
    }

    /// Sets timers for what has waited since the last sweep. Returns whether there must be another sweep.
    fn sweep(&'static self) -> bool {
        self.limits.sweep(|waiting| match waiting.look() {
            FoundWait::Unused if Arc::strong_count(waiting) == 1 => Visited::Leaves,
            FoundWait::Unused => Visited::Unused,
            FoundWait::Used => Visited::Used,
            FoundWait::Long(limit) => {
                waiting.set_timer(Arc::downgrade(waiting), limit);
                Visited::Leaves
            }
        })
    }

    fn run(&'static self) {
        let mut state = lock(&self.state);
        // The time of the last sweep, or since when there may be limits to sweep.
        let mut since = None;
        loop {
            let now = Moment::now();
            since = state.must_sweep.then(|| since.unwrap_or(now));
            if since.is_some_and(|since| now.since(since) >= SWEEP) {
                state.must_sweep = false;
                drop(state);
                let again = self.sweep();
                since = Some(now);
                state = lock(&self.state);
                state.must_sweep |= again;
                continue;
            }
            match self.timers.due(now) {
                Due::Fire(dispatch, _) => {
                    drop(state);
                    dispatch.perform();
                    state = lock(&self.state);
                    continue;
                }
                Due::Sought | Due::Taken => continue,
                Due::Nothing => {}
            }
            self.timers.raise();
            if self.timers.len() == 0 && !state.must_sweep {
                state.runs = false;
                return;
            }
            let most = if state.must_sweep { SWEEP } else { PATIENCE };
            state = wait_for(&self.changed, state, self.timers.next().since(now).min(most));
        }
    }
}

/// Due actions, by line. A line exists while a notifier performs the actions of that line, one after the other.
#[derive(Default)]
struct Lines(Mutex<BTreeMap<u64, VecDeque<Job>>>);

impl Lines {
    fn push(&'static self, line: u64, action: Job) {
        let mut lines = lock(&self.0);
        if let Some(actions) = lines.get_mut(&line) {
            return actions.push_back(action);
        }
        lines.insert(line, VecDeque::from([action]));
        drop(lines);
        notify(Box::new(move || self.perform(line)));
    }

    fn perform(&self, line: u64) {
        while let Some(action) = self.next(line) {
            let _panic = contain(Site::OutsideTimer, action);
        }
    }

    /// Takes the next action of a line. Removes the line if there is no next action.
    fn next(&self, line: u64) -> Option<Job> {
        let mut lines = lock(&self.0);
        let action = lines.get_mut(&line).and_then(VecDeque::pop_front);
        if action.is_none() {
            lines.remove(&line);
        }
        action
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sync::{AtomicBool, Ordering};
    use std::sync::mpsc::{Sender, channel};

    /// Catches: an action that blocks, such as the waker of a task outside, and thereby delays all other timers of code
    /// without a host.
    #[test]
    fn no_timer_waits_for_the_action_of_another() {
        let (say, said) = channel();
        let mut ends = Vec::new();
        for number in 0..3 {
            let (end, until) = channel::<()>();
            let say = say.clone();
            let action = move || {
                let _waited = say.send((number, ThreadKind::current()));
                let _ended = until.recv();
            };
            timekeeper().later(Moment::now(), Box::new(action)).expect("there is room");
            // The limit only guards against a hang.
            assert_eq!(said.recv_timeout(Duration::from_secs(60)), Ok((number, ThreadKind::Notifier)));
            ends.push(end);
        }
    }

    /// Waits forever. When its timer is to be set, says its number, and has the next one watched.
    struct Waits(u8, Sender<u8>, Option<Arc<dyn LimitedWait>>, AtomicBool);

    impl LimitedWait for Waits {
        fn look(&self) -> FoundWait {
            match self.3.swap(true, Ordering::SeqCst) {
                false => FoundWait::Used,
                true => FoundWait::Long(Moment::NEVER),
            }
        }

        fn set_timer(&self, _: Weak<dyn LimitedWait>, _: Moment) {
            self.1.send(self.0).expect("the test waits");
            // Not on this thread: it holds the lock of a list.
            let next = self.2.clone();
            notify(Box::new(move || next.iter().for_each(wait_again)));
        }

        fn expire(&self) {
            unreachable!("it has no timer")
        }
    }

    fn wait_again(waits: &Arc<dyn LimitedWait>) {
        timekeeper().watch(waits.clone());
        timekeeper().see_to_sweep();
    }

    /// Catches: a wait that begins during a sweep, or right after the last one, and is never visited.
    #[test]
    fn limits_that_come_during_a_sweep_are_swept() {
        let (say, said) = channel();
        let before = |next, number| {
            Some(Arc::new(Waits(number, say.clone(), next, AtomicBool::new(false))) as Arc<dyn LimitedWait>)
        };
        let first = (0..=3).rev().fold(None, before).expect("there are four");
        wait_again(&first);
        // The limit only guards against a hang.
        (0..=3).for_each(|number| assert_eq!(said.recv_timeout(Duration::from_secs(60)), Ok(number)));
    }

    /// Catches: an action that is performed while an earlier action of its line still runs; a line that delays other
    /// lines, or that ends because an action panics.
    #[test]
    fn the_actions_of_a_line_come_one_after_the_other() {
        const EACH: u64 = 50;
        let (say, said) = channel();
        let (end, until) = channel::<()>();
        let done = Arc::new(Mutex::new(Vec::new()));
        let start = Moment::now();
        let set = |line, after, action: Box<dyn FnOnce() + Send>| {
            let due = start.after(Duration::from_micros(after));
            timekeeper().later_in_line(line, due, action).expect("there is room");
        };
        // No receiver has these numbers, so only this test uses these lines.
        let (first, second) = (u64::MAX, u64::MAX - 1);
        let (begin, begun) = channel();
        set(
            first,
            0,
            Box::new(move || {
                begin.send(()).expect("it is waited for");
                let _ended = until.recv();
            }),
        );
        assert_eq!(begun.recv_timeout(Duration::from_secs(60)), Ok(()));
        for number in 1..=EACH {
            let (done, say) = (done.clone(), say.clone());
            set(
                first,
                number,
                Box::new(move || {
                    lock(&done).push(number);
                    say.send(number).expect("it is waited for");
                    assert_ne!(number % 10, 0, "as users' code may");
                }),
            );
        }
        set(second, EACH + 1, Box::new(move || say.send(0).expect("it is waited for")));
        // The limit only guards against a hang.
        let next = || said.recv_timeout(Duration::from_secs(60));
        assert_eq!(next(), Ok(0), "the other line does not wait");
        assert!(lock(&done).is_empty(), "the first of the line is not done");
        drop(end);
        (1..=EACH).for_each(|number| assert_eq!(next(), Ok(number)));
        // A line ends when its last action has returned.
        while [first, second].iter().any(|line| lock(&timekeeper().lines.0).contains_key(line)) {
            std::thread::yield_now();
        }
    }
}
