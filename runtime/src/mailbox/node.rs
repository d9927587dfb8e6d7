//! The node: a 64-byte cell, one cache line, that carries everything that is sent. Nodes are recycled and never freed.
//!
//! Access to each field:
//! * `content` belongs to the owner of the node. Until the push, this is the sender. Once the node's predecessor links
//!   to it (or, for the first node, once the lane's `head` points to it), it is the holder of the receiver's token.
//! * `mark` is written by the sender, before it pushes and again before it links the node, and read by any thread. The
//!   next sender derives its sequence number from it, and the length of the queue is the difference between two
//!   numbers.
//! * `next` of a queued node is written once, by the sender of its successor. While a node waits for an answer it is in
//!   no queue, and `next` tells whether the answer is still wanted (see `crate::call::caller`). In a free node it is
//!   the link of its magazine. Since nodes are never freed, the holder of a stale pointer may still read `next`, and
//!   may read a number in `mark`, which may be wrong. It may read nothing else.

use super::payload::Payload;
use crate::observe::spans;
use crate::sync::{AtomicPtr, AtomicU64, Ordering, OwnedCell, spin, yield_now};
use std::ptr::{self, NonNull};

/// The kind of a node's content. `Message`, `Stop`, `Notice` and `Placeholder` travel in the data lane, `Completed`,
/// `Failed` and `Signal` in the control lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum NodeKind {
    /// A message; `word` is its caller, or null.
    Message = 0,
    /// A request to stop after all earlier messages.
    Stop = 1,
    /// The result of a yield; `word` is its tag.
    Completed = 2,
    /// The failure of a yield; `word` is its tag.
    Failed = 3,
    Signal = 4,
    /// A call waiting for its answer; the node is in no lane.
    Call = 5,
    /// The notice of a process's end, in the data lane.
    Notice = 6,
    /// Stands in the data lane for a message of a mailbox with a hard bound. The message is in a second queue of that
    /// mailbox.
    Placeholder = 7,
}

/// The content of a node in transit. `generation` identifies the incarnation that it was sent to; later incarnations
/// discard it.
#[derive(Debug)]
pub(crate) struct Envelope {
    pub(crate) kind: NodeKind,
    pub(crate) generation: u64,
    pub(crate) word: *mut MailNode,
    pub(crate) payload: Option<Payload>,
}

// SAFETY: the payload is `Send`. The word is a tag, null, or the node of a caller. Only this envelope holds that node,
// and the node's content is `Send` (see `crate::call::caller`).
unsafe impl Send for Envelope {}

/// The content of a node: a message is stored here from its send until its method takes it.
#[derive(Debug)]
pub(crate) struct EnvelopeContent {
    pub(crate) word: *mut MailNode,
    pub(crate) payload: Option<Payload>,
}

impl EnvelopeContent {
    pub(crate) const fn empty() -> Self {
        Self { word: ptr::null_mut(), payload: None }
    }
}

/// A node; the module's documentation says which thread may access which field.
#[derive(Debug)]
#[repr(C, align(64))]
pub(crate) struct MailNode {
    pub(crate) next: AtomicPtr<MailNode>,
    /// The generation, above it the kind, and above that the sequence number. The number is zero until it is known.
    mark: AtomicU64,
    content: OwnedCell<EnvelopeContent>,
}

#[cfg(not(loom))]
const _: () = assert!(size_of::<MailNode>() == 64);

impl MailNode {
    /// The size of the part that any thread may read, even when the node is free or reused: the link and the mark.
    pub(crate) const ALWAYS_READABLE: usize = std::mem::offset_of!(Self, mark) + size_of::<AtomicU64>();
}

// SAFETY: `content` is accessed only through `NodeBox` and the lanes, whose rules (see the module) give it one owner
// at a time; its values are `Send`.
unsafe impl Send for MailNode {}
// SAFETY: as above; `next` is atomic.
unsafe impl Sync for MailNode {}

const KIND_SHIFT: u32 = crate::pid::GENERATION_BITS;
const KIND_MASK: u64 = 0xf;
const SEQUENCE_SHIFT: u32 = KIND_SHIFT + 4;
/// The largest sequence number; number one follows it.
const LAST_SEQUENCE: u64 = (1 << (64 - SEQUENCE_SHIFT)) - 1;

/// The number of the first node in an empty queue.
pub(crate) const FIRST_SEQUENCE: u64 = 1;

/// How many times a sender polls for its predecessor's number before it yields once. The polls take a few microseconds
/// in total, whereas a sender that is running takes a tenth of a microsecond to write its number. In models, no thread
/// could intervene between the polls.
const PATIENCE: u32 = if cfg!(loom) { 0 } else { 256 };

