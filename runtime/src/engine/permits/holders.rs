//! Records which thread holds which permit, and the state of the threads without one. This is pure bookkeeping: `sleep`
//! keeps the records under its lock; `handoff` defines which changes are allowed, and argues that nothing is lost.

use super::blocking_queue::{BlockingQueue, WaiterId};
use std::collections::VecDeque;

/// The state of a thread. The documentation of the [folder](super) has a table of the transitions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum At {
    Free,
    /// Being started; becomes spare.
    Starting,
    /// Running or searching, with this permit.
    Up(usize),
    /// Sleeping, with this permit.
    Asleep(usize),
    /// In a step without a permit: the permit was taken over, or the step has blocked and its process is in a run
    /// queue.
    Detached,
    /// In a step that blocks, without a permit.
    Blocked,
    /// Back from blocking, waiting for a permit to continue its step.
    Waiting,
    Spare,
    Ending,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct ThreadRecord {
    at: At,
    /// The previous holder of its permit, if that thread may have left work behind.
    pub(crate) behind: Option<usize>,
    /// Whether its sleep is limited to the lifetime of a spare thread.
    pub(crate) timed: bool,
    /// Whether its step blocks without giving up the permit.
    pub(crate) in_place: bool,
    /// Whether the blocking code waits for another process.
    pub(crate) waits: bool,
    /// Whether it is driven by threads that do not belong to it. If so, it never retires.
    is_driven: bool,
}

const NOWHERE: ThreadRecord =
    ThreadRecord { at: At::Free, behind: None, timed: false, in_place: false, waits: false, is_driven: false };

/// The reason why a step gives up its permit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Need {
    /// The step runs blocking code.
    Blocking,
    /// The step is async and runs blocking code, and a thread is reserved for it.
    Reserved(WaiterId),
    /// The step waits for another process, which may need a permit to run.
    Process,
    /// The step waits for another process, but can also continue without waiting.
    Room,
}

/// The result of an attempt to hand off the permit of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HandedOff {
    /// A spare thread now has the permit, counts as searching, and must be woken.
    ToSpare(usize),
    /// A waiting thread now has the permit, and must be woken.
    ToWaiting(usize),
    /// The thread had no permit.
    HadNone,
    /// A thread must be started first.
    Grow,
    /// No thread is available; the step keeps its permit while it blocks.
    Stays,
}

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ThreadCounts {
    pub(crate) blocked: usize,
    pub(crate) waiting: usize,
    pub(crate) detached: usize,
    pub(crate) spare: usize,
    pub(crate) threads: usize,
}

#[derive(Debug)]
pub(crate) struct Permits {
    places: Vec<ThreadRecord>,
    /// The spare threads, in LIFO order: the one that became spare most recently has warm caches, and surplus threads
    /// stay idle long enough to end.
    spare: Vec<usize>,
    /// The threads that wait for a permit, in FIFO order.
    waiting: VecDeque<usize>,
    permits: usize,
    /// Maximum number of threads, except for those that must be started beyond it.
    limit: usize,
    /// Number of threads, including those that are starting or ending.
    threads: usize,
    starting: usize,
    ending: usize,
    /// The steps that wait for a thread. For each reservation, a thread is spare, is starting, or will be started.
    pub(crate) blocking_queue: BlockingQueue,
    pub(crate) stopped: bool,
}

impl Permits {
    pub(crate) fn new(permits: usize, limit: usize) -> Self {
        Self {
            places: Vec::new(),
            spare: Vec::new(),
            waiting: VecDeque::new(),
            permits,
            limit,
            threads: 0,
            starting: 0,
            ending: 0,
            blocking_queue: BlockingQueue::default(),
            stopped: false,
        }
    }

    /// Resets the records for a new host. Keeps the queue of steps, so that its numbers do not repeat.
    pub(crate) fn renew(&mut self) {
        let blocking_queue = std::mem::take(&mut self.blocking_queue);
        *self = Self { blocking_queue, ..Self::new(self.permits, self.limit) };
    }

    #[inline]
    pub(crate) fn at(&self, thread: usize) -> At {
        self.places.get(thread).map_or(At::Free, |place| place.at)
    }

