//! Aliases: PIDs that resolve to the process that currently serves. Supervised children, pools and names have aliases.
//!
//! An alias differs from a process's PID in its generation (see [`Pid::is_alias`]): no slot ever has such a generation.
//! A send to an alias first finds no live process, like a send to an ended one, and only then looks for an alias. So
//! messages that are sent directly to a live process pay nothing for aliases.
//!
//! Aliases have their own table, in chunks that double in size and are never moved or freed. An entry counts the
//! aliases that it has held, and a PID contains that number, so no PID is given out twice. Each entry has its own lock.
//! It is held while a reference to the [`AliasTarget`] is cloned. The target is called, and dropped, without the lock.

use super::hosts::{is_elsewhere, is_here, node_of};
use crate::call::package::{Package, Undeliverable};
use crate::env::program::{HOSTLESS, program_node};
use crate::links::message::SentLinkMessage;
use crate::pid::{LAST_GENERATION, NodeId, Pid, SLOT_BITS};
use crate::process::control::Join;
use crate::slots::{ProcessKind, TABLE};
use crate::sync::{Arc, AtomicU32, OnceLock, Ordering, PoisonError, RwLock, SegQueue};
use crate::{env::world::World, exit::ExitReason, links::registrations::REGISTRATIONS, util::oneshot::Oneshot};
use smallvec::SmallVec;

/// Maximum length of a chain of aliases. A child that is a pool, in a tree that has a name, needs three. A lookup that
/// runs into a cycle of aliases gives up at this depth.
pub(crate) const DEPTH: usize = 8;

/// The target of an alias.
///
/// All methods are called without a lock, on the thread that sends or queries. Only [`take`](AliasTarget::take) may run
/// user code, and so take as long as that code does. For a pool, this code is the key and `Clone` of a message, the
/// hook, and wakers. (Pointers are an exception: user code determines their target.)
pub(crate) trait AliasTarget: Send + Sync {
    /// Returns the process that messages go to now, if they go to one process at a time.
    fn now(&self) -> Option<Pid>;

    /// Like [`now`](Self::now), but for a sender that reports when it is done: see [`left`](Self::left).
    fn enter(&self) -> Option<Pid> {
        self.now()
    }

    /// Called when a sender is done with the process that `enter` returned.
    fn left(&self) {}

    /// Takes a package when `now` returns `None`, or when repeated calls of `now` returned only processes that had
    /// ended.
    ///
    /// # Errors
    /// Returns the package and the reason.
    fn take(&self, package: Package) -> Result<(), Undeliverable>;

    /// Returns the process that `stop`, `cancel`, `kill`, `join`, `monitor`, `info` and `is_alive` apply to.
    fn life(&self) -> Option<Pid>;

    /// Like [`life`](Self::life), but for a caller that will register a wait for the end of that process. Returns
    /// `None` if no process accepts waits: see [`hold`](Self::hold). Otherwise the caller must call
    /// [`waits`](Self::waits) afterwards.
    fn enter_wait(&self) -> Option<Pid> {
        self.life()
    }

    /// Returns the target's most recent process that has ended. Another process may still be linked with it, or may
    /// still have the notice of its end in the mailbox.
    fn ended(&self) -> Option<Pid> {
        None
    }

    /// Called when a wait has been registered with the process that `enter_wait` returned.
    fn waits(&self) {}

    /// Takes a request on behalf of the target's next process.
    ///
    /// # Errors
    /// Returns the request if the target does not wait for a next process.
    fn hold(&self, request: Request) -> Result<(), Request> {
        Err(request)
    }

    /// Returns the type that addresses are checked against.
    fn kind(&self) -> Option<&'static ProcessKind>;

    /// Returns the number of the host that the target belongs to. It is part of the alias's PID.
    fn owner(&self) -> u16;

    /// Called after `take` has refused a package with `Full`. Returns a signal that fires when another attempt is
    /// worthwhile; `None` if an attempt is worthwhile already, or if this target has no such signal.
    fn room(&self) -> Option<Arc<Oneshot<()>>> {
        None
    }
}

/// A request to a process, other than a message.
pub(crate) enum Request {
    /// Reports the end of the process.
    Join(Join),
    /// A message about links and monitors with the alias itself.
    Tie(SentLinkMessage),
    /// Ends the process after all earlier messages.
    Stop,
    Cancel(ExitReason),
    Kill,
}

/// Where to wait for the end of the process that a PID resolves to.
pub(crate) enum EndSource {
    /// The process itself. The last alias that led to it counts the wait as in transit until the source is dropped.
    Process(Pid, Option<WaitingAt>),
    /// The last alias in the chain. It has no process that accepts a wait.
    Alias(Pid, Arc<dyn AliasTarget>),
    /// Nowhere, because an alias was retired, or the chain is longer than [`DEPTH`].
    Nothing,
}

/// The target of the last alias that led to a process. Dropping it calls [`AliasTarget::waits`].
pub(crate) struct WaitingAt(Arc<dyn AliasTarget>);

