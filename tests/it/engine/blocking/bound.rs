//! The limit on the threads of steps that block.

use super::threads_named;
use postroom::block_in_place;
use postroom::error::BuildError;
use postroom::prelude::*;
use postroom_tests::{Latch, act, eventually, soon, within};
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Builds a runtime with two workers, no stall detection, and a limit of `threads` threads.
fn bounded(name: &str, threads: usize) -> Runtime {
    let builder = Runtime::builder().name(name).workers(2).stall_limit(Duration::MAX);
    builder.blocking_threads(threads).build().unwrap()
}

#[test]
fn thousands_that_block_at_once_have_no_more_threads_than_the_bound_and_all_return() {
    const BOUND: usize = 8;
    within(Duration::from_secs(60), || {
        let name = "bk-bound";
        let runtime = bounded(name, BOUND);
        let (done, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(Mutex::new(0)));
        for number in 0..2_000 {
            let (done, most, host) = (done.clone(), most.clone(), runtime.host());
            let process = act(move |_, out| {
                block_in_place(|| match number {
                    // This step blocks until the number of blocking steps exceeds the limit.
                    0..=BOUND => eventually(|| host.statistics().blocking.blocked_in_place > 0),
                    _ => std::thread::sleep(Duration::from_micros(200)),
                });
                if number % 50 == 0 {
                    let threads = threads_named(name);
                    let mut most = most.lock().unwrap();
                    *most = threads.max(*most);
                }
                done.fetch_add(1, SeqCst);
                out.done();
                Ok(())
            });
            runtime.spawn_process(process).start().unwrap();
        }
        eventually(|| done.load(SeqCst) == 2_000);
        let most = *most.lock().unwrap();
        assert!(most <= 2 + BOUND, "{most} threads");
        let statistics = runtime.statistics();
        assert!(statistics.threads.len() <= 2 + BOUND, "{} threads", statistics.threads.len());
        assert!(statistics.blocking.blocked_in_place > 0 && statistics.blocking.threads_beyond_limit == 0);
    });
}

/// A process that blocks in async code until it is released.
#[process]
struct Sleeper {
    inside: Arc<AtomicUsize>,
    most: Arc<AtomicUsize>,
    go: Latch,
}

#[process]
impl Sleeper {
    #[entry]
    async fn sleep(&mut self, ctx: &mut Context<Self>) -> usize {
        ctx.blocking(|| {
            self.most.fetch_max(self.inside.fetch_add(1, SeqCst) + 1, SeqCst);
            self.go.wait();
            self.inside.fetch_sub(1, SeqCst)
        })
        .await
    }
}

#[derive(Clone, Default)]
struct Sleepers {
    inside: Arc<AtomicUsize>,
    most: Arc<AtomicUsize>,
    go: Latch,
}

impl Sleepers {
    fn spawn(&self, runtime: &Runtime) -> Running<Sleeper, usize> {
        let Self { inside, most, go } = self.clone();
        runtime.spawn(Sleeper { inside, most, go }).sleep().unwrap()
    }
}

/// Ten thousand async steps wait for a thread as they would in any other await. So other processes can use the workers
/// in the meantime.
#[test]
fn in_async_code_ten_thousand_block_in_turn_and_no_worker_is_blocked() {
    const BOUND: usize = 4;
    within(Duration::from_secs(60), || {
        let name = "bk-async";
        let runtime = bounded(name, BOUND);
        let sleepers = Sleepers::default();
        let running: Vec<_> = (0..10_000).map(|_| sleepers.spawn(&runtime)).collect();
        eventually(|| sleepers.inside.load(SeqCst) == BOUND);
        // All other steps wait, and the workers are free.
        let counted = Arc::new(AtomicUsize::new(0));
        for _ in 0..100 {
            let counts = counted.clone();
            let process = act(move |_, out| {
                counts.fetch_add(1, SeqCst);
                out.done();
                Ok(())
            });
            runtime.spawn_process(process).start().unwrap();
        }
        eventually(|| counted.load(SeqCst) == 100);
        assert_eq!((sleepers.inside.load(SeqCst), runtime.statistics().blocking.blocked), (BOUND, BOUND));
        sleepers.go.open();
        running.into_iter().for_each(|running| assert!(running.wait().is_ok()));
        assert!(sleepers.most.load(SeqCst) <= BOUND && threads_named(name) <= 2 + BOUND);
        let statistics = runtime.statistics();
        assert_eq!((statistics.blocking.blocked_in_place, statistics.blocking.threads_beyond_limit), (0, 0));
        assert!(statistics.threads.len() <= 2 + BOUND);
    });
}

/// A process that ends while it waits in the queue never runs its closure, and does not delay any other process.
#[test]
fn a_process_that_exits_in_the_blocking_queue_is_skipped() {
    soon(|| {
        let runtime = Runtime::builder().workers(1).blocking_threads(1).stall_limit(Duration::MAX).build().unwrap();
        let first = Sleepers::default();
        let held = first.spawn(&runtime);
        eventually(|| first.inside.load(SeqCst) == 1);
        let others: Vec<_> = (0..10)
            .map(|_| {
                let sleepers = Sleepers::default();
                sleepers.go.open();
                let running = sleepers.spawn(&runtime);
                (sleepers, running)
            })
            .collect();
        let state = |running: &Running<Sleeper, usize>| running.address().pid().info().map(|info| info.state);
        let waits = Some(postroom::inspect::ProcessState::Waiting { outstanding: 0 });
        eventually(|| others.iter().all(|(_, running)| state(running) == waits));
        for (_, running) in others.iter().step_by(2) {
            let end = running.address().pid().join();
            running.address().pid().kill();
            assert_eq!(end.wait(), ExitReason::Killed);
        }
        first.go.open();
        assert!(held.wait().is_ok());
        for (number, (sleepers, running)) in others.into_iter().enumerate() {
            let ran = number % 2 == 1;
            assert_eq!((running.wait().is_ok(), sleepers.most.load(SeqCst) == 1), (ran, ran));
        }
    });
}

