//! The relay: it routes packages to their mailboxes.
//!
//! A [`Receiver`] accepts packages. Receivers are the mailbox of a process, a stand-alone [`Mailbox`](crate::Mailbox),
//! a host (by PID), a node (by host) and the router (by node). Each refuses packages that are not for it, with a typed
//! error that contains the package.
//!
//! A send to an address goes straight to the slot. The receivers above serve code that has only a package and a PID,
//! transports that deliver packages from other nodes, and tests.

use super::connection::Connection;
use super::hosts::{is_elsewhere, is_here};
use super::transport::{Receiver, Transport};
use super::transport_queue::TransportQueue;
use super::{alias, hosts};
use crate::call::caller::Caller;
use crate::call::package::{Package, Undeliverable};
pub(crate) use crate::env::program::this_node;
use crate::env::program::{as_node, program_node};
use crate::mailbox::node::{Envelope, NodeKind};
use crate::mailbox::payload::Payload;
use crate::pid::{NodeId, Pid, Resident};
use crate::slots::{RefusalReason, SendPolicy, SendRefusal, TABLE};
use crate::sync::{Arc, OnceLock, PoisonError, RwLock, simulated};
use crate::thread_cache;
use crate::{env::world::World, errors::SendFailure};
use std::collections::BTreeMap;

/// Delivers a package to its PID, locally or through the program's router.
#[inline]
pub(crate) fn route(package: Package) -> Result<(), Undeliverable> {
    let pid = package.to();
    if !is_here(pid) {
        return Router::with(this_node(), |router| router.deliver(package));
    }
    let (_, payload, caller) = package.into_parts();
    deliver(pid, payload, caller)
}

/// Sends a message without a caller. This is the fast path.
///
/// # Errors
/// Returns the message and the reason.
#[inline]
pub(crate) fn send<M: Send + 'static>(pid: Pid, message: M) -> Result<(), (M, SendFailure)> {
    try_send(pid, message).or_else(|(message, why)| call_on(pid, message, None, why))
}

/// Sends to a process of this program, if it is alive. The slot's check of the PID includes the node.
#[inline]
fn try_send<M: Send + 'static>(pid: Pid, message: M) -> Result<(), (M, RefusalReason)> {
    match TABLE.slot(pid.slot()) {
        Some(slot) if !is_elsewhere(pid) => thread_cache::send::send(slot, pid, message),
        _ => Err((message, RefusalReason::Gone)),
    }
}

/// Sends a message with a caller; a refusal also fails the caller. This is always inlined, so that the poll that sends
/// a call contains it. Other callers go through a function that is not inlined.
///
/// # Errors
/// Returns the message and the reason.
#[inline(always)]
pub(crate) fn call<M: Send + 'static>(pid: Pid, message: M, caller: Caller) -> Result<(), (M, SendFailure)> {
    try_call(pid, message, caller).or_else(|(message, caller, why)| call_on(pid, message, caller, why))
}

#[inline(always)]
fn try_call<M: Send + 'static>(pid: Pid, message: M, caller: Caller) -> Result<(), (M, Option<Caller>, RefusalReason)> {
    match TABLE.slot(pid.slot()) {
        Some(slot) if !is_elsewhere(pid) => thread_cache::send::call(slot, pid, message, caller),
        _ => Err((message, Some(caller), RefusalReason::Gone)),
    }
}

/// Continues a send for which there is no room or no live process here (`why`): sends the message to another node, or
/// to the target of an alias. Otherwise fails the caller and returns the message.
#[cold]
fn call_on<M: Send + 'static>(
    pid: Pid,
    message: M,
    caller: Option<Caller>,
    why: RefusalReason,
) -> Result<(), (M, SendFailure)> {
    let message = Typed(message, caller);
    let sent = match why {
        RefusalReason::Full => Err((message, SendFailure::Full(pid))),
        RefusalReason::Gone if !is_here(pid) => message.abroad(pid),
        RefusalReason::Gone => follow(pid, message),
    };
    sent.map_err(|(Typed(message, caller), reason)| {
        if let Some(caller) = caller {
            caller.fail(reason.into());
        }
        (message, reason)
    })
}

