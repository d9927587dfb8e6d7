//! The log lines of the runtime, field by field; and that the program's own panic hook still runs.

use postroom::prelude::*;
use postroom::supervision::Backoff;
use postroom::{ChildSpawn, ProcessError};
use postroom_tests::{act, eventually, logged, soon};
use std::fmt;
use std::panic::Location;
use std::sync::{Mutex, Once};
use std::time::Duration;
use tracing::span::{Attributes, Id, Record};
use tracing::{Metadata, Subscriber};

/// The panics that the program's own hook has received.
static HEARD: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// Sets a subscriber and a panic hook, as a program does before its first runtime.
fn runtime() -> Runtime {
    static SET: Once = Once::new();
    SET.call_once(|| {
        let _from_here_on = logged("");
        let print = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            print(info);
            let place = info.location().map(Location::line).unwrap_or_default();
            HEARD.lock().unwrap().push(format!("{} at {place}", info.payload_as_str().unwrap_or_default()));
        }));
    });
    Runtime::new().unwrap()
}

#[process]
struct Clerk;

#[process]
impl Clerk {
    #[entry]
    fn serve(&mut self) {}

    #[message]
    fn panic(&mut self, what: String) {
        panic!("{what}")
    }
}

/// Returns the names of the fields of a line.
fn fields(line: &str) -> Vec<&str> {
    let words = line.split(' ').skip(2);
    words.filter_map(|word| word.split_once('=')).map(|(name, _)| name).filter(|name| !name.contains('"')).collect()
}

/// Waits for the only line about `pid` and returns it. Its field names must be distinct, where `message` is the event's
/// text: a subscriber that writes JSON would otherwise write a key twice. (Catches a field `message` beside the text.)
fn only_line(pid: Pid) -> String {
    eventually(|| !logged(&pid.to_string()).is_empty());
    let lines = logged(&pid.to_string());
    let [line] = lines.as_slice() else { panic!("one line about {pid}, not {lines:#?}") };
    let names = fields(line);
    let mut different = names.clone();
    different.sort_unstable();
    different.dedup();
    assert_eq!(different.len(), names.len(), "{line}");
    assert!(!line.contains("Some("), "a value, not how Rust writes that there is one: {line}");
    line.clone()
}

/// Catches the text of a panic in the event's own text; a missing label; a target that names a module of the runtime.
#[test]
fn a_panic_is_logged_with_its_location_its_code_and_the_label() {
    soon(|| {
        let runtime = runtime();
        let clerk = runtime.spawn(Clerk).label("window 7").serve().unwrap();
        assert!(clerk.panic("no-more-ink".into()).wait().is_err());
        let line = only_line(clerk.pid());
        let (start, pid) = ("ERROR postroom ", format!(" pid={}", clerk.pid()));
        assert!(line.starts_with(start) && line.contains(&pid), "{line}");
        for field in [
            " message=process panicked",
            " process=\"Clerk\"",
            " entry=\"serve\"",
            " label=\"window 7\"",
            " panic=no-more-ink",
            " place=tests/logs.rs:",
            "::ClerkPanic\"",
        ] {
            assert!(line.contains(field), "{field} in {line}");
        }
        assert!(fields(&line).contains(&"message_type"), "{line}");
    });
}

/// Catches a runtime that removes the program's own hook, and with it the report of panics and backtraces, if there is
/// a subscriber.
#[test]
fn the_programs_panic_hook_runs_once_for_each_panic_also_with_a_subscriber() {
    soon(|| {
        let runtime = runtime();
        let clerk = runtime.spawn(Clerk).serve().unwrap();
        assert!(clerk.panic("out-of-stamps".into()).wait().is_err());
        let heard = HEARD.lock().unwrap();
        assert_eq!(heard.iter().filter(|panic| panic.starts_with("out-of-stamps at ")).count(), 1, "{heard:#?}");
    });
}

/// Catches a failure that is logged without the label.
#[test]
fn a_process_that_fails_is_logged_with_its_reason_and_its_label() {
    soon(|| {
        let runtime = runtime();
        let failing = act(|_, _| Err(ProcessError::new("closed-early")));
        let line = only_line(runtime.spawn_process(failing).label("window 8").start().unwrap());
        assert!(line.starts_with("WARN postroom message=process failed"), "{line}");
        assert!(line.contains("closed-early") && line.contains(" label=\"window 8\""), "{line}");
    });
}

