//! Link messages between this node and another: a transport, and what depends on it.
//!
//! * A message is noted among the [`Ties`] before it is sent or posted, in one lock with the check that the connection
//!   is not lost. So the loss, which takes the ties under that lock, tells of each tie or comes first, and then the
//!   message is answered here.
//! * A message from the other node that was posted while the connection was lost could arrive after the notice of the
//!   loss. So it is followed by a second notice, which finds nothing to do if the first came later.
//!
//! A process may come to a message of this connection when it is tied to the other over the next one. So the message
//! is posted with the [`ConnectionId`], and a link ends with what came by its own connection only. A message that links
//! is therefore sent over the connection that its process has noted, or is answered: see [`Way`].
//!
//! No lock is held while a transport or a process is told.

use super::alias::{self, EndSource};
use super::joins;
use super::router::Router;
use super::ties::{Ties, answer_for_the_lost};
use super::transport::{ControlMessage, Transport};
use crate::env::program::this_node;
use crate::env::world::World;
use crate::exit::ExitReason;
use crate::links::message::{Bindings, LinkEndpoint, SentLinkMessage};
use crate::links::protocol::{ConnectionId, LinkEffect, LinkMessage};
use crate::mailbox::node::Envelope;
use crate::pid::{NodeId, Pid, Resident};
use crate::slots::TABLE;
use crate::sync::{Arc, AtomicU64, Mutex, Ordering, lock};
use crate::util::panics::{Site, contain, dispose};

/// A transport, and the ties that end with it.
pub(super) struct Connection {
    id: ConnectionId,
    transport: Arc<dyn Transport>,
    /// `None` when it is lost.
    ties: Mutex<Option<Ties>>,
}

impl Connection {
    pub(super) fn new(transport: Arc<dyn Transport>) -> Self {
        static LAST: World<AtomicU64> = World::new(AtomicU64::new(ConnectionId::LOCAL.0));
        let id = ConnectionId(LAST.fetch_add(1, Ordering::Relaxed) + 1);
        Self { id, transport, ties: Mutex::new(Some(Ties::default())) }
    }

    pub(super) fn transport(&self) -> &dyn Transport {
        &*self.transport
    }

    /// Returns how many ties would end if the connection were lost.
    pub(super) fn ties(&self) -> usize {
        lock(&self.ties).as_ref().map_or(0, Ties::count)
    }

    /// Sends a message of a local process. Returns whether it was sent. A panic of the transport is contained: others
    /// may still have to be told, by a process that exits.
    fn send(&self, from: Pid, to: Pid, message: LinkMessage<ExitReason>) -> bool {
        let names = lock(&self.ties).as_mut().map(|ties| ties.sends(from, to, &message));
        let Some(names) = names else {
            dispose(Site::ReasonDrop, message);
            return false;
        };
        let copies = names.iter().skip(1).map(|alias| (*alias, message.clone())).collect::<Vec<_>>();
        copies.into_iter().for_each(|(alias, copy)| _ = self.pass(alias, to, copy));
        let is_sent = self.pass(from, to, message.clone());
        if !is_sent && let Some(ties) = &mut *lock(&self.ties) {
            ties.unsent(from, to, &message);
        }
        dispose(Site::ReasonDrop, message);
        is_sent
    }

    /// Passes a message to the transport. Returns whether that has accepted it.
    fn pass(&self, from: Pid, to: Pid, message: LinkMessage<ExitReason>) -> bool {
        match contain(Site::Transport, || self.transport.send_link(from, to, message)) {
            Ok(Ok(())) => true,
            Ok(Err(refused)) => {
                dispose(Site::ReasonDrop, refused);
                false
            }
            Err(panic) => {
                crate::util::log::error!(%to, %panic, "a transport panicked, and counts as lost for a link message");
                false
            }
        }
    }

    /// Hands a message from the other node to the process `name`. Returns whether it was, or was answered for it.
    fn receive(&self, from: Pid, name: Pid, message: LinkMessage<ExitReason>) -> bool {
        let noted = {
            let mut ties = lock(&self.ties);
            let Some(ties) = &mut *ties else { return false };
            let to = if name.is_alias() { ties.meant(from, name, &message) } else { Some(name) };
            to.map(|to| (to, ties.receives(from, to, name, &message)))
        };
        // Resolved without the lock: that asks the target of the alias, which counts the message as on its way.
        let source;
        let (to, from) = match noted {
            Some(noted) => noted,
            None => {
                source = EndSource::of(name);
                let to = source.name(name);
                let mut ties = lock(&self.ties);
                let Some(ties) = &mut *ties else { return false };
                (to, ties.receives(from, to, name, &message))
            }
        };
        let undo = match &message {
            LinkMessage::Link => Some(LinkMessage::Exit(ExitReason::NodeLost)),
            LinkMessage::Watch(number) => Some(LinkMessage::Unwatch(*number)),
            _ => None,
        };
        post(self.id, from, to, name, message);
        if let Some(undo) = undo
            && lock(&self.ties).is_none()
        {
            post(self.id, from, to, name, undo);
        }
        true
    }

