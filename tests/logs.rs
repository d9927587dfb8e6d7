//! The log lines of the runtime, field by field, including those that the guide shows. Another check is that the
//! program's own panic hook still runs. (`postroom_tests::logged` also reads every line back as JSON.)

use postroom::prelude::*;
use postroom::supervision::Backoff;
use postroom::{ChildSpawn, ProcessError};
use postroom_tests::logged::printed;
use postroom_tests::{act, eventually, logged, soon};
use std::fmt;
use std::fs;
use std::panic::Location;
use std::path::Path;
use std::process::Command as Program;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Mutex, Once};
use std::time::Duration;
use tracing::span::{Attributes, Id, Record};
use tracing::{Metadata, Subscriber};

/// The panics that the program's own hook has been called with.
static HEARD: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// Sets a subscriber and a panic hook, as a program does before it starts its first runtime, and returns a runtime.
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

/// Waits for the only line about `pid` and returns it. The names of its fields must be distinct, where the event's text
/// counts as `message`. Otherwise a subscriber that writes JSON would write a key twice. (Catches: a field `message`
/// beside the text.)
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

/// Catches: the text of a panic in the event's own text, a missing label, and a target that names a module of the
/// runtime.
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

/// Catches: a runtime that removes the program's own panic hook if there is a subscriber. The reports of panics and
/// their backtraces would be lost with the hook.
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

/// Catches: a failure that is logged without the label.
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

/// Catches: logging below `warn` that a receiver has no method for a message (which is a bug in the program).
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

/// Returns the value of a field in a line, up to the next space.
fn field<'a>(line: &'a str, name: &str) -> Option<&'a str> {
    let (_, rest) = line.split_once(&format!(" {name}="))?;
    rest.split(' ').next()
}

/// A process that calls another one.
#[process]
struct Writer {
    to: Pid,
}

#[process]
impl Writer {
    #[entry]
    fn serve(&mut self) {}

    /// Calls with a message for which a clerk has no method.
    #[message]
    async fn ask(&mut self) -> bool {
        Recipient::<u32>::of(self.to).call(7).await.is_err()
    }
}

/// Catches: a warning that does not name sender and receiver, with their types and labels.
#[test]
fn a_call_without_a_method_is_warned_of_with_both_ends() {
    soon(|| {
        let runtime = runtime();
        let clerk = runtime.spawn(Clerk).label("window-1").serve().unwrap();
        let writer = runtime.spawn(Writer { to: clerk.pid() }).label("writer-1").serve().unwrap();
        assert_eq!(writer.ask().wait(), Ok(true));
        let line = only_line(clerk.pid());
        for (name, value) in [
            ("to", clerk.pid().to_string()),
            ("process", "\"Clerk\"".to_string()),
            ("label", "\"window-1\"".to_string()),
            ("from", writer.pid().to_string()),
            ("from_process", "\"Writer\"".to_string()),
            ("from_label", "\"writer-1\"".to_string()),
            ("message_type", "\"u32\"".to_string()),
        ] {
            assert_eq!(field(&line, name), Some(&*value), "{line}");
        }
    });
}

/// Catches: a lost message that is logged below `warn`, or without its receiver's type, label or exit reason. Also
/// catches a lost call that is logged at the same level, although its caller has been notified.
#[test]
fn a_lost_message_is_warned_of_with_its_receiver_and_why_that_has_ended() {
    soon(|| {
        let runtime = {
            let _set = runtime();
            Runtime::builder().paused().build().unwrap()
        };
        let clerk = runtime.spawn(Clerk).label("window-2").serve().unwrap();
        clerk.panic("never".into()).send().unwrap();
        let call = std::thread::spawn(move || clerk.panic("never".into()).timeout(Duration::MAX).wait());
        eventually(|| clerk.pid().info().is_some_and(|info| info.mailbox == 2));
        clerk.pid().kill();
        runtime.resume().unwrap();
        assert!(call.join().unwrap().is_err());
        let line = only_line(clerk.pid());
        assert!(line.starts_with("WARN postroom message=a sent message was lost"), "{line}");
        assert_eq!(field(&line, "process"), Some("\"Clerk\""), "{line}");
        assert_eq!(field(&line, "label"), Some("\"window-2\""), "{line}");
        assert!(line.contains("::ClerkPanic\" why=the process ended before it took the message"), "{line}");
        assert_eq!(field(&line, "reason"), Some("killed"), "{line}");
        let told: Vec<String> =
            printed().into_iter().filter(|line| line.contains(&format!(" to={}", clerk.pid()))).collect();
        assert_eq!(told.len(), 2, "{told:#?}");
        assert!(told.iter().any(|line| line.starts_with("DEBUG postroom: a call failed")), "{told:#?}");
    });
}

