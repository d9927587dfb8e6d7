//! Sending to the peer, as the runtime's transport to it: messages are accepted, refused, or wait for room.

use super::admission::{Admission, LOOK_FOR_ABANDONED, Refusal, content};
use super::{AwaitingSession, Peer, PeerState, Phase};
use crate::codec::{Agreement, Encoded, encode_call_error, encode_exit_reason};
use crate::engine::Lane;
use crate::envelope::{AskKind, Envelope, LinkKind};
use crate::node::overflow::Why;
use crate::session::SendError;
use bytes::Bytes;
use postroom::error::SendFailure;
use postroom::routing::{Answerer, ControlMessage, LinkMessage, Receiver, Transport, TransportQueue, Undeliverable};
use postroom::{CallError, ExitReason, Package, Pid};
use std::sync::Arc;

/// Maximum number of packages that may wait for a session to open. Packages whose senders are suspended for them are
/// accepted up to twice this number.
const MAX_WAITING: usize = 1_024;

/// Maximum number of bytes of answers that wait for room in the session before further calls are refused.
const MAX_OWED: usize = 16 << 20;

impl Peer {
    /// Sends a package, or queues it until the session opens.
    fn accept(&self, package: Package, admission: Admission) -> Result<(), Undeliverable> {
        let to = package.to();
        let mut state = self.lock();
        let waits = match &mut state.phase {
            Phase::Open(agreement) => {
                let agreement = Arc::clone(agreement);
                if admission == Admission::IfRoom && !state.may_have_room(to) {
                    state.overflow.refuse(Lane::Data, to);
                    return Err(Undeliverable { package, reason: SendFailure::Full(to) });
                }
                drop(state);
                return self.send(&agreement, package, admission);
            }
            Phase::Opening(waiting) => waiting,
            Phase::Over => return Err(Undeliverable { package, reason: SendFailure::UnknownNode(to) }),
        };
        let most = if admission == Admission::IfRoom { MAX_WAITING } else { 2 * MAX_WAITING };
        if waits.len() < most {
            waits.push_back(AwaitingSession::Package(package));
            return Ok(());
        }
        state.overflow.refuse(Lane::Data, to);
        Err(Undeliverable { package, reason: SendFailure::Full(to) })
    }

    /// Encodes a package and queues it.
    pub(super) fn send(
        &self,
        agreement: &Agreement,
        package: Package,
        admission: Admission,
    ) -> Result<(), Undeliverable> {
        let (to, mut payload, answerer) = package.take_apart();
        let refused = match agreement.encode(&mut payload) {
            Ok(encoded) => self.send_encoded(to, encoded, answerer, admission),
            Err(error) => {
                self.codecs.report(&error);
                Err((answerer, self.codecs.failure(&error, to)))
            }
        };
        refused.map_err(|(answerer, reason)| {
            let package = Package::put_together(to, payload, answerer);
            Undeliverable { package, reason }
        })
    }

    fn send_encoded(
        &self,
        to: Pid,
        encoded: Encoded,
        mut answerer: Answerer,
        admission: Admission,
    ) -> Result<(), (Answerer, SendFailure)> {
        let (time_left, content) = (answerer.time_left(), content(encoded));
        let mut state = self.lock();
        let was_idle = state.is_idle();
        let number = answerer.expects_answer().then(|| state.number());
        let envelope = match number {
            Some(number) => Envelope::Call { to, number, time_left, content },
            None => Envelope::Message { to, content },
        };
        let queued = match admission {
            Admission::Accepted if state.put(Lane::Data, &envelope, Why::Accepted) => Ok(()),
            Admission::Accepted => {
                Err(Refusal::TooLong { bytes: envelope.encode().len(), limit: state.session.longest(Lane::Data) })
            }
            Admission::Beyond => state.queue_beyond(to, &envelope),
            Admission::IfRoom => state.queue(Lane::Data, to, &envelope),
        };
        if let Err(refusal) = queued {
            drop(state);
            return Err((answerer, refusal.into_failure(to)));
        }
        answerer.note_sent();
        let sent = match number {
            Some(number) => {
                state.calls.insert(number, answerer);
                if state.look_at.is_none() {
                    state.look_at = Some((self.port.clock)() + LOOK_FOR_ABANDONED);
                }
                None
            }
            None => Some(answerer),
        };
        self.transmit_queued(state, was_idle);
        // Dropped outside the lock: the message was sent, and no answer follows.
        drop(sent);
        Ok(())
    }

