//! Steps that do not end: the processes that wait behind them run elsewhere, and each stall is reported once.
//!
//! No test result depends on the clock, but some tests take as long as the stall limit, since they wait for the
//! effects of a stall. Not covered: how soon a stall is noticed (tested in `engine/watchdog/detector.rs` on a virtual
//! clock), and latencies (see the probe in `benches/compare`).

mod log;
mod rest;
mod stress;

use postroom::Builder;
use postroom::error::BuildError;
use postroom::inspect::{ProcessState, Stall, Statistics, ThreadState};
use postroom::prelude::*;
use postroom_tests::{HOUR, Latch, act, eventually, idle_for_ever, listeners, soon};
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// The stalls that were reported to a hook.
#[derive(Clone, Default)]
struct StallLog(Arc<Mutex<Vec<Stall>>>);

impl StallLog {
    fn by(&self, builder: Builder) -> Builder {
        let stalls = self.0.clone();
        builder.on_stall(move |stall| stalls.lock().unwrap().push(stall.clone()))
    }

    fn all(&self) -> Vec<Stall> {
        self.0.lock().unwrap().clone()
    }

    /// Returns the stalls of steps that handled an `M`. Any other step may stall, too, if its thread is preempted.
    fn of<M>(&self) -> Vec<Stall> {
        let message = Some(std::any::type_name::<M>());
        self.all().into_iter().filter(|stall| stall.message == message).collect()
    }

    /// Waits until there have been `count` stalls, and returns all stalls so far.
    fn times(&self, count: usize) -> Vec<Stall> {
        eventually(|| self.all().len() >= count);
        self.all()
    }
}

/// Messages that each have two latches: the handler opens the first one, and then waits for the second.
struct Loop(Latch, Latch);
struct Wait(Latch, Latch);

/// A process whose handlers do not return before their latch is open.
#[process]
struct Stuck;

#[process]
impl Stuck {
    #[entry]
    fn serve(&mut self) {}

    #[entry]
    async fn hang(&mut self, ctx: &mut Context<Self>, until: Latch) {
        ctx.sleep(Duration::from_millis(1)).await;
        until.wait();
    }

    /// Simulates an endless computation.
    #[message(Loop)]
    fn spin(&mut self, until: Loop) {
        until.0.open();
        while !until.1.is_open() {
            std::hint::spin_loop();
        }
    }

    /// Simulates a blocking system call.
    #[message(Wait)]
    fn block(&mut self, until: Wait) {
        until.0.open();
        until.1.wait();
    }
}

/// A process that answers at once.
#[process]
struct Other;

#[process]
impl Other {
    #[entry]
    fn serve(&mut self) {}

    #[message]
    fn ask(&mut self) -> u64 {
        7
    }

    #[entry]
    async fn tick(&mut self, ctx: &mut Context<Self>) -> u64 {
        ctx.sleep(Duration::from_millis(1)).await;
        7
    }
}

/// Makes the process run a step that does not end before the returned latch is opened. Returns when the step has begun.
fn stick<M: Send + 'static>(stuck: Address<Stuck>, message: fn(Latch, Latch) -> M) -> Latch
where
    Stuck: postroom::generic::Handles<M>,
{
    let (begun, until) = (Latch::new(), Latch::new());
    postroom::Host::of(stuck.pid()).unwrap().send(stuck.pid(), message(begun.clone(), until.clone())).unwrap();
    begun.wait();
    until
}

fn one_worker() -> Builder {
    Runtime::builder().workers(1)
}

#[test]
fn others_run_although_the_only_worker_is_in_a_loop_without_end() {
    soon(|| {
        let stalls = StallLog::default();
        let runtime = stalls.by(one_worker()).build().unwrap();
        let (stuck, other) = (runtime.spawn(Stuck).serve().unwrap(), runtime.spawn(Other).serve().unwrap());
        let until = stick(stuck, Loop);
        for _ in 0..100 {
            assert_eq!(other.ask().wait().unwrap(), 7);
        }
        eventually(|| stalls.of::<Loop>().len() == 1);
        let first = stalls.of::<Loop>()[0].clone();
        assert_eq!((first.pid, first.process, first.entry), (stuck.pid(), "Stuck", "serve"));
        assert!(first.taken_over && !first.is_over && first.lasted >= Duration::from_millis(10));
        until.open();
        eventually(|| stalls.of::<Loop>().len() == 2);
        let last = stalls.of::<Loop>()[1].clone();
        assert!(last.is_over && last.lasted >= first.lasted && last.pid == first.pid);
        let Statistics { watchdog, .. } = runtime.statistics();
        assert!(!runtime.shutdown_within(HOUR).unwrap().was_forced());
        let (all, of_it) = (stalls.all(), stalls.of::<Loop>().len());
        let others = all.iter().filter(|stall| !stall.is_over).count() as u64 - 1;
        assert_eq!(of_it, 2);
        assert!((1..=1 + others).contains(&watchdog.stalls) && watchdog.taken_over >= 1, "{watchdog:?}, {all:?}");
    });
}

