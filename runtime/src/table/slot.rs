//! The place that a process lives in: two cache lines, recycled and never freed.
//!
//! The first line is what the path of a message touches; the second describes the process to whoever asks.
//!
//! Who may touch what: `lanes`, `life`, `home` and the describing atomics are read by anyone; all but the lanes are
//! written by the token's holder alone. `body` and `extras` belong to the token's holder, who reaches them through
//! [`Token`]. A reader of the describing fields compares `life` before and after, so that it never mixes two processes.

use super::card::{ALL_STEPS, Card};
use super::extras::Extras;
use crate::caller::{Caller, Port};
use crate::clock::TimeKeeper;
use crate::dead_letter::{DeadLetter, DeadLetterReason, Sink};
use crate::errors::{CallError, CommandError};
use crate::exit::ExitReason;
use crate::mailbox::bound::Bound;
use crate::mailbox::lanes::{Claim, Holder, Lanes, Lay, Pop};
use crate::mailbox::node::{Kind, Letter, Node, NodeBox};
use crate::mailbox::pool;
use crate::payload::Payload;
use crate::pid::{LAST_GENERATION, NodeId, Pid, Resident};
use crate::process::body::Body;
use crate::process::control::Control;
use crate::sync::{AtomicPtr, AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering, OwnedCell, yield_now};
use std::num::NonZeroU64;
use std::ptr::{self, NonNull};