pub(crate) fn unpack<M: Send + 'static>(payload: Payload) -> M {
    match payload.take() {
        Ok(message) => message,
        Err(other) => unreachable!("a receiver gave back `{}` for another message", other.type_name()),
    }
}

/// Delivers a message to a process of this program.
#[inline]
pub(crate) fn deliver(pid: Pid, payload: Payload, caller: Option<Caller>) -> Result<(), Undeliverable> {
    try_deliver(pid, payload, caller).or_else(|(package, why)| deliver_on(pid, package, why))
}

#[inline]
fn try_deliver(pid: Pid, payload: Payload, caller: Option<Caller>) -> Result<(), (Package, RefusalReason)> {
    let Some(slot) = TABLE.slot(pid.slot()).filter(|_| !is_elsewhere(pid)) else {
        return Err((Package::from_parts(pid, payload, caller), RefusalReason::Gone));
    };
    slot.deliver(pid, NodeKind::Message, caller, Some(payload), SendPolicy::Bounded).map_err(|refusal| {
        let SendRefusal(envelope, why) = *refusal;
        // SAFETY: the word is that of the caller, and the envelope is its only holder.
        (unsafe { package_of(pid, envelope) }, why)
    })
}

/// # Safety
/// The word of the envelope is that of its caller, or null, and no other code uses that word.
pub(crate) unsafe fn package_of(pid: Pid, envelope: Envelope) -> Package {
    // SAFETY: the caller's promise.
    let caller = unsafe { Caller::from_word(envelope.word) };
    Package::from_parts(pid, envelope.payload.unwrap_or_else(|| Payload::new(())), caller)
}

/// Delivers a message that was accepted earlier, however full the mailbox is. If the PID is not a process of this
/// program, this is like any other send.
///
/// # Errors
/// Returns the package if the process has ended.
pub(crate) fn deliver_anyway(pid: Pid, payload: Payload, caller: Option<Caller>) -> Result<(), Undeliverable> {
    let Some(slot) = TABLE.living(pid).filter(|_| !is_elsewhere(pid)) else {
        return route(Package::from_parts(pid, payload, caller));
    };
    slot.deliver(pid, NodeKind::Message, caller, Some(payload), SendPolicy::Anyway).map_err(|refusal| {
        // SAFETY: the word is that of the caller, and the envelope is its only holder.
        let package = unsafe { package_of(pid, refusal.0) };
        Undeliverable { package, reason: SendFailure::Gone(pid) }
    })
}

/// Continues a delivery that `pid` has refused with `why`: if `pid` is an alias, delivers the package to its target.
/// Returns the package if `pid` is not an alias or its mailbox is full.
#[cold]
fn deliver_on(pid: Pid, package: Package, why: RefusalReason) -> Result<(), Undeliverable> {
    if why == RefusalReason::Full {
        return Err(Undeliverable { package, reason: SendFailure::Full(pid) });
    }
    follow(pid, package).map_err(|(package, reason)| Undeliverable { package: package.into_package(pid), reason })
}

fn failure(pid: Pid, why: RefusalReason) -> SendFailure {
    match why {
        RefusalReason::Gone => SendFailure::Gone(pid),
        RefusalReason::Full => SendFailure::Full(pid),
    }
}

/// How many times a send resolves an alias if its target has ended each time. The value is a guess: a child that ends
/// so many times during one send counts as absent.
const TRIES: usize = 4;

/// A typed message, or a package, that is sent through an alias.
trait Routable: Sized {
    /// Delivers the message to a process.
    fn bring(self, to: Pid) -> Result<(), (Self, SendFailure)>;
    fn into_package(self, to: Pid) -> Package;
    fn from_package(package: Package) -> Self;

    /// Routes the message as a package, usually to another node.
    fn abroad(self, to: Pid) -> Result<(), (Self, SendFailure)> {
        route(self.into_package(to)).map_err(|refused| (Self::from_package(refused.package), refused.reason))
    }
}

struct Typed<M>(M, Option<Caller>);

