//! The names of a host, each held by at most one process, and addresses that follow a name.
//!
//! A name belongs to its holder while the holder is alive. Another process can take the name as soon as the holder's
//! PID accepts no more messages; [`registrations`](crate::links::registrations) ensure that no name is left behind.
//!
//! An address that follows a name is an alias, and its target is the current holder of the name. There is one alias for
//! each name for which an address was requested. Addresses are `Copy`, so it is unknown when the last copy is gone; and
//! a free name may be taken again soon, or never. So the aliases of free names are kept only for the [`FREE`] names
//! that became free most recently, and the others are retired. This bounds the memory of a program that keeps
//! requesting new names, and an address survives the gap between two holders unless that many other names become free
//! in the meantime. Rejected: keeping all (a leak), retiring with the holder (no address would survive a restart), a
//! delay (a timer for each holder's end, and a restart may back off for any length of time).

use super::name::Name;
use crate::call::package::{Package, Undeliverable};
use crate::errors::{NameError, SendFailure};
use crate::links::registrations::{REGISTRATIONS, Registrant, Registration};
use crate::routing::alias::{Alias, AliasTarget, lives};
use crate::sync::{
    Arc, AtomicU16, AtomicU64, Mutex, Ordering, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard, lock,
    touch_everything,
};
use crate::{exit::ExitReason, pid::Pid, slots::ProcessKind};
use std::collections::{BTreeMap, HashMap};

/// The number of shards. A guess: more than the number of threads that look up names while other threads change names.
const SHARDS: usize = 16;

/// Maximum number of aliases that are kept although their names are free. A guess, above the number of processes that
/// a supervision tree restarts at once.
const FREE: usize = if cfg!(loom) { 1 } else { 1024 };

pub(crate) struct Names {
    host: AtomicU16,
    shards: [RwLock<Shard>; SHARDS],
    /// The names that have an alias but no holder, longest free first. Lock order: a shard, then this.
    free: Mutex<BTreeMap<u64, Name>>,
    /// The next number for a name that becomes free.
    freed: AtomicU64,
}

type Shard = HashMap<Name, NameEntry>;

/// The entry of a name: a holder, an alias, or both.
#[derive(Default)]
struct NameEntry {
    holding: Option<Holding>,
    alias: Option<FollowingAlias>,
}

struct Holding {
    holder: Pid,
    registration: Registration,
}

/// The alias that follows a name.
struct FollowingAlias {
    alias: Alias,
    /// The number of the name in `free`, if the name is free.
    free: Option<u64>,
}

/// A name in its two roles: a registrant, which learns of the end of its holder, and the target of the alias that
/// follows it.
struct NameOf {
    names: &'static Names,
    name: Name,
}

impl Registrant for NameOf {
    fn ended(&self, pid: Pid, _reason: &ExitReason) {
        let mut shard = self.names.write(self.name.text());
        // Another process may have taken the name in the meantime.
        let retired = match shard.get_mut(&self.name) {
            Some(entry) if entry.holder() == Some(pid) => {
                entry.holding = None;
                self.names.mark_free(&mut shard, &self.name)
            }
            _ => None,
        };
        drop(shard);
        self.names.retire(retired);
    }

    fn directory(&self) -> usize {
        std::ptr::from_ref(self.names).addr()
    }

    fn name(&self) -> Option<Arc<str>> {
        Some(self.name.text().clone())
    }
}

impl AliasTarget for NameOf {
    fn now(&self) -> Option<Pid> {
        self.names.whereis(self.name.text())
    }

    fn take(&self, package: Package) -> Result<(), Undeliverable> {
        Err(Undeliverable { package, reason: SendFailure::UnknownName })
    }

    fn life(&self) -> Option<Pid> {
        self.now()
    }

    fn kind(&self) -> Option<&'static ProcessKind> {
        None
    }

    fn owner(&self) -> u16 {
        self.names.host.load(Ordering::Relaxed)
    }
}

impl NameEntry {
    fn holder(&self) -> Option<Pid> {
        self.holding.as_ref().map(|holding| holding.holder)
    }
}

impl Names {
    pub(crate) fn of(host: u16) -> Self {
        let host = AtomicU16::new(host);
        Self { host, shards: Default::default(), free: Mutex::default(), freed: AtomicU64::new(0) }
    }

    pub(crate) fn renumber(&self, host: u16) {
        self.host.store(host, Ordering::Relaxed);
    }

    /// Returns the shard of `name`, chosen by its last bytes, because numbered names differ there. A separate hash
    /// would increase the cost of a lookup by half.
    fn shard(&self, name: &str) -> &RwLock<Shard> {
        /// The golden ratio, as a fraction of 2^64: spreads neighbours over the upper bits.
        const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;
        let last = name.as_bytes().iter().rev().take(8).fold(0_u64, |bytes, byte| bytes << 8 | u64::from(*byte));
        &self.shards[(last.wrapping_mul(SPREAD) >> 60) as usize % SHARDS]
    }

