//! Who waits for the answer to a call, as the called side holds it.
//!
//! A [`Caller`] is one node: eight bytes in a message, and the very node that the answer travels back in. Until then
//! its payload says who asked. Answering consumes it; dropping it unanswered tells the caller so, hence a caller always
//! hears.
//!
//! A caller that gives up cannot reach into the called process, so it marks the node (see
//! [`ticket`](crate::call::call_id)).

use super::call_id::{self, CallId};
use crate::env::clock::Moment;
use crate::env::world::World;
use crate::errors::{CallError, CommandError};
use crate::exit::ExitReason;
use crate::mailbox::node::{Envelope, EnvelopeContent, MailNode, NodeBox, NodeKind};
use crate::mailbox::node_pool;
use crate::mailbox::payload::Payload;
use crate::sync::{Arc, AtomicU64, Mutex, Ordering, lock};
use crate::util::defer::defer;
use std::cell::{Cell, RefCell};
use std::mem::ManuallyDrop;
use std::ptr::{self, NonNull};

/// A process that calls: its slot, seen from below.
pub(crate) trait Port: Send + Sync {
    /// Takes the answer for the life `generation`, in the node that was sent with the call.
    fn answer(&'static self, node: NodeBox, generation: u64, tag: *mut MailNode, result: Result<Payload, CommandError>);
}

/// A caller that is no process: a thread, or a task of another executor.
pub(crate) trait OutsideCaller: Send + Sync {
    /// Takes the answer.
    fn answer(&self, result: Result<Payload, CommandError>);

    /// Returns whether the caller waits no more.
    fn is_abandoned(&self) -> bool;

    /// Returns whether the message was sent and not called: then this one only hears when it has been handled.
    fn was_sent(&self) -> bool {
        false
    }
}

/// Who asked, if the call is withdrawn by another process.
pub(crate) struct Asker {
    asker: Who,
    tag: *mut MailNode,
}

impl Asker {
    /// Tells it that there will be no answer.
    pub(crate) fn fail(self, error: CallError) {
        let result = Err(CommandError::Call(error));
        match self.asker {
            Who::Process { port, generation } => port.answer(node_pool::empty(), generation, self.tag, result),
            Who::Outside(outside) => outside.answer(result),
        }
    }
}

/// Whether a process has seen the message of a caller, as far as its runtime knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Seen {
    /// It lies in its package, which has not been opened.
    No,
    /// It has been given to a method, or taken out of its package.
    Opened,
}

impl Seen {
    /// Why a call fails when its process has ended.
    fn ended(self, reason: ExitReason) -> CallError {
        match self {
            Self::No => CallError::Gone(reason),
            Self::Opened => CallError::Died(reason),
        }
    }

