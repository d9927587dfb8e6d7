//! Mistakes that some programs will make. Each has a defined result, and none of them harms another process.

use postroom::error::{BuildError, SendFailure};
use postroom::manual::{Event, Events, Process, StepOutput};
use postroom::prelude::*;
use postroom::{Bound, Builder, Command, Completion, Host, InitError};
use postroom_tests::{HOUR, Latch, act, eventually, idle_for_ever, soon, within};
use std::cell::RefCell;
use std::panic::panic_any;
use std::process::Command as Program;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::Duration;

fn one_worker() -> Runtime {
    Runtime::builder().workers(1).build().unwrap()
}

/// Checks that the runtime still works.
fn works(runtime: &Runtime) {
    let pid = runtime.spawn_process(idle_for_ever()).start().unwrap();
    let end = pid.join();
    runtime.send(pid, 1_u64).unwrap();
    assert!(pid.stop());
    assert_eq!(end.wait(), ExitReason::Normal);
}

#[test]
fn invalid_numbers_of_workers_are_refused() {
    soon(|| {
        for workers in [0, 1_025, usize::MAX] {
            match Runtime::builder().workers(workers).build() {
                Err(BuildError::Workers { from, came, most }) => {
                    assert_eq!((from, came, most), ("the builder", workers.to_string(), 1_024));
                }
                other => panic!("{other:?}"),
            }
        }
        assert!(matches!(Runtime::builder().process_limit(0).build(), Err(BuildError::Limit)));
        assert_eq!(Runtime::builder().workers(7).build().unwrap().workers(), 7);
    });
}

/// The program may read the variable only once, so this test runs itself as a child program for each value.
#[test]
fn postroom_workers_sets_the_number_unless_the_builder_does() {
    const CHILD: &str = "POSTROOM_TEST_CHILD";
    if let Some(builder) = std::env::var_os(CHILD) {
        let builder = if builder == "5" { Runtime::builder().workers(5) } else { Runtime::builder() };
        match builder.build() {
            Ok(runtime) => println!("answer: {}", runtime.workers()),
            Err(error) => println!("answer: {error}"),
        }
        return;
    }
    within(Duration::from_secs(60), || {
        let answer = |variable: Option<&str>, builder: &str| {
            let mut program = Program::new(std::env::current_exe().unwrap());
            program.args([
                "--exact",
                "whole::bad_input::postroom_workers_sets_the_number_unless_the_builder_does",
                "--nocapture",
            ]);
            program.env(CHILD, builder).env_remove("POSTROOM_WORKERS");
            variable.into_iter().for_each(|value| {
                program.env("POSTROOM_WORKERS", value);
            });
            let output = String::from_utf8(program.output().unwrap().stdout).unwrap();
            let answer = output.lines().find_map(|line| Some(line.split_once("answer: ")?.1.to_string()));
            answer.unwrap_or_else(|| panic!("{output}"))
        };
        let cores = std::thread::available_parallelism().unwrap();
        assert_eq!(answer(None, ""), cores.to_string());
        assert_eq!(answer(Some("3"), ""), "3");
        assert_eq!(answer(Some(" 3 "), ""), "3");
        assert_eq!(answer(Some("3"), "5"), "5");
        // The builder overrides an invalid value, too.
        assert_eq!(answer(Some("x"), "5"), "5");
        for nonsense in ["0", "x", "", "-1", "3.5", "1025", "99999999999999999999"] {
            let answer = answer(Some(nonsense), "");
            assert!(answer.starts_with("POSTROOM_WORKERS requests `") && answer.contains("from 1 to 1024"), "{answer}");
        }
        let long = answer(Some(&"9".repeat(10_000)), "");
        assert!(long.len() < 300, "{long}");
    });
}

