//! Steps that block: their worker runs other processes in the meantime.

use postroom::block_in_place;
use postroom::inspect::{ProcessState, ThreadState};
use postroom::prelude::*;
use postroom_tests::{Latch, act, eventually, soon};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

mod asynchronous;
mod bound;
mod stress;
mod together;

/// Returns the number of this program's threads that run processes of the runtime `name`. Their names end with a
/// number, unlike the watchdog's.
fn threads_named(name: &str) -> usize {
    let tasks = std::fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    let names = tasks.filter_map(|task| std::fs::read_to_string(task.path().join("comm")).ok());
    let is_number = |rest: &str| rest.strip_prefix('-').is_some_and(|rest| rest.trim_end().parse::<u32>().is_ok());
    names.filter(|comm| comm.strip_prefix(name).is_some_and(is_number)).count()
}

/// Builds a runtime without stall detection, so that only steps that declare that they block give up their worker.
fn with_workers(workers: usize) -> Runtime {
    // The timeout of calls is long, since a busy machine is slow. (Calls from outside set their own.)
    let builder = Runtime::builder().workers(workers).stall_limit(Duration::MAX);
    builder.call_timeout(Duration::from_secs(100)).build().unwrap()
}

/// A counter of the steps that run at the same time, except those that block.
#[derive(Clone, Default)]
struct Running(Arc<(AtomicUsize, AtomicUsize)>);

impl Running {
    /// Counts a step that begins.
    fn enter(&self) {
        self.0.1.fetch_max(self.0.0.fetch_add(1, SeqCst) + 1, SeqCst);
        // Lets other threads run during this step.
        std::thread::yield_now();
    }

    /// Counts a step that ends.
    fn leave(&self) {
        self.0.0.fetch_sub(1, SeqCst);
    }

    fn most(&self) -> usize {
        self.0.1.load(SeqCst)
    }
}

/// A process that blocks in a step until it is released.
#[process]
struct Blocker {
    running: Running,
    inside: Latch,
    go: Latch,
}

#[process]
impl Blocker {
    #[entry]
    fn serve(&mut self) {}

    #[message]
    fn block(&mut self) -> u32 {
        self.running.enter();
        let (inside, go, running) = (&self.inside, &self.go, self.running.clone());
        running.leave();
        let output = block_in_place(|| {
            inside.open();
            go.wait();
            7
        });
        self.running.enter();
        self.running.leave();
        output
    }
}

/// A process that adds numbers, and counts its steps as running.
#[process]
struct Adder {
    running: Running,
    sum: u64,
}

#[process]
impl Adder {
    #[entry]
    fn serve(&mut self) {}

    #[message]
    fn add(&mut self, number: u64) -> u64 {
        self.running.enter();
        self.sum += number;
        self.running.leave();
        self.sum
    }
}

fn blocker(runtime: &Runtime, running: &Running) -> (Address<Blocker>, Latch, Latch) {
    let (inside, go) = (Latch::new(), Latch::new());
    let blocker = Blocker { running: running.clone(), inside: inside.clone(), go: go.clone() };
    (runtime.spawn(blocker).serve().unwrap(), inside, go)
}

