//! Steps that begin with an answer delivered by their own worker, and then do something other than wait for the next
//! answer.
//!
//! Whether the worker still keeps a caller's token when the answer comes (see `awaiting`) depends on the watchdog's
//! ticks. With this many calls it usually does, and the steps for which it does not must behave in the same way.

use postroom::manual::{Events, InitContext, Machine, Process, StepOutput};
use postroom::prelude::*;
use postroom::{InitError, Payloads, ProcessError};
use postroom_tests::{HOUR, soon};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

const ROUNDS: u64 = 200;

#[process]
struct Callee;

#[process]
impl Callee {
    #[entry]
    fn serve(&mut self) {}

    #[message]
    fn next(&mut self, number: u64) -> u64 {
        number + 1
    }

    /// Blocks, so that nothing is answered, until the sender is dropped.
    #[message]
    fn hold(&mut self, until: Receiver<()>) {
        let _dropped = until.recv();
    }
}

impl Caller {
    /// Holds all answers back until the returned sender is dropped. So a caller cannot end before the test joins it.
    fn hold(&self) -> Sender<()> {
        let (held, until) = channel();
        self.callee.hold(until).send().unwrap();
        held
    }
}

#[process]
struct Caller {
    callee: Address<Callee>,
    taken: u64,
}

#[process]
impl Caller {
    #[entry]
    fn serve(&mut self) {}

    /// Awaits calls, and then returns.
    #[entry]
    async fn call(&mut self) -> u64 {
        let mut number = 0;
        for _ in 0..ROUNDS {
            number = self.callee.next(number).await.unwrap();
        }
        number
    }

    /// Awaits calls, and a message after each of them.
    #[entry]
    async fn call_and_serve(&mut self, ctx: &mut Context<Self>) -> u64 {
        for round in 0..ROUNDS {
            assert_eq!(self.callee.next(round).await, Ok(round + 1));
            ctx.serve_next(self).await;
        }
        self.taken
    }

    /// Awaits calls to the callee and, after each of them, a call to itself.
    #[entry]
    async fn call_itself(&mut self, ctx: &mut Context<Self>) -> bool {
        let mut all = true;
        for round in 0..ROUNDS {
            assert_eq!(self.callee.next(round).await, Ok(round + 1));
            let cycle = ctx.address().take().timeout(Duration::MAX).await;
            all &= matches!(cycle, Err(CallError::Cycle(_)));
        }
        all
    }

    /// Stops itself after the last call.
    #[entry]
    async fn call_and_stop(&mut self, ctx: &mut Context<Self>) {
        for round in 0..ROUNDS {
            assert_eq!(self.callee.next(round).await, Ok(round + 1));
        }
        ctx.stop();
        std::future::pending().await
    }

    #[message]
    fn take(&mut self) {
        self.taken += 1;
    }

    #[message]
    async fn relay(&mut self, number: u64) -> u64 {
        self.callee.next(number).await.unwrap()
    }
}

/// A hand-written process around a machine.
struct Around(Machine<Caller>);

impl Process for Around {
    fn entries(&self) -> &'static [&'static str] {
        self.0.entries()
    }

    fn init(&mut self, ctx: &mut InitContext<'_>, entry: &str, input: Payloads) -> Result<(), InitError> {
        self.0.init(ctx, entry, input)
    }

    fn step(&mut self, events: &mut Events<'_>, out: &mut StepOutput<'_>) -> Result<(), ProcessError> {
        self.0.step(events, out)
    }

    fn close(&mut self) {
        self.0.close();
    }
}

fn with_caller(body: impl FnOnce(&Runtime, Caller)) {
    let runtime = Runtime::builder().workers(1).build().unwrap();
    let callee = runtime.spawn(Callee).serve().unwrap();
    body(&runtime, Caller { callee, taken: 0 });
    let report = runtime.shutdown_within(HOUR).unwrap();
    assert!(report.is_clean(), "{report:?}");
}

/// Catches: an entry whose end is overlooked after an answer.
#[test]
fn an_entry_ends_after_an_answer() {
    soon(|| with_caller(|runtime, caller| assert_eq!(runtime.spawn(caller).call().unwrap().wait(), Ok(ROUNDS))));
}

/// Catches: a method whose end is overlooked after an answer, and messages behind it that are then not served.
#[test]
fn a_method_ends_after_an_answer_and_the_next_message_is_served() {
    soon(|| {
        with_caller(|runtime, caller| {
            let caller = runtime.spawn(caller).serve().unwrap();
            for round in 0..ROUNDS {
                assert_eq!(caller.relay(round).wait(), Ok(round + 1));
            }
        });
    });
}

/// Catches: a process that waits only for control although it awaits a message.
#[test]
fn a_message_is_awaited_after_an_answer() {
    soon(|| {
        with_caller(|runtime, caller| {
            let caller = runtime.spawn(caller).call_and_serve().unwrap();
            (0..ROUNDS).for_each(|_| caller.address().take().send().unwrap());
            assert_eq!(caller.wait(), Ok(ROUNDS));
        });
    });
}

/// Catches: a call that closes a cycle right after an answer, but whose process is not polled again to get the error.
#[test]
fn a_cycle_is_closed_after_an_answer() {
    soon(|| with_caller(|runtime, caller| assert_eq!(runtime.spawn(caller).call_itself().unwrap().wait(), Ok(true))));
}

/// Catches: a stop request that is overlooked after an answer.
#[test]
fn a_process_ends_at_its_next_await_after_an_answer() {
    soon(|| {
        with_caller(|runtime, caller| {
            let held = caller.hold();
            let caller = runtime.spawn(caller).call_and_stop().unwrap();
            let joined = caller.pid().join();
            drop(held);
            assert_eq!(joined.wait(), ExitReason::Normal);
        });
    });
}

/// Catches: an answer that does not reach a machine whose steps are driven by another process.
#[test]
fn a_machine_inside_a_process_by_hand_gets_its_answers() {
    soon(|| {
        with_caller(|runtime, caller| {
            let held = caller.hold();
            let around = runtime.spawn_process(Around(Machine::new(caller))).start_at("call", payloads![]).unwrap();
            let joined = around.join();
            drop(held);
            assert_eq!(joined.wait(), ExitReason::Normal);
        });
    });
}
