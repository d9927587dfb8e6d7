//! Savina's *big*: each process keeps a ping in flight to a random other one.

use std::sync::Arc;
use std::time::Instant;

use ::actix::prelude::*;

use super::finish::finish;
use super::tally::{Report, Tally};
use super::{Begin, Peers, in_system, nobody, share};
use crate::kernel::Random;
use crate::plan::{Outcome, Plan};

struct Member {
    index: usize,
    peers: Peers<Member>,
    random: Random,
    /// Number of pings that are still to be sent.
    left: u64,
    received: u64,
    crowd: Addr<Crowd>,
    tally: Addr<Tally>,
}

impl Actor for Member {
    type Context = Context<Self>;
}

impl Member {
    fn ping(&mut self) {
        if self.left == 0 {
            return self.crowd.do_send(Ready);
        }
        self.left -= 1;
        let other = self.random.below(self.peers.len() as u64 - 1) as usize;
        let other = if other < self.index { other } else { other + 1 };
        self.peers[other].do_send(Ping(self.index));
    }
}

#[derive(Message)]
#[rtype(result = "()")]
struct Meet(Peers<Member>);

impl Handler<Meet> for Member {
    type Result = ();

    fn handle(&mut self, Meet(peers): Meet, _: &mut Context<Self>) {
        self.peers = peers;
    }
}

impl Handler<Begin> for Member {
    type Result = ();

    fn handle(&mut self, _: Begin, _: &mut Context<Self>) {
        self.ping();
    }
}

/// A ping, with the number of its sender.
#[derive(Message)]
#[rtype(result = "()")]
struct Ping(usize);

impl Handler<Ping> for Member {
    type Result = ();

    fn handle(&mut self, Ping(from): Ping, _: &mut Context<Self>) {
        self.received += 1;
        self.peers[from].do_send(Pong);
    }
}

#[derive(Message)]
#[rtype(result = "()")]
struct Pong;

impl Handler<Pong> for Member {
    type Result = ();

    fn handle(&mut self, _: Pong, _: &mut Context<Self>) {
        self.received += 1;
        self.ping();
    }
}

#[derive(Message)]
#[rtype(result = "()")]
struct Over;

impl Handler<Over> for Member {
    type Result = ();

    fn handle(&mut self, _: Over, _: &mut Context<Self>) {
        self.tally.do_send(Report(self.received));
    }
}

/// An actor that waits until all members have received their last pong. Until then, another ping may arrive at any of
/// them.
struct Crowd {
    members: Peers<Member>,
    ready: usize,
}

impl Actor for Crowd {
    type Context = Context<Self>;
}

impl Handler<Meet> for Crowd {
    type Result = ();

    fn handle(&mut self, Meet(members): Meet, _: &mut Context<Self>) {
        self.members = members;
    }
}

#[derive(Message)]
#[rtype(result = "()")]
struct Ready;

impl Handler<Ready> for Crowd {
    type Result = ();

    fn handle(&mut self, _: Ready, _: &mut Context<Self>) {
        self.ready += 1;
        if self.ready == self.members.len() {
            for member in self.members.iter() {
                member.do_send(Over);
            }
        }
    }
}

/// Runs all actors on one arbiter. An answer from another arbiter would cost more than a second thread gains.
pub fn big(plan: &Plan) -> Outcome {
    in_system(plan.workers, async |_| {
        let (finish, finished) = finish();
        let tally = Tally::of(plan.width, finish).start();
        let crowd = Crowd { members: nobody(), ready: 0 }.start();
        let members: Peers<Member> = (0..plan.width)
            .map(|index| {
                let member = Member {
                    index: index as usize,
                    peers: nobody(),
                    random: Random::seeded(index),
                    left: share(plan.size / 2, plan.width, index),
                    received: 0,
                    crowd: crowd.clone(),
                    tally: tally.clone(),
                };
                member.start()
            })
            .collect();
        crowd.do_send(Meet(Arc::clone(&members)));
        for member in members.iter() {
            member.do_send(Meet(Arc::clone(&members)));
        }
        let start = Instant::now();
        for member in members.iter() {
            member.do_send(Begin);
        }
        finished.outcome(start, plan.size).await
    })
}
