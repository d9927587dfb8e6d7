//! Groups of the cluster: one name for processes on any nodes.
//!
//! The members of a group stay where they are, and each node knows its own. All nodes know only **how many** members of
//! each group a node has: the store has an entry in [`Bucket::Groups`](crate::store::Bucket::Groups) for each node and
//! group. A [`Groups`] is one node's view. It is a state machine without clock, thread or store.
//!
//! # Protocol
//! * **count.** A node writes how many members it has, with one access to an entry at a time, so many joins share a
//!   write. When the last member leaves, the entry is deleted. After a write whose answer is lost, the entry is read.
//!   If another node has deleted an entry because it considered this node lost, the entry is written again.
//! * **broadcast.** The message is sent once to each node with members, and is handed out there.
//! * **follow.** A node whose processes have subscribed follows the group: it asks each node with members. Such a node
//!   sends the list first, and then each change. All of these messages use one session and lane, so the changes on one
//!   node arrive in order. A node that gets its first member later is asked at that time.
//! * **lose.** When a session ends, the members on that node leave, with [`NodeLost`](postroom::ExitReason::NodeLost).
//!   When the session opens again, the node is asked again.
//! * **inherit.** The entries of a node that is no longer a member are deleted by the others: at once if they saw the
//!   membership end, otherwise one lease time after they found the entries.
//!
//! # Bounds
//! Up to [`MAX_QUEUED`] changes wait for each peer and for each subscriber. Beyond that, changes are left out, and the
//! net change is reported instead: the list of members again, or the difference. For each other node, up to
//! [`MAX_MEMBERS`] members of each group are kept, which is as many as a node may have, and up to 100,000 groups that
//! it follows. If a node exceeds these limits, the session with it ends.
//!
//! # Invariants
//! 1. At rest, the entry of a node and group contains the number of its members, and no entry exists without members.
//! 2. A subscriber that applies all events has the same members as its node knows.
//! 3. For a subscriber, a process joins before it leaves, and joins and leaves alternate.

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
    /// The access to make.
    pub access: Access,
}

/// The answer to a question for the members of a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// The number that [`Groups::ask_members`] returned.
    pub number: u64,
    /// The members, in the order of their PIDs.
    pub members: Vec<Pid>,
}

/// Why a process could not join a group of the cluster, or subscribe to it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MembershipError {
    /// The name is empty or too long.
    #[error("the name of a group of the cluster has {bytes} bytes; use 1 to {MAX_NAME}")]
    Length {
        /// Its length.
        bytes: usize,
    },
    /// The process does not belong to this node.
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
    /// The group has the maximum number of members on this node: 100,000, or as many as fit into one message of the
    /// [sessions](crate::Builder::sessions).
    #[error("the group has {limit} members on this node, the most it may have; use several groups")]
    Full {
        /// The maximum.
        limit: usize,
    },
    /// This node has left the cluster.
    #[error("this node has left the cluster; join the cluster again")]
    Left,
}
