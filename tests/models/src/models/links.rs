//! What is said about links on its way to a slot (`slots/link_endpoint.rs` and `links/message.rs` over `slots/slot`).
//!
//! A question to a process that is on its way out is answered once: by the process, which hears it before it tells
//! everyone of its end, or by whoever finds that nobody will hear it any more. Nothing of it reaches the next life. And
//! a notice is not heard before what its sender said ahead of it, though that went by the other lane.
//!
//! The slot, its endpoint and what is said are production code. The driver takes the steps of `process/event.rs`
//! (`step`) and `engine/lifecycle/exit.rs` (`end`). What follows from what was said is searched in `tests/exhaustive`.

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

/// A notice is heard whatever there is in the control lane.
const NOT_LOOKED: Fault = Fault::Driver(0);
/// Who ends forgets what was said to it while its state was dropped.
const NOT_HEARD: Fault = Fault::Driver(1);
/// A receiver hears what was said to any life of its slot.
const ANY_GENERATION: Fault = Fault::Driver(2);

/// Who says things to the process, and hears the answers. Not seen by loom: it orders nothing.
struct Other {
    pid: Pid,
    heard: Mutex<Vec<LinkMessage<ExitReason>>>,
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
        self.heard.lock().unwrap().extend(message);
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
    home: &'static SlotOwner,
    other: &'static Other,
}

struct Host(Mutex<Option<&'static Other>>);

struct Actor;

impl Process for Actor {}

impl Sink for Host {
    fn dead_letter(&self, _letter: DeadLetter) {
        unreachable!("no messages are sent")
    }
}

impl Schedule for Host {
    fn wake(&'static self, token: Token) {
        let other = self.0.lock().unwrap().expect("the world is made");
        turn(other, token);
    }
}

impl SlotHost for Host {}

fn control(envelope: Envelope) -> Control {
    envelope.payload.and_then(|payload| payload.take().ok()).expect("all that is sent is a control")
}

/// `Context::turn`.
fn turn(other: &'static Other, mut token: Token) {
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

/// `Feed`: what is in the control lane is heard, then the notices of the data lane as long as that lane stays empty.
/// Gives whether the process ends.
fn step(token: &mut Token) -> bool {
    let generation = token.generation();
    let mut notices = VecDeque::new();
    let mut ends = false;
    loop {
        let mut controls = token.lanes().take_control();
        while let Some(mut node) = controls.pop() {
            let envelope = node.take();
            node_pool::recycle(node);
            if envelope.generation != generation && !fault::is(ANY_GENERATION) {
                reach("a stranger");
                token.dead_letter(envelope, DeadLetterReason::Ended, &ExitReason::NoProcess);
                continue;
            }
            match control(envelope) {
                // SAFETY: this is the token, and nothing refers to the cold state.
                Control::Link(sent) => drop(unsafe { token.slot().receive(*sent) }),
                Control::Kill => ends = true,
                _ => unreachable!("nothing else is message"),
            }
        }
        while let Some(envelope) = token.lanes().pop_data() {
            if envelope.generation != generation {
                token.dead_letter(envelope, DeadLetterReason::Ended, &ExitReason::NoProcess);
            } else if let Control::Link(sent) = control(envelope) {
                notices.push_back(sent);
            }
        }
        while !notices.is_empty() && (!token.lanes().has_control_node() || fault::is(NOT_LOOKED)) {
            if let Some(sent) = notices.pop_front() {
                // SAFETY: as above.
                drop(unsafe { token.slot().receive(*sent) });
            }
        }
        if notices.is_empty() {
            return ends;
        }
        reach("a notice waits");
    }
}

/// `engine/lifecycle/exit.rs`.
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
        if fault::is(NOT_HEARD) {
            std::mem::forget(envelope);
        } else if let Control::Link(sent) = control(envelope) {
            reach("heard on its way out");
            let (from, _, message) = sent.open();
            let links = cold_state.get_or_insert_default().links.get_or_insert_default();
            if let LinkEffect::Answer(answer) = links.receive(from, &message.expect("it has just been message")) {
                other.post(from, SentLinkMessage::new(me, from, None, answer));
            }
        }
    }
    for (to, message) in cold_state
        .and_then(|cold_state| cold_state.links)
        .map(|links| links.end(&ExitReason::Killed).1)
        .unwrap_or_default()
    {
        reach("told by the process");
        other.post(to, SentLinkMessage::new(me, to, None, message));
    }
    TABLE.take_back(token);
}

