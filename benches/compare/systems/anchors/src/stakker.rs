//! stakker: actors on a single thread, without atomics, tasks, or isolation of panics. A message is a closure in a byte
//! buffer.

use crate::{FromOne, LITTER, Sum, is_plain, outcome, share};
use compare_frame::plan::{Outcome, Plan, Workload};
use stakker::{Actor, ActorOwn, CX, Ret, Stakker, actor, call, ret, ret_nop, ret_some_to};
use std::time::Instant;

pub fn run(plan: &Plan) -> Option<Outcome> {
    if !is_plain(plan) || plan.workers != 1 {
        return None;
    }
    let stakker = &mut Stakker::new(Instant::now());
    match plan.workload {
        Workload::PingPong => Some(circles(stakker, plan.size, 1, 2)),
        Workload::PingPongPairs => Some(circles(stakker, plan.size, plan.width, 2)),
        Workload::ThreadRing => Some(circles(stakker, plan.size, 1, plan.width)),
        Workload::Counting => Some(numbers(stakker, plan.size, 1)),
        Workload::FanIn => Some(numbers(stakker, plan.size, plan.width)),
        Workload::Ask => Some(ask(stakker, plan.size)),
        _ => None,
    }
}

/// Runs all calls that are pending, and all calls that those make.
fn finish(stakker: &mut Stakker) {
    stakker.run(Instant::now(), false);
}

struct Player {
    next: Option<Actor<Player>>,
    received: u64,
}

impl Player {
    fn init(_: CX![]) -> Option<Self> {
        Some(Self { next: None, received: 0 })
    }

    fn meet(&mut self, _: CX![], next: Actor<Player>) {
        self.next = Some(next);
    }

    fn ball(&mut self, _: CX![], left: u64) {
        self.received += 1;
        if let Some(left) = left.checked_sub(1) {
            let next = self.next.as_ref().expect("players have met");
            call!([next], ball(left));
        }
    }
}

fn circles(stakker: &mut Stakker, size: u64, circles: u64, width: u64) -> Outcome {
    let mut players: Vec<Vec<ActorOwn<Player>>> = Vec::new();
    for _ in 0..circles {
        let circle: Vec<_> = (0..width).map(|_| actor!(stakker, Player::init(), ret_nop!())).collect();
        for (player, next) in circle.iter().zip(circle.iter().cycle().skip(1)) {
            call!([player], meet((**next).clone()));
        }
        players.push(circle);
    }
    finish(stakker);
    let start = Instant::now();
    for (circle, index) in players.iter().zip(0..) {
        call!([circle[0]], ball(share(size, circles, index) - 1));
    }
    finish(stakker);
    let elapsed = start.elapsed();
    let received = players.iter().flatten().map(|player| player.query(stakker, |player, _| player.received));
    outcome(elapsed, size, received.map(|received| received.expect("a living player")).sum())
}

struct Consumer(Sum);

impl Consumer {
    fn init(_: CX![], producers: u64) -> Option<Self> {
        Some(Self(Sum::of(producers)))
    }

    fn number(&mut self, _: CX![], number: FromOne) {
        self.0.add(number);
    }
}

struct Producer {
    consumer: Actor<Consumer>,
    index: usize,
    until: u64,
}

impl Producer {
    fn init(_: CX![], consumer: Actor<Consumer>, index: usize, until: u64) -> Option<Self> {
        Some(Self { consumer, index, until })
    }

    fn produce(&mut self, cx: CX![], from: u64, litter: u64) {
        let to = self.until.min(from + litter);
        for number in from..to {
            call!([self.consumer], number(FromOne { producer: self.index, number }));
        }
        if to < self.until {
            call!([cx], produce(to, litter));
        }
    }
}

fn numbers(stakker: &mut Stakker, size: u64, width: u64) -> Outcome {
    let consumer = actor!(stakker, Consumer::init(width), ret_nop!());
    let producers: Vec<_> = (0..width)
        .map(|index| {
            let until = share(size, width, index);
            actor!(stakker, Producer::init(consumer.clone(), index as usize, until), ret_nop!())
        })
        .collect();
    finish(stakker);
    let litter = (LITTER / width).max(1);
    let start = Instant::now();
    for producer in &producers {
        call!([producer], produce(0, litter));
    }
    finish(stakker);
    let elapsed = start.elapsed();
    outcome(elapsed, size, consumer.query(stakker, |consumer, _| consumer.0.sum).expect("a living consumer"))
}

struct Callee;

impl Callee {
    fn init(_: CX![]) -> Option<Self> {
        Some(Self)
    }

    fn next(&mut self, _: CX![], number: u64, reply: Ret<u64>) {
        ret!([reply], number + 1);
    }
}

struct Caller {
    callee: Actor<Callee>,
    size: u64,
    sum: u64,
    /// When the open call began, if calls are measured.
    asked: Option<Instant>,
    latencies: Vec<u64>,
}

impl Caller {
    fn init(_: CX![], callee: Actor<Callee>, size: u64) -> Option<Self> {
        Some(Self { callee, size, sum: 0, asked: None, latencies: Vec::new() })
    }

    /// Makes all calls, starting with this one.
    fn ask(&mut self, cx: CX![], number: u64, is_measured: bool) {
        self.asked = is_measured.then(Instant::now);
        let reply = ret_some_to!([cx], answered(number) as (u64));
        call!([self.callee], next(number, reply));
    }

    fn answered(&mut self, cx: CX![], number: u64, answer: u64) {
        if let Some(asked) = self.asked {
            self.latencies.push(asked.elapsed().as_nanos() as u64);
        }
        assert_eq!(answer, number + 1, "the answer to this very call");
        self.sum += answer;
        if answer < self.size {
            let is_measured = self.asked.is_some();
            self.ask(cx, answer, is_measured);
        }
    }
}

fn ask(stakker: &mut Stakker, size: u64) -> Outcome {
    let callee = actor!(stakker, Callee::init(), ret_nop!());
    let caller = actor!(stakker, Caller::init(callee.clone(), size), ret_nop!());
    call!([caller], ask(0, true));
    finish(stakker);
    let take = |caller: &mut Caller| (std::mem::take(&mut caller.sum), std::mem::take(&mut caller.latencies));
    let (_, latencies) = caller.query(stakker, |caller, _| take(caller)).expect("a living caller");
    let start = Instant::now();
    call!([caller], ask(0, false));
    finish(stakker);
    let elapsed = start.elapsed();
    let (sum, _) = caller.query(stakker, |caller, _| take(caller)).expect("a living caller");
    Outcome { latencies, ..outcome(elapsed, size, sum) }
}
