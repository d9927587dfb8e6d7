//! Quiescence of a runtime.

use super::{SECOND, probe, still};
use postroom::prelude::*;
use postroom::test::{Clock, ClockError, IdleError};
use postroom_tests::soon;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A process that decrements a number and passes it on until it is zero.
#[process]
struct Chain {
    next: Option<Address<Chain>>,
    hops: Arc<AtomicU64>,
}

#[process]
impl Chain {
    #[entry]
    fn serve(&mut self) {}
    #[message]
    fn join(&mut self, next: Address<Chain>) {
        self.next = Some(next);
    }
    #[message]
    fn hop(&mut self, left: u64) {
        self.hops.fetch_add(1, Ordering::Relaxed);
        if let Some(next) = self.next.filter(|_| left > 1) {
            let _gone = next.hop(left - 1).send();
        }
    }
}

fn chain(runtimes: &[&Runtime], hops: &Arc<AtomicU64>) -> Vec<Address<Chain>> {
    let links: Vec<_> = (0..8 * runtimes.len())
        .map(|place| runtimes[place % runtimes.len()].spawn(Chain { next: None, hops: hops.clone() }).serve().unwrap())
        .collect();
    for (place, link) in links.iter().enumerate() {
        link.join(links[(place + 1) % links.len()]).send().unwrap();
    }
    links
}

#[test]
fn an_idle_runtime_has_handled_all_that_was_sent_and_all_that_followed() {
    soon(|| {
        for workers in [1, 2, 4] {
            let runtime = Runtime::builder().workers(workers).build().unwrap();
            let hops = Arc::new(AtomicU64::new(0));
            let links = chain(&[&runtime], &hops);
            for round in 1..=2_000_u64 {
                let link = links[round as usize % links.len()];
                link.hop(round % 40 + 1).send().unwrap();
                link.hop(3).send().unwrap();
                runtime.until_idle().unwrap();
                assert_eq!(hops.swap(0, Ordering::Relaxed), round % 40 + 4, "in round {round} with {workers} workers");
            }
        }
    });
}

#[test]
fn runtimes_of_one_clock_are_idle_together() {
    soon(|| {
        let (clock, left) = still(2);
        let right = Runtime::builder().workers(1).clock(clock.clone()).build().unwrap();
        let hops = Arc::new(AtomicU64::new(0));
        let links = chain(&[&left, &right], &hops);
        for round in 1..=1_000_u64 {
            links[round as usize % links.len()].hop(round % 40 + 1).send().unwrap();
            if round % 2 == 0 {
                left.until_idle().unwrap()
            } else {
                clock.advance(SECOND).unwrap()
            };
            assert_eq!(hops.swap(0, Ordering::Relaxed), round % 40 + 1, "in round {round}");
        }
    });
}

/// A process that calls and blocks.
#[process]
struct Asker {
    next: Option<Address<Asker>>,
    answered: Arc<AtomicU64>,
}

#[process]
impl Asker {
    #[entry]
    fn serve(&mut self) {}
    #[message]
    fn ask(&mut self) -> u64 {
        let depth = self.next.map_or(0, |next| next.ask().wait().unwrap());
        self.answered.fetch_add(1, Ordering::Relaxed);
        depth + 1
    }
}

#[test]
fn a_process_that_blocks_for_an_answer_in_flight_is_not_idle() {
    soon(|| {
        let (_clock, runtime) = still(2);
        let answered = Arc::new(AtomicU64::new(0));
        let mut first = None;
        for _ in 0..4 {
            let asker = Asker { next: first, answered: answered.clone() };
            first = Some(runtime.spawn(asker).serve().unwrap());
        }
        for round in 1..=200 {
            first.unwrap().ask().send().unwrap();
            runtime.until_idle().unwrap();
            assert_eq!(answered.swap(0, Ordering::Relaxed), 4, "in round {round}");
        }
    });
}

#[process]
struct Meddler {
    clock: Clock,
    told: Recipient<(Result<(), ClockError>, Result<(), IdleError>)>,
}

#[process]
impl Meddler {
    #[entry]
    fn serve(&mut self) {}
    #[message]
    fn meddle(&mut self, ctx: &mut Context<Self>) {
        let host = ctx.host().unwrap();
        let _gone = self.told.send((self.clock.advance(SECOND), host.until_idle()));
    }
    #[message]
    fn meddle_aside(&mut self, ctx: &mut Context<Self>, of: Arc<Runtime>) {
        let host = ctx.host().unwrap();
        let both = of.block_on(async { (self.clock.advance(SECOND), host.until_idle()) });
        let _gone = self.told.send(both);
    }
}

#[test]
fn waiting_for_idle_inside_a_process_is_refused() {
    soon(|| {
        let (clock, runtime) = still(1);
        let other = Arc::new(Runtime::builder().workers(1).build().unwrap());
        let mut probe = probe(&runtime);
        let inside = (Err(ClockError::Idle(IdleError::Inside)), Err(IdleError::Inside));
        let meddler = runtime.spawn(Meddler { clock: clock.clone(), told: probe.recipient() }).serve().unwrap();
        meddler.meddle().send().unwrap();
        assert_eq!(probe.expect(), inside);
        meddler.meddle_aside(other.clone()).send().unwrap();
        assert_eq!(probe.expect(), inside);
        // A runtime with the system's clock may advance another one's clock.
        let meddler = other.spawn(Meddler { clock: clock.clone(), told: probe.recipient() }).serve().unwrap();
        meddler.meddle().send().unwrap();
        assert_eq!(probe.expect(), (Ok(()), Err(IdleError::Inside)));
    });
}

#[test]
fn a_paused_runtime_and_one_that_was_shut_down_return_errors() {
    soon(|| {
        let (clock, running) = still(1);
        let builder = Runtime::builder().workers(1).name("asleep").clock(clock.clone());
        let paused = builder.paused().build().unwrap();
        let refusal = IdleError::Paused("asleep".into());
        assert_eq!(paused.until_idle(), Err(refusal.clone()));
        assert_eq!(running.until_idle(), Err(refusal.clone()));
        assert_eq!(clock.advance(SECOND), Err(ClockError::Idle(refusal)));
        paused.resume().unwrap();
        paused.until_idle().unwrap();
        clock.advance(SECOND).unwrap();
        let host = paused.host();
        paused.shutdown().unwrap();
        assert_eq!(host.until_idle(), Err(IdleError::Shutdown("asleep".into())));
        clock.advance(SECOND).unwrap();
        running.until_idle().unwrap();
        let system = Runtime::builder().workers(1).name("gone").build().unwrap();
        let host = system.host();
        system.until_idle().unwrap();
        drop(system);
        assert_eq!(host.until_idle(), Err(IdleError::Shutdown("gone".into())));
    });
}
