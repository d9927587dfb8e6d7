//! The re-use of slots (`slots/slot` over `mailbox/lanes.rs`): a process ends, late senders come, another one begins.
//!
//! Every envelope is accounted for once: handled by the life that it was sent to, refused to its sender, or a dead
//! letter; every control is handled by its life or counted as late. Nothing reaches another life, and one thread at a
//! time is in the process or at its grave.
//!
//! The slot and its token are production code. The driver takes the steps of `engine/sched/step.rs` (`turn`),
//! `engine/lifecycle/exit.rs` and `engine/lifecycle/spawn.rs`; whoever takes a token runs it at once, on its own
//! thread, where production puts it into a queue, which orders more.
//!
//! Not covered: the directory's lists (there is one slot, which everyone knows), callers in envelopes, more than two
//! lives.

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
use crate::slots::{Schedule, SendRefusal, Slot, SlotHost, SlotOwner, TABLE, Token};
use crate::sync::{Ordering, OwnedCell};
use loom::thread;
use std::ptr::{self, NonNull};
use std::sync::Mutex;

/// A receiver takes envelopes of any generation.
const ANY_GENERATION: Fault = Fault::Driver(0);
/// A life ends without being closed first.
const NOT_CLOSED: Fault = Fault::Driver(1);
/// Whoever ends a process leaves its slot undead: the token is parked as idle.
const LAID_IDLE: Fault = Fault::Driver(2);
/// The end is told before the token is parked.
const TOLD_FIRST: Fault = Fault::Driver(3);

/// The control that ends a process.
const KILL: u32 = 99;

/// What became of what was sent. Not seen by loom: it orders nothing.
#[derive(Default)]
struct Log {
    /// Life and number.
    handled: Vec<(u64, u32)>,
    refused: Vec<u32>,
    dead: Vec<u32>,
    /// How many lives have ended.
    ended: u64,
    /// Whether those who wait for the first end have been told.
    told: bool,
    /// How many envelopes became dead letters after that.
    dead_late: u32,
}

struct World {
    slot: &'static Slot,
    home: &'static SlotOwner,
    keeper: &'static Host,
}

struct Host {
    log: Mutex<Log>,
    /// Only the token's holder touches it: a race if two hold it.
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
    fn dead_letter(&self, envelope: DeadLetter) {
        reach("dead letter");
        let mut log = self.log.lock().unwrap();
        log.dead_late += u32::from(log.told);
        log.dead.push(number(Some(envelope.message)));
    }
}

impl Schedule for Host {
    fn wake(&'static self, token: Token) {
        reach("took the token");
        self.turn(token);
    }
}

impl SlotHost for Host {}

impl Host {
    fn enter(&self) {
        // SAFETY: the caller holds the token, and loom checks it.
        self.inside.with_mut(|inside| unsafe { *inside += 1 });
    }

    /// `Context::turn`.
    fn turn(&self, mut token: Token) {
        let pid = token.pid().expect("a token that is scheduled is that of a living process");
        let mut body = token.body().take().expect("and its process is there");
        loop {
            assert_eq!(token.pid(), Some(pid), "the token is still that of this life");
            if self.step(&mut token, pid.generation()) {
                drop(body);
                self.end(token);
                return;
            }
            if !token.lanes().is_data_empty() {
                // A sender is half done: production puts the process back in line.
                thread::yield_now();
                continue;
            }
            *token.body() = Some(body);
            let Some(held) = token.park_idle() else { return };
            token = held;
            body = token.body().take().expect("the token was never let go");
        }
    }

    /// `Context::step`. Gives whether the process ends.
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
                reach("a stranger");
                token.dead_letter(envelope, DeadLetterReason::Ended, &ExitReason::NoProcess);
                continue;
            }
            let meant = envelope.generation;
            let number = number(envelope.payload);
            assert_eq!(meant, generation, "an envelope of another life was seen");
            ends |= number == KILL;
            self.log.lock().unwrap().handled.push((generation, number));
        }
        ends
    }

    /// `engine/lifecycle/exit.rs`.
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
            if fault::is(TOLD_FIRST) {
                self.log.lock().unwrap().told = true;
            }
            if fault::is(LAID_IDLE) {
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
        (log.told, log.ended) = (true, log.ended + 1);
        drop(log);
        TABLE.free(0);
    }
}

