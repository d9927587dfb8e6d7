//! Calls: how they are made, how long they wait, and the error of each call that gets no answer.

use futures_util::future::{Either, join, join_all, select};
use postroom::Package;
use postroom::inspect::DeadLetterReason;
use postroom::manual::{Event, Events, Process, StepOutput};
use postroom::prelude::*;
use postroom_tests::face::{
    End, Gate, Log, OnDrop, builder, poll_once, until, watched, with_dead_letters, with_runtime,
};
use std::future::IntoFuture;
use std::pin::pin;
use std::thread;
use std::time::{Duration, Instant};

pub(crate) mod abandoned;
pub(crate) mod bank;
mod delivered;
pub(crate) mod later;
mod moving;
mod torn;
mod unanswered;

const LONG: Duration = Duration::from_secs(3600);

/// A process that answers at once, later or never, or panics.
#[process]
#[derive(Default)]
pub(crate) struct Desk {
    kept: Vec<Reply<u32>>,
    deadlines: Log<Option<Instant>>,
    seen: Log<&'static str>,
}

#[process]
impl Desk {
    #[entry]
    pub(crate) fn serve(&mut self) {}

    #[message]
    pub(crate) fn echo(&mut self, value: u32) -> u32 {
        value
    }

    #[message]
    fn check(&mut self, value: u32) -> Result<u32, String> {
        self.seen.add("check");
        if value == 0 { Err("nothing".to_string()) } else { Ok(value) }
    }

    #[message]
    pub(crate) fn keep(&mut self, ctx: &mut Context<Self>, reply: Reply<u32>) {
        self.deadlines.add(ctx.deadline());
        self.kept.push(reply);
    }

    #[message]
    fn answer_all(&mut self, value: u32) -> usize {
        self.kept.drain(..).map(|reply| reply.send(value)).count()
    }

    #[message]
    fn answer_first(&mut self, value: u32) {
        self.kept.remove(0).send(value);
    }

    #[message]
    pub(crate) fn abandoned(&mut self) -> Vec<bool> {
        self.kept.iter().map(Reply::is_abandoned).collect()
    }

    #[message]
    fn forget(&mut self) {
        self.kept.clear();
    }

    #[message]
    fn drop_it(&mut self, reply: Reply<u32>) {
        drop(reply);
    }

    #[message]
    pub(crate) fn panic(&mut self, what: String) -> u32 {
        panic!("{what}")
    }

    #[message]
    fn deadline(&mut self, ctx: &mut Context<Self>) -> Option<Instant> {
        ctx.deadline()
    }

    #[message]
    fn note_deadline(&mut self, ctx: &mut Context<Self>) {
        self.deadlines.add(ctx.deadline());
    }

    #[message]
    async fn wait_at(&mut self, gate: Gate) -> u32 {
        gate.passed().await;
        1
    }

    #[message]
    async fn check_at(&mut self, gate: Gate) -> Result<u32, String> {
        gate.passed().await;
        Err("after the gate".to_string())
    }

    #[message]
    fn leave(&mut self, ctx: &mut Context<Self>, _reply: Reply<u32>) {
        ctx.stop();
    }

    /// Returns its own deadline, and the deadline that `to` sees when it is called from here.
    #[message]
    async fn relay(&mut self, ctx: &mut Context<Self>, to: Address<Desk>, timeout: Duration) -> [Option<Instant>; 2] {
        let own = ctx.deadline();
        [own, to.deadline().timeout(timeout).await.ok().flatten()]
    }

    /// Returns the later of the deadlines that `to` sees when it is called by a background future and by `ctx.call`.
    #[message]
    fn relay_beside(&mut self, ctx: &mut Context<Self>, to: Address<Desk>, reply: Reply<Option<Instant>>) {
        ctx.run(to.echo(1).into_future()).then(move |_, _, ctx| {
            ctx.run(to.deadline().timeout(LONG).into_future()).then(move |_, deadline, ctx| {
                ctx.call(to.deadline().timeout(LONG)).then(move |_, again, _| {
                    let both = [deadline, again].map(|deadline| deadline.ok().flatten());
                    reply.send(both.into_iter().flatten().max());
                });
            });
        });
    }