#[test]
fn a_shutdown_returns_at_its_deadline_and_names_stuck_processes() {
    soon(|| {
        let builder = one_worker().shutdown_deadline(Duration::from_millis(100));
        let runtime = builder.build().unwrap();
        let (stuck, other) = (runtime.spawn(Stuck).serve().unwrap(), runtime.spawn(Other).serve().unwrap());
        let until = stick(stuck, Loop);
        assert_eq!(other.ask().wait().unwrap(), 7);
        let report = runtime.shutdown().unwrap();
        let left: Vec<_> = report.stuck.iter().map(|left| (left.pid, left.process)).collect();
        assert_eq!(left, [(stuck.pid(), "Stuck")]);
        // The other process exited although the only worker was stuck: cancelled, or killed if the thread that took
        // over got no CPU time before the deadline.
        assert_eq!((report.alive, report.ended + report.killed), (2, 1));
        until.open();
    });
}

#[test]
fn timers_fire_although_all_workers_are_stuck() {
    soon(|| {
        let runtime = one_worker().build().unwrap();
        let stuck = runtime.spawn(Stuck).serve().unwrap();
        let ticking = runtime.spawn(Other).tick().unwrap();
        let until = stick(stuck, Wait);
        assert_eq!(ticking.wait().unwrap(), 7);
        until.open();
    });
}

/// The step wakes another process, and returns when that process has run. The process waits in the run-next slot.
#[cfg(not(postroom_no_local))]
#[test]
fn a_process_behind_a_blocked_step_is_moved_to_another_worker() {
    for workers in [1, 2, 3] {
        soon(move || while !is_moved_in_time(workers) {});
    }
}

/// Returns whether another worker ran the process within the stall limit, or true if there is no other worker. It is
/// false only if that worker's thread was preempted.
#[cfg(not(postroom_no_local))]
fn is_moved_in_time(workers: usize) -> bool {
    let runtime = Runtime::builder().workers(workers).build().unwrap();
    let ran = Latch::new();
    let runs = ran.clone();
    let other = act(move |events, _| {
        if events.next().is_some() {
            runs.open();
        }
        Ok(())
    });
    let other = runtime.spawn_process(other).start().unwrap();
    eventually(|| other.info().is_some_and(|info| info.state == postroom::inspect::ProcessState::Idle));
    let host = runtime.host();
    let blocker = act(move |_, out| {
        host.send(other, ()).unwrap();
        ran.wait();
        out.done();
        Ok(())
    });
    let end = runtime.spawn_process(blocker).start().unwrap().join();
    assert!(matches!(end.wait(), ExitReason::Normal | ExitReason::NoProcess));
    // The watchdog counts a move after making it.
    eventually(|| runtime.statistics().watchdog.moved > 0);
    let statistics = runtime.statistics();
    assert_eq!(statistics.watchdog.moved, 1, "{statistics:?}");
    workers == 1 || statistics.watchdog.taken_over == 0
}

/// A step that does not end keeps sending; the processes that it wakes always run elsewhere.
#[test]
fn processes_that_a_stuck_step_floods_run_elsewhere() {
    soon(|| {
        let runtime = one_worker().build().unwrap();
        let (others, heard) = listeners(&runtime, 100);
        let (host, hears) = (runtime.host(), heard.clone());
        let flooding = act(move |_, out| {
            // Each round waits until all processes have run once more.
            for round in 1..=20 {
                others.iter().for_each(|&pid| host.send(pid, ()).unwrap());
                eventually(|| hears.load(SeqCst) == 100 * round);
            }
            out.done();
            Ok(())
        });
        let end = runtime.spawn_process(flooding).start().unwrap().join();
        assert!(matches!(end.wait(), ExitReason::Normal | ExitReason::NoProcess));
        assert_eq!(heard.load(SeqCst), 2_000);
        // At least the worker of this step was taken over. Others were, too, if their thread was preempted in a step.
        assert!(runtime.statistics().watchdog.taken_over >= 1);
    });
}

