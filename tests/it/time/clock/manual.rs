//! Virtual clocks.

use super::{SECOND, probe, still};
use futures_util::FutureExt;
use postroom::prelude::*;
use postroom::test::{Clock, ClockError};
use postroom_tests::soon;
use std::time::{Duration, Instant};

#[process]
struct Ticker;

#[process]
impl Ticker {
    #[entry]
    async fn tick(&mut self, ctx: &mut Context<Self>, period: Duration, to: Recipient<(Pid, Duration)>) {
        let began = ctx.now();
        let mut interval = ctx.interval(period);
        loop {
            interval.tick().await;
            let _gone = to.send((ctx.pid(), ctx.now() - began));
        }
    }
}

#[test]
fn ten_ticks_of_a_second_are_seen_one_by_one_when_ten_seconds_pass_at_once() {
    soon(|| {
        let (clock, runtime) = still(2);
        let mut probe = probe(&runtime);
        let _ticker = runtime.spawn(Ticker).tick(SECOND, probe.recipient()).unwrap();
        clock.advance(10 * SECOND).unwrap();
        for tick in 1..=10 {
            assert_eq!(probe.try_next().unwrap().1, tick * SECOND);
        }
        assert!(probe.try_next().is_none());
        clock.advance(SECOND - Duration::from_nanos(1)).unwrap();
        assert!(probe.try_next().is_none());
        clock.advance(Duration::from_nanos(1)).unwrap();
        assert_eq!(probe.try_next().unwrap().1, 11 * SECOND);
    });
}

#[test]
fn waits_of_several_processes_end_in_the_order_of_their_times() {
    soon(|| {
        let (clock, runtime) = still(2);
        let mut probe = probe::<(Pid, Duration)>(&runtime);
        let periods = [700, 300, 500].map(Duration::from_millis);
        for period in periods {
            let _ticker = runtime.spawn(Ticker).tick(period, probe.recipient()).unwrap();
        }
        clock.advance(21 * SECOND).unwrap();
        let seen: Vec<Duration> = std::iter::from_fn(|| probe.try_next()).map(|(_, at)| at).collect();
        let mut expected: Vec<Duration> = periods
            .iter()
            .flat_map(|&period| (1..).map(move |n| n * period).take_while(|&at| at <= 21 * SECOND))
            .collect();
        expected.sort();
        assert_eq!(seen, expected);
    });
}

#[process]
struct Counter {
    count: u64,
}

#[process]
impl Counter {
    #[entry]
    fn serve(&mut self) {}
    #[message]
    #[derive(Clone)]
    fn add(&mut self, amount: u64) -> u64 {
        self.count += amount;
        self.count
    }
    #[message]
    fn hold(&mut self, reply: Reply<u64>) {
        // The reply is neither answered nor dropped, so that the call times out.
        std::mem::forget(reply);
    }
    #[message]
    fn now(&mut self, ctx: &mut Context<Self>) -> (Instant, Option<Instant>) {
        (ctx.now(), ctx.deadline())
    }
    #[message]
    fn ask_and_wait(&mut self, ctx: &mut Context<Self>, of: Address<Counter>, told: Recipient<(bool, Instant)>) {
        let answer = of.hold().timeout(3 * SECOND).wait();
        let _gone = told.send((matches!(answer, Err(CallError::Timeout)), ctx.now()));
    }
    #[message]
    async fn ask(&mut self, ctx: &mut Context<Self>, of: Address<Counter>, told: Recipient<(bool, Instant)>) {
        let answer = of.hold().timeout(3 * SECOND).await;
        let _gone = told.send((matches!(answer, Err(CallError::Timeout)), ctx.now()));
    }
}

#[test]
fn the_time_that_processes_see_is_that_of_the_clock_and_stands_still_with_it() {
    soon(|| {
        let (clock, runtime) = still(1);
        let counter = runtime.spawn(Counter { count: 0 }).serve().unwrap();
        let (now, deadline) = counter.now().timeout(7 * SECOND).wait().unwrap();
        assert_eq!((now, deadline), (clock.now(), Some(clock.now() + 7 * SECOND)));
        clock.advance(3600 * SECOND).unwrap();
        assert_eq!(clock.now(), now + 3600 * SECOND);
        assert_eq!(counter.now().wait().unwrap().0, clock.now());
    });
}

#[test]
fn calls_time_out_when_the_clock_has_moved_on_inside_processes_awaited_or_waited_for() {
    soon(|| {
        let (clock, runtime) = still(1);
        let mut probe = probe(&runtime);
        let spawn = || runtime.spawn(Counter { count: 0 }).serve().unwrap();
        let (one, two, holder) = (spawn(), spawn(), spawn());
        let began = clock.now();
        one.ask(holder, probe.recipient()).send().unwrap();
        probe.expect_nothing_for(3 * SECOND - Duration::from_nanos(1));
        clock.advance(Duration::from_nanos(1)).unwrap();
        assert_eq!(probe.try_next(), Some((true, began + 3 * SECOND)));
        two.ask_and_wait(holder, probe.recipient()).send().unwrap();
        probe.expect_nothing_for(3 * SECOND - Duration::from_nanos(1));
        clock.advance(Duration::from_nanos(1)).unwrap();
        assert_eq!(probe.try_next(), Some((true, began + 6 * SECOND)));
    });
}

