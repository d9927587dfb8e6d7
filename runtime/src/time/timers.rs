//! The timers of a host: several wheels, each under its own lock, and the earliest due moment of all.
//!
//! A thread of the host sets timers in the wheel of its permit, any other thread in the last wheel, so that workers do
//! not contend. The locks are taken to set, cancel and fire timers, never to send or to run. Any thread may fire due
//! timers: workers do so between steps, the poller when it wakes. So no timer waits for the thread that set it.
//!
//! Each wheel has a word for its next due moment, and [`NextDue`] is the earliest of all.
//!
//! # Order
//!
//! Within a wheel, due timers fire in the order of their moments, and those due at the same moment in the order in
//! which they were set. Among wheels, the one with the first due timer fires first, up to the moment at which another
//! wheel has a due timer. Workers fire concurrently, so a timer may overtake one that is due a millisecond earlier, or
//! that another thread has taken out and not yet fired. A host with a virtual clock has only one wheel, and only the
//! thread that advances the clock fires its timers.
//!
//! # A million at once
//!
//! No thread fires timers for long: [`Timers::due`] does a bounded amount of work, which may only advance a wheel part
//! of the way, and a worker fires [`FIRED`] timers at a time. Then it runs processes, and other workers can take those
//! that it has woken; the next worker to check the clock fires what is still due (see `engine/sched/find`). A worker
//! does not wait for a wheel that another thread uses: it takes the next wheel that is due, or none. (With a million
//! timers due in one wheel, two workers that waited for each other spent a third of their time being put to sleep and
//! woken.)

use super::next_due::NextDue;
use super::wheel::{Wheel, WheelKey};
use crate::env::clock::{Moment, SharedMoment, TimerKey};
use crate::mailbox::payload::Payload;
use crate::pid::incarnation;
use crate::slots::Slot;
use crate::sync::{CachePadded, Mutex, lock, try_lock};
use crate::util::panics::{Site, contain};

/// Maximum number of wheels of a host: each costs 2 KiB, and is checked when something is due. A guess: two workers
/// that share a wheel seldom contend.
const WHEELS: usize = 16;
const _: () = assert!(WHEELS < u32::BITS as usize, "`first_due` has a bit for each");

/// Maximum number of timers that a worker fires at a time. A guess: about the number of steps that it runs between two
/// checks of the clock.
pub(crate) const FIRED: u32 = 64;

/// Cost, in fired timers, of a search that has only advanced a wheel part of the way.
pub(crate) const SOUGHT: u32 = 16;

/// A thread prefers the first timer of its own wheel to the first timer of all wheels if its own is due at most this
/// much later. It contends with no other thread in its own wheel, in which its own processes set timers. The value is
/// one tick of the wheels.
const SLACK: u64 = 1 << 20;

/// The result of a search for due timers.
pub(crate) enum Due {
    /// The first due timer, taken out, and the moment at which it was due.
    Fire(TimerAction, Moment),
    /// Timers may be due: only a bounded part of the search has been done.
    Sought,
    /// Timers may be due, in a wheel that another thread uses.
    Taken,
    Nothing,
}

pub(crate) enum TimerAction {
    /// Answers the yield `tag` of the process with this `generation` in `slot`.
    Complete {
        slot: &'static Slot,
        generation: u64,
        tag: u64,
    },
    Run(Box<dyn FnOnce() + Send>),
}

const _: () = assert!(size_of::<TimerAction>() == 24);

impl TimerAction {
    /// Returns the incarnation, in one word, of the process that waits for the timer, or 0 if none does.
    pub(crate) fn process(&self) -> u64 {
        match self {
            Self::Complete { slot, generation, .. } => incarnation(slot.index(), *generation),
            Self::Run(_) => 0,
        }
    }

    /// Drops the action. It may hold a user's message, and the drop of that message may use this host.
    pub(crate) fn discard(self) {
        let _panic = contain(Site::TimerDrop, || drop(self));
    }

    pub(crate) fn perform(self) {
        match self {
            Self::Complete { slot, generation, tag } => complete(slot, generation, tag),
            Self::Run(action) => action(),
        }
    }
}

