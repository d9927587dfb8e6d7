//! What of a node must end: its holders of names, and, when it leaves, its sessions, its record and its lease.

use crate::clock::{LONGEST_WAIT, Moment};
use crate::reply::Completer;
use postroom::Pid;

/// How far a node that leaves has come.
pub(super) struct Leaving {
    pub(super) then: Vec<Completer<()>>,
    pub(super) step: LeavingStep,
    /// When it takes the next step anyway.
    pub(super) until: Moment,
    /// Not before the children of this node's supervisors at the peers have ended.
    pub(super) awaits_children: bool,
}

/// In this order, so that a name has no second holder before its first has ended, and that what the holders say in
/// their end still arrives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LeavingStep {
    /// The holders of names end, and their names are given up.
    Holders,
    /// What was accepted for the peers is sent, and they are told.
    Peers,
    /// Record and lease are deleted.
    Store,
}

/// A process that must end, since its node was fenced or leaves.
pub(super) struct Condemned {
    pub(super) pid: Pid,
    pub(super) names: String,
    /// When it had to stop acting.
    pub(super) since: Moment,
    /// When it is killed.
    pub(super) at: Moment,
    /// The log has said that it still runs.
    pub(super) is_overdue: bool,
}

impl Condemned {
    /// Returns when there is something to do about it.
    pub(super) fn next_timeout(&self, now: Moment) -> Moment {
        if now < self.at { self.at } else { now + LONGEST_WAIT }
    }
}
