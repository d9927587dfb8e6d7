//! Slot reuse (`slots/slot` over `mailbox/lanes.rs`). A process exits, late senders arrive, and another process is
//! spawned in its slot.
//!
//! Every envelope is accounted for once: the incarnation that it was sent to handles it, it is returned to its sender,
//! or it becomes a dead letter. Every control is handled by its incarnation or counted as late. Nothing reaches another
//! incarnation, and only one thread at a time runs the process or vacates its slot.
//!
//! The slot and its token are production code. The driver repeats the steps of `engine/slice/run.rs` (`run_slice`),
//! `engine/lifecycle/exit.rs` and `engine/lifecycle/spawn.rs`. A thread that takes a token runs the process at once. In
//! production the token goes through a queue, which orders more.
//!
//! Not covered: the directory's lists (there is one slot, which all threads know), callers in envelopes, more than two
//! incarnations.

use crate::call::dead_letter::{DeadLetter, DeadLetterReason, Sink};
use crate::check::{check, deep, keep, reach};
use crate::exit::ExitReason;
use crate::fault::{self, Fault};
use crate::mailbox::lanes::Claim;
use crate::mailbox::node::{Envelope, NodeKind};
use crate::mailbox::node_pool;
use crate::mailbox::payload::Payload;
use crate::pid::{NodeId, Pid};
use crate::process::Process;
use crate::process::body::Body;
use crate::slots::slot::SendPolicy;
use crate::slots::{Schedule, SendRefusal, Slot, SlotHost, SlotOwner, TABLE, Token};
use crate::sync::{Ordering, OwnedCell};
use loom::thread;
use std::ptr::{self, NonNull};
use std::sync::Mutex;

/// A planted fault: a receiver accepts envelopes of any generation.
const ANY_GENERATION: Fault = Fault::Driver(0);
/// A planted fault: an incarnation ends without being closed first.
const NOT_CLOSED: Fault = Fault::Driver(1);
/// A planted fault: an exit parks the token as idle instead of as vacant.
const PARKED_IDLE: Fault = Fault::Driver(2);
/// A planted fault: the exit is reported before the token is parked.
const NOTIFIED_FIRST: Fault = Fault::Driver(3);

/// The control that ends a process.
const KILL: u32 = 99;

/// The fate of each envelope. The log is invisible to loom, so it orders nothing.
#[derive(Default)]
struct Log {
    /// The incarnation that handled each envelope, and the number of the envelope.
    handled: Vec<(u64, u32)>,
    refused: Vec<u32>,
    dead: Vec<u32>,
    /// The number of incarnations that have ended.
    ended: u64,
    /// Whether the first exit has been reported.
    notified: bool,
    /// The number of envelopes that became dead letters after the first exit was reported.
    dead_after_notification: u32,
}

struct World {
    slot: &'static Slot,
    owner: &'static SlotOwner,
    host: &'static Host,
}

struct Host {
    log: Mutex<Log>,
    /// Accessed by the token's holder only: two holders would be a race.
    inside: OwnedCell<u32>,
}

// SAFETY: `inside` belongs to the token's holder, and loom checks it.
unsafe impl Sync for Host {}

struct Actor;

impl Process for Actor {}

fn number(payload: Option<Payload>) -> u32 {
    payload.and_then(|payload| payload.take().ok()).expect("all that is sent is a number")
}

impl Sink for Host {
    fn dead_letter(&'static self, envelope: DeadLetter) {
        reach("dead letter");
        let mut log = self.log.lock().unwrap();
        log.dead_after_notification += u32::from(log.notified);
        log.dead.push(number(Some(envelope.message)));
    }
}

impl Schedule for Host {
    fn wake(&'static self, token: Token) {
        reach("took the token");
        self.run_slice(token);
    }
}

impl SlotHost for Host {}

impl Host {
    fn enter(&self) {
        // SAFETY: the caller holds the token, and loom checks it.
        self.inside.with_mut(|inside| unsafe { *inside += 1 });
    }

    /// Mirrors `ThreadContext::run_slice`.
    fn run_slice(&self, mut token: Token) {
        let pid = token.pid().expect("a token that is scheduled belongs to a live process");
        let mut body = token.body().take().expect("and its process is there");
        loop {
            assert_eq!(token.pid(), Some(pid), "the token still belongs to this incarnation");
            if self.step(&mut token, pid.generation()) {
                drop(body);
                self.end(token);
                return;
            }
            if !token.lanes().is_data_empty() {
                // A sender has not finished its push. Production would requeue the process.
                thread::yield_now();
                continue;
            }
            *token.body() = Some(body);
            let Some(held) = token.park_idle() else { return };
            token = held;
            body = token.body().take().expect("the token was not given up");
        }
    }

