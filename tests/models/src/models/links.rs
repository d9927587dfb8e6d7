//! Delivery of link messages to a slot (`slots/link_endpoint.rs` and `links/message.rs` over `slots/slot`).
//!
//! A request to an exiting process is answered exactly once. The process answers it if it receives the request before
//! it notifies its partners of its exit. Otherwise the thread that finds the request undeliverable answers it. No
//! request reaches the next incarnation. A notice is handled only after the messages that its sender sent earlier in
//! the other lane.
//!
//! The slot, its endpoint and the messages are production code. The driver repeats the steps of `process/input.rs`
//! (`step`) and `engine/lifecycle/exit.rs` (`end`). The effects of the messages are explored in `tests/exhaustive`.

use crate::call::dead_letter::{DeadLetter, DeadLetterReason, Sink};
use crate::check::{check, keep, reach};
use crate::exit::ExitReason;
use crate::fault::{self, Fault};
use crate::links::message::{Bindings, LinkEndpoint, SentLinkMessage};
use crate::links::protocol::{LinkEffect, LinkMessage};
use crate::mailbox::lanes::Claim;
use crate::mailbox::node::{Envelope, NodeKind};
use crate::mailbox::node_pool;
use crate::mailbox::payload::Payload;
use crate::pid::{NodeId, Pid, Resident};
use crate::process::Process;
use crate::process::body::Body;
use crate::process::control::Control;
use crate::slots::{Schedule, Slot, SlotHost, SlotOwner, TABLE, Token};
use loom::thread;
use std::collections::VecDeque;
use std::ptr;
use std::sync::Mutex;

/// A planted fault: a notice is handled although the control lane is not empty.
const NOTICE_TOO_EARLY: Fault = Fault::Driver(0);
/// A planted fault: an exiting process discards the link messages that arrived while its state was dropped.
const DISCARDED_AT_EXIT: Fault = Fault::Driver(1);

/// A process that sends link messages to the tested process, and receives the answers. Its state is invisible to loom,
/// so it orders nothing.
struct Other {
    pid: Pid,
    received: Mutex<Vec<LinkMessage<ExitReason>>>,
}

impl Resident for Other {
    fn resident(&self) -> Option<Pid> {
        Some(self.pid)
    }
}

impl LinkEndpoint for Other {
    fn post(&'static self, to: Pid, sent: SentLinkMessage) {
        assert_eq!(to, self.pid);
        let (_, _, message) = sent.open();
        self.received.lock().unwrap().extend(message);
    }

    unsafe fn receive(&self, _sent: SentLinkMessage) -> LinkEffect<ExitReason> {
        unreachable!("it is no slot")
    }

    fn redeem(&'static self, _generation: u64) -> Option<Envelope> {
        unreachable!("it is no slot")
    }

    unsafe fn inspect(&self) -> Bindings {
        unreachable!("it is no slot")
    }
}

struct World {
    slot: &'static Slot,
    owner: &'static SlotOwner,
    other: &'static Other,
}