    pub(crate) fn places(&self) -> impl Iterator<Item = At> {
        self.places.iter().map(|place| place.at)
    }

    pub(crate) fn set(&mut self, thread: usize, at: At) {
        self.places[thread].at = at;
    }

    pub(crate) fn permit(&self, thread: usize) -> Option<usize> {
        match self.at(thread) {
            At::Up(permit) | At::Asleep(permit) => Some(permit),
            _ => None,
        }
    }

    pub(crate) fn those(&self, are: impl Fn(At) -> bool) -> impl Iterator<Item = usize> {
        self.places.iter().enumerate().filter(move |(_, place)| are(place.at)).map(|(thread, _)| thread)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.high() == 0
    }

    pub(crate) fn without_permit(&self) -> Vec<usize> {
        self.those(|at| matches!(at, At::Detached | At::Blocked | At::Waiting)).collect()
    }

    /// Returns one more than the index of the highest record in use.
    pub(crate) fn high(&self) -> usize {
        self.places.iter().rposition(|place| place.at != At::Free).map_or(0, |last| last + 1)
    }

    pub(crate) fn counts(&self) -> ThreadCounts {
        let count = |at| self.those(|other| other == at).count();
        ThreadCounts {
            blocked: count(At::Blocked),
            waiting: count(At::Waiting),
            detached: count(At::Detached),
            spare: count(At::Spare),
            threads: self.threads,
        }
    }

    #[inline]
    pub(crate) fn has_spare(&self) -> bool {
        self.threads > self.permits
    }

    pub(crate) fn has_surplus(&self) -> bool {
        self.threads > self.limit
    }

