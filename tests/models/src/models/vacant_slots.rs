//! The vacant slots that a thread keeps (`thread_cache`, `slots/slot/requests.rs`). The watchdog takes them, while late
//! messages and requests arrive.
//!
//! The list, the slot, its lanes and its token are production code. The driver repeats the steps of
//! `engine/context/vacant.rs`, `engine/host/late_slots.rs`, `engine/lifecycle/{exit,spawn}.rs` and
//! `slots/directory.rs`. The watchdog checks only once whether the thread is inside a section. If so, it gives up.
//!
//! Not covered: the kernel's barrier, which is a fence here; a thread that is preempted while it uses its list; a
//! caller that executes no heavy barrier after its push. For such a barrier the models have an additional fence.

use crate::call::caller::{self, Caller};
use crate::call::dead_letter::{DeadLetter, DeadLetterReason, Sink};
use crate::check::{check, deep, keep, reach};
use crate::exit::ExitReason;
use crate::fault::{self, Fault};
use crate::mailbox::lanes::Claim;
use crate::mailbox::node::NodeKind;
use crate::mailbox::node_pool;
use crate::mailbox::payload::Payload;
use crate::pid::{NodeId, Pid};
use crate::process::control::{Control, EndWaiter, Join};
use crate::slots::slot::SendPolicy;
use crate::slots::{Schedule, Slot, SlotHost, SlotOwner, TABLE, Token};
use crate::sync::{Arc, OwnedCell, lock};
use crate::thread_cache::tokens::{Kept, LocalTokens};
use loom::thread;
use std::sync::Mutex;

/// A planted fault: the thread sleeps once it gets no more tokens, although another thread may only have been trying to
/// take them.
const STOPS_AT_THE_FIRST_NONE: Fault = Fault::Driver(1);

struct Host {
    /// The number of messages that became dead letters. Invisible to loom, so it orders nothing.
    dead: Mutex<u32>,
    /// Accessed only by the thread that holds the token. If two threads held it, loom would report a race.
    inside: OwnedCell<u32>,
}

// SAFETY: `inside` belongs to the token's holder, and loom checks it.
unsafe impl Sync for Host {}

impl Sink for Host {
    fn dead_letter(&'static self, _letter: DeadLetter) {
        *self.dead.lock().unwrap() += 1;
    }
}

impl Schedule for Host {
    fn wake(&'static self, _token: Token) {
        unreachable!("no process is ever idle");
    }
}

impl SlotHost for Host {}

/// Waits for the end of the first process, and counts its notifications. The count is invisible to loom.
#[derive(Default)]
struct Joiner(Mutex<u32>);

impl EndWaiter for Joiner {
    fn ended(&self, _reason: &ExitReason, _result: Option<Payload>) {
        *self.0.lock().unwrap() += 1;
    }
}

struct World {
    slot: &'static Slot,
    owner: &'static SlotOwner,
    host: &'static Host,
    local: &'static LocalTokens,
    /// A stand-in for `Scheduler::late_slots`.
    late: crate::sync::Mutex<Vec<Token>>,
}

