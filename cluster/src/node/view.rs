//! What the driver knows and users look at.

use super::inbox::Check;
use super::peer::Peer;
use crate::clock::Moment;
use crate::membership::JoinError;
use crate::names::Names;
use postroom::NodeId;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A member of the cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// Its ID: that of its PIDs.
    pub id: NodeId,
    /// Its name.
    pub name: String,
    /// Whether there is a session with it: messages get through. Always true of this node while it is a member.
    pub is_connected: bool,
}

/// What the driver knows and users look at.
#[derive(Default)]
pub(crate) struct View {
    state: Mutex<ViewState>,
    /// Who waits for a change of that.
    waits: Mutex<Vec<Wait>>,
    names: Mutex<Names>,
}

#[derive(Default)]
pub(crate) struct ViewState {
    /// Whether this node is a member, and its lease is valid.
    pub(crate) is_member: bool,
    /// It will be no member any more: it has left, or was refused.
    pub(crate) is_over: Option<Option<JoinError>>,
    pub(crate) members: BTreeMap<NodeId, Member>,
    pub(crate) peers: BTreeMap<NodeId, Arc<Peer>>,
}

/// A wait for a change of the view, for a limited time.
struct Wait {
    check: Check,
    until: Moment,
}

impl View {
    pub(crate) fn lock(&self) -> MutexGuard<'_, ViewState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The driver's, which users look up names in.
    pub(crate) fn names(&self) -> MutexGuard<'_, Names> {
        self.names.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What is sent to this peer gets through from now on.
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

    /// Answers the waits that have come to their end, and those whose time is over, if that is known.
    pub(super) fn answer_waits(&self, now: Option<Moment>) {
        let mut over = Vec::new();
        self.waits().retain_mut(|wait| {
            let answer = (wait.check)(now.is_some_and(|now| wait.until <= now));
            let is_over = answer.is_some();
            over.extend(answer);
            !is_over
        });
        // Outside the lock: whom they wake is a user's.
        over.into_iter().for_each(|answer| answer());
    }

    /// Returns when the time of the first wait is over.
    pub(super) fn next_wait(&self) -> Option<Moment> {
        self.waits().iter().map(|wait| wait.until).min()
    }

    /// No wait will come to its end: they are answered by being dropped.
    pub(super) fn end_waits(&self) {
        let waits = std::mem::take(&mut *self.waits());
        drop(waits);
    }
}
