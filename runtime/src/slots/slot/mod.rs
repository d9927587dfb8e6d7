//! The place that a process lives in: two cache lines, recycled and never freed.
//!
//! The first line is what the path of a message touches; the second describes the process.
//!
//! Who may touch what: `lanes`, `life`, `home` and the describing atomics are read by anyone; all but the lanes are
//! written by the token's holder alone. `body` and `cold_state` belong to the token's holder, who reaches them through
//! [`Token`]. A reader of the describing fields compares `life` before and after, so that it never mixes two processes.
//!
//! # The state of a process
//!
//! | state | token (see [`Lanes`]) | [`Life`] | [`Flags`], [`Deficit`] | left by |
//! |---|---|---|---|---|
//! | vacant | parked as vacant | closed | none | [`Token::claim_free`], then [`Token::open`] |
//! | ready | in a run queue | alive | | a worker that takes it |
//! | running | with a thread | alive | | the end of its time slice |
//! | over its time slice | in the global queue | alive | slices to let pass | as many time slices of others |
//! | idle | parked as idle | alive | | anything that arrives |
//! | waiting for yields | parked as waiting | alive | | an answer, a signal or a wake |
//! | suspended | parked as waiting | alive | SUSPENDED, [`Deficit::suspend`] | room, a signal, or too long a wait |
//! | ending | with a thread | closed | | [`Token::release`] |
//!
//! The transitions that race are methods with result enums: [`Claim`](crate::mailbox::lanes::Claim) says who has the
//! token after a push or a wake, [`ParkResult`](crate::mailbox::lanes::ParkResult) what became of parking it.
//!
//! # Types
//!
//! Here is what the four types are that name each other: a slot knows its home, that its scheduler, who is given
//! tokens, and a token is a slot's. What is done with them:
//! * [`life`], [`flags`], [`deficit`] and [`counts`]: the slot's words; [`metadata`]: its second line; [`cold_state`]:
//!   what only its process uses;
//! * [`send`]: the way of a message, whose outcome is an [`admission`]; [`control`]: the way of all else;
//! * [`token`]: what the token's holder may do; [`release`]: how it idles or vacates the slot;
//! * [`debug_owner`]: the assertion that one thread at a time does that.

pub(crate) mod admission;
pub(crate) mod cold_state;
pub(crate) mod control;
pub(crate) mod counts;
pub(crate) mod debug_owner;
pub(crate) mod deficit;
pub(crate) mod flags;
mod life;
pub(crate) mod metadata;
pub(crate) mod release;
pub(crate) mod send;
pub(crate) mod token;

use crate::call::dead_letter::Sink;
use crate::env::clock::TimeKeeper;
use crate::mailbox::bound::Bound;
use crate::mailbox::lanes::Lanes;
use crate::mailbox::node::{Envelope, NodeBox};
use crate::pid::{NodeId, Pid, Resident};
use crate::process::body::Body;
use crate::sync::{AtomicPtr, AtomicU16, AtomicU32, AtomicU64, Ordering, OwnedCell};
use debug_owner::DebugOwner;
use deficit::Deficit;
use flags::Flags;
use life::Life;
use metadata::Metadata;
use std::num::NonZeroU64;
use std::ptr;

pub(crate) use admission::{Admission, RefusalReason, SendRefusal};