impl MailNode {
    pub(crate) fn empty() -> Self {
        Self {
            next: AtomicPtr::new(ptr::null_mut()),
            mark: AtomicU64::new(0),
            content: OwnedCell::new(EnvelopeContent::empty()),
        }
    }

    /// Returns the type of the node's message, if it has one for `generation`.
    ///
    /// # Safety
    /// The node is queued, and is not taken out of its queue during the call.
    #[cfg(feature = "test")]
    pub(crate) unsafe fn type_for(&self, generation: u64) -> Option<&'static str> {
        let mark = self.mark.load(Ordering::Relaxed);
        let is_for = mark & ((1 << KIND_SHIFT) - 1) == generation & ((1 << KIND_SHIFT) - 1);
        // SAFETY: the caller's promise.
        self.content
            .with_mut(|content| unsafe { (*content).payload.as_ref() })
            .filter(|_| is_for)
            .map(Payload::type_name)
    }

    /// Returns the node's number in its queue, or zero if its sender has not numbered it yet.
    #[inline]
    pub(crate) fn sequence(&self) -> u64 {
        self.mark.load(Ordering::Relaxed) >> SEQUENCE_SHIFT
    }

    /// Returns the number that follows the node's own, shifted to its position in a mark.
    #[inline(always)]
    pub(crate) fn next_number(&self) -> u64 {
        const FIRST: u64 = FIRST_SEQUENCE << SEQUENCE_SHIFT;
        // The bits below the number are set first, so that the increment carries into it; the first number follows the
        // last.
        let next = (self.mark.load(Ordering::Relaxed) | (FIRST - 1)).wrapping_add(1);
        if next == 0 { FIRST } else { next }
    }

    #[inline(always)]
    fn after(sequence: u64) -> u64 {
        if sequence == LAST_SEQUENCE { 1 } else { sequence + 1 }
    }

    /// Numbers the node as the first in an empty queue.
    #[inline]
    pub(crate) fn number_first(&self) {
        let mark = self.mark.load(Ordering::Relaxed);
        self.mark.store(mark | FIRST_SEQUENCE << SEQUENCE_SHIFT, Ordering::Relaxed);
    }

    /// Numbers the node after its predecessor and returns the new number. If the predecessor's number is about to be
    /// written, waits for it. If the predecessor's sender was preempted, uses `known` instead.
    #[inline]
    pub(crate) fn number_after(&self, predecessor: &Self, known: impl FnOnce() -> u64) -> u64 {
        let before = predecessor.sequence_or_soon().unwrap_or_else(known);
        let sequence = Self::after(before);
        let mark = self.mark.load(Ordering::Relaxed);
        self.mark.store(mark | sequence << SEQUENCE_SHIFT, Ordering::Relaxed);
        sequence
    }

    /// Returns the node's number, waiting if its sender is about to write it. Returns `None` if that sender was
    /// preempted.
    #[inline]
    pub(crate) fn sequence_or_soon(&self) -> Option<u64> {
        match self.sequence() {
            0 => self.sequence_soon(),
            sequence => Some(sequence),
        }
    }

    /// Spins briefly for a number that a sender on another core is about to write, then yields once, in case that
    /// sender was preempted on this core. Two concurrent sends often meet here.
    #[cold]
    #[cfg_attr(loom, allow(clippy::reversed_empty_ranges, reason = "a model has no patience"))]
    fn sequence_soon(&self) -> Option<u64> {
        for _ in 0..PATIENCE {
            spin();
            match self.sequence() {
                0 => {}
                sequence => return Some(sequence),
            }
        }
        if !cfg!(loom) {
            yield_now();
        }
        Some(self.sequence()).filter(|&sequence| sequence != 0)
    }

    #[inline]
    pub(crate) fn is_answer(&self) -> bool {
        matches!(self.address().kind, NodeKind::Completed | NodeKind::Failed)
    }

    #[inline]
    pub(crate) fn is_answer_for(&self, generation: u64) -> bool {
        let NodeHeader { kind, generation: own } = self.address();
        matches!(kind, NodeKind::Completed | NodeKind::Failed) && own == generation
    }

    /// Returns the tag of an answer.
    ///
    /// # Safety
    /// The caller owns the node's content.
    pub(crate) unsafe fn answer_tag(&self) -> Option<u64> {
        self.is_answer()
            // SAFETY: the caller's promise.
            .then(|| self.content.with_mut(|content| unsafe { (*content).word.addr() as u64 }))
    }

    pub(crate) fn is_signal(&self) -> bool {
        self.address().kind == NodeKind::Signal
    }

    /// Returns whether the node is a signal whose payload satisfies `is_such`.
    ///
    /// # Safety
    /// The caller owns the node's content.
    pub(crate) unsafe fn is_signal_such(&self, is_such: impl FnOnce(&Payload) -> bool) -> bool {
        // SAFETY: owned by the caller, so no other thread accesses it.
        self.is_signal() && self.content.with_mut(|place| unsafe { &*place }.payload.as_ref().is_some_and(is_such))
    }

    /// # Safety
    /// The caller owns the node's content, and the content is empty.
    #[inline]
    unsafe fn put(&self, envelope: Envelope) {
        let mark = envelope.generation | (envelope.kind as u64) << KIND_SHIFT;
        self.mark.store(mark, Ordering::Relaxed);
        let content = EnvelopeContent { word: envelope.word, payload: envelope.payload };
        // SAFETY: owned by the caller; the empty content that it overwrites needs no drop.
        self.content.with_mut(|place| unsafe { place.write(content) });
    }

    /// # Safety
    /// The caller owns the node's content.
    #[inline]
    unsafe fn take(&self) -> Envelope {
        self.content.with_mut(|place| {
            // SAFETY: owned by the caller, so no other thread accesses it.
            let content = unsafe { &mut *place };
            let NodeHeader { kind, generation } = self.address();
            Envelope { kind, generation, word: content.word, payload: content.payload.take() }
        })
    }

    /// Calls `look` with the content.
    ///
    /// # Safety
    /// No thread changes the content during the call.
    pub(crate) unsafe fn peek<R>(&self, look: impl FnOnce(&EnvelopeContent) -> R) -> R {
        // SAFETY: the caller's promise.
        self.content.with_mut(|place| look(unsafe { &*place }))
    }

    #[inline]
    fn address(&self) -> NodeHeader {
        let mark = self.mark.load(Ordering::Relaxed);
        let kind = match mark >> KIND_SHIFT & KIND_MASK {
            0 => NodeKind::Message,
            1 => NodeKind::Stop,
            2 => NodeKind::Completed,
            3 => NodeKind::Failed,
            4 => NodeKind::Signal,
            5 => NodeKind::Call,
            6 => NodeKind::Notice,
            _ => NodeKind::Placeholder,
        };
        NodeHeader { kind, generation: mark & crate::pid::GENERATION_MASK }
    }

    /// Returns whether the node is a message for the incarnation `generation`.
    #[inline]
    fn is_message_for(&self, generation: u64) -> bool {
        const { assert!(NodeKind::Message as u64 == 0) };
        self.mark.load(Ordering::Relaxed) << (64 - SEQUENCE_SHIFT) == generation << (64 - SEQUENCE_SHIFT)
    }
}