impl World {
    fn new() -> &'static Self {
        let keeper = keep(Host { log: Mutex::default(), inside: OwnedCell::new(0) });
        let node = NodeId::new(7).expect("a node id");
        let home = keep(SlotOwner::new(keeper, node, 1));
        keep(Self { slot: keep(Slot::unused(0)), home, keeper })
    }

    /// `Host::spawn`, once a slot's token has been taken.
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
        self.keeper.enter();
        *token.body() = Some(Body::new(Actor));
        token
    }

    /// Lays the token of a process that has just been spawned down.
    fn begin(&self, token: Token) {
        if let Some(token) = token.park_idle() {
            self.keeper.turn(token);
        }
    }

    /// Begins the second life, if the first has ended.
    fn begin_again(&self) {
        if self.keeper.log.lock().unwrap().ended == 1 {
            reach("begun again");
            self.begin(self.open());
        }
    }

    /// The PID that the process of that life has, or has had.
    fn pid(&self, generation: u64) -> Pid {
        self.home.pid(self.slot.index(), generation)
    }

    /// A message, as processes send it.
    fn send(&self, generation: u64, number: u32) {
        if let Err((number, _)) = self.slot.send(self.pid(generation), number) {
            reach("refused");
            self.keeper.log.lock().unwrap().refused.push(number);
        }
    }

    /// The same as an envelope, as packages are sent.
    fn post(&self, generation: u64, number: u32) {
        let sent =
            self.slot.enqueue(NodeKind::Message, self.pid(generation), ptr::null_mut(), Some(Payload::new(number)));
        if let Err(refusal) = sent {
            let SendRefusal(Envelope { payload, .. }, _) = *refusal;
            reach("refused");
            self.keeper.log.lock().unwrap().refused.push(self::number(payload));
        }
    }

    fn send_control(&self, generation: u64, number: u32) {
        self.slot.post_control(
            node_pool::empty(),
            NodeKind::Completed,
            generation,
            ptr::null_mut(),
            Some(Payload::new(number)),
        );
    }

    /// All are done, the second life is idle: checks that `envelopes` and `controls`, each with the life that it was
    /// sent to, are accounted for.
    fn close(&self, envelopes: &[(u64, u32)], controls: &[(u64, u32)]) {
        assert_eq!(self.slot.lanes.claim(), Claim::Process, "the token is laid down");
        // SAFETY: this is the token.
        assert!(unsafe { self.slot.lanes.is_data_empty() } && !self.slot.lanes.has_control(), "something was left");
        assert_eq!(self.slot.living(), Some(2));
        let log = std::mem::take(&mut *self.keeper.log.lock().unwrap());
        assert_eq!((log.ended, TABLE.freed()), (1, 1), "one life ended, and its slot was given back once");
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
        let late = self.home.late.load(Ordering::Relaxed);
        assert_eq!(handled + late, controls.len() as u64, "a control was lost or doubled");
        assert_eq!(
            log.handled.len() as u64,
            handled + log.handled.iter().filter(|handled| envelopes.contains(handled)).count() as u64
        );
    }
}

/// A process ends and another one begins in its slot while `late` senders send to the first; the second gets an
/// envelope.
fn ends_and_begins(world: &'static World, late: Vec<Box<dyn FnOnce() + Send>>) {
    let first = world.open();
    let late: Vec<_> = late.into_iter().map(|late| thread::spawn(late)).collect();
    world.keeper.end(first);
    let second = world.open();
    world.begin(second);
    world.send(2, 20);
    late.into_iter().for_each(|late| late.join().unwrap());
}

const LATE: [&str; 5] =
    ["refused", "dead letter", "a stranger", "a late sender was at the grave", "refused at the end"];

/// An envelope comes late.
#[test]
fn a_late_letter() {
    check(4, &LATE, || {
        let world = World::new();
        ends_and_begins(world, vec![Box::new(|| world.post(1, 10))]);
        world.close(&[(1, 10), (2, 20)], &[]);
    });
}

/// A message comes late: it is refused, or a dead letter before the end is told. (Where two come late, or another
/// process has begun in the slot by then, it may be a dead letter after that: see `engine/lifecycle/exit.rs`.)
#[test]
fn a_dead_letter_is_not_late() {
    check(6, &["refused", "dead letter", "refused at the end"], || {
        let world = World::new();
        let first = world.open();
        let late = thread::spawn(|| world.send(1, 10));
        world.keeper.end(first);
        late.join().unwrap();
        let log = std::mem::take(&mut *world.keeper.log.lock().unwrap());
        assert_eq!(log.dead_late, 0, "a dead letter came after the end had been told");
        assert_eq!(log.refused.len() + log.dead.len(), 1, "it is refused, or a dead letter");
        assert_eq!((world.slot.lanes.claim(), TABLE.freed()), (Claim::Vacant, 1));
    });
}

/// A message comes late.
#[test]
fn a_late_message() {
    check(deep(4, 5), &LATE, || {
        let world = World::new();
        ends_and_begins(world, vec![Box::new(|| world.send(1, 10))]);
        world.close(&[(1, 10), (2, 20)], &[]);
    });
}

