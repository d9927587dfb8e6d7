//! The process that a thread runs (`engine/workers/running.rs`). User code reaches the process whose token its thread
//! has, and no other.
//!
//! The slot, its token and the word are production code. The driver repeats the steps of `engine/slice/run.rs`
//! (`run_slice`, `conclude`) and of `engine/context/own.rs` (`with_own`).
//!
//! Not covered: an exit, since a process is unreachable once its incarnation is closed (see `slot_reuse`); spawns.

use crate::call::dead_letter::{DeadLetter, Sink};
use crate::check::{check, keep, reach};
use crate::engine::workers::running::RunningProcess;
use crate::fault::{self, Fault};
use crate::pid::{NodeId, Pid};
use crate::slots::{Schedule, Slot, SlotHost, SlotOwner, Token};
use crate::sync::{Mutex, lock};
use loom::thread;

/// A planted fault: the word is cleared only after the token has been parked, and a value is dropped in between.
const CLEARED_LATE: Fault = Fault::Driver(0);

/// A run queue, to which wakers push the token of the process.
struct Queue(Mutex<Vec<Token>>);

impl Sink for Queue {
    fn dead_letter(&'static self, _letter: DeadLetter) {}
}

impl Schedule for Queue {
    fn wake(&'static self, token: Token) {
        lock(&self.0).push(token);
    }
}

impl SlotHost for Queue {}

/// Mirrors `with_own` of `engine/context/own.rs`: changes the state of the process that this thread runs. Returns
/// whether there is one.
fn with_own(running: &RunningProcess) -> bool {
    let Some(slot) = running.slot().filter(|slot| slot.living().is_some()) else { return false };
    // SAFETY: the model checks that this thread has the token: loom reports two threads that access the state at the
    // same time.
    unsafe { slot.own_cold_state() }.labelled = true;
    true
}

/// Runs a time slice. The process works, then its token is parked, and then a value is dropped.
fn run_slice(running: &RunningProcess, token: Token) {
    let mut held = Some(token);
    while let Some(mut token) = held {
        running.begin(&token);
        assert!(with_own(running), "the code of a process reaches its own");
        while token.lanes().pop_data().is_some() {}
        held = park(running, token);
        if held.is_some() {
            reach("parking was refused");
            thread::yield_now();
        }
    }
}

/// Parks the token, then drops a value. Returns the token if a message has arrived.
fn park(running: &RunningProcess, token: Token) -> Option<Token> {
    if fault::is(CLEARED_LATE) {
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

/// While one thread parks the token, a message arrives, and another thread runs the process.
#[test]
fn a_value_is_dropped_as_the_token_goes() {
    check(4, &["run by the other thread", "parking was refused"], || {
        let queue = keep(Queue(Mutex::new(Vec::new())));
        let owner = keep(SlotOwner::new(queue, NodeId::new(7).expect("a node id"), 1));
        let slot: &'static Slot = keep(Slot::unused(0));
        let mut token = Token::claim_free(slot).expect("the slot is free");
        token.open(owner);
        let other = thread::spawn(move || {
            slot.send(owner.pid(0, 1), 7_u32).expect("it lives");
            let woken = lock(&queue.0).pop();
            if let Some(token) = woken {
                reach("run by the other thread");
                run_slice(&RunningProcess::nothing(), token);
            }
        });
        run_slice(&RunningProcess::nothing(), token);
        other.join().unwrap();
    });
}

#[test]
#[should_panic]
fn fault_cleared_late() {
    fault::with(CLEARED_LATE, a_value_is_dropped_as_the_token_goes);
}
