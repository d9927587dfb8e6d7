//! Waiting with a time limit: for messages, and for futures.

use super::{SECOND, probe, still};
use postroom::prelude::*;
use postroom_tests::soon;
use std::time::{Duration, Instant};

const NANOSECOND: Duration = Duration::from_nanos(1);

#[derive(Debug, PartialEq)]
enum Said {
    Got(u32),
    Handled(u32),
    Nothing(Duration),
}

/// A process whose entries wait in different ways.
#[process]
struct Waits {
    told: Recipient<Said>,
}

#[process]
impl Waits {
    #[message]
    fn handle(&mut self, number: u32) {
        let _gone = self.told.send(Said::Handled(number));
    }
    #[message]
    async fn slowly(&mut self, ctx: &mut Context<Self>, number: u32) {
        ctx.sleep(100 * SECOND).await;
        let _gone = self.told.send(Said::Handled(number));
    }

    /// Receives numbers, each within a limit, then serves.
    #[entry]
    async fn receive(&mut self, ctx: &mut Context<Self>, limits: Vec<Duration>) {
        for limit in limits {
            let began = ctx.now();
            let said = match ctx.receive_within::<u32>(limit).await {
                Some(number) => Said::Got(number),
                None => Said::Nothing(ctx.now() - began),
            };
            let _gone = self.told.send(said);
        }
        ctx.serve(self).await;
    }

    /// Serves as long as a message arrives within the limit.
    #[entry]
    async fn serve_for(&mut self, ctx: &mut Context<Self>, limit: Duration) {
        let mut began = ctx.now();
        while ctx.serve_next_within(self, limit).await {
            began = ctx.now();
        }
        let _gone = self.told.send(Said::Nothing(ctx.now() - began));
    }

    /// Waits for sleeps, each of them with the time limit.
    #[entry]
    async fn bound(&mut self, ctx: &mut Context<Self>, sleeps: Vec<Duration>, limit: Duration) {
        for sleep in sleeps {
            let began = ctx.now();
            let said = match ctx.timeout(limit, ctx.sleep(sleep)).await {
                Ok(()) => Said::Got(0),
                Err(elapsed) => {
                    assert_eq!(elapsed.0, limit);
                    Said::Nothing(ctx.now() - began)
                }
            };
            let _gone = self.told.send(said);
        }
        let zero = ctx.timeout(Duration::ZERO, async { 7 }).await;
        assert_eq!(zero, Ok(7), "it is polled once");
        ctx.timeout(Duration::MAX, ctx.sleep(SECOND)).await.expect("no limit");
    }
}

#[test]
fn a_message_is_received_within_a_time_or_not_and_nothing_is_lost() {
    soon(|| {
        let (clock, runtime) = still(2);
        let mut probe = probe::<Said>(&runtime);
        let limits = vec![SECOND, SECOND, Duration::MAX, SECOND];
        let waits = runtime.spawn(Waits { told: probe.recipient() }).receive(limits).unwrap().address();
        waits.handle(1).send().unwrap();
        probe.expect_nothing_for(SECOND - NANOSECOND);
        assert_eq!(probe.expect_within(NANOSECOND), Said::Nothing(SECOND));
        runtime.send(waits.pid(), 2_u32).unwrap();
        waits.handle(3).send().unwrap();
        runtime.send(waits.pid(), 4_u32).unwrap();
        assert_eq!((probe.expect(), probe.expect()), (Said::Got(2), Said::Got(4)));
        clock.advance(SECOND).unwrap();
        // The stashed messages follow, in order.
        assert_eq!(probe.try_next(), Some(Said::Nothing(SECOND)));
        assert_eq!((probe.try_next(), probe.try_next()), (Some(Said::Handled(1)), Some(Said::Handled(3))));
        assert_eq!((probe.try_next(), runtime.statistics().timers), (None, 0));
    });
}

#[test]
fn within_no_time_a_message_is_received_that_is_there() {
    soon(|| {
        let clock = postroom::test::Clock::manual();
        let runtime = Runtime::builder().workers(1).clock(clock).paused().build().unwrap();
        let mut seen = probe::<Said>(&runtime);
        let limits = vec![Duration::ZERO; 3];
        let waits = runtime.spawn(Waits { told: seen.recipient() }).receive(limits).unwrap().address();
        // A step handles fewer messages than these. They all precede the one that the process waits for.
        for number in 0..1_000 {
            waits.handle(number).send().unwrap();
        }
        runtime.send(waits.pid(), 1_u32).unwrap();
        runtime.send(waits.pid(), 2_u32).unwrap();
        runtime.resume().unwrap();
        let first: Vec<Said> = (0..3).map(|_| seen.expect()).collect();
        assert_eq!(first, [Said::Got(1), Said::Got(2), Said::Nothing(Duration::ZERO)]);
        assert!((0..1_000).all(|number| seen.try_next() == Some(Said::Handled(number))));
        let _serves = runtime.spawn(Waits { told: seen.recipient() }).serve_for(Duration::ZERO).unwrap();
        assert_eq!(seen.expect(), Said::Nothing(Duration::ZERO));
    });
}

#[test]
fn messages_are_served_as_long_as_one_arrives_within_a_limit() {
    soon(|| {
        let (clock, runtime) = still(1);
        let mut probe = probe::<Said>(&runtime);
        let waits = runtime.spawn(Waits { told: probe.recipient() }).serve_for(10 * SECOND).unwrap();
        let address = waits.address();
        clock.advance(9 * SECOND).unwrap();
        address.handle(1).send().unwrap();
        clock.advance(9 * SECOND).unwrap();
        address.slowly(2).send().unwrap();
        clock.advance(101 * SECOND).unwrap();
        assert_eq!((probe.expect(), probe.expect()), (Said::Handled(1), Said::Handled(2)));
        address.handle(3).send().unwrap();
        clock.advance(10 * SECOND).unwrap();
        assert_eq!((probe.try_next(), probe.try_next()), (Some(Said::Handled(3)), Some(Said::Nothing(10 * SECOND))));
        waits.wait().unwrap();
    });
}

#[test]
fn a_future_with_a_timeout_is_dropped_when_it_expires() {
    soon(|| {
        let (clock, runtime) = still(1);
        let mut probe = probe::<Said>(&runtime);
        let sleeps = vec![2 * SECOND, 4 * SECOND, Duration::MAX, 3 * SECOND];
        let waits = runtime.spawn(Waits { told: probe.recipient() }).bound(sleeps, 3 * SECOND).unwrap();
        let began: Instant = clock.now();
        let seen: Vec<Said> = (0..4).map(|_| probe.expect_within(100 * SECOND)).collect();
        // A future that is ready exactly at the limit still counts as in time.
        let late = Said::Nothing(3 * SECOND);
        assert_eq!(seen, [Said::Got(0), Said::Nothing(3 * SECOND), late, Said::Got(0)]);
        assert_eq!(clock.now(), began + 11 * SECOND);
        clock.advance(SECOND).unwrap();
        waits.wait().unwrap();
        assert_eq!(runtime.statistics().timers, 0);
    });
}
