//! Messages that flow one way.

use std::hint::black_box;
use std::time::Instant;

use ::tokio::spawn;
use ::xtra::{Actor, Address, Context, Handler};

use super::{mailbox, outcome, tell};
use crate::plan::Outcome;

/// One of the processes among which messages are distributed.
struct Counter {
    received: u64,
    collector: Address<Collector>,
}

impl Actor for Counter {
    type Stop = ();

    async fn stopped(self) {
        tell(&self.collector, Count(self.received)).await;
    }
}

impl Handler<u64> for Counter {
    type Return = ();

    async fn handle(&mut self, number: u64, _context: &mut Context<Self>) {
        black_box(number);
        self.received += 1;
    }
}

/// The number of messages that one consumer received.
struct Count(u64);

struct Collector {
    received: u64,
}

impl Actor for Collector {
    /// The number of messages that all consumers received.
    type Stop = u64;

    async fn stopped(self) -> u64 {
        self.received
    }
}

impl Handler<Count> for Collector {
    type Return = ();

    async fn handle(&mut self, Count(received): Count, _context: &mut Context<Self>) {
        self.received += received;
    }
}

pub async fn fan_out(bound: Option<usize>, size: u64, width: u64) -> Outcome {
    let (collector, inbox) = mailbox(bound);
    let consumers: Vec<_> = (0..width)
        .map(|_| ::xtra::spawn_tokio(Counter { received: 0, collector: collector.clone() }, mailbox(bound)))
        .collect();
    drop(collector);
    let collecting = spawn(::xtra::run(inbox, Collector { received: 0 }));

    let start = Instant::now();
    spawn(async move {
        let mut in_turn = consumers.iter().cycle();
        for number in 0..size {
            tell(in_turn.next().expect("at least one consumer"), number).await;
        }
    });
    let received = collecting.await.expect("the collector ends well");
    outcome(start.elapsed(), size, received)
}
