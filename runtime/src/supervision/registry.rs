//! The children of a supervisor as others see them: their slots by name, and their states.
//!
//! The supervisor's process writes the registry; handles of the tree read it, and add dynamic children. The registry of
//! a supervisor that is itself a child outlives the supervisor's process: the next process finds the slots of the
//! children in it, so their addresses stay valid.
//!
//! A child's alias is valid as long as a supervisor can start the child, even while the child is down. If the
//! supervisor is itself a child, the alias stays valid while the supervisor is down, too. When no supervisor can start
//! the child any more, the alias is retired, even if handles of the tree remain; it then has no names and is in no
//! group.

use super::child_slot::{ChildSlot, Subtree};
use super::{errors::ChildError, plan::Strategy, status::ChildState};
use crate::routing::alias::{self, Alias};
use crate::sync::{Mutex, lock};
use crate::{ExitReason, Pid, api::child_spawn::AnyRegistry};
use std::{collections::BTreeMap, sync::Arc};

pub(crate) struct ChildRegistry(Mutex<Children>);

struct Children {
    strategy: Strategy,
    /// The process of the supervisor, or `None` before its first process.
    supervisor: Option<Pid>,
    /// The reason of the supervisor's end, if it has ended.
    end: Option<ExitReason>,
    entries: BTreeMap<Arc<str>, ChildEntry>,
    next: u64,
}

struct ChildEntry {
    place: u64,
    slot: Arc<ChildSlot>,
    alias: Alias,
}

impl ChildRegistry {
    pub(crate) fn new(strategy: Strategy) -> Arc<Self> {
        let (entries, next) = (BTreeMap::new(), 0);
        Arc::new(Self(Mutex::new(Children { strategy, supervisor: None, end: None, entries, next })))
    }

    /// Sets the children of a supervisor that starts or restarts. Returns their slots: the slot of an earlier child
    /// with the same name, type and limit of kept messages is reused, and all other earlier slots are retired.
    pub(crate) fn begin(&self, strategy: Strategy, slots: Vec<Arc<ChildSlot>>) -> Vec<Arc<ChildSlot>> {
        let mut children = lock(&self.0);
        let mut before = std::mem::take(&mut children.entries);
        (children.strategy, children.end, children.next) = (strategy, None, 0);
        let mut begun = Vec::new();
        for slot in slots {
            let alike = |entry: &ChildEntry| {
                let type_id = |slot: &ChildSlot| slot.kind.map(|kind| kind.type_id);
                type_id(&entry.slot) == type_id(&slot) && entry.slot.keeps == slot.keeps
            };
            let (slot, alias) = match before.remove(&slot.name).filter(alike) {
                Some(ChildEntry { slot, alias, .. }) => {
                    slot.redefine(slot.kind);
                    (slot, alias)
                }
                None => (slot.clone(), Alias::new(slot)),
            };
            children.add(slot.clone(), alias);
            begun.push(slot);
        }
        // The rest is done outside the lock, since waiting messages are passed to a user's hook.
        drop(children);
        for ChildEntry { slot, alias, .. } in before.into_values() {
            let reason = slot.last_reason(&ExitReason::NoProcess);
            let waits = slot.shut(&reason);
            retire(&slot, alias.pid(), &reason);
            waits.tell(&reason);
        }
        begun
    }

    pub(crate) fn begun(&self, supervisor: Pid) {
        lock(&self.0).supervisor = Some(supervisor);
    }

    /// Adds a child. Returns its alias, or `None` if the name is taken.
    pub(crate) fn add(&self, slot: Arc<ChildSlot>) -> Option<Pid> {
        let mut children = lock(&self.0);
        if children.entries.contains_key(&slot.name) {
            return None;
        }
        let alias = Alias::new(slot.clone());
        let pid = alias.pid();
        children.add(slot, alias);
        Some(pid)
    }

    pub(crate) fn remove(&self, slot: &Arc<ChildSlot>) {
        let mut children = lock(&self.0);
        let entry = if children.has(slot) { children.entries.remove(&slot.name) } else { None };
        drop(children);
        if let Some(ChildEntry { slot, alias, .. }) = entry {
            retire(&slot, alias.pid(), &ExitReason::NoProcess);
        }
    }

