//! The two lanes of a mailbox, and the token: the right to run its process.
//!
//! # The token
//!
//! The exclusive right to run, end, vacate or reuse a slot is one token. It is always in exactly one of four places,
//! determined by the two words below:
//!
//! | where the token is | `tail` | `control` | taken by |
//! |---|---|---|---|
//! | with a thread (whose process may be idle or waiting), or in a run queue | no mark | no WAIT | - |
//! | parked, process idle | IDLE | no WAIT | a push of anything |
//! | parked, process waits for control only | no mark | WAIT | a push of control |
//! | parked, slot vacant | VACANT | no WAIT | a push of anything, or the start of a process |
//!
//! Bits of `tail` (the rest is the address of the last node pushed, or null if none has been pushed since a mark was
//! last set; nodes are 64 bytes apart):
//! * bit 0, IDLE: set only by the holder, when the data lane is empty, by compare-and-swap from the address of the
//!   node last consumed to null. Cleared by the thread that takes the token: a data push clears it with its one
//!   exchange, any other thread by compare-and-swap.
//! * bit 1, VACANT: likewise, for a slot whose process has ended. Never set together with IDLE.
//!
//! Bits of `control` (the rest is the address of the newest node of a stack, or null):
//! * bit 0, WAIT: set only by the holder, by compare-and-swap from zero. Cleared by the thread that takes the token.
//! * bit 1, WOKEN: a future was woken. Set by [`Lanes::wake`], cleared by the holder when it takes the word. Excludes
//!   WAIT.
//!
//! # The first node
//!
//! A queue that is never empty needs no lock: the node last consumed stays in the queue as its empty first node, to
//! which the next sender links its own. An idle process gives that node up as well, so that it costs no memory and a
//! message to an idle process touches one cache line less: `head` is then null, and the next sender stores its node
//! there instead of linking it to another node.
//!
//! | `head` | means | written by |
//! |---|---|---|
//! | null | nothing is queued, or the first sender has not linked its node | the holder, *before* it sets a mark |
//! | an address with FRESH | that node is the first, not consumed | the sender that found `tail` null; the holder |
//! | an address | that node has been consumed; its `next` leads to what follows | the holder |
//!
//! The holder owns the content of the node last consumed. If the lane is empty, the holder may store a message in that
//! node and make it FRESH again ([`Holder::refill`]). Senders do not notice: the node that they link to stays in place,
//! and its number grows by one. If a sender has already linked to the node, its message came first, and the lane is not
//! empty. The message of a sender that links at the same time comes second; its number may be one too low.
//!
//! Between two marks at most one sender finds null in `tail`. Until that sender has linked its node, the holder does
//! not write `head`: it replaces a null `head` only by consuming the sender's node, and stores null in `head` only
//! while `tail` has a node.
//!
//! # Why no wake is lost and none is doubled
//!
//! *Data*: a single exchange queues the node and returns the mark. If a mark was set, the pusher has the token. If
//! not, the holder cannot park the token without seeing the new node: its compare-and-swap expects the last node
//! consumed.
//!
//! *Control, process waits*: WAIT and the stack are one word, so the same argument applies.
//!
//! *Control, process idle or slot vacant*: there are two words. The pusher (1) pushes, then (2) reads `tail` and tries
//! once to take the token there. The holder (3) sets the mark in `tail`, then (4) reads `control` and, if it is not
//! empty, tries once to take the token back. All four steps are sequentially consistent, so either (2) sees the mark
//! or (4) sees the node, and only one thread wins the compare-and-swap on the mark.
//!
//! A token taken back at (4) is a *fresh* token: between (3) and (4) other threads may have run the process, ended it
//! and given the slot to another process. Nothing read before (3) may be trusted afterwards.
//!
//! A consumer that reaches a node whose sender was preempted between its exchange and its link gets [`Advance::Busy`]:
//! it requeues its process instead of spinning.
//!
//! Sources: the intrusive queue is Dmitry Vyukov's; the mark in its tail, by which one exchange decides whether to
//! wake, is from Pony's `messageq.c`. Rejected: a state word beside the queue (a second read-modify-write on every
//! send); a message count (13 ns per message on two cores); a lock. A model of this module is in `tests/models`.

