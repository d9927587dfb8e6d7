//! Which process a thread runs (`engine/permits/running.rs`): code of a user that runs on a thread reaches the process
//! that the thread has the token of, and no other.
//!
//! The slot, its token and the word are production code. The driver takes the steps of `engine/sched/step.rs` (`turn`,
//! `conclude`) and of `engine/context/own.rs` (`with_own`).
//!
//! Not covered: the end of a process, after whose life is closed nothing is reached (`life` has that); starts.

use crate::call::dead_letter::{DeadLetter, Sink};
use crate::check::{check, keep, reach};
use crate::engine::workers::running::RunningProcess;
use crate::fault::{self, Fault};
use crate::pid::{NodeId, Pid};
use crate::slots::{Schedule, Slot, SlotHost, SlotOwner, Token};
use crate::sync::{Mutex, lock};
use loom::thread;

/// The word is taken back when the token has been parked, and what the drop of a value does comes in between.
const TAKEN_BACK_LATE: Fault = Fault::Driver(0);

/// Where the one that wakes the process leaves its token: a run queue.
struct Queue(Mutex<Vec<Token>>);

impl Sink for Queue {
    fn dead_letter(&self, _letter: DeadLetter) {}
}

impl Schedule for Queue {
    fn wake(&'static self, token: Token) {
        lock(&self.0).push(token);
    }
}

impl SlotHost for Queue {}

/// `with_own`: what the code of a process reaches of its own.
fn with_own(running: &RunningProcess) -> bool {
    let Some(slot) = running.slot().filter(|slot| slot.living().is_some()) else { return false };
    // SAFETY: what is checked here; loom sees two that do it at once.
    unsafe { slot.own_cold_state() }.labelled = true;
    true
}

/// A turn: the process is at work, then its token is parked, then a value is dropped.
fn turn(running: &RunningProcess, token: Token) {
    let mut held = Some(token);
    while let Some(mut token) = held {
        running.begin(&token);
        assert!(with_own(running), "the code of a process reaches its own");
        while token.lanes().pop_data().is_some() {}
        held = give_away(running, token);
        if held.is_some() {
            reach("laid down in vain");
            thread::yield_now();
        }
    }
}

/// Lays the token down; a value is dropped then. Gives the token back if something has arrived.
fn give_away(running: &RunningProcess, token: Token) -> Option<Token> {
    if fault::is(TAKEN_BACK_LATE) {
        let left = token.park_idle();
        if with_own(running) {
            reach("reached by a value's drop");
        }
        running.end();
        left
    } else {
        running.end();
        let left = token.park_idle();
        assert!(!with_own(running), "a process is reached without its token");
        left
    }
}

/// While one thread parks the token, a message comes, and another thread runs the process.
#[test]
fn a_value_is_dropped_as_the_token_goes() {
    check(4, &["run by the other", "laid down in vain"], || {
        let queue = keep(Queue(Mutex::new(Vec::new())));
        let home = keep(SlotOwner::new(queue, NodeId::new(7).expect("a node id"), 1));
        let slot: &'static Slot = keep(Slot::unused(0));
        let mut token = Token::claim_free(slot).expect("nobody else is there");
        token.open(home);
        let other = thread::spawn(move || {
            slot.send(home.pid(0, 1), 7_u32).expect("it lives");
            let woken = lock(&queue.0).pop();
            if let Some(token) = woken {
                reach("run by the other");
                turn(&RunningProcess::nothing(), token);
            }
        });
        turn(&RunningProcess::nothing(), token);
        other.join().unwrap();
    });
}

#[test]
#[should_panic]
fn fault_taken_back_late() {
    fault::with(TAKEN_BACK_LATE, a_value_is_dropped_as_the_token_goes);
}