struct Host(Mutex<Option<&'static Other>>);

struct Actor;

impl Process for Actor {}

impl Sink for Host {
    fn dead_letter(&'static self, _letter: DeadLetter) {
        unreachable!("no messages are sent")
    }
}

impl Schedule for Host {
    fn wake(&'static self, token: Token) {
        let other = self.0.lock().unwrap().expect("the world is made");
        run_slice(other, token);
    }
}

impl SlotHost for Host {}

fn control(envelope: Envelope) -> Control {
    envelope.payload.and_then(|payload| payload.take().ok()).expect("all that is sent is a control")
}

/// Mirrors `ThreadContext::run_slice`.
fn run_slice(other: &'static Other, mut token: Token) {
    loop {
        if step(&mut token) {
            return end(other, token);
        }
        if !token.lanes().is_data_empty() {
            thread::yield_now();
            continue;
        }
        let Some(held) = token.park_idle() else { return };
        token = held;
    }
}

/// Mirrors `StepInput`: handles the control lane, then the notices of the data lane for as long as the control lane
/// stays empty. Returns whether the process exits.
fn step(token: &mut Token) -> bool {
    let generation = token.generation();
    let mut notices = VecDeque::new();
    let mut ends = false;
    loop {
        let mut controls = token.lanes().take_control();
        while let Some(mut node) = controls.pop() {
            let envelope = node.take();
            node_pool::recycle(node);
            assert_eq!(envelope.generation, generation, "a request for another process");
            match control(envelope) {
                // SAFETY: this thread has the token, and nothing refers to the cold state.
                Control::Link(sent) => drop(unsafe { token.slot().receive(*sent) }),
                Control::Kill => ends = true,
                _ => unreachable!("no other control is sent"),
            }
        }
        while let Some(envelope) = token.lanes().pop_data() {
            if envelope.generation != generation {
                token.dead_letter(envelope, DeadLetterReason::Ended, &ExitReason::NoProcess);
            } else if let Control::Link(sent) = control(envelope) {
                notices.push_back(sent);
            }
        }
        while !notices.is_empty() && (!token.lanes().has_control_node() || fault::is(NOTICE_TOO_EARLY)) {
            if let Some(sent) = notices.pop_front() {
                // SAFETY: as for the link messages above.
                drop(unsafe { token.slot().receive(*sent) });
            }
        }
        if notices.is_empty() {
            return ends;
        }
        reach("a notice waits");
    }
}

/// Mirrors `engine/lifecycle/exit.rs`.
fn end(other: &'static Other, mut token: Token) {
    let me = token.pid().expect("a process ends once");
    token.close();
    let mut cold_state = token.take_cold_state();
    while let Some(envelope) = token.lanes().pop_data() {
        token.dead_letter(envelope, DeadLetterReason::Ended, &ExitReason::Killed);
    }
    let mut controls = token.lanes().take_control();
    while let Some(mut node) = controls.pop() {
        let envelope = node.take();
        node_pool::recycle(node);
        if fault::is(DISCARDED_AT_EXIT) {
            std::mem::forget(envelope);
        } else if let Control::Link(sent) = control(envelope) {
            reach("received while exiting");
            let (sender, _, message) = sent.open();
            let links = cold_state.get_or_insert_default().links.get_or_insert_default();
            if let LinkEffect::Answer(answer) =
                links.receive(sender, &message.expect("it has just been taken from the lane"))
            {
                other.post(sender.0, SentLinkMessage::new(me, sender.0, None, answer));
            }
        }
    }
    for (to, message) in cold_state
        .and_then(|cold_state| cold_state.links)
        .map(|links| links.end(&ExitReason::Killed).1)
        .unwrap_or_default()
    {
        reach("notified by the process");
        other.post(to, SentLinkMessage::new(me, to, None, message));
    }
    TABLE.take_back(token);
}

impl World {
    fn new() -> &'static Self {
        let node = NodeId::new(7).expect("a node id");
        let other = keep(Other { pid: Pid::new(node, 1, 9, 1), received: Mutex::default() });
        let host = keep(Host(Mutex::new(Some(other))));
        keep(Self { slot: keep(Slot::unused(0)), owner: keep(SlotOwner::new(host, node, 1)), other })
    }

    /// Returns the PID of an incarnation of the slot.
    fn pid(&self, generation: u64) -> Pid {
        self.owner.pid(0, generation)
    }

    fn open(&self) -> Token {
        let mut token = loop {
            match Token::claim_free(self.slot) {
                Some(token) => break token,
                None => {
                    reach("the slot was not free");
                    thread::yield_now();
                }
            }
        };
        token.open(self.owner);
        *token.body() = Some(Body::new(Actor));
        token
    }

    fn begin(&self, token: Token) {
        if let Some(token) = token.park_idle() {
            run_slice(self.other, token);
        }
    }

    /// Sends `message` from the other process to the first incarnation of the slot.
    fn send(&self, message: LinkMessage<ExitReason>) {
        self.slot.post(self.pid(1), SentLinkMessage::new(self.other.pid, self.pid(1), Some(self.other), message));
    }

    fn kill(&self) {
        self.slot.request(1, Control::Kill);
    }

    /// Checks at the end of an execution that the process in the slot, which is now idle, has no partner. Returns the
    /// messages that the other process has received.
    fn close(&self) -> Vec<LinkMessage<ExitReason>> {
        assert_eq!(self.slot.lanes.claim(), Claim::Process, "the token is parked");
        // SAFETY: the claim has taken the token.
        let bound = unsafe { self.slot.inspect() };
        assert_eq!(bound.count(), 0, "it is bound: {bound:?}");
        std::mem::take(&mut *self.other.received.lock().unwrap())
    }
}