impl<M: Send + 'static> Routable for Typed<M> {
    fn bring(self, to: Pid) -> Result<(), (Self, SendFailure)> {
        if !is_here(to) {
            return self.abroad(to);
        }
        let refused = match self {
            Self(message, None) => try_send(to, message).map_err(|(message, why)| (Self(message, None), why)),
            Self(message, Some(caller)) => {
                try_call(to, message, caller).map_err(|(message, caller, why)| (Self(message, caller), why))
            }
        };
        refused.map_err(|(this, why)| (this, failure(to, why)))
    }

    fn into_package(self, to: Pid) -> Package {
        Package::from_parts(to, Payload::sent(self.0), self.1)
    }

    fn from_package(package: Package) -> Self {
        let (_, payload, caller) = package.into_parts();
        Self(unpack(payload), caller)
    }
}

impl Routable for Package {
    fn bring(self, to: Pid) -> Result<(), (Self, SendFailure)> {
        if !is_here(to) {
            return self.abroad(to);
        }
        let (_, payload, caller) = self.into_parts();
        try_deliver(to, payload, caller).map_err(|(package, why)| (package, failure(to, why)))
    }

    fn into_package(self, to: Pid) -> Package {
        self.readdressed(to)
    }

    fn from_package(package: Package) -> Self {
        package
    }
}

/// A sender's use of the current process of an alias.
struct Visit<'a> {
    alias: &'a dyn alias::AliasTarget,
    process: Pid,
}

impl<'a> Visit<'a> {
    fn begin(alias: &'a dyn alias::AliasTarget) -> Option<Self> {
        alias.enter().map(|process| Self { alias, process })
    }
}

impl Drop for Visit<'_> {
    fn drop(&mut self) {
        self.alias.left();
    }
}

/// Returns the reason why nothing can be sent to a PID without a process.
#[cold]
pub(crate) fn gone(pid: Pid) -> SendFailure {
    if hosts::is_down(pid.host_number()) { SendFailure::Shutdown(pid) } else { SendFailure::Gone(pid) }
}

/// Delivers `message` to the target of the alias `pid`. A refusal names `pid`, the PID that the sender knows.
fn follow<M: Routable>(pid: Pid, message: M) -> Result<(), (M, SendFailure)> {
    follow_from(pid, message, 0).map_err(|(message, reason)| match (reason, gone(pid)) {
        (SendFailure::Gone(_), gone) => (message, gone),
        (SendFailure::UnknownName | SendFailure::Restarting(_), shutdown @ SendFailure::Shutdown(_)) => {
            (message, shutdown)
        }
        (reason, _) => (message, reason.about(pid)),
    })
}

fn follow_from<M: Routable>(pid: Pid, mut message: M, depth: usize) -> Result<(), (M, SendFailure)> {
    let Some(alias) = alias::target_of(pid).filter(|_| depth < alias::DEPTH) else {
        return Err((message, SendFailure::Gone(pid)));
    };
    let mut asked = None;
    for _ in 0..TRIES {
        let Some(visit) = Visit::begin(&*alias) else { break };
        let process = visit.process;
        if asked.replace(process) == Some(process) {
            // This is the same process again. It has ended, so another attempt is useless.
            break;
        }
        let brought = match alias::is_local_alias(process) {
            true => follow_from(process, message, depth + 1),
            false => message.bring(process),
        };
        match brought {
            Ok(()) => return Ok(()),
            // An unknown node means that a child on another node is lost. Its successor may get the message.
            Err((back, SendFailure::Gone(_) | SendFailure::UnknownNode(_))) => message = back,
            refused => return refused,
        }
    }
    let taken = alias.take(message.into_package(pid));
    taken.map_err(|refused| (M::from_package(refused.package), refused.reason))
}

/// Delivers to the mailbox of the PID.
impl Receiver for Pid {
    fn deliver(&self, package: Package) -> Result<(), Undeliverable> {
        route(package.readdressed(*self))
    }
}

/// A node of this program. As a [`Receiver`], it delivers packages from other nodes to its processes.
///
/// A program is one node. With the feature `test`, runtimes built with `Builder::logical_node` are additional nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Node(NodeId);

