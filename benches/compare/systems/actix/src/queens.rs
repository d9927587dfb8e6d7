//! Savina's nqueens: a master, and workers that send more work back to it.

use std::time::Instant;

use ::actix::prelude::*;

use super::finish::{Finish, finish};
use super::{Peers, in_system, nobody};
use crate::kernel;
use crate::plan::{Outcome, Plan};

/// A board with its first rows placed. This is a piece of work.
#[derive(Message)]
#[rtype(result = "()")]
struct Work(Vec<u8>);

/// Reports that a piece of work is done, with the number of solutions.
#[derive(Message)]
#[rtype(result = "()")]
struct Done(u64);

struct Worker {
    width: u8,
    master: Addr<Master>,
}

impl Actor for Worker {
    type Context = Context<Self>;
}

impl Handler<Work> for Worker {
    type Result = ();

    fn handle(&mut self, Work(mut rows): Work, _: &mut Context<Self>) {
        if rows.len() >= kernel::QUEENS_DEPTH {
            return self.master.do_send(Done(kernel::queens_solve(&mut rows, self.width)));
        }
        for column in kernel::queens_next(&rows, self.width) {
            let mut next = rows.clone();
            next.push(column);
            self.master.do_send(Work(next));
        }
        self.master.do_send(Done(0));
    }
}

struct Master {
    workers: Peers<Worker>,
    /// The index of the worker that gets the next piece of work.
    turn: usize,
    missing: u64,
    solutions: u64,
    finish: Option<Finish>,
}

impl Actor for Master {
    type Context = Context<Self>;
}

#[derive(Message)]
#[rtype(result = "()")]
struct Meet(Peers<Worker>);

impl Handler<Meet> for Master {
    type Result = ();

    fn handle(&mut self, Meet(workers): Meet, _: &mut Context<Self>) {
        self.workers = workers;
    }
}

impl Handler<Work> for Master {
    type Result = ();

    fn handle(&mut self, work: Work, _: &mut Context<Self>) {
        self.missing += 1;
        self.workers[self.turn].do_send(work);
        self.turn = (self.turn + 1) % self.workers.len();
    }
}

impl Handler<Done> for Master {
    type Result = ();

    fn handle(&mut self, Done(solutions): Done, _: &mut Context<Self>) {
        self.solutions += solutions;
        self.missing -= 1;
        if self.missing == 0 {
            self.finish.take().expect("a master should finish once").with(self.solutions);
        }
    }
}

/// Spreads the workers over all arbiters.
pub fn nqueens(plan: &Plan) -> Outcome {
    in_system(plan.workers, async |places| {
        let (finish, finished) = finish();
        let width = u8::try_from(plan.width).expect("a board should have at most 255 rows");
        let master = Master { workers: nobody(), turn: 0, missing: 0, solutions: 0, finish: Some(finish) }.start();
        let workers: Peers<Worker> =
            (0..4 * plan.workers).map(|place| places.start(place, Worker { width, master: master.clone() })).collect();
        master.do_send(Meet(workers));
        let start = Instant::now();
        master.do_send(Work(Vec::new()));
        let outcome = finished.outcome(start, 0).await;
        Outcome { operations: outcome.check, ..outcome }
    })
}