    /// Calls along `chain`, blocking for each answer. Returns the length of the chain, and the deadline that applies
    /// after the call.
    #[message]
    fn wait_along(&mut self, ctx: &mut Context<Self>, mut chain: Vec<Address<Desk>>) -> (u32, Option<Instant>) {
        let own = ctx.deadline();
        let length = match chain.pop() {
            Some(next) => next.wait_along(chain).timeout(LONG).wait().map_or(0, |(length, _)| length + 1),
            None => 1,
        };
        (length, own.and(ctx.deadline()))
    }

    /// Returns the result of a call from an async method.
    #[message]
    pub(crate) async fn ask(&mut self, to: Address<Desk>, timeout: Duration) -> Result<u32, CallError> {
        to.keep().timeout(timeout).await
    }

    /// Calls twice: the second call follows immediately when the first has timed out.
    #[message]
    async fn ask_again(&mut self, to: Address<Desk>, timeout: Duration) -> [Result<u32, CallError>; 2] {
        [to.keep().timeout(timeout).await, to.keep().timeout(LONG).await]
    }

    #[message]
    async fn ask_both(&mut self, ctx: &mut Context<Self>, to: Address<Desk>) -> (Result<u32, CallError>, u32) {
        // The first call is abandoned as soon as the second is answered.
        let (kept, quick) = (to.keep().into_future(), to.echo(3).into_future());
        let kept = match select(kept, quick).await {
            Either::Left((kept, _)) => kept,
            Either::Right((quick, kept)) => {
                drop(kept);
                quick
            }
        };
        ctx.sleep(Duration::ZERO).await;
        (kept, to.echo(4).await.unwrap_or(0))
    }

    #[message]
    async fn ask_many(&mut self, to: Address<Desk>, count: u32) -> Vec<Result<u32, CallError>> {
        join_all((0..count).map(|number| to.echo(number).into_future())).await
    }
}

#[process(on_error = "end")]
struct Strict;

#[process]
impl Strict {
    #[entry]
    fn serve(&mut self) {}

    #[message]
    fn check(&mut self, value: u32) -> Result<u32, String> {
        if value == 0 { Err("nothing".to_string()) } else { Ok(value) }
    }

    #[message]
    async fn check_at(&mut self, gate: Gate) -> Result<(), String> {
        gate.passed().await;
        Err("after the gate".to_string())
    }
}

fn desk(runtime: &Runtime) -> Address<Desk> {
    runtime.spawn(Desk::default()).serve().unwrap()
}

#[test]
fn a_call_value_that_is_dropped_does_nothing() {
    with_runtime(|runtime| {
        let seen = Log::new();
        let desk = runtime.spawn(Desk { seen: seen.clone(), ..Desk::default() }).serve().unwrap();
        drop(desk.check(1));
        drop(desk.check(1).timeout(LONG).into_future());
        assert_eq!(desk.echo(2).wait(), Ok(2));
        assert!(seen.is_empty());
    });
}

#[test]
fn sent_awaited_and_waited_for_it_is_the_same_message() {
    with_runtime(|runtime| {
        let seen = Log::new();
        let desk = runtime.spawn(Desk { seen: seen.clone(), ..Desk::default() }).serve().unwrap();
        desk.check(1).send().unwrap();
        assert_eq!(desk.check(2).wait(), Ok(2));
        assert_eq!(runtime.block_on(desk.check(3).into_future()), Ok(3));
        assert_eq!(seen.len(), 3);
    });
}

