//! The sessions with the other members: their beginning, their transmissions and their end.

use super::{AGAIN, ConnectedPeer, Driver};
use crate::clock::Moment;
use crate::engine::Lane;
use crate::frame::Epoch;
use crate::membership::Identity;
use crate::node::delivery::Arrival;
use crate::node::peer::{Arriving, Peer, Port};
use crate::session::{Session, SessionEnd, SessionEvent, Transmit, refusal};
use postroom::NodeId;
use std::cell::Cell;
use std::collections::BTreeSet;
use std::sync::Arc;

impl Driver {
    /// Handles a frame from a node without a session, or a frame that arrived before this node had begun the session. A
    /// frame of the second kind is dropped, since its sender repeats every frame that needs an answer.
    pub(super) fn stray(&self, now: Moment, from: Identity, payload: bytes::Bytes) {
        if self.peers.contains_key(&from.id) {
            return;
        }
        let answer = refusal(payload).filter(|_| self.may_send(now));
        if let Some(Transmit { lane, payload }) = answer {
            let subject = self.subjects.frame(&from, lane, &self.own);
            // If the answer is lost, the sender repeats its frame.
            let _ = self.setup.engine.publish(lane, &subject, payload);
        }
    }

    pub(super) fn begin_sessions(&mut self, now: Moment) {
        let Some(epoch) = self.attempt.as_ref().and_then(|attempt| attempt.epoch) else { return };
        let due: Vec<_> = self.begin_at.iter().filter(|(_, at)| **at <= now).map(|(node, _)| *node).collect();
        for node in due {
            self.begin_at.remove(&node);
            let Some(&revision) = self.members.get(&node) else { continue };
            let name = self.setup.view.lock().members.get(&node).map(|member| member.name.clone());
            let Some(name) = name else { continue };
            if self.peers.contains_key(&node) {
                continue;
            }
            let count = self.begun.entry((node, revision)).or_default();
            let Some(local) = Epoch::new(epoch, *count) else { continue };
            *count += 1;
            let session = Session::new(self.setup.session, local, revision, self.table.clone(), now);
            let peer =
                Arc::new(Peer::new(node, self.setup.codecs.clone(), self.port(&Identity { name, id: node }), session));
            self.setup.arrivals.push(Arrival::Begun(Arc::clone(&peer)));
            self.setup.view.change(|view| _ = view.peers.insert(node, Arc::clone(&peer)));
            self.peers.insert(node, ConnectedPeer { peer, revision, is_closing: Cell::new(false) });
            self.ready.insert(node);
            self.agenda.changed(node);
        }
    }

    pub(super) fn port(&self, node: &Identity) -> Port {
        Port {
            engine: Arc::clone(&self.setup.engine),
            clock: Arc::clone(&self.setup.clock),
            gate: Arc::clone(&self.setup.gate),
            inbox: Arc::clone(&self.setup.inbox),
            arrivals: Arc::clone(&self.setup.arrivals) as Arc<dyn Arriving>,
            subjects: Lane::ALL.map(|lane| self.subjects.frame(node, lane, &self.own)),
        }
    }

    /// Ends a session from this side.
    pub(super) fn end_session(&mut self, node: NodeId) {
        if let Some(connected) = self.peers.remove(&node) {
            connected.peer.abort();
            self.agenda.changed(node);
            self.over(node, connected.peer);
        }
    }

    pub(super) fn over(&mut self, node: NodeId, peer: Arc<Peer>) {
        self.setup.arrivals.push(Arrival::Ended(peer));
        self.setup.view.change(|view| {
            view.peers.remove(&node);
            if let Some(member) = view.members.get_mut(&node) {
                member.is_connected = false;
            }
        });
    }

    /// Handles the peers that have something to do.
    pub(super) fn advance_sessions(&mut self, now: Moment) {
        self.setup.inbox.take_reminded().into_keys().for_each(|node| self.agenda.look_at(node));
        for node in self.agenda.take(now) {
            let Some(connected) = self.peers.get_mut(&node) else { continue };
            #[cfg(test)]
            self.setup.view.count_look();
            let peer = Arc::clone(&connected.peer);
            if peer.next_timeout().is_some_and(|next| next <= now) {
                peer.handle_timeout(now);
                self.ready.insert(node);
            }
            // A message that arrives during this loop is queued for the delivery after the opening of its session and
            // before the session's end.
            while let Some(event) = peer.poll_event() {
                self.session_event(now, node, &peer, event);
            }
        }
    }

    pub(super) fn session_event(&mut self, now: Moment, node: NodeId, peer: &Arc<Peer>, event: SessionEvent) {
        match event {
            SessionEvent::Opened { table, .. } => {
                self.setup.arrivals.push(Arrival::Opened(Arc::clone(peer), table));
                self.ready.insert(node);
            }
            SessionEvent::Slow(_) | SessionEvent::Fast(_) => {}
            SessionEvent::Suspect => {
                if let Some(attempt) = &mut self.attempt {
                    attempt.membership.suspect(node);
                }
            }
            SessionEvent::Ended(end) => {
                // Transmits the last frames.
                peer.transmit();
                let Some(connected) = self.peers.remove(&node) else { return };
                if let (SessionEnd::Left, Some(attempt)) = (&end, &mut self.attempt) {
                    attempt.membership.goodbye(node, connected.revision);
                }
                self.over(node, connected.peer);
                if self.leaving.is_none() && self.members.contains_key(&node) {
                    self.begin_at.insert(node, now + AGAIN);
                }
            }
        }
    }

    pub(super) fn transmit(&mut self) {
        let ready: BTreeSet<_> =
            std::mem::take(&mut self.ready).into_iter().chain(std::mem::take(&mut self.busy)).collect();
        for node in ready {
            if self.peers.get(&node).is_some_and(|connected| connected.peer.transmit()) {
                self.busy.insert(node);
            }
            self.agenda.changed(node);
        }
    }

    /// Reads the timeouts of the peers that were changed in this turn.
    pub(super) fn note_timeouts(&mut self) {
        for node in self.agenda.take_changed() {
            let at = self.peers.get(&node).and_then(|connected| connected.peer.next_timeout());
            self.agenda.note(node, at);
        }
    }
}