    /// Sends an answer to a request in the data lane, unless too many answers wait there already: a peer that does
    /// not take its answers gets no more.
    pub(crate) fn say(&self, envelope: Envelope) {
        if !self.owes_too_much() {
            self.must_send(Lane::Data, envelope);
        }
    }

    /// Queues an envelope that must not be refused. Returns false if the session is over.
    pub(super) fn must_send(&self, lane: Lane, envelope: Envelope) -> bool {
        let mut state = self.lock();
        let was_idle = state.is_idle();
        let is_queued = state.must_queue(lane, envelope);
        if is_queued {
            self.transmit_queued(state, was_idle);
        }
        is_queued
    }

    /// Returns whether so many answers wait for room that no more calls should be accepted.
    pub(crate) fn owes_too_much(&self) -> bool {
        self.lock().overflow.owed() > MAX_OWED
    }

    #[cfg(test)]
    pub(crate) fn limit_owed(&self, bytes: usize) {
        self.lock().most_owed = bytes;
    }
}

impl PeerState {
    /// Queues an envelope that may be refused. If the data lane has no room for it, its sender then waits for room.
    pub(super) fn queue(&mut self, lane: Lane, to: Pid, envelope: &Envelope) -> Result<(), Refusal> {
        if matches!(self.phase, Phase::Over) {
            return Err(Refusal::Over);
        }
        if !self.overflow.is_clear(lane) {
            self.overflow.refuse(lane, to);
            return Err(Refusal::Full);
        }
        let bytes = envelope.encode();
        let length = bytes.len();
        match self.session.send(lane, to, bytes) {
            Ok(()) => {
                self.overflow.note_sent(length);
                Ok(())
            }
            Err(SendError::Full(_) | SendError::Slow(_)) => {
                self.overflow.refuse(lane, to);
                Err(Refusal::Full)
            }
            Err(SendError::Closed(_)) => Err(Refusal::Over),
            Err(SendError::TooLong { bytes, limit, .. }) => Err(Refusal::TooLong { bytes, limit }),
        }
    }

    /// Queues a message from a process that is suspended for it.
    fn queue_beyond(&mut self, to: Pid, envelope: &Envelope) -> Result<(), Refusal> {
        if matches!(self.phase, Phase::Over) || self.session.is_closed() {
            return Err(Refusal::Over);
        }
        let (bytes, limits) = (envelope.encode(), self.session.limits(Lane::Data));
        if bytes.len() > limits.message {
            return Err(Refusal::TooLong { bytes: bytes.len(), limit: limits.message });
        }
        if !self.overflow.admit_beyond(to, bytes.len(), limits.queue) {
            return Err(Refusal::Full);
        }
        self.overflow.note_sent(bytes.len());
        self.overflow.push(Lane::Data, bytes, Why::Beyond);
        self.flush();
        Ok(())
    }

    /// Queues an envelope that must not be refused. A peer that takes none of its answers loses the session before the
    /// answers fill the memory.
    pub(super) fn must_queue(&mut self, lane: Lane, envelope: Envelope) -> bool {
        if self.overflow.since_opened() > self.most_owed && !self.session.has_ended() {
            self.is_flooding = true;
            self.session.abort();
        }
        match &mut self.phase {
            Phase::Over => return false,
            Phase::Opening(waiting) => waiting.push_back(AwaitingSession::Envelope(lane, envelope)),
            Phase::Open(_) => return self.must_put(lane, &envelope, Why::Owed),
        }
        true
    }

