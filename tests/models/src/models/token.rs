//! The token (`mailbox/lanes.rs`): a push while the token is being parked is handled once, by one holder.
//!
//! The models also cover the lane's first node, which an idle process lacks. A sender that finds null in the place of
//! that node puts its own node there, whether the token is parked or held. A holder that cannot park the token takes
//! its first node back.
//!
//! Not covered: exits (see `slot_reuse`).

use super::Mailbox;
use super::Rest;
use crate::check::check;
use crate::fault::{self, Fault};
use loom::thread;

/// A sender's exchange found null and a mark, and replaced both.
const IN_PLACE_OF_A_MARK: &str = "a first node in the place of a mark";
/// A sender's exchange found null without a mark, and the holder looked before the sender had stored its node.
const BUSY_WITHOUT: &str = "busy without a first node";
/// As for [`BUSY_WITHOUT`], but the holder was about to park the token.
const REFUSED_WITHOUT: &str = "refused without a first node";
/// The holder gave up the first node, could not park the token and took the node back.
const REFUSED_THE_FIRST: &str = "refused the first node";

/// Envelopes from another thread arrive while a process parks its token to be idle.
#[test]
fn data_and_idle() {
    check(5, &[IN_PLACE_OF_A_MARK, BUSY_WITHOUT, REFUSED_WITHOUT, REFUSED_THE_FIRST, "busy"], || {
        let mailbox = Mailbox::new();
        let sender = thread::spawn(|| [1, 2].into_iter().for_each(|number| mailbox.send(number)));
        mailbox.run(Rest::Idle);
        sender.join().unwrap();
        assert_eq!(mailbox.rest().data, [1, 2]);
    });
}

/// A control arrives while a process parks its token to be idle. The two words of the lanes decide who gets the token.
#[test]
fn control_and_idle() {
    check(5, &["took the token", "taken back"], || {
        let mailbox = Mailbox::new();
        let sender = thread::spawn(|| [1, 2].into_iter().for_each(|number| mailbox.send_control(number)));
        mailbox.run(Rest::Idle);
        sender.join().unwrap();
        assert_eq!(mailbox.rest().control, [1, 2]);
    });
}

/// A control and an envelope arrive from two threads while a process parks its token to be idle.
#[test]
fn control_and_data_and_idle() {
    let places = ["took the token", "taken back", IN_PLACE_OF_A_MARK, BUSY_WITHOUT, REFUSED_WITHOUT];
    check(3, &places, || {
        let mailbox = Mailbox::new();
        let control = thread::spawn(|| mailbox.send_control(1));
        let data = thread::spawn(|| mailbox.send(2));
        mailbox.run(Rest::Idle);
        control.join().unwrap();
        data.join().unwrap();
        let process = mailbox.rest();
        assert_eq!((process.control, process.data), (vec![1], vec![2]));
    });
}

/// A control and an envelope arrive from two threads while a process parks its token to wait for control.
#[test]
fn control_and_data_and_wait() {
    check(3, &["took the token", "refused", "taken back", BUSY_WITHOUT], || {
        let mailbox = Mailbox::new();
        let control = thread::spawn(|| [1, 3].into_iter().for_each(|number| mailbox.send_control(number)));
        let data = thread::spawn(|| mailbox.send(2));
        mailbox.wait();
        control.join().unwrap();
        data.join().unwrap();
        let process = mailbox.rest();
        assert!(!process.waits);
        assert_eq!((process.control, process.data), (vec![1, 3], vec![2]));
    });
}

/// An envelope arrives while the token of a waiting process is parked, before the control that ends the wait.
#[test]
fn data_before_the_end_of_a_wait() {
    check(5, &["took the token", BUSY_WITHOUT, REFUSED_WITHOUT, IN_PLACE_OF_A_MARK], || {
        let mailbox = Mailbox::new();
        mailbox.wait();
        let data = thread::spawn(|| mailbox.send(2));
        mailbox.send_control(1);
        data.join().unwrap();
        let process = mailbox.rest();
        assert_eq!((process.control, process.data), (vec![1], vec![2]));
    });
}

/// Envelopes do not wake a process that waits for control, but they are counted.
#[test]
fn data_does_not_end_a_wait() {
    check(5, &[], || {
        let mailbox = Mailbox::new();
        let sender = thread::spawn(|| [1, 3, 4].into_iter().for_each(|number| mailbox.send(number)));
        mailbox.wait();
        sender.join().unwrap();
        assert_eq!((mailbox.lanes.glance(), mailbox.lanes.depth()), ((false, true), 3));
        mailbox.send_control(2);
        let process = mailbox.rest();
        assert_eq!((process.control, process.data), (vec![2], vec![1, 3, 4]));
    });
}

/// The four sequentially consistent steps of the module's last argument rely on their total order.
#[test]
#[should_panic]
fn fault_no_single_order() {
    fault::with(Fault::NoSingleOrder, control_and_idle);
}

#[test]
#[should_panic]
fn fault_relaxed_swap() {
    fault::with(Fault::RelaxedSwap, data_and_idle);
}

#[test]
#[should_panic]
fn fault_relaxed_link() {
    fault::with(Fault::RelaxedStore, data_and_idle);
}

#[test]
#[should_panic]
fn fault_relaxed_load() {
    fault::with(Fault::RelaxedLoad, data_and_idle);
}

#[test]
#[should_panic]
fn fault_relaxed_compare() {
    fault::with(Fault::RelaxedCompare, control_and_idle);
}

#[test]
#[should_panic]
fn fault_torn_swap() {
    fault::with(Fault::TornSwap, data_and_idle);
}

#[test]
#[should_panic]
fn fault_torn_compare() {
    fault::with(Fault::TornCompare, control_and_idle);
}

/// The holder takes a first node without seeing what the sender wrote to it.
#[test]
#[should_panic]
fn fault_relaxed_first() {
    fault::with(Fault::RelaxedStore, data_before_the_end_of_a_wait);
}
