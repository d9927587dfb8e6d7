//! Savina's radix sort and dictionary: data that passes through processes, and data that one process keeps.

use std::collections::HashMap;
use std::time::Instant;

use ::kameo::prelude::*;
use ::tokio::sync::oneshot;

use super::stage::{Begin, Collector, End, Report, finish, run, share, spawn, tell};
use crate::kernel::{self, Request, Requests};
use crate::plan::{Outcome, Plan};

/// Number of bits in the numbers. The chain has as many sorters.
const BITS: u32 = 16;

struct Number(u16);

/// The receiver of a sorter's numbers.
enum Next {
    Sorter(ActorRef<Sorter>),
    Sorted(ActorRef<Sorted>),
}

impl Next {
    async fn tell(&self, number: Number) {
        match self {
            Self::Sorter(sorter) => tell(sorter, number).await,
            Self::Sorted(sorted) => tell(sorted, number).await,
        }
    }
}

/// An actor that passes on numbers without its bit at once. It passes on numbers with its bit once all have arrived.
#[derive(Actor)]
struct Sorter {
    bit: u32,
    missing: u64,
    held: Vec<u16>,
    next: Next,
}

impl Message<Number> for Sorter {
    type Reply = ();

    async fn handle(&mut self, Number(number): Number, _: &mut Context<Self, ()>) {
        if number >> self.bit & 1 == 0 {
            self.next.tell(Number(number)).await;
        } else {
            self.held.push(number);
        }
        self.missing -= 1;
        if self.missing == 0 {
            for number in self.held.drain(..) {
                self.next.tell(Number(number)).await;
            }
        }
    }
}

/// The end of the chain.
#[derive(Actor)]
struct Sorted {
    missing: u64,
    numbers: Vec<u16>,
    end: Option<oneshot::Sender<End>>,
}

impl Message<Number> for Sorted {
    type Reply = ();

    async fn handle(&mut self, Number(number): Number, _: &mut Context<Self, ()>) {
        self.numbers.push(number);
        self.missing -= 1;
        if self.missing == 0 {
            finish(&mut self.end, kernel::sorted_check(self.numbers.drain(..)));
        }
    }
}

#[derive(Actor)]
struct Source {
    size: u64,
    first: ActorRef<Sorter>,
}

impl Message<Begin> for Source {
    type Reply = ();

    async fn handle(&mut self, Begin: Begin, _: &mut Context<Self, ()>) {
        for number in kernel::numbers(self.size) {
            tell(&self.first, Number(number)).await;
        }
    }
}

pub fn radix_sort(plan: &Plan) -> Outcome {
    run(plan, async {
        let (end, ended) = oneshot::channel();
        let sorted = spawn(plan.bound, Sorted { missing: plan.size, numbers: Vec::new(), end: Some(end) });
        let sorter = |bit, next| spawn(plan.bound, Sorter { bit, missing: plan.size, held: Vec::new(), next });
        let mut first = sorter(BITS - 1, Next::Sorted(sorted));
        for bit in (0..BITS - 1).rev() {
            first = sorter(bit, Next::Sorter(first));
        }
        first.wait_for_startup().await;
        let source = spawn(plan.bound, Source { size: plan.size, first });
        source.wait_for_startup().await;
        let start = Instant::now();
        tell(&source, Begin).await;
        ended.await.expect("all numbers come").outcome(start, plan.size * u64::from(BITS))
    })
}

#[derive(Actor)]
struct Dictionary {
    values: HashMap<u64, u64>,
}

struct Write(u64, u64);

impl Message<Write> for Dictionary {
    type Reply = Option<u64>;

    async fn handle(&mut self, Write(key, value): Write, _: &mut Context<Self, Option<u64>>) -> Option<u64> {
        self.values.insert(key, value)
    }
}

struct Read(u64);

impl Message<Read> for Dictionary {
    type Reply = Option<u64>;

    async fn handle(&mut self, Read(key): Read, _: &mut Context<Self, Option<u64>>) -> Option<u64> {
        self.values.get(&key).copied()
    }
}

#[derive(Actor)]
struct Asker {
    requests: Requests,
    dictionary: ActorRef<Dictionary>,
    collector: ActorRef<Collector>,
}

impl Message<Begin> for Asker {
    type Reply = ();

    async fn handle(&mut self, Begin: Begin, _: &mut Context<Self, ()>) {
        let mut answers = 0;
        for request in self.requests.by_ref() {
            let is_answered = match request {
                Request::Read { key } => self.dictionary.ask(Read(key)).send().await.is_ok(),
                Request::Write { key, value } => self.dictionary.ask(Write(key, value)).send().await.is_ok(),
            };
            answers += u64::from(is_answered);
        }
        tell(&self.collector, Report(answers)).await;
    }
}

pub fn dictionary(plan: &Plan) -> Outcome {
    run(plan, async {
        let (collector, ended) = Collector::spawn_for(plan.width);
        let dictionary = spawn(plan.bound, Dictionary { values: HashMap::new() });
        let asker = |number| Asker {
            requests: Requests::new(number, share(plan.size, plan.width, number)),
            dictionary: dictionary.clone(),
            collector: collector.clone(),
        };
        let askers: Vec<_> = (0..plan.width).map(|number| spawn(plan.bound, asker(number))).collect();
        for asker in &askers {
            asker.wait_for_startup().await;
        }
        let start = Instant::now();
        for asker in &askers {
            tell(asker, Begin).await;
        }
        ended.await.expect("all requests are answered").outcome(start, plan.size)
    })
}
