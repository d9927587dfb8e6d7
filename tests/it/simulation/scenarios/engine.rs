//! Bounds of mailboxes: senders that wait for room, and receivers that end while they do.

use super::*;
use crate::engine::bounds::{Sink, Source};
use postroom::error::SendFailure;
use postroom::test::sometimes;
use postroom::{Bound, Overflow};
use postroom_tests::face::Log;
use std::sync::mpsc::channel;

/// A process that records numbers, and pauses before each.
#[process]
struct Keeper(Log<(u64, u64)>);

#[process]
impl Keeper {
    #[entry]
    fn serve(&mut self) {}

    #[message]
    #[derive(Clone)]
    async fn keep(&mut self, sender: u64, number: u64) {
        pause().await;
        self.0.add((sender, number));
    }
}

/// Returns the recorded numbers of one sender.
fn kept_of(kept: &Log<(u64, u64)>, sender: u64) -> Vec<u64> {
    kept.all().into_iter().filter(|(by, _)| *by == sender).map(|(_, number)| number).collect()
}

/// All senders that wait for room get in, each in its order, and the mailbox never exceeds its bound.
#[postroom::test(seeds = 200)]
fn those_that_wait_for_room_get_in_in_their_order(sim: Sim) {
    let kept = Log::new();
    let keeper = sim.spawn(Keeper(kept.clone())).mailbox(Bound::Hard(1, Overflow::Wait)).serve().unwrap();
    let senders: Vec<_> = (0..3)
        .map(|sender| {
            race(&sim, async move {
                let mut most = 0;
                for number in 0..3 {
                    keeper.keep(sender, number).send_async().await.unwrap();
                    most = most.max(keeper.pid().info().map_or(0, |info| info.mailbox));
                }
                most
            })
        })
        .collect();
    let most = all(senders);
    sim.until_idle().unwrap();
    sometimes!(most.contains(&1), "it is full");
    assert!(most.iter().all(|most| *most <= 1), "{most:?}");
    assert!((0..3).all(|sender| kept_of(&kept, sender) == [0, 1, 2]), "{:?}", kept.all());
    assert_eq!(sim.statistics().backpressure.suspended, 0);
}

/// Senders get an error if they wait for room when the receiver ends, or if they time out just as there is room. Every
/// message that got in is accounted for.
#[postroom::test(seeds = 200)]
fn those_that_wait_for_room_hear_of_the_end(sim: Sim) {
    let kept = Log::new();
    let keeper = sim.spawn(Keeper(kept.clone())).mailbox(Bound::Hard(1, Overflow::Wait)).serve().unwrap();
    sim.slow::<Keeper>(0.5, 2 * SOON);
    let senders: Vec<_> = (0..3)
        .map(|sender| {
            race(&sim, async move {
                let mut outcomes = Vec::new();
                for number in 0..2 {
                    outcomes.push(
                        keeper.keep(sender, number).timeout(SOON).send_async().await.map_err(|error| error.reason),
                    );
                }
                outcomes
            })
        })
        .collect();
    let way = sim.random();
    let ender = race(&sim, async move {
        pause().await;
        pause().await;
        end(keeper.pid(), way);
    });
    let (outcomes, ()) = (all(senders).concat(), ender.wait().unwrap());
    sim.advance(4 * SOON);
    let sent = outcomes.iter().filter(|outcome| outcome.is_ok()).count() as u64;
    for outcome in outcomes {
        match outcome {
            Ok(()) => {}
            Err(SendFailure::Gone(_)) => sometimes!(true, "one hears of the end"),
            Err(SendFailure::Full(_)) => sometimes!(true, "one gives up"),
            Err(other) => panic!("{other:?}"),
        }
    }
    let statistics = sim.statistics();
    // A message whose async method was cut short is in neither of the two counts.
    let known = kept.len() as u64 + statistics.dead_letters.total();
    assert!((known..=known + 1).contains(&sent), "{sent} sent, {known} known");
    assert_eq!((statistics.backpressure.suspended, statistics.timers), (0, 0));
}

