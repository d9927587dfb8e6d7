//! The data lane (`mailbox/lanes.rs`): the letters of each sender arrive once, in their order, and whole.
//!
//! Not covered: the sequence numbers (`Lanes::depth` is a glance that promises nothing under races) beyond that they do no
//! harm; nodes that go from thread to thread through the real pool.

use super::{Mailbox, Rest};
use crate::check::{check, reach};
use crate::fault::{self, Fault};
use loom::thread;

/// Two senders and whoever of the three threads has the token.
fn model(letters: u32) {
    let mailbox = Mailbox::new();
    let senders =
        [10, 20].map(|first| thread::spawn(move || (first..first + letters).for_each(|number| mailbox.send(number))));
    mailbox.run(Rest::Idle);
    senders.into_iter().for_each(|sender| sender.join().unwrap());
    let data = mailbox.rest().data;
    for first in [10, 20] {
        let of_one: Vec<_> = data.iter().copied().filter(|number| (first..first + 10).contains(number)).collect();
        assert_eq!(of_one, (first..first + letters).collect::<Vec<_>>(), "once, and in order");
    }
    if data.first() == Some(&20) {
        reach("the second was first");
    }
}

#[test]
fn two_senders() {
    check(4, &["busy", "refused", "took the token", "the second was first"], || model(1));
}

/// Nodes are used again while both send.
#[test]
fn two_senders_of_two() {
    check(2, &["busy", "refused", "took the token", "the second was first"], || model(2));
}

#[test]
#[should_panic]
fn fault_relaxed_link() {
    fault::with(Fault::RelaxedStore, two_senders);
}

#[test]
#[should_panic]
fn fault_torn_swap() {
    fault::with(Fault::TornSwap, two_senders);
}
