//! Savina's chameneos and philosophers: many processes that ask a single one.

use std::time::Instant;

use ::kameo::prelude::*;

use super::stage::{Begin, Collector, Report, run, share, spawn, tell};
use crate::kernel::Colour;
use crate::plan::{Outcome, Plan};

/// A creature at the mall. From the mall, the creature that the receiver is to meet.
struct Visit {
    colour: Colour,
    creature: ActorRef<Creature>,
}

/// An actor that brings together two creatures at a time.
#[derive(Actor)]
struct Mall {
    meetings_left: u64,
    waiting: Option<ActorRef<Creature>>,
}

impl Message<Visit> for Mall {
    type Reply = ();

    async fn handle(&mut self, visit: Visit, _: &mut Context<Self, ()>) {
        if self.meetings_left == 0 {
            tell(&visit.creature, Closed).await;
        } else if let Some(waiting) = self.waiting.take() {
            self.meetings_left -= 1;
            tell(&waiting, visit).await;
        } else {
            self.waiting = Some(visit.creature);
        }
    }
}

#[derive(Actor)]
struct Creature {
    colour: Colour,
    meetings: u64,
    mall: ActorRef<Mall>,
    collector: ActorRef<Collector>,
}

impl Creature {
    async fn visit(&self, creature: &ActorRef<Self>) {
        tell(&self.mall, Visit { colour: self.colour, creature: creature.clone() }).await;
    }
}

impl Message<Begin> for Creature {
    type Reply = ();

    async fn handle(&mut self, Begin: Begin, context: &mut Context<Self, ()>) {
        self.visit(context.actor_ref()).await;
    }
}

impl Message<Visit> for Creature {
    type Reply = ();

    async fn handle(&mut self, other: Visit, context: &mut Context<Self, ()>) {
        self.meetings += 1;
        self.colour = self.colour.complement(other.colour);
        tell(&other.creature, Change(self.colour)).await;
        self.visit(context.actor_ref()).await;
    }
}

/// The colour of both creatures after a meeting.
struct Change(Colour);

impl Message<Change> for Creature {
    type Reply = ();

    async fn handle(&mut self, Change(colour): Change, context: &mut Context<Self, ()>) {
        self.meetings += 1;
        self.colour = colour;
        self.visit(context.actor_ref()).await;
    }
}

struct Closed;

impl Message<Closed> for Creature {
    type Reply = ();

    async fn handle(&mut self, Closed: Closed, context: &mut Context<Self, ()>) {
        tell(&self.collector, Report(self.meetings)).await;
        context.stop();
    }
}

pub fn chameneos(plan: &Plan) -> Outcome {
    run(plan, async {
        let (collector, ended) = Collector::spawn_for(plan.width);
        let mall = spawn(plan.bound, Mall { meetings_left: plan.size, waiting: None });
        let mut creatures = Vec::new();
        for colour in [Colour::Blue, Colour::Red, Colour::Yellow].into_iter().cycle().take(plan.width as usize) {
            let creature = Creature { colour, meetings: 0, mall: mall.clone(), collector: collector.clone() };
            creatures.push(spawn(plan.bound, creature));
        }
        for creature in &creatures {
            creature.wait_for_startup().await;
        }
        let start = Instant::now();
        for creature in &creatures {
            tell(creature, Begin).await;
        }
        ended.await.expect("all creatures come home").outcome(start, plan.size)
    })
}

/// An actor that hands out the forks. Fork `n` lies between philosophers `n - 1` and `n`.
#[derive(Actor)]
struct Arbiter {
    taken: Vec<bool>,
}

struct Hungry {
    seat: usize,
    philosopher: ActorRef<Philosopher>,
}

impl Message<Hungry> for Arbiter {
    type Reply = ();

    async fn handle(&mut self, Hungry { seat, philosopher }: Hungry, _: &mut Context<Self, ()>) {
        let (left, right) = (seat, (seat + 1) % self.taken.len());
        if self.taken[left] || self.taken[right] {
            tell(&philosopher, Refused).await;
        } else {
            self.taken[left] = true;
            self.taken[right] = true;
            tell(&philosopher, Eat).await;
        }
    }
}

struct Sated {
    seat: usize,
}

impl Message<Sated> for Arbiter {
    type Reply = ();

    async fn handle(&mut self, Sated { seat }: Sated, _: &mut Context<Self, ()>) {
        let right = (seat + 1) % self.taken.len();
        self.taken[seat] = false;
        self.taken[right] = false;
    }
}

#[derive(Actor)]
struct Philosopher {
    seat: usize,
    meals_left: u64,
    eaten: u64,
    arbiter: ActorRef<Arbiter>,
    collector: ActorRef<Collector>,
}

impl Philosopher {
    /// Asks for the next meal, or reports that no meal is left.
    async fn hunger(&self, philosopher: &ActorRef<Self>) {
        if self.meals_left > 0 {
            tell(&self.arbiter, Hungry { seat: self.seat, philosopher: philosopher.clone() }).await;
        } else {
            tell(&self.collector, Report(self.eaten)).await;
        }
    }
}

impl Message<Begin> for Philosopher {
    type Reply = ();

    async fn handle(&mut self, Begin: Begin, context: &mut Context<Self, ()>) {
        self.hunger(context.actor_ref()).await;
    }
}

struct Refused;

impl Message<Refused> for Philosopher {
    type Reply = ();

    async fn handle(&mut self, Refused: Refused, context: &mut Context<Self, ()>) {
        self.hunger(context.actor_ref()).await;
    }
}

struct Eat;

impl Message<Eat> for Philosopher {
    type Reply = ();

    async fn handle(&mut self, Eat: Eat, context: &mut Context<Self, ()>) {
        self.eaten += 1;
        self.meals_left -= 1;
        tell(&self.arbiter, Sated { seat: self.seat }).await;
        self.hunger(context.actor_ref()).await;
    }
}

pub fn philosophers(plan: &Plan) -> Outcome {
    run(plan, async {
        let (collector, ended) = Collector::spawn_for(plan.width);
        let arbiter = spawn(plan.bound, Arbiter { taken: vec![false; plan.width as usize] });
        let philosopher = |number| Philosopher {
            seat: number as usize,
            meals_left: share(plan.size, plan.width, number),
            eaten: 0,
            arbiter: arbiter.clone(),
            collector: collector.clone(),
        };
        let philosophers: Vec<_> = (0..plan.width).map(|number| spawn(plan.bound, philosopher(number))).collect();
        for philosopher in &philosophers {
            philosopher.wait_for_startup().await;
        }
        let start = Instant::now();
        for philosopher in &philosophers {
            tell(philosopher, Begin).await;
        }
        ended.await.expect("all have eaten").outcome(start, plan.size)
    })
}
