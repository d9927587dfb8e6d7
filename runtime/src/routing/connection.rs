//! Connections to other nodes: a transport, and the links, monitors and joins that depend on it.
//!
//! * A message is recorded in the [`Ties`] before it is sent or posted, under the same lock as the check that the
//!   connection is not lost. The loss of the connection takes the ties under that lock. So the loss either reports the
//!   tie of the message, or comes first. If it comes first, the message is answered here.
//! * A message from the other node that is posted while the connection is being lost could arrive after the notice of
//!   the loss. So it is followed by a second notice, which has no effect if the first one arrived after the message.
//!
//! When a process handles a message of this connection, it may already have been tied to the other process over the
//! next connection. So each message is posted with its [`ConnectionId`], and only messages of a link's own connection
//! can end the link. A message that establishes a link is therefore sent over the connection that its process has
//! recorded, or answered here: see [`Way`](super::remote_links::Way).
//!
//! No lock is held while a transport is called or a process is notified.

use super::alias::{self, EndSource};
use super::joins;
use super::ties::Ties;
use super::transport::Transport;
use crate::env::world::World;
use crate::exit::ExitReason;
use crate::links::message::{LinkEndpoint, SentLinkMessage};
use crate::links::protocol::{ConnectionId, LinkMessage};
use crate::pid::Pid;
use crate::slots::TABLE;
use crate::sync::{Arc, AtomicU64, Mutex, Ordering, lock};
use crate::util::dispose::dispose;
use crate::util::panics::{Site, contain};

/// A transport, and the ties that end with it.
pub(super) struct Connection {
    pub(super) id: ConnectionId,
    transport: Arc<dyn Transport>,
    /// Sends the answers of this node's processes to the other node.
    endpoint: &'static dyn LinkEndpoint,
    /// `None` once the connection is lost.
    ties: Mutex<Option<Ties>>,
}

impl Connection {
    pub(super) fn new(transport: Arc<dyn Transport>, endpoint: &'static dyn LinkEndpoint) -> Self {
        static LAST: World<AtomicU64> = World::new(AtomicU64::new(ConnectionId::LOCAL.0));
        let id = ConnectionId(LAST.fetch_add(1, Ordering::Relaxed) + 1);
        Self { id, transport, endpoint, ties: Mutex::new(Some(Ties::default())) }
    }

    pub(super) fn transport(&self) -> &dyn Transport {
        &*self.transport
    }

    /// Returns the number of ties that would end if the connection were lost.
    pub(super) fn ties(&self) -> usize {
        lock(&self.ties).as_ref().map_or(0, Ties::count)
    }

    /// Sends a message of a local process. Returns whether it was sent. A panic of the transport is contained, because
    /// an exiting process may have to notify other processes as well.
    pub(super) fn send(&self, from: Pid, to: Pid, message: LinkMessage<ExitReason>) -> bool {
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

    /// Delivers a message from the other node to the process `name`. Returns true if it was delivered, or answered on
    /// behalf of the process. Returns false if the connection is lost.
    pub(super) fn receive(&self, from: Pid, name: Pid, message: LinkMessage<ExitReason>) -> bool {
        let noted = {
            let mut ties = lock(&self.ties);
            let Some(ties) = &mut *ties else { return false };
            let to = if name.is_alias() { ties.meant(from, name, &message) } else { Some(name) };
            to.map(|to| (to, ties.receives(from, to, name, &message)))
        };
        // The alias is resolved without the lock, because resolving it calls its target. The target counts the message
        // as in transit.
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
        post((self.id, self.endpoint), from, to, name, message);
        if let Some(undo) = undo
            && lock(&self.ties).is_none()
        {
            post((self.id, self.endpoint), from, to, name, undo);
        }
        true
    }

    /// Ends the connection, and notifies all processes that are tied to the other node. A second call has no effect.
    pub(super) fn lose(&self) {
        let ties = lock(&self.ties).take();
        for (from, to, message) in ties.map(Ties::lost).unwrap_or_default() {
            post((self.id, self.endpoint), from, to, to, message);
        }
    }
}

/// Posts a message from a process of another node to the process `to`, which was addressed as `name`. The message came
/// over the connection `by`; answers go through `endpoint`.
pub(super) fn post(
    (by, endpoint): (ConnectionId, &'static dyn LinkEndpoint),
    from: Pid,
    to: Pid,
    name: Pid,
    message: LinkMessage<ExitReason>,
) {
    if joins::is_joiner(to) {
        return joins::receive(from, message);
    }
    if to.is_alias() {
        return alias::post_tie(to, SentLinkMessage::new(from, name, Some(endpoint), message).by(by));
    }
    // Answers on behalf of an ended process come from the name that the other process knows.
    match TABLE.last(to) {
        Some(slot) => slot.post(to, SentLinkMessage::new(from, to, Some(endpoint), message).by(by)),
        None => drop(SentLinkMessage::new(from, name, Some(endpoint), message)),
    }
}
