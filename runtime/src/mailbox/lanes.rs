//! The two lanes of one mailbox, and the token that says who may run its process.
//!
//! # The token
//!
//! The exclusive right to run, end, vacate or re-use a slot is one token. It is always in exactly one of four places,
//! and the two words below say in which:
//!
//! | where the token is | `tail` | `control` | taken by |
//! |---|---|---|---|
//! | a thread or a run queue | no mark | no WAIT | - |
//! | parked, process idle | IDLE | no WAIT | a push of anything |
//! | parked, process waits for control only | no mark | WAIT | a push of control |
//! | parked, slot vacant | VACANT | no WAIT | a push of anything, or the start of a process |
//!
//! Bits of `tail` (the rest is the address of the last node pushed, or null when none has been since a mark was last
//! put there; nodes are 64 bytes apart):
//! * bit 0, IDLE: set by the holder alone, when the data lane is empty, by compare-and-swap from the address of the
//!   node last consumed to null. Cleared by the thread that takes the token: a data push by its one exchange, anyone
//!   else by compare-and-swap.
//! * bit 1, VACANT: the same, for a slot whose process has ended. Never set together with IDLE.
//!
//! Bits of `control` (the rest is the address of the newest node of a stack, or null):
//! * bit 0, WAIT: set only by the holder, by compare-and-swap from zero. Cleared by the push or wake that takes the
//!   token.
//! * bit 1, WOKEN: a future of the process was woken. Set by [`Lanes::wake`], cleared by the holder with the whole
//!   word. Never set together with WAIT.
//!
//! # The first node
//!
//! A queue that is never empty needs no lock: the node last consumed stays in it as its empty first, and the next
//! sender links to that. Here a process that is idle gives that node up too, so that it costs no memory and a message
//! to it touches one line less: `head` is then null, and stands for the node to link to.
//!
//! | `head` | means | written by |
//! |---|---|---|
//! | null | nothing is queued, or the first sender has not come to link its node | the holder, *before* it puts a mark there |
//! | an address with FRESH | that node is the first, and has not been consumed | the sender whose exchange found null in `tail` |
//! | an address | that node has been consumed; what follows hangs on its `next` | the holder |
//!
//! Between two marks one sender at most finds null in `tail`, and while it is there the holder writes nothing to
//! `head`: it takes null out of `head` only by consuming what the sender put there, and puts null there only while
//! `tail` has a node, which stays there if the mark cannot be put there.
//!
//! # Why no wake is lost and none is doubled
//!
//! *Data*: one exchange both queues the node and tells what mark stood there. If there was one, the pusher has the
//! token; if there was none, the token's holder has not parked it, and cannot without seeing the new node: its
//! compare-and-swap expects the address of the last node that it has consumed.
//!
//! *Control, process waits*: WAIT and the stack are one word, so the same holds.
//!
//! *Control, process idle or slot dead*: two words. The pusher (1) pushes, (2) looks at `tail` and tries once to take
//! the token there. The holder (3) puts the mark in `tail`, (4) looks at `control` and, if there is something,
//! tries once to take the token back. All four are sequentially consistent, so either (2) sees the mark or (4) sees the
//! node, and the compare-and-swap on the mark has one winner.
//!
//! A token taken back at (4) is a *fresh* token: between (3) and (4) others may have run the process, ended it and
//! given the slot to another one. Nothing read before (3) may be trusted after it.
//!
//! A consumer that meets a node whose sender has been preempted between its exchange and its link gets [`Pop::Busy`]:
//! it puts its process back in line instead of spinning.
//!
//! Sources: the intrusive queue is Dmitry Vyukov's; the mark in its tail that makes one exchange decide the wake is
//! from Pony's `messageq.c`. Rejected: a state word beside the queue (a second read-modify-write on every send); a
//! count of messages (13 ns for each on two cores); a lock. A model of this module is in `tests/models`.

use super::node::{Envelope, MailNode, MessageInPlace, NodeBox, distance, take_in_place};
use super::payload::Payload;
use crate::sync::{AtomicPtr, Ordering, fence_for_models};
use std::ptr::{self, NonNull};

