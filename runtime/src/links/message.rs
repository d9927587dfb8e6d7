//! What one process says to another about what binds them, on its way.

use super::protocol::{Cause, LinkEffect, LinkMessage, Links};
use crate::exit::ExitReason;
use crate::mailbox::node::Envelope;
use crate::pid::{Pid, Resident};
use crate::util::panics::{Site, dispose};

/// Where a process hears such things, seen from below: its slot.
pub(crate) trait LinkEndpoint: Resident {
    /// Takes what is said to the process `to`; for one that is over, or that was never here, it is dropped.
    fn tell(&'static self, to: Pid, bond: SentLinkMessage);

    /// Hears it: the process's own half changes.
    ///
    /// # Safety
    /// The caller holds the token of the slot, and no reference to its cold state.
    unsafe fn hear(&self, bond: SentLinkMessage) -> LinkEffect<ExitReason>;

    /// The message that a ticket in the data lane stands for.
    fn redeem(&'static self, generation: u64) -> Option<Envelope>;

    /// What binds the process to others.
    ///
    /// # Safety
    /// As of `hear`.
    unsafe fn inspect(&self) -> Bindings;
}

/// What binds a process to others: see [`Pid::bindings`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Bindings {
    /// Those that it is linked to.
    pub links: Vec<Pid>,
    /// Those that it monitors, as often as it does.
    pub monitors: Vec<Pid>,
    /// Those that monitor it, as often as they do.
    pub monitored_by: Vec<Pid>,
    /// Those that are told to end when it has ended.
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

    /// Returns how many there are of all.
    pub fn count(&self) -> usize {
        self.links.len() + self.monitors.len() + self.monitored_by.len() + self.owned.len()
    }
}

/// Something said, with who said it. Dropped unheard it is answered for the ended process, so that its sender always
/// learns.
pub(crate) struct SentLinkMessage {
    from: Pid,
    to: Pid,
    /// Where answers go; what is no question needs none.
    back: Option<&'static dyn LinkEndpoint>,
    said: Option<LinkMessage<ExitReason>>,
}

impl SentLinkMessage {
    /// Something that `from` says to `to`; answers go to `back`.
    pub(crate) fn new(
        from: Pid,
        to: Pid,
        back: Option<&'static dyn LinkEndpoint>,
        said: LinkMessage<ExitReason>,
    ) -> Self {
        Self { from, to, back, said: Some(said) }
    }

    /// Who says it.
    pub(crate) fn from(&self) -> Pid {
        self.from
    }

    /// Returns whether it is the notice of an end, which keeps its place behind the messages of the dead.
    pub(crate) fn is_notice(&self) -> bool {
        matches!(self.said, Some(LinkMessage::Down(..) | LinkMessage::Exit(_)))
    }

    /// What is said, to be heard; with it the way back.
    pub(crate) fn open(mut self) -> (Pid, Option<&'static dyn LinkEndpoint>, Option<LinkMessage<ExitReason>>) {
        (self.from, self.back, self.said.take())
    }
}

impl Drop for SentLinkMessage {
    fn drop(&mut self) {
        let Some(said) = self.said.take() else { return };
        if let (Some(answer), Some(back)) = (said.answer_for_the_dead(), self.back) {
            back.tell(self.from, Self::new(self.to, self.from, None, answer));
        }
        dispose(Site::ReasonDrop, said);
    }
}

impl Cause for ExitReason {
    fn is_quiet(&self) -> bool {
        matches!(self, Self::Normal)
    }

    fn gone() -> Self {
        Self::Gone
    }
}
