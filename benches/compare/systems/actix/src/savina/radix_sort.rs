//! Numbers that go through a chain of sorters, one for each bit.

use std::time::Instant;

use ::actix::prelude::*;

use super::super::finish::{Finish, finish};
use super::super::{Begin, in_system};
use crate::kernel;
use crate::plan::{Outcome, Plan};

#[derive(Clone, Copy, Message)]
#[rtype(result = "()")]
struct Number(u16);

struct Sorter {
    bit: u32,
    missing: u64,
    /// Numbers that have the bit set. They are passed on after all others.
    held: Vec<Number>,
    next: Recipient<Number>,
}

impl Actor for Sorter {
    type Context = Context<Self>;
}

impl Handler<Number> for Sorter {
    type Result = ();

    fn handle(&mut self, number: Number, _: &mut Context<Self>) {
        if number.0 >> self.bit & 1 == 0 {
            self.next.do_send(number);
        } else {
            self.held.push(number);
        }
        self.missing -= 1;
        if self.missing == 0 {
            for number in self.held.drain(..) {
                self.next.do_send(number);
            }
        }
    }
}

struct Sorted {
    size: usize,
    numbers: Vec<u16>,
    finish: Option<Finish>,
}

impl Actor for Sorted {
    type Context = Context<Self>;
}

impl Handler<Number> for Sorted {
    type Result = ();

    fn handle(&mut self, Number(number): Number, _: &mut Context<Self>) {
        self.numbers.push(number);
        if self.numbers.len() == self.size {
            let end = Instant::now();
            let check = kernel::sorted_check(self.numbers.iter().copied());
            self.finish.take().expect("the end of the chain should finish once").at(end, check);
        }
    }
}

struct Source {
    size: u64,
    first: Recipient<Number>,
}

impl Actor for Source {
    type Context = Context<Self>;
}

impl Handler<Begin> for Source {
    type Result = ();

    fn handle(&mut self, _: Begin, _: &mut Context<Self>) {
        for number in kernel::numbers(self.size) {
            self.first.do_send(Number(number));
        }
    }
}

/// Runs the first half of the chain on one arbiter, and the second half on the other.
pub fn radix_sort(plan: &Plan) -> Outcome {
    in_system(plan.workers, async |places| {
        let (finish, finished) = finish();
        let sorted = Sorted { size: plan.size as usize, numbers: Vec::new(), finish: Some(finish) };
        let end = places.start(places.count() - 1, sorted).recipient();
        let first = (0..u16::BITS).rev().fold(end, |next, bit| {
            let place = (bit * places.count() as u32 / u16::BITS) as usize;
            places.start(place, Sorter { bit, missing: plan.size, held: Vec::new(), next }).recipient()
        });
        let source = Source { size: plan.size, first }.start();
        let start = Instant::now();
        source.do_send(Begin);
        finished.outcome(start, plan.size * u64::from(u16::BITS)).await
    })
}
