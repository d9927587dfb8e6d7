//! Processes that implement the trait `Process` by hand, for the sweeps that vary the style. Such a process is known by
//! its PID, so `Via::Pid` and `Via::Address` are the same for it.

use super::finish::Finish;
use super::{BATCH, share};
use crate::plan::{Outcome, Plan, Via};
use postroom::manual::{Event, Events, Process, StepOutput};
use postroom::prelude::*;
use std::time::Instant;

struct Player<const N: usize> {
    partner: Option<Pid>,
    received: u64,
    done: Recipient<()>,
}

struct Meet(Pid);

struct Ball<const N: usize> {
    left: u64,
    payload: [u8; N],
}

/// A call for the number of balls that were received.
struct Received;

impl<const N: usize> Process for Player<N> {
    fn step(&mut self, events: &mut Events<'_>, _: &mut StepOutput<'_>) -> Result<(), ProcessError> {
        while let Some(event) = events.next() {
            let Event::Message(package) = event else { continue };
            let package = match package.take::<Ball<N>>() {
                Ok(ball) => {
                    self.ball(ball)?;
                    continue;
                }
                Err(package) => package,
            };
            match package.take::<Meet>() {
                Ok(Meet(partner)) => self.partner = Some(partner),
                // If it is any other message, it becomes a dead letter.
                Err(package) => drop(package.answer(|Received| self.received)),
            }
        }
        Ok(())
    }
}

impl<const N: usize> Player<N> {
    fn ball(&mut self, Ball { left, payload }: Ball<N>) -> Result<(), ProcessError> {
        self.received += 1;
        let Some(left) = left.checked_sub(1) else { return Ok(self.done.send(())?) };
        let partner = self.partner.expect("players have met");
        Ok(Recipient::<Ball<N>>::of(partner).send(Ball { left, payload })?)
    }
}

pub fn ping_pong(runtime: &Runtime, plan: &Plan) -> Option<Outcome> {
    match plan.payload {
        _ if plan.via == Via::Name => None,
        0 => Some(play::<0>(runtime, plan)),
        32 => Some(play::<32>(runtime, plan)),
        256 => Some(play::<256>(runtime, plan)),
        512 => Some(play::<512>(runtime, plan)),
        4_096 => Some(play::<4_096>(runtime, plan)),
        _ => None,
    }
}

fn play<const N: usize>(runtime: &Runtime, plan: &Plan) -> Outcome {
    let mut finish = Finish::new();
    let spawn = |partner| {
        let player = Player::<N> { partner, received: 0, done: finish.recipient() };
        runtime.spawn_process(player).start().expect("a player")
    };
    let one = spawn(None);
    let other = spawn(Some(one));
    runtime.send(one, Meet(other)).expect("a living player");
    let start = Instant::now();
    runtime.send(one, Ball { left: plan.size - 1, payload: [1; N] }).expect("a living player");
    finish.wait();
    let elapsed = start.elapsed();
    let received = |player| Recipient::<Received, u64>::of(player).call(Received).wait().expect("a living player");
    Outcome { elapsed, operations: plan.size, check: received(one) + received(other), ..Outcome::default() }
}

/// A process that adds up the numbers of all producers.
struct Consumer<const N: usize> {
    /// The next number expected from each producer.
    expected: Vec<u64>,
    sum: u64,
    left: u64,
    done: Recipient<u64>,
}

struct Number<const N: usize> {
    producer: usize,
    number: u64,
    _payload: [u8; N],
}

impl<const N: usize> Process for Consumer<N> {
    fn step(&mut self, events: &mut Events<'_>, _: &mut StepOutput<'_>) -> Result<(), ProcessError> {
        while let Some(event) = events.next() {
            let Event::Message(package) = event else { continue };
            let Ok(Number::<N> { producer, number, .. }) = package.take() else { continue };
            assert_eq!(number, self.expected[producer], "numbers come in order");
            self.expected[producer] += 1;
            self.sum += number;
            self.left -= 1;
            if self.left == 0 {
                self.done.send(self.sum)?;
            }
        }
        Ok(())
    }
}

struct Producer<const N: usize> {
    index: usize,
    consumer: Recipient<Number<N>>,
    next: u64,
    until: u64,
    started: bool,
}

struct Start;

impl<const N: usize> Process for Producer<N> {
    fn step(&mut self, events: &mut Events<'_>, out: &mut StepOutput<'_>) -> Result<(), ProcessError> {
        while let Some(event) = events.next() {
            if let Event::Message(package) = event {
                self.started |= package.take::<Start>().is_ok();
            }
        }
        if !self.started {
            return Ok(());
        }
        let until = self.until.min(self.next + BATCH);
        for number in self.next..until {
            self.consumer.send(Number { producer: self.index, number, _payload: [1; N] })?;
        }
        self.next = until;
        if until < self.until {
            out.go_on();
        }
        Ok(())
    }
}

pub fn counting(runtime: &Runtime, plan: &Plan) -> Option<Outcome> {
    match plan.payload {
        _ if plan.via == Via::Name => None,
        0 => Some(count::<0>(runtime, plan, 1)),
        32 => Some(count::<32>(runtime, plan, 1)),
        256 => Some(count::<256>(runtime, plan, 1)),
        512 => Some(count::<512>(runtime, plan, 1)),
        4_096 => Some(count::<4_096>(runtime, plan, 1)),
        _ => None,
    }
}

pub fn fan_in(runtime: &Runtime, plan: &Plan) -> Outcome {
    count::<0>(runtime, plan, plan.width)
}

fn count<const N: usize>(runtime: &Runtime, plan: &Plan, producers: u64) -> Outcome {
    let mut finish = Finish::new();
    let expected = vec![0; producers as usize];
    let consumer = Consumer::<N> { expected, sum: 0, left: plan.size, done: finish.recipient() };
    let consumer = Recipient::of(runtime.spawn_process(consumer).start().expect("a consumer"));
    let producers: Vec<_> = (0..producers)
        .map(|index| {
            let until = share(plan.size, producers, index);
            let producer = Producer::<N> { index: index as usize, consumer, next: 0, until, started: false };
            runtime.spawn_process(producer).start().expect("a producer")
        })
        .collect();
    let start = Instant::now();
    for producer in producers {
        runtime.send(producer, Start).expect("a living producer");
    }
    let check = finish.wait();
    Outcome { elapsed: start.elapsed(), operations: plan.size, check, ..Outcome::default() }
}
