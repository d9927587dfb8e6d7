//! Which member of a pool gets which message, and when members come and go: decided here, without a clock, a thread or
//! a process. What happens is told to the [`PoolPlan`], with the time, and what is to be done comes out as
//! [`PoolAction`]s, in order.
//!
//! A pool is one or more *lanes*: members that share one line of waiting messages. Where any member will do there is
//! one lane; where the message decides, there is one for each key, with one member at most.
//!
//! 1. A message goes to a member of its lane that has room, if none waits before it. Else it waits, if the pool's lines
//!    have room, and if its lane may grow a member is started for it.
//! 2. A member that is done with a message gets the next of its lane.
//! 3. A member that ends is replaced if its lane is to have it, or if messages wait. Where no member is left after a
//!    start that failed, or after a member that ended before it was done with any message, those that wait are told
//!    why. A lane whose members fail backs off before it starts another, and a pool whose members fail too often gives
//!    up: see [`failures`].
//! 4. A member that has been idle for long enough is let go, if its lane has more than it is to have. It counts until
//!    it has ended, so that there are never two for one key.
//! 5. A pool that drains takes nothing new, and lets each member go that is done when nothing waits in its lane.

pub(crate) mod due;
pub(crate) mod failures;
pub(crate) mod lanes;

pub use failures::PoolGaveUp;
pub(crate) use failures::Unstarted;
pub(crate) use lanes::QueuedMessage;
use lanes::{CROWDED, Lane, MemberRecord, Numbered};

use crate::env::chance::Random;
use crate::env::clock::Moment;
use crate::exit::ExitReason;
use crate::pid::Pid;
use crate::supervision::Backoff;
use crate::supervision::plan::intensity::Intensity;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, VecDeque};
use std::hash::Hash;
use std::time::Duration;

/// Which of several members that have room gets a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Balancing {
    /// The one after the last that got one.
    RoundRobin,
    /// The one with the fewest messages; of several, the one that has been there longest.
    LeastLoaded,
}

/// What a pool keeps to.
#[derive(Clone, Debug)]
pub(crate) struct PoolRules {
    pub(crate) choice: Balancing,
    /// How many messages a member has at a time.
    pub(crate) concurrency: usize,
    /// How many may wait in all lines together.
    pub(crate) queue: usize,
    /// How long a message may wait.
    pub(crate) patience: Option<Duration>,
    /// How long a member may be idle.
    pub(crate) idle: Option<Duration>,
    /// How many members a lane has at least, and at most.
    pub(crate) least: usize,
    pub(crate) most: usize,
    /// How long a lane waits before it starts a member again.
    pub(crate) backoff: Backoff,
    /// How many failures there may be within how long.
    pub(crate) intensity: (u32, Duration),
}

/// What is to be done, in this order.
#[derive(Debug)]
pub(crate) enum PoolAction<K, T> {
    /// Give the message to the member; tell [`PoolPlan::done`] when it has been handled, or [`PoolPlan::bounced`] if it
    /// is gone.
    Give(MemberId, QueuedMessage<K, T>),
    /// Give the message to the member, past those that wait; its outcome is not asked for.
    Copy(Pid, T),
    /// Start a member for the lane; tell [`PoolPlan::started`] or [`PoolPlan::unstarted`].
    Start(K),
    /// Let the member go, when it is done with what it has.
    Stop(Pid),
    /// Tell the member that it is to end, whatever it has.
    Cancel(Pid),
    /// End the member.
    Kill(Pid),
    /// The message has waited for as long as it may.
    Expire(T),
    /// No member will take the message, and why.
    Fail(T, ExitReason),
    /// Members fail too often. The pool ends with this reason when it is over.
    GiveUp(ExitReason),
    /// The pool has drained, and its last member has ended.
    Over,
}

/// Names a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MemberId {
    pub(crate) number: u64,
    pub(crate) pid: Pid,
}

/// Why a message is not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PoolRefusal {
    Full,
    Draining,
}

/// How a pool stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Standing {
    pub(crate) members: usize,
    pub(crate) starting: usize,
    pub(crate) waiting: usize,
    pub(crate) in_hand: usize,
    /// How many failures of members and of starts there were.
    pub(crate) failed: u64,
}

