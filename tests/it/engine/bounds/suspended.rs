//! A suspended process: the events that reach it, and those that do not.

use super::Gate;
use postroom::error::SendFailure;
use postroom::inspect::ProcessState;
use postroom::manual::Event;
use postroom::prelude::*;
use postroom::test::Clock;
use postroom_tests::{Ask, Latch, Requests, act, eventually, soon};
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// A process that counts its messages, once its gate is open.
#[process]
struct Sink {
    gate: Option<Latch>,
    count: Arc<AtomicU64>,
}

#[process]
impl Sink {
    #[entry]
    fn serve(&mut self) {}

    #[message]
    fn take(&mut self) {
        if let Some(gate) = self.gate.take() {
            gate.wait();
        }
        self.count.fetch_add(1, SeqCst);
    }
}

/// Returns a sink whose first message waits for the latch.
fn stuck(runtime: &Runtime) -> (Address<Sink>, Latch, Arc<AtomicU64>) {
    let (gate, count) = (Latch::new(), Arc::new(AtomicU64::new(0)));
    let sink = Sink { gate: Some(gate.clone()), count: count.clone() };
    (runtime.spawn(sink).serve().unwrap(), gate, count)
}

fn is_suspended(pid: Pid) -> bool {
    pid.info().is_some_and(|info| matches!(info.state, ProcessState::Suspended { .. }))
}

/// Returns a builder with a manual clock, on which no suspension times out.
fn manual(workers: usize) -> postroom::Builder {
    Runtime::builder().workers(workers).clock(Clock::manual())
}

#[test]
fn a_process_that_waits_for_its_yields_takes_no_step_to_resume_senders() {
    soon(|| {
        let (builder, requests) = Requests::at(manual(2));
        let runtime = builder.build().unwrap();
        let seen = Arc::new(AtomicU64::new(0));
        let (count, mut asked) = (seen.clone(), false);
        let waits = act(move |events, out| {
            if !std::mem::replace(&mut asked, true) {
                out.perform(Ask(1), 1);
                out.wait();
                return Ok(());
            }
            let first = events.next();
            assert!(count.load(SeqCst) > 0 || matches!(first, Some(Event::Completed { tag: 1, .. })), "{first:?}");
            // A later step may find nothing, if a sender has not linked its message yet.
            count.fetch_add(u64::from(first.is_some()), SeqCst);
            while events.next().is_some() {
                count.fetch_add(1, SeqCst);
            }
            out.idle();
            Ok(())
        });
        let waits = runtime.spawn_process(waits).start().unwrap();
        let (_, completion) = requests.next();
        eventually(|| waits.info().unwrap().state == ProcessState::Waiting { outstanding: 1 });
        let sources: Vec<Pid> = (0..4)
            .map(|_| {
                let mut left = 40;
                let source = act(move |_, out| {
                    (0..100_u64).for_each(|number| runtime_send(waits, number));
                    left -= 1;
                    if left == 0 {
                        out.done()
                    } else {
                        out.go_on()
                    }
                    Ok(())
                });
                runtime.spawn_process(source).start().unwrap()
            })
            .collect();
        eventually(|| sources.iter().all(|source| is_suspended(*source)));
        assert_eq!(waits.info().unwrap().steps, 1);
        completion.complete(7);
        eventually(|| seen.load(SeqCst) == 16_001);
        assert_eq!(
            (runtime.statistics().backpressure.suspended, runtime.statistics().backpressure.forced_releases),
            (0, 0)
        );
    });
}

fn runtime_send(to: Pid, number: u64) {
    Recipient::<u64>::of(to).send(number).unwrap();
}