/// Whoever runs what lives in a slot: a host, or the thread that owns a stand-alone mailbox.
pub(crate) trait Keeper: Sink {
    /// Something arrived for a process that had laid its token down: here it is.
    fn wake(&'static self, token: Token);

    /// Who does later what is sent later to what lives there, if anyone does.
    fn time_keeper(&'static self) -> Option<&'static dyn TimeKeeper> {
        None
    }

    /// The bound of its mailboxes that have none of their own.
    fn bound(&self) -> Bound {
        Bound::Unbounded
    }

    /// One more batch of messages is queued there.
    fn crowded(&self, _slot: &'static Slot) {}

    /// Decides about a message for a mailbox that may be too full.
    fn admit(&self, _slot: &'static Slot, node: NodeBox) -> Admission {
        Admission::Accepted(node)
    }

    /// A process that is held at the full mailbox of another is needed elsewhere.
    fn let_go(&self, _slot: &'static Slot) {}

    /// The message that a ticket of the process of `generation` stands for.
    fn redeem(&self, _slot: &'static Slot, _generation: u64) -> Option<Letter> {
        None
    }
}

/// A node that was put into a data lane, and what is still to be done about it.
#[must_use = "the process may be idle, and its token here"]
pub(crate) struct Pushed {
    mine: NonNull<Node>,
    claim: Claim,
    crowded: bool,
}

/// What becomes of a message for a mailbox that may be too full.
pub(crate) enum Admission {
    /// It is to be queued.
    Accepted(NodeBox),
    /// It goes back.
    Refused(Letter),
    /// It is in the lane.
    Pushed(Pushed),
    /// It has been seen to.
    Taken,
}

impl Admission {
    /// Gives the message back.
    pub(crate) fn refuse(mut node: NodeBox) -> Self {
        let letter = node.take();
        pool::recycle(node);
        Self::Refused(letter)
    }
}

/// The record that slots point at. It is never freed, so that a sender who is late by any time still finds it valid.
pub(crate) struct Home {
    pub(crate) keeper: &'static dyn Keeper,
    pub(crate) node: NodeId,
    /// The host's number in its node.
    pub(crate) host: u16,
    /// Both in the form in which they are in a PID.
    place: NonZeroU64,
    /// Names the host among all that there are, also for a home beside its own.
    of: usize,
    /// Completions and signals that came too late for anyone.
    pub(crate) late: AtomicU64,
}

impl Home {
    pub(crate) fn new(keeper: &'static dyn Keeper, node: NodeId, host: u16) -> Self {
        let (place, of) = (Pid::new(node, host, 0, 0).place(), ptr::from_ref(keeper).addr());
        Self { keeper, node, host, place, of, late: AtomicU64::new(0) }
    }

    /// One of the same host, whose slots another one keeps.
    pub(crate) fn beside(home: &Self, keeper: &'static dyn Keeper) -> Self {
        let Self { node, host, place, of, .. } = *home;
        Self { keeper, node, host, place, of, late: AtomicU64::new(0) }
    }

    /// Whether both are of one host.
    pub(crate) fn is_beside(&self, other: &Self) -> bool {
        self.of == other.of
    }
}

/// See the module.
#[repr(C, align(64))]
pub(crate) struct Slot {
    pub(crate) lanes: Lanes,
    body: OwnedCell<Option<Body>>,
    /// Generation, and in bit 0 whether its process lives.
    life: AtomicU64,
    home: AtomicPtr<Home>,
    /// The last of its steps and messages, together: see [`Slot::count`].
    counts: AtomicU32,
    /// The worker that ran the process last.
    pub(crate) worker: AtomicU16,
    /// What few processes have or are. Senders look at OVERFULL, which is a hint: late by any time it has one look too few or
    /// too many. RING and LIMITED are set before the process begins.
    flags: AtomicU8,
    /// How many turns the process is to let pass, having spent more than one.
    pub(crate) debt: AtomicU8,
    pub(crate) card: Card,
}

#[cfg(not(loom))]
const _: () = assert!(size_of::<Slot>() == 128);

// SAFETY: `body` and `extras` are reached through the one `Token` of the slot only, and what they hold is `Send`.
unsafe impl Send for Slot {}
// SAFETY: as above; all else is atomic.
unsafe impl Sync for Slot {}

/// The process has extras.
const EXTRAS: u8 = 1;
/// The mailbox is too full.
const OVERFULL: u8 = 2;
/// The extras have something for each step: values to hand on, or controls that were left.
const ATTEND: u8 = 4;
/// The process is held at the full mailbox of another.
const HELD: u8 = 8;
/// The mailbox has a bound of its own.
const LIMITED: u8 = 16;
/// The messages of the mailbox are in a ring, for which there are tickets in the lane.
const RING: u8 = 32;
/// Somebody looks after the process, and stops it when its host goes down.
const SUPERVISED: u8 = 64;
/// The process is told to stop by a signal, ahead of its messages: it has others to stop first.
const TOLD_TO_STOP: u8 = 128;

const STEP_BITS: u32 = 12;
const STEPS: u32 = (1 << STEP_BITS) - 1;

/// Why something sent was refused; the letter is whole. In a box, so that the result of what is not refused is one word.
#[derive(Debug)]
pub(crate) struct Refusal(pub(crate) Letter, pub(crate) Why);

/// Why something sent was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Why {
    Gone,
    Full,
}

impl Slot {
    pub(crate) fn unused(index: u32) -> Self {
        Self {
            lanes: Lanes::unused(),
            body: OwnedCell::new(None),
            life: AtomicU64::new(0),
            home: AtomicPtr::new(ptr::null_mut()),
            counts: AtomicU32::new(0),
            worker: AtomicU16::new(0),
            flags: AtomicU8::new(0),
            debt: AtomicU8::new(0),
            card: Card::unused(index),
        }
    }

    pub(crate) fn index(&self) -> u32 {
        self.card.index
    }

    /// Counts a step that has taken so many messages. Only the token's holder calls it.
    ///
    /// What is counted is on the first line, so that a message does not touch the second: twelve bits for steps, twenty for
    /// messages, which go over to the second line when the first are full. A step takes fewer than 256 messages.
    #[inline]
    pub(crate) fn count(&self, messages: u32) {
        let mut counts = self.counts.load(Ordering::Relaxed);
        if counts & STEPS == STEPS {
            self.carry(counts);
            counts = 0;
        }
        self.counts.store(counts + (messages << STEP_BITS) + 1, Ordering::Relaxed);
    }

    #[cold]
    fn carry(&self, counts: u32) {
        let Card { steps, messages, .. } = &self.card;
        let before = steps.load(Ordering::Relaxed);
        let after = before.wrapping_add(u64::from(counts & STEPS)) & ALL_STEPS;
        steps.store(before & !ALL_STEPS | after, Ordering::Relaxed);
        let taken = messages.load(Ordering::Relaxed).wrapping_add(u64::from(counts >> STEP_BITS));
        messages.store(taken, Ordering::Relaxed);
    }

    /// How many steps the process has made, and how many messages it has taken. A glance from anywhere, which may be
    /// off by the last 4,095 steps for a moment while they are carried over.
    pub(crate) fn counted(&self) -> (u64, u64) {
        loop {
            let counts = self.counts.load(Ordering::Acquire);
            let steps = self.card.steps.load(Ordering::Acquire) & ALL_STEPS;
            let messages = self.card.messages.load(Ordering::Acquire);
            // Smaller than before: it has been carried over meanwhile.
            if self.counts.load(Ordering::Relaxed) >= counts {
                return (steps + u64::from(counts & STEPS), messages + u64::from(counts >> STEP_BITS));
            }
        }
    }

    /// Whether somebody looks after the process that lives here, and stops it when its host goes down.
    pub(crate) fn is_supervised(&self) -> bool {
        self.flags.load(Ordering::Relaxed) & SUPERVISED != 0
    }

    /// Whether the process that lives here is told to stop by a signal.
    pub(crate) fn is_told_to_stop(&self) -> bool {
        self.flags.load(Ordering::Relaxed) & TOLD_TO_STOP != 0
    }

    fn set_flag(&self, flag: u8, to: bool) {
        if to {
            self.flags.fetch_or(flag, Ordering::SeqCst);
        } else {
            self.flags.fetch_and(!flag, Ordering::SeqCst);
        }
    }

    /// Names the slot among all others of the program.
    #[inline]
    pub(crate) fn address(&self) -> usize {
        ptr::from_ref(self).addr()
    }

    fn has_flag(&self, flag: u8) -> bool {
        self.flags.load(Ordering::SeqCst) & flag != 0
    }

    /// Marks the mailbox as too full, or as one that is not.
    pub(crate) fn note_overfull(&self, is: bool) {
        self.set_flag(OVERFULL, is);
    }

    /// Whether the mailbox is marked as too full.
    pub(crate) fn is_overfull(&self) -> bool {
        self.has_flag(OVERFULL)
    }

    /// Marks the process as held, or as let go.
    pub(crate) fn note_held(&self, is: bool) {
        self.set_flag(HELD, is);
    }

    /// Whether the process is held.
    pub(crate) fn is_held(&self) -> bool {
        self.has_flag(HELD)
    }

    /// The mailbox has a bound of its own, and a ring if that is a hard one.
    pub(crate) fn note_limit(&self, ring: bool) {
        self.set_flag(if ring { LIMITED | RING } else { LIMITED }, true);
    }

    pub(crate) fn is_limited(&self) -> bool {
        self.has_flag(LIMITED)
    }

    pub(crate) fn has_ring(&self) -> bool {
        self.has_flag(RING)
    }

    /// Whether something is kept of the process beside its slot.
    pub(crate) fn has_side(&self) -> bool {
        self.has_flag(OVERFULL | HELD | LIMITED | RING)
    }

    /// What few processes have; from here on this one does.
    ///
    /// # Safety
    /// The caller holds the slot's token, and no reference to the extras.
    #[expect(clippy::mut_from_ref, reason = "the token stands for the exclusive borrow")]
    pub(crate) unsafe fn own_extras(&self) -> &mut Extras {
        self.set_flag(EXTRAS, true);
        // SAFETY: as the caller promises.
        self.card.extras.with_mut(|extras| unsafe { &mut *extras }).get_or_insert_default()
    }

    /// A new life begins. Only the token's holder calls it.
    fn begin_life(&self) {
        self.counts.store(0, Ordering::Relaxed);
        self.flags.store(0, Ordering::Relaxed);
        self.debt.store(0, Ordering::Relaxed);
        self.card.messages.store(0, Ordering::Relaxed);
    }

    /// The generation of the process that lives here, if one does.
    #[inline]
    pub(crate) fn living(&self) -> Option<u64> {
        let life = self.life.load(Ordering::Acquire);
        (life & 1 == 1).then_some(life >> 1)
    }

    /// Whether the process of that generation lives here.
    #[inline]
    pub(crate) fn is_living(&self, generation: u64) -> bool {
        self.life.load(Ordering::Acquire) == generation << 1 | 1
    }

    /// The same in the one order that `Token::close` is in, for whoever counts itself in first and then looks.
    pub(crate) fn is_living_in_order(&self, generation: u64) -> bool {
        self.life.load(Ordering::SeqCst) == generation << 1 | 1
    }

    /// Whether the process of that generation lives here, or did and no other has since: it may be on its way out.
    pub(crate) fn is_last(&self, generation: u64) -> bool {
        generation != 0 && self.life.load(Ordering::Acquire) >> 1 == generation
    }

    /// The generation of the process that lives here, or that lived here last.
    pub(crate) fn last(&self) -> u64 {
        self.life.load(Ordering::Acquire) >> 1
    }

    /// The record of whoever runs this slot; `None` if it was never used.
    #[inline]
    pub(crate) fn home(&self) -> Option<&'static Home> {
        // SAFETY: only addresses of `&'static Home` are stored.
        unsafe { self.home.load(Ordering::Acquire).as_ref() }
    }

    /// Queues a letter in the data lane of the process of `generation`, and wakes it if it is idle.
    ///
    /// # Errors
    /// The letter, if no such process lives here.
    #[inline]
    pub(crate) fn post(
        &'static self,
        kind: Kind,
        generation: u64,
        word: *mut Node,
        payload: Option<Payload>,
    ) -> Result<(), Box<Refusal>> {
        let letter = Letter { kind, generation, word, payload };
        if !self.is_living(generation) {
            return Err(Box::new(Refusal(letter, Why::Gone)));
        }
        let node = pool::node(letter);
        // A bound is for messages.
        if kind == Kind::Message { self.queue(node) } else { self.queue_anyway(node) }
    }

    /// Queues a message that has been accepted before, however full the mailbox is.
    ///
    /// # Errors
    /// The letter, if no such process lives here.
    pub(crate) fn post_anyway(&'static self, generation: u64, word: *mut Node, payload: Payload) -> Result<(), Letter> {
        let letter = Letter { kind: Kind::Message, generation, word, payload: Some(payload) };
        if !self.is_living(generation) {
            return Err(letter);
        }
        self.queue_anyway(pool::node(letter)).map_err(|refusal| refusal.0)
    }

    /// Queues a node in the data lane, and wakes the process if it is idle: what all that is sent passes through.
    ///
    /// # Errors
    /// The letter, if the process has ended since it was looked for.
    #[inline(always)]
    fn queue(&'static self, node: NodeBox) -> Result<(), Box<Refusal>> {
        if self.flags.load(Ordering::Relaxed) & (OVERFULL | RING) != 0 && self.must_ask() {
            return self.queue_if_admitted(node);
        }
        self.queue_anyway(node)
    }

    /// Whether it is not known of the calling thread that it presses on this mailbox. Not put in the place of its call, where
    /// its look would be made for each message.
    #[inline(never)]
    fn must_ask(&self) -> bool {
        pool::pressing() != self.address() || self.has_ring()
    }

    #[cold]
    fn queue_if_admitted(&'static self, node: NodeBox) -> Result<(), Box<Refusal>> {
        match self.home().map(|home| home.keeper.admit(self, node)) {
            Some(Admission::Accepted(node)) => self.queue_anyway(node),
            Some(Admission::Pushed(pushed)) => self.follow(pushed),
            Some(Admission::Refused(letter)) => Err(Box::new(Refusal(letter, Why::Full))),
            Some(Admission::Taken) | None => Ok(()),
        }
    }

    /// So many messages have come that it is time to look how full the mailbox is; what follows is the sender's.
    #[cold]
    pub(crate) fn crowded(&'static self) {
        if let Some(home) = self.home() {
            home.keeper.crowded(self);
        }
    }

    /// The same, however full the mailbox is.
    #[inline(always)]
    fn queue_anyway(&'static self, node: NodeBox) -> Result<(), Box<Refusal>> {
        let mine = node.as_ptr();
        match self.lanes.push_data(node, || self.crowded()) {
            Claim::Nothing => Ok(()),
            Claim::Process => {
                self.schedule();
                Ok(())
            }
            Claim::Grave => self.take_back(mine),
        }
    }

    /// Puts a node into the data lane and does nothing else yet, for whoever holds a lock. [`follow`](Self::follow) comes next.
    pub(crate) fn push(&self, node: NodeBox) -> Pushed {
        let mine = node.as_ptr();
        let mut crowded = false;
        let claim = self.lanes.push_data(node, || crowded = true);
        Pushed { mine, claim, crowded }
    }

    /// What follows from a push: the process is woken if it was idle. It may run code of others.
    ///
    /// # Errors
    /// The letter, if the process has ended since it was looked for.
    pub(crate) fn follow(&'static self, pushed: Pushed) -> Result<(), Box<Refusal>> {
        if pushed.crowded {
            self.crowded();
        }
        match pushed.claim {
            Claim::Nothing => Ok(()),
            Claim::Process => {
                self.schedule();
                Ok(())
            }
            Claim::Grave => self.take_back(pushed.mine),
        }
    }

    /// The caller has taken the token of a grave with a letter in the node `mine`, which it gets back.
    #[cold]
    fn take_back(&'static self, mine: NonNull<Node>) -> Result<(), Box<Refusal>> {
        match Token(self).bury(Some(mine)) {
            // What it stands for was in the ring when the process ended, and is a dead letter.
            Some(letter) if letter.kind != Kind::Ticket => Err(Box::new(Refusal(letter, Why::Gone))),
            _ => Ok(()),
        }
    }

    /// Queues a message in the data lane of the process of `generation`, and wakes it if it is idle.
    ///
    /// # Errors
    /// The message, if no such process lives here or if its mailbox is full.
    #[inline]
    pub(crate) fn send<M: Send + 'static>(&'static self, generation: u64, message: M) -> Result<(), (M, Why)> {
        if !self.is_living(generation) {
            return Err((message, Why::Gone));
        }
        let sent = self.queue(pool::message(generation, message, ptr::null_mut()));
        sent.map_err(|refusal| (unpack(refusal.0).0, refusal.1))
    }

    /// Sends a message however full the mailbox is, and does nothing else yet, for whoever holds a lock. What is to follow
    /// when the lock is free: the process is to be woken, with [`Token::wake`], if its token is given, and
    /// [`crowded`](Self::crowded) is to be called if that is said. Neither is ours alone: it may wait, or run code of others.
    ///
    /// # Errors
    /// The message, if no such process lives here.
    pub(crate) fn send_quietly<M: Send + 'static>(
        &'static self,
        generation: u64,
        message: M,
    ) -> Result<(Option<Token>, bool), M> {
        if !self.is_living(generation) {
            return Err(message);
        }
        let node = pool::message(generation, message, ptr::null_mut());
        let mine = node.as_ptr();
        let mut crowded = false;
        match self.lanes.push_data(node, || crowded = true) {
            Claim::Nothing => Ok((None, crowded)),
            Claim::Process => Ok((Some(Token(self)), crowded)),
            Claim::Grave => match self.take_back(mine) {
                Ok(()) => Ok((None, false)),
                Err(refusal) => Err(unpack(refusal.0).0),
            },
        }
    }

