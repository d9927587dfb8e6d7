//! The receiving half of one lane: ordering, assembly of messages, and the credit of the peer.

use super::{Item, LaneLimits, cost};
use crate::clock::Moment;
use crate::engine::Lane;
use crate::frame::{Parcel, Segment};
use bytes::Bytes;
use postroom::Pid;
use std::collections::VecDeque;
use std::time::Duration;

/// The longest time for which an acknowledgement waits for a segment that can carry it.
const ACK_DELAY: Duration = Duration::from_millis(10);

pub(super) struct Incoming {
    limits: LaneLimits,
    lane: Lane,
    /// The number of the next parcel.
    expected: u64,
    /// The parts of a message whose last part has not arrived.
    partial: Vec<u8>,
    in_message: bool,
    cost_of_message: u64,
    ready: VecDeque<Item>,
    notices: VecDeque<Notice>,
    /// The total cost of all accepted parcels.
    received: u64,
    /// The cost of all complete messages and notices that have not been released.
    held: u64,
    /// The total credit that has been announced to the peer.
    granted: u64,
    /// The number of the missing parcel that was last reported to the peer as a gap.
    told_gap: Option<u64>,
    nack: bool,
    ack_now: bool,
    ack_at: Option<Moment>,
    /// The cost of all parcels accepted since the last acknowledgement.
    unacked: u64,
}

/// A notice that a process of the peer has fallen behind, or caught up.
pub(super) struct Notice {
    pub(super) pid: Pid,
    pub(super) is_slow: bool,
    cost: u64,
}

impl Incoming {
    pub(super) fn new(lane: Lane, limits: LaneLimits) -> Self {
        Self {
            limits,
            lane,
            expected: 0,
            partial: Vec::new(),
            in_message: false,
            cost_of_message: 0,
            ready: VecDeque::new(),
            notices: VecDeque::new(),
            received: 0,
            held: 0,
            granted: limits.window,
            told_gap: None,
            nack: false,
            ack_now: false,
            ack_at: None,
            unacked: 0,
        }
    }