#[test]
fn a_process_with_outstanding_yields_is_suspended_too_and_gets_each_answer_once_in_order() {
    for waits in [false, true] {
        soon(move || {
            let (builder, requests) = Requests::at(manual(2));
            let runtime = builder.build().unwrap();
            let (sink, gate, count) = stuck(&runtime);
            let answers: Arc<Mutex<Vec<u64>>> = Arc::default();
            let (seen, mut sent, mut asked) = (answers.clone(), 0, 0);
            let floods = act(move |events, out| {
                let mut answered = 0;
                while let Some(event) = events.next() {
                    let Event::Completed { tag, result } = event else { continue };
                    assert_eq!(result.unwrap().take::<u64>().unwrap(), tag * 3);
                    seen.lock().unwrap().push(tag);
                    answered += 1;
                }
                if asked == 0 {
                    (1..=8).for_each(|tag| out.perform(Ask(tag), tag));
                    asked = 8;
                } else if waits && answered == 0 && seen.lock().unwrap().len() < 8 {
                    // The process must not run before it is answered.
                    panic!("a step for nothing");
                }
                if sent < 100_000 {
                    for _ in 0..500 {
                        sink.take().send().unwrap();
                    }
                    sent += 500;
                }
                match (waits, seen.lock().unwrap().len(), sent) {
                    (_, 8, 100_000) => out.idle(),
                    (true, answers, _) if answers < 8 => out.wait(),
                    _ => out.go_on(),
                }
                Ok(())
            });
            let floods = runtime.spawn_process(floods).start().unwrap();
            if waits {
                // Each answer causes a step, until the process congests the sink.
                let asks: Vec<_> = (0..8).map(|_| requests.next()).collect();
                for (number, completion) in asks {
                    completion.complete(number * 3);
                }
            }
            eventually(|| is_suspended(floods));
            assert!(sink.pid().info().unwrap().mailbox < 1_024 + 500 + 300);
            if !waits {
                for _ in 0..8 {
                    let (number, completion) = requests.next();
                    completion.complete(number * 3);
                }
            }
            assert!(is_suspended(floods), "an answer is no reason");
            gate.open();
            eventually(|| count.load(SeqCst) >= if waits { 500 } else { 100_000 });
            eventually(|| answers.lock().unwrap().len() == 8);
            assert_eq!(*answers.lock().unwrap(), (1..=8).collect::<Vec<u64>>());
            assert_eq!(runtime.statistics().backpressure.forced_releases, 0);
        });
    }
}

/// A process that sends a few hundred messages in each round of a loop, and waits for something else in between.
#[process]
struct Loops {
    sink: Address<Sink>,
    rounds: u64,
    done: Sender<u64>,
}

#[process]
impl Loops {
    #[entry]
    async fn run(&mut self, ctx: &mut Context<Self>, other: Address<Echo>) {
        let mut sum = 0;
        for round in 0..self.rounds {
            for _ in 0..300 {
                self.sink.take().send().unwrap();
            }
            sum += match round % 3 {
                0 => other.echo(1).await.unwrap(),
                1 => {
                    // A thread wakes the process, perhaps while it is suspended.
                    let gate = Gate::default();
                    let opens = gate.clone();
                    std::thread::spawn(move || opens.open());
                    gate.passed().await;
                    1
                }
                _ => {
                    ctx.sleep(Duration::ZERO).await;
                    1
                }
            };
        }
        self.done.send(sum).unwrap();
    }
}

#[process]
struct Echo;

#[process]
impl Echo {
    #[entry]
    fn serve(&mut self) {}

    #[message]
    fn echo(&mut self, number: u64) -> u64 {
        number
    }
}

#[test]
fn no_wake_is_lost_during_a_suspension() {
    for workers in [1, 2, 4] {
        soon(move || {
            let runtime = manual(workers).build().unwrap();
            let count = Arc::new(AtomicU64::new(0));
            let sink = runtime.spawn(Sink { gate: None, count: count.clone() });
            let sink = sink.mailbox(postroom::Bound::Soft(200)).serve().unwrap();
            let echo = runtime.spawn(Echo).serve().unwrap();
            let (done, all) = channel();
            for _ in 0..6 {
                let loops = Loops { sink, rounds: 200, done: done.clone() };
                let _running = runtime.spawn(loops).run(echo).unwrap();
            }
            for _ in 0..6 {
                assert_eq!(all.recv().unwrap(), 200);
            }
            eventually(|| count.load(SeqCst) == 6 * 200 * 300);
            let statistics = runtime.statistics();
            assert_eq!(
                (statistics.backpressure.suspended, statistics.backpressure.forced_releases),
                (0, 0),
                "{} holds",
                statistics.backpressure.suspensions
            );
        });
    }
}