/// If the process for which a thread is reserved has exited, the next process in the queue gets the thread.
#[test]
fn an_unused_reservation_is_passed_on() {
    soon(|| {
        let runtime = Runtime::builder().workers(1).blocking_threads(1).stall_limit(Duration::MAX).build().unwrap();
        for _ in 0..200 {
            let (first, second, third) = (Sleepers::default(), Sleepers::default(), Sleepers::default());
            let held = first.spawn(&runtime);
            eventually(|| first.inside.load(SeqCst) == 1);
            let (leaves, stays) = (second.spawn(&runtime), third.spawn(&runtime));
            let pid = leaves.address().pid();
            second.go.open();
            third.go.open();
            first.go.open();
            // The kill may come at any time during the reservation.
            pid.kill();
            assert!(held.wait().is_ok() && stays.wait().is_ok());
            drop(leaves.wait());
        }
        assert_eq!(runtime.statistics().blocking.blocked_in_place, 0);
    });
}

#[process]
struct Link {
    next: Option<Address<Link>>,
}

#[process]
impl Link {
    #[entry]
    fn serve(&mut self) {}

    #[message]
    fn depth(&mut self) -> u32 {
        1 + self.next.map_or(0, |next| next.depth().wait().unwrap())
    }
}

/// Each process waits for the next one, and needs a thread for that. The last one runs, although that exceeds the
/// limit.
#[test]
fn waits_for_processes_exceed_the_limit_rather_than_block_the_last_worker() {
    soon(|| {
        for workers in [1, 3] {
            let runtime = Runtime::builder()
                .workers(workers)
                .blocking_threads(1)
                .stall_limit(Duration::MAX)
                .blocking_keep_alive(Duration::from_millis(1))
                .build()
                .unwrap();
            let mut last = None;
            for _ in 0..20 {
                last = Some(runtime.spawn(Link { next: last }).serve().unwrap());
            }
            assert_eq!(last.unwrap().depth().timeout(Duration::MAX).wait(), Ok(20));
            assert!(runtime.statistics().blocking.threads_beyond_limit > 0);
            eventually(|| runtime.statistics().blocking.spare == 0);
            assert_eq!(last.unwrap().depth().timeout(Duration::MAX).wait(), Ok(20));
        }
    });
}

/// A process that blocks its thread in async code.
#[process]
struct Reader;

#[process]
impl Reader {
    #[entry]
    fn serve(&mut self) {}

    #[message]
    async fn read(&mut self, ctx: &mut Context<Self>) -> u32 {
        ctx.blocking(|| 7).await
    }
}

/// The only thread that may block waits for the answer of a process that has to block itself before it can answer.
///
/// Catches: a wait in blocking code that is not recorded as a wait for a process.
#[test]
fn a_call_in_blocking_code_exceeds_the_limit_for_its_answer() {
    soon(|| {
        let runtime = Runtime::builder().workers(1).blocking_threads(1).stall_limit(Duration::MAX).build().unwrap();
        let reader = runtime.spawn(Reader).serve().unwrap();
        let (answered, answers) = std::sync::mpsc::channel();
        let asks = act(move |_, out| {
            // Starting a thread may take a long time.
            let answer = block_in_place(|| reader.read().timeout(Duration::from_secs(25)).wait());
            answered.send(answer).unwrap();
            out.done();
            Ok(())
        });
        runtime.spawn_process(asks).start().unwrap();
        assert_eq!(answers.recv().unwrap(), Ok(7));
    });
}

/// At the limit a sync step blocks its worker; the other worker continues.
#[test]
fn at_the_limit_a_sync_step_blocks_its_worker_and_is_counted() {
    soon(|| {
        let runtime = Runtime::builder().workers(2).blocking_threads(1).stall_limit(Duration::MAX).build().unwrap();
        let blocks = || {
            let (inside, go) = (Latch::new(), Latch::new());
            let (is_inside, may_go) = (inside.clone(), go.clone());
            let process = act(move |_, out| {
                block_in_place(|| {
                    is_inside.open();
                    may_go.wait();
                });
                out.done();
                Ok(())
            });
            let end = runtime.spawn_process(process).start().unwrap().join();
            inside.wait();
            (go, end)
        };
        let (first, second) = (blocks(), blocks());
        let statistics = runtime.statistics();
        assert_eq!((statistics.blocking.blocked, statistics.blocking.blocked_in_place), (1, 1));
        let done = Latch::new();
        let is_done = done.clone();
        let other = act(move |_, out| {
            is_done.open();
            out.done();
            Ok(())
        });
        runtime.spawn_process(other).start().unwrap();
        done.wait();
        for (go, end) in [first, second] {
            go.open();
            assert_eq!(end.wait(), ExitReason::Normal);
        }
        // Now a thread is available again.
        let (go, end) = blocks();
        assert_eq!(runtime.statistics().blocking.blocked_in_place, 1);
        go.open();
        assert_eq!(end.wait(), ExitReason::Normal);
    });
}

#[test]
fn a_bound_of_no_threads_is_refused() {
    for came in [0, 65_537] {
        let refused = Runtime::builder().blocking_threads(came).build();
        assert!(matches!(refused, Err(BuildError::BlockingThreads { came: said, .. }) if said == came));
    }
}
