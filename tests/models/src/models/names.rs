//! The names of a host (`names/table.rs`, over `links/registrations.rs`). The alias of a name is valid for as long as a
//! process has the name. Some aliases of free names are kept as well, up to a fixed number, which is one in this model.
//!
//! Not covered: the liveness of processes and the table of aliases, which are stand-ins here; more than one kept alias.

use crate::check::{check, keep, reach};
use crate::exit::ExitReason;
use crate::links::registrations::REGISTRATIONS;
use crate::names::name::Name;
use crate::names::table::Names;
use crate::pid::{NodeId, Pid};
use crate::routing::alias;
use loom::thread;

/// Returns the PID of a process.
fn process(slot: u32) -> Pid {
    Pid::new(NodeId::new(7).expect("a node id"), 1, slot, 1)
}

fn name(text: &'static str) -> Name {
    Name::new(text).expect("a name")
}

/// Names with two aliases. One is the alias of `free`, a name that no process has, and the other is that of `held`,
/// which the first process has.
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
    /// Checks the number of names and aliases at the end of an execution, and that clearing removes all of them.
    fn close(&self, held: usize, addresses: usize) {
        assert_eq!(self.names.count(), (held, addresses), "names and aliases");
        assert_eq!(alias::count(), addresses, "aliases");
        self.names.clear();
        assert_eq!((self.names.count(), alias::count()), ((0, 0), 0));
    }
}

/// A second name becomes free, so the alias of the first free name should be retired. At the same time a process
/// registers the first name.
#[test]
fn a_name_is_given_away_while_it_is_retired() {
    check(6, &["its alias is valid", "retired before"], || {
        let world = world();
        let names = world.names;
        let other = thread::spawn(move || assert_eq!(names.unregister("held"), Some(process(1))));
        names.register(&name("free"), process(2)).expect("it is free");
        other.join().unwrap();
        assert_eq!(names.whereis("free"), Some(process(2)), "who has got the name");
        let serves = alias::lives(world.free);
        reach(if serves { "its alias is valid" } else { "retired before" });
        // The alias of the name that has become free is kept.
        assert!(alias::lives(world.held));
        world.close(1, 1 + usize::from(serves));
    });
}

/// Like the test above, but the process loses the name again before the alias is retired. The name is then free under
/// another number.
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

/// A process exits while another one registers its name.
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
        assert!(alias::lives(world.held), "a valid alias is retired");
        // If this name was ever free, the other one had been free for longer, and its alias may have been retired.
        world.close(1, 1 + usize::from(alias::lives(world.free)));
    });
}