impl Node {
    /// Returns the node of this program or, in a process of a logical node, that node.
    pub fn this() -> Self {
        Self(this_node())
    }

    /// Returns the node with this ID; `None` if it is not one of this program.
    pub fn of(id: NodeId) -> Option<Self> {
        hosts::is_of_program(id).then_some(Self(id))
    }

    /// Returns the ID of the node. It is the first part of the node's PIDs.
    pub fn id(self) -> NodeId {
        self.0
    }

    /// Runs `body` as code of this node: its sends to processes of other nodes go through this node's transports. This
    /// is meant for code outside of processes in a program with several nodes. It has no effect in other programs.
    pub fn enter<R>(self, body: impl FnOnce() -> R) -> R {
        as_node(self.0, body)
    }
}

impl Receiver for Node {
    fn deliver(&self, package: Package) -> Result<(), Undeliverable> {
        let pid = package.to();
        if pid.node() != self.0 || !hosts::is_of_program(self.0) {
            return Err(Undeliverable { package, reason: SendFailure::UnknownNode(pid) });
        }
        if !hosts::is_known(pid.host_number()) {
            return Err(Undeliverable { package, reason: SendFailure::UnknownHost(pid) });
        }
        // A PID whose host differs from that of the process in its slot was never given out.
        let living = TABLE.slot(pid.slot()).filter(|slot| !pid.is_alias() && slot.living() == Some(pid.generation()));
        if living.and_then(Resident::resident).is_some_and(|resident| resident.host_number() != pid.host_number()) {
            return Err(Undeliverable { package, reason: SendFailure::UnknownHost(pid) });
        }
        let (_, payload, caller) = package.into_parts();
        self.enter(|| deliver(pid, payload, caller))
    }
}

/// Routes the sends of one node: to its own processes directly, to other nodes through their transports.
#[derive(Clone)]
pub struct Router {
    local: NodeId,
    pub(super) nodes: Arc<RwLock<BTreeMap<NodeId, Arc<Connection>>>>,
}

impl Router {
    /// Creates a router that knows only this node. It is meant for tests, since sends use the [router of the
    /// program](Self::of_program).
    pub fn new() -> Self {
        Self::from(this_node())
    }

    fn from(local: NodeId) -> Self {
        Self { local, nodes: Arc::default() }
    }

    /// Returns the router that this program's sends use.
    pub fn of_program() -> &'static Self {
        static ROUTER: World<OnceLock<Router>> = World::new(OnceLock::new());
        ROUTER.get_or_init(|| Self::from(program_node()))
    }

    /// Returns the router that the sends of a node use: that of the program, or of a logical node. All clones share its
    /// connections. Nothing is sent through the router of a node that is not one of this program's.
    pub fn of_node(local: NodeId) -> Self {
        if local == program_node() {
            return Self::of_program().clone();
        }
        if simulated::ARE_BUILT { Self::of_logical(local) } else { Self::from(local) }
    }

    /// Calls `look` with the router that the sends of a node of this program use.
    pub(super) fn with<R>(local: NodeId, look: impl FnOnce(&Self) -> R) -> R {
        if simulated::ARE_BUILT && local != program_node() {
            return look(&Self::of_logical(local));
        }
        debug_assert_eq!(local, program_node(), "it is the only one");
        look(Self::of_program())
    }

    fn logical() -> &'static RwLock<BTreeMap<NodeId, Self>> {
        static ROUTERS: World<OnceLock<RwLock<BTreeMap<NodeId, Router>>>> = World::new(OnceLock::new());
        ROUTERS.get_or_init(RwLock::default)
    }

    fn of_logical(local: NodeId) -> Self {
        if let Some(router) = Self::logical().read().unwrap_or_else(PoisonError::into_inner).get(&local) {
            return router.clone();
        }
        let mut routers = Self::logical().write().unwrap_or_else(PoisonError::into_inner);
        routers.entry(local).or_insert_with(|| Self::from(local)).clone()
    }

    /// Removes the router and the transports of a logical node that has ended.
    pub(crate) fn forget(local: NodeId) {
        let router = Self::logical().write().unwrap_or_else(PoisonError::into_inner).remove(&local);
        if let Some(router) = router {
            router.nodes().into_iter().for_each(|node| _ = router.disconnect(node));
        }
    }

    /// Disconnects `node`: sends to it are refused as [`SendFailure::UnknownNode`], and links, monitors and joins with
    /// its processes end with [`ExitReason::NodeLost`](crate::ExitReason::NodeLost). Returns whether it was connected.
    pub fn disconnect(&self, node: NodeId) -> bool {
        let before = self.nodes.write().unwrap_or_else(PoisonError::into_inner).remove(&node);
        before.map(|before| before.lose()).is_some()
    }

    /// Returns a clone of the connection to a node, so that a transport may connect and disconnect in its methods.
    pub(super) fn connection(&self, node: NodeId) -> Option<Arc<Connection>> {
        self.nodes.read().unwrap_or_else(PoisonError::into_inner).get(&node).cloned()
    }

    /// Returns the number of links, monitors and joins between processes of this node and of `node`.
    pub fn ties(&self, node: NodeId) -> usize {
        self.connection(node).map_or(0, |connection| connection.ties())
    }

    /// Returns the connected nodes.
    pub fn nodes(&self) -> Vec<NodeId> {
        self.nodes.read().unwrap_or_else(PoisonError::into_inner).keys().copied().collect()
    }
}