#[test]
fn while_the_only_workers_process_blocks_the_others_run_and_afterwards_one_at_a_time() {
    soon(|| {
        let (runtime, running) = (with_workers(1), Running::default());
        let (blocker, inside, go) = blocker(&runtime, &running);
        let adders: Vec<_> =
            (0..10).map(|_| runtime.spawn(Adder { running: running.clone(), sum: 0 }).serve().unwrap()).collect();
        let call = std::thread::spawn(move || blocker.block().timeout(Duration::MAX).wait());
        inside.wait();
        for round in 1..=100 {
            assert!(adders.iter().all(|adder| adder.add(1).timeout(Duration::MAX).wait() == Ok(round)));
        }
        let statistics = runtime.statistics();
        assert_eq!(
            (
                statistics.blocking.blocked,
                statistics.blocking.blocked_in_place,
                statistics.blocking.threads_beyond_limit
            ),
            (1, 0, 0)
        );
        assert_eq!(blocker.pid().info().unwrap().state, ProcessState::Blocking);
        assert!(statistics.threads.iter().any(|thread| thread.state == ThreadState::Blocked));
        // These messages keep the worker busy while the blocker waits for a permit.
        adders.iter().for_each(|adder| (0..100).for_each(|_| adder.add(1).send().unwrap()));
        go.open();
        assert_eq!(call.join().unwrap(), Ok(7));
        assert!(adders.iter().all(|adder| adder.add(1).timeout(Duration::MAX).wait() == Ok(201)));
        assert_eq!(running.most(), 1, "one worker, one step at a time");
        let statistics = runtime.statistics();
        assert_eq!((statistics.blocking.blocked, statistics.blocking.detached), (0, 0));
    });
}

/// Catches: a thread that none of the statistics counts while it waits for a permit after blocking code.
#[test]
fn a_step_that_has_blocked_counts_as_blocked_until_it_has_a_worker_again() {
    soon(|| {
        let (runtime, running) = (with_workers(1), Running::default());
        let (blocker, inside, go) = blocker(&runtime, &running);
        let call = std::thread::spawn(move || blocker.block().timeout(Duration::MAX).wait());
        inside.wait();
        let (is_busy, may_end) = (Latch::new(), Latch::new());
        let (busy, end) = (is_busy.clone(), may_end.clone());
        let hog = runtime.spawn_process(act(move |_, out| {
            busy.open();
            end.wait();
            out.done();
            Ok(())
        }));
        hog.start().unwrap();
        is_busy.wait();
        go.open();
        eventually(|| runtime.statistics().threads.iter().any(|thread| thread.state == ThreadState::Waiting));
        assert_eq!(runtime.statistics().blocking.blocked, 1);
        assert_eq!(blocker.pid().info().unwrap().state, ProcessState::Blocking);
        may_end.open();
        assert_eq!(call.join().unwrap(), Ok(7));
        assert_eq!(runtime.statistics().blocking.blocked, 0);
    });
}

#[test]
fn while_all_workers_processes_block_the_others_run() {
    soon(|| {
        let (runtime, running) = (with_workers(2), Running::default());
        let blockers: Vec<_> = (0..20).map(|_| blocker(&runtime, &running)).collect();
        blockers.iter().for_each(|(blocker, ..)| blocker.block().send().unwrap());
        blockers.iter().for_each(|(_, inside, _)| inside.wait());
        eventually(|| runtime.statistics().blocking.blocked == 20);
        let adder = runtime.spawn(Adder { running: running.clone(), sum: 0 }).serve().unwrap();
        assert!((1..=100).all(|sum| adder.add(1).timeout(Duration::MAX).wait() == Ok(sum)));
        blockers.iter().for_each(|(.., go)| go.open());
        // Each of these calls is answered only after the blocker's first step has ended.
        assert!(blockers.iter().all(|(blocker, ..)| blocker.block().timeout(Duration::MAX).wait() == Ok(7)));
        assert!(running.most() <= 2, "two workers, {} steps at once", running.most());
        assert_eq!(runtime.statistics().blocking.blocked_in_place, 0);
    });
}

/// When a step blocks, other threads immediately run the processes that it has spawned.
#[test]
fn processes_queued_behind_a_blocking_step_run() {
    soon(|| {
        let runtime = with_workers(1);
        let (host, heard) = (runtime.host(), Arc::new(AtomicUsize::new(0)));
        let all = Latch::new();
        let (hears, opens) = (heard.clone(), all.clone());
        let spawner = act(move |_, out| {
            for _ in 0..100 {
                let (hears, opens) = (hears.clone(), opens.clone());
                let child = act(move |_, out| {
                    if hears.fetch_add(1, SeqCst) + 1 == 100 {
                        opens.open();
                    }
                    out.done();
                    Ok(())
                });
                host.spawn_process(child).start().unwrap();
            }
            block_in_place(|| opens.wait());
            out.done();
            Ok(())
        });
        runtime.spawn_process(spawner).start().unwrap();
        eventually(|| runtime.statistics().processes.live == 0);
        assert_eq!(heard.load(SeqCst), 100);
    });
}