    /// Mirrors `ThreadContext::step`. Returns whether the process exits.
    fn step(&self, token: &mut Token, generation: u64) -> bool {
        self.enter();
        let mut ends = false;
        let mut taken = Vec::new();
        let mut controls = token.lanes().take_control();
        while let Some(mut node) = controls.pop() {
            taken.push(node.take());
            node_pool::recycle(node);
        }
        while let Some(envelope) = token.lanes().pop_data() {
            taken.push(envelope);
        }
        for envelope in taken {
            if envelope.generation != generation && !fault::is(ANY_GENERATION) {
                reach("a stale message");
                token.dead_letter(envelope, DeadLetterReason::Ended, &ExitReason::NoProcess);
                continue;
            }
            let meant = envelope.generation;
            let number = number(envelope.payload);
            assert_eq!(meant, generation, "an envelope of another incarnation was seen");
            ends |= number == KILL;
            self.log.lock().unwrap().handled.push((generation, number));
        }
        ends
    }

    /// Mirrors `engine/lifecycle/exit.rs`.
    fn end(&self, mut token: Token) {
        self.enter();
        if fault::is(NOT_CLOSED) {
            drop(token.empty_and_park(None));
            return;
        }
        token.close();
        loop {
            while let Some(envelope) = token.lanes().pop_data() {
                token.dead_letter(envelope, DeadLetterReason::Ended, &ExitReason::Normal);
            }
            let mut controls = token.lanes().take_control();
            while let Some(mut node) = controls.pop() {
                token.dead_letter(node.take(), DeadLetterReason::Ended, &ExitReason::Normal);
                node_pool::recycle(node);
            }
            if fault::is(NOTIFIED_FIRST) {
                self.log.lock().unwrap().notified = true;
            }
            if fault::is(PARKED_IDLE) {
                let _laid = token.park_idle();
                return;
            }
            match token.park_vacant() {
                Some(again) => token = again,
                None => break,
            }
            reach("refused at the end");
            thread::yield_now();
        }
        let mut log = self.log.lock().unwrap();
        (log.notified, log.ended) = (true, log.ended + 1);
        drop(log);
        TABLE.free(0);
    }
}

