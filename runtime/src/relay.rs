//! The relay: how a package finds its mailbox.
//!
//! A [`Receiver`] takes packages. The mailbox of a process is one, and so are a stand-alone [`Mailbox`](crate::Mailbox), a
//! host (by PID), a node (by host) and the router (by node). Each hands what is not its own to nobody: it refuses, typed,
//! with the package in the error.
//!
//! Sending to an address goes straight to the slot; the stations above are for whoever has a package and a PID only, for
//! engines that bring packages from other nodes, and for tests.

use crate::caller::Caller;
use crate::errors::{CallError, SendFailure};
use crate::exit::ExitReason;
use crate::mailbox::node::Kind;
use crate::package::{Package, Refused};
use crate::payload::Payload;
use crate::pid::{NodeId, Pid};
use crate::sync::{Arc, AtomicU64, OnceLock, Ordering, PoisonError, RwLock};
use crate::table::{Refusal, Slot, TABLE, Why};
use std::collections::{HashMap, HashSet};
use std::ptr;

/// Takes packages.
pub trait Receiver: Send + Sync {
    /// Takes `package`, which is not necessarily handled yet.
    ///
    /// # Errors
    /// [`Refused`] with the package in it, if there is no one here whom it is for.
    fn send(&self, package: Package) -> Result<(), Refused>;
}

/// Puts a message into a mailbox.
#[inline]
pub(crate) fn post(slot: &'static Slot, pid: Pid, payload: Payload, caller: Option<Caller>) -> Result<(), Refused> {
    let word = caller.map_or(ptr::null_mut(), Caller::into_word);
    slot.post(Kind::Message, pid.generation(), word, Some(payload)).map_err(|refusal| {
        let Refusal(letter, why) = *refusal;
        // SAFETY: the word is what was made of the caller above, and the letter came back whole.
        let caller = unsafe { Caller::from_word(letter.word) };
        let payload = letter.payload.unwrap_or_else(|| Payload::new(()));
        Refused { package: Package::from_parts(pid, payload, caller), reason: failure(pid, why) }
    })
}

fn failure(pid: Pid, why: Why) -> SendFailure {
    match why {
        Why::Gone => SendFailure::Gone(pid),
        Why::Full => SendFailure::Full(pid),
    }
}

/// Brings a package to wherever its PID says: here, or through the program's router.
#[inline]
pub(crate) fn route(package: Package) -> Result<(), Refused> {
    let pid = package.to();
    if pid.node() != this_node() {
        return Router::of_program().send(package);
    }
    let (_, payload, caller) = package.into_parts();
    deliver(pid, payload, caller)
}

/// Sends a message that nobody waits for an answer to: the path that all others branch off from.
///
/// # Errors
/// The message, with the reason.
#[inline]
pub(crate) fn send<M: Send + 'static>(pid: Pid, message: M) -> Result<(), (M, SendFailure)> {
    if pid.node() != this_node() {
        return send_abroad(pid, message);
    }
    match TABLE.slot(pid.slot()) {
        Some(slot) => slot.send(pid.generation(), message).map_err(|(message, why)| (message, failure(pid, why))),
        None => Err((message, SendFailure::Gone(pid))),
    }
}

/// Sends a message with someone who waits for the answer; a refusal tells them so.
///
/// # Errors
/// The message, with the reason.
#[inline]
pub(crate) fn call<M: Send + 'static>(pid: Pid, message: M, caller: Caller) -> Result<(), (M, SendFailure)> {
    if pid.node() != this_node() {
        return call_abroad(pid, message, caller);
    }
    let refused = match TABLE.slot(pid.slot()) {
        Some(slot) => slot.call(pid.generation(), message, caller),
        None => Err((message, Some(caller), Why::Gone)),
    };
    refused.map_err(|(message, caller, why)| {
        if let Some(caller) = caller {
            caller.fail(match why {
                Why::Gone => CallError::Gone(ExitReason::Gone),
                Why::Full => CallError::Full,
            });
        }
        (message, failure(pid, why))
    })
}

#[cold]
fn call_abroad<M: Send + 'static>(pid: Pid, message: M, caller: Caller) -> Result<(), (M, SendFailure)> {
    route(Package::from_parts(pid, Payload::new(message), Some(caller))).map_err(|refused| {
        let (_, payload, caller) = refused.package.into_parts();
        if let Some(caller) = caller {
            caller.fail(CallError::Gone(ExitReason::Gone));
        }
        (unpack(payload), refused.reason)
    })
}

/// The message of a package that was refused.
fn unpack<M: Send + 'static>(payload: Payload) -> M {
    match payload.take() {
        Ok(message) => message,
        Err(other) => unreachable!("a receiver gave back `{}` for another message", other.type_name()),
    }
}

#[cold]
fn send_abroad<M: Send + 'static>(pid: Pid, message: M) -> Result<(), (M, SendFailure)> {
    route(Package::new(pid, message)).map_err(|refused| {
        let (_, payload, _) = refused.package.into_parts();
        (unpack(payload), refused.reason)
    })
}

