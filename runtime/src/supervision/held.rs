//! What is asked of a child that has no process, besides messages.
//!
//! * Waits for its end: joins, links and monitors. They are for the next process: its end is told to those that wait
//!   then. The child has a half of the links of its own for this ([`Links`]), which ends with the process.
//! * Requests to end, before its first process: that gets them before its first message. (A `stop` lies among the
//!   messages, since it comes after those before it.) Later they are for the process of that moment, and an end between
//!   two processes is what they asked for: none waits for the next.
//!
//! A wait is passed to a process that is there; see [`ChildSlot`](super::child_slot::ChildSlot) for the race with its
//! end. A link with the child itself is not passed on: the other end knows it by the name of the child. So the failure
//! of the other end is brought to the process as three messages: the link, and both that tell of a failure.

use crate::links::message::{LinkEndpoint, SentLinkMessage};
use crate::links::protocol::{ConnectionId, LinkEffect, LinkMessage, Links};
use crate::process::control::{Join, keep_join};
use crate::routing::connection::send_from_alias;
use crate::routing::hosts::is_here;
use crate::slots::TABLE;
use crate::util::panics::{Site, contain, dispose};
use crate::{ExitReason, Pid};

/// What waits for the end of the next process.
#[derive(Default)]
#[must_use = "those that wait are to be told"]
pub(super) struct EndWaits {
    joins: Vec<Join>,
    /// The child's own half of its links and monitors, under its alias.
    ties: Option<(Pid, Links<Pid>)>,
}

/// What the first process, or that of a link, gets before its first message.
pub(super) enum FirstRequest {
    Cancel(ExitReason),
    Kill,
    /// The process that it is linked with has failed.
    Failure(PartnerFailure),
}

/// The failure of a process that is linked with the child.
pub(super) struct PartnerFailure {
    partner: Pid,
    by: ConnectionId,
    reason: ExitReason,
}

/// What follows from a message about a link or monitor.
#[derive(Default)]
pub(super) struct TieEffect {
    /// Where it came from, and what is answered. To be dropped, like the message, when no lock is held.
    answer: Option<(Pid, &'static dyn LinkEndpoint, Pid, LinkMessage<ExitReason>)>,
    heard: Option<LinkMessage<ExitReason>>,
    pub(super) failure: Option<PartnerFailure>,
}

impl EndWaits {
    pub(super) fn join(&mut self, join: Join) {
        keep_join(&mut self.joins, join);
    }

    /// Applies a message to the child's half of a link.
    pub(super) fn receive(&mut self, sent: SentLinkMessage) -> TieEffect {
        let alias = sent.to();
        let (sender, back, Some(message)) = sent.open() else { return TieEffect::default() };
        let (_, ties) = self.ties.get_or_insert_with(|| (alias, Links::default()));
        // Otherwise the failure of a partner would be the child's own end, which its process decides.
        ties.trap(true);
        let (partner, by) = sender;
        let mut effect = TieEffect::default();
        match ties.receive(sender, &message) {
            LinkEffect::Answer(answer) => effect.answer = back.map(|back| (partner, back, alias, answer)),
            LinkEffect::Exit(reason) => effect.failure = Some(PartnerFailure { partner, by, reason }),
            LinkEffect::Nothing | LinkEffect::Down(..) | LinkEffect::End(_) => {}
        }
        effect.heard = Some(message);
        effect
    }

    /// Tells all of the end. Not to be called under a lock: they have wakers.
    pub(super) fn tell(self, reason: &ExitReason) {
        if let Some((alias, ties)) = self.ties {
            let (_, messages) = ties.end(reason);
            messages.into_iter().for_each(|(other, message)| send_from_alias(alias, other, message));
        }
        for join in self.joins {
            if let Err(panic) = contain(Site::Backstop, || join.notify(reason)) {
                crate::util::log::error!(%panic, "a waiter for the end of a child panicked");
            }
        }
    }
}

impl TieEffect {
    /// Sends the answer.
    pub(super) fn finish(self) {
        if let Some((partner, back, alias, answer)) = self.answer {
            back.post(partner, SentLinkMessage::new(alias, partner, None, answer));
        }
        if let Some(message) = self.heard {
            dispose(Site::ReasonDrop, message);
        }
    }
}

impl FirstRequest {
    pub(super) fn pass_to(self, process: Pid) {
        match self {
            Self::Cancel(reason) => _ = process.cancel(reason),
            Self::Kill => _ = process.kill(),
            Self::Failure(failure) => failure.pass_to(process),
        }
    }
}

impl PartnerFailure {
    /// Has the process fail with the partner, or, if it traps exits, hear of its failure.
    pub(super) fn pass_to(self, process: Pid) {
        let Self { partner, by, reason } = self;
        let Some(process) = process.resolve() else { return };
        if !is_here(process) {
            // It cannot be linked with the partner from here, but it ends as if it were.
            process.cancel(ExitReason::linked(partner, reason));
            return;
        }
        let Some(slot) = TABLE.last(process) else { return };
        for message in [LinkMessage::Link, LinkMessage::Failed(reason.clone()), LinkMessage::Exit(reason)] {
            slot.post(process, SentLinkMessage::new(partner, process, None, message).by(by));
        }
    }
}