impl World {
    fn new() -> &'static Self {
        let node = NodeId::new(7).expect("a node id");
        let other = keep(Other { pid: Pid::new(node, 1, 9, 1), heard: Mutex::default() });
        let keeper = keep(Host(Mutex::new(Some(other))));
        keep(Self { slot: keep(Slot::unused(0)), home: keep(SlotOwner::new(keeper, node, 1)), other })
    }

    /// The PID of a life of the slot.
    fn pid(&self, generation: u64) -> Pid {
        self.home.pid(0, generation)
    }

    fn open(&self) -> Token {
        let mut token = loop {
            match Token::claim_free(self.slot) {
                Some(token) => break token,
                None => {
                    reach("a late sender was at the grave");
                    thread::yield_now();
                }
            }
        };
        token.open(self.home);
        *token.body() = Some(Body::new(Actor));
        token
    }

    fn begin(&self, token: Token) {
        if let Some(token) = token.park_idle() {
            turn(self.other, token);
        }
    }

    /// The other says this to the first life.
    fn say(&self, message: LinkMessage<ExitReason>) {
        self.slot.post(self.pid(1), SentLinkMessage::new(self.other.pid, self.pid(1), Some(self.other), message));
    }

    fn kill(&self) {
        let kill = Some(Payload::new(Control::Kill));
        self.slot.post_control(node_pool::empty(), NodeKind::Signal, 1, ptr::null_mut(), kill);
    }

    /// All are done, and a life is idle: it knows of nobody. Gives what the other has heard.
    fn close(&self) -> Vec<LinkMessage<ExitReason>> {
        assert_eq!(self.slot.lanes.claim(), Claim::Process, "the token is laid down");
        // SAFETY: the claim has taken the token.
        let bound = unsafe { self.slot.inspect() };
        assert_eq!(bound.count(), 0, "it is bound: {bound:?}");
        std::mem::take(&mut *self.other.heard.lock().unwrap())
    }
}

/// A process ends, and another begins in its slot, while somebody says something to the first. Gives the answers.
fn said_while_it_ends(message: &[LinkMessage<ExitReason>]) -> Vec<LinkMessage<ExitReason>> {
    let world = World::new();
    let first = world.open();
    let message = message.to_vec();
    let other = thread::spawn(move || message.into_iter().for_each(|message| world.say(message)));
    end(world.other, first);
    let second = world.open();
    world.begin(second);
    other.join().unwrap();
    world.close()
}

const WAYS: [&str; 4] = ["heard on its way out", "told by the process", "a stranger", "a late sender was at the grave"];

#[test]
fn a_watch_of_one_that_ends_is_answered_once() {
    check(4, &WAYS, || {
        let heard = said_while_it_ends(&[LinkMessage::Watch(3)]);
        assert!(matches!(heard[..], [LinkMessage::Down(3, _)]), "{heard:?}");
    });
}

#[test]
fn a_link_with_one_that_ends_is_answered_once() {
    check(4, &WAYS, || {
        let heard = said_while_it_ends(&[LinkMessage::Link]);
        // Of one that is on its way out, with the poke that a failure comes with.
        assert!(
            matches!(heard[..], [LinkMessage::Exit(_)] | [LinkMessage::Failed(_), LinkMessage::Exit(_)]),
            "{heard:?}"
        );
    });
}

#[test]
fn an_unlinking_from_one_that_ends_is_answered_once() {
    check(4, &["heard on its way out", "a stranger"], || {
        let heard = said_while_it_ends(&[LinkMessage::Unlink(5)]);
        assert_eq!(heard, [LinkMessage::Unlinked(5)]);
    });
}

#[test]
fn of_a_watch_that_is_taken_back_there_is_one_answer_at_most() {
    check(2, &WAYS, || {
        let heard = said_while_it_ends(&[LinkMessage::Watch(3), LinkMessage::Unwatch(3)]);
        assert!(matches!(heard[..], [] | [LinkMessage::Down(3, _)]), "{heard:?}");
    });
}

/// The process lies idle when it is killed and watched at once.
#[test]
fn a_watch_of_one_that_is_killed_is_answered_once() {
    check(3, &["heard on its way out", "told by the process"], || {
        let world = World::new();
        let first = world.open();
        let killer = thread::spawn(|| world.kill());
        let watcher = thread::spawn(|| world.say(LinkMessage::Watch(3)));
        world.begin(first);
        killer.join().unwrap();
        watcher.join().unwrap();
        let second = world.open();
        world.begin(second);
        let heard = world.close();
        assert!(matches!(heard[..], [LinkMessage::Down(3, _)]), "{heard:?}");
    });
}

/// Somebody links with the process and ends at once: a link that was heard after the notice would stay for ever.
#[test]
fn a_notice_is_heard_after_what_was_said_before_it() {
    check(5, &["a notice waits"], || {
        let world = World::new();
        let first = world.open();
        let other = thread::spawn(|| {
            world.say(LinkMessage::Link);
            world.say(LinkMessage::Exit(ExitReason::Normal));
        });
        world.begin(first);
        other.join().unwrap();
        assert_eq!(world.close(), []);
    });
}

#[test]
#[should_panic(expected = "it is bound")]
fn fault_not_looked() {
    fault::with(NOT_LOOKED, a_notice_is_heard_after_what_was_said_before_it);
}

#[test]
#[should_panic]
fn fault_not_heard() {
    fault::with(NOT_HEARD, a_watch_of_one_that_ends_is_answered_once);
}

#[test]
#[should_panic]
fn fault_any_generation() {
    fault::with(ANY_GENERATION, a_watch_of_one_that_ends_is_answered_once);
}
