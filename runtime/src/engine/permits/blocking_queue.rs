//! The queue of async steps that wait for a thread to take their permit while they block.
//!
//! FIFO: a thread that becomes available is reserved for the first step in the queue, and for no other. A reservation
//! is a count, not a thread: there is a thread for it, or one may be started.

use std::collections::VecDeque;
use std::task::Waker;

/// A place in the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WaiterId(u64);

/// The queue of blocking async steps.
#[derive(Debug, Default)]
pub(crate) struct BlockingQueue {
    tickets: u64,
    waiting: VecDeque<(WaiterId, Waker)>,
    promised: Vec<WaiterId>,
}

/// The state of a place in the queue.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Reservation {
    /// A thread is reserved for it.
    Promised,
    /// It waits, and its waker is stored.
    Waits,
    /// It is no longer in the queue.
    Nothing,
}

impl BlockingQueue {
    /// Appends a place.
    pub(crate) fn join(&mut self, waker: Waker) -> WaiterId {
        self.tickets += 1;
        let ticket = WaiterId(self.tickets);
        self.waiting.push_back((ticket, waker));
        ticket
    }

    /// Returns the state of a place; if it waits, `waker` is stored and the previous one returned in its place.
    pub(crate) fn ask(&mut self, ticket: WaiterId, waker: &mut Waker) -> Reservation {
        if self.promised.contains(&ticket) {
            return Reservation::Promised;
        }
        let Some((_, kept)) = self.waiting.iter_mut().find(|(other, _)| *other == ticket) else {
            return Reservation::Nothing;
        };
        std::mem::swap(kept, waker);
        Reservation::Waits
    }

    pub(crate) fn promised(&self) -> usize {
        self.promised.len()
    }

    pub(crate) fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Reserves a thread for the first place, whose waker is returned.
    pub(crate) fn promise(&mut self) -> Option<Waker> {
        let (ticket, waker) = self.waiting.pop_front()?;
        self.promised.push(ticket);
        Some(waker)
    }

    /// Removes a place that was used or given up. Returns whether it had a reservation, and its waker, no longer
    /// needed.
    pub(crate) fn leave(&mut self, ticket: WaiterId) -> (bool, Option<Waker>) {
        if let Some(place) = self.promised.iter().position(|other| *other == ticket) {
            self.promised.swap_remove(place);
            return (true, None);
        }
        let place = self.waiting.iter().position(|(other, _)| *other == ticket);
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
        assert!(line.promise().is_some() && line.promise().is_some());
        assert_eq!((line.promised(), line.len()), (2, 1));
        assert_eq!((worth(&mut line, 0), worth(&mut line, 1)), (Reservation::Promised, Reservation::Nothing));
        assert_eq!((worth(&mut line, 2), worth(&mut line, 3)), (Reservation::Promised, Reservation::Waits));
        assert!(line.leave(tickets[0]).0 && !line.leave(tickets[0]).0);
        assert_eq!((line.promised(), line.len()), (1, 1));
    }
}
