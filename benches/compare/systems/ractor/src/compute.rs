//! Messages that carry work: matrix, pipeline.

use std::sync::Arc;
use std::time::{Duration, Instant};

use ::ractor::{Actor, ActorProcessingErr, ActorRef};

use super::finish::{Finish, finish};
use super::{Peers, nobody, send, start};
use crate::kernel;
use crate::plan::{Outcome, Plan};

/// Two matrices to be multiplied.
struct Factors {
    left: Vec<f64>,
    right: Vec<f64>,
    width: usize,
}

struct Worker;

/// Requests the block that begins at this row.
struct Block(usize);

struct WorkerState {
    factors: Arc<Factors>,
    master: ActorRef<Order>,
}

impl Actor for Worker {
    type Msg = Block;
    type State = WorkerState;
    type Arguments = WorkerState;

    state_from_arguments!();

    async fn handle(
        &self,
        _: ActorRef<Block>,
        Block(first): Block,
        state: &mut WorkerState,
    ) -> Result<(), ActorProcessingErr> {
        let Factors { left, right, width } = &*state.factors;
        send(&state.master, Order::Product(kernel::multiply(left, right, *width, first)));
        Ok(())
    }
}

struct Master;

enum Order {
    Meet(Peers<Block>),
    Begin,
    /// A block of the product.
    Product(Vec<f64>),
}

struct MasterState {
    width: usize,
    workers: Peers<Block>,
    missing: usize,
    check: u64,
    finish: Option<Finish>,
}

impl Actor for Master {
    type Msg = Order;
    type State = MasterState;
    type Arguments = MasterState;

    state_from_arguments!();

    async fn handle(
        &self,
        _: ActorRef<Order>,
        order: Order,
        state: &mut MasterState,
    ) -> Result<(), ActorProcessingErr> {
        match order {
            Order::Meet(workers) => state.workers = workers,
            Order::Begin => {
                let blocks = (0..state.width).step_by(kernel::BLOCK);
                state.missing = blocks.len();
                for (first, worker) in blocks.zip(state.workers.iter().cycle()) {
                    send(worker, Block(first));
                }
            }
            Order::Product(block) => {
                state.check = state.check.wrapping_add(kernel::matrix_check(&block));
                state.missing -= 1;
                if state.missing == 0 {
                    state.finish.take().expect("a master should finish once").with(state.check);
                }
            }
        }
        Ok(())
    }
}

pub async fn matrix(plan: &Plan) -> Outcome {
    let (finish, finished) = finish();
    let width = plan.width as usize;
    let [left, right] = kernel::matrices(width);
    let factors = Arc::new(Factors { left, right, width });
    let master = MasterState { width, workers: nobody(), missing: 0, check: 0, finish: Some(finish) };
    let master = start(Master, master).await;
    let mut workers = Vec::new();
    for _ in 0..4 * plan.workers {
        workers.push(start(Worker, WorkerState { factors: Arc::clone(&factors), master: master.clone() }).await);
    }
    send(&master, Order::Meet(Peers::from(workers)));
    let start = Instant::now();
    send(&master, Order::Begin);
    finished.outcome(start, width.div_ceil(kernel::BLOCK) as u64).await
}

struct Stage;

struct Item;

/// Where a message goes after a stage has worked on it.
enum Next {
    Stage(ActorRef<Item>),
    /// Nowhere: this is the last stage, which counts its messages.
    End {
        size: u64,
        finish: Option<Finish>,
    },
}

struct StageState {
    work: Duration,
    handled: u64,
    next: Next,
}

impl Actor for Stage {
    type Msg = Item;
    type State = StageState;
    type Arguments = StageState;

    state_from_arguments!();

    async fn handle(&self, _: ActorRef<Item>, item: Item, state: &mut StageState) -> Result<(), ActorProcessingErr> {
        kernel::spin(state.work);
        state.handled += 1;
        match &mut state.next {
            Next::Stage(next) => send(next, item),
            Next::End { size, finish } => {
                if state.handled == *size {
                    finish.take().expect("a stage should finish once").with(state.handled);
                }
            }
        }
        Ok(())
    }
}

struct Source;

struct Begin;

struct SourceState {
    size: u64,
    first: ActorRef<Item>,
}

impl Actor for Source {
    type Msg = Begin;
    type State = SourceState;
    type Arguments = SourceState;

    state_from_arguments!();

    async fn handle(&self, _: ActorRef<Begin>, _: Begin, state: &mut SourceState) -> Result<(), ActorProcessingErr> {
        for _ in 0..state.size {
            send(&state.first, Item);
        }
        Ok(())
    }
}

pub async fn pipeline(plan: &Plan) -> Outcome {
    kernel::spin(Duration::ZERO); // calibrates itself before the run
    let (finish, finished) = finish();
    let end = Next::End { size: plan.size, finish: Some(finish) };
    let mut first = start(Stage, StageState { work: plan.work, handled: 0, next: end }).await;
    for _ in 1..plan.width {
        first = start(Stage, StageState { work: plan.work, handled: 0, next: Next::Stage(first) }).await;
    }
    let source = start(Source, SourceState { size: plan.size, first }).await;
    let start = Instant::now();
    send(&source, Begin);
    let outcome = finished.outcome(start, plan.size * plan.width).await;
    Outcome { check: outcome.check * plan.width, ..outcome }
}
