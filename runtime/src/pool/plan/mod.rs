//! The decisions of a pool: which member gets which message, and when members are started and retired. This module has
//! no clock, threads or processes: events go into the [`PoolPlan`] with their time, and [`PoolAction`]s come out in
//! order.
//!
//! A pool has one or more *lanes*: members that share a queue of messages. If any member can handle any message, there
//! is one lane; if the message determines the member, there is one lane per key, with at most one member.
//!
//! 1. A message goes to a member that has room, among those of the message's lane, unless others wait before it.
//!    Otherwise it is queued if the queue has room, and a member is started for it if its lane may grow.
//! 2. A member that finishes a message gets the next message of its lane.
//! 3. A member that ends is replaced if its lane needs it, or if messages wait. If no member is left after a failed
//!    start, or after a member that ended before it had finished any message, the queued messages fail with that
//!    reason. Failures make the lane back off, and too many make the pool give up: see [`failures`].
//! 4. A member that has been idle for long enough is retired, if its lane has more than it needs. It still counts as a
//!    member until it has ended, so that a key never has two.
//! 5. A pool that drains accepts nothing new, and retires members that have finished when nothing waits in their lane.
//!
//! The contract: after each call below, the caller takes all actions (`action`) and executes them in order; calls are
//! serialized by one lock. An event of a member or lane that is gone has no effect.
//!
//! | call | when |
//! |---|---|
//! | `open` | once, before all others |
//! | `arrive`, `spread` | at any time; `arrive` returns a message that is refused |
//! | `done`, `bounced` or `unsent` | once for each `Give` |
//! | `started` or `unstarted` | once for each `Start`; `wants` tells whether it is still needed |
//! | `down` | once for each member reported by `started`, when it has ended |
//! | `tick` | at the moment that `due` returns, or later |
//! | `drain` | at any time, also repeatedly |
//! | `end_with`, then `drain` | when the pool is cancelled or killed |
//! | `end_with`, then `close` | when the pool's process has ended: members may be alive, and nothing more is planned |

pub(crate) mod due;
pub(crate) mod failures;
pub(crate) mod lanes;
mod records;

pub use failures::PoolGaveUp;
pub(crate) use records::{Balancing, MemberId, PoolRules, QueuedMessage, Unstarted};
use records::{CROWDED, Lane, MemberRecord, QueuePlace};

use crate::env::{chance::Random, clock::Moment};
use crate::supervision::plan::intensity::Intensity;
use crate::{exit::ExitReason, pid::Pid};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};

#[derive(Debug)]
pub(crate) enum PoolAction<K, T> {
    /// Give the message to the member; then call [`PoolPlan::done`] when it has been handled, [`PoolPlan::bounced`] if
    /// the member was gone or full, or [`PoolPlan::unsent`] if this message cannot be sent to it.
    Give(MemberId, QueuedMessage<K, T>),
    /// Give the message to the member ahead of queued messages. Its outcome is not reported.
    Copy(Pid, T),
    /// Start a member for the lane; then call [`PoolPlan::started`] or [`PoolPlan::unstarted`].
    Start(K),
    /// Let the member end when it has finished its messages.
    Stop(Pid),
    /// Tell the member to end now.
    Cancel(Pid),
    Kill(Pid),
    Expire(T),
    /// Fail the message with this reason: no member will take it.
    Fail(T, ExitReason),
    /// Members fail too often. The pool must end with this reason when it is over.
    GiveUp(ExitReason),
    /// The pool has drained, and its last member has ended.
    Over,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PoolRefusal {
    Full,
    Draining,
}

/// The state and counters of a pool.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct PoolStatistics {
    /// Number of members that take messages.
    pub members: usize,
    /// Number of members that are being started.
    pub starting: usize,
    /// Number of messages queued for a member.
    pub waiting: usize,
    /// Number of messages that members have been given and have not finished.
    pub in_flight: usize,
    /// Number of messages accepted.
    pub accepted: u64,
    /// Number of messages refused because the queue was full or the pool was stopped. Messages that arrive after the
    /// pool has ended are not counted here: the PID of the pool is retired then and no longer leads to it, since
    /// another pool may have its place. They are refused as for any process that has ended: each sender gets the
    /// message back, with [`Gone`](crate::error::SendFailure::Gone).
    pub refused: u64,
    /// Number of messages that waited too long in the queue.
    pub expired: u64,
    /// Number of members started.
    pub started: u64,
    /// Number of failures of members (see [`intensity`](crate::Pool::intensity)) and of their starts.
    pub failed: u64,
}

