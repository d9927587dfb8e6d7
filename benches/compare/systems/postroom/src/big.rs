//! Savina's *big*: all processes send to each other.

use super::finish::Finish;
use super::share;
use crate::kernel::Random;
use crate::plan::{Outcome, Plan};
use postroom::prelude::*;
use std::sync::Arc;
use std::time::Instant;

/// A process that keeps one ping in flight to a random other one.
#[process]
struct Peer {
    index: u64,
    random: Random,
    others: Arc<[Address<Peer>]>,
    left: u64,
    received: u64,
    done: Recipient<()>,
}

#[process]
impl Peer {
    #[entry]
    fn serve(&mut self) {}

    #[message]
    fn meet(&mut self, others: Arc<[Address<Peer>]>) {
        self.others = others;
    }

    #[message]
    fn begin(&mut self, ctx: &mut Context<Self>) {
        self.next(ctx);
    }

    #[message]
    fn ping(&mut self, from: Address<Peer>) {
        self.received += 1;
        from.pong().send().expect("the peer lives");
    }

    #[message]
    fn pong(&mut self, ctx: &mut Context<Self>) {
        self.received += 1;
        self.next(ctx);
    }

    #[message]
    fn received(&self) -> u64 {
        self.received
    }

    fn next(&mut self, ctx: &mut Context<Self>) {
        if self.left == 0 {
            return self.done.send(()).expect("somebody waits");
        }
        self.left -= 1;
        let other = self.random.below(self.others.len() as u64 - 1);
        let other = if other < self.index { other } else { other + 1 };
        self.others[other as usize].ping(ctx.address()).send().expect("the peer lives");
    }
}

pub fn big(runtime: &Runtime, plan: &Plan) -> Outcome {
    let mut finish = Finish::new();
    let peers: Arc<[_]> = (0..plan.width)
        .map(|index| {
            let peer = Peer {
                index,
                random: Random::seeded(index),
                others: Arc::default(),
                left: share(plan.size / 2, plan.width, index),
                received: 0,
                done: finish.recipient(),
            };
            runtime.spawn(peer).serve().expect("a peer")
        })
        .collect();
    for peer in &*peers {
        peer.meet(peers.clone()).wait().expect("a living peer");
    }
    let start = Instant::now();
    for peer in &*peers {
        peer.begin().send().expect("a living peer");
    }
    for _ in &*peers {
        finish.wait();
    }
    let elapsed = start.elapsed();
    let received: u64 = peers.iter().map(|peer| peer.received().wait().expect("a living peer")).sum();
    Outcome { elapsed, operations: plan.size / 2 * 2, check: received, ..Outcome::default() }
}
