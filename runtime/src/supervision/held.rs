//! Requests, other than messages, to a child that has no process.
//!
//! * Waits for its end: joins, links and monitors. They apply to the next process; when that process ends, all waiters
//!   are notified. For this, the child has its own half of the links ([`Links`]). That half ends with the process.
//! * Requests to end that arrive before the child has had a process. The first process gets them before its first
//!   message. (A `stop` waits among the messages, since it takes effect after the messages before it.) Later requests
//!   apply only to the current process. Between two processes, the requested end has already happened, so no request
//!   waits for the next process.
//!
//! A wait is passed to a process if there is one; see [`ChildSlot`](super::child_slot::ChildSlot) for the race with its
//! end. A link with the child itself is not passed on, since the other end knows it by the child's alias. So a failure
//! of the other end is delivered to the process as three messages: the link, and the two that report a failure.

use crate::links::message::{LinkEndpoint, SentLinkMessage};
use crate::links::protocol::{ConnectionId, LinkEffect, LinkMessage, Links};
use crate::process::control::{Join, keep_join};
use crate::routing::hosts::is_here;
use crate::routing::remote_links::send_from_alias;
use crate::slots::TABLE;
use crate::util::dispose::dispose;
use crate::util::panics::{Site, contain};
use crate::{ExitReason, Pid};

/// The waits for the end of the child's next process.
#[derive(Default)]
#[must_use = "those that wait are to be told"]
pub(super) struct EndWaits {
    joins: Vec<Join>,
    /// The child's own half of its links and monitors, under its alias.
    ties: Option<(Pid, Links<Pid>)>,
}

/// A request that a process gets before its first message.
pub(super) enum FirstRequest {
    Cancel(ExitReason),
    Kill,
    /// The process with which the child is linked has failed.
    Failure(PartnerFailure),
}

/// The failure of a process that is linked with the child.
pub(super) struct PartnerFailure {
    partner: Pid,
    by: ConnectionId,
    reason: ExitReason,
}

/// Consequences of a message about a link or monitor.
#[derive(Default)]
pub(super) struct TieEffect {
    /// The sender, its endpoint, the child's alias, and the answer. Must be dropped, like the message, when no lock is
    /// held.
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
        // Otherwise the failure of a partner would end the child. That is for the child's process to decide.
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

    /// Notifies all waits of the end. Must not be called under a lock, since the waits have wakers.
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
    /// Makes the process fail together with the partner; if it traps exits, notifies it of the failure instead.
    pub(super) fn pass_to(self, process: Pid) {
        let Self { partner, by, reason } = self;
        let Some(process) = process.resolve() else { return };
        if !is_here(process) {
            // The process cannot be linked with the partner from here, but it ends as if it were.
            process.cancel(ExitReason::linked(partner, reason));
            return;
        }
        let Some(slot) = TABLE.last(process) else { return };
        for message in [LinkMessage::Link, LinkMessage::Failed(reason.clone()), LinkMessage::Exit(reason)] {
            slot.post(process, SentLinkMessage::new(partner, process, None, message).by(by));
        }
    }
}