    /// Accepts the parcels of a segment that are next in order. Returns true if all parcels of the segment had been
    /// accepted before. The error says how the peer has broken the protocol.
    pub(super) fn on_segment(&mut self, now: Moment, segment: Segment) -> Result<bool, &'static str> {
        let after = segment.first + segment.parcels.len() as u64;
        let is_repeated = !segment.parcels.is_empty() && after <= self.expected;
        // Whether the peer asks for an answer, or has missed an acknowledgement.
        let mut answer = segment.ask;
        for (number, parcel) in (segment.first..).zip(segment.parcels) {
            if number < self.expected {
                answer = true;
                continue;
            }
            if number > self.expected {
                answer |= self.told_gap != Some(self.expected);
                self.nack |= self.told_gap.replace(self.expected) != Some(self.expected);
                break;
            }
            self.accept(parcel)?;
            self.expected += 1;
            self.ack_at.get_or_insert(now + ACK_DELAY);
        }
        self.ack_now |= answer || self.unacked >= self.limits.window / 8;
        Ok(is_repeated)
    }

    fn accept(&mut self, parcel: Parcel) -> Result<(), &'static str> {
        let cost = cost(&parcel);
        if self.received + cost > self.granted {
            return Err("it sent more than its credit");
        }
        self.received += cost;
        self.unacked += cost;
        let (pid, is_slow) = match parcel {
            Parcel::Piece { last, bytes } => return self.accept_piece(last, bytes, cost),
            Parcel::Slow(pid) => (pid, true),
            Parcel::Fast(pid) => (pid, false),
        };
        if self.lane == Lane::Data {
            return Err("it sent a notice in the data lane");
        }
        if self.in_message {
            return Err("it sent a notice in the middle of a message");
        }
        self.held += cost;
        self.notices.push_back(Notice { pid, is_slow, cost });
        Ok(())
    }

    fn accept_piece(&mut self, last: bool, bytes: Bytes, cost: u64) -> Result<(), &'static str> {
        if self.partial.len() + bytes.len() > self.limits.message {
            return Err("it sent a message that exceeds the limit");
        }
        if !last && bytes.is_empty() {
            return Err("it sent an empty part of a message");
        }
        self.cost_of_message += cost;
        if !last {
            self.partial.extend_from_slice(&bytes);
            self.in_message = true;
            return Ok(());
        }
        let bytes = if self.in_message {
            self.partial.extend_from_slice(&bytes);
            Bytes::from(std::mem::take(&mut self.partial))
        } else {
            bytes
        };
        self.in_message = false;
        let cost = std::mem::take(&mut self.cost_of_message);
        self.held += cost;
        self.ready.push_back(Item { lane: self.lane, bytes, cost });
        Ok(())
    }

    pub(super) fn next_item(&mut self) -> Option<Item> {
        self.ready.pop_front()
    }

    pub(super) fn next_notice(&mut self) -> Option<Notice> {
        let notice = self.notices.pop_front()?;
        self.release(notice.cost);
        Some(notice)
    }

    /// Returns the credit of an item to the peer.
    pub(super) fn release(&mut self, cost: u64) {
        self.held = self.held.checked_sub(cost).expect("each item is released once");
        // Once a quarter of the window has been released, the peer may have stopped for lack of credit, so it is
        // notified at once. It learns of smaller releases with the next acknowledgement.
        self.ack_now |= self.credit() - self.granted >= self.limits.window / 4;
    }

    /// Returns the total credit of the peer. The parts of an incomplete message count as consumed: otherwise a
    /// message longer than the window would never arrive.
    fn credit(&self) -> u64 {
        (self.received - self.held + self.limits.window).max(self.granted)
    }

    /// Returns whether an acknowledgement is due.
    pub(super) fn wants_ack(&self, now: Moment) -> bool {
        self.ack_now || self.nack || self.ack_at.is_some_and(|at| at <= now)
    }

    pub(super) fn answer_now(&mut self) {
        self.ack_now = true;
    }

    /// Returns what a segment says about this half: the number before which all parcels have arrived, the credit, and
    /// whether there is a gap.
    pub(super) fn acknowledge(&mut self) -> (u64, u64, bool) {
        self.granted = self.credit();
        (self.ack_now, self.ack_at, self.unacked) = (false, None, 0);
        (self.expected, self.granted, std::mem::take(&mut self.nack))
    }

    pub(super) fn next_timeout(&self) -> Option<Moment> {
        self.ack_at
    }

    pub(super) fn expected(&self) -> u64 {
        self.expected
    }

    pub(super) fn has_items(&self) -> bool {
        !self.ready.is_empty()
    }

    /// Returns the cost of all parcels that have not been released, including those of an incomplete message.
    pub(super) fn held(&self) -> u64 {
        self.held + self.cost_of_message
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn incoming(window: u64) -> Incoming {
        Incoming::new(Lane::Control, LaneLimits { window, queue: 0, message: 200_000 })
    }

    fn at(millis: u64) -> Moment {
        Moment::after_start(Duration::from_millis(millis))
    }

    /// Returns a segment of 36-byte messages. Each is filled with the number of its parcel, and costs 100.
    fn segment(numbers: std::ops::Range<u64>) -> Segment {
        let parcels =
            numbers.clone().map(|number| Parcel::Piece { last: true, bytes: vec![number as u8; 36].into() }).collect();
        with(numbers.start, parcels)
    }

    fn with(first: u64, parcels: Vec<Parcel>) -> Segment {
        Segment { lane: Lane::Control, nack: false, ask: false, ack: 0, credit: 0, first, parcels }
    }

    fn items(incoming: &mut Incoming) -> Vec<u8> {
        std::iter::from_fn(|| incoming.next_item()).map(|item| item.bytes[0]).collect()
    }

    #[test]
    fn each_parcel_is_accepted_once_and_in_order() {
        let mut inc = incoming(1 << 20);
        for (numbers, is_repeated) in [(0..2, false), (4..6, false), (1..3, false), (0..1, true), (2..4, false)] {
            assert_eq!(inc.on_segment(at(0), segment(numbers)), Ok(is_repeated));
        }
        assert_eq!(inc.on_segment(at(0), segment(0..4)), Ok(true));
        assert_eq!(inc.on_segment(at(0), segment(4..4)), Ok(false), "it has no parcels");
        assert_eq!((items(&mut inc), inc.expected()), (vec![0, 1, 2, 3], 4));
    }

    #[test]
    fn a_gap_is_told_once_until_it_is_filled() {
        let mut inc = incoming(1 << 20);
        inc.on_segment(at(0), segment(1..2)).unwrap();
        assert!(inc.wants_ack(at(0)));
        assert!(matches!(inc.acknowledge(), (0, _, true)));
        inc.on_segment(at(0), segment(2..3)).unwrap();
        assert!(!inc.wants_ack(at(0)));
        inc.on_segment(at(0), segment(0..1)).unwrap();
        inc.on_segment(at(0), segment(3..4)).unwrap();
        assert!(matches!(inc.acknowledge(), (1, _, true)));
    }

    #[test]
    fn acknowledgements_wait_a_little_unless_they_are_wanted() {
        let mut inc = incoming(1 << 20);
        inc.on_segment(at(5), segment(0..1)).unwrap();
        inc.on_segment(at(9), segment(1..2)).unwrap();
        assert_eq!((inc.wants_ack(at(14)), inc.wants_ack(at(15)), inc.next_timeout()), (false, true, Some(at(15))));
        inc.acknowledge();
        assert_eq!((inc.wants_ack(at(20)), inc.next_timeout()), (false, None));
        // A repeated parcel means that the acknowledgement was lost.
        inc.on_segment(at(20), segment(1..2)).unwrap();
        assert!(inc.wants_ack(at(20)));
        inc.acknowledge();
        inc.on_segment(at(20), Segment { ask: true, ..segment(2..2) }).unwrap();
        assert!(inc.wants_ack(at(20)));
        // An acknowledgement is due after an eighth of the window.
        let mut inc = incoming(1_600);
        inc.on_segment(at(0), segment(0..1)).unwrap();
        assert!(!inc.wants_ack(at(0)));
        inc.on_segment(at(0), segment(1..2)).unwrap();
        assert!(inc.wants_ack(at(0)));
    }

    #[test]
    fn credit_grows_as_items_are_released_and_is_enforced() {
        let mut inc = incoming(1_000);
        inc.on_segment(at(0), segment(0..10)).unwrap();
        assert_eq!(inc.acknowledge(), (10, 1_000, false));
        let released: Vec<_> = std::iter::from_fn(|| inc.next_item()).map(|item| item.cost).collect();
        assert_eq!(inc.acknowledge(), (10, 1_000, false));
        released.iter().take(3).enumerate().for_each(|(n, &cost)| {
            assert_eq!(inc.wants_ack(at(0)), n >= 3);
            inc.release(cost);
        });
        assert!(inc.wants_ack(at(0)));
        assert_eq!(inc.acknowledge(), (10, 1_300, false));
        inc.on_segment(at(0), segment(10..13)).unwrap();
        assert_eq!(inc.on_segment(at(0), segment(13..14)), Err("it sent more than its credit"));
    }

    #[test]
    fn a_message_longer_than_the_window_arrives() {
        let mut inc = incoming(70_000);
        let part = |last, byte, length| Parcel::Piece { last, bytes: vec![byte; length].into() };
        inc.on_segment(at(0), with(0, vec![part(false, 1, 65_536)])).unwrap();
        assert!(inc.acknowledge().1 >= 130_000);
        inc.on_segment(at(0), with(1, vec![part(false, 2, 65_536)])).unwrap();
        inc.acknowledge();
        inc.on_segment(at(0), with(2, vec![part(true, 3, 10)])).unwrap();
        let item = inc.next_item().unwrap();
        assert_eq!((item.bytes.len(), item.bytes[0], item.bytes[65_536], item.bytes[131_081]), (131_082, 1, 2, 3));
        assert_eq!(item.cost, 131_082 + 3 * 64);
        assert_eq!(inc.held(), item.cost);
        // The credit that the message occupied is returned only now.
        let granted = inc.acknowledge().1;
        inc.release(item.cost);
        assert!(inc.acknowledge().1 > granted && inc.held() == 0);
    }

    #[test]
    fn what_breaks_the_protocol_is_named() {
        let part = |last, length| Parcel::Piece { last, bytes: vec![0; length].into() };
        let pid: Pid = "<1.1.1.1>".parse().unwrap();
        let fails = |lane, parcels| {
            let mut inc = Incoming::new(lane, LaneLimits { window: 1 << 20, queue: 0, message: 100_000 });
            inc.on_segment(at(0), with(0, parcels)).unwrap_err()
        };
        assert!(fails(Lane::Data, vec![part(false, 60_000), part(true, 60_000)]).contains("limit"));
        assert!(fails(Lane::Data, vec![part(false, 0)]).contains("empty"));
        assert!(fails(Lane::Data, vec![Parcel::Slow(pid)]).contains("data lane"));
        assert!(fails(Lane::Control, vec![part(false, 1), Parcel::Fast(pid)]).contains("middle"));
    }

    #[test]
    fn notices_take_credit_until_they_are_seen() {
        let pid: Pid = "<1.1.1.1>".parse().unwrap();
        let mut inc = incoming(1_000);
        inc.on_segment(at(0), with(0, vec![Parcel::Slow(pid), Parcel::Fast(pid)])).unwrap();
        assert_eq!(inc.held(), 160);
        assert!(inc.next_notice().is_some_and(|notice| notice.is_slow));
        assert!(inc.next_notice().is_some_and(|notice| !notice.is_slow));
        assert_eq!(inc.held(), 0);
    }
}
