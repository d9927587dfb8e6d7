//! A process that a thread keeps while it waits for control (`thread_cache`). The thread goes to sleep, or is in a step
//! that does not end. The process's token is in no queue, so an answer from another thread finds the token held, and
//! leaves the rest to the thread that keeps it.
//!
//! The tokens, the slot with its control lane, and the counts of sleepers are production code. The driver repeats the
//! steps of `find.rs`, `spare.rs`, `context/keep.rs` and `recall.rs`, for one thread with a permit.
//!
//! Not covered: more than one thread with a permit; an answer from the thread itself (`local_tokens` covers it).

use super::driver::{Flag, Queue};
use crate::call::caller::Port;
use crate::call::dead_letter::{DeadLetter, Sink};
use crate::check::{check, deep, keep, reach};
use crate::engine::permits::handoff::RestOutcome;
use crate::engine::permits::sleep::Idle;
use crate::fault::{self, Fault};
use crate::mailbox::node::{Envelope, NodeKind};
use crate::mailbox::{node_pool, payload::Payload};
use crate::pid::NodeId;
use crate::slots::slot::words::ParkKind;
use crate::slots::{Schedule, Slot, SlotHost, SlotOwner, Token};
use crate::sync::{AtomicBool, Mutex, Ordering, lock};
use crate::thread_cache::evict::Evicted;
use crate::thread_cache::tokens::{KeepsNothing, Kept, LocalTokens};
use loom::thread;

/// A planted fault: a thread goes to sleep without a flush, as if it had already parked all its tokens.
const SLEEPS_UNFLUSHED: Fault = Fault::Driver(19);
/// A planted fault: the watchdog leaves a waiting process where it is.
const LEFT_WAITING: Fault = Fault::Driver(20);

/// The tag of the only answer.
const ANSWER: u64 = 5;

/// A thread with a permit, and the process that the thread keeps.
struct World {
    idle: Idle,
    local: LocalTokens,
    own: Queue,
    global: Queue,
    /// The token of the process while it is queued. In its place the queues hold the job number 0.
    queued: Mutex<Option<Token>>,
    parked: Flag,
    ran: Flag,
    stopped: AtomicBool,
}

impl Sink for World {
    fn dead_letter(&'static self, _letter: DeadLetter) {}
}

impl SlotHost for World {}

impl Schedule for World {
    /// Mirrors `Scheduler::push_global` on a thread without a permit.
    fn wake(&'static self, token: Token) {
        reach("queued by its answer");
        self.push(&self.global, token);
        self.announce();
    }
}

impl World {
    /// Returns a world with a waiting process, and a closure that answers the process.
    fn new() -> (&'static Self, impl FnOnce() + Send + 'static) {
        let idle = Idle::new(1, 1);
        idle.begin(Some(0));
        let world = keep(Self {
            idle,
            local: LocalTokens::none(),
            own: Queue::new(),
            global: Queue::new(),
            queued: Mutex::new(None),
            parked: Flag::new(),
            ran: Flag::new(),
            stopped: AtomicBool::new(false),
        });
        let owner = keep(SlotOwner::new(world, NodeId::new(7).expect("a node id"), 1));
        let slot: &'static Slot = keep(Slot::unused(0));
        let mut token = Token::claim_free(slot).expect("the slot is free");
        let generation = token.open(owner).generation();
        // Mirrors `ThreadContext::keep_or_park`.
        assert!(world.local.keep(token.release(), ParkKind::Waiting, true).is_none());
        let answer = move || {
            let word = std::ptr::without_provenance_mut(ANSWER as usize);
            let (kind, payload) = (NodeKind::Completed, Some(Payload::new(ANSWER)));
            slot.answer(node_pool::node(Envelope { kind, generation, word, payload }), generation);
        };
        (world, answer)
    }

    fn push(&self, queue: &Queue, token: Token) {
        assert!(lock(&self.queued).replace(token).is_none(), "a second token");
        queue.push(0);
    }

    fn pop(&self, queue: &Queue) -> Option<Token> {
        queue.pop().and_then(|_| lock(&self.queued).take())
    }

    /// Mirrors `Scheduler::announce`.
    fn announce(&self) {
        self.idle.announce().into_iter().for_each(|_| self.parked.raise());
    }

    /// Mirrors `Scheduler::has_work`.
    fn has_work(&self) -> bool {
        !self.own.is_empty() || !self.global.is_empty()
    }

    /// Runs the process, which has been answered. Then everything is done.
    fn run(&self, token: Token) {
        let mut token = token.acquire();
        let mut controls = token.lanes().take_control();
        assert_eq!(controls.answers().collect::<Vec<_>>(), [ANSWER]);
        while let Some(mut node) = controls.pop() {
            drop(node.take());
            node_pool::recycle(node);
        }
        assert!(token.park_waiting().is_none(), "there is no other answer");
        self.stopped.store(true, Ordering::SeqCst);
        self.ran.raise();
        self.idle.stop().into_iter().for_each(|_| self.parked.raise());
    }

