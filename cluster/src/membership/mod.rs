//! Membership: which nodes belong to the cluster, and when a node counts as lost.
//!
//! Each node has a record in [`Bucket::Nodes`](crate::store::Bucket::Nodes), under its [`Identity`]: its name and its
//! [`NodeId`]. **The records decide** who is a member, not which nodes receive messages from each other: all nodes see
//! the same records, in the same order. A [`Membership`] is one node's view. It is a state machine without clock,
//! thread or store: the caller passes in the changes that the watch of the bucket reports, makes the
//! [requests](Membership::poll_request), and receives [events](MembershipEvent).
//!
//! # Protocol
//! * **join.** Create the record. After a conflict the record is read: it may be the node's own, from an attempt whose
//!   answer was lost; if it belongs to another node, the two have drawn the same ID, and this one does not join. The
//!   revision of the record is the node's epoch until it leaves.
//! * **join again.** A node whose membership is over first deletes its own record, which may still exist, and anything
//!   else that it finds under its key: it was a member with this ID, so no other node has it. If the store refuses,
//!   only that attempt ends, and the caller begins another. The node can be told to [expect](Membership::expect) a
//!   record from the time of its earlier membership before it creates its new record: without such a record, the store
//!   may be a different one.
//! * **watch.** If a record appears, a member has joined. If a record disappears, a member is lost. After an
//!   interruption the watch reports a snapshot (*resync*): a record that is missing from it is **read again** before
//!   the member counts as lost, since the snapshot may be older than this node's last report of the member.
//! * **suspect.** A hint says that a node may be down: its session is silent, or the broker saw its connection close.
//!   Hints may be wrong, so the suspect is **probed**: a node that runs subscribes to its subject. If the broker says
//!   that there is no subscriber, the node is probed again after a **grace** of [`GRACE`], when an interrupted
//!   connection would be back. If there still is no subscriber, the record is **deleted**, provided that it has the
//!   same revision. A missing answer proves nothing: the probe is repeated until the lease is over.
//! * **expire.** A member whose lease the broker has deleted has fenced itself; its record is deleted without probes.
//! * **goodbye.** A member that leaves tells each peer, and counts as lost at once. Its record may remain visible for
//!   some time, but does not make it a member again.
//! * **evict.** A node whose own record is deleted or replaced is no longer a member: it has to fence itself, and to
//!   join again. If only a snapshot lacks the record, the node reads it again before it believes that.
//!
//! * **bind.** The first record that is seen with an ID binds the ID to the name in its key, for as long as this node
//!   runs. A record that claims the ID under another name is ignored, and so is its deletion: the node with that other
//!   name may write the record, but does not take over the ID. So while a node is away, no other node can take its
//!   place.
//!
//! # Invariants
//! 1. For each node, joins and losses alternate, and the revisions grow: each [`MembershipEvent::Lost`] belongs to the
//!    [`MembershipEvent::Joined`] before it. So each loss is reported exactly once.
//! 2. A node that restarts is a different node, since it has drawn a new ID. A node that joins again with its ID has
//!    another revision, and its peers first learn that the old membership is lost.
//! 3. Other nodes delete a record only after two probes, [`GRACE`] apart, found no subscriber, or after its lease was
//!    over; and they delete only the revision for which they found this.
//! 4. Once nothing changes any more, the members are those with records, except this node and those that said goodbye.
//! 5. While this node runs, an ID belongs to one name.
//!
//! # Limits
//! | limit | value | reason |
//! |---|---|---|
//! | name of a node | [`MAX_NODE_NAME`] = 64 B | each subject contains two |
//! | [`MAX_BINDINGS`] | 65,536 | 7 MB at 100 B each; each restart of a node adds one |
//! | [`GRACE`] | 1 s | an interrupted connection is back by then; a loss is reported 1 s after the hint |
//! | [`RETRY`] | 1 s | delay between attempts that the store could not answer |
//! | [`OWN_RETRY`] | 0.2 s | the same for its own record: a program asks before its engine is connected |
//! | [`PROBE_AGAIN`] | 0.2 s | delay after a probe without an answer, which has already taken time |
//!
//! A node costs one record, and a few words for each member. A suspect costs each node that was given the hint two
//! probes and one deletion; only the first deletion succeeds.

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
use crate::engine::ProbeOutcome;
use crate::store::Revision;
use postroom::NodeId;
use std::time::Duration;