#[test]
fn a_call_awaited_outside_of_processes_times_out_on_the_callees_clock() {
    soon(|| {
        let (clock, runtime) = still(1);
        let counter = runtime.spawn(Counter { count: 0 }).serve().unwrap();
        let mut call = std::pin::pin!(counter.hold().timeout(SECOND).into_future());
        assert!(call.as_mut().now_or_never().is_none());
        clock.advance(SECOND - Duration::from_nanos(1)).unwrap();
        assert!(call.as_mut().now_or_never().is_none());
        clock.advance(Duration::from_nanos(1)).unwrap();
        assert!(matches!(call.as_mut().now_or_never(), Some(Err(CallError::Timeout))));
        assert_eq!(runtime.statistics().timers, 0);
    });
}

#[test]
fn a_delayed_message_from_a_foreign_thread_uses_the_receivers_clock() {
    soon(|| {
        let (clock, runtime) = still(1);
        let counter = runtime.spawn(Counter { count: 0 }).serve().unwrap();
        counter.add(1).send_after(SECOND).unwrap();
        counter.add(10).send_every(2 * SECOND).unwrap();
        clock.advance(SECOND - Duration::from_nanos(1)).unwrap();
        assert_eq!(counter.add(0).wait().unwrap(), 0);
        clock.advance(Duration::from_nanos(1)).unwrap();
        assert_eq!(counter.add(0).wait().unwrap(), 1);
        clock.advance(6 * SECOND).unwrap();
        assert_eq!(counter.add(0).wait().unwrap(), 31);
    });
}

/// The timer fires on the thread that advances the clock. This thread belongs to no runtime.
///
/// Catches: a timer's message to an exited process that is not a dead letter, or is a dead letter of another runtime.
#[test]
fn a_delayed_message_to_an_exited_process_is_a_dead_letter_of_its_runtime() {
    soon(|| {
        let (clock, runtime) = still(1);
        let other = Runtime::builder().workers(1).clock(clock.clone()).build().unwrap();
        let counter = runtime.spawn(Counter { count: 0 }).serve().unwrap();
        counter.add(1).send_after(SECOND).unwrap();
        counter.pid().kill();
        let _end = counter.pid().join().wait();
        clock.advance(SECOND).unwrap();
        assert_eq!((runtime.statistics().dead_letters.ended, other.statistics().dead_letters.ended), (1, 0));
    });
}

#[process]
struct Relay;

#[process]
impl Relay {
    #[entry]
    fn serve(&mut self) {}
    /// Bounces between two relays, with a delay of a second each time.
    #[message]
    async fn pass(&mut self, ctx: &mut Context<Self>, to: Address<Relay>, left: u32, probe: Recipient<Instant>) {
        ctx.sleep(SECOND).await;
        let _gone = probe.send(ctx.now());
        if left > 1 {
            let _gone = to.pass(ctx.address(), left - 1, probe).send();
        }
    }
}

#[test]
fn two_runtimes_on_one_clock_see_the_same_time() {
    soon(|| {
        let (clock, left) = still(1);
        let right = Runtime::builder().workers(2).clock(clock.clone()).build().unwrap();
        let mut probe = probe(&left);
        let one = left.spawn(Relay).serve().unwrap();
        let two = right.spawn(Relay).serve().unwrap();
        let began = clock.now();
        one.pass(two, 100, probe.recipient()).send().unwrap();
        clock.advance(100 * SECOND).unwrap();
        for pass in 1..=100 {
            assert_eq!(probe.try_next(), Some(began + pass * SECOND));
        }
        right.shutdown().unwrap();
        clock.advance(SECOND).unwrap();
    });
}

#[test]
fn the_clock_of_the_system_cannot_be_moved() {
    assert_eq!(Clock::system().advance(SECOND), Err(ClockError::System));
    let clock = Clock::default();
    assert!(!clock.is_manual());
    assert!(format!("{clock:?}").contains("system"));
}

#[test]
fn a_clock_without_runtimes_advances_at_once_up_to_its_maximum() {
    let clock = Clock::manual();
    let began = clock.now();
    clock.advance(SECOND).unwrap();
    assert_eq!(clock.now(), began + SECOND);
    clock.advance(Duration::MAX).unwrap();
    clock.advance(Duration::MAX).unwrap();
    assert!(clock.now() > began + Duration::from_secs(500 * 365 * 24 * 3600));
}

#[test]
fn an_entry_that_runs_on_the_thread_of_a_test_sees_the_clock_of_its_runtime() {
    #[process]
    struct Early {
        told: Recipient<Instant>,
    }
    #[process]
    impl Early {
        #[entry]
        fn serve(&mut self, ctx: &mut Context<Self>) {
            let _gone = self.told.send(ctx.now());
        }
    }
    soon(|| {
        let (clock, runtime) = still(1);
        clock.advance(3600 * SECOND).unwrap();
        let mut probe = probe(&runtime);
        runtime.spawn(Early { told: probe.recipient() }).serve().unwrap();
        assert_eq!(probe.try_next(), Some(clock.now()));
    });
}
