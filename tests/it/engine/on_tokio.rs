//! Processes on the threads of a Tokio runtime: what tasks and processes owe each other, and what holds when Tokio runs
//! nothing.

use postroom::prelude::*;
use postroom_tests::{Latch, eventually, soon};
use std::error::Error;
use std::time::Duration;
use tokio::runtime::Builder;

type Outcome = Result<(), Box<dyn Error + Send + Sync>>;

/// A time limit that is never reached.
const LONG: Duration = Duration::from_secs(600);

#[process]
struct Worker {
    done: u64,
}

#[process]
impl Worker {
    #[entry]
    fn serve(&mut self) {}

    #[message]
    fn add(&mut self, number: u64) -> u64 {
        self.done += number;
        self.done
    }

    /// Returns the name of the thread that runs the step.
    #[message]
    fn thread(&mut self) -> String {
        std::thread::current().name().unwrap_or_default().to_owned()
    }

    /// Does not return before `held` is open, and does not declare that it blocks.
    #[message]
    fn stick(&mut self, inside: Latch, held: Latch) {
        inside.open();
        held.wait();
    }

    #[message]
    fn block(&mut self, inside: Latch, held: Latch) {
        postroom::block_in_place(|| {
            inside.open();
            held.wait();
        });
    }

    /// Asks another worker, and blocks until it has answered.
    #[message]
    fn ask(&mut self, other: Address<Worker>) -> u64 {
        other.add(1).timeout(LONG).wait().unwrap_or_default()
    }

    #[message]
    async fn nap(&mut self, ctx: &mut Context<Self>) {
        ctx.sleep(Duration::from_millis(2)).await;
    }

    /// Sleeps for so long that the watchdog rests, and fires no timer.
    #[message]
    async fn sleep(&mut self, ctx: &mut Context<Self>) {
        ctx.sleep(Duration::from_millis(300)).await;
    }

    #[message]
    fn fail(&mut self) {
        panic!("as asked");
    }
}

fn several() -> tokio::runtime::Runtime {
    Builder::new_multi_thread().worker_threads(2).thread_name("theirs").enable_all().build().unwrap()
}

fn single() -> tokio::runtime::Runtime {
    Builder::new_current_thread().enable_all().build().unwrap()
}

fn on(tokio: &tokio::runtime::Runtime) -> Runtime {
    Runtime::builder().on_tokio(tokio.handle().clone()).build().unwrap()
}

fn worker(runtime: &Runtime) -> Address<Worker> {
    runtime.spawn(Worker { done: 0 }).serve().unwrap()
}

/// Catches: workers with threads of their own.
#[test]
fn processes_run_on_the_threads_of_tokio() {
    soon(|| {
        let tokio = several();
        tokio
            .block_on(async {
                let runtime = on(&tokio);
                assert_eq!(runtime.statistics().workers.len(), 2);
                let worker = worker(&runtime);
                let tasks: Vec<_> = (0..64)
                    .map(|_| tokio::spawn(async move { (worker.add(1).await, worker.thread().await.unwrap()) }))
                    .collect();
                for task in tasks {
                    assert_eq!(task.await?.1, "theirs");
                }
                assert_eq!(worker.add(0).await?, 64);
                worker.sleep().await?;
                assert!(runtime.shutdown_async().await?.is_clean());
                Outcome::Ok(())
            })
            .unwrap();
        let tokio = single();
        tokio
            .block_on(async {
                let runtime = on(&tokio);
                let worker = worker(&runtime);
                let tasks = tokio::task::LocalSet::new();
                tasks
                    .run_until(async move { tokio::task::spawn_local(async move { worker.add(1).await }).await })
                    .await??;
                worker.nap().await?;
                assert_eq!(worker.add(1).await?, 2);
                assert!(runtime.shutdown_async().await?.is_clean());
                Outcome::Ok(())
            })
            .unwrap();
    });
}

