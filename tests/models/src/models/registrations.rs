//! Registrations that end with a process (`links/registrations.rs`, over `slots/slot` for liveness). A registrant adds
//! a process while that process exits and its slot is reused.
//!
//! In the end no registration of the exited process is left in the table, in the cell that counts it, or with the
//! registrant. The registration of the next process in the slot is unaffected.
//!
//! The registrant is a stand-in for `names/table.rs` with one name. It follows the rule that a registrant changes its
//! members under its own lock. The driver repeats the steps of `engine/lifecycle/exit.rs`.
//!
//! Not covered: groups (they follow the same rule), more than one cell or shard, envelopes to an exited process.

use crate::call::dead_letter::{DeadLetter, Sink};
use crate::check::{check, keep, reach};
use crate::env::clock::TimeKeeper;
use crate::exit::ExitReason;
use crate::fault::{self, Fault};
use crate::links::registrations::{Registrant, Registration, Registrations};
use crate::pid::{NodeId, Pid};
use crate::slots::{Schedule, Slot, SlotHost, SlotOwner, TABLE, Token};
use crate::sync::{Mutex, lock};
use loom::thread;
use std::sync::Arc;

/// A planted fault: a process exits without notifying its registrants.
const NOT_NOTIFIED: Fault = Fault::Driver(0);
/// A planted fault: a process notifies its registrants before its incarnation is closed.
const NOTIFIED_TOO_EARLY: Fault = Fault::Driver(1);

struct Silent;

impl Sink for Silent {
    fn dead_letter(&'static self, _: DeadLetter) {
        unreachable!("nothing is sent")
    }
}

impl Schedule for Silent {
    fn wake(&'static self, _: Token) {
        unreachable!("nothing is sent")
    }
}

impl SlotHost for Silent {}

impl TimeKeeper for Silent {}

struct World {
    registrations: Registrations,
    slot: &'static Slot,
    owner: &'static SlotOwner,
    /// The process that has the name.
    holder: Mutex<Option<(Pid, Registration)>>,
}

/// The only name, as the registrant of its holder.
struct Name(&'static World);

impl Registrant for Name {
    fn ended(&self, pid: Pid, _: &ExitReason) {
        let mut holder = lock(&self.0.holder);
        let has_it = holder.as_ref().is_some_and(|(holder, _)| *holder == pid);
        reach(if has_it { "freed by the exit" } else { "the exit of a process without the name" });
        if has_it {
            *holder = None;
        }
    }

    fn directory(&self) -> usize {
        1
    }
}

impl World {
    fn new() -> &'static Self {
        let owner = keep(SlotOwner::new(keep(Silent), NodeId::new(7).expect("a node id"), 1));
        let (registrations, slot) = (Registrations::new(), keep(Slot::unused(0)));
        keep(Self { registrations, slot, owner, holder: Mutex::new(None) })
    }

    /// Spawns a process in the slot.
    fn open(&self) -> (Token, Pid) {
        let mut token = Token::claim_free(self.slot).expect("no sender is late");
        let pid = token.open(self.owner);
        (token, pid)
    }

    /// Mirrors `engine/lifecycle/exit.rs`.
    fn end(&self, mut token: Token, pid: Pid) {
        if fault::is(NOTIFIED_TOO_EARLY) {
            self.registrations.end(pid, &ExitReason::Normal);
            token.close();
        } else {
            token.close();
            if !fault::is(NOT_NOTIFIED) {
                self.registrations.end(pid, &ExitReason::Normal);
            }
        }
        TABLE.take_back(token);
    }

    fn is_alive(&self, pid: Pid) -> bool {
        self.slot.is_living_in_order(pid.generation())
    }

    /// Mirrors `Names::register`. Returns whether `pid` has the name.
    fn register(&'static self, pid: Pid) -> bool {
        let mut holder = lock(&self.holder);
        if let Some((other, _)) = holder.as_ref()
            && self.is_alive(*other)
        {
            return *other == pid;
        }
        let Some(registration) = self.registrations.add(pid, Arc::new(Name(self)), |pid| self.is_alive(pid)) else {
            reach("refused");
            return false;
        };
        reach("registered");
        *holder = Some((pid, registration));
        true
    }

    /// Mirrors `Names::unregister`.
    fn unregister(&self) {
        let mut holder = lock(&self.holder);
        if let Some((pid, registration)) = holder.take() {
            self.registrations.remove(pid, &registration);
        }
    }

    /// Checks at the end of an execution that `holder` has the name, and that no other process has a registration.
    fn close(&self, holder: Option<Pid>) {
        assert_eq!(lock(&self.holder).as_ref().map(|(pid, _)| *pid), holder, "who has the name");
        let registrations = usize::from(holder.is_some());
        assert_eq!(self.registrations.count(&[1]), registrations, "registrations");
        assert_eq!(self.registrations.counted() as usize, registrations, "registrations, in their cell");
        // The registration must be dropped before the name.
        self.unregister();
        assert_eq!((self.registrations.count(&[1]), self.registrations.counted()), (0, 0));
    }
}

/// A process is given a name while it exits.
#[test]
fn a_name_for_an_exiting_process() {
    check(6, &["registered", "refused", "freed by the exit", "the exit of a process without the name"], || {
        let world = World::new();
        let (token, pid) = world.open();
        let namer = thread::spawn(move || world.register(pid));
        world.end(token, pid);
        namer.join().unwrap();
        world.close(None);
    });
}

/// A process is given a name, loses it and is given it again while it exits.
#[test]
fn a_name_given_and_taken_while_its_process_exits() {
    check(4, &["registered", "refused", "freed by the exit"], || {
        let world = World::new();
        let (token, pid) = world.open();
        let namer = thread::spawn(move || {
            world.register(pid);
            world.unregister();
            world.register(pid);
        });
        world.end(token, pid);
        namer.join().unwrap();
        world.close(None);
    });
}

/// Two threads register the name for a process that exits.
#[test]
fn two_registrations_of_an_exiting_process() {
    check(3, &["registered", "refused", "freed by the exit"], || {
        let world = World::new();
        let (token, pid) = world.open();
        let namers = [(); 2].map(|()| thread::spawn(move || world.register(pid)));
        world.end(token, pid);
        namers.into_iter().for_each(|namer| {
            let _taken = namer.join().unwrap();
        });
        world.close(None);
    });
}

/// The name is registered for a process that exits, and for the next process in its slot.
#[test]
fn a_name_for_an_exiting_process_and_for_the_next_in_its_slot() {
    check(4, &["registered", "refused", "freed by the exit"], || {
        let world = World::new();
        let (token, pid) = world.open();
        let namer = thread::spawn(move || world.register(pid));
        world.end(token, pid);
        let (token, next) = world.open();
        assert!(world.register(next), "the one before has ended");
        namer.join().unwrap();
        world.close(Some(next));
        world.end(token, next);
        world.close(None);
    });
}

/// Without a single order of the count, the close and both checks, an exited process could keep its name.
#[test]
#[should_panic]
fn fault_no_single_order() {
    fault::with(Fault::NoSingleOrder, a_name_for_an_exiting_process);
}

#[test]
#[should_panic]
fn fault_not_notified() {
    fault::with(NOT_NOTIFIED, a_name_for_an_exiting_process);
}

#[test]
#[should_panic]
fn fault_notified_too_early() {
    fault::with(NOTIFIED_TOO_EARLY, a_name_for_an_exiting_process);
}
