//! Processes that start, do one thing and stop.

use std::time::Instant;

use ::kameo::error::Infallible;
use ::kameo::prelude::*;
use ::tokio::sync::oneshot;
use ::tokio::task::yield_now;

use super::stage::{Begin, Collector, End, LITTER, Report, finish, mailbox, run, spawn, tell};
use crate::plan::{Outcome, Plan};

/// An actor that adds numbers until no sender is left. A kameo actor ends when its last address is dropped. In this
/// case the last child drops it.
struct Gatherer {
    sum: u64,
    end: Option<oneshot::Sender<End>>,
}

impl Actor for Gatherer {
    type Args = Self;
    type Error = Infallible;

    async fn on_start(gatherer: Self, _: ActorRef<Self>) -> Result<Self, Infallible> {
        Ok(gatherer)
    }

    async fn on_stop(&mut self, _: WeakActorRef<Self>, _: ActorStopReason) -> Result<(), Infallible> {
        finish(&mut self.end, self.sum);
        Ok(())
    }
}

impl Message<Report> for Gatherer {
    type Reply = ();

    async fn handle(&mut self, Report(number): Report, _: &mut Context<Self, ()>) {
        self.sum += number;
    }
}

#[derive(Actor)]
struct Child {
    gatherer: ActorRef<Gatherer>,
}

impl Message<Report> for Child {
    type Reply = ();

    async fn handle(&mut self, number: Report, context: &mut Context<Self, ()>) {
        tell(&self.gatherer, number).await;
        context.stop();
    }
}

#[derive(Actor)]
struct Parent {
    bound: Option<usize>,
    children: u64,
    gatherer: ActorRef<Gatherer>,
}

impl Message<Begin> for Parent {
    type Reply = ();

    async fn handle(&mut self, Begin: Begin, context: &mut Context<Self, ()>) {
        for number in 0..self.children {
            tell(&spawn(self.bound, Child { gatherer: self.gatherer.clone() }), Report(number)).await;
            if number % LITTER == 0 {
                yield_now().await;
            }
        }
        context.stop();
    }
}

pub fn fork_join_create(plan: &Plan) -> Outcome {
    run(plan, async {
        let (end, ended) = oneshot::channel();
        let gatherer = spawn(plan.bound, Gatherer { sum: 0, end: Some(end) });
        let parent = spawn(plan.bound, Parent { bound: plan.bound, children: plan.size, gatherer });
        parent.wait_for_startup().await;
        let start = Instant::now();
        tell(&parent, Begin).await;
        ended.await.expect("all children stop").outcome(start, plan.size)
    })
}

/// The receiver of the sum of a node.
enum Above {
    Node(ActorRef<Node>),
    Collector(ActorRef<Collector>),
}

impl Above {
    async fn tell(&self, sum: u64) {
        match self {
            Self::Node(node) => tell(node, Report(sum)).await,
            Self::Collector(collector) => tell(collector, Report(sum)).await,
        }
    }
}

/// The arguments of a node. The leaves below it are numbered from `first` on.
struct Branch {
    bound: Option<usize>,
    above: Above,
    first: u64,
    leaves: u64,
}

struct Node {
    above: Above,
    missing: u64,
    sum: u64,
}

impl Actor for Node {
    type Args = Branch;
    type Error = Infallible;

    async fn on_start(branch: Branch, node: ActorRef<Self>) -> Result<Self, Infallible> {
        let Branch { bound, above, first, leaves } = branch;
        let part = leaves / 10;
        if part == 0 {
            // No address of a leaf is kept, so the leaf stops once it has started.
            above.tell(first).await;
            return Ok(Self { above, missing: 0, sum: 0 });
        }
        for child in 0..10 {
            let above = Above::Node(node.clone());
            Self::spawn_with_mailbox(
                Branch { bound, above, first: first + child * part, leaves: part },
                mailbox(bound),
            );
        }
        Ok(Self { above, missing: 10, sum: 0 })
    }
}

impl Message<Report> for Node {
    type Reply = ();

    async fn handle(&mut self, Report(number): Report, context: &mut Context<Self, ()>) {
        self.sum += number;
        self.missing -= 1;
        if self.missing == 0 {
            self.above.tell(self.sum).await;
            context.stop();
        }
    }
}

pub fn skynet(plan: &Plan) -> Outcome {
    run(plan, async {
        let (collector, ended) = Collector::spawn_for(1);
        collector.wait_for_startup().await;
        let start = Instant::now();
        let branch = Branch { bound: plan.bound, above: Above::Collector(collector), first: 0, leaves: plan.size };
        Node::spawn_with_mailbox(branch, mailbox(plan.bound));
        ended.await.expect("the root reports").outcome(start, plan.size)
    })
}
