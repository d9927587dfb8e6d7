//! The caller of a message, as the called side holds it.
//!
//! A [`Caller`] is one node: it takes eight bytes in a message, and becomes the node of the answer. Until then its
//! payload identifies the caller. Answering consumes the `Caller`; dropping it unanswered fails the call, so every
//! caller gets a result.
//!
//! A caller that gives up cannot reach the called process, so it marks the node (see [`call_id`]).

use super::call_id::{self, CallId};
use crate::env::{clock::Moment, world::World};
use crate::errors::{CallError, CommandError};
use crate::mailbox::node::{Envelope, EnvelopeContent, MailNode, NodeBox, NodeKind};
use crate::mailbox::{node_pool, payload::Payload};
use crate::sync::{Arc, AtomicU64, Mutex, Ordering, lock};
use crate::{exit::ExitReason, pid::Pid, util::defer::defer};
use std::cell::{Cell, RefCell};
use std::mem::ManuallyDrop;
use std::ptr::{self, NonNull};

/// The slot of a calling process, as this module sees it.
pub(crate) trait Port: Send + Sync {
    /// Delivers the answer to the incarnation `generation`, in the node that was sent with the call.
    fn answer(&'static self, node: NodeBox, generation: u64);

    /// Returns the PID of the incarnation `generation`, if it has one.
    fn pid_of(&self, generation: u64) -> Option<Pid> {
        let _ = generation;
        None
    }

    /// Returns another port for the same slot. That port also records the answers.
    fn recorded(&'static self) -> &'static dyn Port;
}

/// A caller that is not a process: a thread, or a task of another executor.
pub(crate) trait OutsideCaller: Send + Sync {
    fn answer(&self, result: Result<Payload, CommandError>);

    fn is_abandoned(&self) -> bool;

    /// Returns whether the message was sent rather than called. The sender of such a message is only notified when the
    /// message has been handled.
    fn was_sent(&self) -> bool {
        false
    }

    /// Returns the process on whose behalf the caller waits, if it is known.
    fn pid(&self) -> Option<Pid> {
        None
    }
}

/// The caller of a call that was withdrawn.
pub(crate) struct Asker {
    asker: Who,
    tag: *mut MailNode,
}

impl Asker {
    pub(crate) fn fail(self, error: CallError) {
        let error = CommandError::Call(error);
        match self.asker {
            Who::Process { port, generation } => {
                answer_process(port, node_pool::empty(), generation, self.tag, NodeKind::Failed, Payload::new(error));
            }
            Who::Outside(outside) => outside.answer(Err(error)),
        }
    }
}

/// Whether a process has seen the message of a call, as far as its runtime knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Seen {
    /// The message is in its package, unopened.
    No,
    /// The message was passed to a method, or taken out of its package.
    Opened,
}

impl Seen {
    /// Returns the error of a call whose process has ended.
    fn ended(self, reason: ExitReason) -> CallError {
        match self {
            Self::No => CallError::Gone(reason),
            Self::Opened => CallError::Died(reason),
        }
    }

