//! Many processes that ping each other at random.

use std::sync::Arc;
use std::time::Instant;

use ::kameo::prelude::*;

use super::stage::{Begin, Collector, Count, Report, counted, run, share, spawn, tell};
use crate::kernel::Random;
use crate::plan::{Outcome, Plan};

#[derive(Actor)]
struct Peer {
    number: u64,
    pings_left: u64,
    received: u64,
    random: Random,
    all: Arc<[ActorRef<Peer>]>,
    collector: ActorRef<Collector>,
}

impl Peer {
    /// Sends the next ping, or reports that none is left.
    async fn ping(&mut self) {
        if self.pings_left == 0 {
            tell(&self.collector, Report(0)).await;
            return;
        }
        self.pings_left -= 1;
        let drawn = self.random.below(self.all.len() as u64 - 1);
        let other = drawn + u64::from(drawn >= self.number);
        tell(&self.all[other as usize], Ping { from: self.number }).await;
    }
}

/// The addresses of all actors.
struct Everybody(Arc<[ActorRef<Peer>]>);

impl Message<Everybody> for Peer {
    type Reply = ();

    async fn handle(&mut self, Everybody(all): Everybody, _: &mut Context<Self, ()>) {
        self.all = all;
    }
}

impl Message<Begin> for Peer {
    type Reply = ();

    async fn handle(&mut self, Begin: Begin, _: &mut Context<Self, ()>) {
        self.ping().await;
    }
}

struct Ping {
    from: u64,
}

impl Message<Ping> for Peer {
    type Reply = ();

    async fn handle(&mut self, Ping { from }: Ping, _: &mut Context<Self, ()>) {
        self.received += 1;
        tell(&self.all[from as usize], Pong).await;
    }
}

struct Pong;

impl Message<Pong> for Peer {
    type Reply = ();

    async fn handle(&mut self, Pong: Pong, _: &mut Context<Self, ()>) {
        self.received += 1;
        self.ping().await;
    }
}

impl Message<Count> for Peer {
    type Reply = u64;

    async fn handle(&mut self, Count: Count, _: &mut Context<Self, u64>) -> u64 {
        self.received
    }
}

/// Half of the `size` messages are pings.
pub fn big(plan: &Plan) -> Outcome {
    run(plan, async {
        let (collector, ended) = Collector::spawn_for(plan.width);
        let peer = |number| Peer {
            number,
            pings_left: share(plan.size / 2, plan.width, number),
            received: 0,
            random: Random::seeded(number),
            all: Arc::new([]),
            collector: collector.clone(),
        };
        let all: Arc<[_]> = (0..plan.width).map(|number| spawn(plan.bound, peer(number))).collect();
        for peer in all.iter() {
            peer.ask(Everybody(all.clone())).send().await.expect("a peer answers");
        }
        let start = Instant::now();
        for peer in all.iter() {
            tell(peer, Begin).await;
        }
        let end = ended.await.expect("all pings are answered");
        let received = counted(&all).await;
        Outcome { check: received, ..end.outcome(start, received) }
    })
}
