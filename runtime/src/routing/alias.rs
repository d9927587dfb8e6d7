//! PIDs that are no process, but point on to the process that serves now: those of supervised children, pools, routers
//! and names.
//!
//! Such a PID is told from a process's by its generation (see [`Pid::is_alias`]), which no slot ever has: a send finds
//! that no such process lives, as it would for one that has ended, and only then looks here. So the path of a message
//! to a process pays nothing.
//!
//! The aliases have a table of their own, in chunks that double, never moved and never freed. An entry counts the
//! aliases that it has carried; a PID names one of them, so that none is given out twice. Each entry has its own lock,
//! held for as long as it takes to copy a reference: what is [`AliasTarget`] an alias runs, and is dropped, without it.

use crate::call::package::{Package, Undeliverable};
use crate::env::program::{HOSTLESS, this_node};
use crate::env::world::World;
use crate::exit::ExitReason;
use crate::links::registrations::REGISTRATIONS;
use crate::pid::{LAST_GENERATION, Pid, SLOT_BITS};
use crate::slots::{ProcessKind, TABLE};
use crate::sync::{Arc, AtomicU32, OnceLock, Ordering, PoisonError, RwLock, SegQueue};
use crate::util::oneshot::Oneshot;
use std::fmt;

/// How many pointing PIDs may lead to one another: a child that is a pool, in a tree that has a name, is three. A ring
/// of them ends here.
pub(crate) const DEPTH: usize = 8;

/// Who serves behind a PID that points on.
///
/// All of it is called on the thread that sends or asks, without a lock. Only [`take`](AliasTarget::take) may run code
/// of users, and take as long as that does: for a pool, the key and `Clone` of a message, the dead-letter hook, and
/// wakers.
pub(crate) trait AliasTarget: Send + Sync {
    /// The process that what is sent goes to now, if that is one process at a time.
    fn now(&self) -> Option<Pid>;

    /// The same for a sender that says when it is done: see [`left`](Self::left).
    fn enter(&self) -> Option<Pid> {
        self.now()
    }

    /// A sender that was given a process by `enter` is done with it.
    fn left(&self) {}

    /// Takes a package when `now` is `None`, or when the process it gave has ended (then `now` is asked again first).
    ///
    /// # Errors
    /// The package, with the reason.
    fn take(&self, package: Package) -> Result<(), Undeliverable>;

    /// The process that `stop`, `cancel`, `kill`, `join`, `monitor`, `info` and `is_alive` of the pointing PID mean.
    fn life(&self) -> Option<Pid>;

    /// The type whose address may be made of the PID.
    fn kind(&self) -> Option<&'static ProcessKind>;

    /// The number of the host that it belongs to.
    fn owner(&self) -> u16;

    /// Asks to be told when there may be room for what `take` has refused as too much. `None`: not known.
    fn room(&self) -> Option<Arc<Oneshot<()>>> {
        None
    }
}

/// Owns a pointing PID; dropping it retires the PID, unless that was done before: see [`retire`].
///
/// Its [`AliasTarget`] must not own it.
pub(crate) struct Alias(Pid);

impl Alias {
    /// A PID that points on to `behind`.
    pub(crate) fn new(behind: Arc<dyn AliasTarget>) -> Self {
        let Some((index, place)) = take_place() else {
            // All 2^28 places are taken: a PID that was never given out, and that nothing answers to.
            return Self(Pid::pointing(this_node(), HOSTLESS, 0, 0));
        };
        let mut entry = place.write().unwrap_or_else(PoisonError::into_inner);
        entry.number += 1;
        entry.owner = behind.owner();
        entry.behind = Some(behind);
        Self(Pid::pointing(this_node(), HOSTLESS, index, entry.number))
    }

    pub(crate) fn pid(&self) -> Pid {
        self.0
    }
}

impl Drop for Alias {
    fn drop(&mut self) {
        retire(self.0, &ExitReason::Gone);
    }
}

/// Retires a pointing PID, for this reason; nothing happens if that was done before. What is sent there from now on
/// comes back as to a process that has ended, and the PID loses its names, its places in groups and its subscriptions.
///
/// Not under a lock: those who watch the groups are told.
pub(crate) fn retire(pid: Pid, reason: &ExitReason) {
    let Some(place) = place(pid.slot()).filter(|_| points_on_here(pid)) else { return };
    let mut entry = place.write().unwrap_or_else(PoisonError::into_inner);
    if entry.number != pid.number() {
        return;
    }
    let (Some(behind), reusable) = (entry.behind.take(), entry.number < LAST_GENERATION) else { return };
    drop(entry);
    // members:E2 to members:E4 of `registrations`: a sender that took this PID for living looked under the lock,
    // before, and had counted
    //    itself.
    REGISTRATIONS.end(pid, reason);
    if reusable {
        FREE.push(pid.slot());
    }
    // Last, and without the lock: it may own other aliases.
    drop(behind);
}

impl fmt::Debug for Alias {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Pointer{}", self.0)
    }
}

/// Who is behind a PID that points on; `None` if it has been retired, is another node's or was never given out.
pub(crate) fn behind(pid: Pid) -> Option<Arc<dyn AliasTarget>> {
    // An alias's PID names no host: one that does, in a text, was never given out.
    if !points_on_here(pid) || pid.host() != HOSTLESS {
        return None;
    }
    let entry = place(pid.slot())?.read().unwrap_or_else(PoisonError::into_inner);
    if entry.number == pid.number() { entry.behind.clone() } else { None }
}

