//! Processes that are spawned, and what they cost.

use super::BATCH;
use super::finish::Finish;
use crate::plan::{Outcome, Plan};
use postroom::prelude::*;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

/// A process that does one job and then stops.
#[process]
struct Worker {
    collector: Address<Collector>,
}

#[process]
impl Worker {
    #[entry]
    fn serve(&mut self) {}

    #[message]
    fn work(&mut self, ctx: &mut Context<Self>, number: u64) {
        self.collector.report(number).send().expect("the collector lives");
        ctx.stop();
    }
}

#[process]
struct Collector {
    sum: u64,
    left: u64,
    done: Recipient<u64>,
}

#[process]
impl Collector {
    #[entry]
    fn serve(&mut self) {}

    #[message]
    fn report(&mut self, number: u64) {
        self.sum += number;
        self.left -= 1;
        if self.left == 0 {
            self.done.send(self.sum).expect("somebody waits");
        }
    }
}

#[process]
struct Parent {
    collector: Address<Collector>,
    until: u64,
}

#[process]
impl Parent {
    #[entry]
    fn serve(&mut self) {}

    #[message]
    fn fork(&mut self, ctx: &mut Context<Self>, from: u64) {
        let until = self.until.min(from + BATCH);
        for number in from..until {
            let worker = ctx.spawn(Worker { collector: self.collector }).serve().expect("a worker");
            worker.work(number).send().expect("a living worker");
        }
        if until < self.until {
            ctx.address().fork(until).send().expect("this process lives");
        }
    }
}

pub fn fork_join_create(runtime: &Runtime, plan: &Plan) -> Outcome {
    let mut finish = Finish::new();
    let collector = Collector { sum: 0, left: plan.size, done: finish.recipient() };
    let collector = runtime.spawn(collector).serve().expect("a collector");
    let parent = runtime.spawn(Parent { collector, until: plan.size }).serve().expect("a parent");
    let start = Instant::now();
    parent.fork(0).send().expect("a living parent");
    let check = finish.wait();
    // The last workers have reported, and are about to stop. The parent and the collector do not stop.
    while runtime.statistics().processes.live > 2 {
        std::thread::yield_now();
    }
    Outcome { elapsed: start.elapsed(), operations: plan.size, check, ..Outcome::default() }
}

/// Number of children of an inner node of skynet.
const CHILDREN: u64 = 10;

/// A node of skynet's tree. An async entry that receives the sums of its children would be shorter, but would take a
/// tenth more processor time.
#[process]
struct Node {
    parent: Recipient<NodeReport>,
    sum: u64,
    missing: u64,
}

#[process]
impl Node {
    #[entry]
    fn serve(&mut self) {}

    /// Makes the process the root of `leaves` leaves, whose numbers begin at `first`.
    #[message]
    fn grow(&mut self, ctx: &mut Context<Self>, first: u64, leaves: u64) {
        if leaves == 1 {
            self.sum = first;
            return self.end(ctx);
        }
        self.missing = CHILDREN;
        let leaves = leaves / CHILDREN;
        for child in 0..CHILDREN {
            let node = Node { parent: ctx.address().narrow(), sum: 0, missing: 0 };
            let node = ctx.spawn(node).serve().expect("a child");
            node.grow(first + child * leaves, leaves).send().expect("a living child");
        }
    }

    #[message]
    fn report(&mut self, ctx: &mut Context<Self>, sum: u64) {
        self.sum += sum;
        self.missing -= 1;
        if self.missing == 0 {
            self.end(ctx);
        }
    }

    fn end(&self, ctx: &mut Context<Self>) {
        self.parent.send(NodeReport { sum: self.sum }).expect("the parent lives");
        ctx.stop();
    }
}

pub fn skynet(runtime: &Runtime, plan: &Plan) -> Outcome {
    let mut finish = Finish::new();
    let start = Instant::now();
    let root = runtime.spawn(Node { parent: finish.recipient(), sum: 0, missing: 0 }).serve().expect("a root");
    root.grow(0, plan.size).send().expect("a living root");
    let NodeReport { sum: check } = finish.wait();
    Outcome { elapsed: start.elapsed(), operations: plan.size, check, ..Outcome::default() }
}

/// Number of messages that all idle processes have handled. Reports would wait in a mailbox, and so be part of the
/// measured memory. The programs of the other systems count in the same way.
static HANDLED: AtomicU64 = AtomicU64::new(0);

/// A process with eight bytes of state that waits for messages.
#[process]
struct Idle {
    handled: u64,
}

#[process]
impl Idle {
    #[entry]
    fn serve(&mut self) {}

    #[message]
    fn count(&mut self) {
        self.handled += 1;
        HANDLED.fetch_add(self.handled, Ordering::Relaxed);
    }
}

/// A process that spawns all idle processes, reports that it has done so, and then sends to all of them.
#[process]
struct Keeper {
    idle: Vec<Address<Idle>>,
    until: usize,
    done: Recipient<u64>,
}

#[process]
impl Keeper {
    #[entry]
    fn serve(&mut self) {}

    #[message]
    fn raise(&mut self, ctx: &mut Context<Self>) {
        let until = self.until.min(self.idle.len() + BATCH as usize);
        while self.idle.len() < until {
            self.idle.push(ctx.spawn(Idle { handled: 0 }).serve().expect("a process"));
        }
        if until < self.until {
            ctx.address().raise().send().expect("this process lives");
        } else {
            self.done.send(0).expect("somebody waits");
        }
    }

    #[message]
    fn count(&mut self, ctx: &mut Context<Self>, from: usize) {
        let until = self.until.min(from + BATCH as usize);
        for idle in &self.idle[from..until] {
            idle.count().send().expect("the process lives");
        }
        if until < self.until {
            ctx.address().count(until).send().expect("this process lives");
        }
    }
}

pub fn idle_memory(runtime: &Runtime, plan: &Plan) -> Outcome {
    HANDLED.store(0, Ordering::Relaxed);
    let mut finish = Finish::new();
    let keeper = Keeper { idle: Vec::new(), until: plan.size as usize, done: finish.recipient() };
    let keeper = runtime.spawn(keeper).serve().expect("a keeper");
    let before = resident_bytes();
    let start = Instant::now();
    keeper.raise().send().expect("a living keeper");
    finish.wait();
    let elapsed = start.elapsed();
    keeper.count(0).send().expect("a living keeper");
    runtime.until_idle().expect("no process waits");
    let check = HANDLED.load(Ordering::Relaxed);
    let grown = resident_bytes().zip(before).map(|(after, before)| after - before);
    let bytes_per_process = grown.map(|grown| grown / plan.size as f64);
    Outcome { elapsed, operations: plan.size, check, bytes_per_process, ..Outcome::default() }
}

/// Returns the resident set of this program, if the system reports it.
fn resident_bytes() -> Option<f64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kibibytes: f64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kibibytes * 1024.0)
}
