//! Creatures that meet in pairs at a mall, and change their colours.

use crate::finish::Finish;
use crate::kernel::Colour;
use crate::plan::{Outcome, Plan};
use postroom::prelude::*;
use std::time::Instant;

#[process]
struct Creature {
    mall: Address<Mall>,
    colour: Colour,
    meetings: u64,
}

#[process]
impl Creature {
    #[entry]
    fn serve(&mut self) {}

    /// Goes to the mall.
    #[message]
    fn visit(&mut self, ctx: &mut Context<Self>) {
        self.mall.arrive(ctx.address(), self.colour).send().expect("the mall lives");
    }

    /// Meets another creature, which has arrived while this one was waiting.
    #[message]
    fn meet(&mut self, ctx: &mut Context<Self>, other: Address<Creature>, colour: Colour) {
        let blend = self.colour.complement(colour);
        other.change(blend).send().expect("the other one lives");
        self.change(ctx, blend);
    }

    #[message]
    fn change(&mut self, ctx: &mut Context<Self>, colour: Colour) {
        self.colour = colour;
        self.meetings += 1;
        self.visit(ctx);
    }

    /// Reports the number of meetings, since the mall is closed.
    #[message]
    fn leave(&mut self) {
        self.mall.gone(self.meetings).send().expect("the mall lives");
    }
}

#[process]
struct Mall {
    waiting: Option<Address<Creature>>,
    meetings_left: u64,
    creatures_left: u64,
    sum: u64,
    done: Recipient<u64>,
}

#[process]
impl Mall {
    #[entry]
    fn serve(&mut self) {}

    #[message]
    fn arrive(&mut self, creature: Address<Creature>, colour: Colour) {
        if self.meetings_left == 0 {
            return creature.leave().send().expect("the creature lives");
        }
        match self.waiting.take() {
            None => self.waiting = Some(creature),
            Some(waiting) => {
                self.meetings_left -= 1;
                waiting.meet(creature, colour).send().expect("the waiting one lives");
            }
        }
    }

    #[message]
    fn gone(&mut self, meetings: u64) {
        self.sum += meetings;
        self.creatures_left -= 1;
        if self.creatures_left == 0 {
            self.done.send(self.sum).expect("somebody waits");
        }
    }
}

pub fn chameneos(runtime: &Runtime, plan: &Plan) -> Outcome {
    let mut finish = Finish::new();
    let mall =
        Mall { waiting: None, meetings_left: plan.size, creatures_left: plan.width, sum: 0, done: finish.recipient() };
    let mall = runtime.spawn(mall).serve().expect("a mall");
    let creatures: Vec<_> = (0..plan.width as usize)
        .map(|index| {
            let creature = Creature { mall, colour: Colour::ALL[index % 3], meetings: 0 };
            runtime.spawn(creature).serve().expect("a creature")
        })
        .collect();
    let start = Instant::now();
    for creature in creatures {
        creature.visit().send().expect("a living creature");
    }
    let check = finish.wait();
    Outcome { elapsed: start.elapsed(), operations: plan.size, check, ..Outcome::default() }
}
