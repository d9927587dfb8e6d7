//! A single ball or token that is passed on and on.

use super::finish::Finish;
use super::share;
use super::target::{Target, named};
use crate::plan::{Outcome, Plan};
use postroom::prelude::*;
use std::time::Instant;

/// A process that bounces a ball off its partner. The ball has a payload of `N` bytes.
#[process]
struct Player<const N: usize> {
    partner: Option<Target<Self>>,
    received: u64,
    done: Recipient<()>,
}

#[process]
impl<const N: usize> Player<N> {
    #[entry]
    fn serve(&mut self) {}

    #[message]
    fn meet(&mut self, partner: Target<Player<N>>) {
        self.partner = Some(partner);
    }

    #[message]
    fn ball(&mut self, ctx: &mut Context<Self>, left: u64, payload: [u8; N]) {
        self.received += 1;
        let Some(left) = left.checked_sub(1) else {
            return self.done.send(()).expect("somebody waits");
        };
        match self.partner.as_ref().expect("players have met") {
            Target::Address(partner) => partner.ball(left, payload).send(),
            Target::Pid(partner) => ctx.send(*partner, PlayerBall { left, payload }),
            Target::Name(partner) => ctx.send(named(ctx, partner), PlayerBall { left, payload }),
        }
        .expect("the partner lives");
    }

    #[message]
    fn received(&self) -> u64 {
        self.received
    }
}

pub fn ping_pong(runtime: &Runtime, plan: &Plan) -> Option<Outcome> {
    match plan.payload {
        0 => Some(play::<0>(runtime, plan, 1)),
        32 => Some(play::<32>(runtime, plan, 1)),
        256 => Some(play::<256>(runtime, plan, 1)),
        512 => Some(play::<512>(runtime, plan, 1)),
        4_096 => Some(play::<4_096>(runtime, plan, 1)),
        _ => None,
    }
}

pub fn pairs(runtime: &Runtime, plan: &Plan) -> Outcome {
    play::<0>(runtime, plan, plan.width)
}

fn play<const N: usize>(runtime: &Runtime, plan: &Plan, pairs: u64) -> Outcome {
    // A plan by name has only one pair.
    const NAMES: [&str; 2] = ["one", "other"];
    let mut finish = Finish::new();
    let spawn = |name| {
        let player = Player::<N> { partner: None, received: 0, done: finish.recipient() };
        let spawn = runtime.spawn(player);
        if pairs == 1 { spawn.named(name).serve() } else { spawn.serve() }.expect("a player")
    };
    let players: Vec<_> = (0..pairs).map(|_| NAMES.map(spawn)).collect();
    for [one, other] in &players {
        one.meet(Target::new(plan.via, *other, NAMES[1])).wait().expect("a living player");
        other.meet(Target::new(plan.via, *one, NAMES[0])).wait().expect("a living player");
    }
    let start = Instant::now();
    for ([one, _], pair) in players.iter().zip(0..) {
        one.ball(share(plan.size, pairs, pair) - 1, [1; N]).send().expect("a living player");
    }
    for _ in &players {
        finish.wait();
    }
    let elapsed = start.elapsed();
    let received = players.iter().flatten().map(|player| player.received().wait().expect("a living player"));
    Outcome { elapsed, operations: plan.size, check: received.sum(), ..Outcome::default() }
}

/// A process that hands a token on to the next one in the ring.
#[process]
struct Link {
    next: Option<Address<Link>>,
    received: u64,
    done: Recipient<()>,
}

#[process]
impl Link {
    #[entry]
    fn serve(&mut self) {}

    #[message]
    fn close(&mut self, next: Address<Link>) {
        self.next = Some(next);
    }

    #[message]
    fn token(&mut self, left: u64) {
        self.received += 1;
        let Some(left) = left.checked_sub(1) else {
            return self.done.send(()).expect("somebody waits");
        };
        self.next.expect("the ring is closed").token(left).send().expect("the next one lives");
    }

    #[message]
    fn received(&self) -> u64 {
        self.received
    }
}

pub fn ring(runtime: &Runtime, plan: &Plan) -> Outcome {
    let mut finish = Finish::new();
    let mut links: Vec<Address<Link>> = Vec::new();
    for _ in 0..plan.width {
        let link = Link { next: links.last().copied(), received: 0, done: finish.recipient() };
        links.push(runtime.spawn(link).serve().expect("a link"));
    }
    let last = links[links.len() - 1];
    links[0].close(last).wait().expect("a living link");
    let start = Instant::now();
    last.token(plan.size - 1).send().expect("a living link");
    finish.wait();
    let elapsed = start.elapsed();
    let received = links.iter().map(|link| link.received().wait().expect("a living link"));
    Outcome { elapsed, operations: plan.size, check: received.sum(), ..Outcome::default() }
}
