//! The state of whatever must end on a node: its holders of names and, when the node leaves, its sessions, its record
//! and its lease.

use crate::clock::{LONGEST_WAIT, Moment};
use crate::reply::Completer;
use postroom::Pid;

/// The progress of a node that leaves.
pub(super) struct Leaving {
    pub(super) then: Vec<Completer<()>>,
    pub(super) step: LeavingStep,
    /// The time at which the node takes the next step even if this one is not complete.
    pub(super) until: Moment,
    /// Whether the step also waits for the end of the children that this node's supervisors have on the peers.
    pub(super) awaits_children: bool,
}

/// The steps, in order. The order ensures that a name has no second holder before its first holder has ended, and that
/// the last messages of the holders still arrive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LeavingStep {
    /// The holders of names end, and their names are released.
    Holders,
    /// The messages that were accepted for the peers are sent, and the peers are notified.
    Peers,
    /// The record and the lease are deleted.
    Store,
}

/// A process that must end because its node was fenced or leaves.
pub(super) struct Condemned {
    pub(super) pid: Pid,
    pub(super) names: String,
    /// The time from which it must no longer act as a holder.
    pub(super) since: Moment,
    /// The time at which it is killed.
    pub(super) at: Moment,
    /// Whether the log has already reported that the process still runs.
    pub(super) is_overdue: bool,
}

impl Condemned {
    /// Returns when the process has to be checked again.
    pub(super) fn next_timeout(&self, now: Moment) -> Moment {
        if now < self.at { self.at } else { now + LONGEST_WAIT }
    }
}