/// Catches: a step on a thread of Tokio that keeps its permit while it blocks or does not end. (More steps than Tokio
/// has threads.)
#[test]
fn steps_that_block_or_do_not_end_hold_up_no_other_process() {
    soon(|| {
        for tokio in [several(), single()] {
            let runtime = on(&tokio);
            let (stuck, held) = ([(); 3].map(|()| worker(&runtime)), Latch::new());
            for (index, worker) in stuck.iter().enumerate() {
                let inside = Latch::new();
                match index {
                    0 => worker.block(inside.clone(), held.clone()).send().unwrap(),
                    _ => worker.stick(inside.clone(), held.clone()).send().unwrap(),
                }
                inside.wait();
            }
            let (asks, adds) = (worker(&runtime), worker(&runtime));
            assert_eq!(asks.ask(adds).timeout(LONG).wait(), Ok(1));
            assert_eq!(adds.nap().timeout(LONG).wait(), Ok(()));
            held.open();
            for worker in stuck {
                assert_eq!(worker.add(1).timeout(LONG).wait(), Ok(1));
            }
            assert!(runtime.shutdown().unwrap().is_clean());
        }
    });
}

/// Catches: a process that nothing runs while the threads of Tokio are in tasks that block, or poll no task at all.
#[test]
fn processes_run_while_tokio_does_not() {
    soon(|| {
        let (tokio, held) = (several(), Latch::new());
        // With one worker, the thread that helps out is always notified, unless it is relieved.
        let runtime = Runtime::builder().on_tokio(tokio.handle().clone()).workers(1).build().unwrap();
        let worker_of = worker(&runtime);
        for _ in 0..2 {
            let (inside, held) = (Latch::new(), held.clone());
            let is_inside = inside.clone();
            tokio.spawn(async move {
                is_inside.open();
                held.wait();
            });
            inside.wait();
        }
        assert_eq!(worker_of.add(1).timeout(LONG).wait(), Ok(1));
        assert_eq!(worker_of.nap().timeout(LONG).wait(), Ok(()));
        held.open();
        // The threads of Tokio take over again.
        eventually(|| (0..50).all(|_| worker_of.thread().timeout(LONG).wait().unwrap() == "theirs"));
        assert!(runtime.shutdown().unwrap().is_clean());

        // No thread is in `block_on`.
        let tokio = single();
        let runtime = on(&tokio);
        let worker_of = worker(&runtime);
        assert_eq!(worker_of.add(1).timeout(LONG).wait(), Ok(1));
        assert_eq!(worker_of.nap().timeout(LONG).wait(), Ok(()));
        // The only thread is in the shutdown.
        tokio.block_on(async move { assert!(runtime.shutdown().unwrap().is_clean()) });
    });
}

/// Catches: permits that end with Tokio, and processes and callers that wait forever.
#[test]
fn processes_outlive_tokio() {
    soon(|| {
        for tokio in [several(), single()] {
            let runtime = on(&tokio);
            let (worker_of, inside, held) = (worker(&runtime), Latch::new(), Latch::new());
            worker_of.block(inside.clone(), held.clone()).send().unwrap();
            inside.wait();
            // This call is under way when Tokio ends.
            let call = std::thread::spawn(move || worker_of.add(1).timeout(LONG).wait());
            tokio.shutdown_background();
            held.open();
            assert_eq!(call.join().unwrap(), Ok(1));
            assert_eq!(worker_of.nap().timeout(LONG).wait(), Ok(()));
            assert_eq!(worker(&runtime).ask(worker_of).timeout(LONG).wait(), Ok(2));
            assert!(runtime.shutdown().unwrap().is_clean());
        }
        // Tokio is over before the runtime begins.
        let tokio = single();
        let handle = tokio.handle().clone();
        drop(tokio);
        let runtime = Runtime::builder().on_tokio(handle).workers(2).build().unwrap();
        assert_eq!(worker(&runtime).add(1).timeout(LONG).wait(), Ok(1));
        assert!(runtime.shutdown().unwrap().is_clean());
    });
}

