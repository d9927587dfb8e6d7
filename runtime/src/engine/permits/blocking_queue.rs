//! The line of processes that wait, in async code, for a thread that takes their permit while they block.
//!
//! First come, first served: a thread that comes free is promised to the first step in line, and to no other.
//! What is promised is a number, not a thread: the promise is that there is one, or may be started.

use std::collections::VecDeque;
use std::task::Waker;

/// A place in the line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WaiterId(u64);

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct BlockingQueue {
    tickets: u64,
    waiting: VecDeque<(WaiterId, Waker)>,
    promised: Vec<WaiterId>,
}

/// What a ticket is worth.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Reservation {
    /// Its turn has come.
    Promised,
    /// It waits, and the waker is kept.
    Waits,
    /// It is none any more.
    Nothing,
}

impl BlockingQueue {
    /// At the end of the line.
    pub(crate) fn join(&mut self, waker: Waker) -> WaiterId {
        self.tickets += 1;
        let ticket = WaiterId(self.tickets);
        self.waiting.push_back((ticket, waker));
        ticket
    }

    /// Returns whether it is the ticket's turn; if it waits, `waker` is woken when it is, and is the one from before
    /// now.
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

    /// Promises a thread to the first in line, which must be woken.
    pub(crate) fn promise(&mut self) -> Option<Waker> {
        let (ticket, waker) = self.waiting.pop_front()?;
        self.promised.push(ticket);
        Some(waker)
    }

    /// The ticket has been used, or its holder wants nothing any more. Returns whether it had a promise, and the waker
    /// that is not needed any more.
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