    /// Ends the connection: tells all that are tied to the other node. Does nothing the second time.
    pub(super) fn lose(&self) {
        let ties = lock(&self.ties).take();
        for (from, to, message) in ties.map(Ties::lost).unwrap_or_default() {
            post(self.id, from, to, to, message);
        }
    }
}

/// Hands a message of a process of another node, which came by a connection, to the process `to`, which was addressed
/// as `name`.
fn post(by: ConnectionId, from: Pid, to: Pid, name: Pid, message: LinkMessage<ExitReason>) {
    if joins::is_joiner(to) {
        return joins::receive(from, message);
    }
    if to.is_alias() {
        return alias::post_tie(to, SentLinkMessage::new(from, name, Some(&Abroad), message).by(by));
    }
    // Answers on behalf of an ended process come from the name that the other knows.
    match TABLE.last(to) {
        Some(slot) => slot.post(to, SentLinkMessage::new(from, to, Some(&Abroad), message).by(by)),
        None => drop(SentLinkMessage::new(from, name, Some(&Abroad), message)),
    }
}

/// The way to another node: its connection, if it has one.
pub(crate) struct Way(Option<Arc<Connection>>);

impl Way {
    pub(crate) fn between(here: NodeId, there: NodeId) -> Self {
        Self(Router::with(here, |router| router.connection(there)))
    }

    /// Returns the ID of a link that is made over it.
    pub(crate) fn id(&self) -> ConnectionId {
        self.0.as_ref().map_or(ConnectionId::NONE, |connection| connection.id)
    }

    /// Sends a message of a process of this node to one of the other; if it cannot be sent, it is answered here.
    pub(crate) fn send(self, from: Pid, to: Pid, message: LinkMessage<ExitReason>) {
        let answer = answer_for_the_lost(&message);
        let is_sent = match &self.0 {
            Some(connection) => connection.send(from, to, message),
            None => {
                dispose(Site::ReasonDrop, message);
                false
            }
        };
        if let Some(answer) = answer.filter(|_| !is_sent) {
            post(self.id(), to, from, from, answer);
        }
    }
}

/// Sends a message of a process of this node to one of another; if it cannot be sent, it is answered here.
pub(crate) fn send_link(from: Pid, to: Pid, message: LinkMessage<ExitReason>) {
    Way::between(from.node(), to.node()).send(from, to, message);
}

/// Sends what an alias says of its links and monitors, which needs no answer.
pub(crate) fn send_from_alias(from: Pid, to: Pid, message: LinkMessage<ExitReason>) {
    if to.node() != from.node() {
        return send_link(from, to, message);
    }
    if let Some(slot) = TABLE.slot(to.slot()) {
        slot.post(to, SentLinkMessage::new(from, to, None, message));
    }
}

/// Sends a control to a process of another node. Returns whether it was sent.
pub(crate) fn send_control(to: Pid, message: ControlMessage) -> bool {
    match Router::with(this_node(), |router| router.connection(to.node())) {
        Some(connection) => {
            contain(Site::Transport, || connection.transport().control(to, message)).unwrap_or_else(|panic| {
                crate::util::log::error!(%to, %panic, "a transport panicked, and has not taken a control");
                false
            })
        }
        None => false,
    }
}

impl super::Node {
    /// Hands a link message from the process `from` of another node to the process `to` of this one. If that has ended,
    /// the other is told through the transport for its node, as by the process itself. Returns false for a message that
    /// is not for this node, or from a node that is not connected: it is dropped.
    ///
    /// Call it, and `deliver`, from one thread at a time for each other node, in the order in which things were sent.
    /// Connect a node again only when the last call for it has returned.
    pub fn post_link(self, from: Pid, to: Pid, message: LinkMessage<ExitReason>) -> bool {
        if to.node() != self.id() {
            dispose(Site::ReasonDrop, message);
            return false;
        }
        self.enter(|| match Router::with(self.id(), |router| router.connection(from.node())) {
            Some(connection) => connection.receive(from, to, message),
            None => {
                dispose(Site::ReasonDrop, message);
                false
            }
        })
    }
}

/// Where answers to processes of other nodes go.
struct Abroad;

impl Resident for Abroad {
    fn resident(&self) -> Option<Pid> {
        None
    }
}

impl LinkEndpoint for Abroad {
    fn post(&'static self, to: Pid, sent: SentLinkMessage) {
        let from = sent.from();
        if let (_, _, Some(message)) = sent.open() {
            send_link(from, to, message);
        }
    }

    /// Never called: no process lives here.
    unsafe fn receive(&self, sent: SentLinkMessage) -> LinkEffect<ExitReason> {
        drop(sent);
        LinkEffect::Nothing
    }

    fn redeem(&'static self, _generation: u64) -> Option<Envelope> {
        None
    }

    unsafe fn inspect(&self) -> Bindings {
        Bindings::default()
    }
}

#[cfg(test)]
mod tests;
