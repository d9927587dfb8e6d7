//! Members and watchers of groups and topics.
//!
//! Every change of a group happens under the lock of its shard, including the events for watchers: they are in the
//! watchers' mailboxes, in order, before the next change. So a watcher that got a list of the members gets each later
//! change, and no earlier one. Only waking the watchers waits until the lock is free, since a waker may be users' code,
//! and so does suspending the process that floods a watcher. No event is refused at a full mailbox: that would be a
//! gap.
//!
//! Everything is keyed and ordered by PID, so that a program behaves the same in each run.

use super::group::GroupEvent;
use crate::call::dead_letter::{DeadLetter, DeadLetterReason, bring};
use crate::engine::backpressure::congestion::{Manner, in_manner};
use crate::env::chance::HashKeys;
use crate::errors::{BadName, GroupError, SendFailure};
use crate::exit::ExitReason;
use crate::links::registrations::{REGISTRATIONS, Registrant, Registration};
use crate::mailbox::payload::Payload;
use crate::names::name::Name;
use crate::pid::Pid;
use crate::routing::alias::lives;
use crate::slots::{Slot, TABLE, Token};
use crate::sync::{Arc, Mutex, MutexGuard, lock};
use std::any::TypeId;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::hash::BuildHasher;

/// The number of shards. A guess: more than the threads that use groups at the same time.
const SHARDS: usize = 64;

/// The key of a group: a name, a type, or both.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct GroupKey {
    pub(crate) event: Option<TypeId>,
    pub(crate) name: Option<Name>,
}

/// The groups of a host.
pub(crate) struct GroupTable {
    hasher: HashKeys,
    shards: [Mutex<HashMap<GroupKey, Membership>>; SHARDS],
}

struct Membership {
    people: BTreeMap<Pid, Person>,
    watchers: BTreeSet<Pid>,
    /// The group as a registration of its members.
    registrant: Arc<dyn Registrant>,
    /// The members, if they were requested since the last change.
    list: Option<Arc<[Pid]>>,
}

/// A member, a watcher, or both.
struct Person {
    /// How often it has joined without leaving.
    joins: u32,
    seat: Registration,
}

/// The registration of a process with a group.
struct GroupRegistration {
    rooms: &'static GroupTable,
    key: GroupKey,
}

/// Work for after the lock is released: the watchers have their events.
#[derive(Default)]
#[must_use = "the tokens of processes"]
struct Notices {
    woken: Vec<Token>,
    /// Receivers whose mailboxes may be too full.
    check_length: Vec<&'static Slot>,
}

impl Notices {
    fn wake(self) {
        self.woken.into_iter().for_each(Token::wake);
    }

    /// Wakes the watchers, and suspends the calling process if it floods them.
    fn wake_and_wait(self) {
        self.woken.into_iter().for_each(Token::wake);
        self.check_length.into_iter().for_each(Slot::check_length);
    }
}

/// The numbers of groups, members and watchers of a host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) rooms: usize,
    pub(crate) members: usize,
    pub(crate) watchers: usize,
}

impl Registrant for GroupRegistration {
    fn ended(&self, pid: Pid, reason: &ExitReason) {
        self.rooms.lose(&self.key, pid, reason);
    }

    fn directory(&self) -> usize {
        std::ptr::from_ref(self.rooms).addr()
    }
}

impl Default for GroupTable {
    fn default() -> Self {
        Self { hasher: HashKeys::new(), shards: std::array::from_fn(|_| Mutex::default()) }
    }
}

