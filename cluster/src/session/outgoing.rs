//! The sending half of one lane: the queue, the parcels in flight, and their repetition.

use super::{LaneLimits, SendError, cost};
use crate::clock::Moment;
use crate::frame::{MAX_PIECE, Parcel};
use bytes::Bytes;
use std::collections::VecDeque;
use std::time::Duration;

/// The wait for an acknowledgement before any round trip was measured.
const FIRST_WAIT: Duration = Duration::from_millis(500);
/// The shortest wait: longer than the delay of acknowledgements at the receiver, plus the delay of a busy machine.
const SHORTEST_WAIT: Duration = Duration::from_millis(100);
/// The longest wait, after several attempts.
const LONGEST_WAIT: Duration = Duration::from_secs(2);

/// The peer acknowledged a number that was never sent.
pub(super) struct NeverSent;

pub(super) struct Outgoing {
    limits: LaneLimits,
    /// All parcels that are not acknowledged. The first has number `acked`.
    queue: VecDeque<Parcel>,
    /// The cost of `queue`.
    queued: u64,
    acked: u64,
    /// The number of the next parcel to send: `acked <= next <= sent`, and less than `sent` after a rewind.
    next: u64,
    /// The number after the last parcel that was ever sent.
    sent: u64,
    /// The total cost of all parcels before `acked`.
    acked_cost: u64,
    /// The cost of the parcels from `acked` up to `next`.
    in_flight: u64,
    /// The total cost that the peer allows.
    credit: u64,
    /// The parcel to which this side has rewound after the notice of a gap. Copies of the notice are ignored.
    rewound_to: Option<u64>,
    /// When to send again, or to ask for credit.
    resend_at: Option<Moment>,
    /// The number of waits that have passed since a round trip was measured. A round trip that has become longer than
    /// the wait can only be measured if the wait for one parcel grows long enough.
    attempts: u32,
    /// Whether a wait has passed without progress. If so, one segment is sent before all others, since the others may
    /// have arrived.
    is_trying: bool,
    round_trip: RoundTrip,
    /// The time since which an acknowledgement has been missing.
    pub(super) waiting_since: Option<Moment>,
    /// Whether the next segment asks the peer for an answer.
    pub(super) ask: bool,
}

impl Outgoing {
    pub(super) fn new(limits: LaneLimits) -> Self {
        Self {
            limits,
            queue: VecDeque::new(),
            queued: 0,
            acked: 0,
            next: 0,
            sent: 0,
            acked_cost: 0,
            in_flight: 0,
            credit: 0,
            rewound_to: None,
            resend_at: None,
            attempts: 0,
            is_trying: false,
            round_trip: RoundTrip::default(),
            waiting_since: None,
            ask: false,
        }
    }

    /// Cuts a message into parcels and queues all or none of them.
    pub(super) fn push(&mut self, message: Bytes) -> Result<(), SendError> {
        if message.len() > self.limits.message {
            return Err(SendError::TooLong { bytes: message.len(), limit: self.limits.message, message });
        }
        if self.queued + message_cost(message.len()) > self.limits.queue && !self.queue.is_empty() {
            return Err(SendError::Full(message));
        }
        let mut rest = message;
        loop {
            let bytes = rest.split_to(rest.len().min(MAX_PIECE));
            let last = rest.is_empty();
            self.push_parcel(Parcel::Piece { last, bytes });
            if last {
                return Ok(());
            }
        }
    }

    /// Queues a parcel regardless of the limit: see [`has_room`](Self::has_room).
    pub(super) fn push_parcel(&mut self, parcel: Parcel) {
        self.queued += cost(&parcel);
        self.queue.push_back(parcel);
    }

    pub(super) fn has_room(&self) -> bool {
        self.queued < self.limits.queue
    }

    /// Raises the credit to a total that the peer allows.
    pub(super) fn allow(&mut self, credit: u64) {
        self.credit = self.credit.max(credit);
    }

    /// Takes the parcels of the next segment, at most `room` bytes of them. The first has the number that `self.next`
    /// had before the call.
    pub(super) fn fill(&mut self, now: Moment, mut room: usize) -> (u64, Vec<Parcel>) {
        let first = self.next;
        let mut parcels = Vec::new();
        if self.is_waiting() {
            return (first, parcels);
        }
        while let Some(parcel) = self.queue.get((self.next - self.acked) as usize) {
            let cost = cost(parcel);
            if parcel.encoded_len() > room || !self.may_send(cost) {
                break;
            }
            room -= parcel.encoded_len();
            parcels.push(parcel.clone());
            self.in_flight += cost;
            self.next += 1;
        }
        if !parcels.is_empty() {
            if self.next > self.sent {
                self.round_trip.begin(self.sent, now);
                self.sent = self.next;
            }
            self.waiting_since.get_or_insert(now);
        }
        self.arm(now);
        (first, parcels)
    }

