//! Processes that compute more than they communicate.

use std::sync::Arc;
use std::time::{Duration, Instant};

use ::tokio::spawn;
use ::tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use super::mailbox::{Address, Inbox, Kind};
use super::outcome;
use crate::kernel;
use crate::plan::Outcome;

/// Number of worker processes for each thread.
const WORKERS_PER_THREAD: usize = 4;

enum ToMaster {
    /// The first rows of a board to be searched.
    Work(Vec<u8>),
    /// Reports that a piece of work is done, with the number of solutions.
    Done(u64),
}

pub async fn n_queens(threads: usize, width: u64) -> Outcome {
    let width = width as u8;
    let (master, mut inbox) = unbounded_channel();
    let workers: Vec<_> = (0..WORKERS_PER_THREAD * threads)
        .map(|_| {
            let (worker, inbox) = unbounded_channel();
            spawn(queens_worker(inbox, master.clone(), width));
            worker
        })
        .collect();

    let start = Instant::now();
    let mut in_turn = workers.iter().cycle();
    let mut give = |rows| in_turn.next().expect("a worker").send(rows).expect("workers live");
    give(Vec::new());
    let mut given = 1_u64;
    let mut solutions = 0;
    while given > 0 {
        match inbox.recv().await.expect("workers live") {
            ToMaster::Work(rows) => {
                given += 1;
                give(rows);
            }
            ToMaster::Done(found) => {
                given -= 1;
                solutions += found;
            }
        }
    }
    outcome(start.elapsed(), solutions, solutions)
}

async fn queens_worker(mut inbox: UnboundedReceiver<Vec<u8>>, master: UnboundedSender<ToMaster>, width: u8) {
    let tell = |message| master.send(message).expect("the master lives");
    while let Some(mut rows) = inbox.recv().await {
        if rows.len() >= kernel::QUEENS_DEPTH {
            tell(ToMaster::Done(kernel::queens_solve(&mut rows, width)));
            continue;
        }
        for column in kernel::queens_next(&rows, width) {
            let mut next = rows.clone();
            next.push(column);
            tell(ToMaster::Work(next));
        }
        tell(ToMaster::Done(0));
    }
}

pub async fn matrix(threads: usize, width: u64) -> Outcome {
    let width = width as usize;
    let factors = Arc::new(kernel::matrices(width));
    let (master, mut inbox) = unbounded_channel::<Vec<f64>>();
    let workers: Vec<_> = (0..WORKERS_PER_THREAD * threads)
        .map(|_| {
            let (worker, mut inbox) = unbounded_channel::<usize>();
            let (master, factors) = (master.clone(), Arc::clone(&factors));
            spawn(async move {
                while let Some(first) = inbox.recv().await {
                    let [left, right] = &*factors;
                    let block = kernel::multiply(left, right, width, first);
                    master.send(block).expect("the master lives");
                }
            });
            worker
        })
        .collect();

    let start = Instant::now();
    let mut blocks = 0;
    for (first, worker) in (0..width).step_by(kernel::BLOCK).zip(workers.iter().cycle()) {
        worker.send(first).expect("workers live");
        blocks += 1;
    }
    let mut check = 0_u64;
    for _ in 0..blocks {
        let block = inbox.recv().await.expect("workers live");
        check = check.wrapping_add(kernel::matrix_check(&block));
    }
    outcome(start.elapsed(), blocks, check)
}

pub async fn pipeline<K: Kind>(kind: K, size: u64, width: u64, work: Duration) -> Outcome {
    // This makes the kernel calibrate itself, which must not be measured.
    kernel::spin(Duration::ZERO);
    let (first, mut inbox) = kind.mailbox::<u64>();
    for _ in 1..width {
        let (next, inbox_of_next) = kind.mailbox();
        let mut inbox = std::mem::replace(&mut inbox, inbox_of_next);
        spawn(async move {
            while let Some(message) = inbox.receive().await {
                kernel::spin(work);
                next.send(message).await;
            }
        });
    }
    let last = spawn(async move {
        let mut received = 0;
        while inbox.receive().await.is_some() {
            kernel::spin(work);
            received += 1;
        }
        received
    });

    let start = Instant::now();
    spawn(async move {
        for message in 0..size {
            first.send(message).await;
        }
    });
    let received: u64 = last.await.expect("the last stage ends well");
    outcome(start.elapsed(), size * width, received * width)
}
