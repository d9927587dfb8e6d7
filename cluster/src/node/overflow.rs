//! Messages for which the session's queue had no room, and senders that wait for room in it.
//!
//! Four kinds of messages do not go straight into the session: answers, links and controls, which must not be refused;
//! messages that a process sends beyond the bound, for which it is suspended after its step, as at a full mailbox;
//! messages to a process that has fallen behind, whose senders wait for that process alone; and messages that were
//! accepted before the session opened, which are limited by their number.
//!
//! # Invariants
//! The peer's lock protects all of this.
//! 1. *Order.* While a message waits here for the data lane, a send is refused or queued behind it.
//! 2. *Bounded.* Of the messages sent beyond the bound, at most as much as the session's queue holds waits here, or a
//!    single message. For each process that has fallen behind, at most [`SLOW_MESSAGES`] messages or [`SLOW_BYTES`]
//!    bytes more are accepted. Messages accepted before the session opened count towards none of these limits: the peer
//!    did not cause them.
//! 3. *No sender waits forever.* A sender that is refused waits in a [`TransportQueue`] that was marked as full in the
//!    same critical section. While `is_congested` is set, the session contains something that is not acknowledged: each
//!    acknowledgement, and the end of the session, leads to [`Overflow::room`] or [`Overflow::end`]. A process that has
//!    fallen behind catches up, which its node reports in the control lane, or the session ends.
//!
//! Room may appear between a refusal and the wait: see [`TransportQueue`]. The session may also end in between: that
//! makes room, and the sender tries again and learns of the loss. After [`Overflow::end`] nothing is marked as full.
//! If a process catches up and falls behind again at once, it gets another queue: catching up has resumed the senders
//! in the first one.

use crate::engine::Lane;
use crate::session::{SendError, Session};
use bytes::Bytes;
use postroom::Pid;
use postroom::routing::TransportQueue;
use std::collections::{BTreeMap, VecDeque};

/// Number of messages that are stored for a process before it counts as having fallen behind, so that its senders wait.
/// As many more may then be accepted from processes, which are suspended after sending them.
pub(super) const SLOW_MESSAGES: usize = 1_024;

/// The total length of stored messages, in bytes, that has the same effect.
pub(super) const SLOW_BYTES: u64 = 1 << 20;

/// The messages and senders that wait for room in the session.
#[derive(Default)]
pub(super) struct Overflow {
    lanes: [VecDeque<Excess>; 2],
    /// The length of the messages that wait in the data lane and must not be refused.
    owed: usize,
    /// The length of the messages that processes have sent beyond the bound.
    beyond: usize,
    /// The length of the messages in the data lane that were accepted before the session opened.
    accepted: usize,
    /// The length of the messages that wait in the control lane.
    control: usize,
    queue: TransportQueue,
    /// Whether a sender was refused since room was last given to all.
    is_congested: bool,
    /// The moving average of the lengths of messages that found no room.
    usual: usize,
    /// The total length still expected from senders that were resumed while others wait.
    expected: u64,
    slow: BTreeMap<Pid, SlowThere>,
    /// Number of messages of the data lane that were dropped because the session was already over.
    lost: u64,
}

struct Excess {
    bytes: Bytes,
    why: Why,
}

/// Why a message waits here.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Why {
    /// The message must not be refused.
    Owed,
    /// A process sent the message beyond the bound.
    Beyond,
    /// The message was accepted before the session opened.
    Accepted,
}

/// A process of the peer that has fallen behind.
#[derive(Default)]
struct SlowThere {
    queue: TransportQueue,
    /// Number of messages accepted for the process since it fell behind.
    messages: usize,
    /// Total length of these messages, in bytes.
    bytes: u64,
}

/// Room for waiting senders.
pub(crate) struct Room {
    queue: TransportQueue,
    /// Number of senders to resume; `None` for all.
    most: Option<usize>,
}

impl Room {
    fn for_all(queue: TransportQueue) -> Self {
        Self { queue, most: None }
    }

    /// Resumes waiting senders. Must not be called under a lock, since their wakers are user code.
    pub(crate) fn give(self) {
        match self.most {
            Some(most) => _ = self.queue.resume(most),
            None => self.queue.set_room(),
        }
    }
}

impl Overflow {
    pub(super) fn is_empty(&self) -> bool {
        self.lanes.iter().all(VecDeque::is_empty)
    }

    /// Returns the length of all waiting messages.
    #[cfg(any(test, feature = "test"))]
    pub(super) fn bytes(&self) -> usize {
        self.accepted + self.since_opened()
    }

