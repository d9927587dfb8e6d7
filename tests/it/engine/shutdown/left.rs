//! Processes that no worker reaches during a shutdown: they end, and those that wait for their end are told.

use super::*;
use postroom::Reply;
use postroom::supervision::Supervisor;
use std::thread;

/// Never answers, and says when it was dropped.
#[process]
struct Mute {
    kept: Vec<Reply<()>>,
    _held: Arc<()>,
}

#[process]
impl Mute {
    #[entry]
    fn serve(&mut self) {}

    #[message]
    fn ask(&mut self, reply: Reply<()>) {
        self.kept.push(reply);
    }

    #[signal]
    fn on_cancel(&mut self, _cancel: Cancel) {}
}

fn mute(held: &Arc<()>) -> Mute {
    Mute { kept: Vec::new(), _held: held.clone() }
}

/// A process that is in a step until `release` is opened; `first` is what it does there before.
fn hog(runtime: &Runtime, release: &Latch, mut first: impl FnMut() + Send + 'static) -> Pid {
    let (inside, released) = (Latch::new(), release.clone());
    let is_inside = inside.clone();
    let hog = act(move |_, _| {
        first();
        is_inside.open();
        released.wait();
        Ok(())
    });
    let pid = runtime.spawn_process(hog).start().unwrap();
    inside.wait();
    pid
}

/// The one worker is in a step that does not return, and no other thread may take it over: so no worker reaches any
/// other process from the deadline on, as on a machine that gives the workers no time.
///
/// Mutation: in `shutdown/mod.rs`, `end_threads`, do not start the last thread; or in `run_loop.rs` let `exit` find
/// nothing.
#[test]
fn those_that_no_worker_comes_to_are_ended_and_all_who_wait_for_that_are_told() {
    soon(|| {
        let builder = Runtime::builder().workers(1).stall_limit(Duration::MAX);
        let (runtime, other) = (builder.build().unwrap(), Runtime::new().unwrap());
        let held = Arc::new(());
        let deaf = runtime.spawn(mute(&held)).serve().unwrap();
        let tree = {
            let held = held.clone();
            Supervisor::one_for_one().child("deaf", move |spawn| spawn.of(mute(&held)).serve()).spawn(&runtime)
        };
        let tree = tree.unwrap();
        let child: Address<Mute> = tree.child("deaf").unwrap();
        // One call is in the hands of the process, the other comes too late for that.
        let call = move || deaf.ask().timeout(Duration::MAX).wait();
        let (in_flight, seen) = (thread::spawn(call), move || deaf.pid().info().map_or(0, |info| info.messages));
        eventually(|| seen() == 1);
        let watcher = Watcher { down: None };
        let watcher = other.spawn(watcher).watch(deaf.pid()).unwrap();
        eventually(|| deaf.pid().bindings().wait().is_some_and(|bindings| !bindings.monitored_by.is_empty()));
        let release = Latch::new();
        let stuck = hog(&runtime, &release, || {});
        let unopened = thread::spawn(call);
        eventually(|| deaf.pid().info().is_some_and(|info| info.mailbox == 1));
        let ends = [deaf.pid(), child.pid(), tree.pid()].map(|pid| pid.join());
        let (stuck_end, reads) = (stuck.join(), stuck.join());
        let report = runtime.shutdown_within(Duration::from_millis(10)).unwrap();
        assert_eq!((report.alive, report.ended, report.killed), (4, 0, 3), "{report}");
        assert_eq!(report.stuck.iter().map(|(pid, _)| *pid).collect::<Vec<_>>(), [stuck], "{report}");
        for end in ends {
            assert_eq!(end.wait(), ExitReason::Killed);
        }
        assert_eq!(Arc::strong_count(&held), 1, "told when the state has been dropped");
        assert!(in_flight.join().unwrap().is_err() && unopened.join().unwrap().is_err());
        assert_eq!(watcher.wait().unwrap(), ExitReason::Killed);
        // Of the one that is stuck nobody is told before its step returns, and then all are, though its host is gone.
        assert!(stuck.is_alive() && reads.wait_timeout(Duration::from_millis(1)).is_none());
        release.open();
        assert_eq!(stuck_end.wait(), ExitReason::Killed);
        assert!(other.shutdown().unwrap().is_clean());
    });
}

#[process]
struct Watcher {
    down: Option<ExitReason>,
}

#[process]
impl Watcher {
    #[entry]
    async fn watch(&mut self, ctx: &mut Context<Self>, pid: Pid) -> ExitReason {
        let _monitor = pid.monitor();
        ctx.serve_next(self).await;
        self.down.take().expect("a signal came")
    }

    #[signal]
    fn on_down(&mut self, down: Down) {
        self.down = Some(down.reason);
    }
}

