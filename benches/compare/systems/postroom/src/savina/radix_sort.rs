//! A chain of sorters, one for each bit.

use crate::kernel;
use crate::plan::{Outcome, Plan};
use crate::{BATCH, finish::Finish};
use postroom::prelude::*;
use std::time::Instant;

/// A process that passes on numbers without its bit at once. It passes on numbers with its bit once all have arrived.
#[process]
struct Sorter {
    bit: u16,
    /// The next sorter, or the receiver of the sorted numbers.
    next: Recipient<Number>,
    left: u64,
    held: Vec<Number>,
}

#[derive(Clone, Copy)]
struct Number(u16);

#[process]
impl Sorter {
    #[entry]
    fn serve(&mut self) {}

    #[message(Number)]
    fn number(&mut self, ctx: &mut Context<Self>, number: Number) {
        if number.0 & self.bit == 0 {
            self.next.send(number).expect("the next one lives");
        } else {
            self.held.push(number);
        }
        self.left -= 1;
        if self.left == 0 {
            self.release(ctx, 0);
        }
    }

    /// Sends the numbers that were held back, from index `from` on, in batches.
    #[message]
    fn release(&mut self, ctx: &mut Context<Self>, from: usize) {
        let until = self.held.len().min(from + BATCH as usize);
        for &number in &self.held[from..until] {
            self.next.send(number).expect("the next one lives");
        }
        if until < self.held.len() {
            ctx.address().release(until).send().expect("this process lives");
        }
    }
}

#[process]
struct Source {
    numbers: Vec<u16>,
    first: Recipient<Number>,
}

#[process]
impl Source {
    #[entry]
    fn serve(&mut self) {}

    #[message]
    fn produce(&mut self, ctx: &mut Context<Self>, from: usize) {
        let until = self.numbers.len().min(from + BATCH as usize);
        for &number in &self.numbers[from..until] {
            self.first.send(Number(number)).expect("the first one lives");
        }
        if until < self.numbers.len() {
            ctx.address().produce(until).send().expect("this process lives");
        }
    }
}

/// The receiver of the sorted numbers.
#[process]
struct Sink {
    numbers: Vec<u16>,
    until: usize,
    done: Recipient<Vec<u16>>,
}

#[process]
impl Sink {
    #[entry]
    fn serve(&mut self) {}

    #[message(Number)]
    fn number(&mut self, number: Number) {
        self.numbers.push(number.0);
        if self.numbers.len() == self.until {
            self.done.send(std::mem::take(&mut self.numbers)).expect("somebody waits");
        }
    }
}

pub fn radix_sort(runtime: &Runtime, plan: &Plan) -> Outcome {
    let mut finish = Finish::new();
    let sink = Sink { numbers: Vec::new(), until: plan.size as usize, done: finish.recipient() };
    let mut next: Recipient<Number> = runtime.spawn(sink).serve().expect("a sink").narrow();
    // The sorters are spawned from the last one, for the highest bit, to the first.
    for bit in (0..u16::BITS).rev() {
        let sorter = Sorter { bit: 1 << bit, next, left: plan.size, held: Vec::new() };
        next = runtime.spawn(sorter).serve().expect("a sorter").narrow();
    }
    let source = Source { numbers: kernel::numbers(plan.size).collect(), first: next };
    let source = runtime.spawn(source).serve().expect("a source");
    let start = Instant::now();
    source.produce(0).send().expect("a living source");
    let sorted = finish.wait();
    let elapsed = start.elapsed();
    let check = kernel::sorted_check(sorted.into_iter());
    Outcome { elapsed, operations: plan.size * u64::from(u16::BITS), check, ..Outcome::default() }
}
