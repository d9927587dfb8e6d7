//! Calls, and messages to a sleeping system.

use std::thread;
use std::time::{Duration, Instant};

use ::tokio::spawn;
use ::tokio::sync::oneshot;

use super::mailbox::{Address, Inbox, Kind};
use super::outcome;
use crate::plan::Outcome;

pub struct Question {
    pub number: u64,
    pub reply: oneshot::Sender<u64>,
}

/// Answers n + 1 to n.
pub async fn answer(mut inbox: impl Inbox<Question>) {
    while let Some(Question { number, reply }) = inbox.receive().await {
        reply.send(number + 1).expect("the caller waits");
    }
}

pub async fn call(callee: &impl Address<Question>, number: u64) -> u64 {
    let (reply, answer) = oneshot::channel();
    callee.send(Question { number, reply }).await;
    answer.await.expect("an answer")
}

pub async fn ask<K: Kind>(kind: K, size: u64) -> Outcome {
    let (callee, inbox) = kind.mailbox::<Question>();
    spawn(answer(inbox));

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

/// The pause between two messages. It is long enough for every thread of the runtime to fall asleep.
const PAUSE: Duration = Duration::from_millis(2);

pub async fn wake_latency<K: Kind>(kind: K, size: u64) -> Outcome {
    let (address, mut inbox) = kind.mailbox::<Instant>();
    let handler = spawn(async move {
        let mut latencies = Vec::with_capacity(size as usize);
        while let Some(sent) = inbox.receive().await {
            latencies.push(sent.elapsed().as_nanos() as u64);
        }
        latencies
    });
    thread::spawn(move || {
        for _ in 0..size {
            thread::sleep(PAUSE);
            address.send_from_outside(Instant::now());
        }
    });
    let latencies = handler.await.expect("the handler ends well");
    let elapsed = Duration::from_nanos(latencies.iter().sum());
    let handled = latencies.len() as u64;
    Outcome { latencies, ..outcome(elapsed, size, handled) }
}