impl World {
    fn new() -> &'static Self {
        let host = keep(Host { dead: Mutex::new(0), inside: OwnedCell::new(0) });
        let owner = keep(SlotOwner::new(host, NodeId::new(7).expect("a node id"), 1));
        let (slot, local) = (keep(Slot::unused(0)), keep(LocalTokens::none()));
        keep(Self { slot, owner, host, local, late: crate::sync::Mutex::new(Vec::new()) })
    }

    fn touch(&self) {
        // SAFETY: the caller holds the token, and loom checks it.
        self.host.inside.with_mut(|inside| unsafe { *inside += 1 });
    }

    /// Mirrors `Scheduler::start_process`, and then the process's only step, which finds nothing that was sent to this
    /// process.
    fn run(&self, token: Token) -> Token {
        self.step(self.start(token))
    }

    fn start(&self, mut token: Token) -> Token {
        token.open(self.owner);
        self.touch();
        token
    }

    fn step(&self, mut token: Token) -> Token {
        let pid = token.pid().expect("it lives");
        assert!(!token.lanes().has_control(), "a request for another process");
        while let Some(envelope) = token.lanes().pop_data() {
            assert!(envelope.generation < pid.generation(), "nobody knows this process");
            reach("refused by its generation");
            token.dead_letter(envelope, DeadLetterReason::Ended, &ExitReason::NoProcess);
        }
        token
    }

    /// Mirrors `engine/lifecycle/exit.rs`, and `ThreadContext::keep_vacant`.
    fn end(&self, mut token: Token) {
        token.close();
        self.touch();
        while let Some(envelope) = token.lanes().pop_data() {
            reach("in time");
            token.dead_letter(envelope, DeadLetterReason::Ended, &ExitReason::Normal);
        }
        let mut controls = token.lanes().take_control();
        while let Some(mut node) = controls.pop() {
            reach("told by the exit");
            drop(node.take());
            node_pool::recycle(node);
        }
        if let Err(token) = self.local.keep_vacant(token.release()) {
            reach("not kept");
            TABLE.take_back(token.acquire());
        }
    }

    /// Mirrors `take_slot` of `engine/context/vacant.rs`, but waits for this slot where `take_slot` would try another
    /// one.
    fn take(&self) -> Token {
        loop {
            if let Some(token) = self.local.take_vacant() {
                let mut token = token.acquire();
                if !token.lanes().has_control() && token.lanes().is_data_empty() {
                    reach("taken from the list");
                    return token;
                }
                reach("kept with a late message");
                self.touch();
                TABLE.take_back(token);
                continue;
            }
            if let Some(token) = Token::claim_free(self.slot) {
                reach("taken from the table");
                return token;
            }
            thread::yield_now();
        }
    }

    /// Mirrors `ThreadContext::flush`.
    fn give_back(&self) {
        if fault::is(STOPS_AT_THE_FIRST_NONE) {
            return std::iter::from_fn(|| self.local.take_vacant()).for_each(|token| self.queue_unless_empty(token));
        }
        let _keeps_nothing = self.local.flush(|kept| match kept {
            Kept::Vacant(token) => self.queue_unless_empty(token),
            _ => unreachable!("every process has ended"),
        });
    }

    /// Mirrors `Scheduler::move_local`.
    fn revoke(&self) {
        let Some(revoked) = self.local.revoke() else { return reach("given up") };
        for token in revoked.vacant {
            reach("revoked");
            self.queue_unless_empty(token);
        }
    }

    /// Mirrors `Scheduler::queue_unless_empty`.
    fn queue_unless_empty(&self, token: Token) {
        let token = token.acquire();
        self.touch();
        if let Some(token) = token.park_vacant() {
            reach("queued with a late message");
            lock(&self.late).push(token.release());
        }
    }

    /// Mirrors `ThreadContext::empty_late_slots`, which a worker calls.
    fn empty_late_slots(&self) {
        while let Some(token) = { lock(&self.late).pop() } {
            let token = token.acquire();
            self.touch();
            TABLE.take_back(token);
        }
    }

    /// Sends a message to the first process. Returns whether the message was refused.
    fn send(&self, pid: Pid) -> bool {
        let refused = self.slot.send(pid, 10_u32).is_err();
        reach(if refused { "came back" } else { "sent" });
        refused
    }

    /// Checks at the end of an execution that the slot is free, and that nothing was lost.
    fn close(&self, sent: u32, refused: u32) {
        assert!(!self.local.has_vacant(), "all were given back");
        self.empty_late_slots();
        assert_eq!(self.slot.lanes.claim(), Claim::Vacant, "the token is parked");
        // SAFETY: the claim above took the token.
        assert!(unsafe { self.slot.lanes.is_data_empty() }, "something was left");
        assert_eq!(sent, refused + *self.host.dead.lock().unwrap(), "a message was lost, or doubled");
    }
}

