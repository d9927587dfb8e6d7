//! The names of a host (`names.rs`, over `registrations.rs`): an address that goes by a name serves for as long as a
//! process has the name, and of those whose names are free as many are kept as should be: here one.
//!
//! Not covered: who lives and the table of aliases (stand-ins); more than one alias that is kept.

use crate::check::{check, keep, reach};
use crate::exit::ExitReason;
use crate::links::registrations::REGISTRATIONS;
use crate::names::name::Name;
use crate::names::table::Names;
use crate::pid::{NodeId, Pid};
use crate::routing::alias;
use loom::thread;

/// A process.
fn process(slot: u32) -> Pid {
    Pid::new(NodeId::new(7).expect("a node id"), 1, slot, 1)
}

fn name(text: &'static str) -> Name {
    Name::new(text).expect("a name")
}

/// Names, with an address for `free`, which no process has, and one for `held`, which the first process has.
struct World {
    names: &'static Names,
    free: Pid,
    held: Pid,
}

fn world() -> World {
    let names = keep(Names::of(1));
    names.register(&name("held"), process(1)).expect("it is free");
    let held = names.alias(&name("held"));
    World { names, free: names.alias(&name("free")), held }
}

impl World {
    /// All are done: so many names are held, and there are so many addresses. They are all given back.
    fn close(&self, held: usize, addresses: usize) {
        assert_eq!(self.names.count(), (held, addresses), "names and addresses");
        assert_eq!(alias::count(), addresses, "aliases");
        self.names.clear();
        assert_eq!((self.names.count(), alias::count()), ((0, 0), 0));
    }
}

/// The name that has been free for the longest time is to be retired, since another one falls free, and a process gets
/// it at the same time.
#[test]
fn a_name_is_given_away_while_it_is_retired() {
    check(6, &["its address serves", "retired before"], || {
        let world = world();
        let names = world.names;
        let other = thread::spawn(move || assert_eq!(names.unregister("held"), Some(process(1))));
        names.register(&name("free"), process(2)).expect("it is free");
        other.join().unwrap();
        assert_eq!(names.whereis("free"), Some(process(2)), "who has got the name");
        let serves = alias::lives(world.free);
        reach(if serves { "its address serves" } else { "retired before" });
        // That of the one that has fallen free is kept.
        assert!(alias::lives(world.held));
        world.close(1, 1 + usize::from(serves));
    });
}

/// The same, and the process loses the name again before it is retired: it is free under another number.
#[test]
fn a_name_is_given_away_and_falls_free_again_while_it_is_retired() {
    check(6, &["it is kept", "the other is kept"], || {
        let world = world();
        let names = world.names;
        let other = thread::spawn(move || assert_eq!(names.unregister("held"), Some(process(1))));
        names.register(&name("free"), process(2)).expect("it is free");
        assert_eq!(names.unregister("free"), Some(process(2)));
        other.join().unwrap();
        reach(if alias::lives(world.free) { "it is kept" } else { "the other is kept" });
        world.close(0, 1);
    });
}

/// A process ends while another one gets its name.
#[test]
fn a_name_is_given_away_while_its_process_ends() {
    check(6, &["refused", "taken over"], || {
        let world = world();
        let names = world.names;
        let end = thread::spawn(move || {
            alias::end(process(1));
            REGISTRATIONS.end(process(1), &ExitReason::Normal);
        });
        let mut next = names.register(&name("held"), process(2));
        reach(if next.is_err() { "refused" } else { "taken over" });
        end.join().unwrap();
        if next.is_err() {
            next = names.register(&name("held"), process(2));
        }
        assert!(next.is_ok(), "the one before has ended");
        assert_eq!(names.whereis("held"), Some(process(2)), "who has got the name");
        assert!(alias::lives(world.held), "an address is retired");
        // That of the other name has been free for longer than this one, if this one was free at all.
        world.close(1, 1 + usize::from(alias::lives(world.free)));
    });
}