    /// Returns the error of a call that a live process dropped.
    fn dropped(self) -> CallError {
        match self {
            Self::No => CallError::Unhandled,
            Self::Opened => CallError::Dropped,
        }
    }
}

#[derive(Clone)]
enum Who {
    Process { port: &'static dyn Port, generation: u64 },
    Outside(Arc<dyn OutsideCaller>),
}

/// Held by a thread that withdraws a call and reads the node to find the caller. The called process waits for this lock
/// before it discards the node of a withdrawn call.
static WITHDRAWING: World<Mutex<()>> = World::new(Mutex::new(()));

/// Withdraws the message of a call, unless the called process has taken it. Returns the caller, which must be notified.
pub(crate) fn withdraw(ticket: CallId) -> Option<Asker> {
    let _withdrawing = lock(&WITHDRAWING);
    if !ticket.withdraw() {
        return None;
    }
    let look = |envelope: &EnvelopeContent| {
        // SAFETY: as below; everything in a `PendingCall` is `Sync`.
        let call = envelope.payload.as_ref().and_then(|payload| unsafe { payload.peek::<PendingCall>() });
        call.map(|call| Asker { asker: call.asker.clone(), tag: envelope.word })
    };
    // SAFETY: the call was waiting for its answer and no thread had claimed it, so its node holds the call. From now
    // on, a thread that reaches the node's envelope finds it withdrawn (`into_asker`), and waits for the lock before it
    // empties the node.
    unsafe { ticket.node().peek(look) }
}

/// Fails a call whose message ended up where it will not be handled, possibly in the mailbox of another process. Does
/// nothing if that process has answered or failed the call, or is about to.
#[cold]
pub(crate) fn fail_stranded(call: CallId, reason: ExitReason) {
    if let Some(asker) = withdraw(call) {
        asker.fail(CallError::Gone(reason));
    }
}

/// The content of the node until the answer arrives.
struct PendingCall {
    asker: Who,
    deadline: Option<Moment>,
}

const _: () = assert!(size_of::<PendingCall>() <= 32, "held in the node, without a box");

/// The right and the duty to answer a call.
#[derive(Debug)]
pub(crate) struct Caller(ManuallyDrop<NodeBox>);

/// Number of call numbers that a thread reserves at a time.
const NUMBERS: u64 = 1 << 20;

thread_local! {
    static NEXT_NUMBER: Cell<u64> = const { Cell::new(0) };
    /// The exit reason of the process whose exit this thread is performing.
    static ENDING: Cell<*const ExitReason> = const { Cell::new(ptr::null()) };
    /// Callers dropped by a panic, and whether their messages had been seen. They are notified once the panic's message
    /// is known.
    static ORPHANS: RefCell<Vec<(Caller, Seen)>> = const { RefCell::new(Vec::new()) };
    static HAS_ORPHANS: Cell<bool> = const { Cell::new(false) };
    static COLLECTS: Cell<bool> = const { Cell::new(false) };
}

/// Returns a number that is unique in the program, and not zero.
#[inline]
pub(crate) fn number() -> u64 {
    let next = NEXT_NUMBER.get();
    let next = if next.is_multiple_of(NUMBERS) { next_numbers() } else { next };
    NEXT_NUMBER.set(next + 1);
    next
}

/// Reserves a block of numbers. Returns the first.
#[cold]
#[inline(never)]
fn next_numbers() -> u64 {
    // Zero is reserved, so the first block is left out.
    static BLOCKS: World<AtomicU64> = World::new(AtomicU64::new(NUMBERS));
    BLOCKS.fetch_add(NUMBERS, Ordering::Relaxed)
}

impl Caller {
    /// Creates the caller for a process. The process finds the answer under `tag` in its control lane.
    #[inline]
    pub(crate) fn process(
        port: &'static dyn Port,
        generation: u64,
        tag: u64,
        deadline: Option<Moment>,
    ) -> (Self, CallId) {
        Self::new(PendingCall { asker: Who::Process { port, generation }, deadline }, tag)
    }

    /// Creates a caller that is not a process, or is a process that blocks its thread.
    pub(crate) fn outside(outside: Arc<dyn OutsideCaller>, deadline: Option<Moment>) -> (Self, CallId) {
        Self::new(PendingCall { asker: Who::Outside(outside), deadline }, 0)
    }

    #[inline]
    fn new(call: PendingCall, tag: u64) -> (Self, CallId) {
        let word = ptr::without_provenance_mut(tag as usize);
        let mut node = node_pool::empty();
        node.put_value(NodeKind::Call, 0, word, call);
        let ticket = CallId::issue(node.for_ever(), number());
        (Self(ManuallyDrop::new(node)), ticket)
    }

