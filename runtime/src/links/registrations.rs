//! Registrations that end with a process: its names, its places in groups, its subscriptions.
//!
//! A [`Registrant`], such as a name, has processes as members. It records each member here, and is notified when the
//! member ends. A process without registrations pays one load for this when it ends, and exiting processes share no
//! cache line: registrations are counted in cells, by slot, and a cell is written only when members are added or
//! removed. An exit that finds its cell empty is done. (Two slots that share a cell cost each other a lookup in the
//! table, nothing else.)
//!
//! A registrant adds a member in these steps:
//!
//! * Y1 count the membership in the member's cell; Y2 enter it into the table; Y3 check that the process is alive. If
//!   it is not: Y4 remove the membership, if it is still there, and refuse.
//!
//! A process ends in these steps:
//!
//! * Y5 its incarnation is closed, and its PID becomes unroutable; Y6 read the cell, and stop if it is empty; Y7 take
//!   all registrations of the process out of the table; Y8 notify each registrant.
//!
//! No registration is left behind. Y1, Y3, Y5 and Y6 are sequentially consistent. If Y5 precedes Y3, the process is
//! found dead: either Y4 finds the membership, or Y7 has taken it and Y8 notifies the registrant. If Y3 precedes Y5, so
//! does Y1, and Y6 finds the cell nonempty; and Y7 finds the membership: had Y7 locked the table before Y2 did, Y5
//! would have happened before Y3. Nothing of this changes if the slot is reused in the meantime: the table is keyed by
//! PID, and Y3 compares the generation.
//!
//! A registrant calls `add` and `remove` under its own lock, and also records the member under that lock. Y8 notifies
//! the registrant while no lock of the table is held. So Y8 waits until the registrant has either recorded the member
//! or refused it. If the member was recorded, it is then removed. Locks are taken in the order registrant, table.
//!
//! A model is in `tests/models`.

use crate::env::world::World;
use crate::exit::ExitReason;
use crate::pid::Pid;
use crate::sync::{Arc, AtomicU32, CachePadded, Mutex, Ordering, fence_for_models, lock, touch_everything};
use slab::Slab;
use std::collections::BTreeMap;

/// Number of cells. A guess: with fewer members than cells, few exits find the membership of another process in their
/// cell.
const CELLS: usize = if cfg!(loom) { 1 } else { 1 << 14 };
/// Number of shards. A guess: more than the number of threads on which members exit at the same time.
const SHARDS: usize = if cfg!(loom) { 1 } else { 64 };

pub(crate) trait Registrant: Send + Sync {
    /// Handles the end of a member, or of a process that was just refused as a member.
    fn ended(&self, pid: Pid, reason: &ExitReason);

    /// Returns the address of the registrant's table, for statistics.
    fn directory(&self) -> usize;

    /// Returns the name, if the registrant is one.
    fn name(&self) -> Option<Arc<str>> {
        None
    }
}

/// Identifies a membership, so that it can be removed.
#[derive(Debug)]
pub(crate) struct Registration(usize);

type Registered = Slab<Arc<dyn Registrant>>;

pub(crate) struct Registrations {
    cells: [AtomicU32; CELLS],
    shards: [CachePadded<Mutex<BTreeMap<Pid, Registered>>>; SHARDS],
}

/// One table for the program, since a name of one host may belong to a process of another.
#[cfg(not(loom))]
pub(crate) static REGISTRATIONS: World<Registrations> = World::new(Registrations::new());

// One table per execution of a model.
#[cfg(loom)]
loom::lazy_static! {
    pub(crate) static ref REGISTRATIONS: Registrations = Registrations::new();
}

impl Registrations {
    #[cfg(not(loom))]
    const fn new() -> Self {
        Self {
            cells: [const { AtomicU32::new(0) }; CELLS],
            shards: [const { CachePadded::new(Mutex::new(BTreeMap::new())) }; SHARDS],
        }
    }

    #[cfg(loom)]
    pub(crate) fn new() -> Self {
        Self {
            cells: std::array::from_fn(|_| AtomicU32::new(0)),
            shards: std::array::from_fn(|_| CachePadded::new(Mutex::new(BTreeMap::new()))),
        }
    }

    fn cell(&self, pid: Pid) -> &AtomicU32 {
        &self.cells[pid.slot() as usize % CELLS]
    }

    fn shard(&self, pid: Pid) -> &Mutex<BTreeMap<Pid, Registered>> {
        &self.shards[pid.slot() as usize % SHARDS]
    }

    /// Performs Y1 to Y4: makes `pid` a member of `registrant`. Returns `None` if the process is dead. `lives` must use
    /// a sequentially consistent load.
    pub(crate) fn add(
        &self,
        pid: Pid,
        registrant: Arc<dyn Registrant>,
        lives: impl FnOnce(Pid) -> bool,
    ) -> Option<Registration> {
        touch_everything();
        self.cell(pid).fetch_add(1, Ordering::SeqCst);
        let registration = Registration(lock(self.shard(pid)).entry(pid).or_default().insert(registrant));
        fence_for_models();
        if lives(pid) {
            return Some(registration);
        }
        self.remove(pid, &registration);
        None
    }

    /// Removes a membership, if `pid` still has it.
    pub(crate) fn remove(&self, pid: Pid, registration: &Registration) {
        let mut shard = lock(self.shard(pid));
        let Some(registrations) = shard.get_mut(&pid) else { return };
        let registrant = registrations.try_remove(registration.0);
        if registrations.is_empty() {
            shard.remove(&pid);
        }
        drop(shard);
        if registrant.is_some() {
            self.cell(pid).fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// Performs Y6, for a process whose Y5 was a sequentially consistent store. Returns false if it has no
    /// registrations.
    #[inline]
    pub(crate) fn may_have(&self, pid: Pid) -> bool {
        touch_everything();
        fence_for_models();
        self.cell(pid).load(Ordering::SeqCst) != 0
    }

    /// Performs Y6 to Y8.
    #[inline]
    pub(crate) fn end(&self, pid: Pid, reason: &ExitReason) {
        if self.may_have(pid) {
            self.end_all(pid, reason);
        }
    }

    #[cold]
    fn end_all(&self, pid: Pid, reason: &ExitReason) {
        let Some(registrations) = lock(self.shard(pid)).remove(&pid) else { return };
        for (_, registrant) in registrations {
            self.cell(pid).fetch_sub(1, Ordering::Relaxed);
            registrant.ended(pid, reason);
        }
    }

    /// Returns the names of `pid`, in no particular order.
    pub(crate) fn names(&self, pid: Pid) -> Vec<Arc<str>> {
        if self.cell(pid).load(Ordering::Relaxed) == 0 {
            return Vec::new();
        }
        let shard = lock(self.shard(pid));
        shard.get(&pid).into_iter().flatten().filter_map(|(_, registrant)| registrant.name()).collect()
    }

    /// Returns the number of registrations whose registrants belong to one of `directories`. Visits all registrations.
    pub(crate) fn count(&self, directories: &[usize]) -> usize {
        let counted = |shard: &BTreeMap<Pid, Registered>| {
            let registrants = shard.values().flatten().map(|(_, registrant)| registrant.directory());
            registrants.filter(|directory| directories.contains(directory)).count()
        };
        self.shards.iter().map(|shard| counted(&lock(shard))).sum()
    }

    /// Returns the sum of the cells. It is exact while nothing changes.
    #[cfg(loom)]
    pub(crate) fn counted(&self) -> u32 {
        self.cells.iter().map(|cell| cell.load(Ordering::SeqCst)).sum()
    }
}