#[test]
fn spawns_and_sends_from_close_are_as_any_others() {
    soon(|| {
        let runtime = one_worker();
        let (child, back, me) = (Arc::new(Mutex::new(None)), Arc::new(Mutex::new(None)), Arc::new(Mutex::new(None)));
        let (place, refused, own) = (child.clone(), back.clone(), me.clone());
        let heard = Arc::new(AtomicU64::new(0));
        let hears = heard.clone();
        let listener = runtime.spawn_process(act(move |events, _| {
            while let Some(event) = events.next() {
                hears.fetch_add(u64::from(matches!(event, Event::Message(_))), SeqCst);
            }
            Ok(())
        }));
        let listener = listener.start().unwrap();
        let process = idle_for_ever().init(move |ctx| {
            *own.lock().unwrap() = ctx.pid();
            Ok(())
        });
        let process = process.close(move || {
            let host = Host::current().unwrap();
            let own = me.lock().unwrap().unwrap();
            // The process is already unroutable, so a send to itself fails.
            *refused.lock().unwrap() = Some((own, host.send(own, 7_u64).unwrap_err()));
            host.send(listener, 8_u64).unwrap();
            *place.lock().unwrap() = Some(host.spawn_process(idle_for_ever()).start().unwrap());
        });
        let pid = runtime.spawn_process(process).start().unwrap();
        let end = pid.join();
        assert!(pid.kill());
        assert_eq!(end.wait(), ExitReason::Killed);
        let (own, error) = back.lock().unwrap().take().unwrap();
        assert_eq!((error.message, error.reason), (7, SendFailure::Gone(own)));
        assert!(child.lock().unwrap().unwrap().is_alive());
        eventually(|| heard.load(SeqCst) == 1);
    });
}

/// The destructors are those of a message, on any thread, and of the process's state, on a thread of the runtime.
#[test]
fn spawns_and_sends_from_destructors_are_as_any_others() {
    struct Sends(Host, Pid);
    impl Drop for Sends {
        fn drop(&mut self) {
            self.0.send(self.1, 1_u64).unwrap();
            let child = self.0.spawn_process(idle_for_ever()).start().unwrap();
            child.kill();
        }
    }
    soon(|| {
        let runtime = one_worker();
        let heard = Arc::new(AtomicU64::new(0));
        let hears = heard.clone();
        let listener = runtime.spawn_process(act(move |events, _| {
            while let Some(event) = events.next() {
                hears.fetch_add(u64::from(matches!(event, Event::Message(_))), SeqCst);
            }
            Ok(())
        }));
        let (listener, host) = (listener.start().unwrap(), runtime.host());
        // There are values in the mailbox of an exiting process, in an unhandled message, in the state, and in a
        // refused send.
        let held = Sends(host, listener);
        let may_go = Latch::new();
        let waits = may_go.clone();
        let pid = runtime.spawn_process(act(move |events, _| {
            let _state = &held;
            waits.wait();
            drop(events.next());
            Ok(())
        }));
        let pid = pid.start().unwrap();
        let end = pid.join();
        (0..3).for_each(|_| host.send(pid, Sends(host, listener)).unwrap());
        assert!(pid.kill());
        may_go.open();
        drop(end.wait());
        drop(host.send(pid, Sends(host, listener)));
        eventually(|| heard.load(SeqCst) == 5);
        eventually(|| runtime.statistics().processes.live == 1);
    });
}

/// While a thread's thread-locals are destroyed, those of the runtime may already be gone. This must not abort the
/// program.
#[test]
fn spawns_sends_and_calls_from_a_threads_last_moments_are_as_any_others() {
    struct Late(Host, Pid, Address<Answers>);
    impl Drop for Late {
        fn drop(&mut self) {
            let Self(host, listener, answers) = *self;
            for number in 0..300_u64 {
                host.send(listener, number).unwrap();
            }
            assert_eq!(answers.answer().timeout(Duration::from_secs(600)).wait(), Ok(42));
            let child = host.spawn_process(idle_for_ever()).named("late child").start().unwrap();
            let end = child.join();
            assert!(child.kill());
            assert_eq!(end.wait(), ExitReason::Killed);
            let fails = idle_for_ever().init(|_| Err(InitError::failed("no luck")));
            assert!(host.spawn_process(fails).start().is_err());
            let panics = idle_for_ever().init(|_| panic!("no luck"));
            assert!(matches!(host.spawn_process(panics).start(), Err(SpawnError::Init(InitError::Panicked(_)))));
            host.send(listener, 300_u64).unwrap();
        }
    }
    thread_local! {
        static LAST: RefCell<Option<Late>> = const { RefCell::new(None) };
        static FIRST: RefCell<Option<Late>> = const { RefCell::new(None) };
    }
    soon(|| {
        let runtime = one_worker();
        let heard = Arc::new(AtomicU64::new(0));
        let hears = heard.clone();
        let listener = runtime.spawn_process(act(move |events, _| {
            while let Some(event) = events.next() {
                hears.fetch_add(u64::from(matches!(event, Event::Message(_))), SeqCst);
            }
            Ok(())
        }));
        let (listener, host, answers) =
            (listener.start().unwrap(), runtime.host(), runtime.spawn(Answers).serve().unwrap());
        for round in 1..=4 {
            std::thread::spawn(move || {
                // Thread-locals are destroyed in the order of their creation, or in reverse. These two are created
                // before and after the runtime's own.
                FIRST.with(|late| *late.borrow_mut() = Some(Late(host, listener, answers)));
                if round % 2 == 0 {
                    host.send(listener, 0_u64).unwrap();
                    drop(host.spawn_process(idle_for_ever()).start().unwrap().join());
                } else {
                    host.send(listener, 0_u64).unwrap();
                }
                LAST.with(|late| *late.borrow_mut() = Some(Late(host, listener, answers)));
            })
            .join()
            .unwrap();
        }
        eventually(|| heard.load(SeqCst) == 4 * (1 + 2 * 301));
        works(&runtime);
    });
}

