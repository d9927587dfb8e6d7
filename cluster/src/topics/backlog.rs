//! The events of a topic that have arrived and wait for delivery.

use bytes::Bytes;
use std::collections::VecDeque;

/// Maximum number of events of a topic that wait on a node.
pub const MAX_EVENTS: usize = 1_024;

/// Maximum total size of these events, in bytes.
pub const MAX_BYTES: usize = 4 << 20;

/// A bounded queue of the events of one topic that wait on one node, in order of arrival. When it is full, further
/// events are dropped and counted: the receiving thread never waits.
///
/// ```
/// use postroom_cluster::topics::{Backlog, MAX_EVENTS};
///
/// let mut backlog = Backlog::default();
/// assert!(backlog.push("first".into()), "it was empty: the reader has to be told");
/// assert!(!backlog.push("second".into()));
/// (0..MAX_EVENTS).for_each(|_| _ = backlog.push("more".into()));
/// assert_eq!(backlog.dropped(), 2);
/// assert_eq!(backlog.pop().as_deref(), Some(&b"first"[..]));
/// ```
#[derive(Debug, Default)]
pub struct Backlog {
    events: VecDeque<Bytes>,
    bytes: usize,
    dropped: u64,
    /// Whether a thread is delivering events.
    is_busy: bool,
}

impl Backlog {
    /// Adds an event. Returns true if the caller has to start the delivery.
    pub fn push(&mut self, event: Bytes) -> bool {
        if self.events.len() == MAX_EVENTS || self.bytes + event.len() > MAX_BYTES {
            self.dropped += 1;
            return false;
        }
        self.bytes += event.len();
        self.events.push_back(event);
        !std::mem::replace(&mut self.is_busy, true)
    }

    /// Returns the next event. `None` ends the delivery; the next [`push`](Self::push) then starts it again.
    pub fn pop(&mut self) -> Option<Bytes> {
        let event = self.events.pop_front();
        self.is_busy = event.is_some();
        self.bytes -= event.as_ref().map_or(0, Bytes::len);
        event
    }

    /// Returns how many events were dropped because the backlog was full.
    pub fn dropped(&self) -> u64 {
        self.dropped
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    /// Each event is delivered in order, or is counted as dropped. A reader that has stopped is started again when
    /// there are events.
    #[test]
    fn each_event_is_handed_out_in_order_or_counted() {
        let (mut full, mut long) = (0, 0);
        // Each event begins with its number, and overlaps the next ones, so that the test need not write gigabytes.
        let events: Bytes = (0..40 * 200 + 5_000_u64).flat_map(u64::to_be_bytes).collect();
        for seed in 0..1_000 {
            let (mut random, mut backlog) = (Random::new(seed), Backlog::default());
            let (mut pushed, mut taken, mut kept, mut is_handing_out) = (0_u64, 0, Vec::new(), false);
            let longest = if random.chance(50) { 100 } else { 40_000 };
            for _ in 0..40 {
                for _ in 0..random.below(200) {
                    let at = 8 * pushed as usize;
                    let event = events.slice(at..at + 8 + random.below(longest) as usize);
                    let before = backlog.dropped();
                    let is_told = backlog.push(event);
                    if backlog.dropped() == before {
                        kept.push(pushed);
                        assert_eq!(is_told, !is_handing_out, "seed {seed}");
                        is_handing_out = true;
                    } else {
                        assert!(!is_told);
                    }
                    pushed += 1;
                    assert!(backlog.events.len() <= MAX_EVENTS && backlog.bytes <= MAX_BYTES);
                }
                for _ in 0..random.below(200) {
                    let Some(event) = backlog.pop() else {
                        is_handing_out = false;
                        break;
                    };
                    assert_eq!(event[..8], u64::to_be_bytes(kept[taken]), "seed {seed}");
                    taken += 1;
                }
            }
            full += u32::from(backlog.dropped() > 0 && longest == 100);
            long += u32::from(backlog.dropped() > 0 && longest > 100);
            while backlog.pop().is_some() {
                taken += 1;
            }
            assert_eq!((taken as u64 + backlog.dropped(), backlog.bytes), (pushed, 0), "seed {seed}");
        }
        assert!(full > 50 && long > 50, "{full} full, {long} too long");
    }
}
