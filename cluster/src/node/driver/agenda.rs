//! The list of the peers that the driver has to check. It makes the cost of a turn depend on the work, and not on the
//! number of peers.
//!
//! # Why no peer is overlooked
//! A peer has something to do when it has an event, a frame to transmit, or an expired timeout. Events and frames are
//! announced ([`Input::Ready`](crate::node::inbox::Input::Ready)). The timeout of a peer changes under its lock, in
//! some thread. If that thread is the driver, the peer is in `looked_at`, and its timeout is read again before the
//! driver sleeps ([`Driver::note_timeouts`](super::Driver::note_timeouts)). If it is another thread, it announces the
//! peer, or reminds the driver of the peer after the change ([`Inbox::remind`](crate::node::inbox::Inbox::remind)). The
//! reminder keeps the driver from sleeping past the new timeout. If a timeout becomes later, the driver notices when
//! the earlier one expires.

use crate::clock::Moment;
use postroom::NodeId;
use std::collections::{BTreeMap, BTreeSet};

/// The peers with something to do.
#[derive(Default)]
pub(super) struct Agenda {
    /// Peers to check now.
    now: BTreeSet<NodeId>,
    /// Peers that were checked in this turn, whose timeouts have to be read again.
    looked_at: BTreeSet<NodeId>,
    /// The timeouts as last read, in order.
    due: BTreeSet<(Moment, NodeId)>,
    due_of: BTreeMap<NodeId, Moment>,
}

impl Agenda {
    /// Makes the driver check a peer in this turn or the next.
    pub(super) fn look_at(&mut self, node: NodeId) {
        self.now.insert(node);
    }

    /// Returns the peers to check: those with something to do, and those whose timeout has expired.
    pub(super) fn take(&mut self, now: Moment) -> BTreeSet<NodeId> {
        let due = self.due.iter().take_while(|(at, _)| *at <= now).map(|(_, node)| *node);
        self.now.extend(due);
        let nodes = std::mem::take(&mut self.now);
        self.looked_at.extend(&nodes);
        nodes
    }

    /// Records that a peer was changed, and that its timeout has to be read again.
    pub(super) fn changed(&mut self, node: NodeId) {
        self.looked_at.insert(node);
    }

    /// Returns the peers whose timeouts have to be read again.
    pub(super) fn take_changed(&mut self) -> BTreeSet<NodeId> {
        std::mem::take(&mut self.looked_at)
    }

    /// Records when a peer is due next. `None` means never: the peer has no timeout, or does not exist.
    pub(super) fn note(&mut self, node: NodeId, at: Option<Moment>) {
        if let Some(before) = self.due_of.remove(&node) {
            self.due.remove(&(before, node));
        }
        if let Some(at) = at {
            self.due_of.insert(node, at);
            self.due.insert((at, node));
        }
    }

    /// Returns when the first peer is due.
    pub(super) fn next(&self) -> Option<Moment> {
        self.due.first().map(|(at, _)| *at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    /// Catches: a peer that replaces another peer due at the same moment, or an earlier timeout that remains.
    #[test]
    fn each_peer_is_due_once_and_in_order() {
        let nodes = [1, 2, 3].map(|number| NodeId::new(number).unwrap());
        let at = |millis| Moment::after_start(Duration::from_millis(millis));
        let mut agenda = Agenda::default();
        for (node, millis) in nodes.into_iter().zip([5, 5, 9]) {
            agenda.note(node, Some(at(millis)));
        }
        assert!(agenda.take(at(4)).is_empty());
        assert_eq!(agenda.take(at(5)), BTreeSet::from([nodes[0], nodes[1]]));
        assert_eq!(agenda.take_changed(), BTreeSet::from([nodes[0], nodes[1]]));
        agenda.note(nodes[0], None);
        agenda.note(nodes[1], Some(at(7)));
        assert_eq!(agenda.next(), Some(at(7)));
        agenda.look_at(nodes[0]);
        assert_eq!(agenda.take(at(6)), BTreeSet::from([nodes[0]]));
        assert_eq!(agenda.take(at(9)), BTreeSet::from([nodes[1], nodes[2]]));
    }
}
