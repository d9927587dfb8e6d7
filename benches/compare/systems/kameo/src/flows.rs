//! Messages in one direction: from one to one, from many to one, from one to many.

use std::time::Instant;

use ::kameo::prelude::*;
use ::tokio::sync::oneshot;
use ::tokio::task::yield_now;

use super::stage::{Begin, Collector, Count, End, LITTER, Report, finish, run, share, spawn, tell};
use crate::plan::{Outcome, Plan};

/// A number from a producer, with ballast.
struct Number<const N: usize> {
    producer: usize,
    number: u64,
    _ballast: [u8; N],
}

/// An actor that checks the order of each producer's numbers.
#[derive(Actor)]
struct Consumer {
    expected: Vec<u64>,
    missing: u64,
    sum: u64,
    end: Option<oneshot::Sender<End>>,
}

impl<const N: usize> Message<Number<N>> for Consumer {
    type Reply = ();

    async fn handle(&mut self, message: Number<N>, _: &mut Context<Self, ()>) {
        let expected = &mut self.expected[message.producer];
        assert_eq!(message.number, *expected, "numbers come in their order");
        *expected += 1;
        self.sum += message.number;
        self.missing -= 1;
        if self.missing == 0 {
            finish(&mut self.end, self.sum);
        }
    }
}

#[derive(Actor)]
struct Producer<const N: usize> {
    number: usize,
    share: u64,
    /// Number of messages that the producer sends before it yields.
    litter: u64,
    consumer: ActorRef<Consumer>,
}

impl<const N: usize> Message<Begin> for Producer<N> {
    type Reply = ();

    async fn handle(&mut self, Begin: Begin, _: &mut Context<Self, ()>) {
        for number in 0..self.share {
            tell(&self.consumer, Number { producer: self.number, number, _ballast: [0; N] }).await;
            if (number + 1).is_multiple_of(self.litter) {
                yield_now().await;
            }
        }
    }
}

async fn produce<const N: usize>(plan: &Plan, producers: u64) -> Outcome {
    // All producers together send as many messages as the consumer takes in one turn. (Tokio ends a turn after 128
    // messages.) Otherwise messages wait in memory, which costs half as much again, and five times as much with 4 kB.
    let litter = (LITTER / producers).max(1);
    let (end, ended) = oneshot::channel();
    let expected = vec![0; producers as usize];
    let consumer = spawn(plan.bound, Consumer { expected, missing: plan.size, sum: 0, end: Some(end) });
    let producer = |index| Producer::<N> {
        number: index as usize,
        share: share(plan.size, producers, index),
        litter,
        consumer: consumer.clone(),
    };
    let producers: Vec<_> = (0..producers).map(|index| spawn(plan.bound, producer(index))).collect();
    consumer.wait_for_startup().await;
    for producer in &producers {
        producer.wait_for_startup().await;
    }
    let start = Instant::now();
    for producer in &producers {
        tell(producer, Begin).await;
    }
    ended.await.expect("all numbers come").outcome(start, plan.size)
}

pub fn counting(plan: &Plan) -> Option<Outcome> {
    match plan.payload {
        0 => Some(run(plan, produce::<0>(plan, 1))),
        32 => Some(run(plan, produce::<32>(plan, 1))),
        256 => Some(run(plan, produce::<256>(plan, 1))),
        512 => Some(run(plan, produce::<512>(plan, 1))),
        4096 => Some(run(plan, produce::<4096>(plan, 1))),
        _ => None,
    }
}

pub fn fan_in(plan: &Plan) -> Outcome {
    run(plan, produce::<0>(plan, plan.width))
}

struct Item;

/// One of many processes that count their messages.
#[derive(Actor)]
struct Sink {
    count: u64,
    collector: ActorRef<Collector>,
}

impl Message<Item> for Sink {
    type Reply = ();

    async fn handle(&mut self, Item: Item, _: &mut Context<Self, ()>) {
        self.count += 1;
    }
}

impl Message<Count> for Sink {
    type Reply = ();

    async fn handle(&mut self, Count: Count, _: &mut Context<Self, ()>) {
        tell(&self.collector, Report(self.count)).await;
    }
}

#[derive(Actor)]
struct Spreader {
    size: u64,
    sinks: Vec<ActorRef<Sink>>,
}

impl Message<Begin> for Spreader {
    type Reply = ();

    async fn handle(&mut self, Begin: Begin, _: &mut Context<Self, ()>) {
        for (sink, _) in self.sinks.iter().cycle().zip(0..self.size) {
            tell(sink, Item).await;
        }
        for sink in &self.sinks {
            tell(sink, Count).await;
        }
    }
}

pub fn fan_out(plan: &Plan) -> Outcome {
    run(plan, async {
        let (collector, ended) = Collector::spawn_for(plan.width);
        let sink = |_| spawn(plan.bound, Sink { count: 0, collector: collector.clone() });
        let sinks: Vec<_> = (0..plan.width).map(sink).collect();
        for sink in &sinks {
            sink.wait_for_startup().await;
        }
        let spreader = spawn(plan.bound, Spreader { size: plan.size, sinks });
        spreader.wait_for_startup().await;
        let start = Instant::now();
        tell(&spreader, Begin).await;
        ended.await.expect("all have reported").outcome(start, plan.size)
    })
}