/// What the stuck step has woken is in its thread's run-next slot and deque, or wherever the monitor has moved it
/// since.
///
/// Mutation: in `run_loop.rs`, `exit`, look into the own queues only.
#[test]
fn what_waits_behind_a_step_that_does_not_return_is_ended_too() {
    soon(|| {
        let runtime = Runtime::builder().workers(1).stall_limit(Duration::MAX).build().unwrap();
        let (host, release) = (runtime.host(), Latch::new());
        let behind: Vec<Pid> = (0..20).map(|_| runtime.spawn_process(idle_for_ever()).start().unwrap()).collect();
        eventually(|| runtime.until_idle().is_ok());
        let ends: Vec<_> = behind.iter().map(|pid| pid.join()).collect();
        eventually(|| runtime.until_idle().is_ok());
        let _stuck = hog(&runtime, &release, move || behind.iter().for_each(|pid| _ = host.send(*pid, ())));
        let report = runtime.shutdown_within(Duration::from_millis(10)).unwrap();
        assert_eq!((report.killed, report.stuck.len()), (20, 1), "{report}");
        for end in ends {
            assert_eq!(end.wait(), ExitReason::Killed);
        }
        release.open();
    });
}

/// The host is down, its threads are gone, and then the start returns.
///
/// Mutation: in `engine/host/mod.rs`, `announce`, do not look whether the host has been stopped.
#[test]
fn a_process_whose_start_outlasts_the_shutdown_ends_and_its_spawner_is_not_left_waiting() {
    soon(|| {
        for rests in [false, true] {
            let runtime = Runtime::builder().workers(1).build().unwrap();
            let (host, release) = (runtime.host(), Latch::new());
            let (inside, dropped) = (Latch::new(), Arc::new(()));
            let (is_inside, released, held) = (inside.clone(), release.clone(), dropped.clone());
            let spawner = thread::spawn(move || {
                let begin = move || {
                    is_inside.open();
                    released.wait();
                };
                if rests {
                    // Its token is laid down, and taken back because of the kill.
                    host.spawn(Slow { begin: Box::new(begin), _held: held }).serve().unwrap().pid()
                } else {
                    let held = Some(held);
                    let process = act(move |_, _| panic!("it has been killed: {held:?}"));
                    let process = process.init(move |_| {
                        begin();
                        Ok(())
                    });
                    host.spawn_process(process).start().unwrap()
                }
            });
            inside.wait();
            let report = runtime.shutdown_within(Duration::from_millis(10)).unwrap();
            assert_eq!((report.alive, report.killed, report.stuck.len()), (1, 0, 1), "{report}");
            release.open();
            let pid = spawner.join().unwrap();
            // It may have ended by now; else it is about to.
            let reason = pid.join().wait();
            assert!(matches!(reason, ExitReason::Killed | ExitReason::NoProcess), "{reason}");
            assert!(!pid.is_alive());
            eventually(|| Arc::strong_count(&dropped) == 1);
        }
    });
}

/// The start runs on the thread of the process, which is no worker and in no step.
///
/// Mutation: in `pinned/mod.rs`, `run_pinned`, do not note that it runs user code.
#[test]
fn a_start_on_a_thread_of_its_own_that_does_not_return_holds_up_no_shutdown() {
    soon(|| {
        let runtime = Runtime::builder().workers(1).build().unwrap();
        let (host, inside, release) = (runtime.host(), Latch::new(), Latch::new());
        let (is_inside, released) = (inside.clone(), release.clone());
        let spawner = thread::spawn(move || {
            let begin = move || {
                is_inside.open();
                released.wait();
            };
            let slow = move || Slow { begin: Box::new(begin), _held: Arc::default() };
            host.spawn_pinned(slow).serve().map(|slow| slow.pid())
        });
        inside.wait();
        let report = runtime.shutdown_within(Duration::from_millis(10)).unwrap();
        assert_eq!((report.alive, report.killed, report.stuck.len()), (1, 0, 1), "{report}");
        release.open();
        let pid = spawner.join().unwrap().unwrap();
        pid.join().wait();
        assert!(!pid.is_alive());
    });
}

#[process]
struct Slow {
    begin: Box<dyn FnMut() + Send>,
    _held: Arc<()>,
}

#[process]
impl Slow {
    #[entry]
    fn serve(&mut self) {
        (self.begin)();
    }
}

/// The threads end only when nothing is left in the queues, whichever of them comes to it.
#[test]
fn a_thousand_that_no_worker_comes_to_are_all_told() {
    soon(|| {
        let runtime = Runtime::builder().workers(2).stall_limit(Duration::MAX).build().unwrap();
        let release = Latch::new();
        let pids: Vec<Pid> =
            (0..1_000).map(|_| runtime.spawn_process(idle_for_ever().handles_cancel()).start().unwrap()).collect();
        let ends: Vec<_> = pids.iter().map(|pid| pid.join()).collect();
        let stuck = [hog(&runtime, &release, || {}), hog(&runtime, &release, || {})];
        let report = runtime.shutdown_within(Duration::from_millis(10)).unwrap();
        // How many of them have been ended by then depends on how fast the machine is; those that block have not.
        assert_eq!((report.alive, report.killed + report.stuck.len() as u64), (1_002, 1_002));
        assert!(stuck.iter().all(|pid| report.stuck.iter().any(|(left, _)| left == pid)));
        ends.into_iter().for_each(|end| assert_eq!(end.wait(), ExitReason::Killed));
        release.open();
        stuck.into_iter().for_each(|pid| eventually(|| !pid.is_alive()));
    });
}
