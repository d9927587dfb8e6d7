//! Whole nodes under seeded schedules and faults: what a cluster promises, as properties. Each runs with some seeds
//! here, and with a thousand at night.
//!
//! Which broken line each test was seen to find is in `tests/faults/list`, under "Cluster".

mod delivery;
mod ends;
mod life;
mod names;
mod reproducible;
mod scale;

use super::checks::{Ledger, Once};
use super::{Faults, SimulatedBroker, SimulatedNode, Trouble};
use crate::frame::Epoch;
use crate::memory::Broker;
use crate::{Builder, Cluster};
use postroom::prelude::*;
use postroom::test::Sim;
use std::time::Duration;

/// Sender and receiver.
type Pair = (u32, u32);
type Notes = Ledger<Pair, Epoch>;

/// Takes numbers, and notes them.
#[process]
#[derive(Default)]
struct Sink {
    own: u32,
    ledger: Notes,
}

#[process(remote)]
impl Sink {
    #[entry]
    fn serve(&mut self) {}

    #[message]
    fn take(&mut self, from: u32, number: u64) {
        self.ledger.handled((from, self.own), number);
    }

    #[message]
    fn double(&mut self, number: u64) -> u64 {
        2 * number
    }

    #[message]
    fn fail(&mut self) {
        panic!("as it was told");
    }
}

/// Tells which session its node has with the sink's.
type InSession = Box<dyn Fn() -> Option<Epoch> + Send>;

/// Sends numbers to a sink, and notes those that are accepted.
#[process]
struct Source {
    pair: Pair,
    to: Address<Sink>,
    ledger: Notes,
    session: InSession,
}

#[process]
impl Source {
    /// Sends some numbers, one each time `pause` has passed.
    #[entry]
    async fn send(&mut self, ctx: &mut Context<Self>, numbers: std::ops::Range<u64>, pause: Duration) {
        for number in numbers {
            if self.to.take(self.pair.0, number).send().is_ok() {
                self.ledger.accepted(self.pair, (self.session)(), number);
            }
            ctx.sleep(pause).await;
        }
    }
}

/// Calls a sink, and notes how its calls end.
#[process]
struct Caller {
    own: u32,
    to: Address<Sink>,
    ends: Once<(u32, u64)>,
}

#[process]
impl Caller {
    #[entry]
    async fn call(&mut self, ctx: &mut Context<Self>, numbers: std::ops::Range<u64>, pause: Duration) {
        for number in numbers {
            self.ends.expect((self.own, number));
            let answer = self.to.double(number).timeout(Duration::from_secs(3_600)).await;
            self.ends.happened((self.own, number));
            match answer {
                Ok(double) => assert_eq!(double, 2 * number),
                Err(CallError::Died(_) | CallError::Gone(_) | CallError::Full | CallError::NotRemote) => {}
                Err(other) => panic!("a call to another node has ended with {other}"),
            }
            ctx.sleep(pause).await;
        }
    }
}

fn builder(name: &str) -> Builder {
    Cluster::builder("bank").node(name).export::<Sink>()
}

/// Three nodes that know each other.
fn three(sim: &Sim) -> (SimulatedBroker, [SimulatedNode; 3]) {
    let broker = Broker::simulated(sim);
    let nodes = ["a", "b", "c"].map(|name| broker.join(builder(name)));
    broker.settle(&nodes.each_ref());
    (broker, nodes)
}

/// A bad network.
const BAD: Faults = Faults { drop: 0.02, duplicate: 0.02, reorder: 0.05, delay: Duration::from_millis(50) };

/// Some seconds with troubles among these nodes, after which all is well again.
fn troubles(sim: &Sim, broker: &SimulatedBroker, nodes: &[&SimulatedNode], kinds: &[Trouble], rounds: u32) {
    broker.faults(BAD);
    for _ in 0..rounds {
        broker.trouble(nodes, kinds);
        sim.advance(Duration::from_millis(sim.random() % 12_000));
        broker.heal();
        sim.advance(Duration::from_millis(sim.random() % 6_000));
    }
    broker.heal();
    broker.settle(nodes);
}