    fn may_send(&self, cost: u64) -> bool {
        let in_flight = self.in_flight + cost;
        (in_flight <= self.limits.window || self.in_flight == 0) && self.acked_cost + in_flight <= self.credit
    }

    /// Returns whether all other segments wait for the one in flight.
    fn is_waiting(&self) -> bool {
        self.is_trying && self.in_flight > 0
    }

    /// Returns whether `fill` would take a parcel.
    pub(super) fn is_ready(&self) -> bool {
        !self.is_waiting()
            && self.queue.get((self.next - self.acked) as usize).is_some_and(|parcel| self.may_send(cost(parcel)))
    }

    /// Sets the timer if there is something to wait for. That includes a queue with nothing in flight: then no
    /// acknowledgement will carry the missing credit, so it has to be asked for.
    pub(super) fn arm(&mut self, now: Moment) {
        if self.resend_at.is_none() && !self.queue.is_empty() {
            self.resend_at = Some(now + self.wait());
        }
    }

    /// Handles an acknowledgement of all parcels before `ack`. If `gap`, the peer is missing the parcel `ack`, though
    /// later ones have arrived.
    pub(super) fn on_ack(&mut self, now: Moment, ack: u64, gap: bool) -> Result<(), NeverSent> {
        if ack > self.sent {
            return Err(NeverSent);
        }
        if ack > self.acked {
            while self.acked < ack {
                let cost = self.queue.pop_front().as_ref().map_or(0, cost);
                self.queued -= cost;
                self.acked_cost += cost;
                // After a rewind, a parcel that was sent earlier may be acknowledged before it is sent again.
                if self.acked < self.next {
                    self.in_flight -= cost;
                }
                self.acked += 1;
            }
            self.next = self.next.max(ack);
            if self.round_trip.end(ack, now) {
                self.attempts = 0;
            }
            self.is_trying = false;
            self.resend_at = (self.in_flight > 0).then(|| now + self.wait());
            self.waiting_since = (self.acked < self.sent).then_some(now);
        }
        if gap && ack == self.acked && self.next > ack && self.rewound_to != Some(ack) {
            self.rewound_to = Some(ack);
            self.rewind();
        }
        Ok(())
    }

    /// Goes back to the first parcel that is not acknowledged.
    fn rewind(&mut self) {
        self.next = self.acked;
        self.in_flight = 0;
        self.round_trip.forget();
    }

    pub(super) fn next_timeout(&self) -> Option<Moment> {
        self.resend_at
    }

    pub(super) fn handle_timeout(&mut self, now: Moment) {
        if self.resend_at.is_none_or(|at| at > now) {
            return;
        }
        self.resend_at = None;
        self.attempts += 1;
        if self.sent > self.acked {
            self.rewind();
            self.is_trying = true;
            // A notice of the same gap counts again: the parcels that were sent after the previous notice were lost
            // too.
            self.rewound_to = None;
        } else if !self.queue.is_empty() {
            self.ask = true;
            self.arm(now);
        }
    }

    fn wait(&self) -> Duration {
        self.round_trip.wait().saturating_mul(1 << self.attempts.min(10)).min(LONGEST_WAIT)
    }

    /// Returns the number that the parcel after the last queued one will have.
    pub(super) fn end(&self) -> u64 {
        self.acked + self.queue.len() as u64
    }

    pub(super) fn queued(&self) -> u64 {
        self.queued
    }

    /// Returns the number of queued messages, including partly acknowledged ones.
    pub(super) fn messages(&self) -> u64 {
        self.queue.iter().filter(|parcel| matches!(parcel, Parcel::Piece { last: true, .. })).count() as u64
    }

    /// Resets everything but the limits: nothing is queued, in flight or timed any more.
    pub(super) fn clear(&mut self) {
        *self = Self::new(self.limits);
    }
}

/// Returns the cost of all parcels of a message.
pub(super) fn message_cost(length: usize) -> u64 {
    length as u64 + super::PARCEL_COST * length.div_ceil(MAX_PIECE).max(1) as u64
}

/// The estimate of RFC 6298: a smoothed round trip, and four times its variation. Only parcels that were sent once
/// are measured (Karn's algorithm), one at a time.
#[derive(Default)]
struct RoundTrip {
    /// The smoothed time and its variation.
    estimate: Option<(Duration, Duration)>,
    /// The parcel being measured, and when it was sent.
    timed: Option<(u64, Moment)>,
}

impl RoundTrip {
    fn begin(&mut self, number: u64, now: Moment) {
        self.timed.get_or_insert((number, now));
    }

