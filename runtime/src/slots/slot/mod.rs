//! The slot of a process: two cache lines, recycled and never freed.
//!
//! The first line has everything that the fast path of a message touches; the second describes the process.
//!
//! Access: any thread may read `lanes`, `generation`, `owner` and the description; all but the lanes are written only
//! by the token's holder. `body` and `cold_state` belong to the token's holder, which accesses them through [`Token`].
//! A reader of the description compares `generation` before and after, so that it never mixes two processes.
//!
//! # The state of a process
//!
//! | state | token (see [`Lanes`]) | [`Generation`] | [`Flags`], [`Deficit`] | left by |
//! |---|---|---|---|---|
//! | never used | parked as vacant | over | none | [`Token::claim_unused`], then [`Token::open`] |
//! | vacant | parked as vacant | over | none | [`Token::claim_free`], then [`Token::open`] |
//! | vacant | kept by a thread | over | none | [`Token::open`] |
//! | ready | in a run queue | alive | | a worker that takes it |
//! | running | with a thread | alive | | the end of its time slice |
//! | over its time slice | in the global queue | alive | slices to wait | as many time slices of others |
//! | idle | parked as idle | alive | | anything that arrives |
//! | idle, [kept](LastPermit) | with the thread that ran it last | alive | | that thread |
//! | waiting for yields | parked as waiting | alive | | an answer, a signal or a wake |
//! | waiting for yields, kept | with the thread that ran it last | alive | | that thread |
//! | suspended | parked as waiting | alive | SUSPENDED, [`Deficit::suspend`] | room, a signal, or too long a wait |
//! | ending | with a thread | exiting | | [`Token::vacate`] |
//!
//! Transitions that race are methods with result enums: [`Claim`](crate::mailbox::lanes::Claim) reports who has the
//! token after a push or a wake, [`ParkResult`](crate::mailbox::lanes::ParkResult) whether it was parked.
//!
//! # Types
//!
//! This file has the four types that refer to each other: a slot has an owner, the owner has a scheduler, the scheduler
//! is given tokens, and a token belongs to a slot. Their operations:
//! * [`generation`] and [`words`]: the words of the first line, and [`state`]: their meaning; [`metadata`]: the second
//!   line; [`cold_state`]: data of few processes;
//! * [`send`]: the path of a message; [`admission`]: its outcome; [`requests`] and [`control`]: all other input;
//! * [`token`]: operations of the token's holder; [`release`]: parking the token and vacating the slot;
//! * [`debug_owner`]: the assertion that one thread at a time uses the token.

pub(crate) mod admission;
pub(crate) mod cold_state;
pub(crate) mod control;
pub(crate) mod debug_owner;
mod generation;
pub(crate) mod metadata;
pub(crate) mod release;
mod requesters;
pub(crate) mod requests;
pub(crate) mod send;
pub(crate) mod state;
pub(crate) mod token;
pub(crate) mod words;

use crate::call::dead_letter::Sink;
use crate::env::clock::TimeKeeper;
use crate::mailbox::bound::Bound;
use crate::mailbox::lanes::Lanes;
use crate::mailbox::node::{Envelope, NodeBox};
use crate::pid::{NodeId, Pid, Resident, incarnation};
use crate::process::body::Body;
use crate::recorder::session::Recorder;
use crate::sync::{AtomicPtr, AtomicU32, AtomicU64, Ordering, OwnedCell};
use debug_owner::DebugOwner;
use generation::{Generation, LifePhase};
use metadata::Metadata;
use requesters::Requesters;
use std::num::NonZeroU64;
use std::ptr;
use std::task::Waker;
use std::time::Duration;
use words::{Deficit, Flags, LastPermit};

pub(crate) use admission::{Admission, RefusalReason, SendPolicy, SendRefusal};