impl GroupTable {
    fn shard(&self, key: &GroupKey) -> MutexGuard<'_, HashMap<GroupKey, Membership>> {
        lock(&self.shards[self.hasher.hash_one(key) as usize % SHARDS])
    }

    /// Changes an existing group, and removes it if it is empty then.
    fn change<R>(
        &self,
        key: &GroupKey,
        change: impl FnOnce(&mut Membership, &mut Notices) -> R,
    ) -> Option<(R, Notices)> {
        let mut shard = self.shard(key);
        let mut told = Notices::default();
        let room = shard.get_mut(key)?;
        let result = change(room, &mut told);
        if room.people.is_empty() {
            shard.remove(key);
        }
        drop(shard);
        Some((result, told))
    }

    /// Adds `pid` to the group, making that if needed, and changes it.
    fn come<R>(
        &'static self,
        key: &GroupKey,
        pid: Pid,
        change: impl FnOnce(&mut Membership, &mut Notices) -> R,
    ) -> Result<R, GroupError> {
        let mut shard = self.shard(key);
        let room = shard
            .entry(key.clone())
            .or_insert_with(|| Membership::new(GroupRegistration { rooms: self, key: key.clone() }));
        let mut told = Notices::default();
        let result = room.take_in(pid).map(|()| change(room, &mut told));
        if room.people.is_empty() {
            shard.remove(key);
        }
        drop(shard);
        told.wake_and_wait();
        result
    }

    /// Adds a membership of `pid`. Returns whether it was not a member.
    pub(crate) fn join(&'static self, key: &GroupKey, pid: Pid) -> Result<bool, GroupError> {
        self.come(key, pid, |room, told| {
            let Some(person) = room.people.get_mut(&pid) else { return false };
            person.joins = person.joins.saturating_add(1);
            let is_new = person.joins == 1;
            if is_new {
                room.changed(told, |group| GroupEvent::Joined { group, pid }, key);
            }
            is_new
        })
    }

    /// Makes `pid` a member, once. Returns whether it was not a member.
    pub(crate) fn join_once(&'static self, key: &GroupKey, pid: Pid) -> Result<bool, GroupError> {
        self.come(key, pid, |room, _| {
            let Some(person) = room.people.get_mut(&pid) else { return false };
            room.list = None;
            std::mem::replace(&mut person.joins, 1) == 0
        })
    }

    /// Removes a membership of `pid`. Returns whether it was a member.
    pub(crate) fn leave(&self, key: &GroupKey, pid: Pid) -> bool {
        let left = self.change(key, |room, told| {
            let Some(person) = room.people.get_mut(&pid).filter(|person| person.joins > 0) else { return false };
            person.joins -= 1;
            if person.joins == 0 {
                room.let_go(pid);
                room.changed(told, |group| GroupEvent::Left { group, pid, reason: None }, key);
            }
            true
        });
        left.is_some_and(|(left, told)| {
            told.wake_and_wait();
            left
        })
    }

    /// Sends `watcher` each later change. Returns the members.
    pub(crate) fn watch(&'static self, key: &GroupKey, watcher: Pid) -> Result<Arc<[Pid]>, GroupError> {
        self.come(key, watcher, |room, _| {
            room.watchers.insert(watcher);
            room.members()
        })
    }

    /// Stops sending changes to `watcher`. Returns whether it was a watcher.
    pub(crate) fn unwatch(&self, key: &GroupKey, watcher: Pid) -> bool {
        let watched = self.change(key, |room, _| {
            let watched = room.watchers.remove(&watcher);
            room.let_go(watcher);
            watched
        });
        watched.is_some_and(|(watched, _)| watched)
    }

    /// Removes a process that has ended.
    fn lose(&self, key: &GroupKey, pid: Pid, reason: &ExitReason) {
        let lost = self.change(key, |room, told| {
            room.watchers.remove(&pid);
            if room.people.remove(&pid).is_some_and(|person| person.joins > 0) {
                room.changed(told, |group| GroupEvent::Left { group, pid, reason: Some(reason.clone()) }, key);
            }
        });
        // An exiting process is not suspended.
        if let Some((_, told)) = lost {
            told.wake();
        }
    }

    /// Returns the members, in the order of their PIDs.
    pub(crate) fn members(&self, key: &GroupKey) -> Arc<[Pid]> {
        self.shard(key).get_mut(key).map(Membership::members).unwrap_or_default()
    }

    /// Returns whether `pid` is a member.
    pub(crate) fn contains(&self, key: &GroupKey, pid: Pid) -> bool {
        self.shard(key).get(key).and_then(|room| room.people.get(&pid)).is_some_and(|person| person.joins > 0)
    }

    pub(crate) fn counts(&self) -> Counts {
        let mut counts = Counts::default();
        for shard in &self.shards {
            for room in lock(shard).values() {
                counts.rooms += 1;
                counts.members += room.people.values().filter(|person| person.joins > 0).count();
                counts.watchers += room.watchers.len();
            }
        }
        counts
    }

    /// Removes all groups, without events.
    pub(crate) fn clear(&self) {
        for shard in &self.shards {
            for (_, room) in lock(shard).drain() {
                for (pid, person) in room.people {
                    REGISTRATIONS.remove(pid, &person.seat);
                }
            }
        }
    }
}