/// Catches a message that its process has no method for, which is a bug in the program, being logged below `warn`.
#[test]
fn a_message_of_a_type_that_has_no_method_is_warned_of() {
    soon(|| {
        let runtime = runtime();
        let clerk = runtime.spawn(Clerk).serve().unwrap();
        runtime.send(clerk.pid(), 1_u16).unwrap();
        let line = only_line(clerk.pid());
        assert!(line.starts_with("WARN postroom ") && line.contains(" message_type=\"u16\""), "{line}");
        assert!(line.contains("no method for its type") && line.contains(&format!(" to={}", clerk.pid())), "{line}");
    });
}

/// An error whose `Display` panics.
#[derive(Debug)]
struct Unspeakable;

impl fmt::Display for Unspeakable {
    fn fmt(&self, _: &mut fmt::Formatter<'_>) -> fmt::Result {
        panic!("not to be said")
    }
}

impl std::error::Error for Unspeakable {}

/// Spawns a process that fails with that error at its first message.
fn unspeakable(spawn: ChildSpawn) -> Result<Pid, SpawnError> {
    let fails = act(|events, _| events.next().map_or(Ok(()), |_| Err(ProcessError::new(Unspeakable))));
    spawn.process(fails).start()
}

/// Catches a supervisor that fails because it cannot log why its child failed.
#[test]
fn a_supervisor_survives_a_failure_that_cannot_be_displayed() {
    soon(|| {
        let runtime = runtime();
        let tree =
            Supervisor::one_for_one().backoff(Backoff::none()).child("mute", unspeakable).spawn(&runtime).unwrap();
        let child = tree.child_pid("mute").unwrap();
        runtime.send(child, 1).unwrap();
        eventually(|| tree.children()[0].restarts == 1);
        let line = only_line(tree.pid());
        assert!(line.contains("a child failed and is restarted") && line.contains("not to be said"), "{line}");
        assert!(tree.pid().is_alive());
    });
}

/// Catches a line that calls a normal exit a failure.
#[test]
fn a_permanent_child_that_finishes_is_logged_as_ended_with_the_way_to_say_so() {
    soon(|| {
        let runtime = runtime();
        let ends = |spawn: ChildSpawn| {
            spawn
                .process(act(|events, out| {
                    if events.next().is_some() {
                        out.done();
                    }
                    Ok(())
                }))
                .start()
        };
        let tree = Supervisor::one_for_one()
            .intensity(1, Duration::from_secs(3_600))
            .backoff(Backoff::none())
            .child("brief", ends);
        let tree = tree.spawn(&runtime).unwrap();
        runtime.send(tree.child_pid("brief").unwrap(), 1).unwrap();
        eventually(|| tree.children()[0].restarts == 1);
        let line = only_line(tree.pid());
        assert!(line.contains("ended and is started again") && line.contains(".transient()"), "{line}");
        let end = tree.pid().join();
        // The restart is counted before its process serves.
        eventually(|| runtime.send(tree.child_pid("brief").unwrap(), 1).is_ok());
        let end = end.wait().to_string();
        assert!(end.contains("(normal)") && end.contains("`.transient()`"), "{end}");
    });
}

/// As above for a pool.
#[test]
fn a_pool_survives_a_failure_that_cannot_be_displayed() {
    soon(|| {
        let runtime = runtime();
        let pool = Pool::fixed(1).backoff(Backoff::none()).spawn(&runtime, unspeakable).unwrap();
        runtime.send(pool.pid(), 1).unwrap();
        eventually(|| pool.statistics().started == 2);
        let line = only_line(pool.pid());
        assert!(line.contains("a member of a pool failed") && line.contains("not to be said"), "{line}");
        assert!(pool.pid().is_alive());
    });
}

/// A user's subscriber that panics at each event.
struct Panics;

impl Subscriber for Panics {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, _: &tracing::Event<'_>) {
        panic!("the disk is full")
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

struct Bomb;

impl Drop for Bomb {
    fn drop(&mut self) {
        panic!("dropped")
    }
}

/// Catches the drop of a user's value being logged without a guard, so that a panic of the subscriber unwinds from the
/// function that dropped the last reference; the second of two such drops would abort the program.
#[test]
fn a_subscriber_that_panics_at_the_log_of_a_drop_is_contained() {
    let (one, two) = (Bomb, Bomb);
    let pool = Pool::fixed(1)
        .by_hash(move |number: &u32| {
            let _captured = &one;
            *number
        })
        .by_hash(move |number: &u64| {
            let _captured = &two;
            *number
        });
    tracing::subscriber::with_default(Panics, || drop(pool));
}