const IDLE: usize = 1;
const VACANT: usize = 2;
const WAIT: usize = 1;
const WOKEN: usize = 2;
const MARKS: usize = 3;
/// In `head`: its node has not been consumed.
const FRESH: usize = 1;

/// With every so many messages of a queue its length is looked at.
pub(crate) const LENGTH_CHECK: u64 = 128;

/// What a push, a wake or a look back found: who has the token now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "a token that was taken must be used"]
#[repr(usize)]
pub(crate) enum Claim {
    /// Another thread has it.
    Nothing = 0,
    /// The caller has it: the process was idle or waiting and is to be scheduled.
    Process = IDLE,
    /// The caller has it: the slot carries no process.
    Vacant = VACANT,
}

/// What the data lane had.
#[derive(Debug)]
pub(crate) enum Pop {
    /// An envelope, and the node that is free for it, if there was one before.
    Letter(Envelope, Option<NodeBox>),
    /// Nothing.
    Empty,
    /// Something, but its sender has not finished: look again later.
    Busy,
}

/// Where a look for the oldest envelope came to.
pub(crate) enum Advance {
    /// To a node, whose content is the holder's; the one before it, if there was one, is free.
    To(NonNull<MailNode>, Option<NodeBox>),
    /// Nothing is there.
    Empty,
    /// Something is, but its sender has not finished.
    Busy,
}

/// What became of the holder's wish to park its token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "the token may still be held"]
pub(crate) enum ParkResult {
    /// Something has arrived. The caller still has the token.
    Refused,
    /// The token is parked, or another thread has it already.
    Parked,
    /// It was parked and taken back: the caller has a fresh token, and must find out what it is for.
    Reclaimed(Claim),
}

/// Everything that was in the control lane, oldest first.
#[derive(Debug)]
pub(crate) struct Controls {
    first: *mut MailNode,
    /// The newest; meaningless while `first` is null.
    last: *mut MailNode,
}

/// The lanes of one mailbox. See the module.
#[derive(Debug)]
pub(crate) struct Lanes {
    tail: AtomicPtr<MailNode>,
    control: AtomicPtr<MailNode>,
    /// The first node of the data lane; see the module. Others look at the sequence number of what it points at.
    head: AtomicPtr<MailNode>,
}

#[inline(always)]
fn marks(pointer: *mut MailNode) -> usize {
    pointer.addr() & MARKS
}

#[inline(always)]
fn bare(pointer: *mut MailNode) -> *mut MailNode {
    pointer.map_addr(|address| address & !MARKS)
}

#[inline(always)]
fn marked(pointer: *mut MailNode, mark: usize) -> *mut MailNode {
    pointer.map_addr(|address| address | mark)
}

impl Lanes {
    /// Lanes of a slot that was never used.
    pub(crate) fn unused() -> Self {
        Self {
            tail: AtomicPtr::new(marked(ptr::null_mut(), VACANT)),
            control: AtomicPtr::new(ptr::null_mut()),
            head: AtomicPtr::new(ptr::null_mut()),
        }
    }

    /// Queues `node` in the data lane. Calls `check_length` if its number is a multiple of [`LENGTH_CHECK`]; and
    /// `known`, for the number of a node that came not long before, or zero, if the sender before has been put aside as
    /// it numbered its own. If nothing is known either, the node counts as the one after that which was last consumed:
    /// the queue is forgiven its length.
    #[inline]
    pub(crate) fn push_data(&self, node: NodeBox, known: impl FnOnce() -> u64, check_length: impl FnOnce()) -> Claim {
        node.next().store(ptr::null_mut(), Ordering::Relaxed);
        let node = node.into_raw().as_ptr();
        // Release: the node's content goes before it. Acquire: what the one that put a mark there did goes before us.
        let before = self.tail.swap(node, Ordering::AcqRel);
        // SAFETY: null, or the address of a node; nodes are never freed.
        match unsafe { bare(before).as_ref() } {
            None => {
                // SAFETY: `node` is one.
                unsafe { (*node).number_first() };
                self.head.store(marked(node, FRESH), Ordering::Release);
            }
            Some(predecessor) => {
                // SAFETY: as above.
                let sequence = unsafe { (*node).number_after(predecessor, || self.after_first(known())) };
                // From here on the node is the consumer's.
                predecessor.next.store(node, Ordering::Release);
                if sequence & (LENGTH_CHECK - 1) == 0 {
                    check_length();
                }
            }
        }
        match marks(before) {
            0 => Claim::Nothing,
            IDLE => Claim::Process,
            VACANT => Claim::Vacant,
            _ => unreachable!("the marks are never set together"),
        }
    }