use super::node::{Envelope, FIRST_SEQUENCE, MailNode, MessageInPlace, NodeBox, distance, take_in_place};
use super::node_pool;
use super::payload::Payload;
use crate::sync::{AtomicPtr, Ordering, fence_for_models};
use std::ptr::{self, NonNull};

const IDLE: usize = 1;
const VACANT: usize = 2;
const WAIT: usize = 1;
const WOKEN: usize = 2;
const MARKS: usize = 3;
/// Marks `head`: the node has not been consumed.
const FRESH: usize = 1;

/// The length of a queue is checked at every multiple of this number.
pub(crate) const LENGTH_CHECK: u64 = 128;

/// Release publishes a node's content; Acquire sees the writes of the thread that set a mark; SeqCst puts the push and
/// the sender's next read (*ask* of `thread_cache::cache`) in one total order. Models use a fence for the latter: with
/// SeqCst here, loom would leave out some executions.
const PUSH: Ordering = if cfg!(loom) { Ordering::AcqRel } else { Ordering::SeqCst };

/// The owner of the token after a push, a wake or an attempt to take the token back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "a token that was taken must be used"]
#[repr(usize)]
pub(crate) enum Claim {
    /// Another thread has the token.
    Nothing = 0,
    /// The caller has the token: the process was idle or waiting, and must be scheduled.
    Process = IDLE,
    /// The caller has the token: the slot has no process.
    Vacant = VACANT,
}

/// The result of advancing to the oldest envelope of the data lane.
pub(crate) enum Advance<T> {
    /// The envelope, and the node before it, if there is one. That node is now free.
    To(T, Option<NodeBox>),
    Empty,
    /// The lane is not empty, but the next node has not been linked by its sender yet: retry later.
    Busy,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "the token may still be held"]
pub(crate) enum ParkResult {
    /// Something has arrived. The caller still has the token.
    Refused,
    /// The token is parked, or another thread has already taken it.
    Parked,
    /// The token was parked and taken back: the caller has a fresh token, and must find out what to do with it.
    Reclaimed(Claim),
}

/// The contents of the control lane, oldest first.
#[derive(Debug)]
pub(crate) struct Controls {
    first: *mut MailNode,
    /// The newest node; meaningless while `first` is null.
    last: *mut MailNode,
}

#[derive(Debug)]
pub(crate) struct Lanes {
    tail: AtomicPtr<MailNode>,
    control: AtomicPtr<MailNode>,
    /// The first node of the data lane. Other threads read its address and the node's sequence number.
    head: AtomicPtr<MailNode>,
}

#[inline(always)]
fn marks(pointer: *mut MailNode) -> usize {
    pointer.addr() & MARKS
}

/// Returns whether a value of `head` points to a node that has not been consumed.
#[inline(always)]
fn is_fresh(head: *mut MailNode) -> bool {
    head.addr() & FRESH != 0
}

#[inline(always)]
fn bare(pointer: *mut MailNode) -> *mut MailNode {
    pointer.map_addr(|address| address & !MARKS)
}

/// Visits `first`, if it is not null, and the nodes linked after it.
///
/// # Safety
/// The nodes stay linked, and owned by the caller, while the result is in use.
#[inline]
unsafe fn linked<'a>(first: *mut MailNode) -> impl Iterator<Item = &'a MailNode> {
    // SAFETY: null, or the address of a node; nodes are never freed.
    let node = |pointer: *mut MailNode| unsafe { pointer.as_ref() };
    std::iter::successors(node(first), move |last| node(last.next.load(Ordering::Relaxed)))
}

#[inline(always)]
fn marked(pointer: *mut MailNode, mark: usize) -> *mut MailNode {
    pointer.map_addr(|address| address | mark)
}

impl Lanes {
    /// Creates the lanes of a slot that has never been used.
    pub(crate) fn unused() -> Self {
        Self {
            tail: AtomicPtr::new(marked(ptr::null_mut(), VACANT)),
            control: AtomicPtr::new(ptr::null_mut()),
            head: AtomicPtr::new(ptr::null_mut()),
        }
    }

