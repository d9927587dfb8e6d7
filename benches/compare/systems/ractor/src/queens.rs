//! Savina's nqueens: a master, and workers that send more work back to it.

use std::time::Instant;

use ::ractor::{Actor, ActorProcessingErr, ActorRef};

use super::finish::{Finish, finish};
use super::{Peers, nobody, send, start};
use crate::kernel;
use crate::plan::{Outcome, Plan};

/// A board with its first rows placed. This is a piece of work.
struct Work(Vec<u8>);

struct Worker;

struct WorkerState {
    width: u8,
    master: ActorRef<Order>,
}

impl Actor for Worker {
    type Msg = Work;
    type State = WorkerState;
    type Arguments = WorkerState;

    state_from_arguments!();

    async fn handle(
        &self,
        _: ActorRef<Work>,
        Work(mut rows): Work,
        state: &mut WorkerState,
    ) -> Result<(), ActorProcessingErr> {
        if rows.len() >= kernel::QUEENS_DEPTH {
            send(&state.master, Order::Done(kernel::queens_solve(&mut rows, state.width)));
            return Ok(());
        }
        for column in kernel::queens_next(&rows, state.width) {
            let mut next = rows.clone();
            next.push(column);
            send(&state.master, Order::Work(Work(next)));
        }
        send(&state.master, Order::Done(0));
        Ok(())
    }
}

struct Master;

enum Order {
    Meet(Peers<Work>),
    Work(Work),
    /// Reports that a piece of work is done, with the number of solutions.
    Done(u64),
}

struct MasterState {
    workers: Peers<Work>,
    /// The index of the worker that gets the next piece of work.
    turn: usize,
    missing: u64,
    solutions: u64,
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
            Order::Work(work) => {
                state.missing += 1;
                send(&state.workers[state.turn], work);
                state.turn = (state.turn + 1) % state.workers.len();
            }
            Order::Done(solutions) => {
                state.solutions += solutions;
                state.missing -= 1;
                if state.missing == 0 {
                    state.finish.take().expect("a master should finish once").with(state.solutions);
                }
            }
        }
        Ok(())
    }
}

pub async fn nqueens(plan: &Plan) -> Outcome {
    let (finish, finished) = finish();
    let width = u8::try_from(plan.width).expect("a board should have at most 255 rows");
    let master = MasterState { workers: nobody(), turn: 0, missing: 0, solutions: 0, finish: Some(finish) };
    let master = start(Master, master).await;
    let mut workers = Vec::new();
    for _ in 0..4 * plan.workers {
        workers.push(start(Worker, WorkerState { width, master: master.clone() }).await);
    }
    send(&master, Order::Meet(Peers::from(workers)));
    let start = Instant::now();
    send(&master, Order::Work(Work(Vec::new())));
    let outcome = finished.outcome(start, 0).await;
    Outcome { operations: outcome.check, ..outcome }
}
