//! Leases: how long a node may act as a member, and when it must stop.
//!
//! A node holds one entry of [`Bucket::Leases`]. The broker deletes the entry when it has not been written for
//! [`Bucket::LEASE_TTL`]; until then no other node takes over what this node holds. A [`Lease`] renews the entry in
//! time; if it cannot, it **fences** the node before the entry can have been deleted. It is a state machine without
//! clock, thread or store: the caller gets the next access to the store from [`poll_request`](Lease::poll_request), and
//! passes the answer to [`handle`](Lease::handle).
//!
//! # Protocol
//! * **acquire.** Create the entry.
//! * **renew.** Every [`Timing::renew`], write the entry again, expecting the revision of the last write. If there is
//!   no answer within [`Timing::attempt`], or the store is not available, write again; a late answer still counts.
//! * **read.** A conflict proves nothing: an earlier attempt may have been written although its answer was lost. So the
//!   entry is read. If it belongs to this holder, its revision becomes the expected one, and it is written again at
//!   once; if it belongs to another holder, or is gone, the lease is lost. The lease is also lost if two reads, an
//!   attempt apart, return an earlier revision than was written: the store is an older copy. One such read proves
//!   nothing: it may have been answered by a replica, or by a leader that is being cut off from the other servers, and
//!   these may have missed the last write.
//! * **fence.** The lease is valid until [`Timing::fence`] after the last *successful* write was **sent**: the broker
//!   counts from its arrival, which is later. From then on [`may_send`](Lease::may_send) is false, whether or not a
//!   timer has run, and that is final. To act as a member again, a node joins again with a new epoch.
//!
//! # Invariants
//! 1. When `may_send(now)` is true, the broker will keep the entry for at least `ttl - fence` more, less the drift of
//!    the clocks. Until then, nothing that the node holds is given to another node.
//! 2. After a fence, `may_send` never becomes true again.
//! 3. One change of the store's leader does not fence a lease if its accesses otherwise take less than 1.4 s.
//!
//! # Arithmetic
//! A change of the leader of NATS' store stops writes for about 5.6 s ([`LEADER_CHANGE`]). In the worst case it begins
//! just before a renewal, and ends just after an attempt. The time left until the fence, at least [`SLACK`], is for the
//! accesses themselves. After such a change these are up to five round trips: a renewal reads and writes; the write
//! conflicts if an attempt whose answer was lost has succeeded; then the entry is read, and renewed again. On a machine
//! that is short of processors, each round trip waits for several threads.
//!
//! ```text
//!  renew 2.5  +  leader change 5.6  +  next attempt 0.5  +  slack 1.4  =  fence 10.0
//!  fence 10.0 +  grace 4.0          +  drift 0.1 %: 0.015 = 14.0 <=  ttl   15.0
//! ```
//!
//! A renewal every 5 s does not survive such a change: 5.0 + 5.6 + 0.5 = 11.1. With a renewal every 3 s and an attempt
//! every second, 0.4 s are left, which was too little for three nodes on two busy cores. Fencing at 12 s instead would
//! leave 3 s until the entry is deleted, too little for processes that get 4 s to end. Attempts cost nothing while the
//! store answers. So nodes renew every 2.5 s; a thousand of them write 400 entries a second. [`Timing::check`] rejects
//! other values that break either line.
//!
//! # Clock
//! **The clock must count the time that the machine is suspended**; [`Moment`] lists clocks that do. With another
//! clock, a node that wakes up would rely on a lease that has long expired. Check `may_send` for each frame, as close
//! to its publication as possible: no lease covers what happens in between. Because of that gap, the holder of a name
//! has to pass its fencing token to whatever it writes to.

#[cfg(test)]
mod tests;

use crate::access::{Access, Answer};
use crate::clock::Moment;
use crate::store::{Bucket, Entry, Revision, StoreError};
use bytes::Bytes;
use std::collections::VecDeque;
use std::time::Duration;

/// How long a change of the store's leader stops writes, as measured with NATS on one machine.
pub const LEADER_CHANGE: Duration = Duration::from_millis(5_600);

