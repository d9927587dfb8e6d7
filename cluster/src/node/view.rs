//! The driver's knowledge as users see it.

use super::inbox::Check;
use super::peer::Peer;
use crate::clock::Moment;
use crate::lease::Fence;
use crate::membership::JoinRefusal;
use crate::names::Names;
use crate::store::Revision;
use postroom::NodeId;
use std::collections::BTreeMap;
#[cfg(test)]
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A member of the cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// The ID of the node, which is part of its PIDs.
    pub id: NodeId,
    /// The name of the node.
    pub name: String,
    /// Whether there is a session with the node, so that messages get through. Always true for this node while it is a
    /// member.
    pub is_connected: bool,
}

/// Why a node is not a member of its cluster, though it has not left. The node keeps trying to rejoin as long as it
/// runs.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Outage {
    /// The node no longer has a lease, or got none when it tried to rejoin.
    #[error(transparent)]
    Fenced(Fence),
    /// The node's record is gone, or was replaced.
    #[error(
        "the record of this node was removed or replaced; check whether its connection with the broker was closed for \
         a second, after which others remove it, and who may write it"
    )]
    Evicted,
    /// The node could not rejoin.
    #[error(transparent)]
    Refused(JoinRefusal),
    /// The broker no longer accepts this node, and that will not change by itself.
    #[error("{problem}")]
    Broker {
        /// The problem that the engine reports, and its remedy.
        problem: String,
    },
}

/// The driver's knowledge as users see it.
#[derive(Default)]
pub(crate) struct View {
    state: Mutex<ViewState>,
    /// The waits for a change of the state.
    waits: Mutex<Vec<Wait>>,
    names: Mutex<Names>,
    /// For tests: the number of the driver's turns, and the number of its checks of peers.
    #[cfg(test)]
    work: [AtomicU64; 2],
}

#[derive(Default)]
pub(crate) struct ViewState {
    /// Whether this node is a member, and its lease is valid.
    pub(crate) is_member: bool,
    /// Why this node is not a member. Set only if it was a member, or if its join got far enough that the store has its
    /// record.
    pub(crate) outage: Option<Outage>,
    /// The problem that currently keeps this node from the broker, while it is not a member.
    pub(crate) obstacle: Option<String>,
    /// Set if this node will never be a member again. The inner value is the refusal of its first join, or `None` if it
    /// has left.
    pub(crate) is_over: Option<Option<JoinRefusal>>,
    /// All nodes with known records. If several have the same name, users see the [latest](Self::latest).
    pub(crate) members: BTreeMap<NodeId, Member>,
    /// The epochs of the members.
    epochs: BTreeMap<NodeId, Revision>,
    /// This node's name and epoch while it is a member.
    pub(crate) own: Option<(String, Revision)>,
    pub(crate) peers: BTreeMap<NodeId, Arc<Peer>>,
}

/// A wait for a change of the view, for a limited time.
struct Wait {
    check: Check,
    until: Moment,
}

impl ViewState {
    pub(super) fn joined(&mut self, member: Member, epoch: Revision) {
        self.epochs.insert(member.id, epoch);
        self.members.insert(member.id, member);
    }

    pub(super) fn lost(&mut self, node: NodeId) {
        self.epochs.remove(&node);
        self.members.remove(&node);
    }

    pub(super) fn clear_members(&mut self) {
        self.epochs.clear();
        self.members.clear();
        self.own = None;
    }

    /// Returns the members, at most one per name: the one that joined last. An older member with the same name, or with
    /// this node's name, is left over from a node that was restarted since. Its loss has not been noticed yet.
    pub(crate) fn latest(&self) -> Vec<&Member> {
        let mut latest: BTreeMap<&str, (Revision, &Member)> = BTreeMap::new();
        for member in self.members.values() {
            let epoch = self.epochs.get(&member.id).copied().unwrap_or(Revision(0));
            let other = latest.entry(&member.name).or_insert((epoch, member));
            if other.0 < epoch {
                *other = (epoch, member);
            }
        }
        if let Some((name, own)) = &self.own
            && latest.get(name.as_str()).is_some_and(|(epoch, _)| epoch < own)
        {
            latest.remove(name.as_str());
        }
        latest.into_values().map(|(_, member)| member).collect()
    }
}

