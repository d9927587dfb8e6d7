//! The queue of async steps that are about to block, and first wait for a thread that can take their permit.
//!
//! The queue is FIFO: a thread that becomes available is reserved for the first step in the queue, and for no other. A
//! reservation does not name a particular thread. It means that a thread is available, or may be started.

use std::collections::VecDeque;
use std::task::Waker;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WaiterId(u64);

#[derive(Debug, Default)]
pub(crate) struct BlockingQueue {
    last_id: u64,
    waiting: VecDeque<(WaiterId, Waker)>,
    reserved: Vec<WaiterId>,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Reservation {
    Reserved,
    /// The step waits, and its waker is stored.
    Waits,
    Nothing,
}

impl BlockingQueue {
    pub(crate) fn join(&mut self, waker: Waker) -> WaiterId {
        self.last_id += 1;
        let waiter = WaiterId(self.last_id);
        self.waiting.push_back((waiter, waker));
        waiter
    }

    /// Returns the state of a step. If the step still waits, swaps `waker` with the stored waker.
    pub(crate) fn ask(&mut self, waiter: WaiterId, waker: &mut Waker) -> Reservation {
        if self.reserved.contains(&waiter) {
            return Reservation::Reserved;
        }
        let Some((_, kept)) = self.waiting.iter_mut().find(|(other, _)| *other == waiter) else {
            return Reservation::Nothing;
        };
        std::mem::swap(kept, waker);
        Reservation::Waits
    }

    pub(crate) fn reserved(&self) -> usize {
        self.reserved.len()
    }

    pub(crate) fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Reserves a thread for the first step in the queue. Returns its waker.
    pub(crate) fn reserve_first(&mut self) -> Option<Waker> {
        let (waiter, waker) = self.waiting.pop_front()?;
        self.reserved.push(waiter);
        Some(waker)
    }

    /// Removes a step that is about to block, or has given up. Returns true if a thread was reserved for it. If it was
    /// still queued, returns false and its waker, which the caller must drop.
    pub(crate) fn leave(&mut self, waiter: WaiterId) -> (bool, Option<Waker>) {
        if let Some(place) = self.reserved.iter().position(|other| *other == waiter) {
            self.reserved.swap_remove(place);
            return (true, None);
        }
        let place = self.waiting.iter().position(|(other, _)| *other == waiter);
        (false, place.and_then(|place| self.waiting.remove(place)).map(|(_, waker)| waker))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_come_first_served_and_who_leaves_is_passed_over() {
        let mut line = BlockingQueue::default();
        let tickets: Vec<WaiterId> = (0..4).map(|_| line.join(Waker::noop().clone())).collect();
        let worth = |line: &mut BlockingQueue, of: usize| line.ask(tickets[of], &mut Waker::noop().clone());
        assert!(!line.leave(tickets[1]).0);
        assert!(line.reserve_first().is_some() && line.reserve_first().is_some());
        assert_eq!((line.reserved(), line.len()), (2, 1));
        assert_eq!((worth(&mut line, 0), worth(&mut line, 1)), (Reservation::Reserved, Reservation::Nothing));
        assert_eq!((worth(&mut line, 2), worth(&mut line, 3)), (Reservation::Reserved, Reservation::Waits));
        assert!(line.leave(tickets[0]).0 && !line.leave(tickets[0]).0);
        assert_eq!((line.reserved(), line.len()), (1, 1));
    }
}
