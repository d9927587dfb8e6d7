//! Philosophers who ask one arbiter for two forks until they get them.

use crate::plan::{Outcome, Plan};
use crate::{finish::Finish, share};
use postroom::prelude::*;
use std::time::Instant;

#[process]
struct Philosopher {
    seat: usize,
    arbiter: Address<Arbiter>,
    left: u64,
    meals: u64,
}

#[process]
impl Philosopher {
    #[entry]
    fn serve(&mut self) {}

    #[message]
    fn begin(&mut self, ctx: &mut Context<Self>) {
        if self.left == 0 {
            return self.arbiter.leave(self.meals).send().expect("the arbiter lives");
        }
        self.arbiter.hungry(ctx.address(), self.seat).send().expect("the arbiter lives");
    }

    /// Asks the arbiter again, since a neighbour is eating.
    #[message]
    fn denied(&mut self, ctx: &mut Context<Self>) {
        self.arbiter.hungry(ctx.address(), self.seat).send().expect("the arbiter lives");
    }

    #[message]
    fn eat(&mut self, ctx: &mut Context<Self>) {
        self.meals += 1;
        self.left -= 1;
        self.arbiter.eaten(self.seat).send().expect("the arbiter lives");
        self.begin(ctx);
    }
}

#[process]
struct Arbiter {
    /// Whether each fork is in use. The fork with the number of a seat is on the right of that seat.
    forks: Vec<bool>,
    philosophers: usize,
    meals: u64,
    done: Recipient<u64>,
}

#[process]
impl Arbiter {
    #[entry]
    fn serve(&mut self) {}

    #[message]
    fn hungry(&mut self, philosopher: Address<Philosopher>, seat: usize) {
        let forks = self.forks_of(seat);
        if forks.iter().any(|&fork| self.forks[fork]) {
            return philosopher.denied().send().expect("the philosopher lives");
        }
        for fork in forks {
            self.forks[fork] = true;
        }
        philosopher.eat().send().expect("the philosopher lives");
    }

    #[message]
    fn eaten(&mut self, seat: usize) {
        for fork in self.forks_of(seat) {
            self.forks[fork] = false;
        }
    }

    #[message]
    fn leave(&mut self, meals: u64) {
        self.meals += meals;
        self.philosophers -= 1;
        if self.philosophers == 0 {
            self.done.send(self.meals).expect("somebody waits");
        }
    }

    fn forks_of(&self, seat: usize) -> [usize; 2] {
        [seat, (seat + 1) % self.forks.len()]
    }
}

pub fn philosophers(runtime: &Runtime, plan: &Plan) -> Outcome {
    let mut finish = Finish::new();
    let seats = plan.width as usize;
    let arbiter = Arbiter { forks: vec![false; seats], philosophers: seats, meals: 0, done: finish.recipient() };
    let arbiter = runtime.spawn(arbiter).serve().expect("an arbiter");
    let philosophers: Vec<_> = (0..plan.width)
        .map(|seat| {
            let left = share(plan.size, plan.width, seat);
            let philosopher = Philosopher { seat: seat as usize, arbiter, left, meals: 0 };
            runtime.spawn(philosopher).serve().expect("a philosopher")
        })
        .collect();
    let start = Instant::now();
    for philosopher in philosophers {
        philosopher.begin().send().expect("a living philosopher");
    }
    let check = finish.wait();
    Outcome { elapsed: start.elapsed(), operations: plan.size, check, ..Outcome::default() }
}