#[process]
struct Answers;

#[process]
impl Answers {
    #[entry]
    fn serve(&mut self) {}

    #[message]
    fn answer(&mut self) -> u64 {
        42
    }
}

#[test]
fn spawns_and_sends_after_the_shutdown_are_refused_and_return_the_message() {
    soon(|| {
        let runtime = one_worker();
        let (pid, answers) =
            (runtime.spawn_process(idle_for_ever()).start().unwrap(), runtime.spawn(Answers).serve().unwrap());
        let host = runtime.host();
        assert!(!runtime.shutdown_within(HOUR).unwrap().was_forced());
        let refused = host.send(pid, "late".to_string()).unwrap_err();
        assert_eq!((refused.message.as_str(), refused.reason), ("late", SendFailure::Shutdown(pid)));
        assert!(answers.answer().wait().is_err() && answers.answer().send().is_err());
        assert!(answers.answer().send_after(Duration::from_millis(1)).is_err());
        assert!(matches!(host.spawn_process(idle_for_ever()).start(), Err(SpawnError::Shutdown)));
        assert!(matches!(host.spawn(Answers).serve(), Err(SpawnError::Shutdown)));
        assert_eq!(host.whereis("nobody"), None);
        assert!(host.processes().is_empty() && !pid.kill() && pid.info().is_none());
        assert_eq!(host.statistics().processes.live, 0);
    });
}

/// Sends 64 MiB behind a pointer, 16 KiB in the message itself, an empty message, and a message with the alignment of a
/// page.
#[test]
fn messages_of_any_size_and_alignment_arrive_whole() {
    #[repr(align(4096))]
    struct Page(u8);
    soon(|| {
        let runtime = one_worker();
        let sizes = Arc::new(Mutex::new(vec![]));
        let notes = sizes.clone();
        let pid = runtime.spawn_process(act(move |events, _| {
            while let Some(event) = events.next() {
                let Event::Message(package) = event else { continue };
                let note = |what| notes.lock().unwrap().push(what);
                let package = match package.take::<Vec<u8>>() {
                    Ok(vector) => {
                        assert!(vector.iter().step_by(4096).all(|&byte| byte == 7));
                        note(vector.len());
                        continue;
                    }
                    Err(package) => package,
                };
                let package = match package.take::<[u8; 1 << 14]>() {
                    Ok(array) => {
                        assert!(array.iter().all(|&byte| byte == 9));
                        note(array.len());
                        continue;
                    }
                    Err(package) => package,
                };
                match package.take::<Page>() {
                    Ok(page) => {
                        assert_eq!((&raw const page).addr() % 4096, 0);
                        note(usize::from(page.0));
                    }
                    Err(package) => {
                        package.take::<()>().unwrap();
                        note(0);
                    }
                }
            }
            Ok(())
        }));
        let pid = pid.start().unwrap();
        runtime.send(pid, vec![7_u8; 64 << 20]).unwrap();
        runtime.send(pid, [9_u8; 1 << 14]).unwrap();
        runtime.send(pid, Page(3)).unwrap();
        runtime.send(pid, ()).unwrap();
        eventually(|| sizes.lock().unwrap().len() == 4);
        assert_eq!(*sizes.lock().unwrap(), [64 << 20, 1 << 14, 3, 0]);
    });
}