    /// Why a call fails that its process, which goes on, has dropped.
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

/// Between a process that withdraws another one's call, and looks into its node for who that is, and the called
/// process, which throws the node away when it comes to it.
static WITHDRAWING: World<Mutex<()>> = World::new(Mutex::new(()));

/// Withdraws the message of a call, unless the called process has come to it. Returns who is to be told of that.
pub(crate) fn withdraw(ticket: CallId) -> Option<Asker> {
    let _withdrawing = lock(&WITHDRAWING);
    if !ticket.withdraw() {
        return None;
    }
    let look = |content: &EnvelopeContent| {
        // SAFETY: as below; what is in a call is `Sync`.
        let call = content.payload.as_ref().and_then(|payload| unsafe { payload.peek::<PendingCall>() });
        call.map(|call| Asker { asker: call.asker.clone(), tag: content.word })
    };
    // SAFETY: the call was waiting for its answer, and no thread had come to handle it: so its node hangs on an
    // envelope, and is emptied only under the lock by whichever thread comes to that envelope and finds it withdrawn.
    unsafe { ticket.node().peek(look) }
}

/// What is in the node until the answer is.
struct PendingCall {
    asker: Who,
    deadline: Option<Moment>,
}

const _: () = assert!(size_of::<PendingCall>() <= 32, "held in the node, without a box");

/// See the module.
#[derive(Debug)]
pub(crate) struct Caller(ManuallyDrop<NodeBox>);

/// How many call numbers a thread draws at a time.
const NUMBERS: u64 = 1 << 20;

thread_local! {
    static NEXT_NUMBER: Cell<u64> = const { Cell::new(0) };
    /// Why the process that this thread is taking apart ended.
    static ENDING: Cell<*const ExitReason> = const { Cell::new(ptr::null()) };
    /// Callers that were dropped by a panic, and how far their messages had come: they are told once it is known what
    /// it said.
    static ORPHANS: RefCell<Vec<(Caller, Seen)>> = const { RefCell::new(Vec::new()) };
    /// Whether there are any.
    static HAS_ORPHANS: Cell<bool> = const { Cell::new(false) };
    /// Whether this thread collects orphans.
    static COLLECTS: Cell<bool> = const { Cell::new(false) };
}

/// A number that is given out once in the life of the program, and is not zero.
pub(crate) fn number() -> u64 {
    // Zero is no number, so the first block is left out.
    static BLOCKS: World<AtomicU64> = World::new(AtomicU64::new(NUMBERS));
    let next = NEXT_NUMBER.get();
    let next = if next.is_multiple_of(NUMBERS) { BLOCKS.fetch_add(NUMBERS, Ordering::Relaxed) } else { next };
    NEXT_NUMBER.set(next + 1);
    next
}

impl Caller {
    /// A process that will find the answer under `tag` in its control lane.
    pub(crate) fn process(
        port: &'static dyn Port,
        generation: u64,
        tag: u64,
        deadline: Option<Moment>,
    ) -> (Self, CallId) {
        Self::new(PendingCall { asker: Who::Process { port, generation }, deadline }, tag)
    }

    /// A caller that is no process, or one that blocks.
    pub(crate) fn outside(outside: Arc<dyn OutsideCaller>, deadline: Option<Moment>) -> (Self, CallId) {
        Self::new(PendingCall { asker: Who::Outside(outside), deadline }, 0)
    }

    fn new(call: PendingCall, tag: u64) -> (Self, CallId) {
        let word = ptr::without_provenance_mut(tag as usize);
        let node =
            node_pool::node(Envelope { kind: NodeKind::Call, generation: 0, word, payload: Some(Payload::new(call)) });
        let ticket = CallId::issue(node.for_ever(), number());
        (Self(ManuallyDrop::new(node)), ticket)
    }

    /// The word of a message that carries this caller.
    #[inline]
    pub(crate) fn into_word(self) -> *mut MailNode {
        let this = ManuallyDrop::new(self);
        this.0.as_ptr().as_ptr()
    }

    /// # Safety
    /// `word` is null or came from `into_word`, and is turned back once.
    #[inline]
    pub(crate) unsafe fn from_word(word: *mut MailNode) -> Option<Self> {
        // SAFETY: as the caller promises.
        NonNull::new(word).map(|node| Self(ManuallyDrop::new(unsafe { NodeBox::from_raw(node) })))
    }

    /// Returns whether the answer is not wanted any more.
    pub(crate) fn is_abandoned(&self) -> bool {
        if call_id::is_unwanted(self.0.next()) {
            return true;
        }
        self.look(|call| match &call.asker {
            Who::Process { .. } => false,
            Who::Outside(outside) => outside.is_abandoned(),
        })
    }

    /// The message is about to be handled. Returns whether it may be: see [`call_id::take`].
    #[inline]
    pub(crate) fn take(&self) -> bool {
        call_id::take(self.0.next())
    }

    /// From here on it is not known who will answer, or when. Returns whether the message may be handled: see
    /// [`call_id::keep`].
    pub(crate) fn keep(&self) -> bool {
        call_id::keep(self.0.next())
    }

    /// When the caller stops waiting.
    pub(crate) fn deadline(&self) -> Option<Moment> {
        self.look(|call| call.deadline)
    }

    /// Returns whether the message counts as sent, although its sender is to hear when it has been handled.
    pub(crate) fn was_sent(&self) -> bool {
        self.look(|call| matches!(&call.asker, Who::Outside(outside) if outside.was_sent()))
    }

    fn look<R>(&self, look: impl FnOnce(&PendingCall) -> R) -> R {
        self.0.peek().map(look).unwrap_or_else(|| unreachable!("an unanswered caller's node holds its call"))
    }