/// Selects the messages that a step takes without examining them: all that were sent to its process, or none. If it
/// selects none, the step examines each message. The filter is one word, which is compared with the mark of each node.
#[derive(Clone, Copy)]
pub(crate) struct MessageFilter(u64);

impl MessageFilter {
    /// Accepts all messages for the incarnation `generation`.
    #[inline]
    pub(crate) fn accepting(generation: u64) -> Self {
        Self(generation)
    }

    /// Makes the filter accept no message from now on.
    pub(crate) fn accept_none(&mut self) {
        self.0 |= KIND_MASK << KIND_SHIFT;
    }

    /// Returns the generation of the process.
    pub(crate) fn generation(self) -> u64 {
        self.0 & crate::pid::GENERATION_MASK
    }
}

/// The kind of an envelope, and the incarnation that it was sent to.
struct NodeHeader {
    kind: NodeKind,
    generation: u64,
}

/// An envelope inside its node, at the head of its lane; valid until the lane is next advanced.
#[derive(Debug)]
pub(crate) struct MessageInPlace(NonNull<MailNode>);

impl MessageInPlace {
    /// # Safety
    /// `node` is valid, and the caller owns its content while this value is used.
    #[inline]
    pub(crate) unsafe fn new(node: NonNull<MailNode>) -> Self {
        Self(node)
    }

    /// Returns whether this is a message that `filter` accepts. This is the check on the fast path.
    #[inline]
    pub(crate) fn is_accepted_by(&self, filter: MessageFilter) -> bool {
        // SAFETY: nodes are never freed.
        unsafe { self.0.as_ref() }.is_message_for(filter.0)
    }

    /// Returns a pointer to the envelope's content, valid as long as this value.
    #[inline]
    pub(crate) fn content(&self) -> *mut EnvelopeContent {
        // SAFETY: nodes are never freed.
        unsafe { self.0.as_ref() }.content.with_mut(|content| content)
    }