#[test]
fn infinite_durations_never_elapse_and_zero_elapses_at_once() {
    soon(|| {
        let runtime = Runtime::builder().workers(1).shutdown_deadline(Duration::MAX).build().unwrap();
        let answers = runtime.spawn(Answers).serve().unwrap();
        assert_eq!(answers.answer().timeout(Duration::MAX).wait(), Ok(42));
        assert_eq!(runtime.block_on(async { answers.answer().timeout(Duration::MAX).await }), Ok(42));
        answers.answer().send_after(Duration::MAX).unwrap();
        answers.answer().send_after(Duration::ZERO).unwrap();
        let pid = runtime.spawn_process(idle_for_ever()).start().unwrap();
        let end = pid.join();
        assert!(pid.kill());
        assert_eq!(end.wait_timeout(Duration::MAX), Some(ExitReason::Killed));
        assert_eq!(answers.pid().join().wait_timeout(Duration::ZERO), None);
        assert!(!runtime.shutdown_within(Duration::MAX).unwrap().was_forced());
        // A deadline of zero kills at once. If a process exits by itself at that moment, it may count as either.
        let runtime = one_worker();
        let deaf = runtime.spawn_process(idle_for_ever().handles_cancel()).start().unwrap();
        let end = deaf.join();
        let report = runtime.shutdown_within(Duration::ZERO).unwrap();
        assert_eq!((report.killed, report.stuck.len()), (1, 0), "{report}");
        assert_eq!(end.wait(), ExitReason::Killed);
    });
}

#[test]
fn odd_names_are_names_and_those_of_nothing_and_of_a_megabyte_are_for_hosts_and_labels_only() {
    soon(|| {
        let long: String = "x".repeat(1 << 20);
        let odd = ["", "\0", "a\0b", "naïve 名前", "../../etc", long.as_str()];
        for name in odd {
            let runtime = Runtime::builder().name(name).workers(1).build().unwrap();
            assert_eq!(runtime.name(), name);
            let pid = runtime.spawn_process(idle_for_ever()).label(name).start().unwrap();
            assert_eq!(pid.info().unwrap().label.as_deref(), Some(name));
            match runtime.spawn_process(idle_for_ever()).named(name).start() {
                Ok(holder) => match runtime.spawn_process(idle_for_ever()).named(name).start() {
                    Err(SpawnError::Name { name: taken, holder: by }) => assert_eq!((&*taken, by), (name, holder)),
                    other => panic!("{other:?}"),
                },
                Err(SpawnError::BadName(_)) => {
                    assert!(name.is_empty() || name.len() > 1_024);
                    assert_eq!(runtime.whereis(name), None);
                }
                other => panic!("{other:?}"),
            }
            works(&runtime);
        }
    });
}

/// All messages are sent before the process runs for the first time, and arrive in order.
#[test]
fn a_million_messages_in_one_go_all_arrive() {
    within(Duration::from_secs(60), || {
        const MESSAGES: u64 = 1_000_000;
        let runtime = Runtime::builder().workers(2).paused().build().unwrap();
        let (next, host) = (Arc::new(AtomicU64::new(0)), runtime.host());
        let expects = next.clone();
        let pid = runtime.spawn_process(act(move |events, _| {
            while let Some(event) = events.next() {
                if let Event::Message(package) = event {
                    assert_eq!(package.take::<u64>().unwrap(), expects.fetch_add(1, SeqCst));
                }
            }
            Ok(())
        }));
        let pid = pid.mailbox(Bound::Unbounded).start().unwrap();
        (0..MESSAGES).for_each(|number| host.send(pid, number).unwrap());
        assert_eq!(pid.info().unwrap().mailbox, MESSAGES);
        runtime.resume().unwrap();
        eventually(|| next.load(SeqCst) == MESSAGES);
        assert!(pid.is_alive());
    });
}

#[test]
fn processes_that_spawn_each_other_from_init_end_at_a_depth() {
    fn nested(host: Host, deepest: Arc<AtomicU64>, depth: u64) -> postroom_tests::Act {
        idle_for_ever().init(move |_| {
            deepest.fetch_max(depth, SeqCst);
            match host.spawn_process(nested(host, deepest, depth + 1)).start() {
                Ok(_) => Ok(()),
                Err(error) => Err(InitError::failed(error)),
            }
        })
    }
    soon(|| {
        let runtime = one_worker();
        let deepest = Arc::new(AtomicU64::new(0));
        let refused = runtime.spawn_process(nested(runtime.host(), deepest.clone(), 1)).start().unwrap_err();
        assert!(refused.to_string().contains("64 processes are starting inside each other"), "{refused}");
        assert_eq!(deepest.load(SeqCst), 64);
        assert_eq!(runtime.statistics().processes.live, 0);
        works(&runtime);
    });
}

