//! Properties of a process that an upgrade changes: its type, its protocols, and whether it traps exits.

use super::*;

/// A definition that traps exits and implements a protocol, with messages to link and to report exits.
#[process]
#[derive(Default)]
struct Guard {
    state: Counter,
    exits: usize,
}

#[protocol]
trait Guards {
    fn exits(&self) -> usize;
}

#[process(protocols(Guards))]
impl Guard {
    #[entry]
    fn serve(&mut self) {}

    #[signal]
    fn exit(&mut self, _exit: postroom::Exit) {
        self.exits += 1;
    }

    #[message]
    fn link(&mut self, other: Pid) {
        other.link().unwrap();
    }
}

#[process]
impl Guards for Guard {
    fn exits(&self) -> usize {
        self.exits
    }
}

/// Spawns a process that fails at the first event that it receives.
fn fragile(runtime: &Runtime) -> Pid {
    let fails = act(|events, out| match events.next() {
        Some(Event::Message(_)) => Err(postroom::ProcessError::new("as it was told")),
        _ => {
            out.idle();
            Ok(())
        }
    });
    runtime.spawn_process(fails).start().unwrap()
}

#[test]
fn whether_exits_are_trapped_is_up_to_the_new_definition() {
    soon(|| {
        let runtime = runtime();
        let old = counter(&runtime);
        let guard = old.pid().upgrade(|state: Counter| Guard { state, exits: 0 }).wait().unwrap();
        let first = fragile(&runtime);
        guard.link(first).wait().unwrap();
        runtime.send(first, ()).unwrap();
        eventually(|| guard.exits().wait() == Ok(1));

        let second = fragile(&runtime);
        guard.link(second).wait().unwrap();
        let joined = guard.pid().join();
        guard.pid().upgrade(|guard: Guard| guard.state).wait().unwrap();
        runtime.send(second, ()).unwrap();
        assert!(matches!(joined.wait(), ExitReason::Linked { pid, .. } if pid == second));
    });
}

#[test]
fn the_protocols_of_an_upgraded_process_are_those_of_the_new_definition() {
    soon(|| {
        let runtime = runtime();
        let old = counter(&runtime);
        let pid = old.pid();
        assert!(matches!(runtime.address::<dyn Guards>(pid), Err(AddressError::Protocol { found: "Counter", .. })));
        pid.upgrade(|state: Counter| Guard { state, exits: 4 }).wait().unwrap();
        assert_eq!(runtime.address::<dyn Guards>(pid).unwrap().exits().wait(), Ok(4));
    });
}

#[test]
fn the_type_of_a_hand_written_process_changes_with_its_upgrade() {
    soon(|| {
        struct New;
        impl Process for New {
            fn step(&mut self, events: &mut Events<'_>, out: &mut StepOutput<'_>) -> Result<(), ProcessError> {
                while let Some(event) = events.next() {
                    if let Event::Message(package) = event {
                        let _other = package.answer(|(): ()| "new");
                    }
                }
                out.idle();
                Ok(())
            }
        }
        let runtime = runtime();
        let pid = runtime
            .spawn_process(act(|_, out| {
                out.upgrade(New);
                Ok(())
            }))
            .start()
            .unwrap();
        assert_eq!(Recipient::<(), &'static str>::of(pid).call(()).wait(), Ok("new"));
        assert!(pid.info().unwrap().process.contains("New"));
    });
}

#[test]
fn the_type_of_an_upgraded_process_is_the_new_one() {
    soon(|| {
        let runtime = runtime();
        let old = counter(&runtime);
        let new = better(old);
        let pid = new.pid();
        assert_eq!(runtime.address::<Better>(pid), Ok(new));
        let error = AddressError::Type { pid, expected: "Counter", found: "Better" };
        assert_eq!(runtime.address::<Counter>(pid), Err(error));
        assert_eq!(pid.info().unwrap().process, Better::NAME);
    });
}