/// Returns whether `pid` is of a process of this program that lives, or points on and has not been retired. To the last
/// bit, and in one order with the end: see `registrations`.
pub(crate) fn lives(pid: Pid) -> bool {
    if !points_on_here(pid) {
        return TABLE.lives(pid);
    }
    // Looked at where it is: a copy that happens to be the last would be dropped by the one that asks, under its locks.
    let entry = place(pid.slot()).map(|place| place.read().unwrap_or_else(PoisonError::into_inner));
    pid.host() == HOSTLESS && entry.is_some_and(|entry| entry.number == pid.number() && entry.behind.is_some())
}

/// The number of the host that the PID belongs to; of one that points on also after it has been retired, as long as its
/// place carries no other.
pub(crate) fn owner(pid: Pid) -> u16 {
    if !points_on_here(pid) {
        return pid.host();
    }
    let entry = place(pid.slot()).map(|place| place.read().unwrap_or_else(PoisonError::into_inner));
    entry.filter(|entry| entry.number == pid.number()).map_or(HOSTLESS, |entry| entry.owner)
}

/// Returns whether it is for this program to say where the PID points on to.
pub(crate) fn points_on_here(pid: Pid) -> bool {
    pid.is_alias() && pid.node() == this_node()
}

/// The type whose address may be made of a PID: what an alias says, else that of the process which answers for it.
pub(crate) fn kind(pid: Pid) -> Option<&'static ProcessKind> {
    if pid.is_alias()
        && let Some(kind) = behind(pid)?.kind()
    {
        return Some(kind);
    }
    let process = pid.resolve()?;
    let slot = TABLE.living(process)?;
    let kind = slot.metadata.kind()?;
    // The process may have ended, and its slot been given to another, since its kind was read.
    slot.is_living(process.generation()).then_some(kind)
}

impl Pid {
    /// The process that the PID means now: itself, or the one that it points on to, if someone is there.
    ///
    /// To send to that one spares the look behind the PID. It is good for one life: a send comes back when that is
    /// over, and then this is asked again.
    ///
    /// ```
    /// use postroom::prelude::*;
    ///
    /// # #[process] struct Shop;
    /// # #[process]
    /// # impl Shop { #[entry] fn serve(&mut self) {} #[message] fn price(&mut self) -> u32 { 20 } }
    /// let runtime = Runtime::new()?;
    /// let tree = Supervisor::one_for_one().child("shop", |spawn| spawn.of(Shop).serve()).spawn(&runtime)?;
    /// let child: Address<Shop> = tree.child("shop")?;
    /// let life = child.pid().resolve().ok_or("the shop is closed")?;
    /// assert!(child.pid().is_alias() && !life.is_alias());
    /// assert_eq!(runtime.address::<Shop>(life)?.price().wait()?, 20);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn resolve(self) -> Option<Self> {
        let mut pid = self;
        for _ in 0..=DEPTH {
            if !points_on_here(pid) {
                return Some(pid);
            }
            pid = behind(pid)?.life()?;
        }
        None
    }

    /// The process that what is sent to a PID that points on goes to now, if that is one process at a time.
    #[cold]
    pub(crate) fn serving(self) -> Option<Self> {
        let mut pid = self;
        for _ in 0..=DEPTH {
            if !points_on_here(pid) {
                return Some(pid);
            }
            pid = behind(pid)?.now()?;
        }
        None
    }
}

/// What is kept of an alias.
struct AliasEntry {
    /// How many aliases have been kept here.
    number: u64,
    /// The host that the last of them belongs, or belonged, to.
    owner: u16,
    behind: Option<Arc<dyn AliasTarget>>,
}

type AliasPlace = RwLock<AliasEntry>;

/// How many places the first chunk has, as a power of two; each further one has twice those of the one before.
const FIRST_BITS: u32 = 6;
const CHUNKS: usize = (SLOT_BITS - FIRST_BITS + 1) as usize;

static PLACES: World<[OnceLock<Box<[AliasPlace]>>; CHUNKS]> = World::new([const { OnceLock::new() }; CHUNKS]);
/// How many places have been handed out at least once.
static USED: World<AtomicU32> = World::new(AtomicU32::new(0));
/// Places that carry no alias.
static FREE: World<SegQueue<u32>> = World::new(SegQueue::new());

/// The chunk that a place lies in, and where in it.
fn coordinates(index: u32) -> (usize, usize) {
    let shifted = index + (1 << FIRST_BITS);
    let chunk = shifted.ilog2() - FIRST_BITS;
    (chunk as usize, (shifted - (1 << (chunk + FIRST_BITS))) as usize)
}

fn place(index: u32) -> Option<&'static AliasPlace> {
    let (chunk, offset) = coordinates(index);
    PLACES.get(chunk)?.get()?.get(offset)
}

/// Returns how many PIDs point on.
pub(crate) fn count() -> usize {
    (USED.load(Ordering::Acquire) as usize).saturating_sub(FREE.len())
}

/// A place that carries no alias; `None` when all 2^28 are taken.
fn take_place() -> Option<(u32, &'static AliasPlace)> {
    let used = || {
        let more = |used| (used < 1 << SLOT_BITS).then_some(used + 1);
        USED.fetch_update(Ordering::AcqRel, Ordering::Relaxed, more).ok()
    };
    let index = FREE.pop().or_else(used)?;
    let (chunk, offset) = coordinates(index);
    let places = PLACES.get(chunk)?.get_or_init(|| {
        let count = 1_usize << (chunk as u32 + FIRST_BITS);
        (0..count).map(|_| RwLock::new(AliasEntry { number: 0, owner: HOSTLESS, behind: None })).collect()
    });
    Some((index, places.get(offset)?))
}

#[cfg(test)]
mod tests;
