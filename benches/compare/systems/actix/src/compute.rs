//! Messages that carry work: matrix, pipeline.

use std::sync::Arc;
use std::time::{Duration, Instant};

use ::actix::prelude::*;

use super::finish::{Finish, finish};
use super::{Begin, Peers, in_system, nobody};
use crate::kernel;
use crate::plan::{Outcome, Plan};

/// Two matrices to be multiplied.
struct Factors {
    left: Vec<f64>,
    right: Vec<f64>,
    width: usize,
}

struct Worker {
    factors: Arc<Factors>,
    master: Addr<Master>,
}

impl Actor for Worker {
    type Context = Context<Self>;
}

/// Requests the block that begins at this row.
#[derive(Message)]
#[rtype(result = "()")]
struct Block(usize);

impl Handler<Block> for Worker {
    type Result = ();

    fn handle(&mut self, Block(first): Block, _: &mut Context<Self>) {
        let Factors { left, right, width } = &*self.factors;
        self.master.do_send(Product(kernel::multiply(left, right, *width, first)));
    }
}

/// A block of the product.
#[derive(Message)]
#[rtype(result = "()")]
struct Product(Vec<f64>);

struct Master {
    width: usize,
    workers: Peers<Worker>,
    missing: usize,
    check: u64,
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

impl Handler<Begin> for Master {
    type Result = ();

    fn handle(&mut self, _: Begin, _: &mut Context<Self>) {
        let blocks = (0..self.width).step_by(kernel::BLOCK);
        self.missing = blocks.len();
        for (first, worker) in blocks.zip(self.workers.iter().cycle()) {
            worker.do_send(Block(first));
        }
    }
}

impl Handler<Product> for Master {
    type Result = ();

    fn handle(&mut self, Product(block): Product, _: &mut Context<Self>) {
        self.check = self.check.wrapping_add(kernel::matrix_check(&block));
        self.missing -= 1;
        if self.missing == 0 {
            self.finish.take().expect("a master should finish once").with(self.check);
        }
    }
}

/// Spreads the workers over all arbiters.
pub fn matrix(plan: &Plan) -> Outcome {
    in_system(plan.workers, async |places| {
        let (finish, finished) = finish();
        let width = plan.width as usize;
        let [left, right] = kernel::matrices(width);
        let factors = Arc::new(Factors { left, right, width });
        let master = Master { width, workers: nobody(), missing: 0, check: 0, finish: Some(finish) }.start();
        let workers: Peers<Worker> = (0..4 * plan.workers)
            .map(|place| places.start(place, Worker { factors: Arc::clone(&factors), master: master.clone() }))
            .collect();
        master.do_send(Meet(workers));
        let start = Instant::now();
        master.do_send(Begin);
        finished.outcome(start, width.div_ceil(kernel::BLOCK) as u64).await
    })
}

/// Where a message goes after a stage has worked on it.
enum Next {
    Stage(Addr<Stage>),
    /// Nowhere: this is the last stage, which counts its messages.
    End {
        size: u64,
        finish: Option<Finish>,
    },
}

struct Stage {
    work: Duration,
    handled: u64,
    next: Next,
}

impl Actor for Stage {
    type Context = Context<Self>;
}

#[derive(Message)]
#[rtype(result = "()")]
struct Item;

impl Handler<Item> for Stage {
    type Result = ();

    fn handle(&mut self, item: Item, _: &mut Context<Self>) {
        kernel::spin(self.work);
        self.handled += 1;
        match &mut self.next {
            Next::Stage(next) => next.do_send(item),
            Next::End { size, finish } => {
                if self.handled == *size {
                    finish.take().expect("a stage should finish once").with(self.handled);
                }
            }
        }
    }
}

struct Source {
    size: u64,
    first: Addr<Stage>,
}

impl Actor for Source {
    type Context = Context<Self>;
}

impl Handler<Begin> for Source {
    type Result = ();

    fn handle(&mut self, _: Begin, _: &mut Context<Self>) {
        for _ in 0..self.size {
            self.first.do_send(Item);
        }
    }
}

/// Runs consecutive stages on the same arbiter. As far as possible, each arbiter has the same number of them.
pub fn pipeline(plan: &Plan) -> Outcome {
    kernel::spin(Duration::ZERO); // calibrates itself before the run
    in_system(plan.workers, async |places| {
        let (finish, finished) = finish();
        let place = |index: usize| index * places.count() / plan.width as usize;
        let stage = |index: usize, next: Next| places.start(place(index), Stage { work: plan.work, handled: 0, next });
        let last = plan.width as usize - 1;
        let end = stage(last, Next::End { size: plan.size, finish: Some(finish) });
        let first = (0..last).rev().fold(end, |next, index| stage(index, Next::Stage(next)));
        let source = Source { size: plan.size, first }.start();
        let start = Instant::now();
        source.do_send(Begin);
        let outcome = finished.outcome(start, plan.size * plan.width).await;
        Outcome { check: outcome.check * plan.width, ..outcome }
    })
}