/// The time that must be left for the accesses themselves if the leader changes at the worst moment: 0.2 s for each of
/// the five round trips.
pub const SLACK: Duration = Duration::from_secs(1);

/// The maximum number of attempts whose late answers still count. While there is no answer, an attempt begins every
/// [`Timing::attempt`], so by default these attempts reach back 16 s, further than any lease lasts.
const REMEMBERED: usize = 32;

/// The times at which a lease is renewed and given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timing {
    /// Time from a write until the broker deletes the entry.
    pub ttl: Duration,
    /// Time from sending a write to sending the next one.
    pub renew: Duration,
    /// Time that a write may take before the next attempt.
    pub attempt: Duration,
    /// Time for which the node may act as a member after sending a successful write.
    pub fence: Duration,
    /// Time that processes have to end when the node is fenced.
    pub grace: Duration,
}

impl Default for Timing {
    fn default() -> Self {
        Self {
            ttl: Bucket::LEASE_TTL,
            renew: Duration::from_millis(2_500),
            attempt: Duration::from_millis(500),
            fence: Duration::from_secs(10),
            grace: Duration::from_secs(4),
        }
    }
}

impl Timing {
    /// Checks that both lines of the [arithmetic](self) hold.
    ///
    /// # Errors
    /// If one of them does not hold, or `ttl` exceeds [`Bucket::LEASE_TTL`].
    pub fn check(&self) -> Result<(), TimingError> {
        let needed = self.renew.saturating_add(LEADER_CHANGE).saturating_add(self.attempt).saturating_add(SLACK);
        if needed > self.fence {
            return Err(TimingError::FenceTooEarly { fence: self.fence, needed });
        }
        if self.ttl > Bucket::LEASE_TTL {
            return Err(TimingError::TtlTooLong { ttl: self.ttl });
        }
        let needed = self.fence.saturating_add(self.grace).saturating_add(self.ttl / 1_000);
        if needed > self.ttl {
            return Err(TimingError::FenceTooLate { ttl: self.ttl, needed });
        }
        Ok(())
    }
}

/// Why a [`Timing`] is not safe, or not useful.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TimingError {
    /// A change of the store's leader would fence the node.
    #[error("a change of the store's leader needs {needed:?} until the fence, not {fence:?}; renew more often")]
    FenceTooEarly {
        /// The time until the fence.
        fence: Duration,
        /// The time that is needed until the fence.
        needed: Duration,
    },
    /// The broker deletes the entry earlier than the node expects.
    #[error("the broker deletes a lease after {:?}, not {ttl:?}; use at most that", Bucket::LEASE_TTL)]
    TtlTooLong {
        /// When the node expects the deletion.
        ttl: Duration,
    },
    /// The entry could be deleted before everything has ended.
    #[error("fencing takes {needed:?} until all has ended, and the lease is over after {ttl:?}; fence earlier")]
    FenceTooLate {
        /// When the broker deletes the entry.
        ttl: Duration,
        /// When everything has ended, by a slow clock.
        needed: Duration,
    },
}

/// An access to the entry, to be made at once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaseRequest {
    /// The number to pass to [`Lease::handle`] with the answer.
    pub attempt: u64,
    /// The access to make.
    pub access: Access,
}

/// A change in the state of the lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LeaseEvent {
    /// The node may act as a member.
    Acquired,
    /// The node may no longer act as a member. This is the last event.
    Fenced(Fence),
}

/// Why the node may no longer act as a member, or never could.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fence {
    /// The lease could not be renewed in time.
    #[error(
        "the lease could not be renewed in time; check the connection with the broker, and whether this program gets \
         enough of a processor"
    )]
    Late,
    /// The entry was gone before its time, as measured by this node's clock: the broker has deleted it, or has lost its
    /// store.
    #[error(
        "the lease is gone; check whether the broker has lost its store, the clock that this node is given, and who \
         may delete leases"
    )]
    Expired,
    /// The entry belongs to another node.
    #[error("another node has this lease; restart the program, which draws another node ID")]
    Taken,
    /// The store refuses the entry.
    #[error("the store refuses the lease; check its limits and this node's permissions")]
    Refused,
    /// The lease was released.
    #[error("the lease was released")]
    Released,
}

