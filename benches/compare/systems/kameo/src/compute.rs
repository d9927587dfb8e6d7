//! Messages that carry work: a search, a product, a pipeline.

use std::sync::Arc;
use std::time::{Duration, Instant};

use ::kameo::prelude::*;
use ::tokio::sync::oneshot;

use super::stage::{Begin, Collector, End, Report, finish, run, spawn, tell};
use crate::kernel;
use crate::plan::{Outcome, Plan};

/// Number of worker processes for each thread that runs them.
const WORKERS_PER_THREAD: usize = 4;

/// The queens in the first rows of a board. This is a piece of work.
struct Rows(Vec<u8>);

/// Reports that a piece of work is done, with the number of solutions.
struct Done(u64);

/// An actor that hands out work to its workers in turn.
#[derive(Actor)]
struct Master {
    workers: Vec<ActorRef<Searcher>>,
    given: usize,
    done: usize,
    solutions: u64,
    end: Option<oneshot::Sender<End>>,
}

impl Message<Rows> for Master {
    type Reply = ();

    async fn handle(&mut self, rows: Rows, _: &mut Context<Self, ()>) {
        let worker = &self.workers[self.given % self.workers.len()];
        self.given += 1;
        tell(worker, rows).await;
    }
}

impl Message<Done> for Master {
    type Reply = ();

    async fn handle(&mut self, Done(solutions): Done, _: &mut Context<Self, ()>) {
        self.solutions += solutions;
        self.done += 1;
        // The new rows of a worker arrive before its report, so no more work can come.
        if self.done == self.given {
            finish(&mut self.end, self.solutions);
        }
    }
}

struct Workers(Vec<ActorRef<Searcher>>);

impl Message<Workers> for Master {
    type Reply = ();

    async fn handle(&mut self, Workers(workers): Workers, _: &mut Context<Self, ()>) {
        self.workers = workers;
    }
}

#[derive(Actor)]
struct Searcher {
    width: u8,
    master: ActorRef<Master>,
}

impl Message<Rows> for Searcher {
    type Reply = ();

    async fn handle(&mut self, Rows(mut rows): Rows, _: &mut Context<Self, ()>) {
        let mut solutions = 0;
        if rows.len() < kernel::QUEENS_DEPTH {
            for column in kernel::queens_next(&rows, self.width) {
                let mut next = rows.clone();
                next.push(column);
                tell(&self.master, Rows(next)).await;
            }
        } else {
            solutions = kernel::queens_solve(&mut rows, self.width);
        }
        tell(&self.master, Done(solutions)).await;
    }
}

pub fn nqueens(plan: &Plan) -> Outcome {
    run(plan, async {
        let (end, ended) = oneshot::channel();
        let master = Master { workers: Vec::new(), given: 0, done: 0, solutions: 0, end: Some(end) };
        let master = spawn(plan.bound, master);
        let searcher = |_| spawn(plan.bound, Searcher { width: plan.width as u8, master: master.clone() });
        let workers = (0..WORKERS_PER_THREAD * plan.workers).map(searcher).collect();
        master.ask(Workers(workers)).send().await.expect("the master answers");
        let start = Instant::now();
        tell(&master, Rows(Vec::new())).await;
        let end = ended.await.expect("the search ends");
        end.outcome(start, end.sum)
    })
}

#[derive(Actor)]
struct Multiplier {
    width: usize,
    factors: Arc<[Vec<f64>; 2]>,
    product: ActorRef<Product>,
}

/// A request for the block of rows that begins with this one.
struct Block(usize);

impl Message<Block> for Multiplier {
    type Reply = ();

    async fn handle(&mut self, Block(first): Block, _: &mut Context<Self, ()>) {
        let [left, right] = &*self.factors;
        tell(&self.product, Multiplied(kernel::multiply(left, right, self.width, first))).await;
    }
}

/// An actor that hands out the blocks, and collects the results.
#[derive(Actor)]
struct Product {
    width: usize,
    missing: usize,
    check: u64,
    end: Option<oneshot::Sender<End>>,
}

struct Order(Vec<ActorRef<Multiplier>>);

impl Message<Order> for Product {
    type Reply = ();

    async fn handle(&mut self, Order(workers): Order, _: &mut Context<Self, ()>) {
        for (first, worker) in (0..self.width).step_by(kernel::BLOCK).zip(workers.iter().cycle()) {
            tell(worker, Block(first)).await;
        }
    }
}

struct Multiplied(Vec<f64>);

impl Message<Multiplied> for Product {
    type Reply = ();

    async fn handle(&mut self, Multiplied(rows): Multiplied, _: &mut Context<Self, ()>) {
        self.check = self.check.wrapping_add(kernel::matrix_check(&rows));
        self.missing -= 1;
        if self.missing == 0 {
            finish(&mut self.end, self.check);
        }
    }
}

pub fn matrix(plan: &Plan) -> Outcome {
    let width = plan.width as usize;
    let factors = Arc::new(kernel::matrices(width));
    let blocks = width.div_ceil(kernel::BLOCK);
    run(plan, async {
        let (end, ended) = oneshot::channel();
        let product = spawn(plan.bound, Product { width, missing: blocks, check: 0, end: Some(end) });
        let worker = |_| spawn(plan.bound, Multiplier { width, factors: factors.clone(), product: product.clone() });
        let workers: Vec<_> = (0..WORKERS_PER_THREAD * plan.workers).map(worker).collect();
        for worker in &workers {
            worker.wait_for_startup().await;
        }
        let start = Instant::now();
        tell(&product, Order(workers)).await;
        ended.await.expect("all blocks come").outcome(start, blocks as u64)
    })
}

struct Part(u64);

/// An actor that computes for each part and passes the part on. The last stage counts the parts.
#[derive(Actor)]
struct Stage {
    work: Duration,
    next: Option<ActorRef<Stage>>,
    passed: u64,
    last: u64,
    collector: ActorRef<Collector>,
}

impl Message<Part> for Stage {
    type Reply = ();

    async fn handle(&mut self, Part(number): Part, _: &mut Context<Self, ()>) {
        kernel::spin(self.work);
        self.passed += 1;
        match &self.next {
            Some(next) => tell(next, Part(number)).await,
            None if self.passed == self.last => tell(&self.collector, Report(self.passed)).await,
            None => {}
        }
    }
}

#[derive(Actor)]
struct Source {
    size: u64,
    first: ActorRef<Stage>,
}

impl Message<Begin> for Source {
    type Reply = ();

    async fn handle(&mut self, Begin: Begin, _: &mut Context<Self, ()>) {
        for number in 0..self.size {
            tell(&self.first, Part(number)).await;
        }
    }
}

pub fn pipeline(plan: &Plan) -> Outcome {
    // The kernel calibrates itself before the run.
    kernel::spin(plan.work);
    run(plan, async {
        let (collector, ended) = Collector::spawn_for(1);
        let mut next = None;
        for _ in 0..plan.width {
            let collector = collector.clone();
            let stage = Stage { work: plan.work, next, passed: 0, last: plan.size, collector };
            let stage = spawn(plan.bound, stage);
            stage.wait_for_startup().await;
            next = Some(stage);
        }
        let source = spawn(plan.bound, Source { size: plan.size, first: next.expect("a pipeline has stages") });
        source.wait_for_startup().await;
        let start = Instant::now();
        tell(&source, Begin).await;
        let end = ended.await.expect("all parts come through");
        let passes = end.sum * plan.width;
        Outcome { check: passes, ..end.outcome(start, passes) }
    })
}