impl Membership {
    fn new(place: GroupRegistration) -> Self {
        Self { people: BTreeMap::new(), watchers: BTreeSet::new(), registrant: Arc::new(place), list: None }
    }

    /// Adds an entry for `pid`, if it is alive and has none.
    fn take_in(&mut self, pid: Pid) -> Result<(), GroupError> {
        if self.people.contains_key(&pid) {
            return if lives(pid) { Ok(()) } else { Err(GroupError::Gone(pid)) };
        }
        let seat = REGISTRATIONS.add(pid, self.registrant.clone(), lives).ok_or(GroupError::Gone(pid))?;
        self.people.insert(pid, Person { joins: 0, seat });
        Ok(())
    }

    /// Removes the entry of `pid`, if it is neither a member nor a watcher.
    fn let_go(&mut self, pid: Pid) {
        if self.people.get(&pid).is_some_and(|person| person.joins == 0)
            && !self.watchers.contains(&pid)
            && let Some(person) = self.people.remove(&pid)
        {
            REGISTRATIONS.remove(pid, &person.seat);
        }
    }

    /// Sends an event to the watchers.
    fn changed(&mut self, told: &mut Notices, event: impl Fn(Arc<str>) -> GroupEvent, key: &GroupKey) {
        self.list = None;
        let Some(name) = &key.name else { return };
        for watcher in &self.watchers {
            let slot = TABLE.slot(watcher.slot());
            // A watcher may have ended meanwhile.
            let sent = slot.map(|slot| (slot, slot.send_quietly(*watcher, event(name.text().clone()))));
            if let Some((slot, Ok((token, check_length)))) = sent {
                told.woken.extend(token);
                told.check_length.extend(check_length.then_some(slot));
            }
        }
    }

    fn members(&mut self) -> Arc<[Pid]> {
        let Self { people, list, .. } = self;
        let members = || people.iter().filter(|(_, person)| person.joins > 0).map(|(pid, _)| *pid).collect();
        list.get_or_insert_with(members).clone()
    }
}

/// Sends a copy of `message` to each member that is alive and has room for it, or makes room. Never waits. Returns how
/// many got it.
pub(crate) fn spread<M: Clone + Send + 'static>(members: &[Pid], message: M) -> usize {
    let Some((last, others)) = members.split_last() else { return 0 };
    let sent = others.iter().filter(|pid| reach(**pid, message.clone())).count();
    sent + usize::from(reach(*last, message))
}

fn reach<M: Send + 'static>(pid: Pid, message: M) -> bool {
    match in_manner(Manner::Late, || crate::routing::router::send(pid, message)) {
        Ok(()) => true,
        Err((message, SendFailure::Full(_))) => {
            let letter = DeadLetter { to: pid, message: Payload::new(message), reason: DeadLetterReason::Overflow };
            match TABLE.living(pid).and_then(Slot::home) {
                Some(home) => home.scheduler.dead_letter(letter),
                None => bring(letter),
            }
            false
        }
        Err(_) => false,
    }
}

/// Makes the key for a name and a type of events.
pub(crate) fn key(event: Option<TypeId>, name: impl Into<Arc<str>>) -> Result<GroupKey, BadName> {
    Ok(GroupKey { event, name: Some(Name::new(name)?) })
}
