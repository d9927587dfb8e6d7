//! What the plan of a pool keeps of its lanes, members and messages.

use crate::supervision::Backoff;
use crate::{ExitReason, Pid, env::clock::Moment};
use std::collections::VecDeque;
use std::time::Duration;

/// Which of several members with room gets a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Balancing {
    /// The one after the last that got one.
    RoundRobin,
    /// The one with the fewest messages; among equals, the oldest.
    LeastLoaded,
}

#[derive(Clone, Debug)]
pub(crate) struct PoolRules {
    pub(crate) choice: Balancing,
    /// How many messages a member has at a time.
    pub(crate) concurrency: usize,
    /// The limit of queued messages in all lanes.
    pub(crate) queue: usize,
    /// How long a message may be queued.
    pub(crate) patience: Option<Duration>,
    pub(crate) idle: Option<Duration>,
    /// The least and the largest number of members in a lane.
    pub(crate) least: usize,
    pub(crate) most: usize,
    /// The delays before a lane starts a member again.
    pub(crate) backoff: Backoff,
    /// The limit of failures and its window.
    pub(crate) intensity: (u32, Duration),
}

/// How long a member with a full mailbox is skipped, unless it finishes a message before.
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

/// Where a message waits, and until when.
#[derive(Debug)]
pub(crate) struct QueuePlace<K> {
    pub(super) lane: K,
    /// Numbers the messages of a lane in order of arrival.
    pub(super) serial: u64,
    pub(super) until: Option<Moment>,
}

/// Members that share a queue.
pub(super) struct Lane<K, T> {
    pub(super) queue: VecDeque<QueuedMessage<K, T>>,
    /// In the order of their start, until their end is reported.
    pub(super) members: Vec<u64>,
    pub(super) starting: usize,
    /// The position of round robin.
    pub(super) turn: usize,
    /// Rounds of failures since the last stable run of a member.
    pub(super) in_a_row: u32,
    /// Nothing is started before this moment, after a failure.
    pub(super) backs_off_until: Option<Moment>,
    /// Whether it exists without members.
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
    /// Whether it has finished any message, be it by dying of it.
    pub(super) served: bool,
    pub(super) since: Moment,
    pub(super) idle_since: Moment,
    /// Whether it is in `idlers`.
    pub(super) listed: bool,
    /// Let go: it gets no further messages.
    pub(super) let_go: bool,
    /// Found ended; its end will be reported.
    pub(super) lost: bool,
    /// Its mailbox was found full.
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

/// The reason why a requested start gave no member.
#[derive(Clone, Debug)]
pub(crate) enum Unstarted {
    /// Not tried: the pool has drained meanwhile.
    Unwanted,
    /// The host had no room, or is shutting down.
    NoRoom(ExitReason),
    /// The user's closure failed, or the spawned process could not start.
    Failed(ExitReason),
}
