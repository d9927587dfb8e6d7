//! Many messages in one direction.

use super::finish::Finish;
use super::target::{Target, named};
use super::{BATCH, share};
use crate::plan::{Outcome, Plan};
use postroom::prelude::*;
use std::hint::black_box;
use std::time::Instant;

/// A process that adds up the numbers of one producer, each with a payload of `N` bytes.
#[process]
struct Counter<const N: usize> {
    expected: u64,
    sum: u64,
    until: u64,
    done: Recipient<u64>,
}

#[process]
impl<const N: usize> Counter<N> {
    #[entry]
    fn serve(&mut self) {}

    #[message]
    fn number(&mut self, number: u64, payload: [u8; N]) {
        // This forces a read of the payload, which an optimizer could otherwise leave out.
        black_box(&payload);
        assert_eq!(number, self.expected, "numbers come in order");
        self.expected += 1;
        self.sum += number;
        if self.expected == self.until {
            self.done.send(self.sum).expect("somebody waits");
        }
    }
}

#[process]
struct Producer<const N: usize> {
    counter: Target<Counter<N>>,
    until: u64,
}

#[process]
impl<const N: usize> Producer<N> {
    #[entry]
    fn serve(&mut self) {}

    #[message]
    fn produce(&mut self, ctx: &mut Context<Self>, from: u64) {
        let until = self.until.min(from + BATCH);
        for number in from..until {
            let payload = [1; N];
            match &self.counter {
                Target::Address(counter) => counter.number(number, payload).send(),
                Target::Pid(counter) => ctx.send(*counter, CounterNumber { number, payload }),
                Target::Name(counter) => ctx.send(named(ctx, counter), CounterNumber { number, payload }),
            }
            .expect("the counter lives");
        }
        if until < self.until {
            ctx.address().produce(until).send().expect("this process lives");
        }
    }
}

pub fn counting(runtime: &Runtime, plan: &Plan) -> Option<Outcome> {
    match plan.payload {
        0 => Some(count::<0>(runtime, plan)),
        32 => Some(count::<32>(runtime, plan)),
        256 => Some(count::<256>(runtime, plan)),
        512 => Some(count::<512>(runtime, plan)),
        4_096 => Some(count::<4_096>(runtime, plan)),
        _ => None,
    }
}

fn count<const N: usize>(runtime: &Runtime, plan: &Plan) -> Outcome {
    const NAME: &str = "counter";
    let mut finish = Finish::new();
    let counter = Counter::<N> { expected: 0, sum: 0, until: plan.size, done: finish.recipient() };
    let counter = runtime.spawn(counter).named(NAME).serve().expect("a counter");
    let producer = Producer { counter: Target::new(plan.via, counter, NAME), until: plan.size };
    let producer = runtime.spawn(producer).serve().expect("a producer");
    let start = Instant::now();
    producer.produce(0).send().expect("a living producer");
    let check = finish.wait();
    Outcome { elapsed: start.elapsed(), operations: plan.size, check, ..Outcome::default() }
}

/// A process that adds up the numbers of many producers.
#[process]
struct Funnel {
    /// The next number expected from each producer.
    expected: Vec<u64>,
    sum: u64,
    left: u64,
    done: Recipient<u64>,
}

#[process]
impl Funnel {
    #[entry]
    fn serve(&mut self) {}

    #[message]
    fn number(&mut self, source: usize, number: u64) {
        assert_eq!(number, self.expected[source], "numbers come in order");
        self.expected[source] += 1;
        self.sum += number;
        self.left -= 1;
        if self.left == 0 {
            self.done.send(self.sum).expect("somebody waits");
        }
    }
}

/// One of the producers.
#[process]
struct Source {
    index: usize,
    funnel: Address<Funnel>,
    until: u64,
}

#[process]
impl Source {
    #[entry]
    fn serve(&mut self) {}

    #[message]
    fn produce(&mut self, ctx: &mut Context<Self>, from: u64) {
        let until = self.until.min(from + BATCH);
        for number in from..until {
            self.funnel.number(self.index, number).send().expect("the funnel lives");
        }
        if until < self.until {
            ctx.address().produce(until).send().expect("this process lives");
        }
    }
}

pub fn fan_in(runtime: &Runtime, plan: &Plan) -> Outcome {
    let mut finish = Finish::new();
    let expected = vec![0; plan.width as usize];
    let funnel = Funnel { expected, sum: 0, left: plan.size, done: finish.recipient() };
    let funnel = runtime.spawn(funnel).serve().expect("a funnel");
    let sources: Vec<_> = (0..plan.width)
        .map(|index| {
            let source = Source { index: index as usize, funnel, until: share(plan.size, plan.width, index) };
            runtime.spawn(source).serve().expect("a source")
        })
        .collect();
    let start = Instant::now();
    for source in sources {
        source.produce(0).send().expect("a living source");
    }
    let check = finish.wait();
    Outcome { elapsed: start.elapsed(), operations: plan.size, check, ..Outcome::default() }
}

/// A process that counts its messages until it is asked for their number.
#[process]
struct Outlet {
    count: u64,
    collector: Address<Collector>,
}

#[process]
impl Outlet {
    #[entry]
    fn serve(&mut self) {}

    #[message]
    fn count(&mut self) {
        self.count += 1;
    }

    #[message]
    fn report(&mut self) {
        self.collector.add(self.count).send().expect("the collector lives");
    }
}

#[process]
struct Collector {
    sum: u64,
    left: u64,
    done: Recipient<u64>,
}

#[process]
impl Collector {
    #[entry]
    fn serve(&mut self) {}

    #[message]
    fn add(&mut self, count: u64) {
        self.sum += count;
        self.left -= 1;
        if self.left == 0 {
            self.done.send(self.sum).expect("somebody waits");
        }
    }
}

/// A process that sends to all outlets in turn.
#[process]
struct Distributor {
    outlets: Vec<Address<Outlet>>,
    next: usize,
}

#[process]
impl Distributor {
    #[entry]
    fn serve(&mut self) {}

    #[message]
    fn distribute(&mut self, ctx: &mut Context<Self>, left: u64) {
        let now = left.min(BATCH);
        for _ in 0..now {
            self.outlets[self.next].count().send().expect("the outlet lives");
            self.next = if self.next + 1 == self.outlets.len() { 0 } else { self.next + 1 };
        }
        if left > now {
            return ctx.address().distribute(left - now).send().expect("this process lives");
        }
        for outlet in &self.outlets {
            outlet.report().send().expect("the outlet lives");
        }
    }
}

pub fn fan_out(runtime: &Runtime, plan: &Plan) -> Outcome {
    let mut finish = Finish::new();
    let collector = Collector { sum: 0, left: plan.width, done: finish.recipient() };
    let collector = runtime.spawn(collector).serve().expect("a collector");
    let outlets =
        (0..plan.width).map(|_| runtime.spawn(Outlet { count: 0, collector }).serve().expect("an outlet")).collect();
    let distributor = runtime.spawn(Distributor { outlets, next: 0 }).serve().expect("a distributor");
    let start = Instant::now();
    distributor.distribute(plan.size).send().expect("a living distributor");
    let check = finish.wait();
    Outcome { elapsed: start.elapsed(), operations: plan.size, check, ..Outcome::default() }
}
