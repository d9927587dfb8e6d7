//! Mailboxes for code outside of processes: threads, tests, tasks of other executors.

use crate::call::dead_letter::{DeadLetter, DeadLetterReason, Sink};
use crate::engine::host::losses::{LossLimits, log_dead_letter};
use crate::engine::{blocking::block_in_place::while_blocked, lifecycle::exit::tell_bound};
use crate::env::clock::{TimeKeeper, instant_now};
use crate::env::program::{HOSTLESS, program_node};
use crate::env::world::World;
use crate::links::message::{LinkEndpoint, SentLinkMessage};
use crate::mailbox::{node::NodeKind, node_pool};
use crate::process::control::{Control, Join, keep_join};
use crate::routing::router::{package_of, route};
use crate::routing::transport::Receiver;
use crate::slots::{Schedule, SlotHost, SlotOwner, TABLE, Token};
use crate::sync::{Mutex, OnceLock, lock, yield_now};
use crate::util::block_on::{block_on, block_on_until};
use crate::util::dispose::dispose;
use crate::util::notifiers::{self, wake};
use crate::util::panics::Site;
use crate::{
    ExitReason, NodeId, Package, Payload, Pid, SpawnError, call::package::Undeliverable,
    links::registrations::REGISTRATIONS, this_node,
};
use futures_core::Stream;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};
use std::{future::poll_fn, time::Duration};

/// A mailbox with its own PID, owned by a thread or a task.
///
/// Processes send to it as to any PID, and its owner can answer. Dropping it makes the PID unroutable; unreceived
/// messages become dead letters, and their callers are notified.
///
/// ```
/// use postroom::prelude::*;
/// use postroom::Mailbox;
///
/// let mut mailbox = Mailbox::new()?;
/// let runtime = Runtime::new()?;
/// runtime.send(mailbox.pid(), "hello".to_string())?;
/// assert_eq!(mailbox.receive().take::<String>().ok().as_deref(), Some("hello"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Mailbox {
    owner: &'static MailboxOwner,
    pid: Pid,
    joined: Vec<Join>,
}

/// Stands in for the host of a process. Recycled and never freed, like host records.
struct MailboxOwner {
    cell: Mutex<TokenCell>,
    home: OnceLock<&'static SlotOwner>,
    /// The timekeeper of the mailbox, since threads keep no timers themselves.
    time_keeper: Mutex<Option<&'static dyn TimeKeeper>>,
    loss_limits: LossLimits,
}

#[derive(Default)]
struct TokenCell {
    /// The mailbox's token, unless it is parked.
    token: Option<Token>,
    waker: Option<Waker>,
}

static UNUSED: World<Mutex<Vec<&'static MailboxOwner>>> = World::new(Mutex::new(Vec::new()));

/// A token that is lent to the owner of the mailbox; it is returned on drop, even during a panic.
struct InUse {
    owner: &'static MailboxOwner,
    /// `None` only after the token was parked, or during the drop.
    token: Option<Token>,
}

impl InUse {
    fn token(&mut self) -> &mut Token {
        self.token.as_mut().unwrap_or_else(|| unreachable!("it is in use"))
    }

    /// Parks the token until something arrives. Returns true if it was parked.
    fn park_idle(mut self) -> bool {
        self.token = self.token.take().and_then(Token::park_idle);
        self.token.is_none()
    }
}

impl Drop for InUse {
    fn drop(&mut self) {
        if let Some(token) = self.token.take() {
            lock(&self.owner.cell).token = Some(token.release());
        }
    }
}

impl Schedule for MailboxOwner {
    fn wake(&'static self, token: Token) {
        if let Some(waker) = self.hand_over(token) {
            wake(Site::MailboxWaker, waker);
        }
    }

    fn hand_over(&'static self, token: Token) -> Option<Waker> {
        let mut cell = lock(&self.cell);
        cell.token = Some(token);
        cell.waker.take()
    }
}

