//! Philosophers who share forks, which one arbiter hands out.

use std::sync::Arc;
use std::time::Instant;

use ::actix::prelude::*;

use super::super::finish::finish;
use super::super::tally::{Report, Tally};
use super::super::{Begin, Peers, in_system, nobody, share};
use crate::plan::{Outcome, Plan};

#[derive(Message)]
#[rtype(result = "()")]
struct Know(Peers<Philosopher>);

#[derive(Message)]
#[rtype(result = "()")]
struct Hungry(usize);

#[derive(Message)]
#[rtype(result = "()")]
struct Sated(usize);

#[derive(Message)]
#[rtype(result = "()")]
struct Eat;

#[derive(Message)]
#[rtype(result = "()")]
struct Refused;

/// An actor that hands out the forks. Each philosopher needs the fork with its own number and the next one.
struct Table {
    taken: Vec<bool>,
    philosophers: Peers<Philosopher>,
}

impl Actor for Table {
    type Context = Context<Self>;
}

impl Table {
    fn forks(&self, philosopher: usize) -> [usize; 2] {
        [philosopher, (philosopher + 1) % self.taken.len()]
    }
}

impl Handler<Know> for Table {
    type Result = ();

    fn handle(&mut self, Know(philosophers): Know, _: &mut Context<Self>) {
        self.philosophers = philosophers;
    }
}

impl Handler<Hungry> for Table {
    type Result = ();

    fn handle(&mut self, Hungry(philosopher): Hungry, _: &mut Context<Self>) {
        let forks = self.forks(philosopher);
        if forks.iter().any(|&fork| self.taken[fork]) {
            return self.philosophers[philosopher].do_send(Refused);
        }
        for fork in forks {
            self.taken[fork] = true;
        }
        self.philosophers[philosopher].do_send(Eat);
    }
}

impl Handler<Sated> for Table {
    type Result = ();

    fn handle(&mut self, Sated(philosopher): Sated, _: &mut Context<Self>) {
        for fork in self.forks(philosopher) {
            self.taken[fork] = false;
        }
    }
}

struct Philosopher {
    index: usize,
    /// Number of meals that are still to be eaten.
    left: u64,
    meals: u64,
    table: Addr<Table>,
    tally: Addr<Tally>,
}

impl Actor for Philosopher {
    type Context = Context<Self>;
}

impl Philosopher {
    fn ask(&self) {
        if self.left == 0 {
            self.tally.do_send(Report(self.meals));
        } else {
            self.table.do_send(Hungry(self.index));
        }
    }
}

impl Handler<Begin> for Philosopher {
    type Result = ();

    fn handle(&mut self, _: Begin, _: &mut Context<Self>) {
        self.ask();
    }
}

impl Handler<Eat> for Philosopher {
    type Result = ();

    fn handle(&mut self, _: Eat, _: &mut Context<Self>) {
        self.left -= 1;
        self.meals += 1;
        self.table.do_send(Sated(self.index));
        self.ask();
    }
}

impl Handler<Refused> for Philosopher {
    type Result = ();

    fn handle(&mut self, _: Refused, _: &mut Context<Self>) {
        self.ask();
    }
}

/// Runs all actors on one arbiter. Every meal goes through the table, so a second thread would only be woken and wait
/// again.
pub fn philosophers(plan: &Plan) -> Outcome {
    in_system(plan.workers, async |_| {
        let (finish, finished) = finish();
        let tally = Tally::of(plan.width, finish).start();
        let table = Table { taken: vec![false; plan.width as usize], philosophers: nobody() }.start();
        let philosophers: Peers<Philosopher> = (0..plan.width)
            .map(|index| {
                let left = share(plan.size, plan.width, index);
                let (table, tally) = (table.clone(), tally.clone());
                let index = index as usize;
                Philosopher { index, left, meals: 0, table, tally }.start()
            })
            .collect();
        table.do_send(Know(Arc::clone(&philosophers)));
        let start = Instant::now();
        for philosopher in philosophers.iter() {
            philosopher.do_send(Begin);
        }
        finished.outcome(start, plan.size).await
    })
}
