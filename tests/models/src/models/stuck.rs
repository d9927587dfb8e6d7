//! Who counts as stuck in a ring of calls (`slots/slot`, `is_stuck`, over `wait_graph.rs` and `call_id.rs`): not one
//! that has something in its control lane, unless it blocks, and not one that has ended, whoever is in its slot now.
//!
//! The slots, the edges and the tickets are production code. The driver takes the steps of `engine/sched/step.rs`,
//! `engine/lifecycle/exit.rs` and `actor/tasks/pending.rs`. As there a process takes its edge away when it has taken
//! its controls up: a call that closes the ring in between fails. Its message is withdrawn then, as that of any.
//!
//! Not covered: holds, foreign wakers.

use crate::call::call_id::{self, CallId};
use crate::call::dead_letter::{DeadLetter, Sink};
use crate::check::{check, deep, keep, reach};
use crate::deadlock::wait_graph::{Closed, Edge, Incarnation, Places, Wait, What, publish};
use crate::mailbox::node::{MailNode, NodeKind};
use crate::mailbox::node_pool;
use crate::mailbox::payload::Payload;
use crate::pid::{GENERATION_BITS, LAST_GENERATION, NodeId};
use crate::slots::{Schedule, Slot, SlotHost, SlotOwner, Token};
use crate::sync::{Mutex, lock};
use loom::thread;
use std::cell::Cell;
use std::ptr;

/// Where who wakes a process leaves its token: a run queue.
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

/// Two slots, and the edges of what lives in them.
struct World {
    queue: &'static Queue,
    home: &'static SlotOwner,
    slots: [&'static Slot; 2],
    edges: [Edge; 2],
    second_look: Mutex<()>,
    /// Whether the second process has begun to see to its controls. Not seen by loom: it orders nothing.
    woken: Cell<bool>,
}

// SAFETY: the threads of a model run on one thread.
unsafe impl Sync for World {}

impl Places for World {
    type Caller = ();

    fn withdraw(&self, ticket: CallId) -> Option<()> {
        ticket.withdraw().then_some(())
    }

    fn edge(&self, life: Incarnation) -> Option<&Edge> {
        self.edges.get(index_of(life))
    }

    /// As that of `deadlock/edges.rs`.
    fn is_stuck(&self, life: Incarnation, blocks: bool) -> bool {
        self.slots.get(index_of(life)).is_some_and(|slot| slot.is_stuck(life & LAST_GENERATION, blocks))
    }
}

fn index_of(life: Incarnation) -> usize {
    (life >> GENERATION_BITS) as usize
}

fn ticket(number: u64) -> CallId {
    CallId::issue(keep(MailNode::empty()), number)
}

/// A call that has failed: the methods of the ring.
type Failed = Option<Vec<&'static str>>;

impl World {
    fn new() -> &'static Self {
        let queue = keep(Queue(Mutex::new(Vec::new())));
        let home = keep(SlotOwner::new(queue, NodeId::new(7).expect("a node id"), 1));
        let slots = [0, 1].map(|index| keep(Slot::unused(index)));
        let edges = [Edge::unused(), Edge::unused()];
        keep(Self { queue, home, slots, edges, second_look: Mutex::new(()), woken: Cell::new(false) })
    }

    /// A process begins in the slot.
    fn open(&self, index: usize) -> (Token, Incarnation) {
        let mut token = Token::claim_free(self.slots[index]).expect("nobody else is there");
        let pid = token.open(self.home);
        (token, pid.incarnation())
    }

    /// The process `from` calls `on` and waits.
    fn call(&self, from: Incarnation, on: Incarnation, ticket: CallId, method: &'static str, blocks: bool) -> Failed {
        let wait = Wait { on, what: What::Call(ticket, method), blocks };
        match publish(self, &self.second_look, from, &self.edges[index_of(from)], wait) {
            Some(Closed::Calls(ring)) => Some(ring.into_iter().map(|(_, method)| method).collect()),
            Some(_) => unreachable!("no message is being handled, and nobody is held"),
            None => None,
        }
    }

    /// A signal, or a wake, for the process of that life in the second slot.
    fn tell(&self, life: Incarnation, wakes: bool) {
        let (slot, generation) = (self.slots[1], life & LAST_GENERATION);
        if wakes {
            slot.wake(generation);
        } else {
            slot.post_control(
                node_pool::empty(),
                NodeKind::Signal,
                generation,
                ptr::null_mut(),
                Some(Payload::new(())),
            );
        }
    }