    /// The same with someone who waits for the answer.
    ///
    /// # Errors
    /// The message and its caller, if no such process lives here or if its mailbox is full.
    #[inline]
    pub(crate) fn call<M: Send + 'static>(
        &'static self,
        generation: u64,
        message: M,
        caller: Caller,
    ) -> Result<(), (M, Option<Caller>, Why)> {
        if !self.is_living(generation) {
            return Err((message, Some(caller), Why::Gone));
        }
        self.queue(pool::message(generation, message, caller.into_word())).map_err(|refusal| {
            let Refusal(letter, why) = *refusal;
            let (message, caller) = unpack(letter);
            (message, caller, why)
        })
    }

    /// Pushes a node to the control lane of the process of `generation`; a late one is counted and comes to nothing.
    pub(crate) fn post_control(
        &'static self,
        mut node: NodeBox,
        kind: Kind,
        generation: u64,
        word: *mut Node,
        payload: Option<Payload>,
    ) {
        let letter = Letter { kind, generation, word, payload };
        // A signal is let in while its process is being taken apart: it may be a wish to be told of the end.
        let told = kind == Kind::Signal && self.is_last(generation);
        if !self.is_living(generation) && !told {
            pool::recycle(node);
            self.late(letter);
            return;
        }
        node.put(letter);
        match self.lanes.push_control(node) {
            Claim::Nothing => {}
            Claim::Process => self.schedule(),
            Claim::Grave => drop(Token(self).bury(None)),
        }
    }

    /// Wakes the process as [`wake`](Self::wake) does, for whoever gives a waker up by that: `give_back` counts it out, and says
    /// whether it was the last one. It is counted out when the wake can be seen, and before the process runs for it.
    pub(crate) fn wake_and_give_back(&'static self, generation: u64, give_back: impl FnOnce() -> bool) {
        if !self.is_living(generation) {
            give_back();
            return;
        }
        let claim = self.lanes.wake();
        let was_last = give_back();
        match claim {
            // It may have run for this wake already, found the waker still lent, and wait now.
            Claim::Nothing if was_last => self.wake(generation),
            Claim::Nothing => {}
            Claim::Process => self.schedule(),
            Claim::Grave => drop(Token(self).bury(None)),
        }
    }

    /// Says that a future of the process of `generation` can make progress. Never wrong: a wake too many is harmless.
    pub(crate) fn wake(&'static self, generation: u64) {
        if self.is_living(generation) {
            match self.lanes.wake() {
                Claim::Nothing => {}
                Claim::Process => self.schedule(),
                Claim::Grave => drop(Token(self).bury(None)),
            }
        }
    }

    /// Has the process, which lives, make another step before it rests. Gives whether it waits for control only, and was left
    /// alone.
    pub(crate) fn rouse(&'static self, generation: u64) -> bool {
        debug_assert!(generation != 0, "that of a process");
        match self.lanes.rouse() {
            None => return true,
            Some(Claim::Nothing) => {}
            Some(Claim::Process) => self.schedule(),
            Some(Claim::Grave) => drop(Token(self).bury(None)),
        }
        false
    }

    /// The caller has just taken this slot's token.
    #[inline]
    fn schedule(&'static self) {
        if let Some(home) = self.home() {
            home.keeper.wake(Token(self));
        }
    }

    fn late(&self, mut letter: Letter) {
        let control = letter.payload.as_mut().and_then(Payload::get_mut::<Control>);
        // Whoever waits for the end of what has ended is told so by the drop: that is an answer, and not late.
        if !matches!(control, Some(Control::Join(_) | Control::Bond(_)))
            && let Some(home) = self.home()
        {
            home.late.fetch_add(1, Ordering::Relaxed);
        }
        drop(letter);
    }
}

