//! Process starts, starts that fail, and steps that fail.

use postroom::inspect::{Hook, Started};
use postroom::manual::{Event, Events, InitContext, Process, StepOutput};
use postroom::prelude::*;
use postroom::routing::Receiver;
use postroom::{InitError, Package, ProcessError, RunError};
use postroom_tests::{Latch, Witness, act, counts_to, eventually, idle_for_ever, soon};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex};

#[test]
fn processes_spawned_before_the_start_run_after_it() {
    soon(|| {
        let runtime = Runtime::builder().workers(2).paused().build().unwrap();
        let ran = Arc::new(AtomicBool::new(false));
        let runs = ran.clone();
        let process = act(move |_, out| {
            runs.store(true, SeqCst);
            out.done();
            Ok(())
        });
        let pid = runtime.spawn_process(process).start().unwrap();
        let end = pid.join();
        // No worker has run the process yet.
        assert!(pid.is_alive() && !ran.load(SeqCst));
        runtime.resume().unwrap();
        assert_eq!(end.wait(), ExitReason::Normal);
        assert!(ran.load(SeqCst));
    });
}

/// The test attempts a spawn during the shutdown. A process that delays its exit keeps the shutdown in progress.
#[test]
fn a_spawn_after_the_shutdown_began_is_refused_and_undone() {
    soon(|| {
        let witness = Witness::new();
        let runtime = Runtime::builder().workers(2).hook(witness.clone()).build().unwrap();
        let (told, leave) = (Latch::new(), Latch::new());
        let (tell, may_leave) = (told.clone(), leave.clone());
        let process = act(move |events, out| {
            while let Some(event) = events.next() {
                if matches!(event, Event::Signal(Signal::Cancel(_))) {
                    tell.open();
                    may_leave.wait();
                    out.done();
                }
            }
            Ok(())
        });
        runtime.spawn_process(process.handles_cancel()).start().unwrap();
        let host = runtime.host();
        let shutdown = std::thread::spawn(move || runtime.shutdown().unwrap());
        told.wait();
        let started = Arc::new(AtomicBool::new(false));
        let starts = started.clone();
        let late = idle_for_ever().init(move |_| {
            starts.store(true, SeqCst);
            Ok(())
        });
        let refused = host.spawn_process(late).named("late").start();
        assert!(matches!(refused, Err(SpawnError::Shutdown)), "{refused:?}");
        assert!(!started.load(SeqCst), "a refused process is not started");
        assert_eq!(host.whereis("late"), None);
        leave.open();
        assert!(!shutdown.join().unwrap().was_forced());
        assert!(matches!(host.spawn_process(idle_for_ever()).start(), Err(SpawnError::Shutdown)));
        let record = witness.record();
        assert_eq!((record.started.len(), record.alive), (1, 0));
    });
}

/// Everything done for the process is undone, and `close` is still called.
#[test]
fn an_init_that_fails_or_panics_is_the_spawners_error_and_nothing_else() {
    soon(|| {
        let witness = Witness::new();
        let runtime = Runtime::builder().workers(2).hook(witness.clone()).build().unwrap();
        let (steps, closes) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
        let left = Arc::new(Mutex::new(vec![]));
        for panics in [false, true] {
            let left = left.clone();
            let process = counts_to(1, steps.clone(), closes.clone()).init(move |ctx| {
                left.lock().unwrap().extend(ctx.pid());
                if panics { panic!("no luck") } else { Err(InitError::failed("no luck")) }
            });
            match runtime.spawn_process(process).named("unlucky").start() {
                Err(SpawnError::Init(InitError::Failed(error))) if !panics => assert_eq!(error.to_string(), "no luck"),
                Err(SpawnError::Init(InitError::Panicked(panic))) if panics => {
                    assert_eq!(panic.message, "no luck");
                    assert!(panic.place.contains("starts.rs"), "{}", panic.place);
                }
                other => panic!("{other:?}"),
            }
            assert_eq!(runtime.whereis("unlucky"), None);
        }
        assert_eq!((steps.load(SeqCst), closes.load(SeqCst)), (0, 2));
        assert!(left.lock().unwrap().iter().all(|pid| !pid.is_alive()));
        let record = witness.record();
        assert_eq!((record.started.len(), record.undone.len(), record.completed.len(), record.alive), (2, 2, 0, 0));
        assert_eq!(runtime.statistics().processes.live, 0);
    });
}

