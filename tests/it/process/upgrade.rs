//! Processes that pass their state to another definition, under the same PID.
//!
//! The tests' gates decide whether an upgrade overtakes messages, and which of two threads comes first.

mod kept;
mod kinds;
mod refused;
mod results;

use postroom::error::{AddressError, UpgradeError};
use postroom::future::{Answered, Finished};
use postroom::generic::Declared;
use postroom::manual::{Event, Events, Process, StepOutput};
use postroom::prelude::*;
use postroom::test::Clock;
use postroom::{Bound, Overflow};
use postroom_tests::{Latch, act, eventually, soon};
use std::convert::Infallible;
use std::future::pending;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

/// A value that counts its drops.
#[derive(Default, Clone)]
pub(crate) struct Drops(pub(crate) Arc<AtomicUsize>);

impl Drop for Drops {
    fn drop(&mut self) {
        self.0.fetch_add(1, SeqCst);
    }
}

/// The old definition.
#[process]
#[derive(Default)]
pub(crate) struct Counter {
    pub(crate) count: u64,
    pub(crate) held: Vec<Reply<u64>>,
    /// Counts the drops of the state.
    #[allow(dead_code)]
    pub(crate) kept: Option<Drops>,
}

#[process]
impl Counter {
    #[entry]
    pub(crate) fn serve(&mut self, count: u64) {
        self.count = count;
    }

    #[entry]
    async fn live(&mut self) {
        pending().await
    }

    #[message]
    pub(crate) fn add(&mut self, amount: u64) -> u64 {
        self.count += amount;
        self.count
    }

    /// A message of the old definition only.
    #[message]
    fn reset(&mut self) {
        self.count = 0;
    }

    /// Blocks its thread, so that the messages that arrive in the meantime are taken in one step.
    #[message]
    fn block(&mut self, entered: Latch, leave: Latch) {
        entered.open();
        leave.wait();
    }

    /// Stays pending until `slow` answers.
    #[message]
    async fn ask(&mut self, slow: Address<Slow>) -> u64 {
        self.count += slow.take().await.unwrap_or(0);
        self.count
    }

    /// Lets the process continue to serve while it waits.
    #[message]
    fn ask_beside(&mut self, ctx: &mut Context<Self>, slow: Address<Slow>, reply: Reply<u64>) {
        ctx.call(slow.take()).then(|this, answer, _| {
            this.count += answer.unwrap_or(0);
            reply.send(this.count);
        });
    }

    /// Does the same as `ask_beside`, but with a future.
    #[message]
    fn run(&mut self, ctx: &mut Context<Self>, slow: Address<Slow>) {
        ctx.run(async move { slow.take().await.unwrap_or(0) as u32 }).then(|this, number, _| {
            this.count += u64::from(number);
        });
    }

    #[message]
    fn sleep(&mut self, ctx: &mut Context<Self>, time: Duration) {
        let slept = ctx.sleep(time);
        ctx.run(slept).then(|this, (), _| this.count += 1);
    }

    #[message]
    fn grow(&mut self, ctx: &mut Context<Self>, by: u64) {
        ctx.upgrade(move |old: Counter| Better::of(old, by)).unwrap();
        // The upgrade waits until this method is finished.
        self.count += 1;
    }

    #[message]
    fn hold(&mut self, reply: Reply<u64>) {
        self.held.push(reply);
    }
}

/// The new definition.
#[process]
pub(crate) struct Better {
    pub(crate) state: Counter,
    pub(crate) factor: u64,
    pub(crate) seen: Vec<String>,
}

impl Better {
    pub(crate) fn of(state: Counter, factor: u64) -> Self {
        Self { state, factor, seen: Vec::new() }
    }
}

#[process]
impl Better {
    #[entry]
    pub(crate) fn serve(&mut self) {}

    #[message(CounterAdd)]
    fn add(&mut self, message: CounterAdd) -> u64 {
        self.state.count += message.amount * self.factor;
        self.state.count
    }

    #[message]
    pub(crate) fn count(&self) -> u64 {
        self.state.count
    }

    #[message]
    fn seen(&self) -> Vec<String> {
        self.seen.clone()
    }

    #[message]
    fn answer_held(&mut self) {
        self.state.held.drain(..).for_each(|reply| reply.send(self.state.count));
    }

    #[message(Answered<SlowTake, u64>)]
    fn asked(&mut self, answered: Answered<SlowTake, u64>) {
        self.seen.push(format!("{:?}", answered.result));
    }

    #[message(Finished<u32>)]
    fn ran(&mut self, finished: Finished<u32>) {
        self.seen.push(format!("{}", finished.output));
    }