impl Drop for WaitingAt {
    fn drop(&mut self) {
        self.0.waits();
    }
}

impl EndSource {
    pub(crate) fn of(pid: Pid) -> Self {
        let (mut pid, mut last) = (pid, None);
        for _ in 0..=DEPTH {
            if !is_local_alias(pid) {
                return Self::Process(pid, last);
            }
            let Some(target) = target_of(pid) else { return Self::Nothing };
            let Some(process) = target.enter_wait() else { return Self::Alias(pid, target) };
            last = Some(WaitingAt(target));
            pid = process;
        }
        Self::Nothing
    }

    /// Returns the PID that a new link or monitor is bound to.
    pub(crate) fn name(&self, asked: Pid) -> Pid {
        match self {
            Self::Process(name, _) | Self::Alias(name, _) => *name,
            Self::Nothing => asked,
        }
    }
}

/// Returns all PIDs under which a process may be linked with the target of `pid`. They are: each alias in the chain,
/// because a link may wait there for a process; the previous process of each alias, if that one has ended; and the
/// process at the end of the chain, if there is one. That process is the last element.
pub(crate) fn names_of_links(pid: Pid) -> SmallVec<[Pid; 4]> {
    let (mut pid, mut names) = (pid, SmallVec::new());
    for _ in 0..=DEPTH {
        names.push(pid);
        let Some(target) = target_of(pid) else { break };
        let now = target.life();
        if let Some(ended) = target.ended().filter(|ended| Some(*ended) != now) {
            names.insert(0, ended);
        }
        let Some(next) = now else { break };
        pid = next;
    }
    names
}

/// Follows the chain of an alias, and passes the request to the first target that takes it. Returns whether one did.
pub(crate) fn hold(pid: Pid, request: Request) -> bool {
    let (mut pid, mut request) = (pid, request);
    for _ in 0..=DEPTH {
        let Some(target) = target_of(pid) else { return false };
        match target.hold(request) {
            Ok(()) => return true,
            Err(refused) => request = refused,
        }
        let Some(next) = target.life() else { return false };
        pid = next;
    }
    false
}

/// Posts a link message to an alias of this program. If the alias has no target, or the target does not take the
/// message, the message is answered as for an ended process.
pub(crate) fn post_tie(to: Pid, sent: SentLinkMessage) {
    match target_of(to) {
        Some(target) => drop(target.hold(Request::Tie(sent))),
        None => drop(sent),
    }
}

/// An owned alias. Dropping it retires the alias, unless it has been retired already: see [`retire`].
///
/// Its [`AliasTarget`] must not own it.
pub(crate) struct Alias(Pid);

impl Alias {
    pub(crate) fn new(target: Arc<dyn AliasTarget>) -> Self {
        let Some((index, place)) = take_place() else {
            // All 2^28 entries are taken: returns a PID that was never given out and is unroutable.
            return Self(Pid::of_alias(program_node(), HOSTLESS, 0, 0));
        };
        let (owner, node) = (target.owner(), node_of(target.owner()));
        let mut entry = place.write().unwrap_or_else(PoisonError::into_inner);
        entry.number += 1;
        (entry.owner, entry.node) = (owner, Some(node));
        entry.target = Some(target);
        Self(Pid::of_alias(node, owner, index, entry.number))
    }

    pub(crate) fn pid(&self) -> Pid {
        self.0
    }
}

impl Drop for Alias {
    fn drop(&mut self) {
        retire(self.0, &ExitReason::NoProcess);
    }
}

/// Retires an alias with this reason, unless it has been retired already. Later messages are refused as for an ended
/// process, and the PID loses its names, its memberships in groups and its subscriptions.
///
/// Must not be called under a lock, because watchers of the groups are notified.
pub(crate) fn retire(pid: Pid, reason: &ExitReason) {
    let Some(place) = place(pid.slot()).filter(|_| pid.is_alias()) else { return };
    let mut entry = place.write().unwrap_or_else(PoisonError::into_inner);
    if !entry.is_of(pid) {
        return;
    }
    let (Some(target), reusable) = (entry.target.take(), entry.number < LAST_GENERATION) else { return };
    drop(entry);
    // members:Y6 to members:Y8 of `registrations`: a registrant that found this PID alive did so earlier, under the
    // lock, after it had counted the membership.
    REGISTRATIONS.end(pid, reason);
    if reusable {
        FREE.push(pid.slot());
    }
    // The target is dropped last, and without the lock, because it may own other aliases.
    drop(target);
}

crate::util::debug::impl_debug!([] Alias, self => "Alias{}", self.0);

/// Returns the target of an alias; `None` if it was retired, belongs to another node or was never given out.
pub(crate) fn target_of(pid: Pid) -> Option<Arc<dyn AliasTarget>> {
    if !is_local_alias(pid) {
        return None;
    }
    let entry = place(pid.slot())?.read().unwrap_or_else(PoisonError::into_inner);
    if entry.is_of(pid) { entry.target.clone() } else { None }
}