    /// Takes the token out of lanes that have never been used. Only the calling thread can reach these lanes; its next
    /// Release store publishes them to others.
    #[inline]
    pub(crate) fn begin(&self) {
        debug_assert!(marks(self.tail.load(Ordering::Relaxed)) == VACANT, "never used");
        self.tail.store(ptr::null_mut(), Ordering::Relaxed);
    }

    /// Queues `node` in the data lane, and calls `numbered` with its sequence number. If the preceding sender was
    /// preempted before it numbered its node, calls `known` for the number of a recent node. If `known` returns zero,
    /// because it knows no number, the node is numbered after the one last consumed, and the length of the queue is
    /// lost.
    #[inline(always)]
    pub(crate) fn push_data(&self, node: NodeBox, known: impl FnOnce() -> u64, numbered: impl FnOnce(u64)) -> Claim {
        node.next().store(ptr::null_mut(), Ordering::Relaxed);
        let node = node.into_raw().as_ptr();
        let before = self.tail.swap(node, PUSH);
        // SAFETY: null, or the address of a node; nodes are never freed.
        match unsafe { bare(before).as_ref() } {
            None => {
                // SAFETY: `node` points to a node.
                unsafe { (*node).number_first() };
                self.head.store(marked(node, FRESH), Ordering::Release);
                numbered(FIRST_SEQUENCE);
            }
            Some(predecessor) => {
                // SAFETY: as above.
                let sequence = unsafe { (*node).number_after(predecessor, || self.after_first(known())) };
                // From here on the consumer owns the node.
                predecessor.next.store(node, Ordering::Release);
                numbered(sequence);
            }
        }
        match marks(before) {
            0 => Claim::Nothing,
            IDLE => Claim::Process,
            VACANT => Claim::Vacant,
            _ => unreachable!("the marks are never set together"),
        }
    }

    pub(crate) fn push_control(&self, node: NodeBox) -> Claim {
        let pointer = node.as_ptr().as_ptr();
        let mut current = self.control.load(Ordering::Relaxed);
        loop {
            node.next().store(bare(current), Ordering::Relaxed);
            let new = marked(pointer, marks(current) & WOKEN);
            match self.control.compare_exchange_weak(current, new, Ordering::SeqCst, Ordering::Relaxed) {
                Ok(_) => break,
                Err(changed) => current = changed,
            }
        }
        let _queued = node.into_raw();
        self.claim_after_control(current)
    }

    /// Records that a future of the process can make progress. Several wakes count as one until the holder of the token
    /// has taken the word.
    pub(crate) fn wake(&self) -> Claim {
        let mut current = self.control.load(Ordering::Relaxed);
        loop {
            if marks(current) & WOKEN != 0 {
                // The word has not been taken since an earlier wake. The thread that takes it sees the effects of both,
                // because this exchange makes it read this word or a later one.
                let seen = self.control.compare_exchange(current, current, Ordering::SeqCst, Ordering::Relaxed);
                match seen {
                    Ok(_) => return Claim::Nothing,
                    Err(changed) => current = changed,
                }
                continue;
            }
            let new = marked(bare(current), WOKEN);
            match self.control.compare_exchange_weak(current, new, Ordering::SeqCst, Ordering::Relaxed) {
                Ok(_) => return self.claim_after_control(current),
                Err(changed) => current = changed,
            }
        }
    }

    /// Wakes the process like [`wake`](Self::wake), unless it waits for control only. If it does, this returns `None`,
    /// and the caller sees everything that the process did before it parked the token.
    pub(crate) fn wake_unless_waiting(&self) -> Option<Claim> {
        let mut current = self.control.load(Ordering::Relaxed);
        loop {
            let mark = marks(current);
            let new = if mark == 0 { marked(current, WOKEN) } else { current };
            match self.control.compare_exchange(current, new, Ordering::SeqCst, Ordering::Relaxed) {
                Ok(_) if mark & WAIT != 0 => return None,
                Ok(_) if mark & WOKEN != 0 => return Some(Claim::Nothing),
                Ok(_) => return Some(self.claim_after_control(current)),
                Err(changed) => current = changed,
            }
        }
    }

