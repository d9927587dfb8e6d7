//! Messages with real work.

use super::BATCH;
use super::finish::Finish;
use crate::kernel::{self, QUEENS_DEPTH};
use crate::plan::{Outcome, Plan};
use postroom::prelude::*;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Returns the number of processes among which `NQueens` or `Matrix` divides its work.
fn team(plan: &Plan) -> usize {
    4 * plan.workers
}

/// A process that hands boards to searchers in turn, and adds up the solutions.
#[process]
struct Master {
    width: u8,
    searchers: Vec<Address<Searcher>>,
    next: usize,
    open: u64,
    solutions: u64,
    done: Recipient<u64>,
}

#[process]
impl Master {
    #[entry]
    fn serve(&mut self, ctx: &mut Context<Self>, searchers: usize) -> Result<(), SpawnError> {
        for _ in 0..searchers {
            self.searchers.push(ctx.spawn(Searcher { width: self.width, master: ctx.address() }).serve()?);
        }
        Ok(())
    }

    /// Hands out a board to be searched. Its first rows are placed.
    #[message]
    fn search(&mut self, rows: Vec<u8>) {
        self.open += 1;
        self.searchers[self.next].search(rows).send().expect("the searcher lives");
        self.next = (self.next + 1) % self.searchers.len();
    }

    /// Counts a board that has been searched. The boards into which it was split have arrived earlier.
    #[message]
    fn found(&mut self, solutions: u64) {
        self.open -= 1;
        self.solutions += solutions;
        if self.open == 0 {
            self.done.send(self.solutions).expect("somebody waits");
        }
    }
}

#[process]
struct Searcher {
    width: u8,
    master: Address<Master>,
}

#[process]
impl Searcher {
    #[entry]
    fn serve(&mut self) {}

    #[message]
    fn search(&mut self, mut rows: Vec<u8>) {
        let solutions = if rows.len() < QUEENS_DEPTH {
            for column in kernel::queens_next(&rows, self.width) {
                let mut more = rows.clone();
                more.push(column);
                self.master.search(more).send().expect("the master lives");
            }
            0
        } else {
            kernel::queens_solve(&mut rows, self.width)
        };
        self.master.found(solutions).send().expect("the master lives");
    }
}

pub fn nqueens(runtime: &Runtime, plan: &Plan) -> Outcome {
    let mut finish = Finish::new();
    let master = Master {
        width: plan.width as u8,
        searchers: Vec::new(),
        next: 0,
        open: 0,
        solutions: 0,
        done: finish.recipient(),
    };
    let master = runtime.spawn(master).serve(team(plan)).expect("a master");
    let start = Instant::now();
    master.search(Vec::new()).send().expect("a living master");
    let check = finish.wait();
    Outcome { elapsed: start.elapsed(), operations: check, check, ..Outcome::default() }
}

/// Two matrices that all multipliers read.
struct Factors {
    left: Vec<f64>,
    right: Vec<f64>,
    width: usize,
}

#[process]
struct Multiplier {
    factors: Arc<Factors>,
}

#[process]
impl Multiplier {
    #[entry]
    fn serve(&mut self) {}

    #[message]
    fn multiply(&mut self, assembler: Address<Assembler>, first: usize) {
        let Factors { left, right, width } = &*self.factors;
        let block = kernel::multiply(left, right, *width, first);
        assembler.block(block).send().expect("the assembler lives");
    }
}

/// A process that requests all blocks, and collects them.
#[process]
struct Assembler {
    width: usize,
    multipliers: Vec<Address<Multiplier>>,
    left: usize,
    check: u64,
    done: Recipient<u64>,
}

#[process]
impl Assembler {
    #[entry]
    fn serve(&mut self) {}

    #[message]
    fn begin(&mut self, ctx: &mut Context<Self>) {
        for (first, multiplier) in (0..self.width).step_by(kernel::BLOCK).zip(self.multipliers.iter().cycle()) {
            multiplier.multiply(ctx.address(), first).send().expect("the multiplier lives");
        }
    }

    #[message]
    fn block(&mut self, block: Vec<f64>) {
        self.check = self.check.wrapping_add(kernel::matrix_check(&block));
        self.left -= 1;
        if self.left == 0 {
            self.done.send(self.check).expect("somebody waits");
        }
    }
}

pub fn matrix(runtime: &Runtime, plan: &Plan) -> Outcome {
    let mut finish = Finish::new();
    let width = plan.width as usize;
    let blocks = width.div_ceil(kernel::BLOCK);
    let [left, right] = kernel::matrices(width);
    let factors = Arc::new(Factors { left, right, width });
    let multipliers = (0..team(plan))
        .map(|_| runtime.spawn(Multiplier { factors: factors.clone() }).serve().expect("a multiplier"))
        .collect();
    let assembler = Assembler { width, multipliers, left: blocks, check: 0, done: finish.recipient() };
    let assembler = runtime.spawn(assembler).serve().expect("an assembler");
    let start = Instant::now();
    assembler.begin().send().expect("a living assembler");
    let check = finish.wait();
    Outcome { elapsed: start.elapsed(), operations: blocks as u64, check, ..Outcome::default() }
}

/// A process that works on each item and passes the item on. The last stage counts the items.
#[process]
struct Stage {
    work: Duration,
    next: Option<Address<Stage>>,
    received: u64,
    until: u64,
    done: Recipient<()>,
}

#[process]
impl Stage {
    #[entry]
    fn serve(&mut self) {}

    #[message]
    fn item(&mut self, number: u64) {
        assert_eq!(number, self.received, "items come in order");
        kernel::spin(self.work);
        self.received += 1;
        match self.next {
            Some(next) => next.item(number).send().expect("the next stage lives"),
            None if self.received == self.until => self.done.send(()).expect("somebody waits"),
            None => {}
        }
    }

    #[message]
    fn received(&self) -> u64 {
        self.received
    }
}

#[process]
struct Source {
    first: Address<Stage>,
    until: u64,
}

#[process]
impl Source {
    #[entry]
    fn serve(&mut self) {}

    #[message]
    fn feed(&mut self, ctx: &mut Context<Self>, from: u64) {
        let until = self.until.min(from + BATCH);
        for number in from..until {
            self.first.item(number).send().expect("the first stage lives");
        }
        if until < self.until {
            ctx.address().feed(until).send().expect("this process lives");
        }
    }
}

pub fn pipeline(runtime: &Runtime, plan: &Plan) -> Outcome {
    let mut finish = Finish::new();
    // The first call calibrates the kernel to the speed of the machine.
    kernel::spin(plan.work);
    let mut stages: Vec<Address<Stage>> = Vec::new();
    for _ in 0..plan.width {
        let (next, done) = (stages.last().copied(), finish.recipient());
        let stage = Stage { work: plan.work, next, received: 0, until: plan.size, done };
        stages.push(runtime.spawn(stage).serve().expect("a stage"));
    }
    let first = stages[stages.len() - 1];
    let source = runtime.spawn(Source { first, until: plan.size }).serve().expect("a source");
    let start = Instant::now();
    source.feed(0).send().expect("a living source");
    finish.wait();
    let elapsed = start.elapsed();
    let received = stages[0].received().wait().expect("a living stage");
    Outcome { elapsed, operations: plan.size * plan.width, check: received * plan.width, ..Outcome::default() }
}