/// The right to run, end, bury or re-use one slot. There is one for each slot, and it is either such a value or one of the
/// marks of [`Lanes`].
///
/// Dropping it would leave the slot unusable for ever: it is laid down, queued or used.
#[derive(Debug)]
#[must_use = "the slot's only token"]
pub(crate) struct Token(&'static Slot);

impl std::fmt::Debug for Slot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Slot({})", self.card.index)
    }
}

impl Token {
    /// The token of a slot that the directory took off its free list, if no late sender holds it at this moment.
    pub(crate) fn claim_free(slot: &'static Slot) -> Option<Self> {
        match slot.lanes.claim() {
            Claim::Grave => Some(Self(slot)),
            Claim::Nothing => None,
            Claim::Process => unreachable!("a free slot carries no process"),
        }
    }

    /// The token of a living slot, if it is laid down at this moment. For the owner of a stand-alone mailbox.
    pub(crate) fn claim_own(slot: &'static Slot) -> Option<Self> {
        (slot.lanes.claim() == Claim::Process).then_some(Self(slot))
    }

    /// For run queues that hold addresses.
    pub(crate) fn into_raw(self) -> *mut Slot {
        ptr::from_ref(self.0).cast_mut()
    }

    /// # Safety
    /// `slot` came from `into_raw`, and is turned back once.
    pub(crate) unsafe fn from_raw(slot: NonNull<Slot>) -> Self {
        // SAFETY: slots are never freed.
        Self(unsafe { slot.as_ref() })
    }