    /// A permit that looks for a process to run: the second one, which has been woken.
    fn next(&self) -> Option<Token> {
        lock(&self.queue.0).pop()
    }

    fn take_up(&self, token: &mut Token) {
        self.woken.set(true);
        let mut controls = token.lanes().take_control();
        while let Some(mut node) = controls.pop() {
            drop(node.take());
            node_pool::recycle(node);
        }
    }

    /// The second process has been woken, since it waits no more: it takes its edge away, gives its call up and comes
    /// to the message of the first one. Gives whether it handles that.
    fn goes_on(&self, mut token: Token, own: CallId, message: CallId) -> bool {
        self.take_up(&mut token);
        self.edges[1].withdraw();
        own.abandon();
        let handles = call_id::take(message.word());
        while let Some(held) = token.park_idle() {
            token = held;
        }
        handles
    }

    /// The second process has been killed.
    fn ends(&self, mut token: Token, own: CallId) {
        self.take_up(&mut token);
        token.close();
        own.abandon();
        self.edges[1].withdraw();
        while let Some(again) = token.park_vacant() {
            token = again;
        }
    }
}

/// The second process waits for the first, and has been told something. Then the first one calls it: it is not stuck.
fn one_that_is_to_see_to_something(wakes: bool) {
    let world = World::new();
    let (first, (second, life)) = (world.open(0).1, world.open(1));
    let (own, message) = (ticket(1), ticket(2));
    assert!(world.call(life, first, own, "Second::calls", false).is_none());
    assert!(second.park_waiting().is_none(), "nobody has told it anything");
    let permit = thread::spawn(move || {
        let handles = world.next().map(|token| world.goes_on(token, own, message));
        handles.inspect(|_| reach("run beside"))
    });
    world.tell(life, wakes);
    let failed = world.call(first, life, message, "First::calls", false).is_some();
    assert!(!failed || world.woken.get(), "a call of one that has something to see to fails");
    reach(if failed { "as it took its controls up" } else { "waits" });
    let handles = permit.join().unwrap();
    let handles = handles.unwrap_or_else(|| world.goes_on(world.next().expect("it was woken"), own, message));
    assert!(failed != handles, "failed: {failed}, handled: {handles}");
}

#[test]
fn one_that_has_a_signal_is_not_stuck() {
    check(4, &["run beside", "waits"], || one_that_is_to_see_to_something(false));
}

#[test]
fn one_that_has_a_wake_is_not_stuck() {
    check(4, &["run beside", "waits"], || one_that_is_to_see_to_something(true));
}

/// One that blocks its thread sees to nothing before its wait is over: the ring is found at once.
#[test]
fn one_that_blocks_is_stuck_whatever_it_is_told() {
    check(3, &["found"], || {
        let world = World::new();
        let (first, (_runs, life)) = (world.open(0).1, world.open(1));
        let told = thread::spawn(move || world.tell(life, false));
        assert!(world.call(life, first, ticket(1), "Second::calls", true).is_none());
        told.join().unwrap();
        assert!(world.call(first, life, ticket(2), "First::calls", true).is_some(), "both wait for ever");
        reach("found");
    });
}

/// The second process waits for the first, and is killed; another one in its slot calls the first. Meanwhile the first
/// calls the one that is killed. It may be found in a ring with that one, not with the next.
#[test]
fn the_next_in_a_slot_is_another_one() {
    check(deep(1, 2), &["with the one before", "waits"], || {
        let world = World::new();
        let (first, (second, life)) = (world.open(0).1, world.open(1));
        let own = ticket(1);
        assert!(world.call(life, first, own, "Second::calls", false).is_none());
        let permit = thread::spawn(move || {
            world.ends(second, own);
            let (next, life) = world.open(1);
            let failed = world.call(life, first, ticket(3), "Next::calls", false);
            assert!(failed.is_none(), "the first one waits for another: {failed:?}");
            assert!(next.park_waiting().is_none(), "nobody has told it anything");
        });
        match world.call(first, life, ticket(2), "First::calls", false) {
            Some(ring) => {
                assert_eq!(ring, ["First::calls", "Second::calls"], "the next one has not been called");
                reach("with the one before");
            }
            None => reach("waits"),
        }
        permit.join().unwrap();
    });
}
