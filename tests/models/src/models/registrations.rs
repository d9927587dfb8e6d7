//! What ends with a process (`registrations.rs`, over `slots/slot` for the life): a registrant takes a member in while
//! that process ends, and its slot goes to another.
//!
//! When all is over, no membership of an ended process is left, neither in the table, nor in its cell, nor with the
//! registrant; and that of the next process in the slot is untouched.
//!
//! The registrant is a stand-in for `names/table.rs`, with one name: it keeps the rule that a registrant changes its
//! members under its own lock. The driver takes the steps of `engine/lifecycle/exit.rs`.
//!
//! Not covered: groups (they keep the same rule), more than one cell and one shard, the envelopes of an ended process.

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

/// A process ends without a word to its registrants.
const UNTOLD: Fault = Fault::Driver(0);
/// A process tells its registrants before its life is closed.
const TOLD_TOO_EARLY: Fault = Fault::Driver(1);

struct Silent;

impl Sink for Silent {
    fn dead_letter(&self, _: DeadLetter) {
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
    home: &'static SlotOwner,
    /// Who has the name.
    holder: Mutex<Option<(Pid, Registration)>>,
}

/// The name, as its holder's membership.
struct Name(&'static World);

impl Registrant for Name {
    fn ended(&self, pid: Pid, _: &ExitReason) {
        let mut holder = lock(&self.0.holder);
        let has_it = holder.as_ref().is_some_and(|(holder, _)| *holder == pid);
        reach(if has_it { "freed by the end" } else { "the end of one that was refused, or has lost it" });
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
        let home = keep(SlotOwner::new(keep(Silent), NodeId::new(7).expect("a node id"), 1));
        let (registrations, slot) = (Registrations::new(), keep(Slot::unused(0)));
        keep(Self { registrations, slot, home, holder: Mutex::new(None) })
    }

    /// A process begins in the slot.
    fn open(&self) -> (Token, Pid) {
        let mut token = Token::claim_free(self.slot).expect("no sender is late");
        let pid = token.open(self.home);
        (token, pid)
    }

    /// `engine/lifecycle/exit.rs`.
    fn end(&self, mut token: Token, pid: Pid) {
        if fault::is(TOLD_TOO_EARLY) {
            self.registrations.end(pid, &ExitReason::Normal);
            token.close();
        } else {
            token.close();
            if !fault::is(UNTOLD) {
                self.registrations.end(pid, &ExitReason::Normal);
            }
        }
        TABLE.take_back(token);
    }

    fn lives(&self, pid: Pid) -> bool {
        self.slot.is_living_in_order(pid.generation())
    }

    /// `Names::register`. Gives whether `pid` has the name.
    fn register(&'static self, pid: Pid) -> bool {
        let mut holder = lock(&self.holder);
        if let Some((other, _)) = holder.as_ref()
            && self.lives(*other)
        {
            return *other == pid;
        }
        let Some(seat) = self.registrations.add(pid, Arc::new(Name(self)), |pid| self.lives(pid)) else {
            reach("refused");
            return false;
        };
        reach("taken in");
        *holder = Some((pid, seat));
        true
    }

    /// `Names::unregister`.
    fn unregister(&self) {
        let mut holder = lock(&self.holder);
        if let Some((pid, seat)) = holder.take() {
            self.registrations.remove(pid, &seat);
        }
    }

    /// All are done: `holder` has the name, and no other process has anything.
    fn close(&self, holder: Option<Pid>) {
        assert_eq!(lock(&self.holder).as_ref().map(|(pid, _)| *pid), holder, "who has the name");
        let registrations = usize::from(holder.is_some());
        assert_eq!(self.registrations.count(&[1]), registrations, "registrations");
        assert_eq!(self.registrations.counted() as usize, registrations, "registrations, in their cell");
        // Dropped before the name goes.
        self.unregister();
        assert_eq!((self.registrations.count(&[1]), self.registrations.counted()), (0, 0));
    }
}

/// A process is given a name while it ends.
#[test]
fn a_name_for_one_that_ends() {
    check(6, &["taken in", "refused", "freed by the end", "the end of one that was refused, or has lost it"], || {
        let world = World::new();
        let (token, pid) = world.open();
        let namer = thread::spawn(move || world.register(pid));
        world.end(token, pid);
        namer.join().unwrap();
        world.close(None);
    });
}

/// A process is given a name, loses it and is given it again while it ends.
#[test]
fn a_name_given_and_taken_from_one_that_ends() {
    check(4, &["taken in", "refused", "freed by the end"], || {
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

/// Two threads want the name for one process that ends.
#[test]
fn two_that_name_one_that_ends() {
    check(3, &["taken in", "refused", "freed by the end"], || {
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

/// The name is wanted for a process that ends, and for the next one in its slot.
#[test]
fn a_name_for_one_that_ends_and_for_the_next_in_its_slot() {
    check(4, &["taken in", "refused", "freed by the end"], || {
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

/// Without one order of the count, the close and both looks, a name is left with the dead.
#[test]
#[should_panic]
fn fault_no_single_order() {
    fault::with(Fault::NoSingleOrder, a_name_for_one_that_ends);
}

#[test]
#[should_panic]
fn fault_untold() {
    fault::with(UNTOLD, a_name_for_one_that_ends);
}

#[test]
#[should_panic]
fn fault_told_too_early() {
    fault::with(TOLD_TOO_EARLY, a_name_for_one_that_ends);
}