/// The lease of one node.
///
/// ```
/// use postroom_cluster::access::{Access, Answer};
/// use postroom_cluster::clock::Moment;
/// use postroom_cluster::store::Revision;
/// use postroom_cluster::lease::{Lease, LeaseEvent, Timing};
/// use std::time::Duration;
///
/// let now = Moment::START;
/// let mut lease = Lease::new(Timing::default(), "7f3a, run 9c41".into());
/// let request = lease.poll_request(now).unwrap();
/// assert!(matches!(request.access, Access::Create(_)));
///
/// lease.handle(now, request.attempt, Answer::Written(Ok(Revision(1))));
/// assert_eq!(lease.poll_event(), Some(LeaseEvent::Acquired));
/// assert!(lease.may_send(now + Duration::from_secs(9)));
/// assert!(!lease.may_send(now + Duration::from_secs(10))); // without a renewal
/// ```
pub struct Lease {
    timing: Timing,
    /// The value of the entry. It is different for each holder, and for each run of a holder.
    holder: Bytes,
    /// The revision of the entry, if it belongs to this holder as far as this node knows.
    revision: Option<Revision>,
    /// When the last successful write was sent.
    written: Option<Moment>,
    /// Whether a write has conflicted, so that the entry has to be read.
    must_read: bool,
    /// Whether the most recent read returned an earlier revision than was written.
    was_older: bool,
    /// Requests that may still be answered: the number, the access, and the time of sending.
    attempts: VecDeque<(u64, Access, Moment)>,
    last_attempt: u64,
    /// When to make the next request; `None` means at once.
    next_at: Option<Moment>,
    /// Whether the entry has to be deleted.
    delete: bool,
    fence: Option<Fence>,
    events: VecDeque<LeaseEvent>,
}

impl Lease {
    /// Begins to acquire a lease. `holder` becomes the value of its entry, and must be different in each run of each
    /// node.
    pub fn new(timing: Timing, holder: Bytes) -> Self {
        Self {
            timing,
            holder,
            revision: None,
            written: None,
            must_read: false,
            was_older: false,
            attempts: VecDeque::new(),
            last_attempt: 0,
            next_at: None,
            delete: false,
            fence: None,
            events: VecDeque::new(),
        }
    }

    /// Returns whether the node may act as a member at `now`. Costs one comparison, so check it for each frame.
    pub fn may_send(&self, now: Moment) -> bool {
        self.fence.is_none() && self.valid_until().is_some_and(|until| now < until)
    }

    /// Returns the time until which the node may act as a member, unless it is fenced earlier. Returns `None` if it
    /// could never act as one.
    pub fn valid_until(&self) -> Option<Moment> {
        self.written.map(|written| written + self.timing.fence)
    }

    /// Returns the access to make now, if one is due.
    pub fn poll_request(&mut self, now: Moment) -> Option<LeaseRequest> {
        let access = if std::mem::take(&mut self.delete) {
            self.revision.map(Access::Delete)?
        } else if self.fence.is_some() || self.next_at.is_some_and(|at| at > now) {
            return None;
        } else if self.must_read {
            Access::Get
        } else {
            match self.revision {
                None => Access::Create(self.holder.clone()),
                Some(revision) => Access::Update(self.holder.clone(), revision),
            }
        };
        self.next_at = Some(now + self.timing.attempt);
        self.last_attempt += 1;
        if self.attempts.len() == REMEMBERED {
            self.attempts.pop_front();
        }
        self.attempts.push_back((self.last_attempt, access.clone(), now));
        Some(LeaseRequest { attempt: self.last_attempt, access })
    }

