//! Blocking in async code.

use super::{Adder, Running as Counted, with_workers};
use postroom::inspect::ProcessState;
use postroom::manual::{Events, InitContext, Machine, Process, StepOutput};
use postroom::prelude::*;
use postroom_tests::{Latch, act, eventually, soon};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::thread::{self, ThreadId};
use std::time::Duration;

#[process]
struct Worker {
    counted: Counted,
    inside: Latch,
    go: Latch,
    done: u32,
}

#[process]
impl Worker {
    #[entry]
    fn serve(&mut self) {}

    /// The blocking closure borrows from this method and from the struct.
    #[message]
    async fn work(&mut self, ctx: &mut Context<Self>, numbers: Vec<u32>) -> u32 {
        self.counted.enter();
        self.counted.leave();
        let sum = ctx
            .blocking(|| {
                self.inside.open();
                self.go.wait();
                self.done += 1;
                numbers.iter().sum::<u32>()
            })
            .await;
        self.counted.enter();
        self.counted.leave();
        sum + numbers.len() as u32
    }

    #[message]
    async fn panics(&mut self, ctx: &mut Context<Self>) {
        ctx.blocking(|| panic!("the disk is full")).await;
    }

    #[message]
    fn done(&mut self) -> u32 {
        self.done
    }
}

fn worker(runtime: &Runtime, counted: &Counted) -> (Address<Worker>, Latch, Latch) {
    let (inside, go) = (Latch::new(), Latch::new());
    let worker = Worker { counted: counted.clone(), inside: inside.clone(), go: go.clone(), done: 0 };
    (runtime.spawn(worker).serve().unwrap(), inside, go)
}

#[test]
fn the_blocking_closure_borrows_from_the_method_and_others_run() {
    soon(|| {
        let (runtime, counted) = (with_workers(1), Counted::default());
        let (worker, inside, go) = worker(&runtime, &counted);
        let adder = runtime.spawn(Adder { running: counted.clone(), sum: 0 }).serve().unwrap();
        let call = thread::spawn(move || worker.work(vec![1, 2, 3]).timeout(Duration::MAX).wait());
        inside.wait();
        assert!((1..=100).all(|sum| adder.add(1).timeout(Duration::MAX).wait() == Ok(sum)));
        assert_eq!(worker.pid().info().unwrap().state, ProcessState::Blocking);
        go.open();
        assert_eq!(call.join().unwrap(), Ok(9));
        assert_eq!((worker.done().timeout(Duration::MAX).wait(), counted.most()), (Ok(1), 1));
    });
}

/// The only worker is in a long step when the blocking ends, so the process is queued, and its thread does not wait.
#[test]
fn without_an_idle_worker_the_process_goes_to_the_queue_and_the_thread_stands_by() {
    soon(|| {
        let (runtime, counted) = (with_workers(1), Counted::default());
        let (worker, inside, go) = worker(&runtime, &counted);
        let call = thread::spawn(move || worker.work(vec![1]).timeout(Duration::MAX).wait());
        inside.wait();
        let (busy, release) = (Latch::new(), Latch::new());
        let (is_busy, released) = (busy.clone(), release.clone());
        let hog = act(move |_, out| {
            is_busy.open();
            released.wait();
            out.done();
            Ok(())
        });
        runtime.spawn_process(hog).start().unwrap();
        busy.wait();
        go.open();
        eventually(|| {
            let statistics = runtime.statistics();
            (
                statistics.global_queue,
                statistics.blocking.spare,
                statistics.blocking.blocked,
                statistics.blocking.detached,
            ) == (1, 1, 0, 0)
        });
        assert_eq!(worker.pid().info().unwrap().state, ProcessState::Ready);
        release.open();
        assert_eq!(call.join().unwrap(), Ok(2));
        assert_eq!(counted.most(), 1);
    });
}

#[test]
fn a_panic_of_the_awaited_closure_is_the_steps() {
    soon(|| {
        let runtime = with_workers(1);
        let (worker, ..) = worker(&runtime, &Counted::default());
        let end = worker.pid().join();
        // Printing a panic may take a long time.
        let answer = worker.panics().timeout(Duration::from_secs(25)).wait();
        assert!(matches!(answer, Err(CallError::Died(ExitReason::Panic(_)))), "{answer:?}");
        assert!(matches!(end.wait(), ExitReason::Panic(panic) if panic.to_string().contains("the disk is full")));
    });
}

/// A kill does not interrupt blocking code. The process exits when that code returns, and its method does not
/// continue.
#[test]
fn a_process_that_is_killed_while_it_blocks_exits_when_the_blocking_ends() {
    soon(|| {
        let (runtime, counted) = (with_workers(1), Counted::default());
        let (worker, inside, go) = worker(&runtime, &counted);
        let call = thread::spawn(move || worker.work(vec![]).timeout(Duration::MAX).wait());
        inside.wait();
        let end = worker.pid().join();
        worker.pid().kill();
        go.open();
        assert_eq!(end.wait(), ExitReason::Killed);
        // The answer may precede the kill.
        let answer = call.join().unwrap();
        assert!(matches!(answer, Ok(0) | Err(CallError::Died(ExitReason::Killed))), "{answer:?}");
    });
}

#[process]
struct Lazy {
    ran: Arc<AtomicU32>,
}

#[process]
impl Lazy {
    #[entry]
    async fn run(&mut self, ctx: &mut Context<Self>) -> (u32, Vec<ThreadId>) {
        drop(ctx.blocking(|| self.ran.fetch_add(1, SeqCst)));
        let before = self.ran.load(SeqCst);
        // Both closures run in one poll, one after the other, on the same thread.
        let mut threads = Vec::new();
        let (one, two) =
            futures_util::join!(ctx.blocking(|| thread::current().id()), ctx.blocking(|| thread::current().id()));
        threads.extend([one, two]);
        // The closure runs on this thread, whichever thread runs the rest of the step.
        for _ in 0..100 {
            let here = thread::current().id();
            assert_eq!(ctx.blocking(|| thread::current().id()).await, here);
        }
        (before, threads)
    }

    #[entry]
    async fn twice(&mut self, ctx: &mut Context<Self>) {
        ctx.blocking(|| self.ran.fetch_add(1, SeqCst)).await;
        ctx.blocking(|| self.ran.fetch_add(1, SeqCst)).wait();
    }
}

#[test]
fn nothing_runs_until_it_is_awaited_and_then_on_the_threads_own_stack() {
    soon(|| {
        let runtime = with_workers(2);
        let running = runtime.spawn(Lazy { ran: Arc::default() }).run().unwrap();
        let (before, threads) = running.wait().unwrap();
        assert_eq!((before, threads[0] == threads[1]), (0, true));
    });
}

#[test]
fn in_a_machine_that_is_driven_by_hand_it_simply_runs() {
    let ran = Arc::new(AtomicU32::new(0));
    let mut machine = Machine::new(Lazy { ran: ran.clone() });
    machine.init(&mut InitContext::detached(), "twice", payloads![]).unwrap();
    let mut out = StepOutput::new();
    machine.step(&mut Events::of([]), &mut out).unwrap();
    assert_eq!((ran.load(SeqCst), out.is_done()), (2, true));
}