/// Catches: a flood that is logged line by line, and a flood whose unlogged part is not counted.
#[test]
fn a_flood_of_lost_messages_is_logged_in_part_and_counted_in_full() {
    const FLOOD: u64 = 20_000;
    soon(|| {
        let runtime = runtime();
        let clerk = runtime.spawn(Clerk).label("flooded").serve().unwrap();
        let wrong = Recipient::<u16>::of(clerk.pid());
        for _ in 0..FLOOD {
            wrong.call(1).send_wait().unwrap();
        }
        runtime.until_idle().unwrap();
        assert_eq!(runtime.statistics().dead_letters.unhandled, FLOOD);
        // At most ten lines are logged per second, so this holds unless a message takes 50 ms on average.
        let lines = logged(&format!(" to={}", clerk.pid()));
        assert!(!lines.is_empty() && (lines.len() as u64) < FLOOD / 2, "{} lines", lines.len());
    });
}

/// Runs in a program of its own, since the panic hook is global.
///
/// Catches: a panic that does not reach the hook, reaches it twice, or is printed without its backtrace.
#[test]
fn a_panic_reaches_the_hook_of_the_program_once_with_a_backtrace_and_with_or_without_a_subscriber() {
    const CHILD: &str = "POSTROOM_TEST_PANIC_HOOK";
    if let Some(how) = std::env::var_os(CHILD) {
        if how == "subscriber" {
            logged("");
        }
        static CALLS: Mutex<Vec<String>> = Mutex::new(Vec::new());
        let print = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            print(info);
            CALLS.lock().unwrap().push(info.payload_as_str().unwrap_or_default().to_string());
        }));
        let runtime = Runtime::new().unwrap();
        for text in ["first-panic", "second-panic"] {
            let clerk = runtime.spawn(Clerk).serve().unwrap();
            // Printing a backtrace may take a while.
            assert!(clerk.panic(text.into()).timeout(Duration::MAX).wait().is_err());
        }
        println!("hook: {:?}", CALLS.lock().unwrap());
        return;
    }
    for (how, backtrace) in [("subscriber", "1"), ("none", "1"), ("subscriber", "0")] {
        let mut program = Program::new(std::env::current_exe().unwrap());
        let test = "a_panic_reaches_the_hook_of_the_program_once_with_a_backtrace_and_with_or_without_a_subscriber";
        program.args(["--exact", test, "--nocapture"]).env(CHILD, how).env("RUST_BACKTRACE", backtrace);
        let output = program.output().unwrap();
        let (said, printed) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert!(said.contains("hook: [\"first-panic\", \"second-panic\"]"), "{how}: {said}{printed}");
        let backtraces = printed.matches("stack backtrace:").count();
        assert_eq!(backtraces, if backtrace == "1" { 2 } else { 0 }, "{how}: {printed}");
        assert_eq!(printed.matches("first-panic").count(), 1, "{how}: {printed}");
    }
}

/// The account whose log lines the guide shows.
mod bank {
    use super::*;

    #[process]
    pub(super) struct Account {
        pub(super) balance: i64,
    }

    #[process]
    impl Account {
        #[entry]
        pub(super) fn serve(&mut self) {}

        #[message]
        pub(super) fn deposit(&mut self, amount: i64) {
            self.balance = self.balance.checked_add(amount).expect("the balance fits");
        }
    }
}

/// The report whose log lines the guide shows.
mod report {
    use super::*;

    #[process]
    pub(super) struct Report;

    #[process]
    impl Report {
        #[entry]
        pub(super) fn serve(&mut self) {}

        /// Takes too long: until the watchdog has reported that this step is stalled.
        #[message]
        pub(super) fn render(&mut self) {
            eventually(|| STALLED.load(SeqCst));
        }
    }

