//! Stuck processes in a cycle of calls (`slots/slot`, `is_stuck`, over `wait_graph.rs` and `call_id.rs`). A process
//! with pending controls is not stuck, unless it blocks its thread. An exited process is not stuck, whatever process
//! now occupies its slot.
//!
//! The slots, the edges and the call IDs are production code. The driver repeats the steps of `engine/slice/run.rs`,
//! `engine/lifecycle/exit.rs` and `actor/tasks/pending.rs`. As in those files, a process takes its controls before it
//! withdraws its edge. A call that closes the cycle in between fails, and its message is withdrawn as in any cycle.
//!
//! Not covered: suspensions, foreign wakers.

use crate::call::call_id::{self, CallId};
use crate::call::dead_letter::{DeadLetter, Sink};
use crate::check::{check, deep, keep, reach};
use crate::deadlock::wait_graph::{Closed, Edge, Incarnation, Places, Wait, What, publish};
use crate::mailbox::node::MailNode;
use crate::mailbox::node_pool;
use crate::pid::{GENERATION_BITS, LAST_GENERATION, NodeId};
use crate::process::control::Control;
use crate::slots::{Schedule, Slot, SlotHost, SlotOwner, Token};
use crate::sync::{Mutex, lock};
use loom::thread;
use std::cell::Cell;
use std::ptr;

/// A run queue, to which wakers push the tokens of processes.
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

/// Two slots, and the edges of their processes.
struct World {
    queue: &'static Queue,
    owner: &'static SlotOwner,
    slots: [&'static Slot; 2],
    edges: [Edge; 2],
    second_look: Mutex<()>,
    /// Whether the second process has begun to take its controls. The flag is invisible to loom, so it orders nothing.
    woken: Cell<bool>,
}

// SAFETY: the threads of a model run on one thread.
unsafe impl Sync for World {}

impl Places for World {
    type Caller = ();

    fn withdraw(&self, id: CallId) -> Option<()> {
        id.withdraw().then_some(())
    }

    fn edge(&self, incarnation: Incarnation) -> Option<&Edge> {
        self.edges.get(index_of(incarnation))
    }

    /// Mirrors `is_stuck` of `deadlock/edges.rs`.
    fn is_stuck(&self, incarnation: Incarnation, blocks: bool) -> bool {
        self.slots.get(index_of(incarnation)).is_some_and(|slot| slot.is_stuck(incarnation & LAST_GENERATION, blocks))
    }
}

fn index_of(incarnation: Incarnation) -> usize {
    (incarnation >> GENERATION_BITS) as usize
}

fn issue(number: u64) -> CallId {
    CallId::issue(keep(MailNode::empty()), number)
}

/// The methods of the calls in the cycle, if the call failed.
type Failed = Option<Vec<&'static str>>;

impl World {
    fn new() -> &'static Self {
        let queue = keep(Queue(Mutex::new(Vec::new())));
        let owner = keep(SlotOwner::new(queue, NodeId::new(7).expect("a node id"), 1));
        let slots = [0, 1].map(|index| keep(Slot::unused(index)));
        let edges = [Edge::unused(), Edge::unused()];
        keep(Self { queue, owner, slots, edges, second_look: Mutex::new(()), woken: Cell::new(false) })
    }

    /// Spawns a process in the slot.
    fn open(&self, index: usize) -> (Token, Incarnation) {
        let mut token = Token::claim_free(self.slots[index]).expect("the slot is free");
        let pid = token.open(self.owner);
        (token, pid.incarnation())
    }

    /// Makes the process `from` call `on` and wait.
    fn call(&self, from: Incarnation, on: Incarnation, id: CallId, method: &'static str, blocks: bool) -> Failed {
        let wait = Wait { on, what: What::Call(id, method), blocks };
        match publish(self, &self.second_look, from, &self.edges[index_of(from)], wait) {
            Some(Closed::Calls(cycle)) => Some(cycle.into_iter().map(|(_, method)| method).collect()),
            Some(_) => unreachable!("no message is being handled, and no process is suspended"),
            None => None,
        }
    }

    /// Sends a signal or, if `wakes`, a wake to an incarnation in the second slot.
    fn notify(&self, incarnation: Incarnation, wakes: bool) {
        let (slot, generation) = (self.slots[1], incarnation & LAST_GENERATION);
        if wakes {
            slot.wake(generation);
        } else {
            slot.request(generation, Control::Kill);
        }
    }

