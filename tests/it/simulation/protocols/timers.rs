//! Timers, deadlines and repetitions among processes that end.

use postroom::prelude::*;
use postroom::test::{Simulation, sometimes};
use std::time::Duration;

const SECOND: Duration = Duration::from_secs(1);

#[process]
#[derive(Default)]
struct Ticker {
    ticks: Vec<Duration>,
    began: Option<std::time::Instant>,
}

#[process]
impl Ticker {
    #[entry]
    fn serve(&mut self, ctx: &mut Context<Self>) {
        self.began = Some(ctx.now());
    }
    #[message]
    #[derive(Clone)]
    fn tick(&mut self, ctx: &mut Context<Self>) {
        self.ticks.extend(self.began.map(|began| ctx.now() - began));
    }
    #[message]
    fn ticks(&mut self) -> Vec<Duration> {
        self.ticks.clone()
    }
    /// Answers after the given time.
    #[message]
    async fn echo(&mut self, ctx: &mut Context<Self>, after: Duration) {
        ctx.sleep(after).await;
    }
}

#[test]
fn a_repetition_is_on_time_until_it_is_cancelled() {
    let test = Simulation::new("simulation::protocols::timers::a_repetition_is_on_time_until_it_is_cancelled");
    test.seeds(60).max_turns(20_000).run(|sim| {
        let ticker = sim.spawn(Ticker::default()).serve().expect("it starts");
        let period = SECOND * (1 + sim.random() as u32 % 3);
        let timer = ticker.tick().send_every(period).expect("there is room for a timer");
        let once = ticker.tick().send_after(period * 7).expect("there is room for a timer");
        sim.advance(period * 5);
        assert!(timer.cancel() && once.cancel());
        sim.advance(period * 5);
        let expected: Vec<_> = (1..=5).map(|number| period * number).collect();
        assert_eq!(ticker.ticks().wait().expect("it lives"), expected);
        assert_eq!(sim.statistics().timers, 0);
    });
}

#[process]
struct Caller {
    ticker: Address<Ticker>,
}

#[process]
impl Caller {
    #[entry]
    async fn call(&mut self, ctx: &mut Context<Self>, after: Duration, within: Duration) -> (bool, Duration) {
        let began = ctx.now();
        let answer = self.ticker.echo(after).timeout(within).await;
        (answer.is_ok(), ctx.now() - began)
    }
}

/// Each call ends with its answer or at its deadline, whichever comes first, and a late call is not handled.
#[test]
fn calls_end_at_their_deadlines() {
    let test = Simulation::new("simulation::protocols::timers::calls_end_at_their_deadlines");
    test.seeds(100).max_turns(20_000).run(|sim| {
        let tickers = [(); 3].map(|()| sim.spawn(Ticker::default()).serve().expect("it starts"));
        let calls = tickers.map(|ticker| {
            let (after, within) = (SECOND * (sim.random() as u32 % 5), SECOND * (1 + sim.random() as u32 % 5));
            let caller = sim.spawn(Caller { ticker });
            (caller.call(after, within).expect("it starts"), after, within)
        });
        for (call, after, within) in calls {
            let (is_answered, took) = call.wait().expect("it ends");
            assert_eq!(took, after.min(within));
            assert!(is_answered == (after < within) || after == within);
            sometimes!(is_answered, "it is answered");
            sometimes!(!is_answered, "it is not");
        }
        sim.advance(SECOND * 9);
        assert_eq!(sim.statistics().timers, 0, "what is over has no timer");
    });
}

/// The timers of a process end with it.
#[test]
fn the_dead_have_no_timers() {
    let test = Simulation::new("simulation::protocols::timers::the_dead_have_no_timers");
    test.seeds(60).max_turns(20_000).run(|sim| {
        let ticker = sim.spawn(Ticker::default()).serve().expect("it starts");
        let caller = sim.spawn(Caller { ticker }).call(SECOND * 100, SECOND * 200).expect("it starts");
        ticker.tick().send_every(SECOND).expect("there is room for a timer");
        sim.advance(SECOND * (sim.random() as u32 % 3));
        caller.pid().kill();
        ticker.pid().kill();
        sim.advance(SECOND * 2);
        assert_eq!(sim.statistics().timers, 0);
    });
}
