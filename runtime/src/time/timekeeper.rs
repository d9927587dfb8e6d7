//! Timers of code without a host: calls awaited outside of processes.
//!
//! One thread for the program, started for the first timer and ended when there are none. What is due is performed by
//! [notifiers](crate::util::notifiers): it may wake a task of another executor, or clone and drop a user's message,
//! which must not delay the other timers.

use super::timers::{Due, TimerAction, Timers};
use crate::env::clock::{Moment, TimeKeeper, TimerKey};
use crate::env::world::World;
use crate::sync::{Condvar, Mutex, OnceLock, ThreadKind, lock, spawn_thread, wait, wait_for};
use crate::util::notifiers::notify;
use crate::util::panics::{Site, contain};

pub(crate) struct Timekeeper {
    timers: Timers,
    /// Whether the thread runs. Checked together with the timers, under this lock, by threads that set a timer and by
    /// the thread before it ends.
    running: Mutex<bool>,
    changed: Condvar,
}

pub(crate) fn timekeeper() -> &'static Timekeeper {
    static TIMEKEEPER: World<OnceLock<Timekeeper>> = World::new(OnceLock::new());
    let new = || Timekeeper { timers: Timers::new(0), running: Mutex::new(false), changed: Condvar::new() };
    TIMEKEEPER.get_or_init(new)
}

impl TimeKeeper for Timekeeper {
    fn later(&'static self, due: Moment, action: Box<dyn FnOnce() + Send>) -> Option<TimerKey> {
        let (key, _first) = self.timers.set(None, due, TimerAction::Run(action))?;
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
    /// Wakes the thread. Under the lock, so that this cannot fall between its look and its wait.
    fn tell(&self) {
        let _running = lock(&self.running);
        self.changed.notify_all();
    }

    fn run(&'static self) {
        let mut running = lock(&self.running);
        loop {
            let now = Moment::now();
            match self.timers.due(now) {
                Due::Fire(action, _) => {
                    drop(running);
                    notify(Box::new(move || _ = contain(Site::OutsideTimer, || action.perform())));
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;
    use std::time::Duration;

    /// Catches: an action that blocks, such as the waker of a task outside, delays all other timers outside.
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
            // A guard against a hang only.
            assert_eq!(said.recv_timeout(Duration::from_secs(60)), Ok((number, ThreadKind::Notifier)));
            ends.push(end);
        }
    }
}
