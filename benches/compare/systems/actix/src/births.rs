//! Processes that start and stop: fork_join_create, skynet, idle_memory.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use ::actix::prelude::*;

use super::finish::{Finish, finish};
use super::{Begin, in_system};
use crate::plan::{Outcome, Plan};

/// Number of children that are alive at once. This was better than 1,000.
const BATCH: u64 = 128;

/// A process that reports its number and stops.
struct Child {
    collector: Addr<Collector>,
}

impl Actor for Child {
    type Context = Context<Self>;
}

#[derive(Message)]
#[rtype(result = "()")]
struct Number(u64);

impl Handler<Number> for Child {
    type Result = ();

    fn handle(&mut self, number: Number, ctx: &mut Context<Self>) {
        self.collector.do_send(number);
        ctx.stop();
    }
}

/// An actor that adds up the numbers. It stops when its last address is dropped. This happens when all children have
/// stopped.
struct Collector {
    spawner: Addr<Spawner>,
    reports: u64,
    sum: u64,
    finish: Option<Finish>,
}

impl Actor for Collector {
    type Context = Context<Self>;

    fn stopped(&mut self, _: &mut Context<Self>) {
        self.finish.take().expect("an actor should stop once").with(self.sum);
    }
}

impl Handler<Number> for Collector {
    type Result = ();

    fn handle(&mut self, Number(number): Number, _: &mut Context<Self>) {
        self.sum += number;
        self.reports += 1;
        if self.reports.is_multiple_of(BATCH) {
            self.spawner.do_send(Begin);
        }
    }
}

struct Spawner {
    next: u64,
    size: u64,
    collector: Option<Addr<Collector>>,
}

impl Actor for Spawner {
    type Context = Context<Self>;
}

#[derive(Message)]
#[rtype(result = "()")]
struct Meet(Addr<Collector>);

impl Handler<Meet> for Spawner {
    type Result = ();

    fn handle(&mut self, Meet(collector): Meet, _: &mut Context<Self>) {
        self.collector = Some(collector);
    }
}

impl Handler<Begin> for Spawner {
    type Result = ();

    /// Spawns the next batch.
    fn handle(&mut self, _: Begin, _: &mut Context<Self>) {
        let Some(collector) = &self.collector else { return };
        let end = self.size.min(self.next + BATCH);
        for number in self.next..end {
            Child { collector: collector.clone() }.start().do_send(Number(number));
        }
        self.next = end;
        if end == self.size {
            self.collector = None;
        }
    }
}

/// Runs all actors on one arbiter. To start an actor on another arbiter would take a message and a boxed function.
pub fn fork_join_create(plan: &Plan) -> Outcome {
    in_system(plan.workers, async |_| {
        let (finish, finished) = finish();
        let spawner = Spawner { next: 0, size: plan.size, collector: None }.start();
        let collector = Collector { spawner: spawner.clone(), reports: 0, sum: 0, finish: Some(finish) }.start();
        spawner.do_send(Meet(collector));
        let start = Instant::now();
        spawner.do_send(Begin);
        finished.outcome(start, plan.size).await
    })
}

enum Parent {
    Node(Addr<Node>),
    Main(Option<Finish>),
}

/// A node or a leaf of the tree.
struct Node {
    parent: Parent,
    number: u64,
    /// Number of leaves below this node.
    size: u64,
    missing: u32,
    sum: u64,
    /// Arbiters for the children. If there are none, the children start on the arbiter of this node.
    places: Vec<ArbiterHandle>,
}

impl Node {
    fn report(&mut self, ctx: &mut Context<Self>) {
        match &mut self.parent {
            Parent::Node(parent) => parent.do_send(Sum(self.sum)),
            Parent::Main(finish) => finish.take().expect("a root should finish once").with(self.sum),
        }
        ctx.stop();
    }
}

impl Actor for Node {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Context<Self>) {
        if self.size == 1 {
            self.sum = self.number;
            return self.report(ctx);
        }
        self.missing = 10;
        let size = self.size / 10;
        for index in 0..10 {
            let parent = Parent::Node(ctx.address());
            let number = self.number + index * size;
            let child = Node { parent, number, size, missing: 0, sum: 0, places: Vec::new() };
            if self.places.is_empty() {
                child.start();
            } else {
                let place = &self.places[index as usize % self.places.len()];
                Node::start_in_arbiter(place, move |_| child);
            }
        }
    }
}

#[derive(Message)]
#[rtype(result = "()")]
struct Sum(u64);

impl Handler<Sum> for Node {
    type Result = ();

    fn handle(&mut self, Sum(sum): Sum, ctx: &mut Context<Self>) {
        self.sum += sum;
        self.missing -= 1;
        if self.missing == 0 {
            self.report(ctx);
        }
    }
}

/// Spreads the ten subtrees of the root over all arbiters. Each subtree is on one arbiter.
pub fn skynet(plan: &Plan) -> Outcome {
    in_system(plan.workers, async |places| {
        let (finish, finished) = finish();
        let parent = Parent::Main(Some(finish));
        let places = if places.count() > 1 { places.0 } else { Vec::new() };
        let start = Instant::now();
        Node { parent, number: 0, size: plan.size, missing: 0, sum: 0, places }.start();
        finished.outcome(start, plan.size).await
    })
}

/// Number of messages that all idle actors have handled. The actors have no address to which they could report.
static HANDLED: AtomicU64 = AtomicU64::new(0);

struct Idle {
    count: u64,
}

impl Actor for Idle {
    type Context = Context<Self>;
}

impl Handler<Begin> for Idle {
    type Result = ();

    fn handle(&mut self, _: Begin, _: &mut Context<Self>) {
        self.count += 1;
        HANDLED.fetch_add(self.count, Ordering::Relaxed);
    }
}

/// An actor that spawns the idle actors. It returns their addresses, and the time that the spawns took.
struct Nest;

impl Actor for Nest {
    type Context = Context<Self>;
}

#[derive(Message)]
#[rtype(result = "(Duration, Vec<Addr<Idle>>)")]
struct Hatch(u64);

impl Handler<Hatch> for Nest {
    type Result = MessageResult<Hatch>;

    fn handle(&mut self, Hatch(size): Hatch, _: &mut Context<Self>) -> Self::Result {
        let start = Instant::now();
        let idle = (0..size).map(|_| Idle { count: 0 }.start()).collect();
        MessageResult((start.elapsed(), idle))
    }
}

/// Runs all actors on one arbiter. Idle actors need no second thread, and a spawn on the same arbiter is the cheapest.
pub fn idle_memory(plan: &Plan) -> Outcome {
    in_system(plan.workers, async |_| {
        HANDLED.store(0, Ordering::Relaxed);
        let nest = Nest.start();
        let before = resident_bytes();
        let (elapsed, idle) = nest.send(Hatch(plan.size)).await.expect("the nest should answer");
        for actor in &idle {
            actor.do_send(Begin);
        }
        while HANDLED.load(Ordering::Relaxed) < plan.size {
            ::actix::clock::sleep(Duration::from_millis(1)).await;
        }
        let grown = resident_bytes() - before;
        Outcome {
            elapsed,
            operations: plan.size,
            check: HANDLED.load(Ordering::Relaxed),
            bytes_per_process: Some(grown / plan.size as f64),
            ..Outcome::default()
        }
    })
}

/// Returns the resident set of this operating system process.
fn resident_bytes() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("the status of a Linux process");
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).expect("a line for the resident set");
    let kibibytes = line.split_whitespace().nth(1).expect("a number").parse::<f64>().expect("a number");
    kibibytes * 1_024.0
}
