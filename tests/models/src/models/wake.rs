//! Wakes (`Lanes::wake`). Whatever a waker announced before its wake, a run of the process sees it, however many wakers
//! there are.

use super::{Mailbox, Rest};
use crate::check::check;
use crate::fault::{self, Fault};
use loom::thread;

fn model(wakers: usize, rest: Rest) {
    let mailbox = Mailbox::new();
    let wakers: Vec<_> = (0..wakers).map(|waker| thread::spawn(move || mailbox.wake(waker))).collect();
    match rest {
        Rest::Idle => mailbox.run(Rest::Idle),
        Rest::Wait => mailbox.wait(),
    }
    let count = wakers.len();
    wakers.into_iter().for_each(|waker| waker.join().unwrap());
    let process = mailbox.rest();
    assert!(process.seen[..count].iter().all(|&seen| seen), "a wake was lost");
    assert!(!process.waits);
}

#[test]
fn a_wake_and_idle() {
    check(6, &["took the token", "taken back"], || model(1, Rest::Idle));
}

#[test]
fn a_wake_and_wait() {
    check(6, &["took the token", "refused"], || model(1, Rest::Wait));
}

/// The second wake finds the first one still unseen, or a process that is about to check.
#[test]
fn two_wakes_and_idle() {
    check(3, &["took the token", "taken back"], || model(2, Rest::Idle));
}

#[test]
fn two_wakes_and_wait() {
    check(4, &["took the token", "refused"], || model(2, Rest::Wait));
}

/// A wake and a control share one word.
#[test]
fn a_wake_and_a_control_and_wait() {
    check(4, &["took the token", "refused"], || {
        let mailbox = Mailbox::new();
        let waker = thread::spawn(|| mailbox.wake(0));
        let sender = thread::spawn(|| mailbox.send_control(1));
        mailbox.wait();
        waker.join().unwrap();
        sender.join().unwrap();
        let process = mailbox.rest();
        assert!(process.seen[0]);
        assert_eq!(process.control, [1]);
    });
}

#[test]
#[should_panic]
fn fault_no_single_order() {
    fault::with(Fault::NoSingleOrder, a_wake_and_idle);
}

#[test]
#[should_panic]
fn fault_relaxed_compare() {
    fault::with(Fault::RelaxedCompare, a_wake_and_wait);
}

#[test]
#[should_panic]
fn fault_torn_compare() {
    fault::with(Fault::TornCompare, two_wakes_and_wait);
}
