//! Connections to other nodes: a transport, and the links, monitors and joins that depend on it.
//!
//! * A message is recorded in the [`Ties`] before it is sent or posted, under the same lock as the check that the
//!   connection is not lost. The loss takes the ties under that lock. So it either reports the tie of the message, or
//!   comes first, in which case the message is answered here.
//! * A message from the other node that is posted while the connection is being lost could arrive after the notice of
//!   the loss. So it is followed by a second notice, which has no effect if the first one arrived after the message.
//!
//! A process may reach a message of this connection when it is already tied to the other process over the next
//! connection. So the message is posted with its [`ConnectionId`], and only messages of a link's own connection can end
//! the link. A message that establishes a link is therefore sent over the connection that its process has recorded, or
//! answered here: see [`Way`].
//!
//! No lock is held while a transport is called or a process is notified.

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
use crate::util::dispose::dispose;
use crate::util::panics::{Site, contain};

/// A transport, and the ties that end with it.
pub(super) struct Connection {
    id: ConnectionId,
    transport: Arc<dyn Transport>,
    /// `None` once the connection is lost.
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

    /// Returns the number of ties that would end if the connection were lost.
    pub(super) fn ties(&self) -> usize {
        lock(&self.ties).as_ref().map_or(0, Ties::count)
    }

    /// Sends a message of a local process. Returns whether it was sent. A panic of the transport is contained, because
    /// an exiting process may have to notify others as well.
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

    /// Passes a message to the transport. Returns whether the transport accepted it.
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

    /// Delivers a message from the other node to the process `name`. Returns whether it was delivered, or answered on
    /// behalf of the process.
    fn receive(&self, from: Pid, name: Pid, message: LinkMessage<ExitReason>) -> bool {
        let noted = {
            let mut ties = lock(&self.ties);
            let Some(ties) = &mut *ties else { return false };
            let to = if name.is_alias() { ties.meant(from, name, &message) } else { Some(name) };
            to.map(|to| (to, ties.receives(from, to, name, &message)))
        };
        // Resolved without the lock, because that calls the target of the alias, which counts the message as in
        // transit.
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

    /// Ends the connection, and notifies all processes that are tied to the other node. Has no effect the second time.
    pub(super) fn lose(&self) {
        let ties = lock(&self.ties).take();
        for (from, to, message) in ties.map(Ties::lost).unwrap_or_default() {
            post(self.id, from, to, to, message);
        }
    }
}

/// Posts a message from a process of another node to the process `to`, which was addressed as `name`. The message came
/// over the connection `by`.
fn post(by: ConnectionId, from: Pid, to: Pid, name: Pid, message: LinkMessage<ExitReason>) {
    if joins::is_joiner(to) {
        return joins::receive(from, message);
    }
    if to.is_alias() {
        return alias::post_tie(to, SentLinkMessage::new(from, name, Some(&Abroad), message).by(by));
    }
    // Answers on behalf of an ended process come from the name that the other process knows.
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

    /// Returns the connection ID for a link that is made over it.
    pub(crate) fn id(&self) -> ConnectionId {
        self.0.as_ref().map_or(ConnectionId::NONE, |connection| connection.id)
    }

    /// Sends a message from a process of this node to a process of the other node. If it cannot be sent, it is answered
    /// here.
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

/// Sends a message from a process of this node to a process of another. If it cannot be sent, it is answered here.
pub(crate) fn send_link(from: Pid, to: Pid, message: LinkMessage<ExitReason>) {
    Way::between(from.node(), to.node()).send(from, to, message);
}

/// Sends a message about the links and monitors of an alias, which needs no answer.
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
    /// Delivers a link message from the process `from` of another node to the process `to` of this one. If that has
    /// ended, the other process is notified through the transport for its node, as if by the process itself. Returns
    /// false, and drops the message, if it is not for this node or comes from a node that is not connected.
    ///
    /// For each other node, call this and `deliver` from one thread at a time, in the order in which things were sent.
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

/// The link endpoint that sends answers to processes of other nodes.
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

    /// Never called, because no process lives here.
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