impl World {
    fn new() -> &'static Self {
        let host = keep(Host { log: Mutex::default(), inside: OwnedCell::new(0) });
        let node = NodeId::new(7).expect("a node id");
        let owner = keep(SlotOwner::new(host, node, 1));
        keep(Self { slot: keep(Slot::unused(0)), owner, host })
    }

    /// Mirrors `Scheduler::start_process`, from the point where it takes a slot's token.
    fn open(&self) -> Token {
        let mut token = loop {
            match Token::claim_free(self.slot) {
                Some(token) => break token,
                None => {
                    reach("a late sender was vacating the slot");
                    thread::yield_now();
                }
            }
        };
        token.open(self.owner);
        self.host.enter();
        *token.body() = Some(Body::new(Actor));
        token
    }

    /// Parks the token of a process that has just been spawned.
    fn park_new(&self, token: Token) {
        if let Some(token) = token.park_idle() {
            self.host.run_slice(token);
        }
    }

    /// Spawns the second process if the first has exited.
    fn spawn_again(&self) {
        if self.host.log.lock().unwrap().ended == 1 {
            reach("spawned again");
            self.park_new(self.open());
        }
    }

    /// Returns the PID of an incarnation of the slot.
    fn pid(&self, generation: u64) -> Pid {
        self.owner.pid(self.slot.index(), generation)
    }

    /// Sends a message, as processes do.
    fn send(&self, generation: u64, number: u32) {
        if let Err((number, _)) = self.slot.send(self.pid(generation), number) {
            reach("refused");
            self.host.log.lock().unwrap().refused.push(number);
        }
    }

    /// Sends a message in an envelope, in the way that packages are sent.
    fn post(&self, generation: u64, number: u32) {
        let (to, payload) = (self.pid(generation), Some(Payload::new(number)));
        let sent = self.slot.deliver(to, NodeKind::Message, None, payload, SendPolicy::Bounded);
        if let Err(refusal) = sent {
            let SendRefusal(Envelope { payload, .. }, _) = *refusal;
            reach("refused");
            self.host.log.lock().unwrap().refused.push(self::number(payload));
        }
    }

    fn send_control(&self, generation: u64, number: u32) {
        self.slot.complete(generation, 0, Payload::new(number));
    }

    /// Checks at the end of an execution, when the second process is idle, that `envelopes` and `controls` are
    /// accounted for. Each of them is listed with the incarnation that it was sent to.
    fn close(&self, envelopes: &[(u64, u32)], controls: &[(u64, u32)]) {
        assert_eq!(self.slot.lanes.claim(), Claim::Process, "the token is parked");
        // SAFETY: the claim above took the token.
        assert!(unsafe { self.slot.lanes.is_data_empty() } && !self.slot.lanes.has_control(), "something was left");
        assert_eq!(self.slot.living(), Some(2));
        let log = std::mem::take(&mut *self.host.log.lock().unwrap());
        assert_eq!((log.ended, TABLE.freed()), (1, 1), "one incarnation ended, and its slot was returned once");
        for sent in envelopes {
            let handled = log.handled.iter().filter(|handled| *handled == sent).count();
            let refused = log.refused.iter().filter(|&&number| number == sent.1).count();
            let dead = log.dead.iter().filter(|&&number| number == sent.1).count();
            assert_eq!(
                handled + refused + dead,
                1,
                "envelope {sent:?}: {handled} handled, {refused} refused, {dead} dead"
            );
        }
        let handled = log.handled.iter().filter(|handled| controls.contains(handled)).count() as u64;
        let late = self.owner.late.load(Ordering::Relaxed);
        assert_eq!(handled + late, controls.len() as u64, "a control was lost or doubled");
        assert_eq!(
            log.handled.len() as u64,
            handled + log.handled.iter().filter(|handled| envelopes.contains(handled)).count() as u64
        );
    }
}

/// Ends a process and spawns another one in its slot while `late` senders send to the first process. The second process
/// also receives an envelope.
fn ends_and_begins(world: &'static World, late: Vec<Box<dyn FnOnce() + Send>>) {
    let first = world.open();
    let late: Vec<_> = late.into_iter().map(|late| thread::spawn(late)).collect();
    world.host.end(first);
    let second = world.open();
    world.park_new(second);
    world.send(2, 20);
    late.into_iter().for_each(|late| late.join().unwrap());
}

const LATE: [&str; 5] =
    ["refused", "dead letter", "a stale message", "a late sender was vacating the slot", "refused at the end"];

/// One envelope is late.
#[test]
fn a_late_envelope() {
    check(deep(3, 4), &LATE, || {
        let world = World::new();
        ends_and_begins(world, vec![Box::new(|| world.post(1, 10))]);
        world.close(&[(1, 10), (2, 20)], &[]);
    });
}

/// A late message is refused, or becomes a dead letter before the exit is reported. (If two messages are late, or the
/// slot is already in use again, one message may become a dead letter after the report: see
/// `engine/lifecycle/exit.rs`.)
#[test]
fn a_dead_letter_precedes_the_notification() {
    check(6, &["refused", "dead letter", "refused at the end"], || {
        let world = World::new();
        let first = world.open();
        let late = thread::spawn(|| world.send(1, 10));
        world.host.end(first);
        late.join().unwrap();
        let log = std::mem::take(&mut *world.host.log.lock().unwrap());
        assert_eq!(log.dead_after_notification, 0, "a dead letter came after the report of the exit");
        assert_eq!(log.refused.len() + log.dead.len(), 1, "it is refused, or a dead letter");
        assert_eq!((world.slot.lanes.claim(), TABLE.freed()), (Claim::Vacant, 1));
    });
}

/// One message is late.
#[test]
fn a_late_message() {
    check(deep(4, 5), &LATE, || {
        let world = World::new();
        ends_and_begins(world, vec![Box::new(|| world.send(1, 10))]);
        world.close(&[(1, 10), (2, 20)], &[]);
    });
}

/// A message and a control are late, and both arrive in a vacant slot without a node.
#[test]
fn a_late_message_and_a_late_control() {
    check(deep(1, 2), &LATE, || {
        let world = World::new();
        ends_and_begins(world, vec![Box::new(|| world.send(1, 10)), Box::new(|| world.send_control(1, 11))]);
        world.close(&[(1, 10), (2, 20)], &[(1, 11)]);
    });
}