#[test]
fn many_calls_wait_side_by_side_each_for_its_own_answer() {
    with_runtime(|runtime| {
        let (one, other) = (desk(runtime), desk(runtime));
        let expected: Vec<_> = (0..500).map(Ok).collect();
        assert_eq!(one.ask_many(other, 500).wait().as_ref(), Ok(&expected));
        assert_eq!(runtime.block_on(join_all((0..500).map(|number| one.echo(number).into_future()))), expected);
        assert_eq!(runtime.block_on(join(one.echo(1).into_future(), other.echo(2).into_future())), (Ok(1), Ok(2)));
    });
}

#[test]
fn waiting_inside_a_process_on_the_only_worker_lets_the_called_one_run() {
    watched(|| {
        let runtime = builder().workers(1).build().unwrap();
        let chain: Vec<_> = (0..5).map(|_| desk(&runtime)).collect();
        let (length, deadline) = desk(&runtime).wait_along(chain).timeout(LONG).wait().unwrap();
        assert_eq!(length, 6);
        assert!(deadline.is_some_and(|deadline| deadline <= Instant::now() + LONG));
    });
}

#[test]
fn a_deadline_that_passes_is_a_timeout_and_the_late_answer_never_shows_up() {
    with_runtime(|runtime| {
        let (caller, callee) = (desk(runtime), desk(runtime));
        let soon = Duration::from_millis(5);
        assert_eq!(callee.keep().timeout(soon).wait(), Err(CallError::Timeout));
        assert_eq!(runtime.block_on(callee.keep().timeout(soon).into_future()), Err(CallError::Timeout));
        assert_eq!(caller.ask(callee, soon).wait(), Err(CallError::Failed(CallError::Timeout)));
        let past = Instant::now() - Duration::from_millis(1);
        assert_eq!(callee.keep().deadline(past).wait(), Err(CallError::Timeout));
        // All four answers are sent now, after their deadlines, and must not be mistaken for answers to later calls.
        assert_eq!(callee.answer_all(77).wait(), Ok(4));
        assert_eq!((callee.echo(1).wait(), caller.echo(2).wait()), (Ok(1), Ok(2)));
        assert_eq!(caller.ask_many(callee, 3).wait(), Ok(vec![Ok(0), Ok(1), Ok(2)]));
    });
}

#[test]
fn a_late_answer_is_not_taken_for_that_of_the_next_call() {
    with_runtime(|runtime| {
        let (caller, callee) = (desk(runtime), desk(runtime));
        let mut asked = pin!(caller.ask_again(callee, Duration::from_millis(5)).timeout(LONG).into_future());
        assert!(poll_once(asked.as_mut()).is_pending());
        until(|| callee.abandoned().wait() == Ok(vec![true, false]));
        callee.answer_first(1).wait().unwrap();
        callee.answer_first(2).wait().unwrap();
        assert_eq!(runtime.block_on(asked), Ok([Err(CallError::Timeout), Ok(2)]));
    });
}

#[test]
fn a_reply_knows_that_its_call_was_abandoned() {
    with_runtime(|runtime| {
        let (caller, callee) = (desk(runtime), desk(runtime));
        let soon = Duration::from_millis(5);
        assert!(callee.keep().timeout(soon).wait().is_err());
        assert!(caller.ask(callee, soon).wait().is_err());
        {
            let mut dropped = pin!(callee.keep().into_future());
            assert!(poll_once(dropped.as_mut()).is_pending());
        }
        assert_eq!(caller.ask_both(callee).wait(), Ok((Ok(3), 4)));
        callee.keep().send().unwrap();
        let mut waiting = pin!(callee.keep().into_future());
        assert!(poll_once(waiting.as_mut()).is_pending());
        assert_eq!(callee.abandoned().wait(), Ok(vec![true, true, true, true, true, false]));
        assert_eq!(callee.answer_all(9).wait(), Ok(6));
        assert_eq!(runtime.block_on(waiting), Ok(9));
    });
}

