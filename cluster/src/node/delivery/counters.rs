//! A node's counters of losses.

use crate::node::policy::PolicyCounts;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

/// Counters of losses and refusals, by cause: see [`Cluster::statistics`](crate::Cluster::statistics).
#[derive(Debug, Default)]
pub(crate) struct NodeCounters {
    /// Messages that this node could not decode, or does not know.
    pub(crate) undecodable: AtomicU64,
    /// Messages whose process had ended.
    pub(crate) undelivered: AtomicU64,
    /// Messages that waited for a session to open and then could not be sent, for example because the peer does not
    /// know them.
    pub(crate) returned: AtomicU64,
    /// Messages accepted for a peer that was lost before confirming them.
    pub(crate) unconfirmed: AtomicU64,
    /// Keys of starts that were forgotten early because there were too many keys.
    pub(crate) forgotten_keys: AtomicU64,
    /// Frames that are not valid.
    pub(crate) broken_frames: AtomicU64,
    /// Frames whose content had arrived before.
    pub(crate) replayed_frames: AtomicU64,
    /// Starts that were refused because too many starts of the peer were waiting.
    pub(crate) refused_starts: AtomicU64,
    /// Sessions that were ended because the peer requested or sent more than is stored for one peer.
    pub(crate) floods: AtomicU64,
    /// Requests refused by this node's policy, and by those of peers.
    pub(crate) policy: Arc<PolicyCounts>,
    /// Frames on an invalid subject, or from a sender whose name contradicts its record.
    pub(crate) forged_frames: AtomicU64,
    /// Records that claimed the ID of another node.
    pub(crate) claimed_ids: AtomicU64,
    /// Node records that cannot be read.
    pub(crate) unreadable_records: AtomicU64,
    /// Number of times that this node ceased to be a member without leaving.
    pub(crate) outages: AtomicU64,
    /// Number of times that this node could not rejoin.
    pub(crate) refused_joins: AtomicU64,
}