pub(crate) fn complete(slot: &'static Slot, generation: u64, tag: u64) {
    slot.complete(generation, tag, Payload::new(()));
}

pub(crate) struct Timers {
    wheels: Box<[CachePadded<SharedWheel>]>,
    next: NextDue,
}

struct SharedWheel {
    wheel: Mutex<Wheel<TimerAction>>,
    next: SharedMoment,
}

impl Timers {
    /// Creates the wheels for `threads` permits, and one for threads without a permit.
    pub(crate) fn new(threads: usize) -> Self {
        let wheel = || SharedWheel { wheel: Mutex::new(Wheel::new()), next: SharedMoment::new(Moment::NEVER) };
        let wheels = (0..=threads).take(WHEELS).map(|_| CachePadded::new(wheel())).collect();
        Self { wheels, next: NextDue::new() }
    }

    /// Returns whether there are as many wheels as [`new`](Self::new) creates for `threads` permits.
    pub(crate) fn fits(&self, threads: usize) -> bool {
        self.wheels.len() == WHEELS.min(threads + 1)
    }

    /// Returns the next moment at which there is work. It is no later than the due time of the first timer, and
    /// [`Moment::NEVER`] if there is no timer.
    #[inline]
    pub(crate) fn next(&self) -> Moment {
        self.next.load()
    }

    /// Sets a timer, in the wheel of the caller's permit if the caller has one. Returns its key, and whether it is due
    /// before all others, in which case a thread must be woken. Returns `None` if there are too many timers.
    pub(crate) fn set(&self, permit: Option<usize>, due: Moment, action: TimerAction) -> Option<(TimerKey, bool)> {
        let number = self.number(permit);
        let shared = &self.wheels[number];
        let mut wheel = lock(&shared.wheel);
        let WheelKey { index, serial } = wheel.insert(due.nanoseconds(), action).ok()?;
        let first = self.next.lower(&shared.next, due);
        drop(wheel);
        Some((TimerKey { place: number << u32::BITS | index as usize, serial }, first))
    }

    /// Cancels a timer. Returns whether it was pending: if so, it never fires, even if it was due.
    pub(crate) fn cancel(&self, key: TimerKey) -> bool {
        let Some((shared, key)) = self.find(key) else { return false };
        let action = lock(&shared.wheel).cancel(key);
        action.is_some()
    }

    /// Moves a timer to another moment. Returns whether it was pending, and whether it now precedes all others.
    pub(crate) fn reset(&self, key: TimerKey, due: Moment) -> (bool, bool) {
        let Some((shared, key)) = self.find(key) else { return (false, false) };
        let mut wheel = lock(&shared.wheel);
        let was_there = wheel.reset(key, due.nanoseconds());
        (was_there, was_there && self.next.lower(&shared.next, due))
    }

    pub(crate) fn is_pending(&self, key: TimerKey) -> bool {
        self.find(key).is_some_and(|(shared, key)| lock(&shared.wheel).contains(key))
    }

    fn find(&self, key: TimerKey) -> Option<(&SharedWheel, WheelKey)> {
        let shared = self.wheels.get(key.place >> u32::BITS)?;
        Some((shared, WheelKey { index: key.place as u32, serial: key.serial }))
    }

    /// Takes out the first timer that is due by `now`. Does a bounded amount of work.
    pub(crate) fn due(&self, now: Moment) -> Due {
        match self.first_due(now, 0) {
            Some((number, until)) => {
                self.take_from(&self.wheels[number], &mut lock(&self.wheels[number].wheel), now, until)
            }
            None => Due::Nothing,
        }
    }

    /// Takes out a due timer while other threads may do the same: skips wheels that another thread is using, and
    /// prefers the wheel of `permit` if that is due at most [`SLACK`] after the first.
    pub(crate) fn due_beside_others(&self, permit: Option<usize>, now: Moment) -> Due {
        let mut taken = 0_u32;
        while let Some((first, until)) = self.first_due(now, taken) {
            let slack =
                Moment::of_nanoseconds(self.wheels[first].next.load().nanoseconds().saturating_add(SLACK)).min(now);
            let own = self.number(permit);
            let (number, until) = match own {
                own if taken & 1 << own == 0 && self.wheels[own].next.load() <= slack => (own, slack),
                _ => (first, until),
            };
            if let Some(mut wheel) = try_lock(&self.wheels[number].wheel) {
                return self.take_from(&self.wheels[number], &mut wheel, now, until);
            }
            taken |= 1 << number;
        }
        if taken == 0 { Due::Nothing } else { Due::Taken }
    }

