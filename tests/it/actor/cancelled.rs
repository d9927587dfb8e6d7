//! Cancel requests that a process refuses while it waits for the next one.

use postroom::ExitReason;
use postroom::prelude::*;
use postroom_tests::face::{Gate, Log, poll_once, with_runtime};
use std::future::Future;
use std::pin::{Pin, pin};
use std::task::Poll;

#[process]
struct Stubborn {
    log: Log<String>,
}

/// Waits until `is_true` returns true. Checks it in each step.
async fn until(mut is_true: impl FnMut() -> bool) {
    std::future::poll_fn(|context| {
        context.waker().wake_by_ref();
        if is_true() { Poll::Ready(()) } else { Poll::Pending }
    })
    .await
}

/// Returns the output of the first future to complete, and whether that was `a`. If both are ready, `a` takes
/// precedence.
async fn first<T>(mut a: Pin<&mut impl Future<Output = T>>, mut b: Pin<&mut impl Future<Output = T>>) -> (bool, T) {
    std::future::poll_fn(move |context| {
        if let Poll::Ready(ready) = a.as_mut().poll(context) {
            return Poll::Ready((true, ready));
        }
        b.as_mut().poll(context).map(|ready| (false, ready))
    })
    .await
}

#[process]
impl Stubborn {
    /// Refuses the first `refusals` requests, in a loop that makes a new future in each round.
    #[entry]
    async fn refuse(&mut self, ctx: &mut Context<Self>, refusals: usize) -> usize {
        let mut rounds = 0;
        for _ in 0..=refusals {
            rounds += 1;
            // By the end of this step the process awaits the future. A request is delivered only in a later step.
            self.log.add("waits".to_string());
            let reason = ctx.cancelled().await;
            assert!(ctx.is_cancelled());
            self.log.add(reason.to_string());
        }
        rounds
    }

    /// Awaits a gate and a request at the same time. The gate takes precedence: if both arrive in the same round, the
    /// next round gets the request.
    #[entry]
    async fn busy(&mut self, ctx: &mut Context<Self>, here: Gate, gate: Gate) -> usize {
        let mut rounds = 0;
        here.open();
        let mut passed = pin!(gate.passed());
        let mut has_passed = false;
        loop {
            rounds += 1;
            let cancelled = pin!(async { ctx.cancelled().await.to_string() });
            let other = pin!(async {
                if has_passed {
                    return std::future::pending().await;
                }
                passed.as_mut().await;
                "passed".to_string()
            });
            // The gate takes precedence.
            let (is_gate, what) = first(other, cancelled).await;
            self.log.add(what);
            if !is_gate {
                return rounds;
            }
            has_passed = true;
        }
    }

    /// Awaits the cancellation in two futures at once. Both must complete.
    #[entry]
    async fn together(&mut self, ctx: &mut Context<Self>) -> String {
        let (mut a, mut b) = (pin!(ctx.cancelled()), pin!(ctx.cancelled()));
        let mut said = Vec::new();
        std::future::poll_fn(move |context| {
            if said.is_empty()
                && let Poll::Ready(reason) = a.as_mut().poll(context)
            {
                said.push(reason.to_string());
            }
            if said.len() < 2
                && let Poll::Ready(reason) = b.as_mut().poll(context)
            {
                said.push(reason.to_string());
            }
            if said.len() < 2 { Poll::Pending } else { Poll::Ready(said.join(", ")) }
        })
        .await
    }

    /// Receives a request inside a shield, and continues after the shield. The request arrives either before the
    /// shielded future awaits it (`before`) or while it does.
    #[entry]
    async fn shielded(&mut self, ctx: &mut Context<Self>, before: bool, here: Gate) -> &'static str {
        let look = async {
            if before {
                here.open();
                until(|| ctx.is_cancelled()).await;
            }
            let mut cancelled = pin!(ctx.cancelled());
            if !before {
                assert!(poll_once(cancelled.as_mut()).is_pending());
                here.open();
            }
            let reason = cancelled.await;
            assert!(poll_once(pin!(ctx.cancelled())).is_pending(), "once");
            reason.to_string()
        };
        let said = ctx.shield(look).await;
        self.log.add(said);
        "went on"
    }

    /// Receives one request inside a shield, but not the next one.
    #[entry]
    async fn shielded_twice(&mut self, ctx: &mut Context<Self>, here: Gate, told: Gate, gate: Gate) -> &'static str {
        let look = async {
            here.open();
            let reason = ctx.cancelled().await;
            told.open();
            gate.passed().await;
            // Requests that arrived before the gate was opened are delivered before the next step.
            let mut is_next = false;
            until(|| std::mem::replace(&mut is_next, true)).await;
            reason.to_string()
        };
        let said = ctx.shield(look).await;
        self.log.add(said);
        "went on"
    }
}

