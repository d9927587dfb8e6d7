//! Timers of code without a host: calls awaited outside of processes.
//!
//! One thread serves the program. It is started for the first timer, and ends when there are no more timers.
//! [Notifiers](crate::util::notifiers) perform the due actions: an action may wake a task of another executor, or clone
//! and drop a user's message, and that must not delay other timers. Messages for one receiver still arrive in the order
//! in which they were due: each waits until the previous one has been sent.

use super::timers::{Due, TimerAction, Timers};
use crate::env::clock::{Moment, TimeKeeper, TimerKey};
use crate::env::world::World;
use crate::sync::{Condvar, Mutex, OnceLock, ThreadKind, lock, spawn_thread, wait, wait_for};
use crate::util::notifiers::{Job, notify};
use crate::util::panics::{Site, contain};
use std::collections::{BTreeMap, VecDeque};

pub(crate) struct Timekeeper {
    /// Timers whose actions hand what is due to a notifier.
    timers: Timers,
    lines: Lines,
    /// Whether the thread runs. Checked together with the timers, under this lock: by threads that set a timer, and by
    /// the thread itself before it ends.
    running: Mutex<bool>,
    changed: Condvar,
}

pub(crate) fn timekeeper() -> &'static Timekeeper {
    static TIMEKEEPER: World<OnceLock<Timekeeper>> = World::new(OnceLock::new());
    let new = || Timekeeper {
        timers: Timers::new(0),
        lines: Lines::default(),
        running: Mutex::new(false),
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
        let was_pending = self.timers.cancel(key);
        self.tell();
        was_pending
    }

    fn reset(&'static self, key: TimerKey, due: Moment) -> bool {
        let (was_pending, _first) = self.timers.reset(key, due);
        self.tell();
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
        let (key, _first) = self.timers.set(None, due, TimerAction::Run(Box::new(dispatch)))?;
        let mut running = lock(&self.running);
        if !*running {
            *running = spawn_thread(ThreadKind::Timekeeper, "postroom-time".to_string(), || self.run()).is_ok();
        }
        let kept = *running;
        drop(running);
        self.changed.notify_all();
        if !kept {
            self.timers.cancel(key);
        }
        kept.then_some(key)
    }

    /// Wakes the thread. Takes the lock, so that the notification cannot fall between the thread's check and its wait.
    fn tell(&self) {
        let _running = lock(&self.running);
        self.changed.notify_all();
    }

    fn run(&'static self) {
        let mut running = lock(&self.running);
        loop {
            let now = Moment::now();
            match self.timers.due(now) {
                Due::Fire(dispatch, _) => {
                    drop(running);
                    dispatch.perform();
                    running = lock(&self.running);
                    continue;
                }
                Due::Sought | Due::Taken => continue,
                Due::Nothing => {}
            }
            self.timers.raise();
            if self.timers.len() == 0 {
                *running = false;
                return;
            }
            let next = self.timers.next();
            running = match next {
                Moment::NEVER => wait(&self.changed, running),
                next => wait_for(&self.changed, running, next.since(now)),
            };
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
    use crate::sync::Arc;
    use std::sync::mpsc::channel;
    use std::time::Duration;

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