    /// Gives the caller its answer.
    #[inline]
    pub(crate) fn answer(self, value: Payload) {
        self.finish(Ok(value));
    }

    /// Tells the caller that there will be no answer.
    pub(crate) fn fail(self, error: CallError) {
        self.finish(Err(CommandError::Call(error)));
    }

    /// Tells the process that yielded a command what became of it.
    pub(crate) fn fail_command(self, error: CommandError) {
        self.finish(Err(error));
    }

    #[inline]
    fn finish(self, result: Result<Payload, CommandError>) {
        let mut this = ManuallyDrop::new(self);
        // SAFETY: `this` is never dropped, so the node is taken once.
        let mut node = unsafe { ManuallyDrop::take(&mut this.0) };
        if call_id::is_withdrawn(node.next()) {
            return throw_away(node);
        }
        let envelope = node.take();
        let Some(Ok(call)) = envelope.payload.map(Payload::take::<PendingCall>) else {
            unreachable!("an unanswered caller's node holds its call")
        };
        match call.asker {
            Who::Process { port, generation } => port.answer(node, generation, envelope.word, result),
            Who::Outside(outside) => {
                node_pool::recycle(node);
                outside.answer(result);
            }
        }
    }
}

/// The node of a call that was withdrawn: its caller has been told.
#[cold]
fn throw_away(mut node: NodeBox) {
    drop(lock(&WITHDRAWING));
    let call = node.take();
    node_pool::recycle(node);
    // This may be the last reference to the asker, which is dropped without the lock.
    drop(call);
}

impl Caller {
    /// There will be no answer to a message that was never opened: the package is dropped by a process that ends, or
    /// by a panic.
    pub(crate) fn drop_unopened(self) {
        self.give_up(Seen::No);
    }

    fn give_up(self, seen: Seen) {
        if std::thread::panicking() && COLLECTS.try_with(Cell::get).unwrap_or(false) {
            // Told where the panic is caught, in `blame`.
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
            // On a thread outside, which panics with a package in hand.
            (None, Seen::No) => CallError::Gone(ExitReason::Gone),
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

/// From here on this thread keeps the callers that a panic drops, for [`blame`].
pub(crate) fn collect_orphans() {
    COLLECTS.set(true);
}

/// Tells the callers that a panic dropped why the process ended.
pub(crate) fn blame(reason: &ExitReason) {
    blame_with(|seen| CommandError::Call(seen.ended(reason.clone())));
}

/// Tells the callers that a panic dropped no more than that: it has ended no process.
pub(crate) fn blame_nobody() {
    blame_with(|seen| CommandError::Call(seen.dropped()));
}

/// Returns whether a panic dropped callers that have not been told.
#[inline]
pub(crate) fn has_orphans() -> bool {
    HAS_ORPHANS.get()
}

/// Tells the callers that a panic dropped what it was.
pub(crate) fn blame_with(error: impl Fn(Seen) -> CommandError) {
    if !HAS_ORPHANS.try_with(Cell::get).unwrap_or(false) {
        return;
    }
    HAS_ORPHANS.set(false);
    // Taken out first: telling one may drop others.
    let orphans = ORPHANS.try_with(RefCell::take).unwrap_or_default();
    orphans.into_iter().for_each(|(orphan, seen)| orphan.fail_command(error(seen)));
}

pub(crate) fn is_ending() -> bool {
    ENDING.try_with(|ending| !ending.get().is_null()).unwrap_or(false)
}

/// Why the process that this thread takes apart ended, if it takes one apart.
fn ending() -> Option<ExitReason> {
    let reason = ENDING.try_with(Cell::get).unwrap_or(ptr::null());
    // SAFETY: not null only inside `while_ending`, which borrows what it points at.
    unsafe { reason.as_ref() }.cloned()
}

/// Runs `body`, in which a process is taken apart: the callers that it leaves unanswered learn why it ended.
pub(crate) fn while_ending<R>(reason: &ExitReason, body: impl FnOnce() -> R) -> R {
    // Not there any more in the destructors of a thread's own variables; a start that fails there is taken apart too.
    let outer = ENDING.try_with(|ending| ending.replace(reason)).unwrap_or(ptr::null());
    let _restore = defer(|| _ = ENDING.try_with(|ending| ending.set(outer)));
    body()
}