/// Ends a process and runs another one on the same thread, while the watchdog takes the slot away.
fn ends_and_begins_again() {
    let world = World::new();
    let first = world.run(Token::claim_free(world.slot).expect("the slot is free"));
    let watchdog = thread::spawn(|| world.revoke());
    world.end(first);
    let second = world.run(world.take());
    world.end(second);
    watchdog.join().unwrap();
    world.give_back();
    world.close(0, 0);
}

#[test]
fn the_watchdog_takes_what_a_thread_keeps() {
    check(4, &["taken from the list", "taken from the table", "revoked", "not kept"], ends_and_begins_again);
}

#[test]
fn a_late_message_becomes_a_dead_letter_or_comes_back() {
    check(4, &["sent", "came back", "in time", "kept with a late message", "refused by its generation"], || {
        let world = World::new();
        let first = world.run(Token::claim_free(world.slot).expect("the slot is free"));
        let pid = first.pid().expect("it lives");
        let sender = thread::spawn(move || world.send(pid));
        world.end(first);
        let second = world.run(world.take());
        world.end(second);
        let came_back = sender.join().unwrap();
        world.give_back();
        world.close(1, u32::from(came_back));
    });
}

#[test]
fn a_late_message_is_not_lost_when_the_slot_is_revoked() {
    check(2, &["sent", "came back", "revoked", "queued with a late message"], || {
        let world = World::new();
        let first = world.run(Token::claim_free(world.slot).expect("the slot is free"));
        let pid = first.pid().expect("it lives");
        let sender = thread::spawn(move || world.send(pid));
        let watchdog = thread::spawn(|| world.revoke());
        world.end(first);
        watchdog.join().unwrap();
        let came_back = sender.join().unwrap();
        world.give_back();
        world.close(1, u32::from(came_back));
    });
}

/// Another thread requests to be notified of the end of the first process. It is notified before the second process
/// takes a step.
fn a_request_does_not_wait_for_the_next_process() {
    check(deep(4, 5), &["told by the exit", "not kept", "taken from the list", "taken from the table"], || {
        let world = World::new();
        let first = world.run(Token::claim_free(world.slot).expect("the slot is free"));
        let joiner = Arc::new(Joiner::default());
        let request = Control::Join(Join::new(joiner.clone()));
        let requester = thread::spawn(move || world.slot.request(1, request));
        world.end(first);
        let mut second = world.run(world.take());
        requester.join().unwrap();
        assert!(!second.lanes().has_control(), "a request for another process");
        assert_eq!(*joiner.0.lock().unwrap(), 1, "the requester is told once");
        world.end(second);
        world.give_back();
        world.close(0, 0);
    });
}

#[test]
fn a_request_is_answered_without_the_next_process() {
    a_request_does_not_wait_for_the_next_process();
}

/// A planted fault: the caller checks whether the process is alive before its push, but not after it.
const LOOKS_BEFORE_THE_PUSH: Fault = Fault::Driver(2);

fn a_call_does_not_wait_for_the_next_process() {
    no_caller_waits_for_the_next_process(|slot, pid| slot.call(pid, 10_u32, Caller::new(1)).is_err());
}

