//! Processes that start, live briefly or idle, and end.

use std::fs;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use ::tokio::spawn;
use ::tokio::task::{JoinHandle, yield_now};
use ::xtra::{Actor, Address, Context, Handler, Mailbox};

use super::{mailbox, outcome, tell};
use crate::plan::Outcome;

/// Number of processes that are spawned before they get a turn. Without such turns, a single worker would hold all
/// processes at once, and their memory would not stay in the caches. With one worker, this number was the best of 1,
/// 16, 128, 1,024 and no turns at all (which took two to four times as long). With two workers, the noise was greater
/// than the difference.
const LITTER: u64 = 128;

/// A process that adds up the numbers that it gets.
struct Collector {
    sum: u64,
}

impl Actor for Collector {
    type Stop = u64;

    async fn stopped(self) -> u64 {
        self.sum
    }
}

impl Handler<u64> for Collector {
    type Return = ();

    async fn handle(&mut self, number: u64, _context: &mut Context<Self>) {
        self.sum += number;
    }
}

/// A process that reports one number and then ends.
struct Shortlived {
    collector: Address<Collector>,
}

impl Actor for Shortlived {
    type Stop = ();

    async fn stopped(self) {}
}

impl Handler<u64> for Shortlived {
    type Return = ();

    async fn handle(&mut self, number: u64, context: &mut Context<Self>) {
        tell(&self.collector, number).await;
        context.stop_self();
    }
}

pub async fn fork_join_create(bound: Option<usize>, size: u64) -> Outcome {
    let (collector, inbox) = mailbox(bound);
    // The collector stops once the last process has ended and dropped its address. So it sees all of them end.
    let collecting = spawn(::xtra::run(inbox, Collector { sum: 0 }));

    let start = Instant::now();
    for number in 0..size {
        let address = ::xtra::spawn_tokio(Shortlived { collector: collector.clone() }, mailbox(bound));
        tell(&address, number).await;
        if number % LITTER == LITTER - 1 {
            yield_now().await;
        }
    }
    drop(collector);
    let sum = collecting.await.expect("the collector ends well");
    outcome(start.elapsed(), size, sum)
}

/// Number of children of each process that is not a leaf.
const CHILDREN: u64 = 10;

/// A leaf, or a process above `leaves` leaves.
struct Node {
    bound: Option<usize>,
    parent: Option<Address<Self>>,
    /// The node's own address, for its children.
    own: Option<Address<Self>>,
    /// The number of the first leaf below the node.
    first: u64,
    leaves: u64,
    sum: u64,
    reports: u64,
}

impl Actor for Node {
    /// The sum of the numbers of the leaves below the node.
    type Stop = u64;

    async fn started(&mut self, _mailbox: &Mailbox<Self>) -> Result<(), u64> {
        if self.leaves == 1 {
            self.sum = self.first;
            self.report().await;
            return Err(self.sum);
        }
        let own = self.own.take().expect("a process starts once");
        let leaves = self.leaves / CHILDREN;
        for child in 0..CHILDREN {
            spawn_node(self.bound, Some(own.clone()), self.first + child * leaves, leaves);
        }
        Ok(())
    }

    async fn stopped(self) -> u64 {
        self.report().await;
        self.sum
    }
}

impl Node {
    async fn report(&self) {
        if let Some(parent) = &self.parent {
            tell(parent, self.sum).await;
        }
    }
}

impl Handler<u64> for Node {
    type Return = ();

    async fn handle(&mut self, part: u64, context: &mut Context<Self>) {
        self.sum += part;
        self.reports += 1;
        if self.reports == CHILDREN {
            context.stop_self();
        }
    }
}

fn spawn_node(bound: Option<usize>, parent: Option<Address<Node>>, first: u64, leaves: u64) -> JoinHandle<u64> {
    let (own, inbox) = mailbox(bound);
    let node = Node { bound, parent, own: Some(own), first, leaves, sum: 0, reports: 0 };
    spawn(::xtra::run(inbox, node))
}

pub async fn skynet(bound: Option<usize>, size: u64) -> Outcome {
    let start = Instant::now();
    let sum = spawn_node(bound, None, 0, size).await.expect("the first process ends well");
    outcome(start.elapsed(), size, sum)
}

/// A process that adds up the numbers that it gets, forever.
struct Idle {
    sum: u64,
}

/// The number of messages handled. It is counted here because a mailbox for reports would be part of the measured
/// memory.
static HANDLED: AtomicU64 = AtomicU64::new(0);

impl Actor for Idle {
    type Stop = ();

    async fn stopped(self) {}
}

impl Handler<u64> for Idle {
    type Return = ();

    async fn handle(&mut self, number: u64, _context: &mut Context<Self>) {
        self.sum += number;
        HANDLED.fetch_add(self.sum, Ordering::Relaxed);
    }
}

pub async fn idle_memory(bound: Option<usize>, size: u64) -> Outcome {
    let mut addresses = Vec::with_capacity(size as usize);
    let before = resident_bytes();
    let start = Instant::now();
    for number in 0..size {
        addresses.push(::xtra::spawn_tokio(Idle { sum: 0 }, mailbox(bound)));
        if number % LITTER == LITTER - 1 {
            yield_now().await;
        }
    }
    let elapsed = start.elapsed();

    for (number, address) in (0..).zip(&addresses) {
        tell(address, 1_u64).await;
        if number % LITTER == LITTER - 1 {
            yield_now().await;
        }
    }
    while HANDLED.load(Ordering::Relaxed) < size {
        yield_now().await;
    }
    let growth = resident_bytes() - before;
    let bytes_per_process = Some(growth / size as f64);
    Outcome { bytes_per_process, ..outcome(elapsed, size, HANDLED.load(Ordering::Relaxed)) }
}

fn resident_bytes() -> f64 {
    let status = fs::read_to_string("/proc/self/status").expect("Linux");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("a line for the resident set");
    let kibibytes: f64 = line.trim().trim_end_matches(" kB").parse().expect("a number of kibibytes");
    kibibytes * 1024.0
}