impl View {
    pub(crate) fn lock(&self) -> MutexGuard<'_, ViewState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Locks the driver's names, where users look up holders.
    pub(crate) fn names(&self) -> MutexGuard<'_, Names> {
        self.names.lock().unwrap_or_else(PoisonError::into_inner)
    }

    #[cfg(test)]
    pub(super) fn count_turn(&self) {
        self.work[0].fetch_add(1, Ordering::Relaxed);
    }

    #[cfg(test)]
    pub(super) fn count_look(&self) {
        self.work[1].fetch_add(1, Ordering::Relaxed);
    }

    /// Returns the number of turns of the driver, and how many times it has checked a peer.
    #[cfg(test)]
    pub(crate) fn work(&self) -> [u64; 2] {
        [0, 1].map(|at| self.work[at].load(Ordering::Relaxed))
    }

    /// Marks a peer as connected: from now on messages to it get through.
    pub(crate) fn connected(&self, peer: &Arc<Peer>) {
        self.change(|view| {
            let is_current = view.peers.get(&peer.node()).is_some_and(|current| Arc::ptr_eq(current, peer));
            if let Some(member) = view.members.get_mut(&peer.node()).filter(|_| is_current) {
                member.is_connected = true;
            }
        });
    }

    pub(super) fn change(&self, change: impl FnOnce(&mut ViewState)) {
        let mut state = self.lock();
        change(&mut state);
        drop(state);
        self.answer_waits(None);
    }

    fn waits(&self) -> MutexGuard<'_, Vec<Wait>> {
        self.waits.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn wait(&self, until: Moment, check: Check) {
        self.waits().push(Wait { check, until });
        self.answer_waits(None);
    }

    /// Answers the waits that have ended and, if `now` is given, those whose time is over.
    pub(super) fn answer_waits(&self, now: Option<Moment>) {
        let mut over = Vec::new();
        self.waits().retain_mut(|wait| {
            let answer = (wait.check)(now.is_some_and(|now| wait.until <= now));
            let is_over = answer.is_some();
            over.extend(answer);
            !is_over
        });
        // Called outside the lock, since the answers may run user code.
        over.into_iter().for_each(|answer| answer());
    }

    /// Returns the time at which the first wait times out.
    pub(super) fn next_wait(&self) -> Option<Moment> {
        self.waits().iter().map(|wait| wait.until).min()
    }

    /// Drops all waits, which answers them. Nothing else can end them any more.
    pub(super) fn end_waits(&self) {
        let waits = std::mem::take(&mut *self.waits());
        drop(waits);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_one_name_the_node_that_has_joined_last_is_shown() {
        let id = |number| NodeId::new(number).unwrap();
        let mut view = ViewState::default();
        let join = |view: &mut ViewState, number, name: &str, epoch| {
            view.joined(Member { id: id(number), name: name.into(), is_connected: false }, Revision(epoch));
        };
        let shown = |view: &ViewState| view.latest().iter().map(|member| member.id.get()).collect::<Vec<_>>();
        join(&mut view, 9, "eu-1", 1);
        join(&mut view, 2, "eu-2", 2);
        join(&mut view, 7, "eu-1", 3);
        assert_eq!(shown(&view), [7, 2]);
        // The order in which the records are reported does not matter.
        join(&mut view, 5, "eu-1", 2);
        assert_eq!(shown(&view), [7, 2]);
        // The newest one is lost, and an older node of the same name remains.
        view.lost(id(7));
        assert_eq!(shown(&view), [5, 2]);
        view.own = Some(("eu-1".into(), Revision(4)));
        assert_eq!(shown(&view), [2]);
        join(&mut view, 8, "eu-1", 5);
        assert_eq!(shown(&view), [8, 2]);
        view.clear_members();
        assert!(shown(&view).is_empty());
    }
}