/// Ends a process and spawns another one in its slot, while messages are sent to the first. Returns the answers.
fn sent_while_it_exits(message: &[LinkMessage<ExitReason>]) -> Vec<LinkMessage<ExitReason>> {
    let world = World::new();
    let first = world.open();
    let message = message.to_vec();
    let other = thread::spawn(move || message.into_iter().for_each(|message| world.send(message)));
    end(world.other, first);
    let second = world.open();
    world.begin(second);
    other.join().unwrap();
    world.close()
}

const PLACES: [&str; 3] = ["received while exiting", "notified by the process", "the slot was not free"];

#[test]
fn a_monitor_request_to_an_exiting_process_is_answered_once() {
    check(4, &PLACES, || {
        let received = sent_while_it_exits(&[LinkMessage::Watch(3)]);
        assert!(matches!(received[..], [LinkMessage::Down(3, _)]), "{received:?}");
    });
}

#[test]
fn a_link_request_to_an_exiting_process_is_answered_once() {
    check(4, &PLACES, || {
        let received = sent_while_it_exits(&[LinkMessage::Link]);
        // An exiting process also sends the `Failed` that precedes the notice of a failure.
        assert!(
            matches!(received[..], [LinkMessage::Exit(_)] | [LinkMessage::Failed(_), LinkMessage::Exit(_)]),
            "{received:?}"
        );
    });
}

#[test]
fn an_unlink_request_to_an_exiting_process_is_answered_once() {
    check(4, &["received while exiting", "the slot was not free"], || {
        let received = sent_while_it_exits(&[LinkMessage::Unlink(5)]);
        assert_eq!(received, [LinkMessage::Unlinked(5)]);
    });
}

#[test]
fn a_withdrawn_monitor_request_is_answered_at_most_once() {
    check(2, &PLACES, || {
        let received = sent_while_it_exits(&[LinkMessage::Watch(3), LinkMessage::Unwatch(3)]);
        assert!(matches!(received[..], [] | [LinkMessage::Down(3, _)]), "{received:?}");
    });
}

/// An idle process is killed and monitored at the same time.
#[test]
fn a_monitor_request_to_a_killed_process_is_answered_once() {
    check(3, &["received while exiting", "notified by the process"], || {
        let world = World::new();
        let first = world.open();
        let killer = thread::spawn(|| world.kill());
        let watcher = thread::spawn(|| world.send(LinkMessage::Watch(3)));
        world.begin(first);
        killer.join().unwrap();
        watcher.join().unwrap();
        let second = world.open();
        world.begin(second);
        let received = world.close();
        assert!(matches!(received[..], [LinkMessage::Down(3, _)]), "{received:?}");
    });
}

/// A partner links to the process and exits at once. If the link were made after the notice was handled, it would stay
/// forever.
#[test]
fn a_notice_is_received_after_earlier_messages() {
    check(5, &["a notice waits"], || {
        let world = World::new();
        let first = world.open();
        let other = thread::spawn(|| {
            world.send(LinkMessage::Link);
            world.send(LinkMessage::Exit(ExitReason::Normal));
        });
        world.begin(first);
        other.join().unwrap();
        assert_eq!(world.close(), []);
    });
}

#[test]
#[should_panic(expected = "it is bound")]
fn fault_notice_too_early() {
    fault::with(NOTICE_TOO_EARLY, a_notice_is_received_after_earlier_messages);
}

#[test]
#[should_panic]
fn fault_discarded_at_exit() {
    fault::with(DISCARDED_AT_EXIT, a_monitor_request_to_an_exiting_process_is_answered_once);
}

/// Without the requester's barrier, its request reaches the next process.
#[test]
#[should_panic = "a request for another process"]
fn fault_no_heavy_barrier() {
    fault::with(Fault::NoHeavyBarrier, a_monitor_request_to_an_exiting_process_is_answered_once);
}