/// What runs the process in a slot: a host, or the owner of a stand-alone mailbox.
pub(crate) trait Schedule: Sink {
    /// Something arrived for a process whose token was parked: here it is.
    fn wake(&'static self, token: Token);

    /// What keeps the time for the processes there, if anything does.
    fn time_keeper(&'static self) -> Option<&'static dyn TimeKeeper> {
        None
    }

    /// The bound of its mailboxes that have none of their own.
    fn bound(&self) -> Bound {
        Bound::Unbounded
    }

    /// One more batch of messages is queued there.
    fn check_length(&self, _slot: &'static Slot) {}

    /// The sequence number of a message that came not long before to a mailbox that is too full; zero if none is known.
    fn known(&self, _slot: &'static Slot) -> u64 {
        0
    }

    /// Decides about a message for a mailbox that may be too full.
    fn admit(&self, _slot: &'static Slot, node: NodeBox) -> Admission {
        Admission::Accepted(node)
    }

    /// A process that is suspended at the full mailbox of another is needed elsewhere.
    fn release_suspended(&self, _slot: &'static Slot) {}

    /// The message that a ticket of the process of `generation` stands for.
    fn redeem(&self, _slot: &'static Slot, _generation: u64) -> Option<Envelope> {
        None
    }
}

/// The record that slots point at. It is never freed, so that a sender who is late by any time still finds it valid.
pub(crate) struct SlotOwner {
    pub(crate) scheduler: &'static dyn Schedule,
    /// Node and host, in the form in which they are in a PID. Changes only while no process lives here: when the record
    /// is used again, for another host.
    place: AtomicU64,
    /// Names the host among all that there are, also for a home beside its own.
    of: usize,
    /// Completions and signals that came too late for anyone.
    pub(crate) late: AtomicU64,
}

impl SlotOwner {
    pub(crate) fn new(scheduler: &'static dyn Schedule, node: NodeId, host: u16) -> Self {
        let place = AtomicU64::new(Pid::new(node, host, 0, 0).place().get());
        Self { scheduler, place, of: ptr::from_ref(scheduler).addr(), late: AtomicU64::new(0) }
    }

    /// One of the same host, whose slots another one keeps.
    pub(crate) fn beside(home: &Self, scheduler: &'static dyn Schedule) -> Self {
        Self { scheduler, place: AtomicU64::new(home.place().get()), of: home.of, late: AtomicU64::new(0) }
    }

    /// Has it stand for another host of its node. No process lives here.
    pub(crate) fn renumber(&self, node: NodeId, host: u16) {
        self.place.store(Pid::new(node, host, 0, 0).place().get(), Ordering::Relaxed);
        self.late.store(0, Ordering::Relaxed);
    }

    #[inline]
    fn place(&self) -> NonZeroU64 {
        NonZeroU64::new(self.place.load(Ordering::Relaxed)).expect("a PID is made from a node id")
    }

    /// The PID of the process of that generation in the slot of that number.
    #[inline]
    pub(crate) fn pid(&self, slot: u32, generation: u64) -> Pid {
        Pid::of_words(self.place(), slot, generation)
    }

    pub(crate) fn is_beside(&self, other: &Self) -> bool {
        self.of == other.of
    }
}

/// See the module.
#[repr(C, align(64))]
pub(crate) struct Slot {
    pub(crate) lanes: Lanes,
    body: OwnedCell<Option<Body>>,
    life: Life,
    home: AtomicPtr<SlotOwner>,
    /// The last of its steps and messages, together: see [`Slot::count`].
    counts: AtomicU32,
    /// The permit that ran the process last.
    pub(crate) permit: AtomicU16,
    flags: Flags,
    pub(crate) deficit: Deficit,
    pub(crate) metadata: Metadata,
    /// Which thread uses the token, for assertions.
    pub(crate) owner: DebugOwner,
}

#[cfg(not(any(loom, debug_assertions)))]
const _: () = assert!(size_of::<Slot>() == 128);

// SAFETY: `body` and `cold_state` are reached through the one `Token` of the slot only, and what they hold is `Send`.
unsafe impl Send for Slot {}
// SAFETY: as above; all else is atomic.
unsafe impl Sync for Slot {}

impl Slot {
    pub(crate) fn unused(index: u32) -> Self {
        Self {
            lanes: Lanes::unused(),
            body: OwnedCell::new(None),
            life: Life::unused(),
            home: AtomicPtr::new(ptr::null_mut()),
            counts: AtomicU32::new(0),
            permit: AtomicU16::new(0),
            flags: Flags::none(),
            deficit: Deficit::none(),
            metadata: Metadata::unused(index),
            owner: DebugOwner::none(),
        }
    }

    pub(crate) fn index(&self) -> u32 {
        self.metadata.index
    }

    /// Names the slot among all others of the program.
    #[inline]
    pub(crate) fn address(&self) -> usize {
        ptr::from_ref(self).addr()
    }

    /// A new life begins. Only the token's holder calls it.
    fn begin_life(&self) {
        self.counts.store(0, Ordering::Relaxed);
        self.flags.clear();
        self.deficit.clear();
        self.metadata.messages.store(0, Ordering::Relaxed);
    }

    /// The generation of the process that lives here, if one does.
    #[inline]
    pub(crate) fn living(&self) -> Option<u64> {
        let life = self.life.load(Ordering::Acquire);
        life.is_alive().then_some(life.generation())
    }

    #[inline]
    pub(crate) fn is_living(&self, generation: u64) -> bool {
        self.life.is_alive(generation, Ordering::Acquire)
    }

    /// The same in the one order that `Token::close` is in, for one that counts itself in first and then looks.
    pub(crate) fn is_living_in_order(&self, generation: u64) -> bool {
        self.life.is_alive(generation, Ordering::SeqCst)
    }

    /// Returns whether the process of that generation lives here, or did and no other has since: it may be on its way
    /// out.
    pub(crate) fn is_last(&self, generation: u64) -> bool {
        generation != 0 && self.life.load(Ordering::Acquire).generation() == generation
    }

    /// Returns whether the process of that generation, which waits for another one, lives here and, unless it `blocks`,
    /// has nothing in its control lane to see to. A model is in `tests/models`.
    pub(crate) fn is_stuck(&self, generation: u64, blocks: bool) -> bool {
        self.is_living(generation) && (blocks || self.lanes.is_quiet())
    }

    /// Returns whether `pid` lives here, with its node and host: a PID out of a text may name others than the process
    /// has. Whatever comes with a PID is let in by this; a slot and a generation that belong together, as this has
    /// found, name one process for ever.
    ///
    /// The life is looked at first. The home read then is that of this life or, if this one has just ended, of a later
    /// one: either way no living process is reached by the PID of another.
    #[inline]
    pub(crate) fn carries(&self, pid: Pid) -> bool {
        self.is_living(pid.generation()) && self.is_at(pid)
    }

    /// The same for one that lives here, or that lived here last.
    pub(crate) fn has_carried(&self, pid: Pid) -> bool {
        self.is_last(pid.generation()) && self.is_at(pid)
    }

    /// Returns whether the slot is kept at the node and host of `pid`.
    #[inline]
    fn is_at(&self, pid: Pid) -> bool {
        // In the models all slots have one home, and a look at it would double the orders that they try.
        cfg!(loom) || self.home().is_some_and(|home| home.place.load(Ordering::Relaxed) == pid.place().get())
    }

    /// The generation of the process that lives here, or that lived here last.
    pub(crate) fn last(&self) -> u64 {
        self.life.load(Ordering::Acquire).generation()
    }

    /// The record of what runs this slot; `None` if it was never used.
    #[inline]
    pub(crate) fn home(&self) -> Option<&'static SlotOwner> {
        // SAFETY: only addresses of `&'static SlotOwner` are stored.
        unsafe { self.home.load(Ordering::Acquire).as_ref() }
    }

    /// The caller has just taken this slot's token.
    #[inline]
    fn schedule(&'static self) {
        if let Some(home) = self.home() {
            home.scheduler.wake(Token(self));
        }
    }
}

/// The right to run, end, empty_and_park or re-use one slot. There is one for each slot, and it is either such a value
/// or one of the marks of [`Lanes`].
///
/// Dropping it would leave the slot unusable for ever: it is parked, queued or used.
#[derive(Debug)]
#[must_use = "the slot's only token"]
pub(crate) struct Token(&'static Slot);

impl std::fmt::Debug for Slot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Slot({})", self.metadata.index)
    }
}

impl Resident for Slot {
    fn resident(&self) -> Option<Pid> {
        let home = self.home()?;
        Some(home.pid(self.metadata.index, self.last()))
    }
}