    /// Returns the envelope's number in the queue.
    pub(crate) fn sequence(&self) -> u64 {
        // SAFETY: nodes are never freed.
        unsafe { self.0.as_ref() }.sequence()
    }

    pub(crate) fn take(self) -> Envelope {
        // SAFETY: the caller of `new` promised that the node is valid and its content owned.
        unsafe { take_in_place(self.0) }
    }
}

/// The largest distance between two sequence numbers that can be measured: half of the range.
pub(crate) const FARTHEST: u64 = LAST_SEQUENCE / 2;

/// How far the second of two sequence numbers may lag behind the first: a quarter of the range. It lags if the numbers
/// were not read at the same time, or if a sender did not know the number of its predecessor. In both cases, it lags by
/// at most the length of the queue.
pub(crate) const BEHIND: u64 = LAST_SEQUENCE / 4;

/// Returns the number of nodes between two sequence numbers. Returns zero if the second lags by up to [`BEHIND`], and
/// [`FARTHEST`] if it is further ahead than that. So no queue shorter than three quarters of the range is mistaken for
/// an empty one.
pub(crate) fn distance(first: u64, last: u64) -> u64 {
    let distance = if last >= first { last - first } else { LAST_SEQUENCE - first + last };
    if distance >= LAST_SEQUENCE - BEHIND { 0 } else { distance.min(FARTHEST) }
}

/// An owned node that is in no queue.
#[derive(Debug)]
#[repr(transparent)]
pub(crate) struct NodeBox(NonNull<MailNode>);

// SAFETY: a node is `Send`, and a `NodeBox` is its only owner.
unsafe impl Send for NodeBox {}
// SAFETY: a shared reference gives access only to the pointer, and to values that are `Sync`.
unsafe impl Sync for NodeBox {}

impl NodeBox {
    /// # Safety
    /// `node` is valid for the rest of the program, is in no queue, and has no other owner.
    #[inline]
    pub(crate) unsafe fn from_raw(node: NonNull<MailNode>) -> Self {
        Self(node)
    }

    /// Gives up ownership without returning the node to the pool.
    #[inline]
    pub(crate) fn into_raw(self) -> NonNull<MailNode> {
        self.0
    }

    /// Returns the address of the node. Only `next` may be read through it.
    #[inline]
    pub(crate) fn as_ptr(&self) -> NonNull<MailNode> {
        self.0
    }

    /// Returns the link, which is free for other uses while the node is in no queue.
    #[inline]
    pub(crate) fn next(&self) -> &AtomicPtr<MailNode> {
        // SAFETY: nodes are never freed.
        unsafe { &(*self.0.as_ptr()).next }
    }