    /// Takes the token if possible. `before` is the control word that the caller has just replaced.
    fn claim_after_control(&self, before: *mut MailNode) -> Claim {
        if marks(before) & WAIT != 0 {
            return Claim::Process;
        }
        #[cfg(all(test, not(loom)))]
        crate::sync::window::pass(crate::sync::window::Window::BeforeClaim);
        fence_for_models();
        self.claim()
    }

    /// Tries once to take a token that is parked in `tail`.
    pub(crate) fn claim(&self) -> Claim {
        let tail = self.tail.load(Ordering::SeqCst);
        let mark = marks(tail);
        if mark == 0 || self.tail.compare_exchange(tail, bare(tail), Ordering::SeqCst, Ordering::Relaxed).is_err() {
            return Claim::Nothing;
        }
        if mark == IDLE { Claim::Process } else { Claim::Vacant }
    }

    /// Returns the sequence number of the node last consumed. If there is none, returns zero, which precedes the first
    /// number.
    fn first_sequence(&self) -> u64 {
        let head = self.head.load(Ordering::Acquire);
        // SAFETY: null, or the address of a node; nodes are never freed.
        let sequence = unsafe { bare(head).as_ref() }.map_or(0, MailNode::sequence);
        if is_fresh(head) { sequence.saturating_sub(1) } else { sequence }
    }

    /// Returns `known` if it is later than the number of the node last consumed, and otherwise that number.
    #[cold]
    fn after_first(&self, known: u64) -> u64 {
        let first = self.first_sequence();
        if known != 0 && distance(first, known) > 0 { known } else { first }
    }

    /// Returns the length of the data lane, not counting envelopes that are being pushed or taken; at most
    /// [`FARTHEST`](super::node::FARTHEST). May be called from any thread; for this reason, `head` is stored with
    /// Release. The result may already be out of date.
    pub(crate) fn depth(&self) -> u64 {
        // SAFETY: null, or the address of a node; nodes are never freed.
        let last = unsafe { bare(self.tail.load(Ordering::Acquire)).as_ref() };
        match last.and_then(MailNode::sequence_or_soon) {
            None => 0,
            Some(last) => distance(self.first_sequence(), last),
        }
    }

    /// Returns the sequence number of the newest envelope, or zero if it is unknown. May be called from any thread;
    /// the result may already be out of date.
    pub(crate) fn last_sequence(&self) -> u64 {
        // SAFETY: null, or the address of a node; nodes are never freed.
        unsafe { bare(self.tail.load(Ordering::Acquire)).as_ref() }.map_or(0, MailNode::sequence)
    }

    /// Returns the types of the queued messages for `generation`, in order.
    ///
    /// # Safety
    /// Nothing is taken out of the lane during the call. Other threads may push.
    #[cfg(feature = "test")]
    pub(crate) unsafe fn queued_types(&self, generation: u64) -> Vec<&'static str> {
        let head = self.head.load(Ordering::Acquire);
        let mut next = bare(head);
        if !is_fresh(head) {
            // SAFETY: the node in `head`, and those that follow, are not recycled while the caller's promise holds.
            next = unsafe { head.as_ref() }.map_or(ptr::null_mut(), |head| head.next.load(Ordering::Acquire));
        }
        let mut types = Vec::new();
        // SAFETY: as above.
        while let Some(node) = unsafe { next.as_ref() } {
            // SAFETY: as above; a queued node has its content, and nothing else accesses it.
            types.extend(unsafe { node.type_for(generation) });
            next = node.next.load(Ordering::Acquire);
        }
        types
    }

    /// Returns whether the process is idle, and whether it waits for control only. May be called from any thread; the
    /// result may already be out of date.
    pub(crate) fn glance(&self) -> (bool, bool) {
        let idle = marks(self.tail.load(Ordering::Relaxed)) & IDLE != 0;
        let waits = marks(self.control.load(Ordering::Relaxed)) & WAIT != 0;
        (idle, waits)
    }

    /// Returns whether the slot has no process and has been cleaned up. May be called from any thread; the result may
    /// already be out of date.
    pub(crate) fn is_vacant(&self) -> bool {
        marks(self.tail.load(Ordering::Acquire)) & VACANT != 0
    }

    /// Returns whether the control lane has neither a node nor a wake.
    pub(crate) fn is_quiet(&self) -> bool {
        let control = self.control.load(Ordering::Relaxed);
        bare(control).is_null() && marks(control) & WOKEN == 0
    }

    #[inline]
    pub(crate) fn has_control(&self) -> bool {
        !self.control.load(Ordering::Relaxed).is_null()
    }
}

