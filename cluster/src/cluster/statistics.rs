//! What a node counts of what was lost.

use super::Cluster;
use std::sync::atomic::{AtomicU64, Ordering};

/// What a node could not deliver, or does not know to be delivered, since it joined.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Statistics {
    /// Messages, answers and inputs that it could not decode, or does not know.
    pub undecodable: u64,
    /// Messages whose process had ended.
    pub undelivered: u64,
    /// Messages that had waited for a session with a node which then did not know them.
    pub returned: u64,
    /// Messages that it has sent, or accepted to send, to a node that was lost before it had confirmed them: they may
    /// have arrived.
    pub unconfirmed: u64,
    /// Keys of starts that it forgot before their time, since there were too many.
    pub forgotten_keys: u64,
    /// Frames that were none.
    pub broken_frames: u64,
    /// Frames that were dropped because all that is in them had arrived before, or because they are of an earlier
    /// session. Nodes send a frame again when they miss its acknowledgement, which costs nothing but the frame; many of
    /// them without a loss mean that some program records frames and sends them again.
    pub replayed_frames: u64,
    /// Requests of other nodes that its [policy](crate::Builder::allow) has refused.
    pub refused: u64,
    /// Those of them for which the policy has panicked.
    pub policy_panics: u64,
    /// Requests that the policy has allowed when the session with the node that asked was over: nothing was done.
    pub late_decisions: u64,
    /// Starts that it has refused since too many of the same node waited: at most 4,096, or 16 MiB of inputs.
    pub refused_starts: u64,
    /// Sessions that it has ended because the other node asked for, or said, more than it keeps of one node: 64 MiB of
    /// answers that are not taken, 16 MiB of answers about keys, 100,000 members of one group or groups to follow, a
    /// million links and monitors.
    pub floods: u64,
    /// Requests to end a process, sent with [`Pid::stop`](postroom::Pid::stop),
    /// [`Pid::cancel`](postroom::Pid::cancel) or [`Pid::kill`](postroom::Pid::kill), that the policies of other nodes
    /// have refused.
    pub denied: u64,
    /// Frames that did not come on the subject of the node that they are of: some program forges them.
    pub forged_frames: u64,
    /// Frames of nodes without a session that were dropped because too many waited. They are sent again.
    pub dropped_strays: u64,
    /// Records in which a node claims the ID of another.
    pub claimed_ids: u64,
    /// Records of nodes that cannot be read.
    pub unreadable_records: u64,
    /// How often this node has ceased to be a member without leaving: [`Cluster::status`] says why it is none.
    pub outages: u64,
    /// How often it could not join again: it goes on trying.
    pub refused_joins: u64,
    /// What the broker has refused because this node has no right to it: its key is that of another name, for example.
    pub refused_by_broker: u64,
    /// Copies of broadcasts and of events of topics that found no room.
    pub missed: u64,
    /// Events of topics of a type with another shape.
    pub mismatched: u64,
}

impl Cluster {
    /// Returns what this node could not deliver, or does not know to be delivered.
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