/// Sends through transports on behalf of the code that the thread runs. If that code is a process, it may be suspended.
pub(crate) trait RemoteSender: Send + Sync {
    fn deliver(&self, transport: &dyn Transport, package: Package) -> Result<(), Undeliverable>;
}

/// The engine's implementation. It is set once there is a host.
static SENDER: World<OnceLock<&'static dyn RemoteSender>> = World::new(OnceLock::new());

pub(crate) fn set_remote_sender(sender: &'static dyn RemoteSender) {
    SENDER.get_or_init(|| sender);
}

fn send_through(transport: &dyn Transport, package: Package) -> Result<(), Undeliverable> {
    match SENDER.get() {
        Some(sender) => sender.deliver(transport, package),
        None => transport.deliver(package),
    }
}

/// Delivers a package beyond the bound of its transport, after there was no room for it.
///
/// # Errors
/// Returns the package if there is no room for it even beyond the bound, or if its node is no longer connected.
pub(crate) fn deliver_beyond(package: Package) -> Result<(), Undeliverable> {
    let pid = package.to();
    match Router::with(this_node(), |router| router.connection(pid.node())) {
        Some(connection) => connection.transport().deliver_beyond(package),
        None => Err(Undeliverable { package, reason: SendFailure::UnknownNode(pid) }),
    }
}

/// Returns the queue of the transport for a PID of another node, if the node is connected and its transport has a
/// queue.
pub(crate) fn queue_abroad(pid: Pid) -> Option<TransportQueue> {
    let connection = Router::with(this_node(), |router| router.connection(pid.node()))?;
    connection.transport().queue(pid)
}

impl Default for Router {
    fn default() -> Self {
        Self::new()
    }
}

impl std::fmt::Debug for Router {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Router").field("local", &self.local).field("nodes", &self.nodes()).finish()
    }
}

impl Receiver for Router {
    fn deliver(&self, package: Package) -> Result<(), Undeliverable> {
        let pid = package.to();
        if pid.node() == self.local {
            return Node(self.local).deliver(package);
        }
        match self.connection(pid.node()) {
            Some(connection) => send_through(connection.transport(), package).map_err(|refused| {
                // The full mailbox may be that of one of the transport's own processes. The sender does not know the
                // PID of such a process.
                let Undeliverable { package, reason } = refused;
                let reason = if matches!(reason, SendFailure::Full(_)) { SendFailure::Full(pid) } else { reason };
                Undeliverable { package, reason }
            }),
            None => Err(Undeliverable { package, reason: SendFailure::UnknownNode(pid) }),
        }
    }
}