/// The PID is routable before `init`: messages to a process that fails to start become dead letters.
#[test]
fn messages_to_a_process_whose_init_fails_are_dead_letters() {
    soon(|| {
        let dead = Arc::new(Mutex::new(vec![]));
        let seen = dead.clone();
        let builder = Runtime::builder().workers(1).on_dead_letter(move |letter| {
            seen.lock().unwrap().push(letter.message.take::<u64>().unwrap());
        });
        let runtime = builder.build().unwrap();
        let process = idle_for_ever().init(|ctx| {
            let me = ctx.pid().unwrap();
            (0..3_u64).for_each(|number| me.deliver(Package::new(me, number)).unwrap());
            Err(InitError::failed("no luck"))
        });
        assert!(runtime.spawn_process(process).start().is_err());
        assert_eq!(*dead.lock().unwrap(), [0, 1, 2]);
        assert_eq!(runtime.statistics().dead_letters.total(), 3);
    });
}

#[test]
fn a_step_that_fails_or_panics_ends_only_its_process() {
    soon(|| {
        // There is only one worker: if it were lost, the other process would not run.
        let runtime = Runtime::builder().workers(1).build().unwrap();
        let echo = runtime.spawn(Echo).serve().unwrap();
        let closes = Arc::new(AtomicU64::new(0));
        for panics in [false, true] {
            let closed = closes.clone();
            let process = act(move |events, _| match events.next() {
                Some(Event::Message(_)) if panics => panic!("burst"),
                Some(Event::Message(_)) => Err(ProcessError::new("wrong")),
                _ => Ok(()),
            });
            let process = process.close(move || {
                closed.fetch_add(1, SeqCst);
            });
            let pid = runtime.spawn_process(process).start().unwrap();
            let end = pid.join();
            runtime.send(pid, 1_u8).unwrap();
            match end.wait() {
                ExitReason::Error(error) if !panics => assert_eq!(error.to_string(), "wrong"),
                ExitReason::Panic(panic) if panics => {
                    assert_eq!(panic.message, "burst");
                    assert!(panic.place.contains("starts.rs"), "{}", panic.place);
                }
                other => panic!("{other:?}"),
            }
            assert_eq!(echo.echo(7).wait(), Ok(7));
        }
        assert_eq!(closes.load(SeqCst), 2);
    });
}

#[process]
struct Echo;

#[process]
impl Echo {
    #[entry]
    fn serve(&mut self) {}

    #[entry]
    async fn fail(&mut self, panics: bool) -> Result<u8, String> {
        if panics { panic!("in an entry") } else { Err("in an entry".into()) }
    }

    #[message]
    fn echo(&mut self, number: u64) -> u64 {
        number
    }
}

#[test]
fn an_async_entry_that_fails_or_panics_reports_to_its_waiter() {
    soon(|| {
        let runtime = Runtime::builder().workers(1).build().unwrap();
        let failed = runtime.spawn(Echo).fail(false).unwrap().wait();
        assert_eq!(failed, Err(RunError::Failed("in an entry".to_string())));
        let panicked = runtime.spawn(Echo).fail(true).unwrap().wait();
        assert!(matches!(&panicked, Err(RunError::Ended(ExitReason::Panic(panic))) if panic.message == "in an entry"));
    });
}

#[derive(Default)]
struct Log(Arc<Mutex<Vec<String>>>);