#[test]
fn a_caller_that_exits_has_abandoned_its_call() {
    with_runtime(|runtime| {
        let (caller, callee) = (desk(runtime), desk(runtime));
        caller.ask(callee, LONG).send().unwrap();
        until(|| callee.abandoned().wait() == Ok(vec![false]));
        let ended = caller.pid().join();
        caller.pid().kill();
        assert_eq!(ended.wait(), ExitReason::Killed);
        assert_eq!(callee.abandoned().wait(), Ok(vec![true]));
    });
}

#[test]
fn a_call_has_a_deadline_of_five_seconds_and_a_sent_message_none() {
    watched(|| {
        let runtime = &Runtime::builder().workers(2).build().unwrap();
        let desk = desk(runtime);
        let before = Instant::now();
        let deadline = desk.deadline().wait().unwrap().unwrap();
        assert!(deadline > before && deadline <= Instant::now() + postroom::DEFAULT_TIMEOUT);
        let deadline = desk.deadline().timeout(LONG).wait().unwrap().unwrap();
        assert!(deadline > before + LONG / 2 && deadline <= Instant::now() + LONG);
    });
}

/// Catches: a timeout that holds only for calls between processes.
#[test]
fn calls_from_outside_have_the_timeout_of_the_called_runtime() {
    watched(|| {
        let runtime = Runtime::builder().workers(2).call_timeout(LONG).build().unwrap();
        let (desk, before) = (desk(&runtime), Instant::now());
        let deadline = desk.deadline().wait().unwrap().unwrap();
        assert!(deadline >= before + LONG && deadline <= Instant::now() + LONG);
    });
}

#[test]
fn a_deadline_ends_with_the_message_that_it_belongs_to() {
    watched(|| {
        let runtime = builder().paused().build().unwrap();
        let deadlines = Log::new();
        let desk = runtime.spawn(Desk { deadlines: deadlines.clone(), ..Desk::default() }).serve().unwrap();
        let (mut kept, mut echo) = (pin!(desk.keep().into_future()), pin!(desk.echo(1).into_future()));
        assert!(poll_once(kept.as_mut()).is_pending());
        desk.note_deadline().send().unwrap();
        assert!(poll_once(echo.as_mut()).is_pending());
        desk.note_deadline().send().unwrap();
        runtime.resume().unwrap();
        assert_eq!(runtime.block_on(echo), Ok(1));
        desk.echo(1).wait().unwrap();
        let deadlines: Vec<bool> = deadlines.all().iter().map(Option::is_some).collect();
        assert_eq!(deadlines, [true, false, false]);
    });
}

#[test]
fn a_call_made_while_serving_a_call_inherits_the_smaller_deadline() {
    with_runtime(|runtime| {
        let (outer, inner) = (desk(runtime), desk(runtime));
        // The outer caller's deadline is earlier than the relay's.
        let [own, granted] = outer.relay(inner, LONG).timeout(LONG / 10).wait().unwrap();
        let latest = Instant::now() + LONG / 10;
        assert!(own.unwrap() <= latest && granted.unwrap() <= latest);
        // The relay's deadline is earlier than the outer caller's.
        let [own, granted] = outer.relay(inner, LONG / 10).timeout(LONG).wait().unwrap();
        assert!(granted.unwrap() <= Instant::now() + LONG / 10 && own.unwrap() > Instant::now() + LONG / 2);
        // With an unlimited timeout, the relay's own deadline is later than that of its call.
        let [own, _] = outer.relay(inner, LONG).timeout(Duration::MAX).wait().unwrap();
        assert!(own.unwrap() > Instant::now() + LONG);
    });
}

#[test]
fn a_background_task_inherits_the_deadline_of_its_starter() {
    with_runtime(|runtime| {
        let (outer, inner) = (desk(runtime), desk(runtime));
        let granted = outer.relay_beside(inner).timeout(LONG / 10).wait().unwrap().unwrap();
        assert!(granted <= Instant::now() + LONG / 10 && granted > Instant::now() + LONG / 20);
    });
}

