//! What tells whether a call's answer is still to come: a word in the node that waits for it, and a number that is given
//! out once in the life of the program.
//!
//! While a node waits for an answer, its `next` holds the call's number with three marks below it. An answer on its way,
//! and any later use of the node, put an address or another number there, and nodes are never freed: so whoever knows the
//! word and the number may ask at any time, and the side that answers does nothing for it.
//!
//! The marks: [`WANTED`] tells a number from an address. [`UNWANTED`] is added by a caller that gives up, who cannot reach
//! into the called process. [`KEPT`] is added when the right to answer passes into a program's own hands, as a reply or an
//! unopened package: from then on it is not known who will answer.

use crate::mailbox::node::Node;
use crate::sync::{AtomicPtr, Ordering};
use std::ptr;

const WANTED: usize = 1;
const UNWANTED: usize = 2;
const KEPT: usize = 4;
const MARKS: usize = WANTED | UNWANTED | KEPT;
const MARK_BITS: u32 = 3;

/// How many bits of a number are looked at: at a hundred million calls a second they suffice for five years, and then a
/// word would have to be looked at that was left alone for as long.
pub(crate) const NUMBER_BITS: u32 = 54;

/// The word of a node that waits for an answer: its `next`.
pub(crate) type Word = AtomicPtr<Node>;

/// The calling side's half of a call: it can ask whether the answer is still to come, and say that it is not wanted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ticket {
    word: &'static Word,
    number: u64,
}

impl Ticket {
    /// Writes the call's `number`, which is not zero and has not been given out before, into the word of its node.
    #[inline]
    pub(crate) fn issue(word: &'static Word, number: u64) -> Self {
        let number = number & ((1 << NUMBER_BITS) - 1);
        let ticket = Self { word, number };
        word.store(ticket.marked(WANTED), Ordering::Relaxed);
        ticket
    }

    /// A ticket of what [`word`](Self::word) and [`number`](Self::number) have given.
    #[inline]
    pub(crate) fn of(word: &'static Word, number: u64) -> Self {
        Self { word, number }
    }

    #[inline]
    pub(crate) fn word(&self) -> &'static Word {
        self.word
    }

    #[inline]
    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    #[inline]
    fn marked(&self, marks: usize) -> *mut Node {
        ptr::without_provenance_mut((self.number as usize) << MARK_BITS | marks)
    }

    /// Says that the answer is not wanted any more, if it has not come.
    pub(crate) fn abandon(&self) {
        // Each fails if the answer is on its way: then the word is an address or another call's number.
        for marks in [WANTED, WANTED | KEPT] {
            let (wanted, unwanted) = (self.marked(marks), self.marked(marks | UNWANTED));
            if self.word.compare_exchange(wanted, unwanted, Ordering::Relaxed, Ordering::Relaxed).is_ok() {
                return;
            }
        }
    }

    /// Whether the answer is wanted, has not been given, and is the called process's to give: in its mailbox, or with a
    /// method that has not ended.
    #[inline]
    pub(crate) fn is_open(&self) -> bool {
        self.word.load(Ordering::Relaxed) == self.marked(WANTED)
    }

    /// Whether the answer is wanted and has not been given.
    pub(crate) fn is_unanswered(&self) -> bool {
        let word = self.word.load(Ordering::Relaxed);
        word == self.marked(WANTED) || word == self.marked(WANTED | KEPT)
    }
}

/// Whether the caller whose node's word this is has given up.
pub(crate) fn is_unwanted(word: &Word) -> bool {
    let unwanted = WANTED | UNWANTED;
    word.load(Ordering::Relaxed).addr() & unwanted == unwanted
}

/// The right to answer passes into a program's own hands. For its holder, whose node has this word.
pub(crate) fn keep(word: &Word) {
    let open = word.load(Ordering::Relaxed);
    if open.addr() & MARKS == WANTED {
        let kept = open.map_addr(|address| address | KEPT);
        // Fails if the caller has given up meanwhile.
        let _ = word.compare_exchange(open, kept, Ordering::Relaxed, Ordering::Relaxed);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn word() -> &'static Word {
        Box::leak(Box::new(Word::new(ptr::null_mut())))
    }

    #[test]
    fn a_call_is_open_until_it_is_answered() {
        let ticket = Ticket::issue(word(), 7);
        assert!(ticket.is_open() && !is_unwanted(ticket.word()));
        ticket.word().store(ptr::null_mut(), Ordering::Relaxed);
        assert!(!ticket.is_open());
        // An abandonment that comes too late changes nothing, nor does one of an earlier call in the same node.
        ticket.abandon();
        assert!(ticket.word().load(Ordering::Relaxed).is_null());
        let next = Ticket::issue(ticket.word(), 8);
        ticket.abandon();
        assert!(next.is_open() && !ticket.is_open());
    }

    #[test]
    fn a_kept_call_is_not_open_and_can_be_given_up() {
        let ticket = Ticket::issue(word(), 7);
        keep(ticket.word());
        assert!(!ticket.is_open() && ticket.is_unanswered() && !is_unwanted(ticket.word()));
        ticket.abandon();
        assert!(!ticket.is_unanswered() && is_unwanted(ticket.word()));
        let ticket = Ticket::issue(word(), 9);
        ticket.abandon();
        keep(ticket.word());
        assert!(is_unwanted(ticket.word()));
    }

    #[test]
    fn numbers_beyond_the_bits_that_are_looked_at_still_name_their_calls() {
        let ticket = Ticket::issue(word(), 5 | 1 << NUMBER_BITS);
        assert!(ticket.is_open() && ticket.number() == 5);
    }
}
