//! A shutdown, and a drain that is not completed, tell how many messages they discard: in the report and in the log.

use super::drain::{AGES, SHORT, Worker, build, spawn, waits_for};
use super::*;
use postroom::Mailbox;
use postroom_tests::logged;
use std::process::Command as Program;
use std::thread;

/// Catches: a report without the messages behind the one that was in hand, or without the type of its process.
#[test]
fn a_drain_that_does_not_come_to_its_end_says_what_it_has_thrown_away() {
    soon(|| {
        let (runtime, state) = (build(), Worker::default());
        let worker = spawn(&runtime, &state);
        let call = thread::spawn(move || worker.pass(1).timeout(AGES).wait());
        state.gate.wait_for_arrival();
        worker.note(2).send().unwrap();
        let report = waits_for(runtime, worker.pid());
        assert!(report.unfinished[0].process.contains("Worker") && report.unfinished[0].is_working, "{report}");
        assert!(report.thrown_away == 1 && report.to_string().contains("1 message was thrown away"), "{report}");
        // Told to end, or killed: a tenth of the deadline decides.
        assert!(matches!(call.join().unwrap(), Err(CallError::Died(ExitReason::Shutdown | ExitReason::Killed))));
        assert!(state.done.is_empty());
    });
}

/// Mutation: in `shutdown/mod.rs`, `end_all`, count only what has been discarded by its end.
#[test]
fn what_lies_behind_a_step_that_does_not_return_is_counted() {
    soon(|| {
        let (runtime, mut other) = (build(), Mailbox::new().unwrap());
        let worker = spawn(&runtime, &Worker::default());
        worker.ask(Recipient::of(other.pid()), 1).send().unwrap();
        let _asked = other.receive();
        (0..3).for_each(|number| worker.note(number).send().unwrap());
        let report = runtime.shutdown_within(SHORT).unwrap();
        assert_eq!((report.stuck.len(), report.thrown_away), (1, 3), "{report}");
    });
}

/// A message that lay in the mailbox of a process which failed while the runtime drained was not finished either.
///
/// Mutation: in `shutdown.rs`, `drain`, count only what the shutdown has thrown away.
#[test]
fn what_processes_throw_away_that_fail_while_a_runtime_drains_is_counted() {
    soon(|| {
        let runtime = Runtime::builder().workers(1).paused().build().unwrap();
        let worker = spawn(&runtime, &Worker::default());
        worker.crash().send().unwrap();
        (0..3).for_each(|number| worker.note(number).send().unwrap());
        let report = runtime.drain(AGES).unwrap();
        assert_eq!((report.drained, report.thrown_away, report.is_clean()), (Some(true), 3, false), "{report}");
    });
}

/// Catches: no line, none with the number, or one for a drain that has finished all.
#[test]
fn a_runtime_that_ends_with_messages_warns_with_their_number_and_says_what_to_do() {
    soon(|| {
        logged("");
        let said = |name: &str, end: fn(Runtime)| {
            let runtime = Runtime::builder().name(name).workers(1).paused().build().unwrap();
            let worker = spawn(&runtime, &Worker::default());
            (0..5).for_each(|number| worker.note(number).send().unwrap());
            end(runtime);
            logged(&format!("runtime={name:?}"))
        };
        let said_at_ends = [
            said("lost-drop", drop),
            said("lost-shutdown", |runtime| drop(runtime.shutdown())),
            said("lost-within", |runtime| drop(runtime.shutdown_within(AGES))),
            said("lost-async", |runtime| drop(pollster::block_on(runtime.shutdown_async()))),
        ];
        for lines in said_at_ends {
            let [line] = lines.as_slice() else { panic!("one line, not {lines:?}") };
            let parts = ["WARN", "thrown_away=5", "5 messages were thrown away", "`Runtime::drain`"];
            assert!(parts.iter().all(|part| line.contains(part)), "{line}");
        }
        assert_eq!(said("lost-none", |runtime| drop(runtime.drain(AGES))), Vec::<String>::new());
    });
}

/// Owns its runtime, and drops it in a step.
#[process]
struct Owner {
    runtime: Option<Runtime>,
    here: Latch,
    gate: Latch,
}

#[process]
impl Owner {
    #[entry]
    fn serve(&mut self) {}

    #[message]
    fn own(&mut self, runtime: Runtime) {
        self.runtime = Some(runtime);
    }

    #[message]
    fn end(&mut self) {
        self.here.open();
        self.gate.wait();
        drop(self.runtime.take());
    }

    #[message]
    fn note(&mut self) {}
}