    /// Returns the length of the waiting messages that were sent after the session opened.
    pub(super) fn since_opened(&self) -> usize {
        self.owed + self.beyond + self.control
    }

    /// Returns true if no message waits for this lane.
    pub(super) fn is_clear(&self, lane: Lane) -> bool {
        self.lanes[lane as usize].is_empty()
    }

    /// Returns the length of the waiting answers, links and controls.
    pub(super) fn owed(&self) -> usize {
        self.owed
    }

    pub(super) fn is_slow(&self, to: Pid) -> bool {
        self.slow.contains_key(&to)
    }

    /// Returns the queue in which senders to `to` wait.
    pub(super) fn queue(&self, to: Pid) -> TransportQueue {
        self.slow.get(&to).map_or(&self.queue, |slow| &slow.queue).clone()
    }

    /// Records that a message to `to` was refused for lack of room. No sender waits for the control lane.
    pub(super) fn refuse(&mut self, lane: Lane, to: Pid) {
        if lane == Lane::Data && !self.is_slow(to) {
            self.is_congested = true;
            self.queue.set_full();
        }
    }

    /// Counts a message that a process sends beyond the bound. Returns whether the message may be accepted.
    pub(super) fn admit_beyond(&mut self, to: Pid, length: usize, limit: u64) -> bool {
        if !self.is_clear(Lane::Data) && self.beyond > 0 && (self.beyond + length) as u64 > limit {
            self.refuse(Lane::Data, to);
            return false;
        }
        if let Some(slow) = self.slow.get_mut(&to) {
            let is_first = slow.messages == 0;
            if !is_first && (slow.messages >= SLOW_MESSAGES || slow.bytes + length as u64 > SLOW_BYTES) {
                return false;
            }
            slow.messages += 1;
            slow.bytes += length as u64;
        }
        true
    }

    /// Queues a message that waits for room in the session.
    pub(super) fn push(&mut self, lane: Lane, bytes: Bytes, why: Why) {
        if lane == Lane::Data {
            *self.count(why) += bytes.len();
            self.usual = if self.usual == 0 { bytes.len() } else { (self.usual * 7 + bytes.len()) / 8 };
        } else {
            self.control += bytes.len();
        }
        self.lanes[lane as usize].push_back(Excess { bytes, why });
    }

    fn count(&mut self, why: Why) -> &mut usize {
        match why {
            Why::Owed => &mut self.owed,
            Why::Beyond => &mut self.beyond,
            Why::Accepted => &mut self.accepted,
        }
    }

    /// Moves waiting messages into the session while it has room.
    pub(super) fn flush(&mut self, session: &mut Session, anyone: Pid) {
        for lane in Lane::ALL {
            while let Some(Excess { bytes, why }) = self.lanes[lane as usize].pop_front() {
                let length = bytes.len();
                // Addressed to no process, so that an accepted message is not refused because its process has fallen
                // behind.
                match session.send(lane, anyone, bytes) {
                    Ok(()) => {}
                    Err(SendError::Full(bytes)) => {
                        self.lanes[lane as usize].push_front(Excess { bytes, why });
                        break;
                    }
                    // The session is over, or closed from this side.
                    Err(_) => self.lost += u64::from(lane == Lane::Data),
                }
                match lane {
                    Lane::Data => *self.count(why) -= length,
                    Lane::Control => self.control -= length,
                }
            }
        }
    }

    /// Records that a process of the peer has fallen behind.
    pub(super) fn slow(&mut self, pid: Pid) {
        self.slow.entry(pid).or_default().queue.set_full();
    }

    /// Records that a process has caught up. Returns the room for the senders that wait for it.
    pub(super) fn fast(&mut self, pid: Pid) -> Option<Room> {
        self.slow.remove(&pid).map(|slow| Room::for_all(slow.queue))
    }

    /// Records that a message of this length was accepted.
    pub(super) fn note_sent(&mut self, length: usize) {
        self.expected = self.expected.saturating_sub(length as u64);
    }

    /// Returns the room for waiting senders if at most half of the session's `limit` is in use (`buffered`). The room
    /// is for as many senders as are likely to fill the other half, and at least for one. If nothing is buffered, or no
    /// sender waits yet, the room is for all.
    pub(super) fn room(&mut self, buffered: u64, limit: u64) -> Option<Room> {
        if !self.is_congested || !self.is_clear(Lane::Data) || buffered > limit / 2 {
            return None;
        }
        // If no sender waits yet, a sender that was refused and is about to wait finds that there is room.
        if buffered == 0 || self.queue.waiting() == 0 {
            (self.is_congested, self.expected) = (false, 0);
            return Some(Room::for_all(self.queue.clone()));
        }
        let (usual, free) = (self.usual.max(1) as u64, (limit / 2).saturating_sub(buffered + self.expected));
        let most = (free / usual).max(1);
        self.expected += most * usual;
        Some(Room { queue: self.queue.clone(), most: Some(most as usize) })
    }