    /// Handles the answer to a request. The answer arrived at `now`.
    pub fn handle(&mut self, now: Moment, attempt: u64, answer: Answer) {
        self.handle_timeout(now);
        let Some(at) = self.attempts.iter().position(|(number, ..)| *number == attempt) else { return };
        let Some((_, access, sent)) = self.attempts.remove(at) else { return };
        if self.fence.is_some() {
            return;
        }
        match answer {
            Answer::Written(Ok(revision)) => {
                // A read that was sent earlier may be answered later, with the entry as it was before this write.
                self.attempts.retain(|(_, access, _)| *access != Access::Get);
                self.wrote(now, revision, sent);
            }
            // Attempts that were sent before a later success expect a revision that was replaced: ignore their
            // conflicts.
            Answer::Written(Err(StoreError::Conflict { .. })) => {
                let expected = match access {
                    Access::Update(_, expected) => Some(expected),
                    _ => None,
                };
                if expected == self.revision {
                    self.must_read = true;
                    self.next_at = None;
                }
            }
            Answer::Read(Ok(entry)) => {
                // Reads that were sent before this one may also have seen an older entry.
                self.attempts.retain(|(number, access, _)| *access != Access::Get || *number > attempt);
                self.read(entry);
            }
            Answer::Written(Err(error)) | Answer::Read(Err(error)) => match error {
                StoreError::TooLarge { .. }
                | StoreError::BadKey { .. }
                | StoreError::Forbidden { .. }
                | StoreError::Closed => self.end(Fence::Refused),
                // No hurry: the next attempt is made when it is due.
                StoreError::Unavailable
                | StoreError::Unknown
                | StoreError::Full { .. }
                | StoreError::Conflict { .. } => {}
            },
        }
    }

    fn wrote(&mut self, now: Moment, revision: Revision, sent: Moment) {
        if self.revision.is_none_or(|known| known < revision) {
            self.revision = Some(revision);
            (self.must_read, self.was_older) = (false, false);
            self.next_at = Some(sent + self.timing.renew);
        }
        let was_held = self.written.is_some();
        let valid_until = sent + self.timing.fence;
        if now >= valid_until {
            // The answer took so long that this write no longer gives a valid lease. If there had been a valid lease
            // before, it would have been fenced by now.
            self.next_at = None;
        } else if self.written.is_none_or(|written| written < sent) {
            self.written = Some(sent);
        }
        if !was_held && self.written.is_some() {
            self.events.push_back(LeaseEvent::Acquired);
        }
    }

    fn read(&mut self, entry: Option<Entry>) {
        let is_older = |entry: &Entry| self.revision.is_some_and(|written| entry.revision < written);
        let was_older = std::mem::replace(&mut self.was_older, entry.as_ref().is_some_and(is_older));
        match entry {
            // The next attempt reads the entry again.
            Some(_) if self.was_older && !was_older => {}
            Some(_) if self.was_older => self.end(Fence::Expired),
            // It is not known when this entry was written, so the lease is not extended.
            Some(entry) if entry.value == self.holder => {
                self.revision = Some(entry.revision);
                self.must_read = false;
                self.next_at = None;
            }
            Some(_) => self.end(Fence::Taken),
            None if self.written.is_some() => self.end(Fence::Expired),
            None => {
                self.revision = None;
                self.must_read = false;
                self.next_at = None;
            }
        }
    }

    fn end(&mut self, fence: Fence) {
        if self.fence.is_none() {
            self.fence = Some(fence);
            self.events.push_back(LeaseEvent::Fenced(fence));
        }
    }

    /// Returns the time at which the caller must call [`handle_timeout`](Self::handle_timeout), and then
    /// [`poll_request`](Self::poll_request). A time in the past means now.
    pub fn next_timeout(&self) -> Option<Moment> {
        if self.fence.is_some() {
            return self.delete.then_some(Moment::START);
        }
        let next = self.next_at.unwrap_or(Moment::START);
        Some(self.valid_until().map_or(next, |until| until.min(next)))
    }

    /// Fences the node if its lease is over by `now`.
    pub fn handle_timeout(&mut self, now: Moment) {
        if self.valid_until().is_some_and(|until| until <= now) {
            self.end(Fence::Late);
        }
    }

    /// Releases the lease when the node leaves and everything that it held has ended. The entry is deleted, so that
    /// other nodes need not wait for it to expire.
    pub fn release(&mut self) {
        if self.fence.is_none() {
            self.delete = self.revision.is_some();
            self.end(Fence::Released);
        }
    }

    /// Returns the next event.
    pub fn poll_event(&mut self) -> Option<LeaseEvent> {
        self.events.pop_front()
    }
}
