//! Records that a pool's plan keeps about its lanes, members and messages.

use crate::supervision::Backoff;
use crate::{ExitReason, Pid, env::clock::Moment};
use std::collections::VecDeque;
use std::time::Duration;

/// Policy for choosing one of several members with room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Balancing {
    /// The next member after the one that got the previous message.
    RoundRobin,
    /// The member with the fewest messages; among equals, the oldest.
    LeastLoaded,
}

#[derive(Clone, Debug)]
pub(crate) struct PoolRules {
    pub(crate) choice: Balancing,
    /// Maximum number of messages that a member has at a time.
    pub(crate) concurrency: usize,
    /// Limit of queued messages, over all lanes.
    pub(crate) queue: usize,
    /// Time that a message may be queued.
    pub(crate) patience: Option<Duration>,
    pub(crate) idle: Option<Duration>,
    /// Minimum number of members in a lane.
    pub(crate) least: usize,
    /// Maximum number of members in a lane.
    pub(crate) most: usize,
    /// Delays before a lane starts a member again.
    pub(crate) backoff: Backoff,
    /// Limit of failures, and the window in which they are counted.
    pub(crate) intensity: (u32, Duration),
}

/// Time for which a member with a full mailbox is skipped, unless it finishes a message earlier.
pub(super) const CROWDED: Duration = Duration::from_millis(5);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MemberId {
    pub(crate) number: u64,
    pub(crate) pid: Pid,
}

#[derive(Debug)]
pub(crate) struct QueuedMessage<K, T> {
    pub(crate) message: T,
    pub(crate) place: QueuePlace<K>,
}

/// Place of a message in the queue, and the moment at which it expires.
#[derive(Debug)]
pub(crate) struct QueuePlace<K> {
    pub(super) lane: K,
    /// Number of the message, in order of arrival.
    pub(super) serial: u64,
    pub(super) until: Option<Moment>,
}

/// Members that share a queue.
pub(super) struct Lane<K, T> {
    pub(super) queue: VecDeque<QueuedMessage<K, T>>,
    /// Members in the order of their start, until their end is reported.
    pub(super) members: Vec<u64>,
    pub(super) starting: usize,
    /// Position of the round robin.
    pub(super) turn: usize,
    /// Number of rounds of failures since the last stable run of a member.
    pub(super) in_a_row: u32,
    /// After a failure, the moment before which no member is started.
    pub(super) backs_off_until: Option<Moment>,
    /// Whether the lane is permanent, that is, kept even without members.
    pub(super) lasting: bool,
}

impl<K, T> Lane<K, T> {
    pub(super) fn new(lasting: bool) -> Self {
        let (queue, members) = (VecDeque::new(), Vec::new());
        Self { queue, members, starting: 0, turn: 0, in_a_row: 0, backs_off_until: None, lasting }
    }

    /// Returns the number of members, including those being started.
    pub(super) fn count(&self) -> usize {
        self.members.len() + self.starting
    }
}

pub(super) struct MemberRecord<K> {
    pub(super) pid: Pid,
    pub(super) lane: K,
    pub(super) in_flight: usize,
    /// Whether the member has finished any message, even one that it failed on.
    pub(super) served: bool,
    pub(super) since: Moment,
    pub(super) idle_since: Moment,
    /// Whether the member is in `idlers`.
    pub(super) listed: bool,
    /// Whether the member has been retired: it gets no further messages.
    pub(super) let_go: bool,
    /// Whether the member was found to have ended; its end will be reported later.
    pub(super) lost: bool,
    /// Whether the member's mailbox was found full.
    pub(super) crowded: bool,
}

impl<K> MemberRecord<K> {
    pub(super) fn is_present(&self) -> bool {
        !self.let_go && !self.lost
    }

    pub(super) fn has_room(&self, rules: &PoolRules) -> bool {
        self.is_present() && !self.crowded && self.in_flight < rules.concurrency
    }

    pub(super) fn is_idle(&self) -> bool {
        self.is_present() && self.in_flight == 0
    }
}

/// Reason why a requested start produced no member.
#[derive(Clone, Debug)]
pub(crate) enum Unstarted {
    /// The start was not tried, since the pool has drained in the meantime.
    Unwanted,
    /// The host had no room, or is shutting down.
    NoRoom(ExitReason),
    /// The user's closure failed, or the spawned process could not start.
    Failed(ExitReason),
}
