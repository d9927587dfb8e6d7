//! Tracks whether a call's answer is still expected, by means of a unique number and a word in the node that waits for
//! the answer.
//!
//! While a node waits for an answer, its `next` holds the call's number above five mark bits. When the answer is on its
//! way, or the node is used for something else, `next` holds an address or another number. Nodes are never freed, so
//! code that knows the word and the number may check at any time, at no cost to the answering side.
//!
//! | mark | set by | means |
//! |---|---|---|
//! | [`WANTED`] | the caller, with the number | the word is a number and no address |
//! | [`UNWANTED`] | a caller that gives up and cannot reach into the called process | the answer will be discarded |
//! | [`KEPT`] | the called side | user code has the right to answer, so it is not known who will |
//! | [`TAKEN`] | the called side, right before the method runs | the message is delivered |
//! | [`WITHDRAWN`] | a process that closes a cycle, or a late caller | never delivered: the called side drops it |
//!
//! WITHDRAWN excludes TAKEN and KEPT, and they exclude it: each is set by a compare-and-swap, and only if the word has
//! no opposing mark. So a call that fails as withdrawn was never handled and never will be. The content of the node is
//! either read by the thread that withdraws the call or emptied by the called side, but not both, because the called
//! side [claims](claim) the node before it answers or fails the call.

use crate::mailbox::node::MailNode;
use crate::sync::{AtomicPtr, Ordering};
use std::ptr;

const WANTED: usize = 1;
const UNWANTED: usize = 2;
const KEPT: usize = 4;
const TAKEN: usize = 8;
const WITHDRAWN: usize = 16;
const MARK_BITS: u32 = 5;

/// Number of bits of a call's number that are compared. At a hundred million calls per second they last five years;
/// only a word that was left unchanged for that long could be mistaken for that of a later call.
pub(crate) const NUMBER_BITS: u32 = 54;

/// The word of a node that waits for an answer: its `next`.
pub(crate) type Word = AtomicPtr<MailNode>;

/// The caller's side of a call: checks whether the answer is still expected, and abandons it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CallId {
    node: &'static MailNode,
    number: u64,
}

impl CallId {
    /// Writes the call's `number` into the word of `node`. The number must be nonzero and unique.
    #[inline]
    pub(crate) fn issue(node: &'static MailNode, number: u64) -> Self {
        let number = number & ((1 << NUMBER_BITS) - 1);
        let ticket = Self { node, number };
        ticket.word().store(ticket.marked(WANTED), Ordering::Relaxed);
        ticket
    }

    #[inline]
    pub(crate) fn of(node: &'static MailNode, number: u64) -> Self {
        Self { node, number }
    }

    /// Returns the ID of the call whose answer `node` waits for.
    #[inline]
    pub(crate) fn held_by(node: &'static MailNode) -> Self {
        Self { node, number: (node.next.load(Ordering::Relaxed).addr() >> MARK_BITS) as u64 }
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

    /// Marks the answer as unwanted, if it has not arrived. Writes nothing if the word is an address or another call's
    /// number: then the answer is on its way, or the node serves another call.
    pub(crate) fn abandon(&self) {
        let wanted = self.marked(WANTED).addr();
        let mut before = self.word().load(Ordering::Relaxed);
        while before.addr() & !(TAKEN | KEPT) == wanted {
            let unwanted = before.map_addr(|address| address | UNWANTED);
            match self.word().compare_exchange_weak(before, unwanted, Ordering::Release, Ordering::Relaxed) {
                Ok(_) => return,
                Err(changed) => before = changed,
            }
        }
    }

    /// Withdraws the message, so that it will never be handled. Returns false if the called side has taken or kept it,
    /// or the call is no longer open.
    pub(crate) fn withdraw(&self) -> bool {
        let (open, withdrawn) = (self.marked(WANTED), self.marked(WANTED | UNWANTED | WITHDRAWN));
        // Read first: that of a late caller is rarely open, and ThreadSanitizer takes an exchange that fails for a
        // write, which the next holder of the node does not expect.
        self.word().load(Ordering::Relaxed) == open
            && self.word().compare_exchange(open, withdrawn, Ordering::Release, Ordering::Relaxed).is_ok()
    }

    /// Returns whether the answer is still wanted and owed by the called process itself: the message is in its mailbox,
    /// or in a method that has not returned.
    #[inline]
    pub(crate) fn is_open(&self) -> bool {
        self.has_no_mark_but(TAKEN)
    }

    /// Returns true if the answer is wanted and has not been given.
    pub(crate) fn is_unanswered(&self) -> bool {
        self.has_no_mark_but(TAKEN | KEPT)
    }

    #[inline]
    fn has_no_mark_but(&self, marks: usize) -> bool {
        self.word().load(Ordering::Relaxed).addr() & !marks == self.marked(WANTED).addr()
    }
}

/// Returns whether a caller has given up. `word` is the word in its node.
pub(crate) fn is_unwanted(word: &Word) -> bool {
    has_mark(word.load(Ordering::Relaxed), UNWANTED)
}

/// Returns whether a call was withdrawn. `word` is the word in its caller's node.
#[inline]
pub(crate) fn is_withdrawn(word: &Word) -> bool {
    has_mark(word.load(Ordering::Relaxed), WITHDRAWN)
}

#[inline]
fn has_mark(word: *mut MailNode, mark: usize) -> bool {
    word.addr() & (WANTED | mark) == WANTED | mark
}

/// The holder of a node calls this with the node's word before it frees the node itself, since the caller may be giving
/// up on another thread. After this, the caller writes nothing more to the word, and everything that it has written
/// happens before. (If the node is queued as an answer instead, the holder of the caller's token takes it out, and that
/// comes after everything that the caller did.)
pub(crate) fn close(word: &Word) {
    word.swap(ptr::null_mut(), Ordering::Acquire);
}

/// The holder of a node calls this with the node's word right before the message is handled. Returns false if the
/// message was withdrawn.
#[inline]
pub(crate) fn take(word: &Word) -> bool {
    mark_as(word, TAKEN)
}

/// The holder of a node calls this with the node's word before it empties the node to answer or fail the call, even if
/// the message was never taken because its process has ended or its package was dropped. Returns false if the message
/// was withdrawn: then another process may be reading the content of the node.
#[inline]
pub(crate) fn claim(word: &Word) -> bool {
    // The message has nearly always been taken.
    word.load(Ordering::Relaxed).addr() & (TAKEN | KEPT) != 0 || take(word)
}

/// The holder of a node calls this with the node's word when the right to answer passes to user code. Returns false if
/// the message was withdrawn.
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
        // A late abandonment changes nothing, nor does one for an earlier call in the same node.
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
        // An abandoned call is not withdrawn: its caller has already got a result.
        let ticket = CallId::issue(node(), 9);
        ticket.abandon();
        assert!(!ticket.withdraw() && take(ticket.word()));
    }

    #[test]
    fn a_call_is_either_claimed_or_withdrawn() {
        let ticket = CallId::issue(node(), 7);
        assert!(claim(ticket.word()) && !ticket.withdraw() && claim(ticket.word()));
        let ticket = CallId::issue(ticket.node(), 8);
        assert!(ticket.withdraw() && !claim(ticket.word()));
        for mark in [take, keep] {
            let ticket = CallId::issue(node(), 9);
            assert!(mark(ticket.word()));
            let before = ticket.word().load(Ordering::Relaxed);
            assert!(claim(ticket.word()), "it was taken up");
            assert_eq!(ticket.word().load(Ordering::Relaxed), before, "nothing is written for that");
        }
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
