//! Requests that a policy decides on, in order with the messages of their peers.

use super::*;
use postroom::test::sometimes;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A process that handles messages slowly.
#[process]
#[derive(Default)]
struct Slow {
    handled: Arc<AtomicU64>,
    pause: Duration,
}

#[process(remote)]
impl Slow {
    #[entry]
    fn serve(&mut self) {}

    #[message]
    async fn take(&mut self, ctx: &mut Context<Self>, number: u64) {
        assert_eq!(self.handled.fetch_add(1, Ordering::Relaxed), number, "in order");
        ctx.sleep(self.pause).await;
    }
}

/// A process that is asked to stop first handles the messages that its node has received for it, however slow it is.
/// (This once failed: with a policy, the stop overtook messages that were waiting for room in the mailbox.)
#[postroom::test(seeds = 20)]
fn a_stop_that_a_policy_allows_stays_behind_what_was_sent_before_it(sim: Sim) {
    let broker = Broker::simulated(&sim);
    let one = broker.join(builder("a").export::<Slow>());
    let two = broker.join(builder("b").export::<Slow>().allow(|_, _| true));
    broker.settle(&[&one, &two]);
    let (handled, pause) = (Arc::<AtomicU64>::default(), Duration::from_millis(sim.random() % 50));
    let slow = Slow { handled: Arc::clone(&handled), pause };
    let slow = two.host().spawn(slow).mailbox(Bound::Hard(2, Overflow::Refuse)).serve().unwrap();
    broker.faults(Faults { drop: 0.0, ..BAD });
    let count = 1 + sim.random() % 40;
    let ended = slow.pid().join();
    let asks = sim.chance(0.5);
    one.enter(|| (0..count).for_each(|number| slow.take(number).send().unwrap()));
    if asks {
        assert_eq!(one.stop(slow, Duration::from_secs(60)).wait(), Ok(()));
    } else {
        assert!(one.enter(|| slow.pid().stop()));
    }
    assert_eq!(ended.wait(), ExitReason::Normal);
    assert_eq!(handled.load(Ordering::Relaxed), count);
    sometimes!(asks && count > 10, "it is asked, with much before it");
    assert_eq!(two.statistics().late_decisions, 0);
    broker.rest(&[&one, &two]);
}
