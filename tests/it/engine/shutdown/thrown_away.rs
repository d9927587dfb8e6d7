//! A shutdown, and a drain that is not complete, report how many messages they discard, in the report and in the log.

use super::drain::{AGES, SHORT, Worker, build, spawn, waits_for};
use super::*;
use postroom::Mailbox;
use postroom_tests::logged;
use std::process::Command as Program;
use std::thread;

/// Catches: a report without the messages behind the current one, or without the type of its process.
#[test]
fn an_incomplete_drain_reports_discarded_messages() {
    soon(|| {
        let (runtime, state) = (build(), Worker::default());
        let worker = spawn(&runtime, &state);
        let call = thread::spawn(move || worker.pass(1).timeout(AGES).wait());
        state.gate.wait_for_arrival();
        worker.note(2).send().unwrap();
        let report = waits_for(runtime, worker.pid());
        assert!(report.unfinished[0].process.contains("Worker") && report.unfinished[0].is_working, "{report}");
        assert!(report.thrown_away == 1 && report.to_string().contains("1 message was thrown away"), "{report}");
        // The process was cancelled, or killed if the tenth of the deadline that a drain reserves for clean-up was too
        // short.
        assert!(matches!(call.join().unwrap(), Err(CallError::Died(ExitReason::Shutdown | ExitReason::Killed))));
        assert!(state.done.is_empty());
    });
}

/// Mutation: in `shutdown/mod.rs`, `end_all`, count only the messages that were discarded before it returns.
#[test]
fn messages_behind_a_step_that_does_not_return_are_counted() {
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

/// The messages in the mailbox of a process that fails during the drain were not handled, either.
///
/// Mutation: in `shutdown/mod.rs`, `drain`, count only the messages that the shutdown discards.
#[test]
fn discarded_messages_of_processes_that_fail_during_a_drain_are_counted() {
    soon(|| {
        let runtime = Runtime::builder().workers(1).paused().build().unwrap();
        let worker = spawn(&runtime, &Worker::default());
        worker.crash().send().unwrap();
        (0..3).for_each(|number| worker.note(number).send().unwrap());
        let report = runtime.drain(AGES).unwrap();
        assert_eq!((report.drained, report.thrown_away, report.is_clean()), (Some(true), 3, false), "{report}");
    });
}

/// Catches: a missing log line, a log line without the number of messages, and a log line for a complete drain.
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

/// A process that owns its runtime, and drops it in a step.
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

/// Here no code receives a report, so there is only the log.
///
/// Catches: a missing log line, a log line that counts messages discarded before the shutdown, and a log line for a
/// shutdown that has lost nothing.
#[test]
fn a_runtime_that_is_dropped_by_its_own_process_logs_discarded_messages() {
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
            // A process that has already exited has discarded messages, too. They must not be counted.
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

/// Catches: a log line that omits the processes that were killed at the deadline.
#[test]
fn a_shutdown_from_inside_logs_its_kills() {
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
        // A slow machine may log a stall, too.
        let lost = || logged("lost-killed-inside").into_iter().find(|line| line.contains("work was lost"));
        eventually(|| lost().is_some());
        let line = lost().unwrap();
        // The deadline may pass before the owner exits.
        let killed = ["1 of 2 processes ended, 1 killed", "0 of 2 processes ended, 2 killed"];
        assert!(killed.iter().any(|killed| line.contains(killed)), "{line}");
    });
}

/// If no thread can be started, the calling thread does all the work. The test runs itself as a child program with
/// stacks too large for any system.
///
/// Catches: a log line that is written only by the thread that could not be started.
#[test]
fn lost_messages_are_logged_even_if_no_thread_can_be_started() {
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
            "engine::shutdown::thrown_away::lost_messages_are_logged_even_if_no_thread_can_be_started",
            "--nocapture",
        ]);
        program.args(["--test-threads", "1"]).env(CHILD, "1").env("RUST_MIN_STACK", (1_u64 << 60).to_string());
        let output = program.output().unwrap();
        let output = String::from_utf8(output.stdout).unwrap() + &String::from_utf8(output.stderr).unwrap();
        assert!(output.contains("answer: 5 [\"WARN") && output.contains("thrown_away=5"), "{output}");
    });
}

/// A process with an entry that takes no messages, and a method for `Cancel` that does not end it.
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

/// Catches: a report that does not name a process's unfinished work, or the killed processes, with their labels.
#[test]
fn a_report_names_the_entry_that_takes_no_messages_and_those_that_were_killed() {
    soon(|| {
        let runtime = build();
        let deaf = runtime.spawn(Deaf).label("deaf").run().unwrap().address();
        let clings = runtime.spawn(Deaf).label("clings").serve().unwrap();
        deaf.note().send().unwrap();
        assert!(deaf.pid().stop());
        // The process has taken its step, which leaves the message and the stop request in the mailbox.
        eventually(|| matches!(deaf.pid().info().unwrap().state, ProcessState::Waiting { .. }));
        let report = runtime.drain(SHORT).unwrap();
        let [unfinished] = &report.unfinished[..] else { panic!("{report}") };
        assert_eq!((unfinished.pid, unfinished.entry, unfinished.queued), (deaf.pid(), Some("run"), 2));
        assert!(!unfinished.is_working, "{report}");
        assert!(report.alive_at_deadline.iter().any(|left| left.pid == clings.pid()), "{report}");
        let took_none = format!("Deaf \"deaf\" {} had 2 messages or stop requests that its entry `run`", deaf.pid());
        for part in [took_none, format!("Deaf \"clings\" {}", clings.pid())] {
            assert!(report.to_string().contains(&part), "{report}");
        }
    });
}