/// Panics with payloads that are not text and with payloads whose drop panics, and panics in `entries` and in
/// `handles_cancel`.
#[test]
fn panics_of_every_kind_are_contained() {
    struct Bomb;
    impl Drop for Bomb {
        fn drop(&mut self) {
            if !std::thread::panicking() {
                panic!("bomb");
            }
        }
    }
    struct Asked;
    impl Process for Asked {
        fn step(&mut self, _: &mut Events<'_>, _: &mut StepOutput<'_>) -> Result<(), postroom::ProcessError> {
            Ok(())
        }
        fn handles_cancel(&self) -> bool {
            panic!("asked too much")
        }
    }
    soon(|| {
        let runtime = one_worker();
        let end = runtime.spawn_process(act(|_, _| panic_any(42))).start().unwrap().join();
        assert!(matches!(end.wait(), ExitReason::Panic(_) | ExitReason::NoProcess));
        let end = runtime.spawn_process(act(|_, _| panic_any(Bomb))).start().unwrap().join();
        assert!(matches!(end.wait(), ExitReason::Panic(_) | ExitReason::NoProcess));
        // `handles_cancel` is called only at a cancellation.
        let asked = runtime.spawn_process(Asked).start().unwrap();
        let end = asked.join();
        asked.cancel("a question");
        assert!(matches!(end.wait(), ExitReason::Panic(_) | ExitReason::NoProcess));
        works(&runtime);
    });
}

/// The runtime drops an unwanted value whose drop panics, at each of the places where it may do so.
///
/// Mutation: in `payload.rs`, `drop`, leave out the guard `ignore`: a worker is lost, and with the only one all others.
#[test]
fn values_whose_drop_panics_are_contained_wherever_they_are_dropped() {
    #[derive(Default)]
    struct Mine(Arc<AtomicU64>);
    impl Drop for Mine {
        fn drop(&mut self) {
            self.0.fetch_add(1, SeqCst);
            panic!("a mine went off");
        }
    }
    impl Clone for Mine {
        fn clone(&self) -> Self {
            panic!("nobody clones a mine")
        }
    }
    struct Lay;
    impl Command for Lay {
        type Output = Mine;
    }
    struct Nobody(#[expect(dead_code, reason = "only its drop counts")] Mine);
    impl Command for Nobody {
        type Output = ();
    }
    soon(|| {
        let drops = Arc::new(AtomicU64::new(0));
        let mine = {
            let drops = drops.clone();
            move || Mine(drops.clone())
        };
        let (send, late) = std::sync::mpsc::channel::<Completion<Mine>>();
        let send = Mutex::new(send);
        let builder: Builder = Runtime::builder().workers(1);
        let builder = builder.handler(move |Lay, completion| send.lock().unwrap().send(completion).unwrap());
        let runtime = builder.build().unwrap();
        let host = runtime.host();
        // Here the value is in the mailbox of a killed process.
        let go = Latch::new();
        let may_go = go.clone();
        let pid = runtime
            .spawn_process(act(move |_, _| {
                may_go.wait();
                Ok(())
            }))
            .start()
            .unwrap();
        host.send(pid, mine()).unwrap();
        assert!(pid.kill());
        go.open();
        eventually(|| drops.load(SeqCst) == 1);
        works(&runtime);
        // Here it is in an answer: to an exited process, or to a process that exits with the answer in its lane.
        for number in 0..2 {
            let mut began = false;
            let (inside, go) = (Latch::new(), Latch::new());
            let (is_inside, may_go) = (inside.clone(), go.clone());
            let pid = runtime.spawn_process(act(move |_, out| {
                if !began {
                    began = true;
                    out.perform(Lay, 1);
                } else {
                    is_inside.open();
                    may_go.wait();
                }
                Ok(())
            }));
            let pid = pid.start().unwrap();
            let completion = late.recv().unwrap();
            if number == 0 {
                assert!(pid.kill());
                eventually(|| runtime.statistics().processes.live == 0);
                completion.complete(mine());
            } else {
                host.send(pid, ()).unwrap();
                inside.wait();
                completion.complete(mine());
                assert!(pid.kill());
                go.open();
                eventually(|| runtime.statistics().processes.live == 0);
            }
            eventually(|| drops.load(SeqCst) == 2 + number);
            works(&runtime);
        }
        // Here the values are in an unhandled command, in a refused call, and in an unwanted result.
        let (one, two, three) = (mine(), mine(), mine());
        let mut yields = Some((one, two, three));
        let dead = pid;
        let pid = runtime.spawn_process(act(move |_, out| {
            if let Some((one, two, three)) = yields.take() {
                out.perform(Nobody(one), 1);
                out.call(dead, two, 2);
                out.done_with(three);
            }
            Ok(())
        }));
        pid.start().unwrap();
        eventually(|| drops.load(SeqCst) == 6);
        works(&runtime);
        // Here one value is in a timer that fires too late, and another one in a timer that never fires.
        let runtime_of_timers = Runtime::builder().workers(1).paused().build().unwrap();
        let answers = runtime_of_timers.spawn(Takes(std::marker::PhantomData::<Mine>)).serve().unwrap();
        answers.take(mine()).send_after(Duration::from_millis(2)).unwrap();
        answers.take(mine()).send_after(Duration::MAX).unwrap();
        assert!(answers.pid().kill());
        runtime_of_timers.resume().unwrap();
        eventually(|| drops.load(SeqCst) == 7);
        works(&runtime_of_timers);
        drop(runtime_of_timers);
        assert_eq!(drops.load(SeqCst), 8);
    });
}

/// A message that can be cloned only twice.
#[derive(Default)]
struct Twice(Arc<AtomicU64>);

impl Clone for Twice {
    fn clone(&self) -> Self {
        assert!(self.0.fetch_add(1, SeqCst) < 2, "a third time");
        Self(self.0.clone())
    }
}

#[process]
struct Copies;

#[process]
impl Copies {
    #[entry]
    fn serve(&mut self) {}

    #[message]
    #[derive(Clone)]
    fn take(&mut self, _what: Twice) {}
}

/// Mutation: in `engine/host/mod.rs`, `fire`, leave out `contain`: the only worker is lost.
#[test]
fn a_message_whose_clone_panics_ends_its_own_timer_only() {
    soon(|| {
        let runtime = one_worker();
        let (clones, copies) = (Arc::default(), runtime.spawn(Copies).serve().unwrap());
        copies.take(Twice(Arc::clone(&clones))).send_every(Duration::from_millis(1)).unwrap();
        eventually(|| clones.load(SeqCst) == 3);
        works(&runtime);
        assert!(copies.pid().is_alive());
    });
}

#[process]
struct Takes<M: Send + 'static>(std::marker::PhantomData<M>);

#[process]
impl<M: Send + 'static> Takes<M> {
    #[entry]
    fn serve(&mut self) {}

    #[message]
    fn take(&mut self, what: M) {
        std::mem::forget(what);
    }
}