    pub(super) static STALLED: AtomicBool = AtomicBool::new(false);
}

/// Replaces the parts of a line that differ from run to run: PIDs, times, places, and the crate of a type.
fn without_what_varies(line: &str) -> String {
    let word = |word: &str| {
        let Some((name, value)) = word.split_once('=') else { return word.to_string() };
        let value = match name {
            "lasted" => "…",
            "place" => "…",
            "message_type" => value.rsplit("::").next().unwrap_or_default().trim_matches('"'),
            _ if value.starts_with('<') => "<…>",
            _ => value,
        };
        format!("{name}={value}")
    };
    line.split_whitespace().map(word).collect::<Vec<_>>().join(" ")
}

/// Returns the log lines that the guide shows, each with its page.
fn shown_in_the_guide() -> Vec<(String, String)> {
    let pages = Path::new(env!("CARGO_MANIFEST_DIR")).join("../book/src");
    let mut shown = Vec::new();
    for page in fs::read_dir(pages).unwrap() {
        let page = page.unwrap().path();
        if page.extension().is_none_or(|extension| extension != "md") {
            continue;
        }
        let name = page.file_name().unwrap().to_string_lossy().into_owned();
        for line in fs::read_to_string(&page).unwrap().lines() {
            if ["ERROR", "WARN", "INFO", "DEBUG"].iter().any(|level| line.starts_with(&format!("{level} postroom:"))) {
                shown.push((name.clone(), line.to_string()));
            }
        }
    }
    shown
}

/// Catches: a line in the guide that no program prints. (Lines with spans are checked in `tests/spans`.)
#[test]
fn every_log_line_in_the_guide_is_printed_by_the_runtime() {
    soon(|| {
        let runtime = runtime();
        // A panic.
        let account = runtime.spawn(bank::Account { balance: i64::MAX }).label("customer 17").serve().unwrap();
        assert!(account.deposit(1).wait().is_err());
        // A message without a method.
        let account = runtime.spawn(bank::Account { balance: 0 }).label("customer 17").serve().unwrap();
        runtime.send(account.pid(), 5_u16).unwrap();
        // A lost message.
        let idle = Runtime::builder().paused().build().unwrap();
        let account = idle.spawn(bank::Account { balance: 0 }).label("customer 17").serve().unwrap();
        account.deposit(5).send().unwrap();
        let end = account.pid().join();
        account.pid().kill();
        idle.resume().unwrap();
        end.wait();
        // A stall, while another process has work to do. Either of the two processes may be first.
        let stalls = Runtime::builder().workers(1).paused().stall_limit(Duration::from_millis(1));
        let stalls = stalls.on_stall(|_| report::STALLED.store(true, SeqCst)).build().unwrap();
        for _ in 0..2 {
            stalls.spawn(report::Report).serve().unwrap().render().send().unwrap();
        }
        stalls.resume().unwrap();
        stalls.until_idle().unwrap();
        let shown = shown_in_the_guide();
        assert!(shown.len() >= 5, "{shown:#?}");
        for (page, line) in shown {
            println!("looks for a line of {page}: {line}");
            let expected = without_what_varies(&line);
            eventually(|| printed().iter().any(|line| without_what_varies(line) == expected));
        }
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

/// Spawns a process that fails with an [`Unspeakable`] error on its first message.
fn unspeakable(spawn: ChildSpawn) -> Result<Pid, SpawnError> {
    let fails = act(|events, _| events.next().map_or(Ok(()), |_| Err(ProcessError::new(Unspeakable))));
    spawn.process(fails).start()
}

/// Catches: a supervisor that fails because it cannot log why its child failed.
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

/// Catches: a line that calls a normal exit a failure.
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
        // The restart is counted before the new process serves.
        eventually(|| runtime.send(tree.child_pid("brief").unwrap(), 1).is_ok());
        let end = end.wait().to_string();
        assert!(end.contains("(normal)") && end.contains("`.transient()`"), "{end}");
    });
}

/// Catches: a pool that fails because it cannot log why its member failed.
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

/// A user's subscriber that panics on each event.
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

/// Catches: a log line about the drop of a user value that is written without a guard. A panic of the subscriber would
/// then unwind from the function that dropped the last reference, and the second of two such drops would abort the
/// program.
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