/// Catches: a panic that leaves a drive, and ends the task of a worker.
#[test]
fn the_panic_of_a_process_reaches_no_task() {
    soon(|| {
        let tokio = several();
        tokio.block_on(async {
            let runtime = on(&tokio);
            for _ in 0..100 {
                let fails = worker(&runtime);
                assert!(matches!(fails.fail().await, Err(CallError::Died(_))));
            }
            assert_eq!(worker(&runtime).thread().await.unwrap(), "theirs");
            assert!(runtime.shutdown_async().await.unwrap().is_clean());
        });
    });
}

/// Catches: a thread that takes its thread-locals for those of another runtime.
#[test]
fn a_process_may_run_a_tokio_runtime_with_processes_on_it() {
    #[process]
    struct Outer;

    #[process]
    impl Outer {
        #[entry]
        fn serve(&mut self) {}

        /// Tokio refuses to start a runtime in its own threads, except in code that is known to block.
        #[message]
        fn run(&mut self, other: Address<Worker>) -> u64 {
            postroom::block_in_place(|| Self::run_inside(other))
        }
    }

    impl Outer {
        fn run_inside(other: Address<Worker>) -> u64 {
            let tokio = single();
            tokio.block_on(async {
                let runtime = on(&tokio);
                let inner = worker(&runtime);
                let mut sum = 0;
                for _ in 0..100 {
                    sum = inner.add(1).await.unwrap() + other.add(1).await.unwrap();
                }
                assert!(inner.fail().await.is_err());
                assert!(runtime.shutdown_async().await.unwrap().is_clean());
                sum
            })
        }
    }

    soon(|| {
        let tokio = several();
        for runtime in [on(&tokio), Runtime::builder().workers(2).build().unwrap()] {
            let outer = runtime.spawn(Outer).serve().unwrap();
            assert_eq!(outer.run(worker(&runtime)).timeout(LONG).wait(), Ok(200));
            assert!(runtime.shutdown().unwrap().is_clean());
        }
    });
}

/// Catches: workers that are lost with their tasks, because Tokio has no timer. (It panics when it is asked for one.)
#[test]
fn a_tokio_without_timers_leaves_the_workers_to_postroom() {
    soon(|| {
        let tokio = Builder::new_multi_thread().worker_threads(1).build().unwrap();
        let runtime = on(&tokio);
        let worker = worker(&runtime);
        for _ in 0..3 {
            assert_eq!(worker.nap().timeout(LONG).wait(), Ok(()));
        }
        assert!(runtime.shutdown().unwrap().is_clean());
    });
}

/// Catches: a permit that stays with a thread of Postroom's own, so that a thread is woken for each call from then on.
#[test]
fn after_a_step_that_blocks_or_sticks_the_threads_of_tokio_run_processes_again() {
    soon(|| {
        let tokio = several();
        let runtime = Runtime::builder().on_tokio(tokio.handle().clone()).workers(1).build().unwrap();
        let (blocks, asked, other) = (worker(&runtime), worker(&runtime), worker(&runtime));
        let returns = || eventually(|| asked.thread().timeout(LONG).wait().unwrap() == "theirs");
        let begin = |worker: Address<Worker>, sticks: bool| {
            let (inside, held) = (Latch::new(), Latch::new());
            match sticks {
                true => worker.stick(inside.clone(), held.clone()).send().unwrap(),
                false => worker.block(inside.clone(), held.clone()).send().unwrap(),
            }
            inside.wait();
            held
        };
        for sticks in [false, true, false, true] {
            // When the step ends, the other thread mostly sleeps.
            let held = begin(blocks, sticks);
            assert_ne!(asked.thread().timeout(LONG).wait().unwrap(), "theirs");
            held.open();
            returns();
            // When the step ends, the other thread is in a step of its own.
            let held = begin(blocks, sticks);
            let held_too = begin(other, true);
            held.open();
            eventually(|| blocks.add(0).timeout(LONG).wait().is_ok());
            held_too.open();
            returns();
        }
        assert!(runtime.shutdown().unwrap().is_clean());
    });
}