/// Many processes are stuck at the same time. The worker of each one is taken over for the next.
#[test]
fn each_of_many_stuck_workers_is_taken_over() {
    soon(|| {
        let stalls = StallLog::default();
        let runtime = stalls.by(Runtime::builder().workers(2)).build().unwrap();
        let other = runtime.spawn(Other).serve().unwrap();
        // Each step but the first two can begin only because the worker of an earlier one was taken over.
        let stuck: Vec<_> = (0..8).map(|_| runtime.spawn(Stuck).serve().unwrap()).collect();
        let latches: Vec<Latch> = stuck.iter().map(|&stuck| stick(stuck, Wait)).collect();
        assert_eq!(other.ask().wait().unwrap(), 7);
        latches.iter().for_each(Latch::open);
        let is_over = |stall: &Stall| stall.is_over;
        eventually(|| {
            let (all, counted) = (stalls.all(), runtime.statistics().watchdog.stalls);
            let over = all.iter().filter(|stall| is_over(stall)).count();
            over * 2 == all.len() && over as u64 == counted
        });
        let mut pids: Vec<Pid> = stalls.all().iter().filter(|stall| !is_over(stall)).map(|stall| stall.pid).collect();
        pids.sort_unstable();
        pids.dedup();
        assert_eq!(pids.len() as u64, runtime.statistics().watchdog.stalls, "none twice");
        assert!(pids.len() >= 7 && runtime.statistics().watchdog.taken_over >= 7, "{:?}", runtime.statistics());
        assert!(!runtime.shutdown_within(HOUR).unwrap().was_forced());
    });
}

#[test]
fn an_async_step_is_reported_without_a_message() {
    soon(|| {
        let stalls = StallLog::default();
        let runtime = stalls.by(one_worker()).build().unwrap();
        let (until, other) = (Latch::new(), runtime.spawn(Other).serve().unwrap());
        let hanging = runtime.spawn(Stuck).hang(until.clone()).unwrap();
        // The other process stalls, too, if its thread is preempted.
        let pid = hanging.address().pid();
        let of_it = || stalls.all().into_iter().filter(|stall| stall.pid == pid).collect::<Vec<_>>();
        eventually(|| {
            assert_eq!(other.ask().wait().unwrap(), 7);
            !of_it().is_empty()
        });
        until.open();
        eventually(|| of_it().len() == 2);
        assert_eq!((of_it()[0].entry, of_it()[0].message), ("hang", None));
        hanging.wait().unwrap();
    });
}

/// The drop of a process's state, and its `close`, count as part of its last step.
#[test]
fn a_close_that_takes_long_is_a_stall_too() {
    soon(|| {
        let stalls = StallLog::default();
        let runtime = stalls.by(one_worker()).build().unwrap();
        let (closing, until) = (Latch::new(), Latch::new());
        let (closes, may) = (closing.clone(), until.clone());
        let process = idle_for_ever().close(move || {
            closes.open();
            may.wait();
        });
        let pid = runtime.spawn_process(process).start().unwrap();
        let other = runtime.spawn(Other).serve().unwrap();
        assert!(pid.stop());
        closing.wait();
        assert_eq!(other.ask().wait().unwrap(), 7);
        let is_it = |is_over: bool| stalls.all().iter().any(|stall| stall.pid == pid && stall.is_over == is_over);
        eventually(|| is_it(false));
        until.open();
        eventually(|| is_it(true));
    });
}

#[test]
fn a_hook_that_panics_is_called_for_the_next_stall() {
    soon(|| {
        let count = Arc::new(AtomicU64::new(0));
        let counts = count.clone();
        let builder = one_worker().on_stall(move |_| {
            counts.fetch_add(1, SeqCst);
            panic!("a hook of a test")
        });
        let runtime = builder.build().unwrap();
        let (stuck, other) = (runtime.spawn(Stuck).serve().unwrap(), runtime.spawn(Other).serve().unwrap());
        for round in 1..=3 {
            let until = stick(stuck, Wait);
            assert_eq!(other.ask().wait().unwrap(), 7);
            until.open();
            eventually(|| count.load(SeqCst) == 2 * round);
        }
    });
}

