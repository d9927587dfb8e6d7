//! Members and watchers of groups and topics.
//!
//! Every change of a group is made under the lock of its shard, and its events are pushed under the same lock: they are
//! in the watchers' mailboxes, in order, before the next change. So a watcher that got a list of the members gets each
//! later change, and no earlier one. Only two things wait until the lock is released: waking the watchers, since a
//! waker may be user code, and suspending a process that floods a watcher. A full mailbox refuses no event.
//!
//! Everything is keyed and ordered by PID, so that a program behaves the same in each run.

use crate::call::dead_letter::{DeadLetter, DeadLetterReason, Sink};
use crate::engine::backpressure::congestion::{SendMode, with_mode};
use crate::engine::host::{Scheduler, reuse::HostRef};
use crate::errors::{BadName, GroupError, SendFailure};
use crate::links::registrations::{REGISTRATIONS, Registrant, Registration};
use crate::mailbox::lanes::Claim;
use crate::slots::slot::admission::Pushed;
use crate::slots::{Slot, TABLE, Token};
use crate::sync::{Arc, Mutex, MutexGuard, lock, touch_everything};
use crate::util::{notifiers::wake, panics::Site};
use crate::{ExitReason, Payload, Pid, env::chance::HashKeys, names::name::Name, routing::alias::lives};
use std::collections::{BTreeMap, BTreeSet};
use std::{any::TypeId, hash::BuildHasher, task::Waker};

/// A change of a group, sent to its subscribers.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum GroupEvent {
    /// A process has become a member.
    Joined {
        /// The name of the group.
        group: Arc<str>,
        /// The process.
        pid: Pid,
    },
    /// A process is no longer a member.
    Left {
        /// The name of the group.
        group: Arc<str>,
        /// The process.
        pid: Pid,
        /// Why the process ended; `None` if it left.
        reason: Option<ExitReason>,
    },
}

/// The number of shards. A guess: more than the number of threads that use groups at the same time.
const SHARDS: usize = 64;

/// The key of a group or topic: a name, a type, or both.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct GroupKey {
    pub(crate) event: Option<TypeId>,
    pub(crate) name: Option<Name>,
}

pub(crate) struct GroupTable {
    hasher: HashKeys,
    shards: [Mutex<BTreeMap<GroupKey, GroupState>>; SHARDS],
}

struct GroupState {
    members: BTreeMap<Pid, Member>,
    watchers: BTreeSet<Pid>,
    /// The group as a registrant of its members.
    registrant: Arc<dyn Registrant>,
    /// The list of members, if it was requested since the last change.
    list: Option<Arc<[Pid]>>,
}

/// A member, a watcher, or both.
struct Member {
    /// The number of joins minus the number of leaves.
    joins: u32,
    registration: Registration,
}

struct GroupRegistration {
    table: &'static GroupTable,
    key: GroupKey,
}

