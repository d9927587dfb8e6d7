//! Messages that go one way: counting, fan_in, fan_out.

use std::time::Instant;

use ::ractor::{Actor, ActorProcessingErr, ActorRef};
use ::tokio::task::yield_now;

use super::finish::{Finish, finish};
use super::tally::{Report, Tally, TallyState};
use super::{send, share, start};
use crate::plan::{Outcome, Plan};

/// Number of messages that all producers together send before they yield to the consumer. Tokio lets a task receive up
/// to 128 messages in a turn, so the consumer takes all of them. With more, a backlog grows, which costs a fifth more,
/// and two to three times as much with 4 kB per message.
const LITTER: u64 = 100;

/// Tells a producer to begin.
struct Begin;

struct Number<const N: usize> {
    number: u64,
    load: [u8; N],
}

struct Consumer<const N: usize>;

struct ConsumerState {
    size: u64,
    next: u64,
    sum: u64,
    finish: Option<Finish>,
}

impl<const N: usize> Actor for Consumer<N> {
    type Msg = Number<N>;
    type State = ConsumerState;
    type Arguments = ConsumerState;

    state_from_arguments!();

    async fn handle(
        &self,
        _: ActorRef<Number<N>>,
        Number { number, load }: Number<N>,
        state: &mut ConsumerState,
    ) -> Result<(), ActorProcessingErr> {
        assert_eq!(number, state.next, "the numbers should come in order");
        std::hint::black_box(&load);
        state.next += 1;
        state.sum += number;
        if state.next == state.size {
            state.finish.take().expect("a consumer should finish once").with(state.sum);
        }
        Ok(())
    }
}

struct Producer<const N: usize>;

struct ProducerState<const N: usize> {
    size: u64,
    load: [u8; N],
    consumer: ActorRef<Number<N>>,
}

impl<const N: usize> Actor for Producer<N> {
    type Msg = Begin;
    type State = ProducerState<N>;
    type Arguments = ProducerState<N>;

    state_from_arguments!();

    async fn handle(
        &self,
        _: ActorRef<Begin>,
        _: Begin,
        state: &mut ProducerState<N>,
    ) -> Result<(), ActorProcessingErr> {
        for number in 0..state.size {
            send(&state.consumer, Number { number, load: state.load });
            if (number + 1).is_multiple_of(LITTER) {
                yield_now().await;
            }
        }
        Ok(())
    }
}

pub async fn counting<const N: usize>(plan: &Plan) -> Outcome {
    let (finish, finished) = finish();
    let consumer = ConsumerState { size: plan.size, next: 0, sum: 0, finish: Some(finish) };
    let consumer = start(Consumer, consumer).await;
    let producer = start(Producer, ProducerState { size: plan.size, load: [1; N], consumer }).await;
    let start = Instant::now();
    send(&producer, Begin);
    finished.outcome(start, plan.size).await
}

struct Part {
    producer: usize,
    number: u64,
}

/// The consumer for several producers.
struct Funnel;

struct FunnelState {
    missing: u64,
    /// The next number expected from each producer.
    next: Vec<u64>,
    sum: u64,
    finish: Option<Finish>,
}

impl Actor for Funnel {
    type Msg = Part;
    type State = FunnelState;
    type Arguments = FunnelState;

    state_from_arguments!();

    async fn handle(
        &self,
        _: ActorRef<Part>,
        Part { producer, number }: Part,
        state: &mut FunnelState,
    ) -> Result<(), ActorProcessingErr> {
        assert_eq!(number, state.next[producer], "the numbers of a producer should come in order");
        state.next[producer] += 1;
        state.sum += number;
        state.missing -= 1;
        if state.missing == 0 {
            state.finish.take().expect("a consumer should finish once").with(state.sum);
        }
        Ok(())
    }
}

struct Feeder;

struct FeederState {
    index: usize,
    share: u64,
    /// Number of messages that the producer sends before it yields.
    litter: u64,
    funnel: ActorRef<Part>,
}

impl Actor for Feeder {
    type Msg = Begin;
    type State = FeederState;
    type Arguments = FeederState;

    state_from_arguments!();

    async fn handle(&self, _: ActorRef<Begin>, _: Begin, state: &mut FeederState) -> Result<(), ActorProcessingErr> {
        for number in 0..state.share {
            send(&state.funnel, Part { producer: state.index, number });
            if (number + 1).is_multiple_of(state.litter) {
                yield_now().await;
            }
        }
        Ok(())
    }
}

pub async fn fan_in(plan: &Plan) -> Outcome {
    let (finish, finished) = finish();
    let width = plan.width as usize;
    let funnel = FunnelState { missing: plan.size, next: vec![0; width], sum: 0, finish: Some(finish) };
    let funnel = start(Funnel, funnel).await;
    let litter = (LITTER / plan.width).max(1);
    let mut feeders = Vec::new();
    for index in 0..width {
        let share = share(plan.size, plan.width, index as u64);
        feeders.push(start(Feeder, FeederState { index, share, litter, funnel: funnel.clone() }).await);
    }
    let start = Instant::now();
    for feeder in &feeders {
        send(feeder, Begin);
    }
    finished.outcome(start, plan.size).await
}

enum Item {
    One,
    End,
}

/// One of several consumers of the same sender.
struct Drain;

struct DrainState {
    received: u64,
    tally: ActorRef<Report>,
}

impl Actor for Drain {
    type Msg = Item;
    type State = DrainState;
    type Arguments = DrainState;

    state_from_arguments!();

    async fn handle(&self, _: ActorRef<Item>, item: Item, state: &mut DrainState) -> Result<(), ActorProcessingErr> {
        match item {
            Item::One => state.received += 1,
            Item::End => send(&state.tally, Report(state.received)),
        }
        Ok(())
    }
}

struct Spreader;

struct SpreaderState {
    size: u64,
    drains: Vec<ActorRef<Item>>,
}

impl Actor for Spreader {
    type Msg = Begin;
    type State = SpreaderState;
    type Arguments = SpreaderState;

    state_from_arguments!();

    async fn handle(&self, _: ActorRef<Begin>, _: Begin, state: &mut SpreaderState) -> Result<(), ActorProcessingErr> {
        for (drain, _) in state.drains.iter().cycle().zip(0..state.size) {
            send(drain, Item::One);
        }
        for drain in &state.drains {
            send(drain, Item::End);
        }
        Ok(())
    }
}

pub async fn fan_out(plan: &Plan) -> Outcome {
    let (finish, finished) = finish();
    let tally = start(Tally, TallyState::of(plan.width, finish)).await;
    let mut drains = Vec::new();
    for _ in 0..plan.width {
        drains.push(start(Drain, DrainState { received: 0, tally: tally.clone() }).await);
    }
    let spreader = start(Spreader, SpreaderState { size: plan.size, drains }).await;
    let start = Instant::now();
    send(&spreader, Begin);
    finished.outcome(start, plan.size).await
}
