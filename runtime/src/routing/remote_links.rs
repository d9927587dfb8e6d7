//! What this node's processes send over connections to other nodes, except messages: links, monitors, joins and
//! controls.

use super::connection::{Connection, post};
use super::joins::{self, RemoteJoin};
use super::router::Router;
use super::ties::answer_for_the_lost;
use super::transport::{ControlMessage, Transport};
use crate::env::program::this_node;
use crate::exit::ExitReason;
use crate::links::message::{Bindings, LinkEndpoint, SentLinkMessage};
use crate::links::protocol::{ConnectionId, LinkEffect, LinkMessage};
use crate::mailbox::node::Envelope;
use crate::pid::{NodeId, Pid, Resident};
use crate::process::control::Join;
use crate::slots::TABLE;
use crate::sync::{Arc, PoisonError};
use crate::util::dispose::dispose;
use crate::util::panics::{Site, contain};

/// The way to another node: the connection to it, if there is one.
pub(crate) struct Way(Option<Arc<Connection>>);

impl Way {
    pub(crate) fn between(here: NodeId, there: NodeId) -> Self {
        Self(Router::with(here, |router| router.connection(there)))
    }

    /// Returns the connection ID for a link that is made over this way.
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
            post((self.id(), &Abroad), to, from, from, answer);
        }
    }
}

/// Sends a message from a process of this node to a process of another node. If it cannot be sent, it is answered here.
pub(crate) fn send_link(from: Pid, to: Pid, message: LinkMessage<ExitReason>) {
    Way::between(from.node(), to.node()).send(from, to, message);
}

/// Sends a message about the links and monitors of an alias. The message needs no answer.
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

/// Waits for the end of a process of another node.
pub(crate) fn send_join(to: Pid, join: Join) {
    let (from, number, given_up) = joins::register(to, join);
    send_link(from, to, LinkMessage::Watch(number));
    for (number, RemoteJoin { from, to, .. }) in given_up {
        send_link(from, to, LinkMessage::Unwatch(number));
    }
}

impl Router {
    /// Connects `transport` to `node`. An earlier transport for that node is [disconnected](Self::disconnect).
    pub fn connect(&self, node: NodeId, transport: Arc<dyn Transport>) {
        // The earlier transport is disconnected first, so that processes with ties learn of the loss before anything
        // arrives over the new connection.
        self.disconnect(node);
        let connection = Arc::new(Connection::new(transport, &Abroad));
        let before = self.nodes.write().unwrap_or_else(PoisonError::into_inner).insert(node, connection);
        // This happens outside the lock, because dropping a transport may connect another one.
        if let Some(before) = before {
            before.lose();
        }
    }
}

impl super::Node {
    /// Delivers a link message from the process `from` of another node to the process `to` of this one. If `to` has
    /// ended, `from` is notified through the transport for its node, as if by `to` itself. Returns false, and drops the
    /// message, if the message is not for this node or comes from a node that is not connected.
    ///
    /// For each other node, call this and `deliver` from one thread at a time, in the order in which the messages were
    /// sent. Connect a node again only after the last call for it has returned.
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