#[test]
fn each_request_is_told_once_with_its_own_reason() {
    with_runtime(|runtime| {
        let log = Log::new();
        let stubborn = runtime.spawn(Stubborn { log: log.clone() }).refuse(2).unwrap();
        for (count, reason) in ["one", "two", "three"].into_iter().enumerate() {
            postroom_tests::eventually(|| log.len() == 2 * count + 1);
            assert!(stubborn.pid().cancel(reason));
        }
        assert_eq!(stubborn.wait(), Ok(3));
        let reasons: Vec<_> = log.all().into_iter().filter(|line| line != "waits").collect();
        assert_eq!(reasons, ["one", "two", "three"].map(|reason| ExitReason::from(reason).to_string()));
    });
}

#[test]
fn a_request_that_no_future_has_completed_with_is_there_for_the_next() {
    with_runtime(|runtime| {
        let (log, here, gate) = (Log::new(), Gate::new(), Gate::new());
        let stubborn = runtime.spawn(Stubborn { log: log.clone() }).busy(here.clone(), gate.clone()).unwrap();
        here.pass();
        // The gate is open and the request has arrived when the process is next polled.
        let held = runtime.spawn(Holder).hold(stubborn.pid(), gate).unwrap();
        held.wait().unwrap();
        assert_eq!(stubborn.wait(), Ok(2));
        assert_eq!(log.all(), ["passed".to_string(), ExitReason::from("enough").to_string()]);
    });
}

/// Opens a gate and cancels a process in one step.
#[process]
struct Holder;

#[process]
impl Holder {
    #[entry]
    async fn hold(&mut self, pid: Pid, gate: Gate) {
        gate.open();
        pid.cancel("enough");
    }
}

#[test]
fn all_that_wait_are_told_of_a_request() {
    with_runtime(|runtime| {
        let both = runtime.spawn(Stubborn { log: Log::new() }).together().unwrap();
        both.pid().cancel("enough");
        let said = ExitReason::from("enough").to_string();
        match both.wait() {
            Ok(both) => assert_eq!(both, format!("{said}, {said}")),
            // The request arrived before the process awaited it.
            Err(error) => assert!(error.to_string().contains("enough"), "{error}"),
        }
    });
}

#[test]
fn a_request_that_is_told_in_a_shield_does_not_end_the_process_after_it() {
    with_runtime(|runtime| {
        for before in [false, true] {
            let (log, here) = (Log::new(), Gate::new());
            let shielded = runtime.spawn(Stubborn { log: log.clone() }).shielded(before, here.clone()).unwrap();
            here.pass();
            shielded.pid().cancel("enough");
            assert_eq!(shielded.wait(), Ok("went on"));
            assert_eq!(log.all(), [ExitReason::from("enough").to_string()]);
        }
    });
}

#[test]
fn a_request_that_is_not_told_in_a_shield_ends_the_process_after_it() {
    with_runtime(|runtime| {
        let (log, here, told, gate) = (Log::new(), Gate::new(), Gate::new(), Gate::new());
        let shielded = runtime.spawn(Stubborn { log: log.clone() });
        let shielded = shielded.shielded_twice(here.clone(), told.clone(), gate.clone()).unwrap();
        here.pass();
        shielded.pid().cancel("one");
        told.pass();
        shielded.pid().cancel("two");
        gate.open();
        let error = shielded.wait().unwrap_err();
        assert!(error.to_string().contains("two"), "{error}");
        assert_eq!(log.all(), Vec::<String>::new());
    });
}