/// The watchers to be woken after the lock is released. Their events are already in their mailboxes.
#[derive(Default)]
#[must_use = "the tokens of processes"]
struct Notices(Vec<(&'static Slot, Pushed)>);

impl Notices {
    /// Wakes the watchers: processes and mailboxes first, then user wakers, because a waker may wait for any of the
    /// others.
    fn wake(self) {
        let (ended, alive): (Vec<_>, Vec<_>) =
            self.0.into_iter().partition(|(_, pushed)| pushed.claim == Claim::Vacant);
        let tokens = alive.into_iter().filter_map(|(slot, pushed)| slot.claimed(pushed).ok().flatten());
        let wakers: Vec<Waker> = tokens.filter_map(Token::hand_over).collect();
        // Ended watchers come before the wakers, because a waker may wait for messages that others have sent to an
        // ended watcher. These messages become dead letters, which are passed to user hooks.
        ended.into_iter().for_each(|(slot, pushed)| drop(slot.claimed(pushed)));
        wakers.into_iter().for_each(|waker| wake(Site::MailboxWaker, waker));
    }

    /// Wakes the watchers, and suspends the calling process if it floods them.
    fn wake_and_wait(self) {
        let to_check = self.0.iter().filter(|(_, pushed)| pushed.is_to_check()).map(|(slot, _)| *slot);
        let to_check: Vec<&'static Slot> = to_check.collect();
        self.wake();
        to_check.into_iter().for_each(Slot::check_length);
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) groups: usize,
    pub(crate) members: usize,
    pub(crate) watchers: usize,
}

impl Registrant for GroupRegistration {
    fn ended(&self, pid: Pid, reason: &ExitReason) {
        self.table.remove_ended(&self.key, pid, reason);
    }

    fn directory(&self) -> usize {
        std::ptr::from_ref(self.table).addr()
    }
}

impl Default for GroupTable {
    fn default() -> Self {
        Self { hasher: HashKeys::new(), shards: std::array::from_fn(|_| Mutex::default()) }
    }
}

impl GroupTable {
    fn shard(&self, key: &GroupKey) -> MutexGuard<'_, BTreeMap<GroupKey, GroupState>> {
        lock(&self.shards[self.hasher.hash_one(key) as usize % SHARDS])
    }

    /// Adds `pid` to the group, and applies `change`. Creates the group if needed.
    fn enter<R>(
        &'static self,
        key: &GroupKey,
        pid: Pid,
        change: impl FnOnce(&mut GroupState, &mut Notices) -> R,
    ) -> Result<R, GroupError> {
        let mut shard = self.shard(key);
        shard
            .entry(key.clone())
            .or_insert_with(|| GroupState::new(GroupRegistration { table: self, key: key.clone() }));
        let add = |group: &mut GroupState, notices: &mut Notices| group.add(pid).map(|()| change(group, notices));
        change_in(shard, key, Notices::wake_and_wait, add).unwrap_or(Err(GroupError::Gone(pid)))
    }

    /// Adds a membership of `pid`. Returns whether it was not a member.
    pub(crate) fn join(&'static self, key: &GroupKey, pid: Pid) -> Result<bool, GroupError> {
        self.enter(key, pid, |group, notices| {
            let Some(member) = group.members.get_mut(&pid) else { return false };
            member.joins = member.joins.saturating_add(1);
            let is_new = member.joins == 1;
            if is_new {
                group.changed(notices, |name| GroupEvent::Joined { group: name, pid }, key);
            }
            is_new
        })
    }

    /// Makes `pid` a member with a single membership. Returns true if it was not a member before.
    pub(crate) fn join_once(&'static self, key: &GroupKey, pid: Pid) -> Result<bool, GroupError> {
        self.enter(key, pid, |group, _| {
            let Some(member) = group.members.get_mut(&pid) else { return false };
            group.list = None;
            std::mem::replace(&mut member.joins, 1) == 0
        })
    }

    /// Removes one membership of `pid`. Returns whether it was a member.
    pub(crate) fn leave(&self, key: &GroupKey, pid: Pid) -> bool {
        touch_everything();
        let left = change_in(self.shard(key), key, Notices::wake_and_wait, |group, notices| {
            let Some(member) = group.members.get_mut(&pid).filter(|member| member.joins > 0) else { return false };
            member.joins -= 1;
            if member.joins == 0 {
                group.remove_unused(pid);
                group.changed(notices, |name| GroupEvent::Left { group: name, pid, reason: None }, key);
            }
            true
        });
        left == Some(true)
    }

    /// Makes `watcher` receive each later change. Returns the members.
    pub(crate) fn watch(&'static self, key: &GroupKey, watcher: Pid) -> Result<Arc<[Pid]>, GroupError> {
        touch_everything();
        self.enter(key, watcher, |group, _| {
            group.watchers.insert(watcher);
            group.members()
        })
    }

    /// Stops sending changes to `watcher`. Returns whether it was a watcher.
    pub(crate) fn unwatch(&self, key: &GroupKey, watcher: Pid) -> bool {
        touch_everything();
        let watched = change_in(self.shard(key), key, Notices::wake_and_wait, |group, _| {
            let watched = group.watchers.remove(&watcher);
            group.remove_unused(watcher);
            watched
        });
        watched == Some(true)
    }

    fn remove_ended(&self, key: &GroupKey, pid: Pid, reason: &ExitReason) {
        // Not `wake_and_wait`: an exiting process is never suspended.
        change_in(self.shard(key), key, Notices::wake, |group, notices| {
            group.watchers.remove(&pid);
            if group.members.remove(&pid).is_some_and(|member| member.joins > 0) {
                group.changed(notices, |name| GroupEvent::Left { group: name, pid, reason: Some(reason.clone()) }, key);
            }
        });
    }

    /// Returns the members, in the order of their PIDs.
    pub(crate) fn members(&self, key: &GroupKey) -> Arc<[Pid]> {
        touch_everything();
        self.shard(key).get_mut(key).map(GroupState::members).unwrap_or_default()
    }

    pub(crate) fn contains(&self, key: &GroupKey, pid: Pid) -> bool {
        touch_everything();
        self.shard(key).get(key).and_then(|group| group.members.get(&pid)).is_some_and(|member| member.joins > 0)
    }

    /// Returns a member or subscriber that has ended, if there is one. Simulations call this between turns.
    #[cfg(feature = "test")]
    pub(crate) fn has_a_dead_member(&self) -> Option<Pid> {
        let in_shard = |shard: &Mutex<BTreeMap<GroupKey, GroupState>>| {
            let shard = lock(shard);
            if shard.is_empty() {
                return None;
            }
            let all = shard.values().flat_map(|group| group.members.keys().chain(&group.watchers));
            all.copied().filter(|pid| !lives(*pid)).min()
        };
        self.shards.iter().find_map(in_shard)
    }

    pub(crate) fn counts(&self) -> Counts {
        let mut counts = Counts::default();
        for shard in &self.shards {
            for group in lock(shard).values() {
                counts.groups += 1;
                counts.members += group.members.values().filter(|member| member.joins > 0).count();
                counts.watchers += group.watchers.len();
            }
        }
        counts
    }

    /// Removes all groups, without events.
    pub(crate) fn clear(&self) {
        for shard in &self.shards {
            for (_, group) in std::mem::take(&mut *lock(shard)) {
                for (pid, member) in group.members {
                    REGISTRATIONS.remove(pid, &member.registration);
                }
            }
        }
    }
}

/// Changes the group if it exists, removes it if it is then empty, releases the shard, and calls `tell`.
fn change_in<R>(
    mut shard: MutexGuard<'_, BTreeMap<GroupKey, GroupState>>,
    key: &GroupKey,
    tell: fn(Notices),
    change: impl FnOnce(&mut GroupState, &mut Notices) -> R,
) -> Option<R> {
    let mut notices = Notices::default();
    let group = shard.get_mut(key)?;
    let result = change(group, &mut notices);
    if group.members.is_empty() {
        shard.remove(key);
    }
    drop(shard);
    tell(notices);
    Some(result)
}

impl GroupState {
    fn new(place: GroupRegistration) -> Self {
        Self { members: BTreeMap::new(), watchers: BTreeSet::new(), registrant: Arc::new(place), list: None }
    }

    /// Adds an entry for `pid`, unless it has one. Fails if the process is not alive.
    fn add(&mut self, pid: Pid) -> Result<(), GroupError> {
        if self.members.contains_key(&pid) {
            return if lives(pid) { Ok(()) } else { Err(GroupError::Gone(pid)) };
        }
        let registration = REGISTRATIONS.add(pid, self.registrant.clone(), lives).ok_or(GroupError::Gone(pid))?;
        self.members.insert(pid, Member { joins: 0, registration });
        Ok(())
    }

    /// Removes the entry of `pid`, if it is neither a member nor a watcher.
    fn remove_unused(&mut self, pid: Pid) {
        if self.members.get(&pid).is_some_and(|member| member.joins == 0)
            && !self.watchers.contains(&pid)
            && let Some(member) = self.members.remove(&pid)
        {
            REGISTRATIONS.remove(pid, &member.registration);
        }
    }

    /// Discards the list of members, and sends an event to the watchers.
    fn changed(&mut self, notices: &mut Notices, event: impl Fn(Arc<str>) -> GroupEvent, key: &GroupKey) {
        self.list = None;
        let Some(name) = &key.name else { return };
        for watcher in &self.watchers {
            let Some(slot) = TABLE.slot(watcher.slot()) else { continue };
            // A watcher may have ended in the meantime.
            let pushed = slot.push_message(*watcher, event(name.text().clone())).ok().flatten();
            notices.0.extend(pushed.map(|pushed| (slot, pushed)));
        }
    }

    fn members(&mut self) -> Arc<[Pid]> {
        let Self { members, list, .. } = self;
        let members = || members.iter().filter(|(_, member)| member.joins > 0).map(|(pid, _)| *pid).collect();
        list.get_or_insert_with(members).clone()
    }
}

/// The table of a host. After the host has ended, a later host may reuse the table: [`get`](Self::get) checks for that.
#[derive(Clone, Copy)]
pub(crate) struct TableOfHost {
    table: &'static GroupTable,
    host: HostRef,
}

impl TableOfHost {
    pub(crate) fn new(table: &'static GroupTable, host: HostRef) -> Self {
        Self { table, host }
    }

    /// Returns the table, unless the host has ended.
    pub(crate) fn get(self) -> Result<&'static GroupTable, GroupError> {
        if self.host.has_ended() { Err(GroupError::Shutdown) } else { Ok(self.table) }
    }

    /// Sends a copy of `message` to each live member whose mailbox has room or makes room. Never waits. Returns how
    /// many members got a copy.
    pub(crate) fn spread<M: Clone + Send + 'static>(self, members: &[Pid], message: M) -> usize {
        let Some((last, others)) = members.split_last() else { return 0 };
        let sent = others.iter().filter(|pid| send_copy(self.host.scheduler, **pid, message.clone())).count();
        sent + usize::from(send_copy(self.host.scheduler, *last, message))
    }
}

/// Sends a copy, and returns whether it was delivered. If there is no room, the copy becomes a dead letter of the
/// member's host, or of `host` if the member has no host in this program.
fn send_copy<M: Send + 'static>(host: &'static Scheduler, pid: Pid, message: M) -> bool {
    match with_mode(SendMode::Delayed, || crate::routing::router::send(pid, message)) {
        Ok(()) => true,
        Err((message, SendFailure::Full(_))) => {
            let dead_letter = DeadLetter::new(pid, Payload::new(message), DeadLetterReason::Overflow, None);
            match pid.resolve().and_then(|process| TABLE.living(process)).and_then(Slot::owner) {
                Some(owner) => owner.host.dead_letter(dead_letter),
                None => host.dead_letter(dead_letter),
            }
            false
        }
        Err(_) => false,
    }
}

pub(crate) fn key(event: Option<TypeId>, name: impl Into<Arc<str>>) -> Result<GroupKey, BadName> {
    Ok(GroupKey { event, name: Some(Name::new(name)?) })
}
