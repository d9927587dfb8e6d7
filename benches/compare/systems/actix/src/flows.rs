//! Messages that go one way: counting, fan_in, fan_out. All actors are on one arbiter. If the senders were on another
//! one, the two arbiters would contend for the words of the mailboxes, which costs more than the second thread gains.

use std::time::Instant;

use ::actix::prelude::*;
use ::tokio::task::yield_now;

use super::finish::{Finish, finish};
use super::tally::{Report, Tally};
use super::{Begin, in_system, share};
use crate::plan::{Outcome, Plan};

/// Number of messages that a producer sends before it yields to the consumer. Without that yield, a backlog grows,
/// which costs twice as much, and seven times as much with 4 kB per message. The producer yields by a future, since the
/// next message that it handled would otherwise be its message to itself. Numbers from 30 to 1,000 make no difference.
const LITTER: u64 = 100;

#[derive(Message)]
#[rtype(result = "()")]
struct Number<const N: usize> {
    number: u64,
    load: [u8; N],
}

struct Consumer {
    size: u64,
    next: u64,
    sum: u64,
    finish: Option<Finish>,
}

impl Actor for Consumer {
    type Context = Context<Self>;
}

impl<const N: usize> Handler<Number<N>> for Consumer {
    type Result = ();

    fn handle(&mut self, Number { number, load }: Number<N>, _: &mut Context<Self>) {
        assert_eq!(number, self.next, "the numbers should come in order");
        std::hint::black_box(&load);
        self.next += 1;
        self.sum += number;
        if self.next == self.size {
            self.finish.take().expect("a consumer should finish once").with(self.sum);
        }
    }
}

struct Producer<const N: usize> {
    size: u64,
    load: [u8; N],
    consumer: Addr<Consumer>,
}

impl<const N: usize> Actor for Producer<N> {
    type Context = Context<Self>;
}

impl<const N: usize> Handler<Begin> for Producer<N> {
    type Result = ResponseFuture<()>;

    fn handle(&mut self, _: Begin, _: &mut Context<Self>) -> ResponseFuture<()> {
        let (size, load, consumer) = (self.size, self.load, self.consumer.clone());
        Box::pin(async move {
            for number in 0..size {
                consumer.do_send(Number { number, load });
                if (number + 1).is_multiple_of(LITTER) {
                    yield_now().await;
                }
            }
        })
    }
}

pub fn counting<const N: usize>(plan: &Plan) -> Outcome {
    in_system(plan.workers, async |_| {
        let (finish, finished) = finish();
        let consumer = Consumer { size: plan.size, next: 0, sum: 0, finish: Some(finish) }.start();
        let producer = Producer { size: plan.size, load: [1; N], consumer }.start();
        let start = Instant::now();
        producer.do_send(Begin);
        finished.outcome(start, plan.size).await
    })
}

#[derive(Message)]
#[rtype(result = "()")]
struct Part {
    producer: usize,
    number: u64,
}

/// The consumer for several producers.
struct Funnel {
    missing: u64,
    /// The next number expected from each producer.
    next: Vec<u64>,
    sum: u64,
    finish: Option<Finish>,
}

impl Actor for Funnel {
    type Context = Context<Self>;
}

impl Handler<Part> for Funnel {
    type Result = ();

    fn handle(&mut self, Part { producer, number }: Part, _: &mut Context<Self>) {
        assert_eq!(number, self.next[producer], "the numbers of a producer should come in order");
        self.next[producer] += 1;
        self.sum += number;
        self.missing -= 1;
        if self.missing == 0 {
            self.finish.take().expect("a consumer should finish once").with(self.sum);
        }
    }
}

struct Feeder {
    index: usize,
    share: u64,
    funnel: Addr<Funnel>,
}

impl Actor for Feeder {
    type Context = Context<Self>;
}

impl Handler<Begin> for Feeder {
    type Result = ResponseFuture<()>;

    fn handle(&mut self, _: Begin, _: &mut Context<Self>) -> ResponseFuture<()> {
        let (share, index, funnel) = (self.share, self.index, self.funnel.clone());
        Box::pin(async move {
            for number in 0..share {
                funnel.do_send(Part { producer: index, number });
                if (number + 1).is_multiple_of(LITTER) {
                    yield_now().await;
                }
            }
        })
    }
}

pub fn fan_in(plan: &Plan) -> Outcome {
    in_system(plan.workers, async |_| {
        let (finish, finished) = finish();
        let width = plan.width as usize;
        let funnel = Funnel { missing: plan.size, next: vec![0; width], sum: 0, finish: Some(finish) }.start();
        let feeders: Vec<_> = (0..width)
            .map(|index| {
                let share = share(plan.size, plan.width, index as u64);
                Feeder { index, share, funnel: funnel.clone() }.start()
            })
            .collect();
        let start = Instant::now();
        for feeder in &feeders {
            feeder.do_send(Begin);
        }
        finished.outcome(start, plan.size).await
    })
}

#[derive(Message)]
#[rtype(result = "()")]
struct Item;

#[derive(Message)]
#[rtype(result = "()")]
struct End;

/// One of several consumers of the same sender.
struct Drain {
    received: u64,
    tally: Addr<Tally>,
}

impl Actor for Drain {
    type Context = Context<Self>;
}

impl Handler<Item> for Drain {
    type Result = ();

    fn handle(&mut self, _: Item, _: &mut Context<Self>) {
        self.received += 1;
    }
}

impl Handler<End> for Drain {
    type Result = ();

    fn handle(&mut self, _: End, _: &mut Context<Self>) {
        self.tally.do_send(Report(self.received));
    }
}

struct Spreader {
    size: u64,
    drains: Vec<Addr<Drain>>,
}

impl Actor for Spreader {
    type Context = Context<Self>;
}

impl Handler<Begin> for Spreader {
    type Result = ();

    fn handle(&mut self, _: Begin, _: &mut Context<Self>) {
        for (drain, _) in self.drains.iter().cycle().zip(0..self.size) {
            drain.do_send(Item);
        }
        for drain in &self.drains {
            drain.do_send(End);
        }
    }
}

pub fn fan_out(plan: &Plan) -> Outcome {
    in_system(plan.workers, async |_| {
        let (finish, finished) = finish();
        let tally = Tally::of(plan.width, finish).start();
        let drains = (0..plan.width).map(|_| Drain { received: 0, tally: tally.clone() }.start()).collect();
        let spreader = Spreader { size: plan.size, drains }.start();
        let start = Instant::now();
        spreader.do_send(Begin);
        finished.outcome(start, plan.size).await
    })
}
