//! What a node counts of what was lost.

use crate::node::policy::PolicyCounts;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

/// What was lost, and why: see [`Cluster::statistics`](crate::Cluster::statistics).
#[derive(Debug, Default)]
pub(crate) struct NodeCounters {
    /// Messages that this node could not decode, or does not know.
    pub(crate) undecodable: AtomicU64,
    /// Messages whose process had ended.
    pub(crate) undelivered: AtomicU64,
    /// Messages that had waited for a session, and that the peer does not export.
    pub(crate) returned: AtomicU64,
    /// Messages that were accepted for peers that were lost before they confirmed them.
    pub(crate) unconfirmed: AtomicU64,
    /// Keys of starts that were forgotten before their time.
    pub(crate) forgotten_keys: AtomicU64,
    /// Frames that were none.
    pub(crate) broken_frames: AtomicU64,
    /// Frames whose content had arrived before.
    pub(crate) replayed_frames: AtomicU64,
    /// Starts that were refused since too many of the peer's waited.
    pub(crate) refused_starts: AtomicU64,
    /// Sessions that were ended since the peer asked for, or said, more than is kept of one.
    pub(crate) floods: AtomicU64,
    /// What this node's policy has refused, and those of peers.
    pub(crate) policy: Arc<PolicyCounts>,
    /// Frames on a subject that is none, or whose sender is not who its record says.
    pub(crate) forged_frames: AtomicU64,
    /// Records that claimed the ID of another node.
    pub(crate) claimed_ids: AtomicU64,
    /// Records of nodes that cannot be read.
    pub(crate) unreadable_records: AtomicU64,
    /// How often this node has ceased to be a member without leaving.
    pub(crate) outages: AtomicU64,
    /// How often it could not join again.
    pub(crate) refused_joins: AtomicU64,
}