    /// Arranges for the answer to be recorded. Returns the tag under which a process finds it, or `None` if the caller
    /// is not a process.
    #[cold]
    pub(crate) fn record(&mut self) -> Option<u64> {
        let mut envelope = self.0.take();
        let mut tag = None;
        if let Some(call) = envelope.payload.as_mut().and_then(Payload::get_mut::<PendingCall>)
            && let Who::Process { port, .. } = &mut call.asker
        {
            *port = port.recorded();
            tag = Some(envelope.word.addr() as u64);
        }
        self.0.put(envelope);
        tag
    }

    /// Returns the caller's side of the call.
    #[inline]
    pub(crate) fn id(&self) -> CallId {
        CallId::held_by(self.0.for_ever())
    }

    #[inline]
    pub(crate) fn into_word(self) -> *mut MailNode {
        let this = ManuallyDrop::new(self);
        this.0.as_ptr().as_ptr()
    }

    /// # Safety
    /// `word` is null or came from `into_word`, and is converted back once.
    #[inline]
    pub(crate) unsafe fn from_word(word: *mut MailNode) -> Option<Self> {
        // SAFETY: guaranteed by the safety contract of this function.
        NonNull::new(word).map(|node| Self(ManuallyDrop::new(unsafe { NodeBox::from_raw(node) })))
    }

    pub(crate) fn is_abandoned(&self) -> bool {
        if call_id::is_unwanted(self.0.next()) {
            return true;
        }
        self.look(|call| match &call.asker {
            Who::Process { .. } => false,
            Who::Outside(outside) => outside.is_abandoned(),
        })
    }

    /// Returns whether the message was withdrawn. If it was, its caller has been notified.
    pub(crate) fn is_withdrawn(&self) -> bool {
        call_id::is_withdrawn(self.0.next())
    }

    /// Called right before the message is handled. Returns false if it must not be: see [`call_id::take`].
    #[inline]
    pub(crate) fn take(&self) -> bool {
        call_id::take(self.0.next())
    }

    /// Called when the right to answer passes to user code. Returns whether the message may be handled: see
    /// [`call_id::keep`].
    pub(crate) fn keep(&self) -> bool {
        call_id::keep(self.0.next())
    }

    /// Returns whether the message is a call whose caller has stopped waiting. Reads no clock: callers mark their calls
    /// when they give up.
    pub(crate) fn has_given_up(&self) -> bool {
        self.is_abandoned() && !self.was_sent()
    }

    #[inline]
    pub(crate) fn deadline(&self) -> Option<Moment> {
        self.look(|call| call.deadline)
    }

    /// Returns true if the message was sent rather than called, and its sender is to be notified when the message has
    /// been handled.
    pub(crate) fn was_sent(&self) -> bool {
        self.look(|call| matches!(&call.asker, Who::Outside(outside) if outside.was_sent()))
    }

    /// Returns the calling process, if there is one and the runtime knows it.
    pub(crate) fn pid(&self) -> Option<Pid> {
        self.look(|call| match &call.asker {
            Who::Process { port, generation } => port.pid_of(*generation),
            Who::Outside(outside) => outside.pid(),
        })
    }

    fn look<R>(&self, look: impl FnOnce(&PendingCall) -> R) -> R {
        self.0.peek().map(look).unwrap_or_else(|| unreachable!("an unanswered caller's node holds its call"))
    }

    /// Answers with a value. For a process, the value is written directly into the node where the process finds it.
    #[inline]
    pub(crate) fn answer_with<T: Send + 'static>(self, value: T) {
        let asker = self.look(|call| match call.asker {
            Who::Process { port, generation } => Some((port, generation)),
            Who::Outside(_) => None,
        });
        match asker {
            Some((port, generation)) if call_id::claim(self.0.next()) => {
                let mut this = ManuallyDrop::new(self);
                // SAFETY: `this` is never dropped, so the node is taken once.
                let mut node = unsafe { ManuallyDrop::take(&mut this.0) };
                let tag = node.word();
                // This overwrites a `PendingCall`. It is that of a process, and so does not need to be dropped.
                node.put_value(NodeKind::Completed, generation, tag, value);
                port.answer(node, generation);
            }
            _ => self.answer_another(Payload::new(value)),
        }
    }

