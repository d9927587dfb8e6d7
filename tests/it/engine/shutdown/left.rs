//! Processes that no worker reaches during a shutdown: they exit, and joins of them return.

use super::*;
use postroom::Reply;
use postroom::supervision::Supervisor;
use postroom_tests::HOUR;
use std::thread;

/// A process that never answers. The reference count of `_held` shows when it is dropped.
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

/// Spawns a process that runs `first` in a step, and stays in that step until `release` is opened.
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

/// The only worker is in a step that does not return, and cannot be taken over. So no worker reaches any other
/// process after the deadline, as on a machine that gives the workers no CPU time.
///
/// Mutation: in `shutdown/mod.rs`, `end_threads`, do not start the last thread; or in `run_loop.rs` let `exit` find
/// nothing.
#[test]
fn processes_that_no_worker_reaches_are_ended_and_joins_of_them_return() {
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
        // The process has taken one call. The other call will come too late.
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
        // A process that was killed and has had no CPU time since counts as stuck, too.
        let left = report.stuck.len() as u64;
        assert_eq!((report.alive, report.ended, report.killed + left), (4, 0, 4), "{report}");
        assert!(report.stuck.iter().any(|left| left.pid == stuck), "{report}");
        for end in ends {
            assert_eq!(end.wait(), ExitReason::Killed);
        }
        assert_eq!(Arc::strong_count(&held), 1, "told when the state has been dropped");
        assert!(in_flight.join().unwrap().is_err() && unopened.join().unwrap().is_err());
        assert_eq!(watcher.wait().unwrap(), ExitReason::Killed);
        // The stuck process exits only when its step returns. This is reported although its host is gone by then.
        assert!(stuck.is_alive() && reads.wait_timeout(Duration::from_millis(1)).is_none());
        release.open();
        assert_eq!(stuck_end.wait(), ExitReason::Killed);
        assert!(other.shutdown_within(HOUR).unwrap().is_clean());
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

/// The processes that the stuck step has woken are in the run-next slot and deque of its thread, or where the watchdog
/// has moved them.
///
/// Mutation: in `run_loop.rs`, `exit`, check only the thread's own queues.
#[test]
fn processes_queued_behind_a_step_that_does_not_return_are_ended_too() {
    soon(|| {
        let runtime = Runtime::builder().workers(1).stall_limit(Duration::MAX).build().unwrap();
        let (host, release) = (runtime.host(), Latch::new());
        let behind: Vec<Pid> = (0..20).map(|_| runtime.spawn_process(idle_for_ever()).start().unwrap()).collect();
        eventually(|| runtime.until_idle().is_ok());
        let ends: Vec<_> = behind.iter().map(|pid| pid.join()).collect();
        eventually(|| runtime.until_idle().is_ok());
        let stuck = hog(&runtime, &release, move || behind.iter().for_each(|pid| _ = host.send(*pid, ())));
        let report = runtime.shutdown_within(Duration::from_millis(10)).unwrap();
        // A process that was killed and has had no CPU time since counts as stuck, too.
        assert_eq!(report.killed + report.stuck.len() as u64, 21, "{report}");
        assert!(report.stuck.iter().any(|left| left.pid == stuck), "{report}");
        for end in ends {
            assert_eq!(end.wait(), ExitReason::Killed);
        }
        release.open();
    });
}

/// The start of the process returns only when the host is down and its threads are gone.
///
/// Mutation: in `engine/host/mod.rs`, `announce`, do not check whether the host has been stopped.
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
                    // The process's token is parked, and is then taken back because of the kill.
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
            // The process may have exited by now; otherwise it is about to.
            let reason = pid.join().wait();
            assert!(matches!(reason, ExitReason::Killed | ExitReason::NoProcess), "{reason}");
            assert!(!pid.is_alive());
            eventually(|| Arc::strong_count(&dropped) == 1);
        }
    });
}

/// The start runs on the process's own thread, which is neither a worker nor in a step.
///
/// Mutation: in `pinned/mod.rs`, `run_pinned`, do not record that it runs user code.
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

/// The threads end only when the queues are empty, whichever thread empties them.
#[test]
fn joins_of_a_thousand_processes_that_no_worker_reaches_return() {
    soon(|| {
        let runtime = Runtime::builder().workers(2).stall_limit(Duration::MAX).build().unwrap();
        let release = Latch::new();
        let pids: Vec<Pid> =
            (0..1_000).map(|_| runtime.spawn_process(idle_for_ever().handles_cancel()).start().unwrap()).collect();
        let ends: Vec<_> = pids.iter().map(|pid| pid.join()).collect();
        let stuck = [hog(&runtime, &release, || {}), hog(&runtime, &release, || {})];
        let report = runtime.shutdown_within(Duration::from_millis(10)).unwrap();
        // How many processes have exited by then depends on the speed of the machine, but the two stuck ones have not.
        assert_eq!((report.alive, report.killed + report.stuck.len() as u64), (1_002, 1_002));
        assert!(stuck.iter().all(|pid| report.stuck.iter().any(|left| left.pid == *pid)));
        ends.into_iter().for_each(|end| assert_eq!(end.wait(), ExitReason::Killed));
        release.open();
        stuck.into_iter().for_each(|pid| eventually(|| !pid.is_alive()));
    });
}