impl SlotHost for MailboxOwner {
    fn time_keeper(&'static self) -> Option<&'static dyn TimeKeeper> {
        *lock(&self.time_keeper)
    }
}

impl Sink for MailboxOwner {
    fn dead_letter(&'static self, dead_letter: DeadLetter) {
        notifiers::run(move || log_dead_letter(&dead_letter, &self.loss_limits));
    }
}

impl Mailbox {
    /// Creates an empty mailbox.
    ///
    /// # Errors
    /// [`SpawnError::Slots`] if all slots for processes are in use.
    pub fn new() -> Result<Self, SpawnError> {
        Self::of_node(this_node(), None)
    }

    /// Creates a mailbox that belongs to a node and uses the given timekeeper.
    pub(crate) fn of_node(node: NodeId, time_keeper: Option<&'static dyn TimeKeeper>) -> Result<Self, SpawnError> {
        let mut token = TABLE.take().ok_or(SpawnError::Slots)?;
        let owner = lock(&UNUSED).pop().unwrap_or_else(MailboxOwner::new);
        let home = owner.home.get().unwrap_or_else(|| unreachable!("set when the owner was made"));
        home.renumber(node, HOSTLESS);
        *lock(&owner.time_keeper) = time_keeper;
        token.slot().metadata.wipe();
        let pid = token.open(home);
        lock(&owner.cell).token = Some(token.release());
        Ok(Self { owner, pid, joined: Vec::new() })
    }

    /// Returns the PID of the mailbox.
    pub fn pid(&self) -> Pid {
        self.pid
    }

    /// Returns the next package, if there is one now. Never blocks.
    pub fn try_receive(&mut self) -> Option<Package> {
        match self.poll_package(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(package) => Some(package),
            Poll::Pending => None,
        }
    }

    /// Blocks the thread until there is a package. Inside a process, another thread runs the other processes in the
    /// meantime.
    pub fn receive(&mut self) -> Package {
        while_blocked(|| block_on(self.received()))
    }

    /// Blocks for at most `timeout`, measured by the system's clock. Returns `None` if no package arrived.
    pub fn receive_timeout(&mut self, timeout: Duration) -> Option<Package> {
        let deadline = instant_now().checked_add(timeout);
        while_blocked(|| block_on_until(pin!(self.received()), deadline))
    }

    /// Waits for a package, in async code. Cancel safe: no package is lost if the future is dropped.
    pub async fn received(&mut self) -> Package {
        poll_fn(|context| self.poll_package(context)).await
    }

    fn poll_package(&mut self, context: &mut Context<'_>) -> Poll<Package> {
        loop {
            // The waker is cloned and dropped outside the lock, because it runs code of its executor.
            let mut waker = Some(context.waker().clone());
            let mut cell = lock(&self.owner.cell);
            let Some(token) = cell.token.take() else {
                std::mem::swap(&mut cell.waker, &mut waker);
                drop(cell);
                return Poll::Pending;
            };
            drop(cell);
            let mut used = InUse { owner: self.owner, token: Some(token.acquire()) };
            self.take_controls(used.token());
            let envelope = used.token().lanes().pop_data();
            let Some(envelope) = envelope else {
                // The next sender takes the parked token and wakes this task.
                if !used.park_idle() {
                    // The token could not be parked, because a send is in progress.
                    yield_now();
                }
                continue;
            };
            if envelope.generation != self.pid.generation() {
                used.token().dead_letter(envelope, DeadLetterReason::Ended, &ExitReason::NoProcess);
                continue;
            }
            if envelope.kind == NodeKind::Notice {
                // A linked process has ended, and the link is removed. Requests that arrived before this notice are
                // handled first.
                self.take_controls(used.token());
                if let Some(Ok(Control::Link(sent))) = envelope.payload.map(Payload::take::<Control>) {
                    receive(used.token(), *sent);
                }
                continue;
            }
            drop(used);
            if envelope.kind == NodeKind::Message {
                // SAFETY: the word of a message is its caller, or null, and this envelope is its only holder.
                let package = unsafe { package_of(self.pid, envelope) };
                // The owner may pass the package on, or answer it after the mailbox is gone.
                if package.keep() {
                    return Poll::Ready(package);
                }
                package.throw_away();
            }
        }
    }