    /// Pushes `node` to the control lane.
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

    /// Says that a future of the process can make progress. Any number of wakes before the next look are one.
    pub(crate) fn wake(&self) -> Claim {
        let mut current = self.control.load(Ordering::Relaxed);
        loop {
            if marks(current) & WOKEN != 0 {
                // The process has not looked since an earlier wake, and its next look sees whatever that one and this
                // one announce: the exchange below it reads this word, or a later one.
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

    /// Wakes the process as [`wake`](Self::wake) does, unless it waits for control only: then it is left alone, and
    /// whatever it did before it parked the token is seen by the caller. Returns `None` for that.
    pub(crate) fn rouse(&self) -> Option<Claim> {
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

    /// `before` is the control word that the caller has just replaced.
    fn claim_after_control(&self, before: *mut MailNode) -> Claim {
        if marks(before) & WAIT != 0 {
            return Claim::Process;
        }
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

    /// The sequence number of the node last consumed; zero if the first one has not been, since numbers start with it.
    fn first_sequence(&self) -> u64 {
        let head = self.head.load(Ordering::Acquire);
        if marks(head) == FRESH {
            return 0;
        }
        // SAFETY: null, or the address of a node; nodes are never freed.
        unsafe { head.as_ref() }.map_or(0, MailNode::sequence)
    }

    /// The sequence number that is `known`, if that is one after the node last consumed; else the number of that node.
    #[cold]
    fn after_first(&self, known: u64) -> u64 {
        let first = self.first_sequence();
        if known != 0 && distance(first, known) > 0 { known } else { first }
    }

    /// Returns how many envelopes are in the data lane, to within those that are being pushed or taken; of more than
    /// [`FARTHEST`](super::node::FARTHEST), that many. A glance from anywhere, stale at once. It and its like are what
    /// `head` is stored with Release for: the holder has what it needs from the links.
    pub(crate) fn depth(&self) -> u64 {
        // SAFETY: null, or the address of a node; nodes are never freed.
        let last = unsafe { bare(self.tail.load(Ordering::Acquire)).as_ref() };
        match last.and_then(MailNode::sequence_or_soon) {
            None => 0,
            Some(last) => distance(self.first_sequence(), last),
        }
    }

    /// The sequence number of the envelope that came last; zero if it is not known. A glance from anywhere, stale at
    /// once.
    pub(crate) fn last_sequence(&self) -> u64 {
        // SAFETY: null, or the address of a node; nodes are never freed.
        unsafe { bare(self.tail.load(Ordering::Acquire)).as_ref() }.map_or(0, MailNode::sequence)
    }

    /// Returns whether the process is idle, and whether it waits for control only. A glance from anywhere, stale at
    /// once.
    pub(crate) fn glance(&self) -> (bool, bool) {
        let idle = marks(self.tail.load(Ordering::Relaxed)) & IDLE != 0;
        let waits = marks(self.control.load(Ordering::Relaxed)) & WAIT != 0;
        (idle, waits)
    }

    /// Returns whether the slot carries no process, and has been cleaned up after the last one. A glance from anywhere.
    pub(crate) fn is_vacant(&self) -> bool {
        marks(self.tail.load(Ordering::Acquire)) & VACANT != 0
    }

    /// Returns whether the process runs, or waits for control only, and nothing is in the control lane.
    pub(crate) fn is_quiet(&self) -> bool {
        let control = self.control.load(Ordering::Relaxed);
        bare(control).is_null() && marks(control) & WOKEN == 0
    }

    #[inline]
    pub(crate) fn has_control(&self) -> bool {
        !self.control.load(Ordering::Relaxed).is_null()
    }
}

/// What only the token's holder may do.
///
/// # Safety
/// Of each: the caller holds the token of these lanes.
impl Lanes {
    /// Comes to the oldest envelope of the data lane, which stays in its node until the next look.
    #[inline]
    pub(crate) unsafe fn advance(&self) -> Advance {
        let head = self.head.load(Ordering::Acquire);
        if marks(head) == FRESH {
            let first = bare(head);
            self.head.store(first, Ordering::Release);
            // SAFETY: what is marked is no null.
            return Advance::To(unsafe { NonNull::new_unchecked(first) }, None);
        }
        // SAFETY: null, or a node; nodes are never freed.
        let next = unsafe { head.as_ref() }.map_or(ptr::null_mut(), |head| head.next.load(Ordering::Acquire));
        match NonNull::new(next) {
            Some(node) => {
                self.head.store(next, Ordering::Release);
                // SAFETY: a node that has a successor is touched by no sender any more; it leaves the lane here.
                Advance::To(node, Some(unsafe { NodeBox::from_raw(NonNull::new_unchecked(head)) }))
            }
            None if bare(self.tail.load(Ordering::Acquire)) == head => Advance::Empty,
            None => Advance::Busy,
        }
    }

    /// Takes the oldest envelope out of the data lane.
    #[inline]
    pub(crate) unsafe fn pop_data(&self) -> Pop {
        // SAFETY: the caller holds the token.
        match unsafe { self.advance() } {
            // SAFETY: linked, so its content was published before the link that was acquired, and is the holder's.
            Advance::To(node, free) => Pop::Letter(unsafe { take_in_place(node) }, free),
            Advance::Empty => Pop::Empty,
            Advance::Busy => Pop::Busy,
        }
    }

    /// The address of the node last consumed, or null.
    pub(crate) unsafe fn first(&self) -> *mut MailNode {
        bare(self.head.load(Ordering::Relaxed))
    }

    #[inline]
    pub(crate) unsafe fn is_data_empty(&self) -> bool {
        let head = self.head.load(Ordering::Relaxed);
        bare(self.tail.load(Ordering::Relaxed)) == head
    }

    /// Takes everything out of the control lane, a wake among it: its caller polls the process's future afterwards.
    pub(crate) unsafe fn take_control(&self) -> Controls {
        let taken = self.control.swap(ptr::null_mut(), Ordering::AcqRel);
        let last = bare(taken);
        let mut first = ptr::null_mut();
        let mut rest = last;
        while !rest.is_null() {
            // SAFETY: the exchange made the whole stack the holder's.
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

    /// Parks the token until a process starts in this slot or a late sender passes by.
    pub(crate) unsafe fn park_vacant(&self) -> ParkResult {
        // SAFETY: the caller holds the token.
        unsafe { self.lay(VACANT) }
    }

    #[inline(always)]
    unsafe fn lay(&self, mark: usize) -> ParkResult {
        let head = self.head.load(Ordering::Relaxed);
        if marks(head) == FRESH {
            return ParkResult::Refused;
        }
        // Before the exchange: the thread that takes the mark off stores its own node there.
        if !head.is_null() {
            self.head.store(ptr::null_mut(), Ordering::Relaxed);
        }
        let laid = marked(ptr::null_mut(), mark);
        if self.tail.compare_exchange(head, laid, Ordering::SeqCst, Ordering::Relaxed).is_err() {
            // With a node in `tail` no other thread writes here; with null there, a thread is about to.
            if !head.is_null() {
                self.head.store(head, Ordering::Release);
            }
            return ParkResult::Refused;
        }
        if let Some(free) = NonNull::new(head) {
            // SAFETY: consumed, out of `tail` and out of `head`, so no thread will look at its content or link to it.
            crate::mailbox::node_pool::recycle(unsafe { NodeBox::from_raw(free) });
        }
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
    /// Nothing.
    pub(crate) const fn none() -> Self {
        Self { first: ptr::null_mut(), last: ptr::null_mut() }
    }

    /// The oldest node that is left.
    pub(crate) fn pop(&mut self) -> Option<NodeBox> {
        let node = NonNull::new(self.first)?;
        // SAFETY: the list was taken whole out of its lane, so its nodes are owned by it.
        self.first = unsafe { (*node.as_ptr()).next.load(Ordering::Relaxed) };
        // SAFETY: as above, and the node leaves the list here.
        Some(unsafe { NodeBox::from_raw(node) })
    }

    /// Returns whether all are answers to yields of that life.
    pub(crate) fn are_answers_for(&self, generation: u64) -> bool {
        let mut next = self.first;
        // SAFETY: null, or a node of this list.
        while let Some(node) = unsafe { next.as_ref() } {
            if !node.is_answer_for(generation) {
                return false;
            }
            next = node.next.load(Ordering::Relaxed);
        }
        true
    }

    /// Returns whether there is a signal among them.
    pub(crate) fn has_signal(&self) -> bool {
        let mut next = self.first;
        // SAFETY: null, or a node of this list.
        while let Some(node) = unsafe { next.as_ref() } {
            if node.is_signal() {
                return true;
            }
            next = node.next.load(Ordering::Relaxed);
        }
        false
    }

    /// Adds a node behind the newest.
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

/// What the holder of the token may do while a step runs: take things out of the lanes.
#[derive(Debug)]
pub(crate) struct Holder<'a>(&'a Lanes);

impl<'a> Holder<'a> {
    /// # Safety
    /// The caller holds the token of `lanes` for as long as the value lives, and uses it through nothing else
    /// meanwhile.
    #[inline]
    pub(crate) unsafe fn new(lanes: &'a Lanes) -> Self {
        Self(lanes)
    }

    /// The oldest envelope of the data lane, where it lies; the node of the one before it goes back to the pool.
    #[inline]
    pub(crate) fn next_data(&mut self) -> Option<MessageInPlace> {
        // SAFETY: this stands for the token.
        match unsafe { self.0.advance() } {
            Advance::To(node, free) => {
                if let Some(free) = free {
                    crate::mailbox::node_pool::recycle(free);
                }
                // SAFETY: linked, so its content was published before the link that was acquired, and is the holder's.
                Some(unsafe { MessageInPlace::new(node) })
            }
            Advance::Empty | Advance::Busy => None,
        }
    }

    /// Takes the oldest envelope out of the data lane; its node goes back to the pool.
    #[inline]
    pub(crate) fn pop_data(&mut self) -> Option<Envelope> {
        // SAFETY: this stands for the token.
        match unsafe { self.0.pop_data() } {
            Pop::Letter(envelope, free) => {
                free.into_iter().for_each(crate::mailbox::node_pool::recycle);
                Some(envelope)
            }
            Pop::Empty | Pop::Busy => None,
        }
    }

    #[inline]
    pub(crate) fn is_data_empty(&self) -> bool {
        // SAFETY: this stands for the token.
        unsafe { self.0.is_data_empty() }
    }

    #[inline]
    pub(crate) fn has_control(&self) -> bool {
        self.0.has_control()
    }

    /// Returns whether there is a node in the control lane, and not only a wake.
    #[inline]
    pub(crate) fn has_control_node(&self) -> bool {
        !bare(self.0.control.load(Ordering::Relaxed)).is_null()
    }

    pub(crate) fn has_signal(&self) -> bool {
        self.has_signal_such(|_| true)
    }

    /// Returns whether a signal of that kind is in the control lane. Sequentially consistent.
    pub(crate) fn has_signal_such(&self, is_such: impl Fn(&Payload) -> bool) -> bool {
        let mut next = bare(self.0.control.load(Ordering::SeqCst));
        // SAFETY: null, or a node of the stack, from which only the token's holder, for whom this stands, takes.
        while let Some(node) = unsafe { next.as_ref() } {
            // SAFETY: as above; it was published by the push that was acquired.
            if unsafe { node.is_signal_such(&is_such) } {
                return true;
            }
            next = node.next.load(Ordering::Relaxed);
        }
        false
    }

    /// Takes everything out of the control lane.
    #[inline]
    pub(crate) fn take_control(&mut self) -> Controls {
        if !self.0.has_control() {
            return Controls::none();
        }
        // SAFETY: this stands for the token.
        unsafe { self.0.take_control() }
    }
}

impl Default for Controls {
    fn default() -> Self {
        Self::none()
    }
}