/// Another thread sends the message of a call to the first process. The caller is notified before the second process
/// takes a step. `call` returns true if the message came back.
fn no_caller_waits_for_the_next_process(call: fn(&'static Slot, Pid) -> bool) {
    let places = ["failed by who had its message", "withdrawn after its push", "came back", "in time"];
    check(deep(4, 5), &places, move || {
        caller::forget();
        let world = World::new();
        let first = world.run(Token::claim_free(world.slot).expect("the slot is free"));
        let pid = first.pid().expect("it lives");
        let waits = thread::spawn(move || {
            let refused = if fault::is(LOOKS_BEFORE_THE_PUSH) {
                let message = || node_pool::message(pid.generation(), 10_u32, Caller::new(1).into_word());
                !world.slot.is_living(pid.generation()) || world.slot.follow(world.slot.push(message(), || 0)).is_err()
            } else {
                call(world.slot, pid)
            };
            reach(if refused { "came back" } else { "sent" });
            refused
        });
        world.end(first);
        let second = world.start(world.take());
        let came_back = waits.join().unwrap();
        assert!(came_back || caller::told() > 0, "the caller waits for the next process");
        let second = world.step(second);
        world.end(second);
        world.give_back();
        world.close(1, u32::from(came_back));
        assert_eq!(u32::from(came_back) + caller::told(), 1, "the caller is told once");
    });
}

#[test]
fn a_call_is_answered_without_the_next_process() {
    a_call_does_not_wait_for_the_next_process();
}

#[test]
fn a_call_that_is_passed_on_is_answered_without_the_next_process() {
    no_caller_waits_for_the_next_process(|slot, pid| {
        let (caller, payload) = (Some(Caller::new(1)), Some(Payload::new(10_u32)));
        slot.deliver(pid, NodeKind::Message, caller, payload, SendPolicy::Bounded).is_err()
    });
}

/// The caller checks before its push but not after it, as if its message had no caller.
#[test]
#[should_panic = "the caller waits for the next process"]
fn fault_calls_look_before_the_push_only() {
    fault::with(LOOKS_BEFORE_THE_PUSH, a_call_does_not_wait_for_the_next_process);
}

/// The barrier of *vacate* is missing.
#[test]
#[should_panic = "the caller waits for the next process"]
fn fault_vacated_without_a_light_barrier_for_calls() {
    fault::with(Fault::NoLightBarrier, a_call_does_not_wait_for_the_next_process);
}

/// Without the requester's barrier, the slot can be kept or claimed before the request is in it.
#[test]
#[should_panic = "a request for another process"]
fn fault_requests_pass_no_heavy_barrier() {
    fault::with(Fault::NoHeavyBarrier, a_request_does_not_wait_for_the_next_process);
}

/// The barrier of *vacate* is missing.
#[test]
#[should_panic = "a request for another process"]
fn fault_vacated_without_a_light_barrier() {
    fault::with(Fault::NoLightBarrier, a_request_does_not_wait_for_the_next_process);
}

/// The accesses of *count*, *look*, *close* and *keep* have no single order.
#[test]
#[should_panic]
fn fault_no_single_order_of_requests() {
    fault::with(Fault::NoSingleOrder, a_request_does_not_wait_for_the_next_process);
}

/// Without the thread's barrier, both threads use the list.
#[test]
#[should_panic]
fn fault_no_light_barrier() {
    fault::with(Fault::NoLightBarrier, the_watchdog_takes_what_a_thread_keeps);
}

/// Without the watchdog's barrier, both threads use the list.
#[test]
#[should_panic]
fn fault_no_heavy_barrier() {
    fault::with(Fault::NoHeavyBarrier, the_watchdog_takes_what_a_thread_keeps);
}

/// A thread keeps a slot and goes to sleep, while the watchdog takes the slot, or tries to and gives up. From then on
/// no thread checks the slots that this one keeps, so it must have given them all up.
fn rests_while_its_slots_are_taken() {
    check(4, &["revoked", "given up", "yielded"], || {
        let world = World::new();
        let first = world.run(Token::claim_free(world.slot).expect("the slot is free"));
        let watchdog = thread::spawn(|| world.revoke());
        world.end(first);
        world.give_back();
        watchdog.join().unwrap();
        world.close(0, 0);
    });
}

#[test]
fn a_thread_rests_while_its_slots_are_taken_in_vain() {
    rests_while_its_slots_are_taken();
}

#[test]
#[should_panic(expected = "all were given back")]
fn fault_rests_when_it_has_got_no_more() {
    fault::with(STOPS_AT_THE_FIRST_NONE, rests_while_its_slots_are_taken);
}
