//! One message that is passed around: ping_pong, pairs, ring.

use std::time::Instant;

use ::actix::prelude::*;

use super::finish::finish;
use super::tally::{Report, Tally};
use super::{Places, in_system, share};
use crate::plan::{Outcome, Plan};

/// One of two players that pass a ball.
struct Player<const N: usize> {
    peer: Option<Addr<Player<N>>>,
    received: u64,
    tally: Addr<Tally>,
}

impl<const N: usize> Actor for Player<N> {
    type Context = Context<Self>;
}

impl<const N: usize> Player<N> {
    fn peer(&self) -> &Addr<Player<N>> {
        self.peer.as_ref().expect("a player should know its peer before the first ball")
    }
}

#[derive(Message)]
#[rtype(result = "()")]
struct Meet<const N: usize>(Addr<Player<N>>);

impl<const N: usize> Handler<Meet<N>> for Player<N> {
    type Result = ();

    fn handle(&mut self, Meet(peer): Meet<N>, _: &mut Context<Self>) {
        self.peer = Some(peer);
    }
}

#[derive(Message)]
#[rtype(result = "()")]
struct Ball<const N: usize> {
    /// Number of passes that are still to be made after this one.
    left: u64,
    load: [u8; N],
}

impl<const N: usize> Handler<Ball<N>> for Player<N> {
    type Result = ();

    fn handle(&mut self, ball: Ball<N>, _: &mut Context<Self>) {
        self.received += 1;
        if ball.left == 0 {
            self.peer().do_send(Over);
            self.tally.do_send(Report(self.received));
        } else {
            self.peer().do_send(Ball { left: ball.left - 1, load: ball.load });
        }
    }
}

#[derive(Message)]
#[rtype(result = "()")]
struct Over;

impl<const N: usize> Handler<Over> for Player<N> {
    type Result = ();

    fn handle(&mut self, _: Over, _: &mut Context<Self>) {
        self.tally.do_send(Report(self.received));
    }
}

/// Starts two players that know each other. Returns the one that gets the first ball.
fn pair<const N: usize>(places: &Places, place: usize, tally: &Addr<Tally>) -> Addr<Player<N>> {
    let left = places.start(place, Player { peer: None, received: 0, tally: tally.clone() });
    let right = places.start(place, Player { peer: Some(left.clone()), received: 0, tally: tally.clone() });
    left.do_send(Meet(right));
    left
}

/// Runs both players on one arbiter, where a pass wakes no thread.
pub fn ping_pong<const N: usize>(plan: &Plan) -> Outcome {
    in_system(plan.workers, async |places| {
        let (finish, finished) = finish();
        let tally = Tally::of(2, finish).start();
        let player = pair(&places, 0, &tally);
        let start = Instant::now();
        player.do_send(Ball { left: plan.size - 1, load: [1; N] });
        finished.outcome(start, plan.size).await
    })
}

/// Runs each pair on one arbiter. The pairs are spread over all arbiters.
pub fn pairs(plan: &Plan) -> Outcome {
    in_system(plan.workers, async |places| {
        let (finish, finished) = finish();
        let tally = Tally::of(2 * plan.width, finish).start();
        let players: Vec<_> = (0..plan.width as usize).map(|place| pair::<0>(&places, place, &tally)).collect();
        let start = Instant::now();
        for (index, player) in (0..).zip(&players) {
            player.do_send(Ball { left: share(plan.size, plan.width, index) - 1, load: [] });
        }
        finished.outcome(start, plan.size).await
    })
}

/// A member of a ring.
struct Hop {
    next: Option<Addr<Hop>>,
    received: u64,
    tally: Addr<Tally>,
}

impl Actor for Hop {
    type Context = Context<Self>;
}

impl Hop {
    fn next(&self) -> &Addr<Hop> {
        self.next.as_ref().expect("the ring should be closed before the first token")
    }
}

#[derive(Message)]
#[rtype(result = "()")]
struct Close(Addr<Hop>);

impl Handler<Close> for Hop {
    type Result = ();

    fn handle(&mut self, Close(next): Close, _: &mut Context<Self>) {
        self.next = Some(next);
    }
}

/// A token, with the number of hops that it still has to make.
#[derive(Message)]
#[rtype(result = "()")]
struct Token(u64);

impl Handler<Token> for Hop {
    type Result = ();

    fn handle(&mut self, Token(left): Token, ctx: &mut Context<Self>) {
        self.received += 1;
        if left == 0 {
            ctx.notify(RingOver);
        } else {
            self.next().do_send(Token(left - 1));
        }
    }
}

/// Goes around the ring once at the end.
#[derive(Message)]
#[rtype(result = "()")]
struct RingOver;

impl Handler<RingOver> for Hop {
    type Result = ();

    fn handle(&mut self, _: RingOver, _: &mut Context<Self>) {
        if let Some(next) = self.next.take() {
            next.do_send(RingOver);
            self.tally.do_send(Report(self.received));
        }
    }
}

/// Runs all members on one arbiter, where a hop wakes no thread.
pub fn ring(plan: &Plan) -> Outcome {
    in_system(plan.workers, async |_| {
        let (finish, finished) = finish();
        let tally = Tally::of(plan.width, finish).start();
        let last = Hop { next: None, received: 0, tally: tally.clone() }.start();
        let first = (1..plan.width)
            .fold(last.clone(), |next, _| Hop { next: Some(next), received: 0, tally: tally.clone() }.start());
        last.do_send(Close(first.clone()));
        let start = Instant::now();
        first.do_send(Token(plan.size - 1));
        finished.outcome(start, plan.size).await
    })
}