/// Runs the process of a slot: a host, the thread of a pinned process, or the owner of a stand-alone mailbox.
pub(crate) trait Schedule: Sync {
    /// Takes the token of a process that was parked and has input now.
    fn wake(&'static self, token: Token);

    /// Like [`wake`](Self::wake), but returns a waker that is user code instead of waking it; the caller wakes it.
    fn hand_over(&'static self, token: Token) -> Option<Waker> {
        self.wake(token);
        None
    }

    /// Called when something was pushed to a process whose token a thread seems to keep. Returns the token if that is
    /// the calling thread; otherwise notifies the thread that keeps it, unless that thread will check for input anyway.
    fn take_kept(&'static self, _slot: &'static Slot) -> Option<Token> {
        None
    }
}

/// Serves the slots of a host, or of a stand-alone mailbox.
pub(crate) trait SlotHost: Sink {
    fn time_keeper(&'static self) -> Option<&'static dyn TimeKeeper> {
        None
    }

    /// Returns the timeout of calls from outside, if the host sets one.
    fn call_timeout(&self) -> Option<Duration> {
        None
    }

    fn bound(&self) -> Bound {
        Bound::Unbounded
    }

    /// Called when another batch of messages has been queued.
    fn check_length(&self, _slot: &'static Slot) {}

    /// Returns the sequence number of a recent message in a mailbox that is too full; zero if it is unknown.
    fn known(&self, _slot: &'static Slot) -> u64 {
        0
    }

    /// Decides about an envelope for a mailbox that may be too full, or that has a hard bound.
    fn admit(&self, _slot: &'static Slot, node: NodeBox, _policy: SendPolicy) -> Admission {
        Admission::Accepted(node)
    }

    /// Resumes a suspended process, because a call has closed a cycle of waits that its suspension is part of.
    fn release_suspended(&self, _slot: &'static Slot) {}

    /// Returns the recorder of the host's events, if the host is recorded.
    fn recorder(&'static self) -> Option<&'static Recorder> {
        None
    }

    /// Takes the envelope that a placeholder stands for. The placeholder belongs to the process of this generation.
    fn redeem(&self, _slot: &'static Slot, _generation: u64) -> Option<Envelope> {
        None
    }

    /// Returns the label of one of the host's processes. It is stored until the messages left in the mailbox have been
    /// disposed of.
    fn label_of(&self, _pid: Pid) -> Option<std::sync::Arc<str>> {
        None
    }
}

/// The owner of slots. Never freed, so it remains valid for late senders.
pub(crate) struct SlotOwner {
    scheduler: &'static dyn Schedule,
    pub(crate) host: &'static dyn SlotHost,
    /// Node and host, as in a PID. It changes only when the record is reused, while the host has no processes.
    place: AtomicU64,
    /// The same as `place`, or zero while the host is recorded: then every lookup misses, and sends take the slow path,
    /// which records them.
    gate: AtomicU64,
    /// Number of completions and signals that came too late.
    pub(crate) late: AtomicU64,
    requesters: Requesters,
}

impl SlotOwner {
    pub(crate) fn new<Host: Schedule + SlotHost>(host: &'static Host, node: NodeId, number: u16) -> Self {
        let place = Pid::new(node, number, 0, 0).place().get();
        let (place, gate) = (AtomicU64::new(place), AtomicU64::new(place));
        Self { scheduler: host, host, place, gate, late: AtomicU64::new(0), requesters: Requesters::none() }
    }

    /// Creates another owner for the same host, with its own scheduler.
    pub(crate) fn beside(&self, scheduler: &'static dyn Schedule) -> Self {
        let (place, gate) = (self.place().get(), self.gate.load(Ordering::SeqCst));
        Self {
            scheduler,
            host: self.host,
            place: AtomicU64::new(place),
            gate: AtomicU64::new(gate),
            late: AtomicU64::new(0),
            requesters: Requesters::none(),
        }
    }

    /// Assigns the owner to another host. It must not have any processes.
    pub(crate) fn renumber(&self, node: NodeId, host: u16) {
        self.place.store(Pid::new(node, host, 0, 0).place().get(), Ordering::Relaxed);
        self.record_sends(false);
        self.late.store(0, Ordering::Relaxed);
    }

    /// Starts or stops the recording of sends to the owner's processes.
    pub(crate) fn record_sends(&self, are_recorded: bool) {
        self.gate.store(if are_recorded { 0 } else { self.place().get() }, Ordering::SeqCst);
    }

    /// Returns whether PIDs with this place belong to the owner. Does not read the gate, because that may change at any
    /// time. It is not inlined, because it is called only if the host is recorded or the PID is stale.
    #[cold]
    #[inline(never)]
    fn is_place(&self, place: NonZeroU64) -> bool {
        self.place() == place
    }

    #[inline]
    fn place(&self) -> NonZeroU64 {
        NonZeroU64::new(self.place.load(Ordering::Relaxed)).expect("a PID is made from a node id")
    }

    #[inline]
    pub(crate) fn pid(&self, slot: u32, generation: u64) -> Pid {
        Pid::of_words(self.place(), incarnation(slot, generation))
    }

    pub(crate) fn is_beside(&self, other: &Self) -> bool {
        ptr::addr_eq(self.host, other.host)
    }
}

#[repr(C, align(64))]
pub(crate) struct Slot {
    pub(crate) lanes: Lanes,
    body: OwnedCell<Option<Body>>,
    generation: Generation,
    owner: AtomicPtr<SlotOwner>,
    /// The counts of the latest steps and messages, in one word: see [`Slot::count`].
    counts: AtomicU32,
    pub(crate) permit: LastPermit,
    flags: Flags,
    pub(crate) deficit: Deficit,
    pub(crate) metadata: Metadata,
    /// The thread that uses the token, for assertions.
    pub(crate) debug_owner: DebugOwner,
}

#[cfg(not(any(loom, debug_assertions)))]
const _: () = assert!(size_of::<Slot>() == 128);

// SAFETY: `body` and `cold_state` are reached only through the slot's one `Token`, and their contents are `Send`.
unsafe impl Send for Slot {}
// SAFETY: as above; everything else is atomic.
unsafe impl Sync for Slot {}

impl Slot {
    pub(crate) fn unused(index: u32) -> Self {
        Self {
            lanes: Lanes::unused(),
            body: OwnedCell::new(None),
            generation: Generation::unused(),
            owner: AtomicPtr::new(ptr::null_mut()),
            counts: AtomicU32::new(0),
            permit: LastPermit::none(),
            flags: Flags::none(),
            deficit: Deficit::none(),
            metadata: Metadata::unused(index),
            debug_owner: DebugOwner::none(),
        }
    }

    pub(crate) fn index(&self) -> u32 {
        self.metadata.index
    }

    #[inline]
    pub(crate) fn address(&self) -> usize {
        ptr::from_ref(self).addr()
    }

    fn begin_generation(&self) {
        self.counts.store(0, Ordering::Relaxed);
        self.flags.clear();
        self.deficit.clear();
        self.metadata.messages.store(0, Ordering::Relaxed);
    }

    #[inline]
    pub(crate) fn living(&self) -> Option<u64> {
        let word = self.generation.load(Ordering::Acquire);
        word.is_alive().then_some(word.generation())
    }

    #[inline]
    pub(crate) fn is_living(&self, generation: u64) -> bool {
        self.generation.is_alive(generation, Ordering::Acquire)
    }

    /// Like `is_living`, but in one total order with `Token::close`, for code that first counts itself in and then
    /// checks.
    pub(crate) fn is_living_in_order(&self, generation: u64) -> bool {
        self.generation.is_alive(generation, Ordering::SeqCst)
    }

    /// Returns whether the process of `generation` is over: its exit has emptied its mailbox.
    fn is_over(&self, generation: u64) -> bool {
        self.generation.load(Ordering::Acquire).phase_of(generation) == LifePhase::Over
    }

    /// Returns whether the process of `generation` is the slot's current or last one. It may be alive, exiting or over.
    pub(crate) fn is_last(&self, generation: u64) -> bool {
        generation != 0 && self.generation.load(Ordering::Acquire).generation() == generation
    }

    /// Returns true if the process of `generation` is alive and has no work besides the wait that it has published,
    /// that is, if its control lane is empty. If that wait `blocks` the process's thread, the lane does not matter. (An
    /// answer beside a run-next slot is in no lane, but its call is no longer open.) A model is in `tests/models`.
    pub(crate) fn is_stuck(&self, generation: u64, blocks: bool) -> bool {
        self.is_living(generation) && (blocks || self.lanes.is_quiet())
    }

    /// Returns whether `pid` is alive in this slot. Compares node and host too, since a PID parsed from text may name
    /// others. Every PID from outside is checked by this function; after that, its slot and generation identify one
    /// process forever.
    ///
    /// The generation is read first. The owner that is read next is that of this process or, if it has just ended, of a
    /// later one. Either way, no live process can be reached by the PID of another.
    #[inline]
    pub(crate) fn carries(&self, pid: Pid) -> bool {
        self.is_living(pid.generation()) && self.is_at(pid)
    }

    /// Like [`carries`](Self::carries), but also returns true if the process has ended and was the last one in this
    /// slot.
    pub(crate) fn has_carried(&self, pid: Pid) -> bool {
        self.is_last(pid.generation()) && self.is_at(pid)
    }

    /// Returns whether the slot belongs to the node and host of `pid`.
    #[inline]
    fn is_at(&self, pid: Pid) -> bool {
        self.is_at_unrecorded(pid) || self.owner().is_some_and(|owner| owner.is_place(pid.place()))
    }

    #[inline]
    fn is_at_unrecorded(&self, pid: Pid) -> bool {
        // In the models all slots have one owner, and reading it would double the number of executions to explore.
        cfg!(loom) || self.owner().is_some_and(|owner| owner.gate.load(Ordering::Relaxed) == pid.place().get())
    }

    /// Like [`carries`](Self::carries), but also returns false if sends to the process are recorded.
    #[inline]
    pub(crate) fn carries_unrecorded(&self, pid: Pid) -> bool {
        self.is_living(pid.generation()) && self.is_at_unrecorded(pid)
    }

    /// Returns the generation of the live process, or of the most recent one.
    pub(crate) fn last(&self) -> u64 {
        self.generation.load(Ordering::Acquire).generation()
    }

    /// Returns the owner of this slot; `None` if it was never used.
    #[inline]
    pub(crate) fn owner(&self) -> Option<&'static SlotOwner> {
        // SAFETY: only addresses of `&'static SlotOwner` are stored.
        unsafe { self.owner.load(Ordering::Acquire).as_ref() }
    }

    /// Passes the token that the caller has just taken to the scheduler.
    #[inline]
    fn schedule(&'static self) {
        if let Some(owner) = self.owner() {
            owner.scheduler.wake(Token(self));
        }
    }

    /// Called after a push into the control lane. If a thread keeps the process, runs it now (if that is the calling
    /// thread) or soon.
    #[inline]
    fn run_if_kept(&'static self) {
        if self.permit.is_kept_after_push()
            && let Some(token) = self.take_kept()
        {
            token.wake();
        }
    }

    #[cold]
    #[inline(never)]
    fn take_kept(&'static self) -> Option<Token> {
        self.owner()?.scheduler.take_kept(self)
    }
}

/// The exclusive right to run, end, vacate or reuse a slot. There is one per slot: a value of this type, or a mark in
/// [`Lanes`].
///
/// A token must be parked, queued or used: dropping it would make the slot unusable forever.
#[must_use = "the slot's only token"]
pub(crate) struct Token(&'static Slot);

impl Resident for Slot {
    fn resident(&self) -> Option<Pid> {
        let owner = self.owner()?;
        Some(owner.pid(self.metadata.index, self.last()))
    }
}