pub(crate) struct PoolPlan<K, T> {
    rules: PoolRules,
    lanes: BTreeMap<K, Lane<K, T>>,
    members: BTreeMap<u64, MemberRecord<K>>,
    numbers: BTreeMap<Pid, u64>,
    actions: VecDeque<PoolAction<K, T>>,
    /// When queued messages expire, in order. Some of them may have left their queues since.
    patience: VecDeque<(Moment, K, u64)>,
    /// When idle members will have been idle for long enough.
    idlers: BinaryHeap<Reverse<(Moment, u64)>>,
    /// When to check again the lanes that back off, or whose members' mailboxes were full.
    retries: Vec<(Moment, K)>,
    intensity: Intensity,
    random: Random,
    failed: u64,
    serial: u64,
    waiting: usize,
    starting: usize,
    draining: bool,
    /// Exit reason of a pool that ends without handling its queue.
    ending: Option<ExitReason>,
    /// When to kill members that outlive a pool that has given up.
    kill_at: Option<Moment>,
    over: bool,
    /// Whether room may have become free since the last [`take_freed`](Self::take_freed).
    freed: bool,
}

impl<K: Clone + Ord, T> PoolPlan<K, T> {
    /// Creates a plan with these permanent lanes.
    pub(crate) fn new(rules: PoolRules, lasting: impl IntoIterator<Item = K>, random: Random) -> Self {
        let (most, within) = rules.intensity;
        Self {
            rules,
            lanes: lasting.into_iter().map(|key| (key, Lane::new(true))).collect(),
            members: BTreeMap::new(),
            numbers: BTreeMap::new(),
            actions: VecDeque::new(),
            patience: VecDeque::new(),
            idlers: BinaryHeap::new(),
            retries: Vec::new(),
            intensity: Intensity::new(most, within),
            random,
            failed: 0,
            serial: 0,
            waiting: 0,
            starting: 0,
            draining: false,
            ending: None,
            kill_at: None,
            over: false,
            freed: false,
        }
    }

    pub(crate) fn action(&mut self) -> Option<PoolAction<K, T>> {
        self.actions.pop_front()
    }

    /// Starts the members of the permanent lanes.
    pub(crate) fn open(&mut self) {
        let keys: Vec<K> = self.lanes.keys().cloned().collect();
        for key in keys {
            (0..self.rules.least).for_each(|_| self.start(&key));
        }
    }

    pub(crate) fn arrive(&mut self, now: Moment, key: K, message: T) -> Result<(), (T, PoolRefusal)> {
        if !self.accepts() {
            return Err((message, PoolRefusal::Draining));
        }
        let free = self.choose(&key, true);
        let until = self.rules.patience.map(|patience| now.after(patience));
        self.serial += 1;
        let waiting = QueuedMessage { message, place: QueuePlace { lane: key.clone(), serial: self.serial, until } };
        if let Some(number) = free {
            self.give(number, waiting);
            return Ok(());
        }
        let PoolRules { concurrency, most, .. } = self.rules;
        let grows = self.lanes.get(&key).is_none_or(|lane| {
            let is_short = lane.queue.len() >= lane.starting.saturating_mul(concurrency);
            lane.count() < most && is_short && !lane.backs_off(now)
        });
        // A member that is starting will take some messages at once, and so will one that starts after a backoff or
        // replaces retired members.
        let follows = |lane: &Lane<K, T>| !grows && lane.starting == 0 && self.present(lane) == 0;
        let comes = grows || self.lanes.get(&key).is_some_and(follows);
        let coming = (self.starting + usize::from(comes)).saturating_mul(concurrency);
        if self.waiting >= self.rules.queue.saturating_add(coming) {
            return Err((waiting.message, PoolRefusal::Full));
        }
        self.lanes.entry(key.clone()).or_insert_with(|| Lane::new(false));
        self.wait(waiting);
        if grows {
            self.start(&key);
        }
        Ok(())
    }

    /// Gives a message to a member ahead of queued ones, in order with earlier actions.
    pub(crate) fn spread(&mut self, member: Pid, message: T) {
        self.actions.push_back(PoolAction::Copy(member, message));
    }

    pub(crate) fn done(&mut self, now: Moment, number: u64) {
        let Some(member) = self.members.get_mut(&number) else { return };
        member.served = true;
        self.unsent(now, number);
    }

    /// Handles a message that has failed because it could not be sent to the member.
    pub(crate) fn unsent(&mut self, now: Moment, number: u64) {
        let Some(member) = self.members.get_mut(&number) else { return };
        member.in_flight = member.in_flight.saturating_sub(1);
        member.crowded = false;
        member.idle_since = now;
        let Some(lane) = self.lanes.get(&member.lane) else { return };
        self.freed = true;
        if !lane.queue.is_empty() {
            let key = member.lane.clone();
            self.feed(&key);
        }
        if self.draining || self.rules.idle.is_some() {
            self.consider(now, number);
        }
    }

    /// Handles the return of a message. The member was gone, or it is alive (`lives`) and has no room, because others
    /// filled its mailbox or it is being restarted. The message takes its place in the queue again.
    pub(crate) fn bounced(&mut self, now: Moment, number: u64, lives: bool, waiting: QueuedMessage<K, T>) {
        if let Some(member) = self.members.get_mut(&number) {
            (member.lost, member.crowded) = (!lives, lives);
            member.in_flight = member.in_flight.saturating_sub(1);
        }
        if self.over || self.ending.is_some() {
            let reason = self.ending.clone().unwrap_or(ExitReason::NoProcess);
            return self.actions.push_back(PoolAction::Fail(waiting.message, reason));
        }
        let key = waiting.place.lane.clone();
        self.lanes.entry(key.clone()).or_insert_with(|| Lane::new(false));
        self.wait(waiting);
        self.feed(&key);
        self.refill(now, &key);
        if lives {
            self.retry(now.after(CROWDED), &key);
        }
    }