    pub(crate) fn is_wanted(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Takes the lowest free record for a thread that is about to start, with or without a permit.
    pub(crate) fn admit(&mut self, permit: Option<usize>) -> usize {
        let free = self.places.iter().position(|place| place.at == At::Free);
        let thread = free.unwrap_or_else(|| {
            self.places.push(NOWHERE);
            self.places.len() - 1
        });
        self.places[thread] = ThreadRecord { at: permit.map_or(At::Starting, At::Up), ..NOWHERE };
        self.threads += 1;
        self.starting += usize::from(permit.is_none());
        thread
    }

    /// Frees the record of a thread that has ended, or was not started.
    pub(crate) fn dismiss(&mut self, thread: usize) {
        self.spare.retain(|&other| other != thread);
        self.starting -= usize::from(self.at(thread) == At::Starting);
        self.ending -= usize::from(self.at(thread) == At::Ending);
        self.places[thread] = NOWHERE;
        self.threads -= 1;
    }

    /// Returns how many more steps may block, each with a thread to take its permit.
    fn available(&self) -> isize {
        let count = |count: usize| isize::try_from(count).unwrap_or(isize::MAX);
        let there = count(self.spare.len() + self.starting + self.ending);
        there.saturating_add(count(self.limit)) - count(self.threads) - count(self.blocking_queue.reserved())
    }

    /// Returns which thread gets the permit of a step with this need. `grown` is true if a thread has been started for
    /// the step.
    pub(crate) fn next_holder(&self, need: Need, grown: bool) -> HandedOff {
        if let Some(&next) = self.waiting.front() {
            return HandedOff::ToWaiting(next);
        }
        let may = grown || matches!(need, Need::Reserved(_)) || self.available() > 0;
        match self.next_spare().map(|place| self.spare[place]) {
            Some(next) if may => HandedOff::ToSpare(next),
            None if may => HandedOff::Grow,
            _ if need == Need::Process && self.is_last_to_run() => HandedOff::Grow,
            _ => HandedOff::Stays,
        }
    }

    /// Returns the place of the spare thread that is next to get a permit: the last one, but one that others drive only
    /// if there is no other. (The thread that would drive it may be the one that blocks.)
    fn next_spare(&self) -> Option<usize> {
        let is_own = |&spare: &usize| !self.places[spare].is_driven;
        self.spare.iter().rposition(is_own).or_else(|| self.spare.len().checked_sub(1))
    }

    /// Returns whether a thread may be started now for a step with this need.
    pub(crate) fn may_start(&self, need: Need) -> bool {
        let beyond = match need {
            Need::Blocking | Need::Room => false,
            // If no thread is starting or ending, the reservation was made beyond the limit.
            Need::Reserved(_) => self.starting + self.ending == 0,
            Need::Process => self.is_last_to_run(),
        };
        !self.stopped && (self.threads < self.limit || beyond) && self.next_holder(need, false) == HandedOff::Grow
    }

    /// If a thread is available, reserves it for the first step in the queue, and returns the step's waker. If all
    /// blocked threads wait for processes, perhaps for those in the queue, no thread might ever become available. In
    /// that case, reserves one beyond the limit.
    pub(crate) fn reserve_for_queue(&mut self) -> Option<std::task::Waker> {
        let all_wait =
            || self.waiting.is_empty() && self.places.iter().all(|place| place.at != At::Blocked || place.waits);
        let may = self.available() > 0 || (self.blocking_queue.reserved() == 0 && all_wait());
        if may { self.blocking_queue.reserve_first() } else { None }
    }

    /// Returns the record of a thread.
    #[inline]
    pub(crate) fn record(&mut self, thread: usize) -> &mut ThreadRecord {
        &mut self.places[thread]
    }

    /// Returns whether blocking steps would hold all permits if one more step kept its permit.
    fn is_last_to_run(&self) -> bool {
        let blocking = self.places.iter().filter(|place| place.in_place && matches!(place.at, At::Up(_))).count();
        blocking + 1 >= self.permits
    }

    /// Passes the permit of `from` to the first waiting thread, and moves `from` to the state `then`.
    pub(crate) fn pass_to_waiting(&mut self, from: usize, then: At) -> Option<usize> {
        let At::Up(permit) = self.at(from) else { return None };
        let next = self.waiting.pop_front()?;
        self.set(next, At::Up(permit));
        self.set(from, then);
        Some(next)
    }

    /// Passes the permit of `from` to a spare thread, and moves `from` to the state `then`.
    pub(crate) fn pass_to_spare(&mut self, from: usize, then: At) -> Option<usize> {
        let At::Up(permit) = self.at(from) else { return None };
        let place = self.next_spare()?;
        let next = self.spare.remove(place);
        self.places[next].behind = Some(from);
        self.set(next, At::Up(permit));
        self.set(from, then);
        Some(next)
    }

    /// Marks a thread as driven by others.
    pub(crate) fn set_driven(&mut self, thread: usize) {
        self.places[thread].is_driven = true;
    }

    /// Passes the permit of `from`, which is about to sleep, to a spare driven thread, which sleeps in its place;
    /// `from` becomes detached. Does nothing if `from` is driven itself.
    pub(crate) fn pass_to_driven(&mut self, from: usize) -> Option<usize> {
        let At::Up(permit) = self.at(from) else { return None };
        if self.places[from].is_driven {
            return None;
        }
        let place = self.spare.iter().position(|&spare| self.places[spare].is_driven)?;
        let driven = self.spare.remove(place);
        self.begin_sleep(driven, permit);
        self.set(from, At::Detached);
        Some(driven)
    }

    /// Passes the permit of a sleeping thread in `list`, other than `poller`, to `driven`, which has become spare and
    /// takes its place in the list. Returns the former sleeper, which must be woken. Does nothing if `driven` is not
    /// driven by others, or all sleepers are.
    pub(crate) fn pass_from_sleeper(
        &mut self,
        driven: usize,
        list: &mut [usize],
        poller: Option<usize>,
    ) -> Option<usize> {
        if !self.places[driven].is_driven || self.at(driven) != At::Spare {
            return None;
        }
        let may_give = |&&mut sleeper: &&mut usize| !self.places[sleeper].is_driven && poller != Some(sleeper);
        let place = list.iter_mut().find(may_give)?;
        let sleeper = std::mem::replace(place, driven);
        let At::Asleep(permit) = self.at(sleeper) else { return None };
        self.spare.retain(|&spare| spare != driven);
        self.begin_sleep(driven, permit);
        self.become_spare(sleeper);
        Some(sleeper)
    }

    /// Passes the permit of `sleeper`, which is in `list`, to a spare driven thread, which takes its place there; the
    /// sleeper becomes spare. Returns false, and does nothing, if no driven thread is spare, or `sleeper` is driven.
    ///
    /// A driven thread that becomes spare takes a permit itself only if its step was taken over
    /// ([`pass_from_sleeper`](Self::pass_from_sleeper)). In the other cases, a sleeper does this when it next looks.
    pub(crate) fn pass_place_to_driven(&mut self, sleeper: usize, list: &mut [usize]) -> bool {
        let At::Asleep(permit) = self.at(sleeper) else { return false };
        let is_driven = |&spare: &usize| self.places[spare].is_driven;
        let driven = self.spare.iter().position(is_driven).filter(|_| !self.places[sleeper].is_driven);
        let Some((driven, place)) = driven.zip(list.iter_mut().find(|other| **other == sleeper)) else { return false };
        *place = self.spare.remove(driven);
        self.begin_sleep(*place, permit);
        self.become_spare(sleeper);
        true
    }

    /// Passes the permit of `sleeper` to `back`; the sleeper becomes spare. Returns the permit, and true if the sleeper
    /// must be woken, because its sleep is longer than the lifetime of a spare thread or because there are too many
    /// threads.
    pub(crate) fn displace(&mut self, sleeper: usize, back: usize) -> Option<(usize, bool)> {
        let At::Asleep(permit) = self.at(sleeper) else { return None };
        self.set(back, At::Up(permit));
        self.set(sleeper, At::Spare);
        self.spare.push(sleeper);
        Some((permit, !self.places[sleeper].timed || self.has_surplus()))
    }

    pub(crate) fn become_spare(&mut self, thread: usize) {
        self.starting -= usize::from(self.at(thread) == At::Starting);
        self.set(thread, At::Spare);
        self.spare.push(thread);
    }

    pub(crate) fn wait(&mut self, thread: usize) {
        self.set(thread, At::Waiting);
        self.waiting.push_back(thread);
    }

    pub(crate) fn begin_sleep(&mut self, thread: usize, permit: usize) {
        self.places[thread].timed = false;
        self.set(thread, At::Asleep(permit));
    }

    #[inline]
    pub(crate) fn end_sleep(&mut self, thread: usize) {
        if let At::Asleep(permit) = self.at(thread) {
            self.set(thread, At::Up(permit));
        }
    }

    /// Retires a spare thread. Returns false if it is not spare, or is reserved.
    pub(crate) fn retire(&mut self, thread: usize) -> bool {
        if self.places[thread].is_driven || self.has_surplus() && self.spare.len() <= self.blocking_queue.reserved() {
            return false;
        }
        let Some(place) = self.spare.iter().position(|&other| other == thread) else { return false };
        self.spare.remove(place);
        self.set(thread, At::Ending);
        self.ending += 1;
        true
    }

    /// Lets the threads that wait for a permit continue without one, when the host stops.
    pub(crate) fn detach_waiting(&mut self) {
        while let Some(thread) = self.waiting.pop_front() {
            self.set(thread, At::Detached);
        }
    }

    pub(crate) fn holder(&self, permit: usize) -> Option<usize> {
        self.those(|at| at == At::Up(permit) || at == At::Asleep(permit)).next()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::task::Waker;

    const ALL: [Need; 3] = [Need::Blocking, Need::Room, Need::Process];

    /// Creates two threads with a permit each, and a limit of `limit` threads.
    fn two(limit: usize) -> Permits {
        let mut permits = Permits::new(2, limit);
        assert_eq!([0, 1].map(|permit| permits.admit(Some(permit))), [0, 1]);
        permits
    }

    /// Catches: more threads than the limit, because a thread that has been started but is not running yet is not
    /// counted. (Faults: `may_start` omits `threads < limit`, or uses `<=`.)
    #[test]
    fn no_thread_is_started_beyond_the_limit_while_one_is_starting() {
        let mut permits = two(3);
        assert_eq!(ALL.map(|need| permits.may_start(need)), [true; 3]);
        let third = permits.admit(None);
        // The new thread is for the first step that asks.
        assert_eq!(ALL.map(|need| permits.next_holder(need, false)), [HandedOff::Grow; 3]);
        assert_eq!(ALL.map(|need| permits.may_start(need)), [false; 3]);
        permits.become_spare(third);
        assert_eq!(ALL.map(|need| permits.next_holder(need, false)), [HandedOff::ToSpare(third); 3]);
        assert_eq!(ALL.map(|need| permits.may_start(need)), [false; 3]);
        assert_eq!(permits.pass_to_spare(0, At::Blocked), Some(third));
        assert_eq!(ALL.map(|need| permits.next_holder(need, false)), [HandedOff::Stays; 3]);
        assert_eq!(ALL.map(|need| permits.may_start(need)), [false; 3]);
        // The step with the other permit blocks in place: a wait for another process must not stop everything.
        permits.record(1).in_place = true;
        assert_eq!(ALL.map(|need| permits.may_start(need)), [false, false, true]);
        permits.stopped = true;
        assert_eq!(ALL.map(|need| permits.may_start(need)), [false; 3]);
    }

    /// Catches: a permit that stays with a thread of the host's own although one that is driven by others could have
    /// it.
    #[test]
    fn a_driven_thread_that_is_spare_takes_the_permit_of_one_that_sleeps() {
        let mut permits = two(3);
        permits.set_driven(0);
        assert_eq!(permits.pass_to_driven(1), None, "no driven thread is spare");
        let own = permits.admit(None);
        permits.become_spare(own);
        assert_eq!(permits.pass_to_spare(0, At::Detached), Some(own));
        permits.become_spare(0);
        assert!(!permits.retire(0), "it is needed again");
        // The other thread is about to sleep, or sleeps.
        assert_eq!(
            (permits.pass_to_driven(own), permits.at(0), permits.at(own)),
            (Some(0), At::Asleep(0), At::Detached)
        );
        permits.end_sleep(0);
        assert_eq!(permits.pass_to_driven(0), None, "it is driven itself");
        permits.become_spare(own);
        assert_eq!(permits.pass_to_spare(0, At::Detached), Some(own));
        permits.begin_sleep(own, 0);
        permits.become_spare(0);
        let mut list = [own];
        assert_eq!(permits.pass_from_sleeper(0, &mut list, Some(own)), None, "the poller waits for a timer");
        assert_eq!((permits.pass_from_sleeper(0, &mut list, None), list), (Some(own), [0]));
        assert_eq!((permits.at(0), permits.at(own)), (At::Asleep(0), At::Spare));
    }

    /// Catches: a thread beyond the limit for a reservation that a starting or ending thread will satisfy. (Faults: in
    /// `may_start`, a reservation ignores `starting` or `ending`.)
    #[test]
    fn a_promise_exceeds_the_limit_only_if_no_thread_is_starting_or_ending() {
        let mut permits = two(2);
        let waiter = permits.blocking_queue.join(Waker::noop().clone());
        assert!(permits.reserve_for_queue().is_some(), "all that block wait for processes");
        let reserved = Need::Reserved(waiter);
        assert_eq!((permits.may_start(reserved), permits.may_start(Need::Blocking)), (true, false));
        let third = permits.admit(None);
        assert_eq!((permits.next_holder(reserved, false), permits.may_start(reserved)), (HandedOff::Grow, false));
        permits.become_spare(third);
        assert_eq!(
            (permits.next_holder(reserved, false), permits.may_start(reserved)),
            (HandedOff::ToSpare(third), false)
        );
        permits.blocking_queue.leave(waiter);
        assert!(permits.retire(third), "one too many, and not promised");
        let again = permits.blocking_queue.join(Waker::noop().clone());
        assert!(permits.reserve_for_queue().is_some());
        let reserved = Need::Reserved(again);
        assert_eq!((permits.next_holder(reserved, false), permits.may_start(reserved)), (HandedOff::Grow, false));
        permits.dismiss(third);
        assert!(permits.may_start(reserved));
    }
}