    /// Returns whether the child belongs to this supervisor.
    pub(crate) fn has(&self, slot: &Arc<ChildSlot>) -> bool {
        lock(&self.0).has(slot)
    }

    pub(crate) fn find(&self, name: &str) -> Result<(Arc<ChildSlot>, Pid), ChildError> {
        let known: Vec<Arc<str>> = {
            let children = lock(&self.0);
            if let Some(entry) = children.entries.get(name) {
                return Ok((entry.slot.clone(), entry.alias.pid()));
            }
            children.entries.keys().cloned().collect()
        };
        // The error is built outside the lock, since there may be many names.
        Err(unknown(name, &known))
    }

    pub(crate) fn strategy(&self) -> Strategy {
        lock(&self.0).strategy
    }

    /// Returns the supervisor's process, and its exit reason if it has ended.
    pub(crate) fn supervisor(&self) -> (Option<Pid>, Option<ExitReason>) {
        let children = lock(&self.0);
        (children.supervisor, children.end.clone())
    }

    /// Returns the registry of a child that is a supervisor.
    pub(crate) fn of(slot: &ChildSlot) -> Option<Arc<Self>> {
        let subtree = lock(&slot.subtree).clone()?;
        (subtree as AnyRegistry).downcast().ok()
    }

    pub(super) fn slots(&self) -> Vec<(Arc<ChildSlot>, Pid)> {
        let children = lock(&self.0);
        let mut entries: Vec<_> = children.entries.values().collect();
        entries.sort_by_key(|entry| entry.place);
        entries.into_iter().map(|entry| (entry.slot.clone(), entry.alias.pid())).collect()
    }

    /// Called when the supervisor's process has ended. If the supervisor is itself a child (`is_child`), the supervisor
    /// above it decides what follows. Messages for the children then continue to wait, unless the supervisor gave up
    /// (`gave_up`).
    pub(crate) fn end(&self, reason: &ExitReason, is_child: bool, gave_up: bool) {
        if !is_child {
            self.shut(reason);
            return self.retire(reason);
        }
        lock(&self.0).end = Some(reason.clone());
        for (slot, _) in self.slots() {
            slot.down(reason);
            if gave_up {
                slot.empty(reason);
            }
        }
    }
}

impl Subtree for ChildRegistry {
    fn shut(&self, reason: &ExitReason) {
        lock(&self.0).end.get_or_insert_with(|| reason.clone());
        for (slot, _) in self.slots() {
            slot.shut(reason).tell(reason);
            lock(&slot.status).state = ChildState::Down;
        }
    }

    fn retire(&self, reason: &ExitReason) {
        for (slot, pid) in self.slots() {
            retire(&slot, pid, reason);
        }
    }
}

/// Retires a child that no supervisor can start any more. Watchers of its groups get its last exit reason, or `reason`.
fn retire(slot: &ChildSlot, pid: Pid, reason: &ExitReason) {
    alias::retire(pid, &slot.last_reason(reason));
    slot.retire(reason);
}

impl Children {
    fn has(&self, slot: &Arc<ChildSlot>) -> bool {
        self.entries.get(&slot.name).is_some_and(|entry| Arc::ptr_eq(&entry.slot, slot))
    }

    fn add(&mut self, slot: Arc<ChildSlot>, alias: Alias) {
        let place = self.next;
        self.next += 1;
        self.entries.insert(slot.name.clone(), ChildEntry { place, slot, alias });
    }
}

/// Maximum number of names that an error lists.
const LISTED: usize = 16;

fn unknown(name: &str, known: &[Arc<str>]) -> ChildError {
    let count = known.len();
    let mut has: Vec<String> = known.iter().map(|name| name.chars().take(80).collect()).collect();
    has.sort();
    if count > LISTED {
        has.sort_by_cached_key(|known| crate::errors::distance(name, known));
        has.truncate(LISTED);
    }
    ChildError::Unknown { name: name.chars().take(80).collect(), has, count }
}