    /// Handles requests: a mailbox can be joined, linked, monitored and inspected, but not stopped, cancelled or
    /// killed.
    fn take_controls(&mut self, token: &mut Token) {
        let mut controls = token.lanes().take_control();
        while let Some(mut node) = controls.pop() {
            let envelope = node.take();
            node_pool::recycle(node);
            if envelope.generation != self.pid.generation() {
                continue;
            }
            match envelope.payload.map(Payload::take::<Control>) {
                Some(Ok(Control::Join(join))) => keep_join(&mut self.joined, join),
                Some(Ok(Control::Link(sent))) => receive(token, *sent),
                // SAFETY: this is the token, and nothing else accesses the cold state of a mailbox.
                Some(Ok(Control::Inspect(inspect))) => inspect.answer(unsafe { token.slot().inspect() }),
                other => dispose(Site::EventDrop, other),
            }
        }
    }
}

/// Handles a link message. It never ends the mailbox.
fn receive(token: &mut Token, sent: SentLinkMessage) {
    // SAFETY: this is the token, and nothing else accesses the cold state of a mailbox.
    let effect = unsafe { token.slot().receive(sent) };
    dispose(Site::ReasonDrop, effect);
}

impl MailboxOwner {
    fn new() -> &'static Self {
        let owner: &'static Self = Box::leak(Box::new(Self {
            cell: Mutex::default(),
            home: OnceLock::new(),
            time_keeper: Mutex::new(None),
            loss_limits: LossLimits::default(),
        }));
        let home = SlotOwner::new(owner, program_node(), HOSTLESS);
        let _first = owner.home.set(Box::leak(Box::new(home)));
        owner
    }
}

impl Drop for Mailbox {
    fn drop(&mut self) {
        // If a thread has taken the token to wake the mailbox, it is about to return it.
        let mut token = loop {
            if let Some(token) = lock(&self.owner.cell).token.take() {
                break token.acquire();
            }
            match TABLE.slot(self.pid.slot()).and_then(Token::claim_own) {
                Some(token) => break token,
                None => yield_now(),
            }
        };
        token.close();
        REGISTRATIONS.end(self.pid, &ExitReason::Normal);
        while let Some(envelope) = token.lanes().pop_data() {
            token.dead_letter(envelope, DeadLetterReason::Ended, &ExitReason::Normal);
        }
        self.take_controls(&mut token);
        let (slot, links) = (token.slot(), token.take_cold_state().and_then(|cold_state| cold_state.links));
        if let Some(links) = links {
            tell_bound(slot, self.pid, *links, &ExitReason::Normal);
        }
        TABLE.take_back(token);
        let cell = std::mem::take(&mut *lock(&self.owner.cell));
        // The waker is disposed of outside the lock, because it runs code of its executor.
        dispose(Site::MailboxWaker, cell.waker);
        lock(&UNUSED).push(self.owner);
        self.joined.drain(..).for_each(|join| join.notify(&ExitReason::Normal));
    }
}

/// Yields the packages that [`Mailbox::received`] returns. The stream never ends.
impl Stream for Mailbox {
    type Item = Package;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Package>> {
        self.get_mut().poll_package(context).map(Some)
    }
}

/// Delivers each package to the mailbox itself, whatever its destination.
impl Receiver for Mailbox {
    fn deliver(&self, package: Package) -> Result<(), Undeliverable> {
        route(package.readdressed(self.pid))
    }
}

crate::util::debug::impl_debug!([] Mailbox, self => "Mailbox{}", self.pid);
