//! The memory of waiting processes.

use std::fs;
use std::time::{Duration, Instant};

use ::kameo::prelude::*;
use ::tokio::sync::oneshot;
use ::tokio::task::yield_now;

use super::stage::{Begin, Collector, LITTER, Report, run, spawn, tell};
use crate::plan::{Outcome, Plan};

/// A process with eight bytes of state.
#[derive(Actor)]
struct Waiter {
    count: u64,
}

/// The message, with the address to which the receiver reports its count.
struct Touch(ActorRef<Collector>);

impl Message<Touch> for Waiter {
    type Reply = ();

    async fn handle(&mut self, Touch(collector): Touch, _: &mut Context<Self, ()>) {
        self.count += 1;
        tell(&collector, Report(self.count)).await;
    }
}

/// An actor that spawns all waiters, waits until all of them have started, and then sends a message to each of them.
#[derive(Actor)]
struct Spawner {
    bound: Option<usize>,
    size: u64,
    collector: ActorRef<Collector>,
    spawned: Option<oneshot::Sender<Duration>>,
    waiters: Vec<ActorRef<Waiter>>,
}

impl Message<Begin> for Spawner {
    type Reply = ();

    async fn handle(&mut self, Begin: Begin, _: &mut Context<Self, ()>) {
        let start = Instant::now();
        for number in 0..self.size {
            self.waiters.push(spawn(self.bound, Waiter { count: 0 }));
            if number % LITTER == 0 {
                yield_now().await;
            }
        }
        for waiter in &self.waiters {
            waiter.wait_for_startup().await;
        }
        let spawned = self.spawned.take().expect("it begins once");
        let _ = spawned.send(start.elapsed());
        for (number, waiter) in (0..).zip(&self.waiters) {
            tell(waiter, Touch(self.collector.clone())).await;
            if number % LITTER == 0 {
                yield_now().await;
            }
        }
    }
}

pub fn idle_memory(plan: &Plan) -> Outcome {
    run(plan, async {
        let (collector, ended) = Collector::spawn_for(plan.size);
        let (spawned, elapsed) = oneshot::channel();
        let spawner = Spawner {
            bound: plan.bound,
            size: plan.size,
            collector,
            spawned: Some(spawned),
            waiters: Vec::with_capacity(plan.size as usize),
        };
        let spawner = spawn(plan.bound, spawner);
        spawner.wait_for_startup().await;
        let before = resident();
        tell(&spawner, Begin).await;
        let end = ended.await.expect("all are touched");
        let bytes = resident() as f64 - before as f64;
        Outcome {
            elapsed: elapsed.await.expect("all are spawned"),
            operations: plan.size,
            check: end.sum,
            bytes_per_process: Some(bytes / plan.size as f64),
            ..Outcome::default()
        }
    })
}

/// Returns the resident set of this program, in bytes.
fn resident() -> u64 {
    let status = fs::read_to_string("/proc/self/status").expect("the system tells");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("it tells the resident set");
    1_024 * line.trim().trim_end_matches(" kB").parse::<u64>().expect("it tells kilobytes")
}