    /// Like [`put`](Self::put), but ends the session if the envelope is too long, which notifies everyone who waits for
    /// the envelope. An envelope is too long only if the limits are very low.
    pub(super) fn must_put(&mut self, lane: Lane, envelope: &Envelope, why: Why) -> bool {
        let is_put = self.put(lane, envelope, why);
        if !is_put {
            self.session.abort();
        }
        is_put
    }

    /// Queues an envelope after the waiting ones. Returns false if it is too long.
    fn put(&mut self, lane: Lane, envelope: &Envelope, why: Why) -> bool {
        let (mut bytes, limit) = (envelope.encode(), self.session.longest(lane));
        if bytes.len() > limit {
            // The caller learns only that the answer, or the reason of the failure, was too long.
            let (Envelope::Answer { number, .. } | Envelope::Failed { number, .. }) = *envelope else { return false };
            let error = CallError::AnswerTooLong { bytes: bytes.len(), limit };
            bytes = Envelope::Failed { number, error: encode_call_error(&error) }.encode();
        }
        self.overflow.push(lane, bytes, why);
        self.flush();
        true
    }

    /// Returns false only if a message to `to` would be refused for lack of room. This is checked before the message is
    /// encoded, since a message without room may be retried again and again.
    fn may_have_room(&self, to: Pid) -> bool {
        self.session.is_closed()
            || self.overflow.is_clear(Lane::Data) && !self.overflow.is_slow(to) && self.session.has_room(Lane::Data)
    }

    /// Moves waiting messages into the session while it has room.
    pub(super) fn flush(&mut self) {
        self.overflow.flush(&mut self.session, self.anyone);
    }
}

impl Receiver for Peer {
    fn deliver(&self, package: Package) -> Result<(), Undeliverable> {
        self.accept(package, Admission::IfRoom)
    }
}

impl Transport for Peer {
    fn queue(&self, to: Pid) -> Option<TransportQueue> {
        Some(self.lock().overflow.queue(to))
    }

    fn deliver_beyond(&self, package: Package) -> Result<(), Undeliverable> {
        self.accept(package, Admission::Beyond)
    }

    fn send_link(&self, from: Pid, to: Pid, message: LinkMessage<ExitReason>) -> Result<(), LinkMessage<ExitReason>> {
        let (link, number, why) = match &message {
            LinkMessage::Link => (LinkKind::Link, 0, None),
            LinkMessage::Unlink(number) => (LinkKind::Unlink, *number, None),
            LinkMessage::Unlinked(number) => (LinkKind::Unlinked, *number, None),
            LinkMessage::Watch(number) => (LinkKind::Watch, *number, None),
            LinkMessage::Unwatch(number) => (LinkKind::Unwatch, *number, None),
            LinkMessage::Down(number, why) => (LinkKind::Down, *number, Some(why)),
            LinkMessage::Exit(why) => (LinkKind::Exit, 0, Some(why)),
            LinkMessage::Failed(why) => (LinkKind::Failed, 0, Some(why)),
            // A process owns only processes that it has spawned on its own node.
            LinkMessage::Disowned => return Ok(()),
        };
        let reason = why.map_or_else(Bytes::new, encode_exit_reason);
        // Link messages go into the data lane, after all earlier messages.
        let is_sent = self.must_send(Lane::Data, Envelope::Link { from, to, link, number, reason });
        if is_sent { Ok(()) } else { Err(message) }
    }

    fn control(&self, to: Pid, control: ControlMessage) -> bool {
        let (ask, reason) = match &control {
            ControlMessage::Stop => (AskKind::Stop, Bytes::new()),
            ControlMessage::Cancel(why) => (AskKind::Cancel, encode_exit_reason(why)),
            ControlMessage::Kill => (AskKind::Kill, Bytes::new()),
            _ => return false,
        };
        // A stop follows the messages that were sent before it; other requests overtake them.
        let lane = if ask == AskKind::Stop { Lane::Data } else { Lane::Control };
        self.must_send(lane, Envelope::Ask { number: 0, to, ask, reason })
    }
}