/// One control is late.
#[test]
fn a_late_control() {
    check(5, &["a stale message", "a late sender was vacating the slot"], || {
        let world = World::new();
        ends_and_begins(world, vec![Box::new(|| world.send_control(1, 10))]);
        world.close(&[(2, 20)], &[(1, 10)]);
    });
}

/// One wake is late.
#[test]
fn a_late_wake() {
    check(5, &["took the token", "a late sender was vacating the slot"], || {
        let world = World::new();
        ends_and_begins(world, vec![Box::new(|| world.slot.wake(1))]);
        world.close(&[(2, 20)], &[]);
    });
}

/// Two senders are late. The one that takes the token must turn the other's envelope into a dead letter.
#[test]
fn two_late_envelopes() {
    check(deep(1, 2), &LATE, || {
        let world = World::new();
        ends_and_begins(world, vec![Box::new(|| world.send(1, 10)), Box::new(|| world.post(1, 11))]);
        world.close(&[(1, 10), (1, 11), (2, 20)], &[]);
    });
}

/// Three senders are late, and nodes move between threads. A sender that has its message back and is still vacating the
/// slot may find that its own node is in use again, for another sender's envelope.
#[test]
fn three_late_messages() {
    check(deep(1, 2), &["had its own message back", "dead letter"], || {
        node_pool::share();
        let world = World::new();
        world.host.end(world.open());
        // Mirrors `Slot::send` after it has found the process alive.
        let send = |number: u32| {
            let node = node_pool::message(1, number, ptr::null_mut());
            let mine = node.as_ptr();
            if world.slot.lanes.push_data(node, || 0, |_| ()) == Claim::Vacant {
                // SAFETY: the push has taken the token.
                let token = unsafe { Token::from_raw(NonNull::from(world.slot)) };
                let back = token.empty_and_park(Some(mine)).map(|envelope| self::number(envelope.payload));
                assert_eq!(back, Some(number), "each sender has its own message back");
                reach("had its own message back");
            }
        };
        let others = [10, 11].map(|number| thread::spawn(move || send(number)));
        send(12);
        others.into_iter().for_each(|other| other.join().unwrap());
    });
}

/// A process is killed, its slot is reused, and a control for the first incarnation arrives, all while the thread that
/// parked the token performs its second check. If that thread then takes the token back, the token belongs to another
/// incarnation.
fn killed_while_parking(with_control: bool) {
    let world = World::new();
    let first = world.open();
    let killer = thread::spawn(|| {
        world.send_control(1, KILL);
        world.spawn_again();
    });
    let late = with_control.then(|| thread::spawn(|| world.send_control(1, 10)));
    world.park_new(first);
    late.into_iter().for_each(|late| late.join().unwrap());
    killer.join().unwrap();
    if world.slot.living().is_none() {
        world.spawn_again();
    }
    let controls = [(1, KILL), (1, 10)];
    world.close(&[], if with_control { &controls } else { &controls[..1] });
}

#[test]
fn killed() {
    check(6, &["took the token", "spawned again"], || killed_while_parking(false));
}

/// At five preemptions the model finds the mutant `park-keeps-a-reclaimed-token`, which vacates the slot with a token
/// that it has taken back. At four it does not.
#[test]
fn killed_with_a_late_control() {
    check(deep(4, 5), &["took the token", "spawned again", "a late sender was vacating the slot"], || {
        killed_while_parking(true)
    });
}

#[test]
#[should_panic = "another incarnation"]
fn fault_any_generation() {
    fault::with(ANY_GENERATION, a_late_envelope);
}

#[test]
#[should_panic]
fn fault_not_closed() {
    fault::with(NOT_CLOSED, a_late_envelope);
}

#[test]
#[should_panic]
fn fault_parked_idle() {
    fault::with(PARKED_IDLE, a_late_envelope);
}

#[test]
#[should_panic]
fn fault_torn_compare() {
    fault::with(Fault::TornCompare, a_late_envelope);
}

#[test]
#[should_panic]
fn fault_no_single_order() {
    fault::with(Fault::NoSingleOrder, a_late_control);
}

/// A sender that has seen the process alive pushes only after the exit was reported.
#[test]
#[should_panic]
fn fault_notified_first() {
    fault::with(NOTIFIED_FIRST, a_dead_letter_precedes_the_notification);
}