/// Operations of the token's holder.
///
/// # Safety
/// For each operation: the caller holds the token of these lanes.
impl Lanes {
    /// Advances to the oldest envelope of the data lane. The envelope stays in its node until the next call. If there
    /// is an envelope but `goes_on` returns false, leaves the lane unchanged and returns `Empty`.
    #[inline]
    pub(crate) unsafe fn advance(&self, goes_on: impl Fn() -> bool) -> Advance<NonNull<MailNode>> {
        let head = self.head.load(Ordering::Acquire);
        if is_fresh(head) {
            if !goes_on() {
                return Advance::Empty;
            }
            let first = bare(head);
            self.head.store(first, Ordering::Release);
            // SAFETY: a marked value is not null.
            return Advance::To(unsafe { NonNull::new_unchecked(first) }, None);
        }
        // SAFETY: null, or the address of a node; nodes are never freed.
        let next = unsafe { head.as_ref() }.map_or(ptr::null_mut(), |head| head.next.load(Ordering::Acquire));
        match NonNull::new(next) {
            Some(_) if !goes_on() => Advance::Empty,
            Some(node) => {
                self.head.store(next, Ordering::Release);
                // SAFETY: no sender touches a node that has a successor, and the node leaves the lane here.
                Advance::To(node, Some(unsafe { NodeBox::from_raw(NonNull::new_unchecked(head)) }))
            }
            None if bare(self.tail.load(Ordering::Acquire)) == head => Advance::Empty,
            None => Advance::Busy,
        }
    }

    /// Takes the oldest envelope out of the data lane.
    #[inline]
    pub(crate) unsafe fn pop_data(&self) -> Advance<Envelope> {
        // SAFETY: the caller holds the token.
        match unsafe { self.advance(|| true) } {
            // SAFETY: the node is linked, so its content was published before the link that was acquired, and belongs
            // to the holder.
            Advance::To(node, free) => Advance::To(unsafe { take_in_place(node) }, free),
            Advance::Empty => Advance::Empty,
            Advance::Busy => Advance::Busy,
        }
    }

    /// Returns the address of the node last consumed, or null.
    pub(crate) unsafe fn first(&self) -> *mut MailNode {
        bare(self.head.load(Ordering::Relaxed))
    }

    #[inline]
    pub(crate) unsafe fn is_data_empty(&self) -> bool {
        let head = self.head.load(Ordering::Relaxed);
        bare(self.tail.load(Ordering::Relaxed)) == head
    }

    /// Returns whether both lanes are empty. The words that pushes write are read by sequentially consistent loads, to
    /// match those writes.
    #[inline]
    pub(crate) unsafe fn are_empty_in_order(&self) -> bool {
        let head = self.head.load(Ordering::Relaxed);
        self.control.load(Ordering::SeqCst).is_null() && bare(self.tail.load(Ordering::SeqCst)) == head
    }

    /// Takes everything from the control lane, including a wake: the caller must poll the process's future afterwards.
    pub(crate) unsafe fn take_control(&self) -> Controls {
        let taken = self.control.swap(ptr::null_mut(), Ordering::AcqRel);
        let last = bare(taken);
        let mut first = ptr::null_mut();
        let mut rest = last;
        while !rest.is_null() {
            // SAFETY: the exchange gave the whole stack to the holder.
            let next = unsafe { &(*rest).next };
            let following = next.load(Ordering::Relaxed);
            next.store(first, Ordering::Relaxed);
            first = rest;
            rest = following;
        }
        Controls { first, last }
    }

    /// Parks the token until anything arrives.
    #[inline]
    pub(crate) unsafe fn park_idle(&self) -> ParkResult {
        // SAFETY: the caller holds the token.
        unsafe { self.lay(IDLE) }
    }

