//! A ball between two processes, balls between many pairs, and a token in a ring.

use std::time::Instant;

use ::kameo::prelude::*;

use super::stage::{Collector, Count, Report, counted, run, share, spawn, tell};
use crate::plan::{Outcome, Plan};

/// A ball to be passed `left` more times, with ballast.
struct Ball<const N: usize> {
    left: u64,
    ballast: [u8; N],
}

/// Tells a player to which one it must pass.
struct Meet<const N: usize>(ActorRef<Player<N>>);

#[derive(Actor)]
struct Player<const N: usize> {
    next: Option<ActorRef<Player<N>>>,
    passed: u64,
    collector: ActorRef<Collector>,
}

impl<const N: usize> Message<Meet<N>> for Player<N> {
    type Reply = ();

    async fn handle(&mut self, Meet(next): Meet<N>, _: &mut Context<Self, ()>) {
        self.next = Some(next);
    }
}

impl<const N: usize> Message<Ball<N>> for Player<N> {
    type Reply = ();

    async fn handle(&mut self, Ball { left, ballast }: Ball<N>, _: &mut Context<Self, ()>) {
        self.passed += 1;
        if left > 0 {
            let next = self.next.as_ref().expect("a player has met the next one");
            tell(next, Ball { left: left - 1, ballast }).await;
        } else {
            tell(&self.collector, Report(0)).await;
        }
    }
}

impl<const N: usize> Message<Count> for Player<N> {
    type Reply = u64;

    async fn handle(&mut self, Count: Count, _: &mut Context<Self, u64>) -> u64 {
        self.passed
    }
}

/// Plays in `rings` rings of `players` players each. There is one ball per ring, and `size` is the total number of
/// passes.
async fn play<const N: usize>(plan: &Plan, rings: u64, players: u64) -> Outcome {
    let (collector, ended) = Collector::spawn_for(rings);
    let mut all = Vec::new();
    for _ in 0..rings {
        let first = all.len();
        for _ in 0..players {
            all.push(spawn(plan.bound, Player { next: None, passed: 0, collector: collector.clone() }));
        }
        for (index, player) in all[first..].iter().enumerate() {
            let next = all[first + (index + 1) % players as usize].clone();
            player.ask(Meet(next)).send().await.expect("a player meets the next one");
        }
    }
    let start = Instant::now();
    for (ring, serves) in all.iter().step_by(players as usize).enumerate() {
        let passes = share(plan.size, rings, ring as u64);
        assert!(passes > 0, "a ball is passed at least once");
        tell(serves, Ball { left: passes - 1, ballast: [0; N] }).await;
    }
    let end = ended.await.expect("all balls come to rest");
    Outcome { check: counted(&all).await, ..end.outcome(start, plan.size) }
}

pub fn ping_pong(plan: &Plan) -> Option<Outcome> {
    match plan.payload {
        0 => Some(run(plan, play::<0>(plan, 1, 2))),
        32 => Some(run(plan, play::<32>(plan, 1, 2))),
        256 => Some(run(plan, play::<256>(plan, 1, 2))),
        512 => Some(run(plan, play::<512>(plan, 1, 2))),
        4096 => Some(run(plan, play::<4096>(plan, 1, 2))),
        _ => None,
    }
}

pub fn pairs(plan: &Plan) -> Outcome {
    run(plan, play::<0>(plan, plan.width, 2))
}

pub fn ring(plan: &Plan) -> Outcome {
    run(plan, play::<0>(plan, 1, plan.width))
}