#[test]
fn a_limit_of_zero_is_refused_and_without_end_never_reached() {
    soon(|| {
        assert!(matches!(one_worker().stall_limit(Duration::ZERO).build(), Err(BuildError::StallLimit)));
        let runtime = Runtime::builder().workers(1).stall_limit(Duration::MAX).build().unwrap();
        let (stuck, other) = (runtime.spawn(Stuck).serve().unwrap(), runtime.spawn(Other).serve().unwrap());
        let until = stick(stuck, Wait);
        let call = std::thread::spawn(move || other.ask().timeout(Duration::MAX).wait());
        let looked = runtime.statistics().watchdog.ticks;
        eventually(|| runtime.statistics().watchdog.ticks >= looked + 20);
        assert_eq!((runtime.statistics().watchdog.stalls, runtime.statistics().watchdog.taken_over), (0, 0));
        until.open();
        assert_eq!(call.join().unwrap().unwrap(), 7);
    });
}

/// A step may compute for any time while no process waits. If a process has waited for a tick, as on a busy machine
/// when the thread that runs it is preempted, a stall is rightly reported, and this test shows nothing. The detector
/// has unit tests on a virtual clock.
#[test]
fn a_long_step_that_no_process_waits_for_is_no_stall() {
    const LIMIT: Duration = Duration::from_millis(100);
    // The longest possible time between two ticks of the watchdog.
    const TICK: Duration = Duration::from_micros(2_500);
    let stalls = StallLog::default();
    let runtime = stalls.by(Runtime::builder().workers(2).stall_limit(LIMIT)).build().unwrap();
    let (stuck, other) = (runtime.spawn(Stuck).serve().unwrap(), runtime.spawn(Other).serve().unwrap());
    // Steps that wake processes keep the watchdog awake.
    let (host, (listener, heard)) = (runtime.host(), listeners(&runtime, 1));
    let busy = act(move |events, _| {
        if events.next().is_some() {
            host.send(listener[0], ()).unwrap();
        }
        Ok(())
    });
    let busy = runtime.spawn_process(busy).start().unwrap();
    let until = stick(stuck, Loop);
    let (begun, mut rounds, mut longest) = (Instant::now(), 0, Duration::ZERO);
    eventually(|| {
        // The other worker runs these processes.
        let began = Instant::now();
        runtime.send(busy, ()).unwrap();
        assert_eq!(other.ask().wait().unwrap(), 7);
        rounds += 1;
        eventually(|| heard.load(SeqCst) == rounds);
        longest = longest.max(began.elapsed());
        // After that time the step counts as stalled if anything waits for it.
        begun.elapsed() >= LIMIT * 2
    });
    until.open();
    runtime.shutdown().unwrap();
    let told = stalls.of::<Loop>();
    assert!(told.is_empty() || longest >= TICK, "{told:?}, and no process waited for longer than {longest:?}");
}

/// A pinned process has no worker that others could wait for. Only its own messages wait, as its info shows.
///
/// Mutation: make the watchdog check the threads of pinned processes, too.
#[test]
fn a_long_step_of_a_pinned_process_is_no_stall_and_can_be_seen() {
    soon(|| {
        let stalls = StallLog::default();
        let runtime = stalls.by(one_worker()).build().unwrap();
        // There are two processes, so that one of them always waits for the worker.
        for _ in 0..2 {
            let restless = act(|_, out| {
                out.go_on();
                Ok(())
            });
            runtime.spawn_process(restless).start().unwrap();
        }
        let pinned = runtime.spawn_pinned(|| Stuck).serve().unwrap();
        let (pid, until, open) = (pinned.pid(), stick(pinned, Loop), Latch::new());
        open.open();
        for _ in 0..3 {
            runtime.send(pid, Wait(Latch::new(), open.clone())).unwrap();
        }
        let (before, looked) = (pid.info().unwrap(), runtime.statistics().watchdog.ticks);
        eventually(|| runtime.statistics().watchdog.ticks >= looked + 40);
        let info = pid.info().unwrap();
        assert_eq!((info.state, info.mailbox, info.steps), (ProcessState::Running, 3, before.steps));
        let threads = runtime.statistics().threads;
        let own = threads.iter().find(|thread| thread.state == ThreadState::Pinned).unwrap();
        assert_eq!((own.process, own.worker), (Some(pid), None));
        until.open();
        eventually(|| pid.info().unwrap().messages == 4);
        runtime.shutdown().unwrap();
        // On a busy machine, one of the other processes may have stalled.
        assert!(stalls.all().iter().all(|stall| stall.pid != pid), "{:?}", stalls.all());
    });
}