struct Named(&'static str, bool, Arc<Mutex<Vec<String>>>);

impl Hook for Named {
    fn start(&self, _: &Started) -> Result<(), String> {
        self.2.lock().unwrap().push(format!("start {}", self.0));
        if self.1 { Err(format!("{} says no", self.0)) } else { Ok(()) }
    }

    fn undo(&self, _: &Started) {
        self.2.lock().unwrap().push(format!("undo {}", self.0));
    }

    fn complete(&self, _: &Started, reason: &ExitReason) {
        self.2.lock().unwrap().push(format!("complete {} {reason}", self.0));
    }
}

/// Mutation: in `hooks.rs`, undo `..=count` instead of `..count`.
#[test]
fn a_start_hook_that_refuses_undoes_the_hooks_that_had_run() {
    soon(|| {
        let log = Log::default();
        let hook = |name, refuses| Named(name, refuses, log.0.clone());
        let builder = Runtime::builder().workers(1).hook(hook("a", false)).hook(hook("b", false));
        let runtime = builder.hook(hook("c", true)).hook(hook("d", false)).build().unwrap();
        let started = Arc::new(AtomicBool::new(false));
        let starts = started.clone();
        let process = idle_for_ever().init(move |_| {
            starts.store(true, SeqCst);
            Ok(())
        });
        let refused = runtime.spawn_process(process).named("hooked").start();
        assert!(matches!(&refused, Err(SpawnError::Refused(why)) if why == "c says no"), "{refused:?}");
        assert!(!started.load(SeqCst));
        assert_eq!(runtime.whereis("hooked"), None);
        assert_eq!(*log.0.lock().unwrap(), ["start a", "start b", "start c", "undo b", "undo a"]);
        assert_eq!(runtime.statistics().processes.live, 0);
    });
}

#[test]
fn start_and_complete_hooks_are_called_once_for_each_process() {
    soon(|| {
        let witness = Witness::new();
        let runtime = Runtime::builder().workers(2).hook(witness.clone()).build().unwrap();
        let nothing = Arc::new(AtomicU64::new(0));
        let pids: Vec<Pid> = (0..500)
            .map(|number| match number % 4 {
                0 => runtime.spawn_process(counts_to(2, nothing.clone(), nothing.clone())).start().unwrap(),
                1 => runtime.spawn_process(act(|_, _| panic!("burst"))).start().unwrap(),
                2 => runtime.spawn_process(act(|_, _| Err(ProcessError::new("wrong")))).start().unwrap(),
                _ => runtime.spawn_process(idle_for_ever()).start().unwrap(),
            })
            .collect();
        pids.iter().skip(3).step_by(4).for_each(|pid| assert!(pid.kill()));
        pids.iter().for_each(|pid| drop(pid.join().wait()));
        eventually(|| runtime.statistics().processes.live == 0);
        let record = witness.record();
        assert_eq!((record.started.len(), record.completed.len(), record.undone.len()), (500, 500, 0));
        assert!(record.started.values().all(|&times| times == 1));
        for (number, pid) in pids.iter().enumerate() {
            let (times, reason) = &record.completed[pid];
            assert_eq!(*times, 1);
            let fits = match number % 4 {
                0 => *reason == ExitReason::Normal,
                1 => matches!(reason, ExitReason::Panic(_)),
                2 => matches!(reason, ExitReason::Error(_)),
                _ => *reason == ExitReason::Killed,
            };
            assert!(fits, "{number}: {reason}");
        }
    });
}

/// If a start hook panics, the start is refused, as if the hook had returned an error. Panics in the other hooks have
/// no effect.
#[test]
fn a_hook_that_panics_is_contained() {
    struct Burst(bool);
    impl Hook for Burst {
        fn start(&self, _: &Started) -> Result<(), String> {
            if self.0 { panic!("start") } else { Ok(()) }
        }
        fn undo(&self, _: &Started) {
            panic!("undo")
        }
        fn complete(&self, _: &Started, _: &ExitReason) {
            panic!("complete")
        }
    }
    soon(|| {
        let runtime = Runtime::builder().workers(1).hook(Burst(false)).hook(Burst(true)).build().unwrap();
        let refused = runtime.spawn_process(idle_for_ever()).start();
        assert!(matches!(&refused, Err(SpawnError::Refused(why)) if why.contains("start")), "{refused:?}");
        let runtime = Runtime::builder().workers(1).hook(Burst(false)).build().unwrap();
        for _ in 0..2 {
            let end = runtime.spawn_process(act(|_, out| {
                out.wait();
                out.done();
                Ok(())
            }));
            assert!(matches!(end.start().unwrap().join().wait(), ExitReason::Normal | ExitReason::NoProcess));
        }
    });
}

/// On a machine driven by hand, a step before `init`, a second `init` and a step after the exit are typed errors.
#[test]
fn steps_in_the_wrong_state_are_refused() {
    use postroom::manual::{Machine, StepError};
    let mut machine = Machine::new(Echo);
    let step = |machine: &mut Machine<Echo>| machine.step(&mut Events::of([]), &mut StepOutput::new());
    assert_eq!(step(&mut machine).unwrap_err().downcast_ref(), Some(&StepError::BeforeInit));
    machine.init(&mut InitContext::detached(), "serve", payloads![]).unwrap();
    let again = machine.init(&mut InitContext::detached(), "serve", payloads![]);
    assert!(matches!(again, Err(InitError::Twice)), "{again:?}");
    step(&mut machine).unwrap();

    let mut machine = Machine::new(Echo);
    machine.init(&mut InitContext::detached(), "fail", payloads![false]).unwrap();
    step(&mut machine).unwrap();
    assert_eq!(step(&mut machine).unwrap_err().downcast_ref(), Some(&StepError::AfterDone));
}
