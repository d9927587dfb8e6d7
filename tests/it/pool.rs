//! Pools: several processes behind one address. Routing to members, start and end of members, and the fate of messages
//! when members fail, queues are full, deadlines pass or the pool stops.

use postroom::error::{PoolGaveUp, SendFailure};
use postroom::inspect::{DeadLetterReason, PoolStatistics};
use postroom::prelude::*;
use postroom::test::Clock;
use postroom::{Bound, Builder, Overflow, Pool, RunningPool};
use postroom_tests::face::{Gate, Log, builder, until, watched, with_dead_letters, with_runtime};
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::thread;
use std::time::Duration;

mod coming_and_going;
mod failures;
mod keys;
mod lines;
mod stress;

const LONG: Duration = Duration::from_secs(3600);
const SECOND: Duration = Duration::from_secs(1);

/// Builds a runtime with a virtual clock.
fn still(builder: Builder) -> (Clock, Runtime) {
    let clock = Clock::manual();
    let runtime = builder.clock(clock.clone()).build().unwrap();
    (clock, runtime)
}

/// A member that answers at once, or when its gate opens, or panics.
#[process]
#[derive(Default)]
pub(crate) struct Worker {
    pub(crate) seen: Log<u32>,
    pub(crate) kept: Vec<Reply<u32>>,
}

#[process]
impl Worker {
    #[entry]
    pub(crate) fn serve(&mut self) {}

    /// Fails as soon as it starts.
    #[entry]
    async fn flee(&mut self) -> Result<(), String> {
        Err("no work today".to_string())
    }

    #[message]
    pub(crate) fn echo(&mut self, value: u32) -> u32 {
        self.seen.add(value);
        value
    }

    #[message]
    pub(crate) fn who(&mut self, ctx: &mut Context<Self>) -> Pid {
        ctx.pid()
    }

    #[message]
    async fn work(&mut self, gate: Gate, value: u32) -> u32 {
        gate.passed().await;
        self.seen.add(value);
        value
    }

    #[message]
    fn keep(&mut self, reply: Reply<u32>) {
        self.kept.push(reply);
    }

    #[message]
    fn answer_all(&mut self, value: u32) {
        self.kept.drain(..).for_each(|reply| reply.send(value));
    }

    #[message]
    pub(crate) fn crash(&mut self) -> u32 {
        panic!("over the edge")
    }

    /// Exits when this message has been handled.
    #[message]
    fn leave(&mut self, ctx: &mut Context<Self>, here: Gate, gate: Gate) {
        ctx.stop();
        here.open();
        gate.pass();
    }

    /// Adds `value` to the log that all members share.
    #[message]
    #[derive(Clone)]
    pub(crate) fn note(&mut self, value: u32) -> u32 {
        self.seen.add(value);
        value
    }
}

fn pool(runtime: &Runtime, pool: Pool) -> RunningPool<Worker> {
    pool.spawn(runtime, |spawn| spawn.of(Worker::default()).serve()).unwrap()
}

/// Waits until the pool's statistics satisfy a condition.
fn when<P>(pool: &RunningPool<P>, mut stands: impl FnMut(PoolStatistics) -> bool) {
    until(|| stands(pool.statistics()));
}

/// Stops a pool, and waits until its last member has exited.
fn stopped(pool: &RunningPool<Worker>) -> ExitReason {
    let end = pool.pid().join();
    pool.stop();
    end.wait()
}

/// A process that calls a pool, and exits with the answer.
#[process]
struct Asks;

#[process]
impl Asks {
    #[entry]
    async fn ask(&mut self, pool: Address<Worker>) -> Result<u32, CallError> {
        pool.echo(3).await
    }
}

#[test]
fn a_pool_is_addressed_like_one_process_from_threads_tasks_and_processes() {
    with_runtime(|runtime| {
        let workers = pool(runtime, Pool::fixed(2));
        let address: Address<Worker> = workers.address();
        assert_eq!(size_of_val(&address), 16);
        assert_eq!(address.echo(1).wait(), Ok(1));
        assert_eq!(runtime.block_on(async { address.echo(2).await }), Ok(2));
        assert_eq!(runtime.spawn(Asks).ask(address).unwrap().wait().unwrap(), 3);
        let recipient: Recipient<WorkerEcho, u32> = address.narrow();
        assert_eq!(recipient.call(WorkerEcho { value: 4 }).wait(), Ok(4));
        runtime.send(workers.pid(), WorkerEcho { value: 5 }).unwrap();
        assert_eq!(runtime.address::<Worker>(workers.pid()).unwrap(), address);
        assert!(runtime.address::<Asks>(workers.pid()).is_err());
        assert!(workers.pid().is_alive() && workers.pid().is_alias());
        assert_eq!(Host::of(workers.pid()), Some(runtime.host()));
    });
}

#[test]
fn round_robin_takes_the_members_in_turn() {
    with_runtime(|runtime| {
        let workers = pool(runtime, Pool::fixed(3).round_robin());
        let turns: Vec<Pid> = (0..9).map(|_| workers.address().who().wait().unwrap()).collect();
        assert_eq!(turns[..3], workers.members()[..]);
        assert_eq!((&turns[..3], &turns[3..6]), (&turns[3..6], &turns[6..]));
    });
}