    #[cold]
    #[inline(never)]
    fn answer_another(self, value: Payload) {
        self.answer(value);
    }

    #[inline]
    pub(crate) fn answer(self, value: Payload) {
        match self.into_asker() {
            Some((node, Who::Process { port, generation }, tag)) => {
                answer_process(port, node, generation, tag, NodeKind::Completed, value);
            }
            asker => answer_outside(asker, Ok(value)),
        }
    }

    pub(crate) fn fail(self, error: CallError) {
        self.fail_command(CommandError::Call(error));
    }

    pub(crate) fn fail_command(self, error: CommandError) {
        match self.into_asker() {
            Some((node, Who::Process { port, generation }, tag)) => {
                answer_process(port, node, generation, tag, NodeKind::Failed, Payload::new(error));
            }
            asker => answer_outside(asker, Err(error)),
        }
    }

    /// Returns the emptied node, the caller and its tag. Returns `None` if the call was withdrawn: its caller has then
    /// been notified.
    #[inline]
    fn into_asker(self) -> Option<(NodeBox, Who, *mut MailNode)> {
        let mut this = ManuallyDrop::new(self);
        // SAFETY: `this` is never dropped, so the node is taken once.
        let mut node = unsafe { ManuallyDrop::take(&mut this.0) };
        if !call_id::claim(node.next()) {
            throw_away(node);
            return None;
        }
        let tag = node.word();
        let Some(call) = Payload::take_from::<PendingCall>(node.payload()) else {
            unreachable!("an unanswered caller's node holds its call")
        };
        Some((node, call.asker, tag))
    }
}

/// Delivers an answer to a process in `node`, which must be empty. Usually this is the node of the call, reused.
#[inline]
fn answer_process(
    port: &'static dyn Port,
    node: NodeBox,
    generation: u64,
    tag: *mut MailNode,
    kind: NodeKind,
    payload: Payload,
) {
    let mut node = node;
    node.put(Envelope { kind, generation, word: tag, payload: Some(payload) });
    port.answer(node, generation);
}

#[cold]
#[inline(never)]
fn answer_outside(asker: Option<(NodeBox, Who, *mut MailNode)>, result: Result<Payload, CommandError>) {
    if let Some((node, Who::Outside(outside), _)) = asker {
        node_pool::recycle(node);
        outside.answer(result);
    }
}

/// Disposes of the node of a withdrawn call. The caller has already been notified.
#[cold]
fn throw_away(mut node: NodeBox) {
    drop(lock(&WITHDRAWING));
    let call = node.take();
    // The calling side may have withdrawn the call itself, without that lock.
    call_id::close(node.next());
    node_pool::recycle(node);
    // Possibly the last reference to the caller, dropped outside the lock.
    drop(call);
}

impl Caller {
    /// Fails the call of a message that was never opened, because its package was dropped by an exiting process or by a
    /// panic.
    pub(crate) fn drop_unopened(self) {
        self.give_up(Seen::No);
    }