/// Nobody gets a report then.
///
/// Catches: no line; one that counts what was thrown away before; one for a shutdown that has lost nothing.
#[test]
fn a_runtime_that_is_dropped_by_its_own_process_says_in_the_log_what_it_has_thrown_away() {
    soon(|| {
        logged("");
        let said = |name: &str, behind: usize| {
            let runtime = Runtime::builder().name(name).workers(1).build().unwrap();
            let (here, gate) = (Latch::new(), Latch::new());
            let owner = Owner { runtime: None, here: here.clone(), gate: gate.clone() };
            let owner = runtime.spawn(owner).serve().unwrap();
            let own = || {
                owner.end().send().unwrap();
                here.wait();
                (0..behind).for_each(|_| owner.note().send().unwrap());
            };
            // One that has ended before has thrown something away, too.
            let state = Worker::default();
            let worker = spawn(&runtime, &state);
            worker.pass(1).send().unwrap();
            state.gate.wait_for_arrival();
            (0..7).for_each(|number| worker.note(number).send().unwrap());
            let end = worker.pid().join();
            worker.pid().kill();
            end.wait();
            owner.own(runtime).wait().unwrap();
            own();
            let end = owner.pid().join();
            gate.open();
            end.wait();
            logged(&format!("runtime={name:?}"))
        };
        let lines = said("lost-inside", 5);
        let [line] = lines.as_slice() else { panic!("one line, not {lines:?}") };
        let parts =
            ["WARN", "thrown_away=5", "1 of 1 processes ended, 0 killed at the deadline; 5 messages were thrown away"];
        assert!(parts.iter().all(|part| line.contains(part)) && line.contains("`Runtime::drain`"), "{line}");
        assert_eq!(said("lost-none-inside", 0), Vec::<String>::new());
    });
}

/// Catches: a line that leaves out those that were killed at the deadline.
#[test]
fn a_shutdown_from_inside_that_kills_says_so_in_the_log() {
    soon(|| {
        logged("");
        let builder = Runtime::builder().name("lost-killed-inside").workers(1).shutdown_deadline(SHORT);
        let runtime = builder.build().unwrap();
        let deaf = runtime.spawn_process(idle_for_ever().handles_cancel()).start().unwrap();
        let gate = Latch::new();
        let owner = Owner { runtime: None, here: Latch::new(), gate: gate.clone() };
        let owner = runtime.spawn(owner).serve().unwrap();
        let end = deaf.join();
        owner.own(runtime).wait().unwrap();
        owner.end().send().unwrap();
        gate.open();
        assert_eq!(end.wait(), ExitReason::Killed);
        // The deadline may be over before the owner has come to its end.
        eventually(|| !logged("lost-killed-inside").is_empty());
        let line = &logged("lost-killed-inside")[0];
        let killed = ["1 of 2 processes ended, 1 killed", "0 of 2 processes ended, 2 killed"];
        assert!(line.contains("work was lost") && killed.iter().any(|killed| line.contains(killed)), "{line}");
    });
}

/// Where no thread can be started the caller's does it all; the test runs itself, with stacks that no system has room
/// for.
///
/// Catches: a line that only the thread writes which could not be started.
#[test]
fn what_was_lost_is_logged_where_no_thread_can_be_started() {
    const CHILD: &str = "POSTROOM_TEST_WITHOUT_THREADS";
    if std::env::var_os(CHILD).is_some() {
        logged("");
        let runtime = Runtime::builder().name("lost-threadless").workers(1).paused().build().unwrap();
        let worker = spawn(&runtime, &Worker::default());
        (0..5).for_each(|number| worker.note(number).send().unwrap());
        let report = pollster::block_on(runtime.drain_async(SHORT)).unwrap();
        println!("answer: {} {:?}", report.thrown_away, logged("runtime=\"lost-threadless\""));
        return;
    }
    within(Duration::from_secs(60), || {
        let mut program = Program::new(std::env::current_exe().unwrap());
        program.args([
            "--exact",
            "engine::shutdown::thrown_away::what_was_lost_is_logged_where_no_thread_can_be_started",
            "--nocapture",
        ]);
        program.args(["--test-threads", "1"]).env(CHILD, "1").env("RUST_MIN_STACK", (1_u64 << 60).to_string());
        let output = program.output().unwrap();
        let output = String::from_utf8(output.stdout).unwrap() + &String::from_utf8(output.stderr).unwrap();
        assert!(output.contains("answer: 5 [\"WARN") && output.contains("thrown_away=5"), "{output}");
    });
}

/// Has an entry that takes no messages, and a method for `Cancel` that does not end it.
#[process]
struct Deaf;

#[process]
impl Deaf {
    #[entry]
    async fn run(&mut self) {
        std::future::pending::<()>().await;
    }

    #[entry]
    fn serve(&mut self) {}

    #[message]
    fn note(&mut self) {}

    #[signal]
    fn cancel(&mut self, _cancel: Cancel) {}
}

/// Catches: a report that leaves open what a process had left to do, or which were killed.
#[test]
fn a_report_names_the_entry_that_takes_no_messages_and_those_that_were_killed() {
    soon(|| {
        let runtime = build();
        let (deaf, clings) = (runtime.spawn(Deaf).run().unwrap().address(), runtime.spawn(Deaf).serve().unwrap());
        deaf.note().send().unwrap();
        assert!(deaf.pid().stop());
        let report = runtime.drain(SHORT).unwrap();
        let [unfinished] = report.unfinished[..] else { panic!("{report}") };
        assert_eq!((unfinished.pid, unfinished.entry, unfinished.queued), (deaf.pid(), Some("run"), 2));
        assert!(!unfinished.is_working, "{report}");
        assert!(report.alive_at_deadline.iter().any(|(pid, _)| *pid == clings.pid()), "{report}");
        for part in ["2 messages or stop requests that its entry `run` did not take", &clings.pid().to_string()] {
            assert!(report.to_string().contains(part), "{report}");
        }
    });
}
