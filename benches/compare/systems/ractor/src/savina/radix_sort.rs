//! Numbers that go through a chain of sorters, one for each bit.

use std::time::Instant;

use ::ractor::{Actor, ActorProcessingErr, ActorRef};

use super::super::finish::{Finish, finish};
use super::super::{send, start};
use crate::kernel;
use crate::plan::{Outcome, Plan};

#[derive(Clone, Copy)]
struct Number(u16);

struct Sorter;

struct SorterState {
    bit: u32,
    missing: u64,
    /// Numbers that have the bit set. They are passed on after all others.
    held: Vec<Number>,
    next: ActorRef<Number>,
}

impl Actor for Sorter {
    type Msg = Number;
    type State = SorterState;
    type Arguments = SorterState;

    state_from_arguments!();

    async fn handle(
        &self,
        _: ActorRef<Number>,
        number: Number,
        state: &mut SorterState,
    ) -> Result<(), ActorProcessingErr> {
        if number.0 >> state.bit & 1 == 0 {
            send(&state.next, number);
        } else {
            state.held.push(number);
        }
        state.missing -= 1;
        if state.missing == 0 {
            for number in state.held.drain(..) {
                send(&state.next, number);
            }
        }
        Ok(())
    }
}

struct Sorted;

struct SortedState {
    size: usize,
    numbers: Vec<u16>,
    finish: Option<Finish>,
}

impl Actor for Sorted {
    type Msg = Number;
    type State = SortedState;
    type Arguments = SortedState;

    state_from_arguments!();

    async fn handle(
        &self,
        _: ActorRef<Number>,
        Number(number): Number,
        state: &mut SortedState,
    ) -> Result<(), ActorProcessingErr> {
        state.numbers.push(number);
        if state.numbers.len() == state.size {
            let end = Instant::now();
            let check = kernel::sorted_check(state.numbers.iter().copied());
            state.finish.take().expect("the end of the chain should finish once").at(end, check);
        }
        Ok(())
    }
}

struct Source;

struct Begin;

struct SourceState {
    size: u64,
    first: ActorRef<Number>,
}

impl Actor for Source {
    type Msg = Begin;
    type State = SourceState;
    type Arguments = SourceState;

    state_from_arguments!();

    async fn handle(&self, _: ActorRef<Begin>, _: Begin, state: &mut SourceState) -> Result<(), ActorProcessingErr> {
        for number in kernel::numbers(state.size) {
            send(&state.first, Number(number));
        }
        Ok(())
    }
}

pub async fn radix_sort(plan: &Plan) -> Outcome {
    let (finish, finished) = finish();
    let sorted = SortedState { size: plan.size as usize, numbers: Vec::new(), finish: Some(finish) };
    let mut first = start(Sorted, sorted).await;
    for bit in (0..u16::BITS).rev() {
        first = start(Sorter, SorterState { bit, missing: plan.size, held: Vec::new(), next: first }).await;
    }
    let source = start(Source, SourceState { size: plan.size, first }).await;
    let start = Instant::now();
    send(&source, Begin);
    finished.outcome(start, plan.size * u64::from(u16::BITS)).await
}