    /// Returns whether `ack` acknowledges the measured parcel.
    fn end(&mut self, ack: u64, now: Moment) -> bool {
        let Some((_, sent)) = self.timed.take_if(|(number, _)| *number < ack) else { return false };
        let time = now.since(sent);
        self.estimate = Some(match self.estimate {
            None => (time, time / 2),
            Some((smooth, variation)) => (smooth * 7 / 8 + time / 8, variation * 3 / 4 + smooth.abs_diff(time) / 4),
        });
        true
    }

    fn forget(&mut self) {
        self.timed = None;
    }

    fn wait(&self) -> Duration {
        match self.estimate {
            None => FIRST_WAIT,
            Some((smooth, variation)) => (smooth + variation * 4).clamp(SHORTEST_WAIT, LONGEST_WAIT),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Moment {
        Moment::after_start(Duration::from_millis(millis))
    }

    fn outgoing(window: u64, messages: u32) -> Outgoing {
        let mut outgoing = Outgoing::new(LaneLimits { window, queue: 1 << 20, message: 1 << 20 });
        outgoing.allow(u64::MAX);
        (0..messages).for_each(|n| outgoing.push(vec![n as u8; 36].into()).ok().unwrap());
        outgoing
    }

    /// Returns the numbers of the parcels of the next segment.
    fn fill(outgoing: &mut Outgoing, now: Moment) -> std::ops::Range<u64> {
        let (first, parcels) = outgoing.fill(now, 60_000);
        first..first + parcels.len() as u64
    }

    fn ack(outgoing: &mut Outgoing, now: Moment, ack: u64, gap: bool) {
        assert!(outgoing.on_ack(now, ack, gap).is_ok());
    }

    #[test]
    fn the_window_limits_what_is_on_its_way() {
        let mut out = outgoing(300, 10); // each costs 100
        assert_eq!(fill(&mut out, at(0)), 0..3);
        assert_eq!(fill(&mut out, at(0)), 3..3);
        ack(&mut out, at(1), 2, false);
        assert_eq!(fill(&mut out, at(1)), 3..5);
    }

    #[test]
    fn the_credit_limits_the_total_and_is_asked_for_when_nothing_else_brings_it() {
        let mut out = Outgoing::new(LaneLimits { window: 1 << 20, queue: 1 << 20, message: 1 << 20 });
        (0..5).for_each(|_| out.push(vec![0; 36].into()).ok().unwrap());
        out.allow(250);
        assert_eq!(fill(&mut out, at(0)), 0..2);
        ack(&mut out, at(1), 2, false);
        assert_eq!(fill(&mut out, at(1)), 2..2);
        assert!(!out.ask);
        out.handle_timeout(out.next_timeout().expect("a time to ask"));
        assert!(out.ask && out.next_timeout().is_some());
        out.allow(300);
        out.allow(200); // a late frame takes nothing back
        assert_eq!(fill(&mut out, at(1)), 2..3);
    }

    #[test]
    fn a_gap_is_filled_at_once_and_a_copy_of_its_notice_does_nothing() {
        let mut out = outgoing(1 << 20, 5);
        assert_eq!(fill(&mut out, at(0)), 0..5);
        ack(&mut out, at(1), 2, true);
        assert_eq!(fill(&mut out, at(1)), 2..5);
        ack(&mut out, at(2), 2, true);
        assert_eq!(fill(&mut out, at(2)), 5..5);
        ack(&mut out, at(3), 1, true); // older still
        assert_eq!(fill(&mut out, at(3)), 5..5);
        // The repeated parcels are lost too. After the timeout, the same gap counts once more.
        out.handle_timeout(at(600));
        assert_eq!(fill(&mut out, at(600)), 2..5);
        ack(&mut out, at(601), 2, true);
        assert_eq!(fill(&mut out, at(601)), 2..5);
    }

    #[test]
    fn what_is_not_acknowledged_is_sent_again_with_longer_and_longer_waits() {
        let mut out = outgoing(1 << 20, 2);
        let mut now = at(0);
        let mut waits = Vec::new();
        for _ in 0..5 {
            assert_eq!(fill(&mut out, now), 0..2);
            let next = out.next_timeout().unwrap();
            out.handle_timeout(now); // too early
            assert_eq!(fill(&mut out, now), 2..2);
            waits.push(next.since(now).as_millis());
            now = next;
            out.handle_timeout(now);
        }
        assert_eq!(waits, [500, 1_000, 2_000, 2_000, 2_000]);
        assert_eq!(out.waiting_since, Some(at(0)));
        fill(&mut out, now);
        ack(&mut out, now, 1, false);
        assert_eq!((out.waiting_since, out.next_timeout()), (Some(now), Some(now + LONGEST_WAIT)));
        ack(&mut out, now, 2, false);
        assert_eq!((out.waiting_since, out.next_timeout()), (None, None));
    }

    #[test]
    fn the_wait_follows_the_round_trip_of_what_was_sent_once() {
        let mut out = outgoing(1 << 20, 1);
        fill(&mut out, at(0));
        ack(&mut out, at(200), 1, false);
        out.push(Bytes::new()).ok().unwrap();
        fill(&mut out, at(200));
        assert_eq!(out.next_timeout(), Some(at(200 + 200 + 4 * 100)));
        // The parcel was sent twice, and the acknowledgement may be for either copy.
        out.handle_timeout(at(900));
        fill(&mut out, at(900));
        ack(&mut out, at(901), 2, false);
        assert_eq!(out.round_trip.estimate, Some((Duration::from_millis(200), Duration::from_millis(100))));
    }

    /// Catches: a wait that never adapts, because every parcel is sent again before it is acknowledged.
    #[test]
    fn a_round_trip_that_becomes_longer_than_the_wait_is_learned() {
        let mut out = outgoing(1 << 20, 1);
        fill(&mut out, at(0));
        ack(&mut out, at(1), 1, false);
        assert_eq!(out.round_trip.wait(), SHORTEST_WAIT);
        let (mut now, mut again) = (at(1), Vec::new());
        for number in 1..6 {
            out.push(Bytes::new()).ok().unwrap();
            let (arrives, mut times) = (now + Duration::from_millis(700), 0);
            loop {
                assert_eq!(fill(&mut out, now), number..number + 1);
                now = out.next_timeout().unwrap();
                if now >= arrives {
                    break;
                }
                out.handle_timeout(now);
                times += 1;
            }
            now = arrives;
            ack(&mut out, now, number + 1, false);
            again.push(times);
        }
        assert_eq!(again, [2, 1, 0, 0, 0]);
    }

    #[test]
    fn after_a_wait_without_progress_one_segment_is_sent_first() {
        let mut out = outgoing(1 << 20, 5);
        let segment = |out: &mut Outgoing, now| {
            let (first, parcels) = out.fill(now, 100);
            first..first + parcels.len() as u64
        };
        for first in [0, 2, 4] {
            assert_eq!(segment(&mut out, at(0)), first..(first + 2).min(5));
        }
        out.handle_timeout(at(500));
        assert!(out.is_ready());
        assert_eq!((segment(&mut out, at(500)), segment(&mut out, at(500))), (0..2, 2..2));
        assert!(!out.is_ready());
        // The segment is lost again; then it arrives, and is acknowledged with the segments that had arrived before.
        let next = out.next_timeout().unwrap();
        out.handle_timeout(next);
        assert_eq!((segment(&mut out, next), segment(&mut out, next)), (0..2, 2..2));
        ack(&mut out, next, 4, false);
        assert_eq!((segment(&mut out, next), segment(&mut out, next)), (4..5, 5..5));
    }

    #[test]
    fn an_acknowledgement_after_a_rewind_skips_what_arrived() {
        let mut out = outgoing(1 << 20, 5);
        fill(&mut out, at(0));
        out.handle_timeout(at(500));
        ack(&mut out, at(501), 3, false);
        assert_eq!((out.in_flight, out.queued), (0, 200));
        assert_eq!(fill(&mut out, at(501)), 3..5);
        assert!(out.on_ack(at(502), 6, false).is_err());
    }

    #[test]
    fn a_long_message_is_cut_and_queued_as_a_whole_or_not_at_all() {
        let mut out = Outgoing::new(LaneLimits { window: 1 << 20, queue: 200_000, message: 300_000 });
        out.allow(u64::MAX);
        // The message is longer than the queue may be, but it is accepted because the queue is empty.
        out.push(vec![0; 300_000].into()).ok().unwrap();
        assert_eq!(out.queued, message_cost(300_000));
        let lengths = |out: &Outgoing| -> Vec<_> {
            let length = |parcel: &Parcel| match parcel {
                Parcel::Piece { last, bytes } => (bytes.len(), *last),
                _ => panic!(),
            };
            out.queue.iter().map(length).collect()
        };
        let cut = [(65_536, false), (65_536, false), (65_536, false), (65_536, false), (37_856, true)];
        assert_eq!(lengths(&out), cut);
        assert!(matches!(out.push(vec![1].into()), Err(SendError::Full(back)) if *back == [1]));
        assert!(matches!(out.push(vec![1; 300_001].into()), Err(SendError::TooLong { bytes: 300_001, .. })));
        assert_eq!(lengths(&out), cut);
        let mut out = outgoing(1 << 20, 0);
        out.push(vec![0; MAX_PIECE].into()).ok().unwrap();
        out.push(Bytes::new()).ok().unwrap();
        assert_eq!(lengths(&out), [(MAX_PIECE, true), (0, true)]);
    }
}