/// The only worker always has work. Between two steps it gives its permit to the thread that returns from blocking
/// code.
#[test]
fn a_thread_that_comes_back_gets_a_permit_from_a_busy_worker() {
    soon(|| {
        let (runtime, running) = (with_workers(1), Running::default());
        let stop = Latch::new();
        for _ in 0..3 {
            let stops = stop.clone();
            let busy = act(move |_, out| {
                if stops.is_open() {
                    out.done();
                } else {
                    out.go_on();
                }
                Ok(())
            });
            runtime.spawn_process(busy).start().unwrap();
        }
        for _ in 0..50 {
            let (blocker, inside, go) = blocker(&runtime, &running);
            let call = std::thread::spawn(move || blocker.block().timeout(Duration::MAX).wait());
            inside.wait();
            go.open();
            assert_eq!(call.join().unwrap(), Ok(7));
        }
        stop.open();
    });
}

#[test]
fn a_panic_inside_is_the_steps() {
    soon(|| {
        let runtime = with_workers(1);
        let (started, caught) = (Latch::new(), Latch::new());
        let may_start = started.clone();
        let process = act(move |_, _| {
            may_start.wait();
            block_in_place(|| panic!("no such disk"))
        });
        let end = runtime.spawn_process(process).start().unwrap().join();
        started.open();
        let end = end.wait();
        assert!(matches!(&end, ExitReason::Panic(panic) if panic.to_string().contains("no such disk")), "{end}");
        // If the process catches the panic itself, it continues, with a permit.
        let is_caught = caught.clone();
        let catches = act(move |_, out| {
            let caught = catch_unwind(AssertUnwindSafe(|| block_in_place(|| panic!("no such disk"))));
            assert!(caught.is_err());
            is_caught.open();
            out.idle();
            Ok(())
        });
        let catches = runtime.spawn_process(catches).start().unwrap();
        caught.wait();
        eventually(|| catches.info().unwrap().state == ProcessState::Idle);
        let statistics = runtime.statistics();
        assert_eq!((statistics.blocking.blocked, statistics.blocking.detached), (0, 0));
    });
}

#[test]
fn outside_of_a_process_it_simply_runs() {
    let text = String::from("here");
    assert_eq!(block_in_place(|| (std::thread::current().id(), text.len())), (std::thread::current().id(), 4));
}

#[test]
fn idle_spare_threads_end_after_a_while_and_workers_do_not() {
    soon(|| {
        let name = "bk-idle";
        let keep_alive = Duration::from_millis(20);
        let runtime = Runtime::builder().name(name).workers(2).blocking_keep_alive(keep_alive).build().unwrap();
        for _ in 0..3 {
            let running = Running::default();
            let blockers: Vec<_> = (0..10).map(|_| blocker(&runtime, &running)).collect();
            blockers.iter().for_each(|(blocker, ..)| blocker.block().send().unwrap());
            blockers.iter().for_each(|(_, inside, _)| inside.wait());
            // Each thread sets its name itself, a moment after its start.
            eventually(|| threads_named(name) >= 12);
            blockers.iter().for_each(|(.., go)| go.open());
            eventually(|| threads_named(name) == 2 && runtime.statistics().blocking.spare == 0);
            let adder = runtime.spawn(Adder { running, sum: 0 }).serve().unwrap();
            assert_eq!(adder.add(5).timeout(Duration::MAX).wait(), Ok(5));
        }
    });
}
