//! Creatures that meet at a mall and change their colours.

use std::sync::Arc;
use std::time::Instant;

use ::actix::prelude::*;

use super::super::finish::finish;
use super::super::tally::{Report, Tally};
use super::super::{Begin, Peers, in_system, nobody};
use crate::kernel::Colour;
use crate::plan::{Outcome, Plan};

#[derive(Message)]
#[rtype(result = "()")]
struct Know(Peers<Creature>);

/// A creature that wants to meet another one. From the mall, the creature that the receiver is to meet.
#[derive(Message)]
#[rtype(result = "()")]
struct Meet {
    creature: usize,
    colour: Colour,
}

#[derive(Message)]
#[rtype(result = "()")]
struct Change(Colour);

#[derive(Message)]
#[rtype(result = "()")]
struct Closed;

struct Mall {
    creatures: Peers<Creature>,
    left: u64,
    waiting: Option<usize>,
}

impl Actor for Mall {
    type Context = Context<Self>;
}

impl Handler<Know> for Mall {
    type Result = ();

    fn handle(&mut self, Know(creatures): Know, _: &mut Context<Self>) {
        self.creatures = creatures;
    }
}

impl Handler<Meet> for Mall {
    type Result = ();

    fn handle(&mut self, meet: Meet, _: &mut Context<Self>) {
        if self.left == 0 {
            self.creatures[meet.creature].do_send(Closed);
        } else if let Some(waiting) = self.waiting.take() {
            self.left -= 1;
            self.creatures[waiting].do_send(meet);
        } else {
            self.waiting = Some(meet.creature);
        }
    }
}

struct Creature {
    index: usize,
    colour: Colour,
    meetings: u64,
    peers: Peers<Creature>,
    mall: Addr<Mall>,
    tally: Addr<Tally>,
}

impl Actor for Creature {
    type Context = Context<Self>;
}

impl Creature {
    fn go_to_mall(&self) {
        self.mall.do_send(Meet { creature: self.index, colour: self.colour });
    }
}

impl Handler<Know> for Creature {
    type Result = ();

    fn handle(&mut self, Know(peers): Know, _: &mut Context<Self>) {
        self.peers = peers;
    }
}

impl Handler<Begin> for Creature {
    type Result = ();

    fn handle(&mut self, _: Begin, _: &mut Context<Self>) {
        self.go_to_mall();
    }
}

impl Handler<Meet> for Creature {
    type Result = ();

    fn handle(&mut self, meet: Meet, _: &mut Context<Self>) {
        self.colour = self.colour.complement(meet.colour);
        self.meetings += 1;
        self.peers[meet.creature].do_send(Change(self.colour));
        self.go_to_mall();
    }
}

impl Handler<Change> for Creature {
    type Result = ();

    fn handle(&mut self, Change(colour): Change, _: &mut Context<Self>) {
        self.colour = colour;
        self.meetings += 1;
        self.go_to_mall();
    }
}

impl Handler<Closed> for Creature {
    type Result = ();

    fn handle(&mut self, _: Closed, _: &mut Context<Self>) {
        self.tally.do_send(Report(self.meetings));
    }
}

/// Runs all actors on one arbiter. Every meeting goes through the mall, so a second thread would only be woken and wait
/// again.
pub fn chameneos(plan: &Plan) -> Outcome {
    in_system(plan.workers, async |_| {
        let (finish, finished) = finish();
        let tally = Tally::of(plan.width, finish).start();
        let mall = Mall { creatures: nobody(), left: plan.size, waiting: None }.start();
        let creatures: Peers<Creature> = (0..plan.width as usize)
            .map(|index| {
                let colour = Colour::ALL[index % 3];
                let (mall, tally) = (mall.clone(), tally.clone());
                Creature { index, colour, meetings: 0, peers: nobody(), mall, tally }.start()
            })
            .collect();
        mall.do_send(Know(Arc::clone(&creatures)));
        for creature in creatures.iter() {
            creature.do_send(Know(Arc::clone(&creatures)));
        }
        let start = Instant::now();
        for creature in creatures.iter() {
            creature.do_send(Begin);
        }
        finished.outcome(start, plan.size).await
    })
}