    pub(crate) fn started(&mut self, now: Moment, key: &K, pid: Pid) {
        self.serial += 1;
        let number = self.serial;
        let record = MemberRecord {
            pid,
            lane: key.clone(),
            in_flight: 0,
            served: false,
            since: now,
            idle_since: now,
            listed: false,
            let_go: false,
            lost: false,
            crowded: false,
        };
        self.starting -= 1;
        self.members.insert(number, record);
        self.numbers.insert(pid, number);
        let Some(lane) = self.lanes.get_mut(key) else { return };
        lane.starting -= 1;
        lane.members.push(number);
        let members = lane.members.clone();
        self.feed(key);
        // With the new member, there may be more than the lane needs.
        members.into_iter().for_each(|number| self.consider(now, number));
        self.refill(now, key);
    }

    pub(crate) fn unstarted(&mut self, now: Moment, key: &K, unstarted: &Unstarted) {
        self.starting -= 1;
        if let Some(lane) = self.lanes.get_mut(key) {
            lane.starting -= 1;
        }
        if let Unstarted::NoRoom(why) | Unstarted::Failed(why) = unstarted {
            self.failed += 1;
            self.abandon_lane(key, why);
            match unstarted {
                Unstarted::Failed(_) => self.fail(now, key, None, why),
                _ => self.back_off(now, key, None),
            }
        }
        self.refill(now, key);
    }

    /// Handles the end of a member. Its callers have already been notified. Returns whether the end is a failure.
    pub(crate) fn down(&mut self, now: Moment, pid: Pid, why: &ExitReason) -> bool {
        let Some(member) = self.numbers.remove(&pid).and_then(|number| Some((number, self.members.remove(&number)?)))
        else {
            return false;
        };
        let (number, record) = member;
        let has_failed = record.has_failed(why) && self.ending.is_none();
        let MemberRecord { lane: key, served, let_go, since, .. } = record;
        let Some(lane) = self.lanes.get_mut(&key) else { return has_failed };
        lane.members.retain(|&other| other != number);
        if !served && !let_go {
            self.abandon_lane(&key, why);
        }
        if has_failed {
            self.failed += 1;
            self.fail(now, &key, Some(now.since(since)), why);
        }
        self.refill(now, &key);
        has_failed
    }

    /// Stops accepting messages. The pool is over when all accepted messages are done.
    pub(crate) fn drain(&mut self, now: Moment) {
        (self.draining, self.freed) = (true, true);
        let keys: Vec<K> = self.lanes.keys().cloned().collect();
        keys.iter().for_each(|key| self.refill(now, key));
        let members: Vec<u64> = self.members.keys().copied().collect();
        members.into_iter().for_each(|number| self.consider(now, number));
        self.settle();
    }

    /// Stops planning. Actions that are already planned remain.
    pub(crate) fn close(&mut self) {
        (self.draining, self.over) = (true, true);
        self.idlers.clear();
        self.retries.clear();
        self.kill_at = None;
    }

    /// Returns all members whose end has not been reported, in the order of their starts.
    pub(crate) fn all(&self) -> Vec<Pid> {
        self.members.values().map(|record| record.pid).collect()
    }

    /// Returns whether a requested member is still needed: a draining pool needs it only if messages wait in the lane.
    pub(crate) fn wants(&self, key: &K) -> bool {
        !self.draining || self.lanes.get(key).is_some_and(|lane| !lane.queue.is_empty())
    }

    /// Returns whether room may have become free since the last call, and resets the flag.
    pub(crate) fn take_freed(&mut self) -> bool {
        std::mem::take(&mut self.freed)
    }

    /// Returns whether the pool accepts messages when it has room: false if it drains or ends.
    pub(crate) fn accepts(&self) -> bool {
        !self.draining && self.ending.is_none()
    }

    pub(crate) fn has_room(&self) -> bool {
        let is_free = |member: &MemberRecord<K>| member.has_room(&self.rules);
        !self.accepts() || self.waiting < self.rules.queue || self.members.values().any(is_free)
    }

    /// Returns the members that take messages.
    pub(crate) fn members(&self) -> Vec<Pid> {
        self.members.values().filter(|record| record.is_present()).map(|record| record.pid).collect()
    }

    /// Returns `counted`, completed with the current state of the pool.
    pub(crate) fn statistics(&self, counted: PoolStatistics) -> PoolStatistics {
        PoolStatistics {
            members: self.members.values().filter(|record| record.is_present()).count(),
            starting: self.starting,
            waiting: self.waiting,
            in_flight: self.members.values().map(|record| record.in_flight).sum(),
            failed: self.failed,
            ..counted
        }
    }
}

#[cfg(test)]
mod tests;