    pub(crate) fn slot(&self) -> &'static Slot {
        self.0
    }

    /// Wakes the process whose token this is.
    pub(crate) fn wake(self) {
        self.0.schedule();
    }

    /// The PID of the process that lives here.
    #[inline]
    pub(crate) fn pid(&self) -> Option<Pid> {
        let home = self.0.home()?;
        Some(Pid::of_words(home.place, self.0.card.index, self.0.living()?))
    }

    /// Opens a new life in this slot and makes its PID routable; messages wait until the token is laid down or queued.
    pub(crate) fn open(&mut self, home: &'static Home) -> Pid {
        let slot = self.0;
        debug_assert!(slot.living().is_none(), "one process in a slot at a time");
        slot.begin_life();
        let generation = (slot.life.load(Ordering::Relaxed) >> 1) + 1;
        slot.home.store(ptr::from_ref(home).cast_mut(), Ordering::Release);
        slot.life.store(generation << 1 | 1, Ordering::Release);
        Pid::new(home.node, home.host, slot.card.index, generation)
    }

    /// Ends the life: from here on its PID is unroutable. In one order with the looks at what ends with it: see
    /// `memberships`.
    pub(crate) fn close(&mut self) {
        let life = self.0.life.load(Ordering::Relaxed);
        debug_assert!(life & 1 == 1, "a life is closed once");
        self.0.life.store(life & !1, Ordering::SeqCst);
    }

    /// Whether the slot has generations left.
    pub(crate) fn is_reusable(&self) -> bool {
        self.0.life.load(Ordering::Relaxed) >> 1 < LAST_GENERATION
    }

    /// The process.
    #[inline]
    pub(crate) fn body(&mut self) -> &mut Option<Body> {
        // SAFETY: the body belongs to the token's holder, and the borrow of the token makes this the only reference.
        self.0.body.with_mut(|body| unsafe { &mut *body })
    }

    /// Whether each step of the process is to look at its extras, or at how full its mailbox is.
    #[inline]
    pub(crate) fn is_special(&self) -> bool {
        self.0.flags.load(Ordering::Relaxed) & (ATTEND | OVERFULL) != 0
    }

    /// Says whether each step is to look at the extras: not for a name, a label, or those who wait for the end.
    pub(crate) fn attend(&self, to_extras: bool) {
        self.set_flag(ATTEND, to_extras);
    }

    fn set_flag(&self, flag: u8, to: bool) {
        self.0.set_flag(flag, to);
    }

    /// Says what the new process is to others.
    pub(crate) fn describe(&self, is_supervised: bool, is_told_to_stop: bool) {
        self.set_flag(SUPERVISED, is_supervised);
        self.set_flag(TOLD_TO_STOP, is_told_to_stop);
    }

    /// What few processes have, if this one does.
    pub(crate) fn extras(&mut self) -> Option<&mut Extras> {
        // SAFETY: as for the body.
        self.0.card.extras.with_mut(|extras| unsafe { &mut *extras }).as_deref_mut()
    }

    /// What few processes have; from here on this one does.
    pub(crate) fn make_extras(&mut self) -> &mut Extras {
        // SAFETY: this is the token, and borrowed.
        unsafe { self.0.own_extras() }
    }

    /// Takes it away.
    pub(crate) fn take_extras(&mut self) -> Option<Box<Extras>> {
        if self.0.flags.load(Ordering::Relaxed) & EXTRAS == 0 {
            return None;
        }
        self.set_flag(EXTRAS | ATTEND, false);
        // SAFETY: as for the body.
        self.0.card.extras.with_mut(|extras| unsafe { &mut *extras }).take()
    }

    /// The generation of the process that lives here; the token is that of a living one.
    #[inline]
    pub(crate) fn generation(&self) -> u64 {
        self.0.life.load(Ordering::Relaxed) >> 1
    }

    /// The lanes, for taking things out of them.
    #[inline]
    pub(crate) fn hold(&mut self) -> Holder<'_> {
        // SAFETY: this is the token, and it is borrowed for as long as the holder lives.
        unsafe { Holder::new(&self.0.lanes) }
    }

    /// Lays the token down until anything arrives. Gives it back if something has.
    #[inline]
    pub(crate) fn lay_idle(self) -> Option<Self> {
        // SAFETY: this is the token.
        match unsafe { self.0.lanes.lay_idle() } {
            Lay::Refused => Some(self),
            Lay::Gone => None,
            Lay::Back(claim) => self.fresh(claim),
        }
    }

    /// Lays the token down until something arrives in the control lane. Gives it back if something has.
    pub(crate) fn lay_wait(self) -> Option<Self> {
        // SAFETY: this is the token.
        match unsafe { self.0.lanes.lay_wait() } {
            Lay::Refused => Some(self),
            Lay::Gone => None,
            Lay::Back(claim) => self.fresh(claim),
        }
    }

    /// A token that was taken back may be that of another life: it goes the way of any token that was just taken.
    fn fresh(self, claim: Claim) -> Option<Self> {
        match claim {
            Claim::Process => self.0.schedule(),
            Claim::Grave => drop(Self(self.0).bury(None)),
            Claim::Nothing => {}
        }
        None
    }

    /// Empties the lanes of a slot that carries no process and lays the token down. Gives back the letter that was in the
    /// node `mine`, if it is among them; the others are dead letters.
    pub(crate) fn bury(mut self, mine: Option<NonNull<Node>>) -> Option<Letter> {
        debug_assert!(self.0.living().is_none(), "the living are not buried");
        let (mut mine, mut kept) = (mine, None);
        loop {
            // SAFETY: this is the token.
            match unsafe { self.0.lanes.pop_data() } {
                Pop::Letter(letter, free) => {
                    free.into_iter().for_each(pool::recycle);
                    // The letter was in the node that is now the lane's first; `mine` is only an address here.
                    if mine.is_some() && mine == self.first() {
                        kept = Some(letter);
                        // Its node may be back in this lane before the burial is over.
                        mine = None;
                    } else {
                        self.dead_letter(letter, DeadLetterReason::Ended, &ExitReason::Gone);
                    }
                    continue;
                }
                // The sender of the next letter was preempted before it linked it. It believes its letter accepted, and
                // there is no process to put back in line, so this waits for it.
                Pop::Busy => {
                    yield_now();
                    continue;
                }
                Pop::Empty => {}
            }
            let mut controls = self.hold().take_control();
            while let Some(mut node) = controls.pop() {
                let letter = node.take();
                pool::recycle(node);
                self.0.late(letter);
            }
            // SAFETY: this is the token.
            match unsafe { self.0.lanes.lay_dead() } {
                Lay::Refused => {}
                Lay::Gone => return kept,
                Lay::Back(Claim::Grave) => {}
                Lay::Back(claim) => {
                    // Between the laying and the look back the slot was given to a new process, whose token this is now.
                    self.fresh(claim);
                    return kept;
                }
            }
        }
    }

    /// The address of the lane's first node.
    fn first(&self) -> Option<NonNull<Node>> {
        // SAFETY: this is the token.
        NonNull::new(unsafe { self.0.lanes.first() })
    }

    /// Disposes of a letter that nobody will handle: its caller learns `why`, a message goes to the dead-letter hook.
    pub(crate) fn dead_letter(&self, letter: Letter, reason: DeadLetterReason, why: &ExitReason) {
        let Some(home) = self.0.home() else { return };
        match (letter.kind, letter.payload) {
            (Kind::Message, Some(message)) => {
                // SAFETY: the word of a message is its caller, or null, and this letter is its only holder.
                let caller = unsafe { Caller::from_word(letter.word) };
                let to = Pid::new(home.node, home.host, self.0.card.index, letter.generation);
                home.keeper.dead_letter(DeadLetter { to, message, reason });
                // After the letter: a caller that is told finds it counted.
                if let Some(caller) = caller {
                    caller.fail(CallError::Gone(why.clone()));
                }
            }
            // What is said about bonds is answered by its drop.
            (Kind::Stop | Kind::Notice, _) => {}
            (Kind::Ticket, _) => {
                if let Some(letter) = home.keeper.redeem(self.0, letter.generation) {
                    self.dead_letter(letter, reason, why);
                }
            }
            _ => {
                home.late.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    /// Buries an ended process's slot. Gives its index if the slot can be used again.
    pub(crate) fn release(self) -> Option<u32> {
        let (slot, reusable) = (self.0, self.is_reusable());
        let _nothing = self.bury(None);
        reusable.then_some(slot.card.index)
    }
}

/// The message and its caller of a letter that came back to its sender.
#[cold]
fn unpack<M: Send + 'static>(letter: Letter) -> (M, Option<Caller>) {
    // SAFETY: the word of a message is its caller, or null, and this letter is its only holder.
    let caller = unsafe { Caller::from_word(letter.word) };
    match letter.payload.map(Payload::take) {
        Some(Ok(message)) => (message, caller),
        Some(Err(other)) => unreachable!("a `{}` came back for another message", other.type_name()),
        None => unreachable!("a message has a payload"),
    }
}

impl Resident for Slot {
    fn resident(&self) -> Option<Pid> {
        let home = self.home()?;
        Some(Pid::of_words(home.place, self.card.index, self.last()))
    }
}

impl Port for Slot {
    fn answer(&'static self, node: NodeBox, generation: u64, tag: *mut Node, result: Result<Payload, CommandError>) {
        match result {
            Ok(value) => self.post_control(node, Kind::Completed, generation, tag, Some(value)),
            Err(error) => self.post_control(node, Kind::Failed, generation, tag, Some(Payload::new(error))),
        }
    }
}