/// Returns whether `pid` is a live process of this program, or an alias that was not retired. The answer is exact, and
/// in one total order with the end of the process or alias: see `registrations`.
pub(crate) fn lives(pid: Pid) -> bool {
    if !is_local_alias(pid) {
        return !is_elsewhere(pid) && TABLE.lives(pid);
    }
    // The target is inspected in place: a clone could become the last reference, and be dropped by the caller under its
    // locks.
    let entry = place(pid.slot()).map(|place| place.read().unwrap_or_else(PoisonError::into_inner));
    entry.is_some_and(|entry| entry.is_of(pid) && entry.target.is_some())
}

/// Returns whether the PID is an alias that the calling code can reach without a transport.
pub(crate) fn is_local_alias(pid: Pid) -> bool {
    pid.is_alias() && is_here(pid)
}

/// Returns the type that addresses of a PID are checked against: that of the alias, or else that of the process.
pub(crate) fn kind(pid: Pid) -> Option<&'static ProcessKind> {
    if pid.is_alias()
        && let Some(kind) = target_of(pid)?.kind()
    {
        return Some(kind);
    }
    let process = pid.resolve().filter(|process| !is_elsewhere(*process))?;
    let slot = TABLE.living(process)?;
    let kind = slot.metadata.kind()?;
    // The process may have ended, and its slot may have been reused, before the kind was read.
    slot.is_living(process.generation()).then_some(kind)
}

impl Pid {
    /// Returns the process that the PID refers to now: the PID itself or, for an alias, its target, if it has one.
    ///
    /// Sending to the result saves the lookup of the alias. The result is valid for one incarnation. After that, sends
    /// to it are refused, and `resolve` must be called again.
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
        self.follow(|target| target.life())
    }

    /// Returns the process that messages to an alias go to now, if they go to one process at a time.
    #[cold]
    pub(crate) fn serving(self) -> Option<Self> {
        self.follow(|target| target.now())
    }

    fn follow(self, next: impl Fn(&dyn AliasTarget) -> Option<Self>) -> Option<Self> {
        let mut pid = self;
        for _ in 0..=DEPTH {
            if !is_local_alias(pid) {
                return Some(pid);
            }
            pid = next(&*target_of(pid)?)?;
        }
        None
    }
}

struct AliasEntry {
    /// Number of aliases that the entry has held.
    number: u64,
    /// The host of the most recent alias.
    owner: u16,
    /// The node of the most recent alias.
    node: Option<NodeId>,
    target: Option<Arc<dyn AliasTarget>>,
}

impl AliasEntry {
    /// Returns whether the most recent alias of the entry is this PID. A PID that was parsed from text may name another
    /// host or node; such a PID was never given out.
    fn is_of(&self, pid: Pid) -> bool {
        self.number == pid.number() && self.owner == pid.host_number() && self.node == Some(pid.node())
    }
}

type AliasPlace = RwLock<AliasEntry>;

/// The size of the first chunk, as a power of two; each further chunk is twice as large as the one before.
const FIRST_BITS: u32 = 6;
const CHUNKS: usize = (SLOT_BITS - FIRST_BITS + 1) as usize;

static PLACES: World<[OnceLock<Box<[AliasPlace]>>; CHUNKS]> = World::new([const { OnceLock::new() }; CHUNKS]);
/// Number of entries that were ever handed out.
static USED: World<AtomicU32> = World::new(AtomicU32::new(0));
/// Entries without an alias.
static FREE: World<SegQueue<u32>> = World::new(SegQueue::new());

/// Returns the chunk of an entry, and its index there.
fn coordinates(index: u32) -> (usize, usize) {
    let shifted = index + (1 << FIRST_BITS);
    let chunk = shifted.ilog2() - FIRST_BITS;
    (chunk as usize, (shifted - (1 << (chunk + FIRST_BITS))) as usize)
}

fn place(index: u32) -> Option<&'static AliasPlace> {
    let (chunk, offset) = coordinates(index);
    PLACES.get(chunk)?.get()?.get(offset)
}

pub(crate) fn count() -> usize {
    (USED.load(Ordering::Acquire) as usize).saturating_sub(FREE.len())
}

/// Takes a free entry; `None` if all 2^28 are taken.
fn take_place() -> Option<(u32, &'static AliasPlace)> {
    let used = || {
        let more = |used| (used < 1 << SLOT_BITS).then_some(used + 1);
        USED.fetch_update(Ordering::AcqRel, Ordering::Relaxed, more).ok()
    };
    let index = FREE.pop().or_else(used)?;
    let (chunk, offset) = coordinates(index);
    let places = PLACES.get(chunk)?.get_or_init(|| {
        let count = 1_usize << (chunk as u32 + FIRST_BITS);
        (0..count).map(|_| RwLock::new(AliasEntry { number: 0, owner: HOSTLESS, node: None, target: None })).collect()
    });
    Some((index, places.get(offset)?))
}

#[cfg(test)]
mod tests;
