//! What tells whether a call's answer is still to come: a word in the node that waits for it, and a number that is
//! given out once in the life of the program.
//!
//! While a node waits for an answer, its `next` holds the call's number with five marks below it. An answer on its way,
//! and any later use of the node, put an address or another number there, and nodes are never freed: so anyone who
//! knows the word and the number may ask at any time, and the side that answers does nothing for it.
//!
//! | mark | set by | means |
//! |---|---|---|
//! | [`WANTED`] | the caller, with the number | the word is a number and no address |
//! | [`UNWANTED`] | a caller that gives up, who cannot reach into the called process | the answer will be thrown away |
//! | [`KEPT`] | the called side | the right to answer has passed into a program's own hands, as a reply or an unopened package: from then on it is not known who will answer |
//! | [`TAKEN`] | the called side, right before the method runs | the message is delivered |
//! | [`WITHDRAWN`] | a process that closes a cycle of calls | the message will never be delivered: the called side throws it away when it comes to it |
//!
//! TAKEN or KEPT and WITHDRAWN exclude each other: each is set by a compare-and-swap on the one word, from a value that
//! has none of them. So a call that fails as withdrawn was never handled, and never will be.

use crate::mailbox::node::MailNode;
use crate::sync::{AtomicPtr, Ordering};
use std::ptr;

const WANTED: usize = 1;
const UNWANTED: usize = 2;
const KEPT: usize = 4;
const TAKEN: usize = 8;
const WITHDRAWN: usize = 16;
const MARK_BITS: u32 = 5;

/// How many bits of a number are looked at: at a hundred million calls a second they suffice for five years, and then a
/// word would have to be looked at that was left alone for as long.
pub(crate) const NUMBER_BITS: u32 = 54;

/// The word of a node that waits for an answer: its `next`.
pub(crate) type Word = AtomicPtr<MailNode>;

/// The calling side's half of a call: it can ask whether the answer is still to come, and say that it is not wanted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CallId {
    node: &'static MailNode,
    number: u64,
}

impl CallId {
    /// Writes the call's `number`, which is not zero and has not been given out before, into the word of its node.
    #[inline]
    pub(crate) fn issue(node: &'static MailNode, number: u64) -> Self {
        let number = number & ((1 << NUMBER_BITS) - 1);
        let ticket = Self { node, number };
        ticket.word().store(ticket.marked(WANTED), Ordering::Relaxed);
        ticket
    }

    /// A ticket of what [`node`](Self::node) and [`number`](Self::number) have given.
    #[inline]
    pub(crate) fn of(node: &'static MailNode, number: u64) -> Self {
        Self { node, number }
    }

    #[inline]
    pub(crate) fn node(&self) -> &'static MailNode {
        self.node
    }

    #[inline]
    pub(crate) fn word(&self) -> &'static Word {
        &self.node.next
    }

    #[inline]
    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    #[inline]
    fn marked(&self, marks: usize) -> *mut MailNode {
        ptr::without_provenance_mut((self.number as usize) << MARK_BITS | marks)
    }

    /// Says that the answer is not wanted any more, if it has not come.
    pub(crate) fn abandon(&self) {
        // None of them if the answer is on its way: then the word is an address or another call's number.
        for marks in [WANTED, WANTED | TAKEN, WANTED | KEPT, WANTED | TAKEN | KEPT] {
            let (wanted, unwanted) = (self.marked(marks), self.marked(marks | UNWANTED));
            if self.word().compare_exchange(wanted, unwanted, Ordering::Relaxed, Ordering::Relaxed).is_ok() {
                return;
            }
        }
    }

    /// Withdraws the message, if the called process has not come to it: it will never be handled. Returns whether that
    /// is so.
    pub(crate) fn withdraw(&self) -> bool {
        let (open, withdrawn) = (self.marked(WANTED), self.marked(WANTED | UNWANTED | WITHDRAWN));
        self.word().compare_exchange(open, withdrawn, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }

    /// Returns whether the answer is wanted, has not been given, and is the called process's to give: in its mailbox,
    /// or with a method that has not ended.
    #[inline]
    pub(crate) fn is_open(&self) -> bool {
        self.has_no_mark_but(TAKEN)
    }

    /// Returns whether the answer is wanted and has not been given.
    pub(crate) fn is_unanswered(&self) -> bool {
        self.has_no_mark_but(TAKEN | KEPT)
    }

    #[inline]
    fn has_no_mark_but(&self, marks: usize) -> bool {
        self.word().load(Ordering::Relaxed).addr() & !marks == self.marked(WANTED).addr()
    }
}