    /// Takes out the first timer of a wheel, if it is due by `until`.
    fn take_from(&self, shared: &SharedWheel, wheel: &mut Wheel<TimerAction>, now: Moment, until: Moment) -> Due {
        let action = wheel.pop(now.nanoseconds(), until.nanoseconds());
        shared.next.store(Moment::of_nanoseconds(wheel.next()));
        action.map_or(Due::Sought, |action| Due::Fire(action, Moment::of_nanoseconds(wheel.popped())))
    }

    /// Returns the number of the wheel for a permit, or for threads without one.
    #[inline]
    fn number(&self, permit: Option<usize>) -> usize {
        let last = self.wheels.len() - 1;
        permit.map_or(last, |permit| if last == 0 { 0 } else { permit % last })
    }

    /// Returns the wheel that is due first, and the moment up to which it stays first: `now`, or the moment at which
    /// another wheel is due, if that is earlier. Leaves out the wheels in `taken`.
    fn first_due(&self, now: Moment, taken: u32) -> Option<(usize, Moment)> {
        let (mut first, mut until, mut earliest) = (None, now, Moment::NEVER);
        for (number, shared) in self.wheels.iter().enumerate().filter(|(number, _)| taken & 1 << number == 0) {
            let next = shared.next.load();
            if next < earliest {
                (first, until, earliest) = (Some(number), earliest.min(now), next);
            } else {
                until = until.min(next);
            }
        }
        first.filter(|_| earliest <= now).map(|first| (first, until))
    }

    /// Raises the next due moment when nothing is due. Returns whether an earlier timer was set in the meantime, in
    /// which case a thread must be woken.
    pub(crate) fn raise(&self) -> bool {
        self.next.raise(|| self.wheels.iter().map(|shared| shared.next.load()).min().unwrap_or(Moment::NEVER))
    }

    pub(crate) fn len(&self) -> usize {
        self.wheels.iter().map(|shared| lock(&shared.wheel).len()).sum()
    }

    /// Cancels all timers. Must not be called while a lock is held: see [`TimerAction::discard`].
    pub(crate) fn clear(&self) {
        self.take().into_iter().for_each(TimerAction::discard);
    }