    /// Parks the token until a process starts in this slot or a late message arrives.
    pub(crate) unsafe fn park_vacant(&self) -> ParkResult {
        // SAFETY: the caller holds the token.
        unsafe { self.lay(VACANT) }
    }

    #[inline(always)]
    unsafe fn lay(&self, mark: usize) -> ParkResult {
        let head = self.head.load(Ordering::Relaxed);
        if is_fresh(head) {
            return ParkResult::Refused;
        }
        // This precedes the exchange because the thread that clears the mark stores its own node in `head`.
        if !head.is_null() {
            self.head.store(ptr::null_mut(), Ordering::Relaxed);
        }
        let laid = marked(ptr::null_mut(), mark);
        if self.tail.compare_exchange(head, laid, Ordering::SeqCst, Ordering::Relaxed).is_err() {
            // If `tail` had a node, no other thread writes `head`; if it was null, another thread is about to write it.
            if !head.is_null() {
                self.head.store(head, Ordering::Release);
            }
            return ParkResult::Refused;
        }
        if let Some(free) = NonNull::new(head) {
            // SAFETY: the node was consumed, and removed from `tail` and `head`, so no thread will read it or link to
            // it.
            node_pool::recycle(unsafe { NodeBox::from_raw(free) });
        }
        #[cfg(all(test, not(loom)))]
        crate::sync::window::pass(crate::sync::window::Window::AfterParking);
        fence_for_models();
        if self.control.load(Ordering::SeqCst).is_null() {
            return ParkResult::Parked;
        }
        match self.claim() {
            Claim::Nothing => ParkResult::Parked,
            claim => ParkResult::Reclaimed(claim),
        }
    }

    /// Parks the token until something arrives in the control lane.
    pub(crate) unsafe fn park_waiting(&self) -> ParkResult {
        let wait = marked(ptr::null_mut(), WAIT);
        match self.control.compare_exchange(ptr::null_mut(), wait, Ordering::AcqRel, Ordering::Relaxed) {
            Ok(_) => ParkResult::Parked,
            Err(_) => ParkResult::Refused,
        }
    }
}

impl Controls {
    pub(crate) const fn none() -> Self {
        Self { first: ptr::null_mut(), last: ptr::null_mut() }
    }

    pub(crate) fn pop(&mut self) -> Option<NodeBox> {
        let node = NonNull::new(self.first)?;
        // SAFETY: the whole list was taken from its lane, and owns its nodes.
        self.first = unsafe { (*node.as_ptr()).next.load(Ordering::Relaxed) };
        // SAFETY: as above, and the node leaves the list here.
        Some(unsafe { NodeBox::from_raw(node) })
    }

    /// Takes the first node if it carries an answer.
    #[inline]
    pub(crate) fn pop_answer(&mut self) -> Option<NodeBox> {
        // SAFETY: the list owns its nodes.
        unsafe { self.first.as_ref() }.filter(|node| node.is_answer())?;
        self.pop()
    }

    /// Returns whether all nodes are answers to yields of the incarnation `generation`.
    pub(crate) fn are_answers_for(&self, generation: u64) -> bool {
        // SAFETY: the list owns its nodes.
        unsafe { linked(self.first) }.all(|node| node.is_answer_for(generation))
    }

    /// Returns the tags of the answers.
    pub(crate) fn answers(&self) -> impl Iterator<Item = u64> {
        // SAFETY: the list owns its nodes.
        unsafe { linked(self.first) }.filter_map(|node| unsafe { node.answer_tag() })
    }

    pub(crate) fn has_signal(&self) -> bool {
        // SAFETY: the list owns its nodes.
        unsafe { linked(self.first) }.any(MailNode::is_signal)
    }

    /// Adds a node before all others.
    pub(crate) fn push_first(&mut self, node: NodeBox) {
        node.next().store(self.first, Ordering::Relaxed);
        let node = node.into_raw().as_ptr();
        if self.first.is_null() {
            self.last = node;
        }
        self.first = node;
    }

    pub(crate) fn push(&mut self, node: NodeBox) {
        node.next().store(ptr::null_mut(), Ordering::Relaxed);
        let node = node.into_raw().as_ptr();
        if self.first.is_null() {
            self.first = node;
        } else {
            // SAFETY: the list owns its nodes, and is not empty.
            unsafe { (*self.last).next.store(node, Ordering::Relaxed) };
        }
        self.last = node;
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.first.is_null()
    }
}

