//! The data lane (`mailbox/lanes.rs`): the envelopes of each sender arrive once, in order, and intact.
//!
//! The stand-in pool checks that each node is recycled once, and that no late thread writes to a recycled node.
//!
//! Not covered: the exactness of `Lanes::depth` during pushes and pops (it is an estimate); nodes that move between
//! threads through the real pool.

use super::{Mailbox, Rest};
use crate::check::{check, deep, reach};
use crate::fault::{self, Fault};
use crate::mailbox::node_pool;
use loom::thread;

const PLACES: [&str; 6] = [
    "a first node in the place of a mark",
    "busy",
    "busy without a first node",
    "refused without a first node",
    "refused the first node",
    "the second was first",
];

/// Two senders push while the thread with the token, which may be any of the three, takes envelopes.
fn model(envelopes: u32) {
    let mailbox = Mailbox::new();
    let senders =
        [10, 20].map(|first| thread::spawn(move || (first..first + envelopes).for_each(|number| mailbox.send(number))));
    mailbox.run(Rest::Idle);
    senders.into_iter().for_each(|sender| sender.join().unwrap());
    let data = mailbox.rest().data;
    for first in [10, 20] {
        let of_one: Vec<_> = data.iter().copied().filter(|number| (first..first + 10).contains(number)).collect();
        assert_eq!(of_one, (first..first + envelopes).collect::<Vec<_>>(), "once, and in order");
    }
    if data.first() == Some(&20) {
        reach("the second was first");
    }
}

#[test]
fn two_senders() {
    check(deep(2, 3), &PLACES, || model(1));
}

/// Each sender sends two envelopes, so nodes are reused while both threads send.
#[test]
fn two_senders_of_two() {
    check(deep(1, 2), &PLACES, || model(2));
}

/// Like the test above, but a recycled node goes to the first thread that needs one. So a late sender may find that its
/// predecessor, or its own node, is in use again.
#[test]
fn two_senders_with_one_magazine() {
    check(deep(1, 2), &PLACES, || {
        node_pool::share();
        model(2);
    });
}

/// One sender pushes while the process repeatedly parks and is woken, so that the lane's first node comes and goes.
#[test]
fn three_envelopes_of_one_sender() {
    check(4, &["busy without a first node", "refused without a first node", "refused the first node"], || {
        node_pool::share();
        let mailbox = Mailbox::new();
        let sender = thread::spawn(|| (1..=3).for_each(|number| mailbox.send(number)));
        mailbox.run(Rest::Idle);
        sender.join().unwrap();
        assert_eq!(mailbox.rest().data, [1, 2, 3]);
    });
}

/// Two senders push to a process that takes nothing. Envelopes that were numbered at the same time may count as one.
#[test]
fn a_count_of_two_senders() {
    check(4, &["counted both", "counted one"], || {
        let mailbox = Mailbox::new();
        mailbox.wait();
        let senders = [10, 20].map(|number| thread::spawn(move || mailbox.send(number)));
        senders.into_iter().for_each(|sender| sender.join().unwrap());
        match mailbox.lanes.depth() {
            2 => reach("counted both"),
            1 => reach("counted one"),
            depth => panic!("{depth} of two envelopes"),
        }
        mailbox.send_control(1);
        assert_eq!(mailbox.rest().data.len(), 2);
    });
}

/// Like the test above, but the senders already know the number of the first envelope, so the count is exact.
#[test]
fn a_count_of_two_senders_with_a_number_that_is_known() {
    check(4, &[], || {
        let mailbox = Mailbox::new();
        mailbox.wait();
        let senders = [10, 20].map(|number| thread::spawn(move || mailbox.send_where(1, number)));
        senders.into_iter().for_each(|sender| sender.join().unwrap());
        assert_eq!(mailbox.lanes.depth(), 2);
        mailbox.send_control(1);
        assert_eq!(mailbox.rest().data.len(), 2);
    });
}

/// The depth is read while envelopes come and go and the process parks. It never exceeds the number of envelopes.
#[test]
fn a_glance_at_the_depth() {
    check(deep(2, 3), &["refused the first node", "saw some", "saw none"], || {
        let mailbox = Mailbox::new();
        let sender = thread::spawn(|| [1, 2].into_iter().for_each(|number| mailbox.send(number)));
        let glance = thread::spawn(|| {
            let depth = mailbox.lanes.depth();
            assert!(depth <= 2, "{depth} of two envelopes");
            reach(if depth > 0 { "saw some" } else { "saw none" });
        });
        mailbox.run(Rest::Idle);
        sender.join().unwrap();
        glance.join().unwrap();
        assert_eq!(mailbox.rest().data, [1, 2]);
    });
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
