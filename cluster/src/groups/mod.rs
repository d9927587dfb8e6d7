//! Groups of the cluster: one name for processes of any nodes.
//!
//! The members of a group stay where they are: each node keeps those that it has. What all nodes know is **how many**
//! members of each group a node has: an entry of [`Bucket::Groups`](crate::engine::Bucket::Groups) for each node and
//! group. A [`Groups`] is one node's view. It is a state machine without clock, thread or store.
//!
//! # Protocol
//! * **count.** A node writes how many members it has, one access to an entry at a time, so that many joins share a
//!   write. With the last member the entry is deleted. A write whose answer is lost is read. An entry that another node
//!   has deleted, since it took this node for lost, is written again.
//! * **broadcast.** The message goes once to each node that has members, and is handed out there.
//! * **follow.** A node whose processes have subscribed follows the group: it asks each node with members for the list,
//!   which comes first, and then each change. All of that is said in one session and lane, so the changes of one node
//!   come in their order. A node that gets its first member later is asked then.
//! * **lose.** When a session ends, the members of that node have left, with
//!   [`NodeLost`](postroom::ExitReason::NodeLost). When it opens again, the node is asked again.
//! * **inherit.** The entries of a node that is no member any more are deleted by the others: at once if they have seen
//!   the membership end, otherwise a lease's time after they have found them.
//!
//! # Bounds
//! What cannot be sent waits: up to [`MAX_QUEUED`] changes for each peer, and for each subscriber. Beyond that, changes
//! are left out, and the net change is told instead: the list of members again, or the difference. Of another node, up
//! to [`MAX_MEMBERS`] members of each group are kept, as many as it may have, and the groups that it follows, up to
//! 100,000: the session with a node that goes beyond ends.
//!
//! # Invariants
//! 1. At rest, the entry of a node and group has the number of its members, and there is none without members.
//! 2. A subscriber that applies what it is told has the members that its node knows.
//! 3. A process joins, for a subscriber, before it leaves, and in turn.

mod counts;
mod machine;
mod record;
#[cfg(test)]
mod tests;

pub use machine::{Groups, MAX_MEMBERS, MAX_QUEUED};

use crate::access::Access;
use crate::directory::MAX_NAME;
use postroom::Pid;

/// An access to the entry of a node and group, to be made at once and answered exactly once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CountRequest {
    /// The number to pass to [`Groups::handle`] with the answer.
    pub number: u64,
    /// The entry's key.
    pub key: String,
    /// What to do with it.
    pub access: Access,
}

/// What came of a question for the members of a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// The number that [`Groups::ask_members`] has returned.
    pub number: u64,
    /// The members, in the order of their PIDs.
    pub members: Vec<Pid>,
}

/// Why a process did not join a group of the cluster, or subscribe to it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MembershipError {
    /// The name has no bytes, or too many.
    #[error("the name of a group of the cluster has {bytes} bytes; use 1 to {MAX_NAME}")]
    Length {
        /// How many.
        bytes: usize,
    },
    /// The process is not one of this node.
    #[error("{pid} is not a process of this node; have it join, or subscribe, where it runs")]
    Elsewhere {
        /// The process.
        pid: Pid,
    },
    /// The process has ended.
    #[error("{pid} has ended; let the process that takes its place join")]
    Ended {
        /// The process.
        pid: Pid,
    },
    /// The group has too many members on this node: 100,000, or as many as fit into one message of the
    /// [sessions](crate::Builder::sessions).
    #[error("the group has {limit} members on this node, the most it may have; use several groups")]
    Full {
        /// How many there may be.
        limit: usize,
    },
    /// This node has left the cluster.
    #[error("this node has left the cluster; join the cluster again")]
    Left,
}