/// When there is no room, the oldest message is dropped, and counted.
#[postroom::test(seeds = 200)]
fn what_drops_the_oldest_keeps_the_order_and_counts_the_rest(sim: Sim) {
    let kept = Log::new();
    let keeper = sim.spawn(Keeper(kept.clone())).mailbox(Bound::Hard(2, Overflow::DropOldest)).serve().unwrap();
    let senders: Vec<_> = (0..2)
        .map(|sender| {
            race(&sim, async move {
                for number in 0..4 {
                    keeper.keep(sender, number).send().unwrap();
                    pause().await;
                }
            })
        })
        .collect();
    all(senders);
    sim.until_idle().unwrap();
    let dropped = sim.statistics().dead_letters.overflow;
    sometimes!(dropped == 0, "there is always room");
    sometimes!(dropped > 2, "several are dropped");
    assert_eq!(kept.len() as u64 + dropped, 8);
    assert!((0..2).all(|sender| kept_of(&kept, sender).is_sorted()), "{:?}", kept.all());
    assert!(kept.all().iter().any(|(_, number)| *number == 3), "the last one stays");
}

/// Senders that exceed a soft bound are suspended and resumed. The bound is checked with every 128th message.
#[postroom::test(seeds = 200)]
fn senders_beyond_a_soft_bound_are_suspended_and_go_on(sim: Sim) {
    let (done, _all) = channel();
    let sink = Sink { next: vec![0; 2], left: 600, gate: None, done };
    let sink = sim.spawn(sink).mailbox(Bound::Soft(100)).serve().unwrap();
    let sources: Vec<_> = (0..2)
        .map(|index| Source { index, sink, next: 0, until: 300, a_step: 150 })
        .map(|source| sim.spawn(source).serve().unwrap())
        .collect();
    sources.iter().for_each(|source| source.go().send().unwrap());
    let victim = sources[1];
    let kills = sim.random().is_multiple_of(2);
    let killer = race(&sim, async move {
        pause().await;
        if kills {
            victim.pid().kill();
        }
    });
    killer.wait().unwrap();
    sim.until_idle().unwrap();
    let statistics = sim.statistics();
    sometimes!(statistics.backpressure.suspensions > 0, "one is suspended");
    sometimes!(kills && !victim.pid().is_alive() && sink.taken().wait().unwrap() < 600, "one is killed meanwhile");
    assert_eq!((statistics.backpressure.suspended, statistics.backpressure.forced_releases), (0, 0));
    assert!((300..=600).contains(&sink.taken().wait().unwrap()));
    assert_eq!(sources[0].sent().wait(), Ok(300));
}

/// A receiver that calls one of its senders, which is suspended at the receiver's own mailbox. The call is answered.
#[process]
struct Master {
    worker: Address<Servant>,
    seen: u64,
}

#[process]
impl Master {
    #[entry]
    fn serve(&mut self) {}

    #[message]
    async fn result(&mut self) {
        self.seen += 1;
        if self.seen.is_multiple_of(50) {
            self.worker.ask().timeout(LONG).await.unwrap();
        }
    }

    #[message]
    fn seen(&self) -> u64 {
        self.seen
    }
}

#[process]
struct Servant;

#[process]
impl Servant {
    #[entry]
    fn serve(&mut self) {}

    #[message]
    fn work(&mut self, master: Address<Master>) {
        (0..150).for_each(|_| master.result().send().unwrap());
    }

    #[message]
    fn ask(&self) {}
}

#[postroom::test(seeds = 200)]
fn a_receiver_that_calls_the_one_it_holds_is_answered(sim: Sim) {
    let worker = sim.spawn(Servant).serve().unwrap();
    let master = sim.spawn(Master { worker, seen: 0 }).mailbox(Bound::Soft(100)).serve().unwrap();
    (0..2).for_each(|_| worker.work(master).send().unwrap());
    sim.until_idle().unwrap();
    let statistics = sim.statistics();
    sometimes!(statistics.backpressure.suspensions > 0, "it is suspended");
    assert_eq!((master.seen().wait(), statistics.backpressure.suspended), (Ok(300), 0));
}