    fn read(&self, name: &str) -> RwLockReadGuard<'_, Shard> {
        self.shard(name).read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self, name: &str) -> RwLockWriteGuard<'_, Shard> {
        self.shard(name).write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Registers `pid` as the holder of `name`, unless another live process holds it.
    pub(crate) fn register(&'static self, name: &Name, pid: Pid) -> Result<(), NameError> {
        touch_everything();
        let gone = || NameError::Gone { name: name.text().to_string(), pid };
        let mut shard = self.write(name.text());
        match shard.get(name).and_then(NameEntry::holder) {
            Some(holder) if holder == pid => return if lives(pid) { Ok(()) } else { Err(gone()) },
            Some(holder) if lives(holder) => {
                return Err(NameError::Taken { name: name.text().to_string(), holder });
            }
            _ => {}
        }
        let held = Arc::new(NameOf { names: self, name: name.clone() });
        let registration = REGISTRATIONS.add(pid, held, lives).ok_or_else(gone)?;
        let entry = shard.entry(name.clone()).or_default();
        entry.holding = Some(Holding { holder: pid, registration });
        if let Some(number) = entry.alias.as_mut().and_then(|alias| alias.free.take()) {
            lock(&self.free).remove(&number);
        }
        Ok(())
    }

    pub(crate) fn unregister(&self, name: &str) -> Option<Pid> {
        touch_everything();
        let mut shard = self.write(name);
        let (key, _) = shard.get_key_value(name)?;
        let key = key.clone();
        let Holding { holder, registration } = shard.get_mut(name)?.holding.take()?;
        REGISTRATIONS.remove(holder, &registration);
        let retired = self.mark_free(&mut shard, &key);
        drop(shard);
        self.retire(retired);
        lives(holder).then_some(holder)
    }

    /// Returns the holder of `name`, if it is alive.
    pub(crate) fn whereis(&self, name: &str) -> Option<Pid> {
        touch_everything();
        let holder = self.read(name).get(name)?.holder()?;
        lives(holder).then_some(holder)
    }

    pub(crate) fn alias(&'static self, name: &Name) -> Pid {
        let mut shard = self.write(name.text());
        let entry = shard.entry(name.clone()).or_default();
        if let Some(following) = &entry.alias {
            return following.alias.pid();
        }
        let alias = Alias::new(Arc::new(NameOf { names: self, name: name.clone() }));
        let pid = alias.pid();
        entry.alias = Some(FollowingAlias { alias, free: None });
        let retired = if entry.holding.is_none() { self.mark_free(&mut shard, name) } else { None };
        drop(shard);
        self.retire(retired);
        pid
    }

    /// Marks `name` as free. If too many names are free, returns the one that has been free for longest.
    fn mark_free(&self, shard: &mut Shard, name: &Name) -> Option<(u64, Name)> {
        let entry = shard.get_mut(name)?;
        let Some(alias) = &mut entry.alias else {
            shard.remove(name);
            return None;
        };
        let number = self.freed.fetch_add(1, Ordering::Relaxed);
        alias.free = Some(number);
        let mut free = lock(&self.free);
        free.insert(number, name.clone());
        if free.len() > FREE { free.pop_first() } else { None }
    }

    /// Retires the alias of a name if the name is still free under that number. In the meantime, since the name was
    /// removed from `free`, a process may have taken it, and it may have become free again. A model is in
    /// `tests/models`.
    fn retire(&self, free: Option<(u64, Name)>) {
        let Some((number, name)) = free else { return };
        let mut shard = self.write(name.text());
        let is_free = |entry: &NameEntry| entry.alias.as_ref().is_some_and(|alias| alias.free == Some(number));
        let entry = if shard.get(&name).is_some_and(is_free) { shard.remove(&name) } else { None };
        drop(shard);
        // Dropped outside the lock, because the drop releases the names that the alias holds.
        drop(entry);
    }

    /// Returns a name whose holder has ended, if there is one. Simulations call this between turns.
    #[cfg(feature = "test")]
    pub(crate) fn held_by_the_dead(&self) -> Option<(Arc<str>, Pid)> {
        let in_shard = |shard: &RwLock<Shard>| {
            let shard = shard.read().unwrap_or_else(PoisonError::into_inner);
            let held = shard.iter().filter_map(|(name, entry)| Some((name.text().clone(), entry.holder()?)));
            held.filter(|(_, holder)| !lives(*holder)).min()
        };
        self.shards.iter().find_map(in_shard)
    }

    /// Returns the number of held names, and of names with an alias.
    pub(crate) fn count(&self) -> (usize, usize) {
        let mut counts = (0, 0);
        for shard in &self.shards {
            for entry in shard.read().unwrap_or_else(PoisonError::into_inner).values() {
                counts.0 += usize::from(entry.holding.is_some());
                counts.1 += usize::from(entry.alias.is_some());
            }
        }
        counts
    }

    /// Removes all holders, and retires all aliases.
    pub(crate) fn clear(&self) {
        for shard in &self.shards {
            let entries = std::mem::take(&mut *shard.write().unwrap_or_else(PoisonError::into_inner));
            // Sorted, because hashes differ from run to run, and their order must not affect the table of aliases.
            let entries: BTreeMap<_, _> = entries.into_iter().collect();
            for entry in entries.values() {
                if let Some(Holding { holder, registration }) = &entry.holding {
                    REGISTRATIONS.remove(*holder, registration);
                }
            }
            // Dropped outside the lock, as in `retire`.
            drop(entries);
        }
        lock(&self.free).clear();
    }
}