// SAFETY: the list owns its nodes, which are `Send`.
unsafe impl Send for Controls {}

/// The lanes as the token's holder sees them during a step.
#[derive(Debug)]
pub(crate) struct Holder<'a>(&'a Lanes);

impl<'a> Holder<'a> {
    /// # Safety
    /// The caller holds the token of `lanes` while this value lives, and uses the token through this value only.
    #[inline]
    pub(crate) unsafe fn new(lanes: &'a Lanes) -> Self {
        Self(lanes)
    }

    /// Returns the oldest envelope in place, if there is one and `goes_on` then returns true. Returns the node of the
    /// previous envelope to the pool.
    #[inline]
    pub(crate) fn next_data_if(&mut self, goes_on: impl Fn(&Self) -> bool) -> Option<MessageInPlace> {
        // SAFETY: the token is held while a `Holder` exists.
        match unsafe { self.0.advance(|| goes_on(self)) } {
            Advance::To(node, free) => {
                free.into_iter().for_each(node_pool::recycle);
                // SAFETY: the node is linked, so its content was published before the acquired link, and belongs to
                // the holder.
                Some(unsafe { MessageInPlace::new(node) })
            }
            Advance::Empty | Advance::Busy => None,
        }
    }

    /// Takes the oldest envelope, and returns the node before it to the pool.
    #[inline]
    pub(crate) fn pop_data(&mut self) -> Option<Envelope> {
        // SAFETY: the token is held while a `Holder` exists.
        match unsafe { self.0.pop_data() } {
            Advance::To(envelope, free) => {
                free.into_iter().for_each(node_pool::recycle);
                Some(envelope)
            }
            Advance::Empty | Advance::Busy => None,
        }
    }

    #[inline]
    pub(crate) fn is_data_empty(&self) -> bool {
        // SAFETY: the token is held while a `Holder` exists.
        unsafe { self.0.is_data_empty() }
    }

    /// Returns the node last consumed, if no node follows it. The caller fills it with a message, and then calls
    /// [`refill`](Self::refill).
    #[inline(always)]
    pub(crate) fn empty_first(&self) -> Option<NonNull<MailNode>> {
        let head = NonNull::new(self.0.head.load(Ordering::Relaxed))?;
        // While the token is held, `tail` has no mark, so it cannot equal an address with FRESH.
        (self.0.tail.load(Ordering::Acquire) == head.as_ptr()).then_some(head)
    }

    /// Makes the node that [`empty_first`](Self::empty_first) returned the first of the lane. It must have a message by
    /// now.
    #[inline(always)]
    pub(crate) fn refill(&mut self, first: NonNull<MailNode>) {
        self.0.head.store(marked(first.as_ptr(), FRESH), Ordering::Release);
    }

    #[inline]
    pub(crate) fn has_control(&self) -> bool {
        self.0.has_control()
    }

    /// Returns whether the control lane has a node, rather than a wake alone.
    #[inline]
    pub(crate) fn has_control_node(&self) -> bool {
        !bare(self.0.control.load(Ordering::Relaxed)).is_null()
    }

    pub(crate) fn has_signal(&self) -> bool {
        self.has_signal_such(|_| true)
    }

    /// Returns whether the control lane has a signal that satisfies `is_such`. The load of the lane is sequentially
    /// consistent.
    pub(crate) fn has_signal_such(&self, is_such: impl Fn(&Payload) -> bool) -> bool {
        let first = bare(self.0.control.load(Ordering::SeqCst));
        // SAFETY: only the token's holder takes from the stack, and the acquired push has published its nodes.
        unsafe { linked(first).any(|node| node.is_signal_such(&is_such)) }
    }

    #[inline]
    pub(crate) fn take_control(&mut self) -> Controls {
        if !self.0.has_control() {
            return Controls::none();
        }
        // SAFETY: the token is held while a `Holder` exists.
        unsafe { self.0.take_control() }
    }
}

impl Default for Controls {
    fn default() -> Self {
        Self::none()
    }
}