    /// Mirrors `ThreadContext::run`.
    fn work(&self) {
        let mut searching = false;
        loop {
            if let Some(token) = self.take_near() {
                if searching && self.idle.stop_searching() && self.has_work() {
                    self.announce();
                }
                return self.run(token);
            }
            self.sleep(searching);
            searching = true;
        }
    }

    /// Mirrors `ThreadContext::take_near`.
    fn take_near(&self) -> Option<Token> {
        let queued = self.pop(&self.own).or_else(|| self.pop(&self.global));
        if self.local.has_cached() {
            self.local.take_cached().for_each(|token| self.evict(token));
            return queued.or_else(|| self.pop(&self.own));
        }
        queued
    }

    /// Mirrors `ThreadContext::evict`.
    fn evict(&self, token: Token) {
        match token.evict() {
            Evicted::Parked => reach("parked its token"),
            Evicted::HasInput(token) => {
                reach("found its answer");
                self.push(&self.own, token);
                assert_eq!(self.idle.announce_own(), None, "no other thread has a permit");
            }
            Evicted::HasEnded(_) => unreachable!("the process lives"),
        }
    }

    /// Mirrors `ThreadContext::flush`.
    fn flush(&self) -> KeepsNothing {
        self.local.flush(|kept| match kept {
            Kept::Cached(token) => self.evict(token),
            _ => unreachable!("none is to run next, and none has ended"),
        })
    }

    /// Mirrors `ThreadContext::sleep`.
    fn sleep(&self, searched: bool) {
        let keeps_nothing = if fault::is(SLEEPS_UNFLUSHED) { KeepsNothing::without_tokens() } else { self.flush() };
        assert_eq!(self.idle.begin_sleep(0, searched, false, keeps_nothing), Ok(false), "there are no timers");
        loop {
            match self.idle.look(0, false) {
                RestOutcome::Up(..) => return,
                RestOutcome::Asleep(_) => {}
                RestOutcome::Ended | RestOutcome::Spare(_) => unreachable!("no other thread runs the process"),
            }
            if self.idle.wakes_for_work() && self.has_work() {
                assert!(self.idle.end_sleep(0), "no thread takes its permit");
                continue;
            }
            reach("slept");
            self.parked.wait();
        }
    }

    /// Mirrors `Scheduler::move_local`.
    fn move_local(&self) {
        if fault::is(LEFT_WAITING) {
            return;
        }
        let moved = self.idle.with_permits(|_| {
            let Some(revoked) = self.local.revoke() else {
                reach("gave up");
                return false;
            };
            let evicted = revoked.cached.into_iter().next().map(Token::evict);
            let Some(Evicted::HasInput(token)) = evicted else { return false };
            reach("moved it");
            self.push(&self.global, token);
            true
        });
        if moved {
            self.announce();
        }
    }
}

/// A waiting process is answered from outside. At the same time its thread goes to sleep, and the watchdog takes the
/// thread's tokens.
fn answered_while_its_thread_goes_to_sleep() {
    let places = ["queued by its answer", "found its answer", "parked its token", "moved it", "gave up", "slept"];
    check(deep(2, 3), Box::leak(Box::new(places)), || {
        let (world, answer) = World::new();
        let worker = thread::spawn(|| world.work());
        let outside = thread::spawn(answer);
        world.move_local();
        outside.join().unwrap();
        worker.join().unwrap();
    });
}

/// A thread keeps a waiting process during a step that ends only after that process has run. The process is answered
/// from outside, and the watchdog moves it. Then another thread, here the watchdog's, gets the permit and runs it.
fn answered_behind_a_long_step() {
    check(deep(2, 3), &["queued by its answer", "moved it"], || {
        let (world, answer) = World::new();
        let worker = thread::spawn(|| world.ran.wait());
        let outside = thread::spawn(answer);
        while !world.stopped.load(Ordering::Acquire) {
            world.move_local();
            match world.pop(&world.global) {
                Some(token) => world.run(token),
                None => thread::yield_now(),
            }
        }
        outside.join().unwrap();
        worker.join().unwrap();
    });
}

#[test]
fn an_awaiting_process_is_answered_while_its_thread_goes_to_sleep() {
    answered_while_its_thread_goes_to_sleep();
}

#[test]
fn an_awaiting_process_is_answered_behind_a_long_step() {
    answered_behind_a_long_step();
}

/// The watchdog may give up late. A process that the thread could not evict in the meantime is then in no queue.
#[test]
#[should_panic = "deadlock"]
fn fault_sleeps_unshared() {
    fault::with(SLEEPS_UNFLUSHED, answered_while_its_thread_goes_to_sleep);
}

/// The watchdog looks forever and finds nothing.
#[test]
#[should_panic = "maximum number of branches"]
fn fault_left_waiting() {
    fault::with(LEFT_WAITING, answered_behind_a_long_step);
}