/// Returns whether the caller whose node's word this is has given up.
pub(crate) fn is_unwanted(word: &Word) -> bool {
    has_mark(word.load(Ordering::Relaxed), UNWANTED)
}

/// Returns whether the message of the caller whose node's word this is has been withdrawn.
#[inline]
pub(crate) fn is_withdrawn(word: &Word) -> bool {
    has_mark(word.load(Ordering::Relaxed), WITHDRAWN)
}

#[inline]
fn has_mark(word: *mut MailNode, mark: usize) -> bool {
    word.addr() & (WANTED | mark) == WANTED | mark
}

/// The called process is about to handle the message. For its holder, whose node has this word. Returns whether it may:
/// not if the message has been withdrawn.
#[inline]
pub(crate) fn take(word: &Word) -> bool {
    mark_as(word, TAKEN)
}

/// The right to answer passes into a program's own hands. For its holder, whose node has this word. Returns whether it
/// may, as [`take`] does.
pub(crate) fn keep(word: &Word) -> bool {
    mark_as(word, KEPT)
}

#[inline]
fn mark_as(word: &Word, mark: usize) -> bool {
    let mut before = word.load(Ordering::Relaxed);
    while !has_mark(before, WITHDRAWN) {
        let marked = before.map_addr(|address| address | mark);
        match word.compare_exchange_weak(before, marked, Ordering::Relaxed, Ordering::Relaxed) {
            Ok(_) => return true,
            Err(changed) => before = changed,
        }
    }
    false
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn node() -> &'static MailNode {
        Box::leak(Box::new(MailNode::empty()))
    }

    #[test]
    fn a_call_is_open_until_it_is_answered() {
        let ticket = CallId::issue(node(), 7);
        assert!(ticket.is_open() && !is_unwanted(ticket.word()));
        ticket.word().store(ptr::null_mut(), Ordering::Relaxed);
        assert!(!ticket.is_open());
        // An abandonment that comes too late changes nothing, nor does one of an earlier call in the same node.
        ticket.abandon();
        assert!(ticket.word().load(Ordering::Relaxed).is_null());
        let next = CallId::issue(ticket.node(), 8);
        ticket.abandon();
        assert!(next.is_open() && !ticket.is_open());
    }

    #[test]
    fn a_kept_call_is_not_open_and_can_be_given_up() {
        let ticket = CallId::issue(node(), 7);
        keep(ticket.word());
        assert!(!ticket.is_open() && ticket.is_unanswered() && !is_unwanted(ticket.word()));
        ticket.abandon();
        assert!(!ticket.is_unanswered() && is_unwanted(ticket.word()));
        let ticket = CallId::issue(node(), 9);
        ticket.abandon();
        keep(ticket.word());
        assert!(is_unwanted(ticket.word()));
    }

    #[test]
    fn a_message_is_either_taken_or_withdrawn() {
        for mark in [take, keep] {
            let ticket = CallId::issue(node(), 7);
            assert!(mark(ticket.word()) && !ticket.withdraw() && !is_withdrawn(ticket.word()));
            assert!(ticket.is_unanswered() && mark(ticket.word()), "the answer is still to come");
            ticket.abandon();
            assert!(is_unwanted(ticket.word()) && mark(ticket.word()), "it is handled all the same");
            let ticket = CallId::issue(ticket.node(), 8);
            assert!(ticket.withdraw() && !mark(ticket.word()) && is_withdrawn(ticket.word()));
            assert!(!ticket.is_open() && !ticket.is_unanswered() && is_unwanted(ticket.word()) && !ticket.withdraw());
        }
        // One that was given up is not withdrawn: its caller has had its answer.
        let ticket = CallId::issue(node(), 9);
        ticket.abandon();
        assert!(!ticket.withdraw() && take(ticket.word()));
    }

    #[test]
    fn a_call_that_is_taken_is_open_until_it_is_answered() {
        let ticket = CallId::issue(node(), 7);
        assert!(take(ticket.word()) && ticket.is_open());
        ticket.word().store(ptr::null_mut(), Ordering::Relaxed);
        assert!(!ticket.is_open() && !ticket.is_unanswered() && !ticket.withdraw());
    }

    #[test]
    fn numbers_beyond_the_bits_that_are_looked_at_still_name_their_calls() {
        let ticket = CallId::issue(node(), 5 | 1 << NUMBER_BITS);
        assert!(ticket.is_open() && ticket.number() == 5);
    }
}
