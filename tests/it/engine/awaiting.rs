//! Processes whose tokens a worker keeps while they await an answer: each gets its answers, timeouts and kills.

use super::warm::Hog;
use postroom::prelude::*;
use postroom_tests::{HOUR, Latch, eventually, soon};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::Duration;

/// A process that answers. In every `slow_every`-th call its step waits for some ticks of the watchdog, so that the
/// step seems stuck. It does so alternately before and after the answer.
#[process]
struct Callee {
    calls: u64,
    slow_every: u64,
}

#[process]
impl Callee {
    #[entry]
    fn serve(&mut self) {}

    #[message]
    fn next(&mut self, ctx: &mut Context<Self>, number: u64, reply: Reply<u64>) {
        self.calls += 1;
        if self.calls.is_multiple_of(2 * self.slow_every) {
            seem_stuck(ctx);
        }
        reply.send(number + 1);
        if self.calls % (2 * self.slow_every) == self.slow_every {
            seem_stuck(ctx);
        }
    }
}

fn seem_stuck(ctx: &Context<Callee>) {
    let host = ctx.host().unwrap();
    let before = host.statistics().watchdog.ticks;
    eventually(|| host.statistics().watchdog.ticks > before + 3);
}

#[process]
struct Caller {
    callee: Address<Callee>,
}

#[process]
impl Caller {
    #[entry]
    async fn call(&mut self, count: u64) -> u64 {
        let mut number = 0;
        for _ in 0..count {
            number = self.callee.next(number).await.expect("the callee answers");
        }
        number
    }
}

/// Catches: an answer that is lost, or comes twice, when the watchdog takes the caller, or both processes, from their
/// thread.
#[test]
fn calls_are_answered_though_the_callee_seems_stuck() {
    soon(|| {
        for (workers, callers, slow_every, count) in [(1, 1, 50, 1_000), (2, 1, 50, 1_000), (2, 4, 100, 1_000)] {
            let builder = Runtime::builder().workers(workers).stall_limit(Duration::from_millis(4));
            let runtime = builder.build().unwrap();
            let callee = runtime.spawn(Callee { calls: 0, slow_every }).serve().unwrap();
            let call = || runtime.spawn(Caller { callee }).call(count).unwrap();
            let callers: Vec<_> = (0..callers).map(|_| call()).collect();
            for caller in callers {
                assert_eq!(caller.wait().unwrap(), count);
            }
            let report = runtime.shutdown_within(HOUR).unwrap();
            assert!(report.is_clean(), "{report:?}");
        }
    });
}

#[process]
struct Patient {
    hog: Address<Hog>,
    timeout: Duration,
    over: Arc<AtomicBool>,
}

#[process]
impl Patient {
    #[entry]
    async fn call(&mut self) -> bool {
        let timed_out = matches!(self.hog.work().timeout(self.timeout).await, Err(CallError::Timeout));
        self.over.store(timed_out, SeqCst);
        timed_out
    }
}

/// Calls `body` with a caller of a process whose step does not end, and with the flag that ends that step.
fn with_hog(workers: usize, timeout: Duration, body: impl FnOnce(&Runtime, Running<Patient, bool>, &AtomicBool)) {
    let runtime = Runtime::builder().workers(workers).stall_limit(Duration::from_millis(4)).build().unwrap();
    let (inside, over) = (Latch::new(), Arc::new(AtomicBool::new(false)));
    let hog = runtime.spawn(Hog { inside: inside.clone(), over: over.clone() }).serve().unwrap();
    let caller = runtime.spawn(Patient { hog, timeout, over: over.clone() }).call().unwrap();
    inside.wait();
    body(&runtime, caller, &over);
    runtime.until_idle().unwrap();
}

/// Catches: a deadline that does not reach a caller whose thread is stuck in the step of the callee.
#[test]
fn a_deadline_reaches_an_awaiting_process_behind_a_step_that_does_not_end() {
    soon(|| {
        for workers in [1, 2] {
            with_hog(workers, Duration::from_millis(20), |_, caller, _| assert!(caller.wait().unwrap()));
        }
    });
}

/// Catches: a kill that does not reach a caller whose thread is stuck in the step of the callee.
#[test]
fn a_kill_reaches_an_awaiting_process_behind_a_step_that_does_not_end() {
    soon(|| {
        for workers in [1, 2] {
            with_hog(workers, Duration::MAX, |_, caller, over| {
                let pid = caller.pid();
                let end = pid.join();
                assert!(pid.kill());
                assert_eq!(end.wait(), ExitReason::Killed);
                over.store(true, SeqCst);
            });
        }
    });
}