    /// Ends the overflow together with the session. Returns the room for all waiting senders, so that they learn of the
    /// end. Also returns the number of accepted messages that are dropped.
    pub(super) fn end(&mut self) -> (Vec<Room>, u64) {
        let Self { lanes, queue, slow, lost, .. } = std::mem::take(self);
        let rooms = slow.into_values().map(|slow| slow.queue).chain([queue]).map(Room::for_all).collect();
        (rooms, lost + lanes[Lane::Data as usize].len() as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: u64 = 1_000;

    fn pid(number: u64) -> Pid {
        format!("<7f.1.{number}.3>").parse().unwrap()
    }

    fn most(room: Option<Room>) -> Option<Option<usize>> {
        room.map(|room| room.most)
    }

    /// Returns an overflow that has accepted 100 bytes beyond the bound. These bytes have since moved into the session.
    fn congested() -> Overflow {
        let mut overflow = Overflow::default();
        overflow.refuse(Lane::Data, pid(1));
        overflow.push(Lane::Data, Bytes::from(vec![0; 100]), Why::Beyond);
        overflow.lanes[0].clear();
        overflow.beyond = 0;
        overflow
    }

    #[test]
    fn none_is_resumed_above_half_and_all_are_when_nothing_is_left() {
        let mut overflow = congested();
        assert_eq!(most(overflow.room(LIMIT / 2 + 1, LIMIT)), None);
        assert_eq!(most(overflow.room(0, LIMIT)), Some(None));
        assert_eq!(most(overflow.room(0, LIMIT)), None, "once");
        let mut overflow = congested();
        assert_eq!(most(overflow.room(LIMIT / 2, LIMIT)), Some(None), "no one waits");
        let mut overflow = congested();
        overflow.push(Lane::Data, Bytes::from(vec![0; 100]), Why::Owed);
        assert_eq!(most(overflow.room(0, LIMIT)), None, "what waits here goes first");
        assert_eq!(most(Overflow::default().room(0, LIMIT)), None);
    }

    #[test]
    fn beyond_the_bound_as_much_again_is_accepted_or_one_message() {
        let mut overflow = Overflow::default();
        let mut push = |length: usize| {
            let is_admitted = overflow.admit_beyond(pid(1), length, LIMIT);
            if is_admitted {
                overflow.push(Lane::Data, Bytes::from(vec![0; length]), Why::Beyond);
            }
            is_admitted
        };
        assert!(push(5_000), "or none could ever be sent");
        assert!(!push(1));
        assert!(overflow.is_congested);
        let mut overflow = Overflow::default();
        let admitted = (0..100).filter(|_| {
            let is_admitted = overflow.admit_beyond(pid(1), 100, LIMIT);
            overflow.push(Lane::Data, Bytes::from(vec![0; if is_admitted { 100 } else { 0 }]), Why::Beyond);
            is_admitted
        });
        assert_eq!(admitted.count(), 10);
    }

    #[test]
    fn a_process_that_has_fallen_behind_gets_so_many_more() {
        let mut overflow = Overflow::default();
        overflow.slow(pid(1));
        let admitted = (0..10_000).filter(|_| overflow.admit_beyond(pid(1), 10, LIMIT)).count();
        assert_eq!(admitted, SLOW_MESSAGES);
        assert!(overflow.admit_beyond(pid(2), 10, LIMIT), "others are not concerned");
        assert!(!overflow.is_congested, "nor is the session");
        overflow.slow(pid(3));
        let length = SLOW_BYTES as usize / 4;
        assert_eq!((0..10).filter(|_| overflow.admit_beyond(pid(3), length, u64::MAX)).count(), 4);
        assert!(overflow.fast(pid(1)).is_some() && overflow.fast(pid(1)).is_none());
        assert!(overflow.admit_beyond(pid(1), 10, LIMIT), "it has caught up");
    }

    #[test]
    fn what_is_dropped_at_the_end_is_counted() {
        let mut overflow = Overflow::default();
        overflow.slow(pid(1));
        (0..3).for_each(|_| overflow.push(Lane::Data, Bytes::from_static(b"message"), Why::Beyond));
        overflow.push(Lane::Control, Bytes::from_static(b"kill"), Why::Owed);
        let (rooms, dropped) = overflow.end();
        assert_eq!((rooms.len(), dropped), (2, 3));
        assert!(overflow.is_empty());
    }
}