    /// Takes a process from the queue, in order to run it. The queue can only hold the second process, once it has been
    /// woken.
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

    /// Runs the second process after a wake that ended its wait. It withdraws its edge, gives up its call and takes the
    /// message of the first process. Returns whether it handles that message.
    fn resume(&self, mut token: Token, own: CallId, message: CallId) -> bool {
        self.take_up(&mut token);
        self.edges[1].withdraw();
        own.abandon();
        let handles = call_id::take(message.word());
        while let Some(held) = token.park_idle() {
            token = held;
        }
        handles
    }

    /// Ends the second process, which has been killed.
    fn exit(&self, mut token: Token, own: CallId) {
        self.take_up(&mut token);
        token.close();
        own.abandon();
        self.edges[1].withdraw();
        while let Some(again) = token.park_vacant() {
            token = again;
        }
    }
}

/// The second process waits for the first, and receives a control. Then the first process calls the second, which is
/// not stuck.
fn a_process_with_pending_controls(wakes: bool) {
    let world = World::new();
    let (first, (second, incarnation)) = (world.open(0).1, world.open(1));
    let (own, message) = (issue(1), issue(2));
    assert!(world.call(incarnation, first, own, "Second::calls", false).is_none());
    assert!(second.park_waiting().is_none(), "no control has been sent to it");
    let permit = thread::spawn(move || {
        let handles = world.next().map(|token| world.resume(token, own, message));
        handles.inspect(|_| reach("run by the other thread"))
    });
    world.notify(incarnation, wakes);
    let failed = world.call(first, incarnation, message, "First::calls", false).is_some();
    assert!(!failed || world.woken.get(), "a call of a process with pending controls fails");
    reach(if failed { "while it took its controls" } else { "waits" });
    let handles = permit.join().unwrap();
    let handles = handles.unwrap_or_else(|| world.resume(world.next().expect("it was woken"), own, message));
    assert!(failed != handles, "failed: {failed}, handled: {handles}");
}

#[test]
fn a_process_with_a_pending_signal_is_not_stuck() {
    check(4, &["run by the other thread", "waits"], || a_process_with_pending_controls(false));
}

#[test]
fn a_process_with_a_pending_wake_is_not_stuck() {
    check(4, &["run by the other thread", "waits"], || a_process_with_pending_controls(true));
}

/// A process that blocks its thread takes no controls before its wait ends, so the cycle is found at once.
#[test]
fn a_blocked_process_is_stuck_despite_pending_controls() {
    check(3, &["found"], || {
        let world = World::new();
        let (first, (_runs, incarnation)) = (world.open(0).1, world.open(1));
        let notifier = thread::spawn(move || world.notify(incarnation, false));
        assert!(world.call(incarnation, first, issue(1), "Second::calls", true).is_none());
        notifier.join().unwrap();
        assert!(world.call(first, incarnation, issue(2), "First::calls", true).is_some(), "both wait for ever");
        reach("found");
    });
}

/// The second process waits for the first, and is killed. The next process in its slot calls the first, while the first
/// calls the killed process. The first process's call may fail because of a cycle with the killed process, but not
/// because of one with the next process.
#[test]
fn the_next_process_in_a_slot_is_distinct() {
    check(deep(1, 2), &["in a cycle with the previous process", "waits"], || {
        let world = World::new();
        let (first, (second, incarnation)) = (world.open(0).1, world.open(1));
        let own = issue(1);
        assert!(world.call(incarnation, first, own, "Second::calls", false).is_none());
        let permit = thread::spawn(move || {
            world.exit(second, own);
            let (next, incarnation) = world.open(1);
            let failed = world.call(incarnation, first, issue(3), "Next::calls", false);
            assert!(failed.is_none(), "the first one waits for another: {failed:?}");
            assert!(next.park_waiting().is_none(), "no control has been sent to it");
        });
        match world.call(first, incarnation, issue(2), "First::calls", false) {
            Some(cycle) => {
                assert_eq!(cycle, ["First::calls", "Second::calls"], "the next process has not been called");
                reach("in a cycle with the previous process");
            }
            None => reach("waits"),
        }
        permit.join().unwrap();
    });
}
