//! Counters for the losses and failures of a node.

use super::Cluster;
use std::sync::atomic::{AtomicU64, Ordering};

/// Counters of the messages that a node could not deliver, or does not know to have been delivered, and of other
/// failures, since it joined.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Statistics {
    /// Messages, answers and inputs that this node could not decode, or does not know.
    pub undecodable: u64,
    /// Messages whose process had ended, or had no room until the session with the sender's node ended.
    pub undelivered: u64,
    /// Messages that waited for a session with a node that then turned out not to know them.
    pub returned: u64,
    /// Messages that this node sent, or accepted for sending, to a node that was lost before it confirmed them. They
    /// may have arrived.
    pub unconfirmed: u64,
    /// Keys of starts that this node forgot early because it had too many of them.
    pub forgotten_keys: u64,
    /// Messages of the broker that are not valid frames.
    pub broken_frames: u64,
    /// Frames that were dropped because their whole content had arrived before, or because they belong to an earlier
    /// session. Nodes send a frame again when they miss its acknowledgement, which costs only the frame. If there are
    /// many such frames although none are lost, some program records frames and sends them again.
    pub replayed_frames: u64,
    /// Requests from other nodes that this node's [policy](crate::Builder::allow) refused.
    pub refused: u64,
    /// Refused requests for which the policy panicked.
    pub policy_panics: u64,
    /// Requests that the policy allowed after the session with the requesting node had ended, so nothing was done.
    pub late_decisions: u64,
    /// Starts that this node refused because too many starts from the same node were waiting: at most 4,096, or 16 MiB
    /// of inputs.
    pub refused_starts: u64,
    /// Sessions that this node ended because the other node sent or requested more than this node keeps for any one
    /// node: 64 MiB of answers that the other node does not take, 16 MiB of answers about keys, 100,000 members of one
    /// group or groups to follow, a million links and monitors.
    pub floods: u64,
    /// Requests to end a process, sent with [`Pid::stop`](postroom::Pid::stop), [`Pid::cancel`](postroom::Pid::cancel)
    /// or [`Pid::kill`](postroom::Pid::kill), that the policies of other nodes refused.
    pub denied: u64,
    /// Frames that arrived on a subject that does not belong to their sender: some program forges them.
    pub forged_frames: u64,
    /// Frames from nodes without a session that were dropped because too many were waiting. They are sent again.
    pub dropped_strays: u64,
    /// Records in which a node claims the ID of another.
    pub claimed_ids: u64,
    /// Records of nodes that could not be read.
    pub unreadable_records: u64,
    /// How many times this node stopped being a member without leaving. [`Cluster::status`] reports the reason.
    pub outages: u64,
    /// How many times this node failed to join again. It keeps trying.
    pub refused_joins: u64,
    /// Operations that the broker refused because this node lacks the permission, for example because its key belongs
    /// to another name.
    pub refused_by_broker: u64,
    /// Copies of broadcasts and of topic events that were dropped because there was no room for them.
    pub missed: u64,
    /// Topic events whose type has a different shape on this node.
    pub mismatched: u64,
}

impl Cluster {
    /// Returns the counters of undelivered messages and of other failures of this node.
    pub fn statistics(&self) -> Statistics {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let counters = &self.shared.counters;
        let directory = &self.shared.directory.counters;
        Statistics {
            missed: read(&directory.missed),
            mismatched: read(&directory.mismatched),
            undecodable: read(&counters.undecodable) + read(&directory.undecodable),
            undelivered: read(&counters.undelivered),
            returned: read(&counters.returned),
            unconfirmed: read(&counters.unconfirmed),
            forgotten_keys: read(&counters.forgotten_keys),
            broken_frames: read(&counters.broken_frames),
            replayed_frames: read(&counters.replayed_frames),
            refused: read(&counters.policy.refused),
            policy_panics: read(&counters.policy.panicked),
            late_decisions: read(&counters.policy.late),
            refused_starts: read(&counters.refused_starts),
            floods: read(&counters.floods),
            denied: read(&counters.policy.denied),
            forged_frames: read(&counters.forged_frames),
            dropped_strays: self.shared.inbox.dropped(),
            claimed_ids: read(&counters.claimed_ids),
            unreadable_records: read(&counters.unreadable_records),
            outages: read(&counters.outages),
            refused_joins: read(&counters.refused_joins),
            refused_by_broker: self.shared.engine.upgrade().map_or(0, |engine| engine.refused()),
        }
    }
}
