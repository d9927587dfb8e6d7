//! Calls, and messages to a sleeping system.

use std::thread;
use std::time::{Duration, Instant};

use ::tokio::spawn;
use ::xtra::{Actor, Context, Handler};
use futures_util::FutureExt;

use super::{mailbox, outcome};
use crate::plan::Outcome;

/// Answers n + 1 to n.
pub struct Callee;

impl Actor for Callee {
    type Stop = ();

    async fn stopped(self) {}
}

impl Handler<u64> for Callee {
    type Return = u64;

    async fn handle(&mut self, number: u64, _context: &mut Context<Self>) -> u64 {
        number + 1
    }
}

pub async fn ask(bound: Option<usize>, size: u64) -> Outcome {
    let callee = ::xtra::spawn_tokio(Callee, mailbox(bound));

    let mut latencies = Vec::with_capacity(size as usize);
    for number in 0..size {
        let start = Instant::now();
        let answer = callee.send(number).await.expect("an answer");
        latencies.push(start.elapsed().as_nanos() as u64);
        assert_eq!(answer, number + 1, "the answer to this very call");
    }

    let start = Instant::now();
    let mut sum = 0;
    for number in 0..size {
        sum += callee.send(number).await.expect("an answer");
    }
    Outcome { latencies, ..outcome(start.elapsed(), size, sum) }
}

/// The pause between two messages. It is long enough for every thread of the runtime to fall asleep.
const PAUSE: Duration = Duration::from_millis(2);

/// A process that records the latencies of its messages.
struct Sleeper {
    latencies: Vec<u64>,
}

impl Actor for Sleeper {
    /// The latency of each message in nanoseconds.
    type Stop = Vec<u64>;

    async fn stopped(self) -> Vec<u64> {
        self.latencies
    }
}

impl Handler<Instant> for Sleeper {
    type Return = ();

    async fn handle(&mut self, sent: Instant, _context: &mut Context<Self>) {
        self.latencies.push(sent.elapsed().as_nanos() as u64);
    }
}

pub async fn wake_latency(bound: Option<usize>, size: u64) -> Outcome {
    let (address, inbox) = mailbox(bound);
    let sleeper = spawn(::xtra::run(inbox, Sleeper { latencies: Vec::with_capacity(size as usize) }));
    thread::spawn(move || {
        for _ in 0..size {
            thread::sleep(PAUSE);
            // The mailbox is empty, so the future of the send is ready at once.
            let sent = address.send(Instant::now()).detach().now_or_never();
            let _reply = sent.expect("room for one message").expect("the receiver lives");
        }
    });
    let latencies = sleeper.await.expect("the sleeper ends well");
    let elapsed = Duration::from_nanos(latencies.iter().sum());
    let handled = latencies.len() as u64;
    Outcome { latencies, ..outcome(elapsed, size, handled) }
}