/// Each process sends more messages than it takes: to one other process, to itself, and in a cycle. None of the
/// messages is lost, and the shutdown ends the processes.
#[test]
fn floods_in_both_directions_to_itself_and_in_a_cycle_all_arrive() {
    within(Duration::from_secs(60), || {
        for (size, step) in [(1_usize, 0_usize), (2, 1), (10, 1), (10, 3)] {
            let runtime = Runtime::builder().workers(2).build().unwrap();
            let ring: Arc<Mutex<Vec<Pid>>> = Arc::default();
            let (sent, heard) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
            let mut pids = vec![];
            for place in 0..size {
                let (ring, sent, heard) = (ring.clone(), sent.clone(), heard.clone());
                let process = act(move |events, _| {
                    while let Some(event) = events.next() {
                        let Event::Message(package) = event else { continue };
                        heard.fetch_add(1, SeqCst);
                        let left = package.take::<u32>().unwrap();
                        if left > 0 {
                            let next = ring.lock().unwrap()[(place + step) % size];
                            for _ in 0..2 {
                                Host::current().unwrap().send(next, left - 1)?;
                                sent.fetch_add(1, SeqCst);
                            }
                        }
                    }
                    Ok(())
                });
                pids.push(runtime.spawn_process(process).start().unwrap());
            }
            ring.lock().unwrap().clone_from(&pids);
            for &pid in &pids {
                sent.fetch_add(1, SeqCst);
                runtime.send(pid, 12_u32).unwrap();
            }
            let expected = pids.len() as u64 * ((1 << 13) - 1);
            eventually(|| heard.load(SeqCst) == expected);
            assert_eq!(sent.load(SeqCst), expected);
        }
    });
}