#[test]
fn the_least_loaded_member_gets_the_next_message() {
    with_runtime(|runtime| {
        let workers = pool(runtime, Pool::fixed(3).least_loaded().concurrency(100));
        let members = workers.members();
        // Each member gets four calls, and keeps them.
        let calls: Vec<_> = (0..12)
            .map(|_| {
                let address = workers.address();
                thread::spawn(move || address.keep().timeout(LONG).wait())
            })
            .collect();
        when(&workers, |now| now.in_flight == 12);
        // The first member answers its calls. Then it has the fewest, and gets the next call. The request goes directly
        // to the member, so it may get ahead of the pool's messages.
        when(&workers, |now| {
            runtime.send(members[0], WorkerAnswerAll { value: 7 }).unwrap();
            now.in_flight == 8
        });
        assert_eq!(workers.address().who().wait(), Ok(members[0]));
        when(&workers, |now| {
            members.iter().for_each(|member| runtime.send(*member, WorkerAnswerAll { value: 7 }).unwrap());
            now.in_flight == 0
        });
        assert!(calls.into_iter().all(|call| call.join().unwrap() == Ok(7)));
    });
}

#[test]
fn a_broadcast_reaches_each_member_once_ahead_of_the_queue() {
    with_runtime(|runtime| {
        let log = Log::new();
        let seen = log.clone();
        let workers = Pool::fixed(3)
            .broadcast::<WorkerNote>()
            .spawn(runtime, move |spawn| spawn.of(Worker { seen: seen.clone(), ..Worker::default() }).serve())
            .unwrap();
        workers.address().note(1).send().unwrap();
        until(|| log.len() == 3);
        assert_eq!(workers.address().note(2).wait(), Ok(2));
        until(|| log.len() == 6);
        assert_eq!(log.all(), [1, 1, 1, 2, 2, 2]);
        let gate = Gate::new();
        (0..5).for_each(|value| workers.address().work(gate.clone(), value).send().unwrap());
        when(&workers, |now| now.waiting == 2);
        workers.address().note(9).send().unwrap();
        gate.open();
        assert_eq!(stopped(&workers), ExitReason::Normal);
        let seen = log.all();
        assert_eq!(seen.iter().filter(|value| **value == 9).count(), 3);
    });
}

#[test]
fn a_pool_without_members_to_be_is_refused() {
    with_runtime(|runtime| {
        #[expect(clippy::reversed_empty_ranges, reason = "that is what is refused")]
        for bad in [Pool::fixed(0), Pool::elastic(0..=0), Pool::elastic(3..=1)] {
            let error = bad.spawn(runtime, |spawn| spawn.of(Worker::default()).serve()).unwrap_err();
            assert!(matches!(error, SpawnError::NoMembers { .. }), "{error}");
        }
        // These options are extreme, but valid.
        let odd = Pool::fixed(1).concurrency(0).queue(usize::MAX).deadline(Duration::MAX).idle_after(Duration::MAX);
        assert_eq!(pool(runtime, odd).address().echo(1).wait(), Ok(1));
    });
}

#[test]
fn an_error_of_a_sent_message_ends_a_member_that_opted_in() {
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
    }
    with_runtime(|runtime| {
        let strict = Pool::fixed(1).spawn(runtime, |spawn| spawn.of(Strict).serve()).unwrap();
        let first = strict.members();
        // In a call, the error goes to the caller.
        assert_eq!(strict.address().check(0).wait(), Err(CallError::Failed("nothing".to_string())));
        assert_eq!(strict.members(), first);
        // In a send, the error ends the member, which is replaced.
        strict.address().check(0).send().unwrap();
        until(|| strict.members().first().is_some_and(|member| *member != first[0]));
        assert_eq!(strict.address().check(5).wait(), Ok(5));
    });
}

#[test]
fn a_pool_in_a_pool_and_delayed_messages_reach_members() {
    with_runtime(|runtime| {
        let (host, log) = (runtime.host(), Log::new());
        let seen = log.clone();
        let outer = Pool::fixed(2)
            .spawn(runtime, move |_| {
                let seen = seen.clone();
                Pool::fixed(2)
                    .spawn(host, move |spawn| spawn.of(Worker { seen: seen.clone(), ..Worker::default() }).serve())
            })
            .unwrap();
        assert_eq!(outer.address().echo(1).wait(), Ok(1));
        outer.address().echo(2).send_after(Duration::from_millis(1)).unwrap();
        until(|| log.all() == [1, 2]);
    });
}

#[test]
fn a_pool_is_a_child_of_a_supervisor_and_is_restarted() {
    with_runtime(|runtime| {
        let tree = postroom::supervision::Supervisor::one_for_one()
            .child("workers", |spawn| Pool::fixed(2).spawn(spawn, |spawn| spawn.of(Worker::default()).serve()))
            .spawn(runtime)
            .unwrap();
        let workers: Address<Worker> = tree.child("workers").unwrap();
        assert_eq!(workers.echo(1).wait(), Ok(1));
        let keeper = workers.pid().info().unwrap().pid;
        assert!(keeper.kill());
        until(|| workers.pid().info().is_some_and(|info| info.pid != keeper));
        until(|| workers.echo(2).wait() == Ok(2));
    });
}