/// A message and a control come late, and meet at a grave that neither an envelope nor a node lies in.
#[test]
fn a_late_message_and_a_late_control() {
    check(deep(1, 2), &LATE, || {
        let world = World::new();
        ends_and_begins(world, vec![Box::new(|| world.send(1, 10)), Box::new(|| world.send_control(1, 11))]);
        world.close(&[(1, 10), (2, 20)], &[(1, 11)]);
    });
}

/// A control comes late.
#[test]
fn a_late_control() {
    check(5, &["a stranger", "a late sender was at the grave"], || {
        let world = World::new();
        ends_and_begins(world, vec![Box::new(|| world.send_control(1, 10))]);
        world.close(&[(2, 20)], &[(1, 10)]);
    });
}

/// A wake comes late.
#[test]
fn a_late_wake() {
    check(5, &["took the token", "a late sender was at the grave"], || {
        let world = World::new();
        ends_and_begins(world, vec![Box::new(|| world.slot.wake(1))]);
        world.close(&[(2, 20)], &[]);
    });
}

/// Two envelopes of two senders come late: the one that has the token must give the other's the way of dead letters.
#[test]
fn two_late_letters() {
    check(deep(1, 2), &LATE, || {
        let world = World::new();
        ends_and_begins(world, vec![Box::new(|| world.send(1, 10)), Box::new(|| world.post(1, 11))]);
        world.close(&[(1, 10), (1, 11), (2, 20)], &[]);
    });
}

/// Three late senders, the nodes of which go from thread to thread: one that has its envelope back, and still buries,
/// may meet its node with another's envelope in it.
#[test]
fn three_late_messages() {
    check(deep(1, 2), &["had its own back", "dead letter"], || {
        node_pool::share();
        let world = World::new();
        world.keeper.end(world.open());
        // `Slot::send`, once it has found the process alive.
        let send = |number: u32| {
            let node = node_pool::message(1, number, ptr::null_mut());
            let mine = node.as_ptr();
            if world.slot.lanes.push_data(node, || 0, || ()) == Claim::Vacant {
                // SAFETY: the push has taken the token.
                let token = unsafe { Token::from_raw(NonNull::from(world.slot)) };
                let back = token.empty_and_park(Some(mine)).map(|envelope| self::number(envelope.payload));
                assert_eq!(back, Some(number), "each sender has its own message back");
                reach("had its own back");
            }
        };
        let others = [10, 11].map(|number| thread::spawn(move || send(number)));
        send(12);
        others.into_iter().for_each(|other| other.join().unwrap());
    });
}

/// A process is killed, its slot is used again, and a control for the first life comes, all while the thread that laid
/// its token down looks back: the token that it takes back is that of another life.
fn killed_while_laid_down(with_control: bool) {
    let world = World::new();
    let first = world.open();
    let killer = thread::spawn(|| {
        world.send_control(1, KILL);
        world.begin_again();
    });
    let late = with_control.then(|| thread::spawn(|| world.send_control(1, 10)));
    world.begin(first);
    late.into_iter().for_each(|late| late.join().unwrap());
    killer.join().unwrap();
    if world.slot.living().is_none() {
        world.begin_again();
    }
    let controls = [(1, KILL), (1, 10)];
    world.close(&[], if with_control { &controls } else { &controls[..1] });
}

#[test]
fn killed() {
    check(6, &["took the token", "begun again"], || killed_while_laid_down(false));
}

/// With four preemptions a burial that goes on with a fresh token (`empty_and_park-keeps-a-fresh-token`) is not found,
/// with five it is.
#[test]
fn killed_with_a_late_control() {
    check(deep(4, 5), &["took the token", "begun again", "a late sender was at the grave"], || {
        killed_while_laid_down(true)
    });
}

#[test]
#[should_panic = "another life"]
fn fault_any_generation() {
    fault::with(ANY_GENERATION, a_late_letter);
}

#[test]
#[should_panic]
fn fault_not_closed() {
    fault::with(NOT_CLOSED, a_late_letter);
}

#[test]
#[should_panic]
fn fault_laid_idle() {
    fault::with(LAID_IDLE, a_late_letter);
}

#[test]
#[should_panic]
fn fault_torn_compare() {
    fault::with(Fault::TornCompare, a_late_letter);
}

#[test]
#[should_panic]
fn fault_no_single_order() {
    fault::with(Fault::NoSingleOrder, a_late_control);
}

/// A sender that has seen the process alive pushes when the end has been told already.
#[test]
#[should_panic]
fn fault_told_first() {
    fault::with(TOLD_FIRST, a_dead_letter_is_not_late);
}
