//! The time of a simulation.

use super::Cell;
use postroom::prelude::*;
use postroom::test::{Sim, Simulation};
use std::time::Duration;

const HOUR: Duration = Duration::from_secs(3600);

#[process]
struct Sleeper;

#[process]
impl Sleeper {
    #[entry]
    async fn nap(&mut self, ctx: &mut Context<Self>, time: Duration) -> Duration {
        ctx.sleep(time).await;
        time
    }
    #[entry]
    async fn doze(&mut self, ctx: &mut Context<Self>, times: u32, time: Duration) {
        for _ in 0..times {
            ctx.sleep(time).await;
        }
    }
    #[message]
    #[derive(Clone)]
    fn ring(&mut self) {}
}

#[postroom::test(seeds = 50)]
fn time_leaps_to_the_next_timer_when_nothing_else_can_go_on(sim: Sim) {
    let naps: Vec<_> = (0..10).map(|n| sim.spawn(Sleeper).nap(n * HOUR).expect("it starts")).collect();
    for nap in naps {
        let time = nap.wait().expect("it ends");
        assert!(sim.elapsed() >= time);
    }
    assert_eq!(sim.elapsed(), 9 * HOUR);
}

#[postroom::test(seeds = 50)]
fn time_stands_still_while_there_is_something_to_do(sim: Sim) {
    let nap = sim.spawn(Sleeper).nap(HOUR).expect("it starts");
    let cell = sim.spawn(Cell { value: 0 }).serve().expect("it starts");
    for value in 0..20 {
        cell.set(value).wait().expect("it lives");
    }
    sim.until_idle().expect("outside");
    assert_eq!(sim.elapsed(), Duration::ZERO);
    sim.advance(HOUR - Duration::from_nanos(1));
    assert!(nap.pid().is_alive());
    sim.advance(Duration::from_nanos(1));
    assert!(!nap.pid().is_alive());
}

/// If the test makes a blocking call, the call's deadline is in the simulation's time.
#[postroom::test(seeds = 50)]
fn calls_time_out_in_the_time_of_the_simulation(sim: Sim) {
    let deaf = sim.spawn(Sleeper).nap(1000 * HOUR).expect("it starts");
    let error = deaf.address().ring().timeout(100 * HOUR / 10).wait();
    assert!(matches!(error, Err(CallError::Timeout)), "{error:?}");
    assert_eq!(sim.elapsed(), 10 * HOUR);
}

#[postroom::test(seeds = 20)]
fn probes_wait_in_the_time_of_the_simulation(sim: Sim) {
    let mut probe = sim.probe::<u32>();
    probe.expect_nothing_for(HOUR);
    let recipient = probe.recipient();
    let _timer = recipient.call(7).send_after(HOUR).expect("there is room for a timer");
    assert_eq!(probe.expect_within(HOUR), 7);
    assert_eq!(sim.elapsed(), 2 * HOUR);
}

#[test]
fn timers_are_late_and_never_early() {
    let test = Simulation::new("late").seeds(60).check(|sim| {
        sim.late_timers(HOUR);
        sim.spawn(Sleeper).nap(HOUR).expect("it starts").wait().expect("it ends");
        assert!((HOUR..=2 * HOUR).contains(&sim.elapsed()), "{:?}", sim.elapsed());
        postroom::test::sometimes!(sim.elapsed() > HOUR, "a timer is late");
        postroom::test::sometimes!(sim.elapsed() == HOUR, "a timer is on time");
    });
    test.expect("never early");
}

/// Catches: a run that continues until its time limit although no process does anything. Without the bound, this run
/// would pass after 10,000 ticks.
#[test]
fn timers_that_fire_without_a_turn_are_a_livelock() {
    let tick = Duration::from_millis(1);
    let body = move |sim: &Sim| {
        let busy = sim.spawn(Sleeper).mailbox(Bound::Hard(1, Overflow::Refuse)).nap(10_000 * tick).expect("it starts");
        busy.address().ring().send_every(tick).expect("there is room for a timer");
        busy
    };
    let waits = Simulation::new("livelock").seeds(2).max_turns(500).check(move |sim| {
        body(&sim).wait().expect("it ends");
    });
    let advances = Simulation::new("livelock").seeds(2).max_turns(500).check(move |sim| {
        body(&sim);
        sim.advance(10_000 * tick);
    });
    for test in [waits, advances] {
        let error = test.expect_err("nothing takes the ticks").to_string();
        assert!(error.contains("livelock: 504 timers fired without a turn of any process (`max_turns`)"), "{error}");
        assert!(error.contains("Sleeper#1: 504"), "{error}");
    }
}

/// Catches: a bound whose count of timers continues across turns, or across actions of the test.
#[test]
fn timers_that_something_comes_of_are_no_livelock() {
    let tick = Duration::from_millis(1);
    Simulation::new("ticks").seeds(2).max_turns(500).run(move |sim| {
        let sleeper = sim.spawn(Sleeper).mailbox(Bound::Hard(1, Overflow::Refuse)).nap(HOUR).expect("it starts");
        sleeper.address().ring().send_every(tick).expect("there is room for a timer");
        (0..4).for_each(|_| sim.advance(400 * tick));
        let dozing = sim.spawn(Sleeper).doze(5, 300 * tick).expect("it starts");
        dozing.wait().expect("it ends");
        let many: Vec<_> =
            (0..2_000).map(|_| sleeper.address().ring().send_after(HOUR).expect("there is room for a timer")).collect();
        many.into_iter().for_each(drop);
        sleeper.pid().kill();
        sim.advance(2 * HOUR);
    });
}

#[test]
fn a_run_has_a_bound_of_time() {
    let test = Simulation::new("long").max_time(HOUR).check(|sim| {
        sim.spawn(Sleeper).nap(2 * HOUR).expect("it starts").wait().expect("it ends");
    });
    let error = test.expect_err("it takes two hours").to_string();
    assert!(error.contains("endless:") && error.contains("`max_time`"), "{error}");
}
