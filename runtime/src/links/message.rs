//! Messages of the link protocol in flight.

use super::protocol::{Cause, ConnectionId, LinkEffect, LinkMessage, Links, answer_for_the_dead};
use crate::exit::ExitReason;
use crate::mailbox::node::Envelope;
use crate::pid::{Pid, Resident};
use crate::util::dispose::dispose;
use crate::util::panics::Site;

/// Receiver of link messages, as this module sees it: a slot.
pub(crate) trait LinkEndpoint: Resident {
    /// Delivers a message to the process `to`. The message is dropped if that process has ended, or was never here.
    fn post(&'static self, to: Pid, sent: SentLinkMessage);

    /// Applies a message to the process's half of the link.
    ///
    /// # Safety
    /// The caller holds the token of the slot, and no reference to its cold state.
    unsafe fn receive(&self, sent: SentLinkMessage) -> LinkEffect<ExitReason>;

    /// Takes the envelope that a placeholder in the data lane represents.
    fn redeem(&'static self, generation: u64) -> Option<Envelope>;

    /// Returns the process's links and monitors.
    ///
    /// # Safety
    /// The same as for `receive`.
    unsafe fn inspect(&self) -> Bindings;
}

/// The links and monitors of a process: see [`Pid::bindings`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Bindings {
    /// Linked processes.
    pub links: Vec<Pid>,
    /// Monitored processes, once per monitor.
    pub monitors: Vec<Pid>,
    /// Monitoring processes, once per monitor.
    pub monitored_by: Vec<Pid>,
    /// Processes that are told to end when this one has ended.
    pub owned: Vec<Pid>,
}

impl Bindings {
    pub(crate) fn of(links: &Links<Pid>) -> Self {
        Self {
            links: links.links().collect(),
            monitors: links.all_watched().collect(),
            monitored_by: links.watchers().collect(),
            owned: links.owned().collect(),
        }
    }

    /// Returns the total number of entries.
    pub fn count(&self) -> usize {
        self.links.len() + self.monitors.len() + self.monitored_by.len() + self.owned.len()
    }
}

/// The parts of a [`SentLinkMessage`].
pub(crate) type OpenedLinkMessage =
    ((Pid, ConnectionId), Option<&'static dyn LinkEndpoint>, Option<LinkMessage<ExitReason>>);

/// A link message with its sender. If it is dropped without being opened, its receiver has ended, and the message is
/// answered on the receiver's behalf.
pub(crate) struct SentLinkMessage {
    from: Pid,
    to: Pid,
    /// Connection over which the message arrived.
    by: ConnectionId,
    /// Endpoint that answers go to; `None` for messages without an answer.
    back: Option<&'static dyn LinkEndpoint>,
    message: Option<LinkMessage<ExitReason>>,
}

impl SentLinkMessage {
    /// Creates a message from `from` to `to`; answers go to `back`.
    pub(crate) fn new(
        from: Pid,
        to: Pid,
        back: Option<&'static dyn LinkEndpoint>,
        message: LinkMessage<ExitReason>,
    ) -> Self {
        Self { from, to, by: ConnectionId::LOCAL, back, message: Some(message) }
    }

    /// Sets the connection over which the message arrived.
    pub(crate) fn by(mut self, by: ConnectionId) -> Self {
        self.by = by;
        self
    }

    pub(crate) fn from(&self) -> Pid {
        self.from
    }

    pub(crate) fn to(&self) -> Pid {
        self.to
    }

    /// Returns whether this is the notice of a process's end. Such a notice must stay behind the messages of that
    /// process.
    pub(crate) fn is_notice(&self) -> bool {
        matches!(self.message, Some(LinkMessage::Down(..) | LinkMessage::Exit(_)))
    }

    /// Returns the sender with its connection, the endpoint for answers, and the message.
    pub(crate) fn open(mut self) -> OpenedLinkMessage {
        ((self.from, self.by), self.back, self.message.take())
    }
}

impl Drop for SentLinkMessage {
    fn drop(&mut self) {
        let Some(message) = self.message.take() else { return };
        if let (Some(answer), Some(back)) = (answer_for_the_dead(&message), self.back) {
            back.post(self.from, Self::new(self.to, self.from, None, answer));
        }
        dispose(Site::ReasonDrop, message);
    }
}

impl Cause for ExitReason {
    fn is_quiet(&self) -> bool {
        matches!(self, Self::Normal)
    }

    fn gone() -> Self {
        Self::NoProcess
    }
}