    fn give_up(self, seen: Seen) {
        if std::thread::panicking() && COLLECTS.try_with(Cell::get).unwrap_or(false) {
            // Notified where the panic is caught, by `blame`.
            let orphan = ManuallyDrop::new(self);
            let word = orphan.0.as_ptr();
            let _ = ORPHANS.try_with(|orphans| {
                // SAFETY: `orphan` is never dropped, so the node has one owner.
                let node = unsafe { NodeBox::from_raw(word) };
                orphans.borrow_mut().push((Self(ManuallyDrop::new(node)), seen));
                HAS_ORPHANS.set(true);
            });
            return;
        }
        let error = match (ending(), seen) {
            (Some(reason), seen) => seen.ended(reason),
            // A thread outside the runtime panics while it holds a package.
            (None, Seen::No) => CallError::Gone(ExitReason::NoProcess),
            (None, Seen::Opened) => CallError::Dropped,
        };
        self.fail(error);
    }
}

impl Drop for Caller {
    fn drop(&mut self) {
        // SAFETY: `self` is being dropped, so its node is taken once.
        let this = Self(ManuallyDrop::new(unsafe { ManuallyDrop::take(&mut self.0) }));
        this.give_up(Seen::Opened);
    }
}

/// Sets whether the calling thread collects the callers that a panic drops, for [`blame`]. Returns whether it did.
pub(crate) fn collect_orphans(does: bool) -> bool {
    COLLECTS.replace(does)
}

/// Fails the callers that a panic dropped, with `reason` as the exit reason.
pub(crate) fn blame(reason: &ExitReason) {
    blame_with(|seen| CommandError::Call(seen.ended(reason.clone())));
}

/// Fails the callers that a panic dropped, without an exit reason: the panic has ended no process.
pub(crate) fn blame_nobody() {
    blame_with(|seen| CommandError::Call(seen.dropped()));
}

#[inline]
pub(crate) fn has_orphans() -> bool {
    HAS_ORPHANS.get()
}

/// Fails the callers that a panic dropped, each with the result of `error`.
pub(crate) fn blame_with(error: impl Fn(Seen) -> CommandError) {
    if !HAS_ORPHANS.try_with(Cell::get).unwrap_or(false) {
        return;
    }
    HAS_ORPHANS.set(false);
    // Taken out first: notifying one caller may drop others.
    let orphans = ORPHANS.try_with(RefCell::take).unwrap_or_default();
    orphans.into_iter().for_each(|(orphan, seen)| orphan.fail_command(error(seen)));
}

pub(crate) fn is_ending() -> bool {
    ENDING.try_with(|ending| !ending.get().is_null()).unwrap_or(false)
}

/// Returns the exit reason of the process whose exit this thread is performing, if any.
fn ending() -> Option<ExitReason> {
    let reason = ENDING.try_with(Cell::get).unwrap_or(ptr::null());
    // SAFETY: only `while_ending` sets it, to a reason that it borrows.
    unsafe { reason.as_ref() }.cloned()
}

/// Runs `body`, which performs the exit of a process. Calls that the process leaves unanswered fail with `reason`.
#[inline(always)]
pub(crate) fn while_ending<R>(reason: &ExitReason, body: impl FnOnce() -> R) -> R {
    // `ENDING` is inaccessible while the thread destroys its thread-locals. Even then, a process whose start fails may
    // exit.
    let outer = ENDING.try_with(|ending| ending.replace(reason)).unwrap_or(ptr::null());
    let _restore = defer(|| _ = ENDING.try_with(|ending| ending.set(outer)));
    body()
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::{Caller, OutsideCaller};
    use crate::errors::CommandError;
    use crate::mailbox::node_pool;
    use crate::mailbox::payload::Payload;
    use std::sync::Arc;
    use std::thread;

    struct NoCaller;

    impl OutsideCaller for NoCaller {
        fn answer(&self, _: Result<Payload, CommandError>) {}

        fn is_abandoned(&self) -> bool {
            false
        }
    }

    /// For Miri: the thread that discards the message of a withdrawn call reads the node with plain loads.
    #[test]
    fn the_node_of_a_withdrawn_call_is_free_after_the_withdrawal() {
        let (caller, call) = Caller::outside(Arc::new(NoCaller), None);
        let withdraws = thread::spawn(move || call.withdraw());
        while !caller.is_withdrawn() {
            thread::yield_now();
        }
        drop(caller);
        node_pool::recycle(node_pool::empty());
        assert!(withdraws.join().expect("no panic"));
    }
}
