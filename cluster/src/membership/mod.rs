//! Membership: which nodes are there, and when one counts as lost.
//!
//! Each node has a record in [`Bucket::Nodes`](crate::engine::Bucket::Nodes), under its [`Identity`]: its name and its
//! [`NodeId`]. **The records decide**, not who hears from whom: all nodes see the same ones, in one order. A
//! [`Membership`] is one node's view. It is a state machine without clock, thread or store: the caller passes in what
//! the watch of the bucket reports, makes the [requests](Membership::poll_request), and hears of
//! [events](MembershipEvent).
//!
//! # Protocol
//! * **join.** Create the record. A conflict is read: it may be the node's own, from an attempt whose answer was lost;
//!   if it is another's, two nodes have drawn one ID, and this one does not join. The revision of the record is the
//!   node's epoch, until it leaves.
//! * **join again.** A node whose membership is over first deletes its own record, which may be there still, and
//!   whatever else it finds under its key: it was a member with this ID, so no other node has it. A refusal of the
//!   store ends that attempt, and not the node: the caller begins another. It can be told to
//!   [expect](Membership::expect) a record of that time before it creates its own: without one the store may be
//!   another.
//! * **watch.** A record that appears is a member that joined; one that disappears, a member that is lost. After an
//!   interruption the watch reports a snapshot (*resync*): what it does not contain is **read again** before it counts
//!   as lost, since the snapshot may be older than what is known of that member.
//! * **suspect.** A hint says that a node may be down: a session is silent, or the broker saw a connection close. Hints
//!   may be wrong. The suspect is **probed**: a node that runs subscribes to its subject. If the broker says that there
//!   is no subscriber, then after a **grace** of [`GRACE`] the node is probed again: a connection that was interrupted
//!   is back by then. If there still is none, the record is **deleted**, if it still has the same revision. No answer
//!   proves nothing: the probe is repeated, until the lease is over.
//! * **expire.** A member whose lease the broker has deleted has fenced itself; its record is deleted without probes.
//! * **goodbye.** A member that leaves says so to each peer and counts as lost at once. Its record may be seen for some
//!   time after that, and does not make it a member again.
//! * **evict.** A node whose own record is gone, which it reads again before it believes it, is no member: it has to
//!   fence itself, and to join anew.
//!
//! * **bind.** The first record that is seen with an ID binds the ID to the name in its key, for as long as this node
//!   runs. A record that claims the ID under another name is ignored, and so is its deletion: the node of that name may
//!   write it, but cannot become the other by that. So a node that is away is not replaced while it is.
//!
//! # Invariants
//! 1. For each node, joins and losses alternate, and the revisions grow: each [`MembershipEvent::Lost`] belongs to the
//!    [`MembershipEvent::Joined`] before it. So each loss is reported exactly once.
//! 2. A node that restarts is another node: it has drawn a new ID. One that joins again with its ID has another
//!    revision, and its peers first hear that the old one is lost.
//! 3. A record is deleted by others only after two probes found no subscriber, [`GRACE`] apart, or when its lease was
//!    over; and only in the revision that this was found of.
//! 4. When nothing changes any more, the members are those with records, except this node and those that said goodbye.
//! 5. While this node runs, an ID belongs to one name.
//!
//! # Limits
//! | limit | value | reason |
//! |---|---|---|
//! | name of a node | [`MAX_NODE_NAME`] = 64 B | two are in each subject |
//! | [`MAX_BINDINGS`] | 65,536 | at 100 B each, 7 MB; a node that restarts draws one more |
//! | [`GRACE`] | 1 s | an interrupted connection is back by then; a loss is heard 1 s after the hint |
//! | [`RETRY`] | 1 s | between attempts that the store could not answer |
//! | [`PROBE_AGAIN`] | 0.2 s | after a probe without an answer, which has waited itself |
//!
//! The cost of a node is one record, and a few words for each member. A suspect costs each node that was given the hint
//! two probes, and one deletion, of which the first succeeds.

mod machine;
mod record;
#[cfg(test)]
mod store;
#[cfg(test)]
mod tests;

pub use crate::subject::Identity;
pub use machine::{KnownNames, Membership};
pub use record::{MAX_NODE_NAME, Record, RecordError};

use crate::access::{Access, Answer};
use crate::engine::{ProbeOutcome, Revision};
use postroom::NodeId;
use std::time::Duration;

/// How long after the first probe that found no subscriber the second is made.
pub const GRACE: Duration = Duration::from_secs(1);
/// The wait before an attempt is repeated that could not be answered.
pub const RETRY: Duration = Duration::from_secs(1);
/// The wait before a probe is repeated that had no answer. It is short, since a node that became silent is not known to
/// be gone before the first probe after the broker has given up its connection; and not zero, since a node that is cut
/// off from the broker has its answers at once.
pub const PROBE_AGAIN: Duration = Duration::from_millis(200);
/// How many IDs of nodes that are members no more are remembered with their names.
pub const MAX_BINDINGS: usize = 65_536;

/// What the caller is to do; each is to be answered exactly once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MembershipRequest {
    /// The number to pass to [`Membership::handle`] with the answer.
    pub number: u64,
    /// The node that it is about. Its record has the key that this writes.
    pub node: Identity,
    /// What to do.
    pub inquiry: Inquiry,
}

/// What is asked about a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Inquiry {
    /// Make this access to its record.
    Record(Access),
    /// Ask the broker whether it has subscribed to its subject.
    Probe,
}

/// What came of a [`MembershipRequest`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Finding {
    /// The answer to [`Inquiry::Record`].
    Record(Answer),
    /// The answer to [`Inquiry::Probe`].
    Probe(ProbeOutcome),
}

/// What happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MembershipEvent {
    /// This node is a member, with this epoch.
    Entered(Revision),
    /// This node cannot join in this attempt: the last event.
    Refused(JoinRefusal),
    /// This node is no member any more. Its peers have been reported lost: the last event.
    Evicted,
    /// A node has become a member.
    Joined {
        /// The node.
        node: NodeId,
        /// Its epoch.
        revision: Revision,
        /// What it says of itself.
        record: Record,
    },
    /// A member is lost, with all that ran there.
    Lost {
        /// The node.
        node: NodeId,
        /// Its epoch.
        revision: Revision,
        /// How that was found.
        cause: Loss,
    },
    /// There is a record that is none. It is ignored.
    Unreadable {
        /// Its key, shortened if it is long.
        key: String,
        /// What is wrong with it.
        error: RecordError,
    },
}

/// How a loss was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Loss {
    /// It said goodbye.
    Left,
    /// It did not answer probes, or its lease was over; this node has deleted its record, and was the first to know.
    Down,
    /// Its record is gone: another node has deleted it, or the node itself as it left.
    Removed,
    /// It has joined again: the old membership is over.
    Rejoined,
    /// This node itself is no member any more.
    Fenced,
}

/// Why a node cannot join.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum JoinRefusal {
    /// The record with its ID is another's.
    #[error(
        "the node ID {node} belongs to `{holder}`; restart the program, which draws another, or, for several nodes in \
         one program, build each runtime with `Builder::logical_node`"
    )]
    Collision {
        /// The ID.
        node: NodeId,
        /// The name of the node that has it; `?` if its record cannot be read.
        holder: String,
    },
    /// The store will not have the record.
    #[error("the store refuses the record of this node: {0}")]
    Store(crate::engine::StoreError),
    /// The cluster has as many nodes as it may have.
    #[error(
        "the cluster has {limit} nodes, the most that this node was built for; set `max_nodes` higher on all nodes"
    )]
    Full {
        /// The most nodes.
        limit: usize,
    },
}