    #[message(Finished<()>)]
    fn slept(&mut self, _slept: Finished<()>) {
        self.seen.push("slept".into());
    }
}

/// A process that answers on request.
#[process]
#[derive(Default)]
struct Slow {
    asked: Vec<Reply<u64>>,
}

#[process]
impl Slow {
    #[entry]
    fn serve(&mut self) {}

    #[message]
    fn take(&mut self, reply: Reply<u64>) {
        self.asked.push(reply);
    }

    #[message]
    fn asked(&self) -> usize {
        self.asked.len()
    }

    #[message]
    fn give(&mut self, number: u64) {
        self.asked.drain(..).for_each(|reply| reply.send(number));
    }
}

fn runtime() -> Runtime {
    Runtime::builder().workers(2).build().unwrap()
}

fn slow(runtime: &Runtime) -> Address<Slow> {
    runtime.spawn(Slow::default()).serve().unwrap()
}

fn counter(runtime: &Runtime) -> Address<Counter> {
    runtime.spawn(Counter::default()).serve(10).unwrap()
}

fn better(address: Address<Counter>) -> Address<Better> {
    address.pid().upgrade(|old: Counter| Better::of(old, 2)).wait().unwrap()
}

#[test]
fn an_upgraded_process_has_its_pid_and_its_state() {
    soon(|| {
        let runtime = runtime();
        let old = counter(&runtime);
        old.add(1).wait().unwrap();
        let new = better(old);
        assert_eq!(new.pid(), old.pid());
        assert_eq!(new.count().wait(), Ok(11));
        // An address of the old definition works for messages of both.
        assert_eq!(old.add(5).wait(), Ok(21));
        assert_eq!(old.reset().wait(), Err(CallError::Unhandled));
    });
}

#[test]
fn messages_that_wait_in_the_mailbox_go_to_the_new_definition() {
    soon(|| {
        let runtime = runtime();
        let old = counter(&runtime);
        let (entered, leave) = (Latch::new(), Latch::new());
        old.block(entered.clone(), leave.clone()).send().unwrap();
        entered.wait();
        (1..=3).for_each(|amount| old.add(amount).send().unwrap());
        let upgrading = old.pid().upgrade(|old: Counter| Better::of(old, 100));
        leave.open();
        // The upgrade has overtaken the messages.
        assert_eq!(upgrading.wait().unwrap().count().wait(), Ok(610));
    });
}

#[test]
fn a_process_upgrades_itself_when_the_method_is_done() {
    soon(|| {
        let runtime = runtime();
        let old = counter(&runtime);
        let (entered, leave) = (Latch::new(), Latch::new());
        old.block(entered.clone(), leave.clone()).send().unwrap();
        entered.wait();
        old.grow(3).send().unwrap();
        old.add(1).send().unwrap();
        leave.open();
        assert_eq!(old.add(0).wait(), Ok(14));
        assert_eq!(runtime.address::<Better>(old.pid()).unwrap().count().wait(), Ok(14));
    });
}

#[test]
fn upgrades_in_a_row_are_taken_in_their_order() {
    soon(|| {
        let runtime = runtime();
        let old = counter(&runtime);
        let (entered, leave) = (Latch::new(), Latch::new());
        old.block(entered.clone(), leave.clone()).send().unwrap();
        entered.wait();
        let first = old.pid().upgrade(|old: Counter| Better::of(old, 1));
        let second = old.pid().upgrade(|old: Better| Counter { count: old.state.count + 1, ..Counter::default() });
        let third = old.pid().upgrade(|old: Better| old);
        leave.open();
        assert!(first.wait().is_ok());
        assert_eq!(second.wait().unwrap().add(0).wait(), Ok(11));
        let pid = old.pid();
        assert_eq!(third.wait().unwrap_err(), UpgradeError::Type { pid, expected: "Better", found: "Counter" });
    });
}

#[test]
fn an_upgrade_can_be_awaited_in_a_process() {
    #[process]
    struct Operator;
    #[process]
    impl Operator {
        #[entry]
        fn serve(&mut self) {}
        #[message]
        async fn upgrade(&mut self, old: Address<Counter>) -> Result<Address<Better>, UpgradeError<Infallible>> {
            old.pid().upgrade(|old: Counter| Better::of(old, 2)).await
        }
    }
    soon(|| {
        let runtime = Runtime::builder().workers(1).build().unwrap();
        let operator = runtime.spawn(Operator).serve().unwrap();
        let new = operator.upgrade(counter(&runtime)).wait().unwrap();
        assert_eq!(new.count().wait(), Ok(10));
    });
}