    /// Takes out all actions, which the caller must [discard](TimerAction::discard).
    pub(crate) fn take(&self) -> Vec<TimerAction> {
        let mut actions = Vec::new();
        for shared in &self.wheels {
            let mut wheel = lock(&shared.wheel);
            actions.append(&mut wheel.clear());
            shared.next.store(Moment::NEVER);
        }
        self.raise();
        actions
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sync::{Arc, AtomicU64, Ordering};
    use std::time::Duration;

    #[test]
    fn what_is_due_fires_in_order_once_from_all_wheels_and_cancelled_timers_never() {
        let timers = Timers::new(3);
        let fired = Arc::new(Mutex::new(Vec::new()));
        let start = Moment::now();
        let set = |permit: Option<usize>, microseconds: u64| {
            let fired = fired.clone();
            let due = start.after(Duration::from_micros(microseconds));
            timers
                .set(permit, due, TimerAction::Run(Box::new(move || lock(&fired).push(microseconds))))
                .expect("there is room")
        };
        let (_, first) = set(Some(0), 30_000);
        assert!(first);
        assert!(!set(Some(1), 40_000).1);
        assert!(set(None, 10_000).1);
        let (cancelled, _) = set(Some(2), 20_000);
        let (later, _) = set(Some(2), 5_000);
        assert!(timers.is_pending(cancelled));
        assert!(timers.cancel(cancelled));
        assert!(!timers.cancel(cancelled) && !timers.is_pending(cancelled));
        assert_eq!(timers.reset(later, start.after(Duration::from_micros(25_001))), (true, false));
        for place in 0..100 {
            set(Some(place as usize % 3), 25_000 + 7 * (place * 37 % 100));
        }
        let now = start.after(Duration::from_millis(35));
        loop {
            match timers.due(now) {
                Due::Fire(action, _) => action.perform(),
                Due::Sought | Due::Taken => {}
                Due::Nothing => break,
            }
        }
        let mut fired = lock(&fired).clone();
        assert_eq!((fired.len(), fired[0], fired.last()), (103, 10_000, Some(&30_000)));
        // The timer that was reset still reports its old due time, but fires at the new one.
        assert_eq!(fired.remove(2), 5_000);
        assert!(fired.is_sorted(), "{fired:?}");
        assert!(!timers.raise());
        assert_eq!((timers.len(), timers.next()), (1, start.after(Duration::from_millis(40))));
        timers.clear();
        assert_eq!((timers.len(), timers.next()), (0, Moment::NEVER));
    }

    #[test]
    fn beside_others_the_own_wheel_comes_first_unless_it_is_a_millisecond_ahead_and_none_is_waited_for() {
        let (start, timers) = (Moment::now(), Timers::new(2));
        let fired = Arc::new(Mutex::new(Vec::new()));
        let set = |permit: usize, microseconds: u64| {
            let fired = fired.clone();
            let action = TimerAction::Run(Box::new(move || lock(&fired).push(microseconds)));
            timers.set(Some(permit), start.after(Duration::from_micros(microseconds)), action).expect("there is room");
        };
        for microseconds in [0, 100, 4_000, 4_100] {
            set(0, microseconds);
        }
        for microseconds in [900, 7_000] {
            set(1, microseconds);
        }
        let now = start.after(Duration::from_millis(100));
        let fire = |permit: usize| loop {
            match timers.due_beside_others(Some(permit), now) {
                Due::Fire(action, _) => return action.perform(),
                Due::Sought => {}
                other => panic!("{}", if matches!(other, Due::Taken) { "taken" } else { "nothing" }),
            }
        };
        // The second permit fires its own timer first, though two others are due earlier. It does not prefer its other
        // timer, which is due milliseconds later.
        (0..3).for_each(|_| fire(1));
        assert_eq!(*lock(&fired), [900, 0, 100]);
        let elsewhere = lock(&timers.wheels[0].wheel);
        fire(1);
        assert_eq!(*lock(&fired), [900, 0, 100, 7_000]);
        assert!(matches!(timers.due_beside_others(Some(1), now), Due::Taken));
        drop(elsewhere);
        fire(1);
        assert_eq!(*lock(&fired), [900, 0, 100, 7_000, 4_000]);
    }

    #[test]
    fn no_timer_is_overlooked_while_others_fire_and_say_when_the_next_is_due() {
        const EACH: u64 = 20_000;
        let timers = Timers::new(2);
        let fired = Arc::new(AtomicU64::new(0));
        let setters_left = AtomicU64::new(3);
        std::thread::scope(|scope| {
            for permit in [Some(0), Some(1), None] {
                let (timers, fired, setters_left) = (&timers, &fired, &setters_left);
                scope.spawn(move || {
                    for number in 0..EACH {
                        let fired = fired.clone();
                        let action = TimerAction::Run(Box::new(move || {
                            fired.fetch_add(1, Ordering::Relaxed);
                        }));
                        let due = Moment::now().after(Duration::from_nanos(number % 50 * 1_000));
                        timers.set(permit, due, action).expect("there is room");
                    }
                    setters_left.fetch_sub(1, Ordering::SeqCst);
                });
            }
            // The loop relies on `next` alone, so that a timer that `next` does not report is never fired.
            while setters_left.load(Ordering::SeqCst) > 0 || timers.next() < Moment::NEVER {
                let now = Moment::now();
                while timers.next() <= now {
                    match timers.due_beside_others(None, now) {
                        Due::Fire(action, _) => action.perform(),
                        Due::Sought | Due::Taken => {}
                        Due::Nothing => _ = timers.raise(),
                    }
                }
            }
        });
        assert_eq!((fired.load(Ordering::Relaxed), timers.len()), (3 * EACH, 0));
    }
}
