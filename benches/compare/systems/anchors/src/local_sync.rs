//! Tasks of Tokio's `LocalSet` with channels of `local-sync`. There is a single thread, and the channels have no
//! atomics.

use crate::{FromOne, LITTER, Sum, is_plain, outcome, share};
use compare_frame::plan::{Outcome, Plan, Workload};
use local_sync::mpsc::unbounded::{Rx, Tx, channel};
use local_sync::oneshot;
use std::time::Instant;
use tokio::task::{LocalSet, spawn_local, yield_now};

const LOST: &str = "the receiver lives";

pub fn run(plan: &Plan) -> Option<Outcome> {
    if !is_plain(plan) || plan.workers != 1 {
        return None;
    }
    let Plan { size, width, .. } = *plan;
    match plan.workload {
        Workload::PingPong => Some(on_this_thread(circles(size, 1, 2))),
        Workload::PingPongPairs => Some(on_this_thread(circles(size, width, 2))),
        Workload::ThreadRing => Some(on_this_thread(circles(size, 1, width))),
        Workload::Counting => Some(on_this_thread(numbers(size, 1))),
        Workload::FanIn => Some(on_this_thread(numbers(size, width))),
        Workload::Ask => Some(on_this_thread(ask(size))),
        _ => None,
    }
}

/// Runs the first task of a workload.
fn on_this_thread(first: impl Future<Output = Outcome> + 'static) -> Outcome {
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    let first = async { spawn_local(first).await.expect("the first task ends well") };
    LocalSet::new().block_on(&runtime, first)
}

async fn player(mut inbox: Rx<u64>, next: Tx<u64>) -> u64 {
    let mut received = 0;
    while let Some(left) = inbox.recv().await {
        received += 1;
        let Some(left) = u64::checked_sub(left, 1) else { break };
        next.send(left).expect(LOST);
    }
    received
}

async fn circles(size: u64, circles: u64, width: u64) -> Outcome {
    let (mut firsts, mut players) = (Vec::new(), Vec::new());
    for _ in 0..circles {
        let (first, mut inbox) = channel();
        for _ in 1..width {
            let (next, inbox_of_next) = channel();
            players.push(spawn_local(player(std::mem::replace(&mut inbox, inbox_of_next), next)));
        }
        players.push(spawn_local(player(inbox, first.clone())));
        firsts.push(first);
    }
    let start = Instant::now();
    for (first, index) in firsts.into_iter().zip(0..) {
        first.send(share(size, circles, index) - 1).expect(LOST);
    }
    let mut received = 0;
    for player in players {
        received += player.await.expect("a player ends well");
    }
    outcome(start.elapsed(), size, received)
}

async fn numbers(size: u64, width: u64) -> Outcome {
    let (address, mut inbox) = channel::<FromOne>();
    let consumer = spawn_local(async move {
        let mut sum = Sum::of(width);
        while let Some(number) = inbox.recv().await {
            sum.add(number);
        }
        sum.sum
    });
    let litter = (LITTER / width).max(1);
    let start = Instant::now();
    for producer in 0..width {
        let address = address.clone();
        spawn_local(async move {
            for number in 0..share(size, width, producer) {
                address.send(FromOne { producer: producer as usize, number }).expect(LOST);
                if (number + 1).is_multiple_of(litter) {
                    yield_now().await;
                }
            }
        });
    }
    drop(address);
    let sum = consumer.await.expect("the consumer ends well");
    outcome(start.elapsed(), size, sum)
}

struct Question {
    number: u64,
    reply: oneshot::Sender<u64>,
}

async fn call(callee: &Tx<Question>, number: u64) -> u64 {
    let (reply, answer) = oneshot::channel();
    callee.send(Question { number, reply }).expect(LOST);
    answer.await.expect("an answer")
}

async fn ask(size: u64) -> Outcome {
    let (callee, mut inbox) = channel::<Question>();
    spawn_local(async move {
        while let Some(Question { number, reply }) = inbox.recv().await {
            reply.send(number + 1).expect("the caller waits");
        }
    });
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
