//! Processes that compute more than they communicate.

use std::sync::Arc;
use std::time::{Duration, Instant};

use ::tokio::spawn;
use ::xtra::{Actor, Address, Context, Handler, Mailbox};

use super::{mailbox, outcome, tell};
use crate::kernel;
use crate::plan::Outcome;

/// Number of worker processes for each thread.
const WORKERS_PER_THREAD: usize = 4;

/// The first rows of a board to be searched.
struct Work(Vec<u8>);

/// Reports that a piece of work is done.
struct Done {
    /// Number of solutions that were found.
    found: u64,
    /// Number of new pieces of work that were sent to the master.
    sent: u64,
}

/// A process that hands out work in turn.
struct QueensMaster {
    workers: Vec<Address<QueensWorker>>,
    next: usize,
    /// Number of pieces of work that were sent according to the reports. All work is done once this number, `given` and
    /// `done` are equal. A piece can reach the master later than the report that it was sent.
    known: u64,
    /// Number of pieces of work that were handed out.
    given: u64,
    /// Number of pieces of work that are done.
    done: u64,
    solutions: u64,
}

impl QueensMaster {
    async fn give(&mut self, work: Work) {
        self.given += 1;
        tell(&self.workers[self.next], work).await;
        self.next = (self.next + 1) % self.workers.len();
    }
}

impl Actor for QueensMaster {
    type Stop = u64;

    async fn started(&mut self, _mailbox: &Mailbox<Self>) -> Result<(), u64> {
        self.give(Work(Vec::new())).await;
        Ok(())
    }

    async fn stopped(self) -> u64 {
        self.solutions
    }
}

impl Handler<Work> for QueensMaster {
    type Return = ();

    async fn handle(&mut self, work: Work, _context: &mut Context<Self>) {
        self.give(work).await;
    }
}

impl Handler<Done> for QueensMaster {
    type Return = ();

    async fn handle(&mut self, Done { found, sent }: Done, context: &mut Context<Self>) {
        self.solutions += found;
        self.known += sent;
        self.done += 1;
        if self.known == self.given && self.given == self.done {
            context.stop_self();
        }
    }
}

struct QueensWorker {
    master: Address<QueensMaster>,
    width: u8,
}

impl Actor for QueensWorker {
    type Stop = ();

    async fn stopped(self) {}
}

impl Handler<Work> for QueensWorker {
    type Return = ();

    async fn handle(&mut self, Work(mut rows): Work, _context: &mut Context<Self>) {
        if rows.len() >= kernel::QUEENS_DEPTH {
            let found = kernel::queens_solve(&mut rows, self.width);
            tell(&self.master, Done { found, sent: 0 }).await;
            return;
        }
        let mut sent = 0;
        for column in kernel::queens_next(&rows, self.width) {
            let mut next = rows.clone();
            next.push(column);
            tell(&self.master, Work(next)).await;
            sent += 1;
        }
        tell(&self.master, Done { found: 0, sent }).await;
    }
}

pub async fn n_queens(threads: usize, width: u64) -> Outcome {
    let (master, inbox) = Mailbox::unbounded();
    let workers = (0..WORKERS_PER_THREAD * threads)
        .map(|_| {
            let worker = QueensWorker { master: master.clone(), width: width as u8 };
            ::xtra::spawn_tokio(worker, Mailbox::unbounded())
        })
        .collect();

    let start = Instant::now();
    let master = QueensMaster { workers, next: 0, known: 1, given: 0, done: 0, solutions: 0 };
    let master = spawn(::xtra::run(inbox, master));
    let solutions = master.await.expect("the master ends well");
    outcome(start.elapsed(), solutions, solutions)
}

/// A block of rows to multiply, from this row on.
struct Block(usize);

struct Product(Vec<f64>);

struct MatrixMaster {
    workers: Vec<Address<MatrixWorker>>,
    width: usize,
    /// Number of blocks that have not been multiplied yet.
    left: u64,
    check: u64,
}

impl Actor for MatrixMaster {
    type Stop = u64;

    async fn started(&mut self, _mailbox: &Mailbox<Self>) -> Result<(), u64> {
        for (first, worker) in (0..self.width).step_by(kernel::BLOCK).zip(self.workers.iter().cycle()) {
            tell(worker, Block(first)).await;
        }
        Ok(())
    }

    async fn stopped(self) -> u64 {
        self.check
    }
}

impl Handler<Product> for MatrixMaster {
    type Return = ();

    async fn handle(&mut self, Product(block): Product, context: &mut Context<Self>) {
        self.check = self.check.wrapping_add(kernel::matrix_check(&block));
        self.left -= 1;
        if self.left == 0 {
            context.stop_self();
        }
    }
}

struct MatrixWorker {
    master: Address<MatrixMaster>,
    factors: Arc<[Vec<f64>; 2]>,
    width: usize,
}

impl Actor for MatrixWorker {
    type Stop = ();

    async fn stopped(self) {}
}

impl Handler<Block> for MatrixWorker {
    type Return = ();

    async fn handle(&mut self, Block(first): Block, _context: &mut Context<Self>) {
        let [left, right] = &*self.factors;
        let product = kernel::multiply(left, right, self.width, first);
        tell(&self.master, Product(product)).await;
    }
}

pub async fn matrix(threads: usize, width: u64) -> Outcome {
    let width = width as usize;
    let factors = Arc::new(kernel::matrices(width));
    let (master, inbox) = Mailbox::unbounded();
    let workers = (0..WORKERS_PER_THREAD * threads)
        .map(|_| {
            let worker = MatrixWorker { master: master.clone(), factors: Arc::clone(&factors), width };
            ::xtra::spawn_tokio(worker, Mailbox::unbounded())
        })
        .collect();

    let start = Instant::now();
    let blocks = width.div_ceil(kernel::BLOCK) as u64;
    let master = spawn(::xtra::run(inbox, MatrixMaster { workers, width, left: blocks, check: 0 }));
    let check = master.await.expect("the master ends well");
    outcome(start.elapsed(), blocks, check)
}

/// A stage of a pipeline. The last stage has no `next`.
struct Stage {
    next: Option<Address<Self>>,
    work: Duration,
    received: u64,
}

impl Actor for Stage {
    /// The number of messages received.
    type Stop = u64;

    async fn stopped(self) -> u64 {
        self.received
    }
}

impl Handler<u64> for Stage {
    type Return = ();

    async fn handle(&mut self, message: u64, _context: &mut Context<Self>) {
        kernel::spin(self.work);
        self.received += 1;
        if let Some(next) = &self.next {
            tell(next, message).await;
        }
    }
}

pub async fn pipeline(bound: Option<usize>, size: u64, width: u64, work: Duration) -> Outcome {
    // This makes the kernel calibrate itself, which must not be measured.
    kernel::spin(Duration::ZERO);
    let (first, mut own) = mailbox(bound);
    for _ in 1..width {
        let (next, mailbox_of_next) = mailbox(bound);
        let own = std::mem::replace(&mut own, mailbox_of_next);
        spawn(::xtra::run(own, Stage { next: Some(next), work, received: 0 }));
    }
    let last = spawn(::xtra::run(own, Stage { next: None, work, received: 0 }));

    let start = Instant::now();
    spawn(async move {
        for message in 0..size {
            tell(&first, message).await;
        }
    });
    let received = last.await.expect("the last stage ends well");
    outcome(start.elapsed(), size * width, received * width)
}