/// Brings a message to a process of this program.
#[inline]
pub(crate) fn deliver(pid: Pid, payload: Payload, caller: Option<Caller>) -> Result<(), Refused> {
    match TABLE.slot(pid.slot()) {
        Some(slot) => post(slot, pid, payload, caller),
        None => Err(Refused { package: Package::from_parts(pid, payload, caller), reason: SendFailure::Gone(pid) }),
    }
}

/// The mailbox that a PID names.
impl Receiver for Pid {
    fn send(&self, package: Package) -> Result<(), Refused> {
        let (_, payload, caller) = package.into_parts();
        route(Package::from_parts(*self, payload, caller))
    }
}

/// This run of this program. Drawn once, before the first PID is given out.
#[inline]
pub fn this_node() -> NodeId {
    NodeId::new(NODE.load(Ordering::Relaxed)).unwrap_or_else(draw_node)
}

/// Zero until it is drawn.
static NODE: AtomicU64 = AtomicU64::new(0);

#[cold]
fn draw_node() -> NodeId {
    let drawn = NodeId::from_random(crate::random::entropy());
    match NODE.compare_exchange(0, drawn.get(), Ordering::Relaxed, Ordering::Relaxed) {
        Ok(_) => drawn,
        Err(first) => NodeId::new(first).unwrap_or(drawn),
    }
}

/// A node: it brings packages to its hosts.
#[derive(Clone, Copy, Debug)]
pub struct Node(NodeId);

impl Node {
    /// This program.
    pub fn this() -> Self {
        Self(this_node())
    }

    /// Its number.
    pub fn id(self) -> NodeId {
        self.0
    }
}

impl Receiver for Node {
    fn send(&self, package: Package) -> Result<(), Refused> {
        let pid = package.to();
        if pid.node() != self.0 {
            return Err(Refused { package, reason: SendFailure::UnknownNode(pid) });
        }
        if !hosts().read().unwrap_or_else(PoisonError::into_inner).contains(&pid.host()) {
            return Err(Refused { package, reason: SendFailure::UnknownHost(pid) });
        }
        // A PID that names another host than the one whose process is there was never given out.
        let home = TABLE.slot(pid.slot()).and_then(Slot::home);
        if home.is_some_and(|home| home.host != pid.host()) {
            return Err(Refused { package, reason: SendFailure::UnknownHost(pid) });
        }
        let (_, payload, caller) = package.into_parts();
        deliver(pid, payload, caller)
    }
}

/// The number that stand-alone mailboxes have in place of a host's.
pub(crate) const THREADS: u16 = u16::MAX;

/// The numbers of the hosts that this node has or had.
fn hosts() -> &'static RwLock<HashSet<u16>> {
    static HOSTS: OnceLock<RwLock<HashSet<u16>>> = OnceLock::new();
    HOSTS.get_or_init(|| RwLock::new(HashSet::from([THREADS])))
}

/// A number for a new host. After 65,535 of them the numbers start anew: what makes a PID unique is its slot and
/// generation, which all hosts of a program share.
pub(crate) fn new_host() -> u16 {
    use crate::sync::AtomicU16;
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed) % THREADS;
    hosts().write().unwrap_or_else(PoisonError::into_inner).insert(number);
    number
}

/// Brings packages to nodes: to this program by itself, to others by whatever engine was connected for them.
#[derive(Clone, Default)]
pub struct Router {
    nodes: Arc<RwLock<HashMap<NodeId, Arc<dyn Receiver>>>>,
}

impl Router {
    /// A router that knows this program only.
    pub fn new() -> Self {
        Self::default()
    }

    /// The router that sends from this program go through.
    pub fn of_program() -> &'static Self {
        static ROUTER: OnceLock<Router> = OnceLock::new();
        ROUTER.get_or_init(Self::new)
    }

    /// From here on `engine` takes the packages for `node`.
    pub fn connect(&self, node: NodeId, engine: Arc<dyn Receiver>) {
        self.nodes.write().unwrap_or_else(PoisonError::into_inner).insert(node, engine);
    }

    /// From here on packages for `node` are refused. Gives whether it was connected.
    pub fn disconnect(&self, node: NodeId) -> bool {
        self.nodes.write().unwrap_or_else(PoisonError::into_inner).remove(&node).is_some()
    }
}

impl std::fmt::Debug for Router {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let nodes = self.nodes.read().unwrap_or_else(PoisonError::into_inner);
        f.debug_struct("Router").field("nodes", &nodes.keys().collect::<Vec<_>>()).finish()
    }
}

impl Receiver for Router {
    fn send(&self, package: Package) -> Result<(), Refused> {
        let pid = package.to();
        if pid.node() == this_node() {
            return Node::this().send(package);
        }
        // Cloned, so that an engine may connect and disconnect from inside its `send`.
        let engine = self.nodes.read().unwrap_or_else(PoisonError::into_inner).get(&pid.node()).cloned();
        match engine {
            Some(engine) => engine.send(package),
            None => Err(Refused { package, reason: SendFailure::UnknownNode(pid) }),
        }
    }
}