#[test]
fn an_error_of_a_call_goes_to_its_caller_and_the_process_survives() {
    with_runtime(|runtime| {
        let desk = desk(runtime);
        assert_eq!(desk.check(0).wait(), Err(CallError::Failed("nothing".to_string())));
        let strict = runtime.spawn(Strict).serve().unwrap();
        assert_eq!(strict.check(0).wait(), Err(CallError::Failed("nothing".to_string())));
        assert_eq!((desk.check(1).wait(), strict.check(1).wait()), (Ok(1), Ok(1)));
    });
}

#[test]
fn an_error_of_a_sent_message_ends_only_processes_that_opted_in() {
    with_runtime(|runtime| {
        let desk = desk(runtime);
        desk.check(0).send().unwrap();
        let gate = Gate::new();
        gate.open();
        desk.check_at(gate.clone()).send().unwrap();
        assert_eq!(desk.check(1).wait(), Ok(1));
        for asynchronous in [false, true] {
            let strict = runtime.spawn(Strict).serve().unwrap();
            let ended = strict.pid().join();
            strict.check(1).send().unwrap();
            let (sent, reason) = if asynchronous {
                (strict.check_at(gate.clone()).send().is_ok(), "after the gate")
            } else {
                (strict.check(0).send().is_ok(), "nothing")
            };
            assert!(sent);
            assert_eq!(ended.wait(), ExitReason::error(reason));
        }
    });
}

#[test]
fn an_error_of_an_abandoned_call_is_harmless() {
    with_runtime(|runtime| {
        let strict = runtime.spawn(Strict).serve().unwrap();
        let gate = Gate::new();
        assert!(strict.check_at(gate.clone()).timeout(Duration::from_millis(5)).wait().is_err());
        {
            let mut dropped = pin!(strict.check(0).into_future());
            assert!(poll_once(dropped.as_mut()).is_pending());
        }
        gate.open();
        assert_eq!(strict.check(1).wait(), Ok(1));
    });
}

#[test]
fn one_question_mark_does() {
    fn ask(desk: Address<Desk>) -> Result<u32, Box<dyn std::error::Error>> {
        desk.echo(1).send()?;
        Ok(desk.check(2).wait()? + desk.echo(3).wait()?)
    }
    fn typed(desk: Address<Desk>) -> Result<u32, CallError<String>> {
        desk.echo(1).send()?;
        desk.check(2).wait()
    }
    with_runtime(|runtime| {
        let desk = desk(runtime);
        assert_eq!((ask(desk).unwrap(), typed(desk)), (5, Ok(2)));
        desk.pid().kill();
        desk.pid().join().wait();
        assert!(ask(desk).is_err());
        assert_eq!(typed(desk), Err(CallError::Gone(ExitReason::NoProcess)));
    });
}

#[test]
fn answers_that_are_not_taken_are_dropped_once() {
    #[process]
    struct Maker(Log<&'static str>);

    #[process]
    impl Maker {
        #[entry]
        fn serve(&mut self) {}
        #[message]
        fn make(&mut self) -> OnDrop {
            OnDrop(self.0.clone(), "dropped")
        }
        #[message]
        async fn make_at(&mut self, gate: Gate) -> OnDrop {
            gate.passed().await;
            OnDrop(self.0.clone(), "dropped late")
        }
    }

    with_runtime(|runtime| {
        let log = Log::new();
        let maker = runtime.spawn(Maker(log.clone())).serve().unwrap();
        maker.make().send().unwrap();
        drop(maker.make().wait().unwrap());
        assert_eq!(log.all(), ["dropped"; 2]);
        let gate = Gate::new();
        assert!(maker.make_at(gate.clone()).timeout(Duration::from_millis(5)).wait().is_err());
        gate.open();
        drop(maker.make().wait().unwrap());
        assert_eq!(log.all(), ["dropped", "dropped", "dropped late", "dropped"]);
    });
}
