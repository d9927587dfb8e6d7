//! Tasks of `async-executor` with channels of `kanal`. Channels are bounded, so a sender waits for room.

use crate::{FromOne, Sum, is_plain, outcome, share};
use async_executor::StaticExecutor;
use compare_frame::plan::{Outcome, Plan, Workload};
use futures_lite::future::{block_on, pending};
use kanal::{AsyncReceiver, AsyncSender, bounded_async};
use std::thread;
use std::time::Instant;

static EXECUTOR: StaticExecutor = StaticExecutor::new();

/// Number of messages that a channel holds. By default, a mailbox of Postroom holds as many.
const BOUND: usize = 1_024;

const LOST: &str = "the receiver lives";

pub fn run(plan: &Plan) -> Option<Outcome> {
    if !is_plain(plan) {
        return None;
    }
    let Plan { size, width, .. } = *plan;
    match plan.workload {
        Workload::PingPong => Some(on_threads(plan.workers, circles(size, 1, 2))),
        Workload::PingPongPairs => Some(on_threads(plan.workers, circles(size, width, 2))),
        Workload::ThreadRing => Some(on_threads(plan.workers, circles(size, 1, width))),
        Workload::Counting => Some(on_threads(plan.workers, numbers(size, 1))),
        Workload::FanIn => Some(on_threads(plan.workers, numbers(size, width))),
        Workload::Ask => Some(on_threads(plan.workers, ask(size))),
        _ => None,
    }
}

/// Runs the first task of a workload. Afterwards the threads are left running, since each measurement is a process of
/// its own.
fn on_threads(workers: usize, first: impl Future<Output = Outcome> + Send + 'static) -> Outcome {
    for _ in 1..workers {
        thread::spawn(|| block_on(EXECUTOR.run(pending::<()>())));
    }
    let first = EXECUTOR.spawn(first);
    block_on(EXECUTOR.run(first))
}

async fn player(inbox: AsyncReceiver<u64>, next: AsyncSender<u64>) -> u64 {
    let mut received = 0;
    while let Ok(left) = inbox.recv().await {
        received += 1;
        let Some(left) = u64::checked_sub(left, 1) else { break };
        next.send(left).await.expect(LOST);
    }
    received
}

async fn circles(size: u64, circles: u64, width: u64) -> Outcome {
    let (mut firsts, mut players) = (Vec::new(), Vec::new());
    for _ in 0..circles {
        let (first, mut inbox) = bounded_async(BOUND);
        for _ in 1..width {
            let (next, inbox_of_next) = bounded_async(BOUND);
            players.push(EXECUTOR.spawn(player(std::mem::replace(&mut inbox, inbox_of_next), next)));
        }
        players.push(EXECUTOR.spawn(player(inbox, first.clone())));
        firsts.push(first);
    }
    let start = Instant::now();
    for (first, index) in firsts.into_iter().zip(0..) {
        first.send(share(size, circles, index) - 1).await.expect(LOST);
    }
    let mut received = 0;
    for player in players {
        received += player.await;
    }
    outcome(start.elapsed(), size, received)
}

async fn numbers(size: u64, width: u64) -> Outcome {
    let (address, inbox) = bounded_async::<FromOne>(BOUND);
    let consumer = EXECUTOR.spawn(async move {
        let mut sum = Sum::of(width);
        while let Ok(number) = inbox.recv().await {
            sum.add(number);
        }
        sum.sum
    });
    let start = Instant::now();
    for producer in 0..width {
        let address = address.clone();
        let send = async move {
            for number in 0..share(size, width, producer) {
                address.send(FromOne { producer: producer as usize, number }).await.expect(LOST);
            }
        };
        EXECUTOR.spawn(send).detach();
    }
    drop(address);
    let sum = consumer.await;
    outcome(start.elapsed(), size, sum)
}

struct Question {
    number: u64,
    reply: AsyncSender<u64>,
}

async fn call(callee: &AsyncSender<Question>, number: u64) -> u64 {
    let (reply, answer) = bounded_async(1);
    callee.send(Question { number, reply }).await.expect(LOST);
    answer.recv().await.expect("an answer")
}

async fn ask(size: u64) -> Outcome {
    let (callee, inbox) = bounded_async::<Question>(BOUND);
    let answers = async move {
        while let Ok(Question { number, reply }) = inbox.recv().await {
            reply.send(number + 1).await.expect("the caller waits");
        }
    };
    EXECUTOR.spawn(answers).detach();
    let mut latencies = Vec::with_capacity(size as usize);
    for number in 0..size {
        let start = Instant::now();
        let answer = call(&callee, number).await;
        latencies.push(start.elapsed().as_nanos() as u64);
        assert_eq!(answer, number + 1, "the answer to this very call");
    }
    let start = Instant::now();
    let mut sum = 0;
    for number in 0..size {
        sum += call(&callee, number).await;
    }
    Outcome { latencies, ..outcome(start.elapsed(), size, sum) }
}