/// See the module.
pub(crate) struct PoolPlan<K, T> {
    rules: PoolRules,
    lanes: HashMap<K, Lane<K, T>>,
    members: HashMap<u64, MemberRecord<K>, Numbered>,
    numbers: HashMap<Pid, u64>,
    actions: VecDeque<PoolAction<K, T>>,
    /// Until when those wait that do, in that order; some have been taken out of their lines since.
    patience: VecDeque<(Moment, K, u64)>,
    /// When members will have been idle for long enough, if they are idle until then.
    idlers: BinaryHeap<Reverse<(Moment, u64)>>,
    /// When to look again at lanes that back off, or where a member's mailbox was full.
    retries: Vec<(Moment, K)>,
    intensity: Intensity,
    /// Shortens delays.
    random: Random,
    failed: u64,
    serial: u64,
    waiting: usize,
    starting: usize,
    draining: bool,
    /// Why the pool ends without what waits, if it does.
    ending: Option<ExitReason>,
    /// When members are killed that outlive a pool that has given up.
    kill_at: Option<Moment>,
    over: bool,
    /// Whether there may be room since that was asked last.
    freed: bool,
}

impl<K: Clone + Eq + Hash, T> PoolPlan<K, T> {
    /// A plan with lanes that are always there.
    pub(crate) fn new(rules: PoolRules, lasting: impl IntoIterator<Item = K>, random: Random) -> Self {
        let (most, within) = rules.intensity;
        Self {
            rules,
            lanes: lasting.into_iter().map(|key| (key, Lane::new(true))).collect(),
            members: HashMap::default(),
            numbers: HashMap::new(),
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

    /// The next thing to do.
    pub(crate) fn action(&mut self) -> Option<PoolAction<K, T>> {
        self.actions.pop_front()
    }

    /// The pool begins: those start that are always there.
    pub(crate) fn open(&mut self) {
        let keys: Vec<K> = self.lanes.keys().cloned().collect();
        for key in keys {
            (0..self.rules.least).for_each(|_| self.start(&key));
        }
    }

    /// A message comes for a lane.
    pub(crate) fn arrive(&mut self, now: Moment, key: K, message: T) -> Result<(), (T, PoolRefusal)> {
        if self.draining {
            return Err((message, PoolRefusal::Draining));
        }
        let free = self.choose(&key, true);
        let until = self.rules.patience.map(|patience| now.after(patience));
        self.serial += 1;
        let waiting = QueuedMessage { message, lane: key.clone(), serial: self.serial, until };
        if let Some(number) = free {
            self.give(number, waiting);
            return Ok(());
        }
        let PoolRules { concurrency, most, .. } = self.rules;
        let grows = self.lanes.get(&key).is_none_or(|lane| {
            let is_short = lane.line.len() >= lane.starting.saturating_mul(concurrency);
            lane.count() < most && is_short && !lane.backs_off(now)
        });
        // Those that are being started will take some at once, and so will one that follows when all there are have
        // been let go, or when the lane has backed off.
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

    /// A message goes to a member past those that wait, in order with what was given before.
    pub(crate) fn spread(&mut self, member: Pid, message: T) {
        self.actions.push_back(PoolAction::Copy(member, message));
    }

    /// A member has handled a message.
    pub(crate) fn done(&mut self, now: Moment, number: u64) {
        let Some(member) = self.members.get_mut(&number) else { return };
        member.in_hand = member.in_hand.saturating_sub(1);
        (member.served, member.crowded) = (true, false);
        member.idle_since = now;
        let Some(lane) = self.lanes.get(&member.lane) else { return };
        self.freed = true;
        if !lane.line.is_empty() {
            let key = member.lane.clone();
            self.feed(&key);
        }
        if self.draining || self.rules.idle.is_some() {
            self.consider(now, number);
        }
    }

    /// A member was gone when it was to get a message, or `lives` and others have filled its mailbox: the message takes
    /// its place in line again.
    pub(crate) fn bounced(&mut self, now: Moment, number: u64, lives: bool, waiting: QueuedMessage<K, T>) {
        if let Some(member) = self.members.get_mut(&number) {
            (member.lost, member.crowded) = (!lives, lives);
            member.in_hand = member.in_hand.saturating_sub(1);
        }
        if self.over || self.ending.is_some() {
            let reason = self.ending.clone().unwrap_or(ExitReason::Gone);
            return self.actions.push_back(PoolAction::Fail(waiting.message, reason));
        }
        let key = waiting.lane.clone();
        self.lanes.entry(key.clone()).or_insert_with(|| Lane::new(false));
        self.wait(waiting);
        self.feed(&key);
        self.refill(now, &key);
        if lives {
            self.retry(now.after(CROWDED), &key);
        }
    }

    /// A member has started.
    pub(crate) fn started(&mut self, now: Moment, key: &K, pid: Pid) {
        self.serial += 1;
        let number = self.serial;
        let record = MemberRecord {
            pid,
            lane: key.clone(),
            in_hand: 0,
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
        // Those that were as few as there are to be may be too many now.
        members.into_iter().for_each(|number| self.consider(now, number));
        self.refill(now, key);
    }

    /// No member was started.
    pub(crate) fn unstarted(&mut self, now: Moment, key: &K, why: &Unstarted) {
        self.starting -= 1;
        if let Some(lane) = self.lanes.get_mut(key) {
            lane.starting -= 1;
        }
        match why {
            Unstarted::Unwanted => {}
            Unstarted::NoRoom(why) => {
                self.failed += 1;
                self.abandon_lane(key, why);
                self.back_off(now, key, None);
            }
            Unstarted::Failed(why) => {
                self.failed += 1;
                self.abandon_lane(key, why);
                self.fail(now, key, None, why);
            }
        }
        self.refill(now, key);
    }

    /// A member has ended. What it had in hand its callers have been told of. Returns whether that is a failure.
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

    /// From here on nothing new is taken, and the pool is over when what it has taken is done.
    pub(crate) fn drain(&mut self, now: Moment) {
        (self.draining, self.freed) = (true, true);
        let keys: Vec<K> = self.lanes.keys().cloned().collect();
        keys.iter().for_each(|key| self.refill(now, key));
        let members: Vec<u64> = self.members.keys().copied().collect();
        members.into_iter().for_each(|number| self.consider(now, number));
        self.settle();
    }

    /// The same, for this reason, without what waits, which comes back.
    pub(crate) fn abandon(&mut self, now: Moment, reason: ExitReason) -> Vec<T> {
        let left = self.end_with(reason);
        self.drain(now);
        left
    }

    /// The actions that are left are not carried out, and there is nothing to wait for.
    pub(crate) fn close(&mut self) {
        (self.draining, self.over) = (true, true);
        self.idlers.clear();
        self.retries.clear();
        self.kill_at = None;
    }

    /// All whose end has not been told, in the order of their starts.
    pub(crate) fn all(&self) -> Vec<Pid> {
        self.in_order(|_| true)
    }

    /// Returns whether a member that was to be started still is: not where the pool has drained meanwhile.
    pub(crate) fn wants(&self, key: &K) -> bool {
        !self.draining || self.lanes.get(key).is_some_and(|lane| !lane.line.is_empty())
    }

    /// Returns whether a message that was refused may find room since this was asked last.
    pub(crate) fn take_freed(&mut self) -> bool {
        std::mem::take(&mut self.freed)
    }

    pub(crate) fn has_room(&self) -> bool {
        let is_free = |member: &MemberRecord<K>| member.has_room(&self.rules);
        self.draining || self.waiting < self.rules.queue || self.members.values().any(is_free)
    }

    pub(crate) fn is_draining(&self) -> bool {
        self.draining
    }

    /// Those that get messages.
    pub(crate) fn members(&self) -> Vec<Pid> {
        self.in_order(MemberRecord::is_present)
    }

    fn in_order(&self, which: impl Fn(&MemberRecord<K>) -> bool) -> Vec<Pid> {
        let mut members: Vec<_> = self.members.iter().filter(|(_, record)| which(record)).collect();
        members.sort_unstable_by_key(|(number, _)| **number);
        members.into_iter().map(|(_, record)| record.pid).collect()
    }

    pub(crate) fn standing(&self) -> Standing {
        let present = self.members.values().filter(|record| record.is_present());
        Standing {
            members: present.count(),
            starting: self.starting,
            waiting: self.waiting,
            in_hand: self.members.values().map(|record| record.in_hand).sum(),
            failed: self.failed,
        }
    }
}

#[cfg(test)]
mod tests;