    /// Returns a reference that outlives this ownership, for code that reads `next` after the node has another owner.
    #[inline]
    pub(crate) fn for_ever(&self) -> &'static MailNode {
        // SAFETY: nodes are never freed, and their non-atomic parts are in cells.
        unsafe { &*self.0.as_ptr() }
    }

    #[inline]
    pub(crate) fn put(&mut self, envelope: Envelope) {
        // SAFETY: this is the node's only owner, and an owned node is emptied by `take` before it is filled again.
        unsafe { (*self.0.as_ptr()).put(envelope) }
    }

    /// Stores a message in an empty node. `number` is as in [`next_number`](MailNode::next_number), or zero.
    #[inline]
    pub(crate) fn put_message<M: Send + 'static>(
        &mut self,
        (generation, number): (u64, u64),
        message: M,
        word: *mut MailNode,
    ) {
        if spans::may_be_wanted() {
            return self.put_traced((generation, number), message, word);
        }
        self.put_untraced((generation, number), message, word);
    }

    /// Like [`put_message`](Self::put_message), but does not ask whether a subscriber wants the message's origin. It is
    /// for callers that have already asked, and that now hold a lock under which no user code may run.
    #[inline]
    pub(crate) fn put_untraced<M: Send + 'static>(
        &mut self,
        (generation, number): (u64, u64),
        message: M,
        word: *mut MailNode,
    ) {
        // SAFETY: nodes are never freed.
        let node = unsafe { &*self.0.as_ptr() };
        node.mark.store(number | generation | (NodeKind::Message as u64) << KIND_SHIFT, Ordering::Relaxed);
        node.content.with_mut(|place| {
            // SAFETY: this is the node's only owner, and the empty content that is overwritten needs no drop.
            unsafe { place.write(EnvelopeContent { word, payload: Some(Payload::new(message)) }) };
        });
    }

    /// Stores a value that is not a message in a node whose content needs no drop. The value is written in place; an
    /// [`Envelope`] would be built elsewhere and copied.
    #[inline(always)]
    pub(crate) fn put_value<T: Send + 'static>(
        &mut self,
        kind: NodeKind,
        generation: u64,
        word: *mut MailNode,
        value: T,
    ) {
        // SAFETY: nodes are never freed.
        let node = unsafe { &*self.0.as_ptr() };
        node.mark.store(generation | (kind as u64) << KIND_SHIFT, Ordering::Relaxed);
        node.content.with_mut(|place| {
            // SAFETY: this is the node's only owner, and the content that is overwritten needs no drop.
            unsafe { place.write(EnvelopeContent { word, payload: Some(Payload::new(value)) }) };
        });
    }

    /// Stores a message with its origin. This is a separate function, because otherwise all other messages would be
    /// built in two places and copied from there.
    #[cold]
    #[inline(never)]
    fn put_traced<M: Send + 'static>(&mut self, (generation, number): (u64, u64), message: M, word: *mut MailNode) {
        // The bits of the number and of the generation do not overlap.
        let generation = generation | number;
        self.put(Envelope { kind: NodeKind::Message, generation, word, payload: Some(Payload::sent(message)) });
    }

    /// Returns the constant that names the type of the node's value, if it has one.
    pub(crate) fn name_of(&self) -> Option<&'static fn() -> &'static str> {
        // SAFETY: this is the node's only owner.
        unsafe { self.for_ever().peek(|content| content.payload.as_ref().map(Payload::name_of)) }
    }

    /// Returns the node's value if it is a `T`.
    pub(crate) fn peek<T: Send + Sync + 'static>(&self) -> Option<&T> {
        // SAFETY: this is the node's only owner. Writing or taking the content borrows the owner exclusively, so no
        // thread does so during this borrow. Concurrent shared access is allowed, since `T` is `Sync`.
        unsafe {
            (*self.0.as_ptr()).content.with_mut(|content| (*content).payload.as_ref().and_then(|value| value.peek()))
        }
    }

    /// Returns whether the node carries an answer.
    #[inline]
    pub(crate) fn is_answer(&self) -> bool {
        self.for_ever().is_answer()
    }

    /// Returns the content's `word`.
    #[inline]
    pub(crate) fn word(&self) -> *mut MailNode {
        // SAFETY: this is the node's only owner.
        self.for_ever().content.with_mut(|content| unsafe { (*content).word })
    }

    /// Returns the content's payload in place.
    #[inline]
    pub(crate) fn payload(&mut self) -> &mut Option<Payload> {
        // SAFETY: this is the node's only owner.
        self.for_ever().content.with_mut(|content| unsafe { &mut (*content).payload })
    }

    #[inline]
    pub(crate) fn take(&mut self) -> Envelope {
        // SAFETY: this is the node's only owner.
        unsafe { (*self.0.as_ptr()).take() }
    }
}

/// # Safety
/// `node` is valid, and the caller owns its content, though not the node itself (which stays in a queue as its empty
/// first node).
#[inline]
pub(crate) unsafe fn take_in_place(node: NonNull<MailNode>) -> Envelope {
    // SAFETY: the caller's promise.
    unsafe { (*node.as_ptr()).take() }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    /// Returns the number `by` places after `first`.
    fn ahead(first: u64, by: u64) -> u64 {
        (first + by - 1) % LAST_SEQUENCE + 1
    }

    /// Catches: a queue longer than half the range of numbers counts as empty, so that no bound ever stops its growth.
    #[test]
    fn a_distance_is_told_up_to_half_of_all_numbers_and_never_as_none_because_it_is_long() {
        for first in [1, 2, 1_000, FARTHEST, FARTHEST + 1, LAST_SEQUENCE - 1, LAST_SEQUENCE] {
            for told in [0, 1, 1_024, BEHIND, FARTHEST - 1, FARTHEST] {
                assert_eq!(distance(first, ahead(first, told)), told, "from {first}");
            }
            for longer in [FARTHEST + 1, FARTHEST + 1_000, LAST_SEQUENCE - BEHIND - 1] {
                assert_eq!(distance(first, ahead(first, longer)), FARTHEST, "from {first}");
            }
            for behind in [1, 1_024, BEHIND] {
                assert_eq!(distance(first, ahead(first, LAST_SEQUENCE - behind)), 0, "from {first}");
            }
        }
        // Zero is the number before the first one.
        assert_eq!((distance(0, FARTHEST), distance(0, FARTHEST + 1), distance(0, 0)), (FARTHEST, FARTHEST, 0));
    }
}