/// A process that floods a sink, and stops only at its second cancel or at a shutdown.
#[process]
struct Stubborn {
    sink: Address<Sink>,
    cancelled: Arc<AtomicU64>,
}

#[process]
impl Stubborn {
    #[entry]
    fn serve(&mut self) {}

    #[message]
    fn go(&mut self, ctx: &mut Context<Self>) {
        for _ in 0..500 {
            let _gone = self.sink.take().send();
        }
        let _full = ctx.address().go().try_send();
    }

    #[signal]
    fn cancelled(&mut self, ctx: &mut Context<Self>, cancel: Cancel) {
        if self.cancelled.fetch_add(1, SeqCst) > 0 || cancel.reason == ExitReason::Shutdown {
            ctx.stop();
        }
    }
}

#[test]
fn a_suspended_process_handles_a_cancel_at_once_and_is_suspended_again() {
    soon(|| {
        let runtime = manual(2).build().unwrap();
        let (sink, gate, _) = stuck(&runtime);
        let cancelled = Arc::new(AtomicU64::new(0));
        let stubborn = runtime.spawn(Stubborn { sink, cancelled: cancelled.clone() }).serve().unwrap();
        stubborn.go().send().unwrap();
        eventually(|| is_suspended(stubborn.pid()));
        let before = stubborn.pid().info().unwrap().steps;
        stubborn.pid().cancel(ExitReason::error("why not"));
        eventually(|| cancelled.load(SeqCst) == 1 && is_suspended(stubborn.pid()));
        assert!(stubborn.pid().info().unwrap().steps - before <= 3, "it does not spin");
        let end = stubborn.pid().join();
        eventually(|| is_suspended(stubborn.pid()));
        stubborn.pid().cancel(ExitReason::error("once more"));
        assert_eq!(end.wait(), ExitReason::Normal);
        gate.open();
    });
}

#[test]
fn a_kill_reaches_a_process_that_is_about_to_be_suspended() {
    soon(|| {
        let runtime = manual(2).build().unwrap();
        let (sink, gate, _) = stuck(&runtime);
        let cancelled = Arc::new(AtomicU64::new(0));
        for round in 0..3_000_u32 {
            let stubborn = runtime.spawn(Stubborn { sink, cancelled: cancelled.clone() }).serve().unwrap();
            stubborn.go().send().unwrap();
            (0..round % 200 * 20).for_each(|_| std::hint::spin_loop());
            let end = stubborn.pid().join();
            stubborn.pid().kill();
            assert_eq!(end.wait(), ExitReason::Killed);
        }
        assert_eq!(runtime.statistics().backpressure.suspended, 0);
        gate.open();
    });
}

#[test]
fn a_shutdown_resumes_suspended_processes_and_steps_that_wait() {
    for workers in [1, 2] {
        soon(move || {
            let host = Runtime::builder().workers(2).build().unwrap();
            let (sink, gate, _) = stuck(&host);
            sink.take().send().unwrap();
            let runtime = Runtime::builder().workers(workers).build().unwrap();
            let cancelled = Arc::new(AtomicU64::new(0));
            let suspended = runtime.spawn(Stubborn { sink, cancelled }).serve().unwrap();
            suspended.go().send().unwrap();
            let in_step = act(move |_, out| {
                // The process waits in its step for room in another host's mailbox.
                for _ in 0..4_000 {
                    if let Err(error) = sink.take().send() {
                        assert!(matches!(error.reason, SendFailure::Gone(_)));
                    }
                }
                out.go_on();
                Ok(())
            });
            let in_step = runtime.spawn_process(in_step).start().unwrap();
            eventually(|| is_suspended(suspended.pid()) && is_suspended(in_step));
            let report = runtime.shutdown_within(Duration::from_secs(8)).unwrap();
            assert!(report.stuck.is_empty(), "{report}");
            gate.open();
        });
    }
}