/// Time between the first probe that found no subscriber and the second probe.
pub const GRACE: Duration = Duration::from_secs(1);
/// The delay before an attempt that could not be answered is repeated.
pub const RETRY: Duration = Duration::from_secs(1);
/// The delay before an attempt that concerns the node's own record is repeated. It is short, because the first attempt
/// of a program usually comes before its engine has connected, and is refused at once.
pub const OWN_RETRY: Duration = Duration::from_millis(200);
/// The delay before a probe without an answer is repeated. It is short, because the loss of a silent node is found by
/// the first probe after the broker has given up the node's connection. It is not zero, because a node that is cut off
/// from the broker gets the outcome of its probes at once.
pub const PROBE_AGAIN: Duration = Duration::from_millis(200);
/// The maximum number of IDs that are remembered with their names. Beyond it, the IDs of nodes that are no longer
/// members are forgotten.
pub const MAX_BINDINGS: usize = 65_536;

/// A request to the caller, to be answered exactly once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MembershipRequest {
    /// The number to pass to [`Membership::handle`] with the answer.
    pub number: u64,
    /// The node that the request is about. The text of this identity is the key of its record.
    pub node: Identity,
    /// The inquiry to make.
    pub inquiry: Inquiry,
}

/// An inquiry about a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Inquiry {
    /// An access to its record.
    Record(Access),
    /// Asks the broker whether the node has subscribed to its subject.
    Probe,
}

/// The answer to a [`MembershipRequest`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Finding {
    /// The answer to [`Inquiry::Record`].
    Record(Answer),
    /// The answer to [`Inquiry::Probe`].
    Probe(ProbeOutcome),
}

/// A change that a [`Membership`] reports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MembershipEvent {
    /// This node is a member, with this epoch.
    Entered(Revision),
    /// This node cannot join in this attempt. This is the last event.
    Refused(JoinRefusal),
    /// This node is no longer a member. Its peers have been reported lost. This is the last event.
    Evicted,
    /// A node has become a member.
    Joined {
        /// The node.
        node: NodeId,
        /// Its epoch.
        revision: Revision,
        /// The node's record.
        record: Record,
    },
    /// A member is lost, with everything that ran on it.
    Lost {
        /// The node.
        node: NodeId,
        /// Its epoch.
        revision: Revision,
        /// How the loss was found.
        cause: Loss,
    },
    /// A record is not valid, and is ignored.
    Unreadable {
        /// Its key, shortened if it is long.
        key: String,
        /// The problem with the record.
        error: RecordError,
    },
}

/// How a loss was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Loss {
    /// The member said goodbye.
    Left,
    /// The member had no subscriber when it was probed, or its lease was over. This node has deleted the member's
    /// record, and so was the first to know.
    Down,
    /// The record is gone: another node deleted it, or the member itself as it left.
    Removed,
    /// The member has joined again, so its old membership is over.
    Rejoined,
    /// This node itself is no longer a member.
    Fenced,
}

/// Why a node cannot join.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum JoinRefusal {
    /// The record with its ID belongs to another node.
    #[error(
        "the node ID {node} belongs to `{holder}`; restart the program, which draws another, or, for several nodes in \
         one program, build each runtime with `Builder::logical_node`"
    )]
    Collision {
        /// The ID.
        node: NodeId,
        /// The name of the node that has the ID; `?` if its record cannot be read.
        holder: String,
    },
    /// The store refuses the record.
    #[error("the store refuses the record of this node: {0}")]
    Store(crate::store::StoreError),
    /// The cluster has the maximum number of nodes.
    #[error(
        "the cluster has {limit} nodes, the most that this node was built for; set `max_nodes` higher on all nodes"
    )]
    Full {
        /// The maximum.
        limit: usize,
    },
}
