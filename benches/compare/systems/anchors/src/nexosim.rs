//! nexosim: models of a simulation. Their ports are connected before it starts. Mailboxes are bounded (to 16 messages,
//! its default), so a sender waits for room. Each connection has one slot for replies, which is reused for each reply.

use crate::{FromOne, Sum, is_plain, outcome, share};
use compare_frame::plan::{Outcome, Plan, Workload};
use nexosim::model::Model;
use nexosim::ports::{EventSource, Output, QuerySource, Requestor};
use nexosim::simulation::{EventId, Mailbox, QueryId, SimInit, Simulation};
use nexosim::time::MonotonicTime;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::time::Instant;

pub fn run(plan: &Plan) -> Option<Outcome> {
    if !is_plain(plan) {
        return None;
    }
    match plan.workload {
        Workload::PingPong => Some(ping_pong(plan)),
        Workload::Counting => Some(numbers(plan, 1)),
        Workload::FanIn => Some(numbers(plan, plan.width)),
        Workload::Ask => Some(ask(plan)),
        _ => None,
    }
}

const SETUP: &str = "a simulation of connected models";
const RUN: &str = "no model fails";

/// Runs one event to its end, together with all events that follow from it.
fn process<T>(simulation: &mut Simulation, event: &EventId<T>, argument: T)
where
    T: Serialize + DeserializeOwned + Clone + Send + 'static,
{
    simulation.process_event(event, argument).expect(RUN);
}

#[derive(Serialize, Deserialize)]
struct Player {
    next: Output<u64>,
    received: u64,
}

#[Model]
impl Player {
    async fn ball(&mut self, left: u64) {
        self.received += 1;
        if let Some(left) = left.checked_sub(1) {
            self.next.send(left).await;
        }
    }

    async fn received(&mut self) -> u64 {
        self.received
    }
}

fn ping_pong(plan: &Plan) -> Outcome {
    let mailboxes = [Mailbox::new(), Mailbox::new()];
    let players = [&mailboxes[1], &mailboxes[0]].map(|next| {
        let mut player = Player { next: Output::default(), received: 0 };
        player.next.connect(Player::ball, next);
        player
    });
    let mut setup = SimInit::with_num_threads(plan.workers);
    let ball = EventSource::new().connect(Player::ball, &mailboxes[0]).register(&mut setup);
    let received = [0, 1]
        .map(|player: usize| QuerySource::new().connect(Player::received, &mailboxes[player]).register(&mut setup));
    for ((player, mailbox), name) in players.into_iter().zip(mailboxes).zip(["one", "other"]) {
        setup = setup.add_model(player, mailbox, name);
    }
    finish(plan, setup, &ball, plan.size - 1, &received)
}

/// Measures the duration of `event`, and then adds up the answers of the models.
fn finish<T>(plan: &Plan, setup: SimInit, event: &EventId<T>, argument: T, results: &[QueryId<(), u64>]) -> Outcome
where
    T: Serialize + DeserializeOwned + Clone + Send + 'static,
{
    let mut simulation = setup.init(MonotonicTime::EPOCH).expect(SETUP);
    let start = Instant::now();
    process(&mut simulation, event, argument);
    let elapsed = start.elapsed();
    let check = results.iter().map(|result| simulation.process_query(result, ()).expect(RUN)).sum();
    outcome(elapsed, plan.size, check)
}

#[derive(Serialize, Deserialize)]
struct Producer {
    consumer: Output<FromOne>,
    index: usize,
    until: u64,
}

#[Model]
impl Producer {
    async fn produce(&mut self) {
        for number in 0..self.until {
            self.consumer.send(FromOne { producer: self.index, number }).await;
        }
    }
}

#[derive(Serialize, Deserialize)]
struct Consumer {
    #[serde(skip)]
    sum: Sum,
}

#[Model]
impl Consumer {
    fn number(&mut self, number: FromOne) {
        self.sum.add(number);
    }

    async fn sum(&mut self) -> u64 {
        self.sum.sum
    }
}

fn numbers(plan: &Plan, width: u64) -> Outcome {
    let mailbox = Mailbox::new();
    let mut setup = SimInit::with_num_threads(plan.workers);
    let sum = QuerySource::new().connect(Consumer::sum, &mailbox).register(&mut setup);
    let mut produce = EventSource::new();
    for index in 0..width {
        let mut producer =
            Producer { consumer: Output::default(), index: index as usize, until: share(plan.size, width, index) };
        producer.consumer.connect(Consumer::number, &mailbox);
        let own = Mailbox::new();
        produce = produce.connect(Producer::produce, &own);
        setup = setup.add_model(producer, own, "producer");
    }
    let produce = produce.register(&mut setup);
    setup = setup.add_model(Consumer { sum: Sum::of(width) }, mailbox, "consumer");
    finish(plan, setup, &produce, (), &[sum])
}

#[derive(Serialize, Deserialize)]
struct Callee;

#[Model]
impl Callee {
    async fn next(&mut self, number: u64) -> u64 {
        number + 1
    }
}

#[derive(Serialize, Deserialize)]
struct Caller {
    callee: Requestor<u64, u64>,
    size: u64,
    sum: u64,
    latencies: Vec<u64>,
}

#[Model]
impl Caller {
    async fn call(&mut self, number: u64) -> u64 {
        let answer = self.callee.send(number).await.next().expect("an answer");
        assert_eq!(answer, number + 1, "the answer to this very call");
        answer
    }

    async fn measure(&mut self) {
        for number in 0..self.size {
            let start = Instant::now();
            self.call(number).await;
            self.latencies.push(start.elapsed().as_nanos() as u64);
        }
    }

    async fn ask(&mut self) {
        for number in 0..self.size {
            self.sum += self.call(number).await;
        }
    }

    async fn results(&mut self) -> (u64, Vec<u64>) {
        (self.sum, std::mem::take(&mut self.latencies))
    }
}

fn ask(plan: &Plan) -> Outcome {
    let (own, other) = (Mailbox::new(), Mailbox::new());
    let mut caller = Caller { callee: Requestor::default(), size: plan.size, sum: 0, latencies: Vec::new() };
    caller.callee.connect(Callee::next, &other);
    let mut setup = SimInit::with_num_threads(plan.workers);
    let measure = EventSource::new().connect(Caller::measure, &own).register(&mut setup);
    let ask = EventSource::new().connect(Caller::ask, &own).register(&mut setup);
    let results = QuerySource::new().connect(Caller::results, &own).register(&mut setup);
    let setup = setup.add_model(caller, own, "caller").add_model(Callee, other, "callee");
    let mut simulation = setup.init(MonotonicTime::EPOCH).expect(SETUP);
    process(&mut simulation, &measure, ());
    let start = Instant::now();
    process(&mut simulation, &ask, ());
    let elapsed = start.elapsed();
    let (check, latencies) = simulation.process_query(&results, ()).expect(RUN);
    Outcome { latencies, ..outcome(elapsed, plan.size, check) }
}
