//! Processes that start and stop: fork_join_create, skynet, idle_memory.

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use ::ractor::{Actor, ActorProcessingErr, ActorRef, RpcReplyPort};

use super::finish::{Finish, finish};
use super::{send, start};
use crate::plan::{Outcome, Plan};

/// Number of children that are alive at once. This was better than 10,000.
const BATCH: u64 = 1_000;

/// Tells a process to begin.
struct Begin;

struct Number(u64);

/// A process that reports its number and stops.
struct Child;

impl Actor for Child {
    type Msg = Number;
    type State = ActorRef<Collected>;
    type Arguments = ActorRef<Collected>;

    state_from_arguments!();

    async fn handle(
        &self,
        me: ActorRef<Number>,
        Number(number): Number,
        collector: &mut ActorRef<Collected>,
    ) -> Result<(), ActorProcessingErr> {
        send(collector, Collected::Number(number));
        me.stop(None);
        Ok(())
    }
}

/// An actor that adds up the numbers of the children.
struct Collector;

enum Collected {
    Number(u64),
    /// All children have stopped.
    End,
}

struct CollectorState {
    sum: u64,
    finish: Option<Finish>,
}

impl Actor for Collector {
    type Msg = Collected;
    type State = CollectorState;
    type Arguments = CollectorState;

    state_from_arguments!();

    async fn handle(
        &self,
        _: ActorRef<Collected>,
        collected: Collected,
        state: &mut CollectorState,
    ) -> Result<(), ActorProcessingErr> {
        match collected {
            Collected::Number(number) => state.sum += number,
            Collected::End => state.finish.take().expect("a collector should finish once").with(state.sum),
        }
        Ok(())
    }
}

struct Spawner;

struct SpawnerState {
    size: u64,
    collector: ActorRef<Collected>,
}

impl Actor for Spawner {
    type Msg = Begin;
    type State = SpawnerState;
    type Arguments = SpawnerState;

    state_from_arguments!();

    async fn handle(&self, _: ActorRef<Begin>, _: Begin, state: &mut SpawnerState) -> Result<(), ActorProcessingErr> {
        let mut ends = Vec::with_capacity(BATCH as usize);
        for first in (0..state.size).step_by(BATCH as usize) {
            for number in first..state.size.min(first + BATCH) {
                let (child, end) = Actor::spawn(None, Child, state.collector.clone()).await?;
                send(&child, Number(number));
                ends.push(end);
            }
            for end in ends.drain(..) {
                end.await?;
            }
        }
        send(&state.collector, Collected::End);
        Ok(())
    }
}

pub async fn fork_join_create(plan: &Plan) -> Outcome {
    let (finish, finished) = finish();
    let collector = start(Collector, CollectorState { sum: 0, finish: Some(finish) }).await;
    let spawner = start(Spawner, SpawnerState { size: plan.size, collector }).await;
    let start = Instant::now();
    send(&spawner, Begin);
    finished.outcome(start, plan.size).await
}

/// A node or a leaf of the tree.
struct Node;

struct Sum(u64);

enum Parent {
    Node(ActorRef<Sum>),
    Main(Option<Finish>),
}

struct NodeState {
    parent: Parent,
    number: u64,
    /// Number of leaves below this node.
    size: u64,
    missing: u32,
    sum: u64,
}

impl NodeState {
    fn of(parent: Parent, number: u64, size: u64) -> Self {
        Self { parent, number, size, missing: 0, sum: 0 }
    }

    fn report(&mut self, me: &ActorRef<Sum>) {
        match &mut self.parent {
            Parent::Node(parent) => send(parent, Sum(self.sum)),
            Parent::Main(finish) => finish.take().expect("a root should finish once").with(self.sum),
        }
        me.stop(None);
    }
}

/// Starts a node. The future is boxed, because it would otherwise contain the futures of the node's children.
fn start_node(state: NodeState) -> Pin<Box<dyn Future<Output = ActorRef<Sum>> + Send>> {
    Box::pin(start(Node, state))
}

impl Actor for Node {
    type Msg = Sum;
    type State = NodeState;
    type Arguments = NodeState;

    state_from_arguments!();

    async fn post_start(&self, me: ActorRef<Sum>, state: &mut NodeState) -> Result<(), ActorProcessingErr> {
        if state.size == 1 {
            state.sum = state.number;
            state.report(&me);
            return Ok(());
        }
        state.missing = 10;
        let size = state.size / 10;
        for index in 0..10 {
            start_node(NodeState::of(Parent::Node(me.clone()), state.number + index * size, size)).await;
        }
        Ok(())
    }

    async fn handle(&self, me: ActorRef<Sum>, Sum(sum): Sum, state: &mut NodeState) -> Result<(), ActorProcessingErr> {
        state.sum += sum;
        state.missing -= 1;
        if state.missing == 0 {
            state.report(&me);
        }
        Ok(())
    }
}

pub async fn skynet(plan: &Plan) -> Outcome {
    let (finish, finished) = finish();
    let begin = Instant::now();
    start_node(NodeState::of(Parent::Main(Some(finish)), 0, plan.size)).await;
    finished.outcome(begin, plan.size).await
}

/// Number of messages that all idle actors have handled. The actors have no address to which they could report.
static HANDLED: AtomicU64 = AtomicU64::new(0);

struct Idle;

impl Actor for Idle {
    type Msg = Begin;
    type State = u64;
    type Arguments = u64;

    state_from_arguments!();

    async fn handle(&self, _: ActorRef<Begin>, _: Begin, count: &mut u64) -> Result<(), ActorProcessingErr> {
        *count += 1;
        HANDLED.fetch_add(*count, Ordering::Relaxed);
        Ok(())
    }
}

/// An actor that spawns the idle actors. It returns their addresses, and the time that the spawns took.
struct Nest;

struct Hatch {
    size: u64,
    reply: RpcReplyPort<(Duration, Vec<ActorRef<Begin>>)>,
}

impl Actor for Nest {
    type Msg = Hatch;
    type State = ();
    type Arguments = ();

    state_from_arguments!();

    async fn handle(
        &self,
        _: ActorRef<Hatch>,
        Hatch { size, reply }: Hatch,
        (): &mut (),
    ) -> Result<(), ActorProcessingErr> {
        let begin = Instant::now();
        let mut idle = Vec::with_capacity(size as usize);
        for _ in 0..size {
            idle.push(start(Idle, 0).await);
        }
        reply.send((begin.elapsed(), idle))?;
        Ok(())
    }
}

pub async fn idle_memory(plan: &Plan) -> Outcome {
    HANDLED.store(0, Ordering::Relaxed);
    let nest = start(Nest, ()).await;
    let before = resident_bytes();
    let hatched = nest.call(|reply| Hatch { size: plan.size, reply }, None).await;
    let (elapsed, idle) = hatched.expect("the nest should be alive").expect("the nest should answer");
    for actor in &idle {
        send(actor, Begin);
    }
    while HANDLED.load(Ordering::Relaxed) < plan.size {
        ::tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let grown = resident_bytes() - before;
    Outcome {
        elapsed,
        operations: plan.size,
        check: HANDLED.load(Ordering::Relaxed),
        bytes_per_process: Some(grown / plan.size as f64),
        ..Outcome::default()
    }
}

/// Returns the resident set of this operating system process.
fn resident_bytes() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("the status of a Linux process");
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).expect("a line for the resident set");
    let kibibytes = line.split_whitespace().nth(1).expect("a number").parse::<f64>().expect("a number");
    kibibytes * 1_024.0
}
