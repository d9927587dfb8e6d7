//! Combinations of features that no page of the guide shows: supervisors with names, bounds, pools, groups, links and
//! upgrades, while processes exit.

use postroom::prelude::*;
use postroom::supervision::{Backoff, Child, Supervisor};
use postroom::{Bound, Overflow, Pool};
use postroom_tests::face::{Gate, Log, builder, until, watched, with_runtime};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::thread;
use std::time::Duration;

mod races;
mod trees;
mod wild;

/// A process with messages for many features.
#[process]
#[derive(Default)]
struct Node {
    seen: Log<u64>,
}

#[process]
impl Node {
    #[entry]
    fn serve(&mut self) {}

    #[message]
    #[derive(Clone)]
    fn add(&mut self, number: u64) -> u64 {
        self.seen.add(number);
        number
    }

    #[message]
    fn crash(&mut self) {
        panic!("over the edge")
    }

    #[message]
    async fn pass(&mut self, gate: Gate) {
        gate.passed().await;
    }

    /// Opens `here`, and stays in its step until `gate` opens.
    #[message]
    fn block(&mut self, here: Gate, gate: Gate) {
        here.open();
        gate.pass();
    }

    #[message]
    async fn add_at(&mut self, other: Address<Node>, within: Duration) -> Result<u64, String> {
        other.add(1).timeout(within).await.map_err(|error| error.to_string())
    }

    /// Calls the next process of the path, which in turn calls the one after it.
    #[message]
    async fn around(&mut self, path: Vec<Address<Node>>) -> Result<u64, String> {
        let Some((next, rest)) = path.split_first() else { return Ok(0) };
        match next.around(rest.to_vec()).await {
            Ok(number) => Ok(number + 1),
            Err(CallError::Failed(text)) => Err(text),
            Err(other) => Err(other.to_string()),
        }
    }
}

fn node(seen: &Log<u64>) -> Child<Address<Node>> {
    let seen = seen.clone();
    Child::new("node", move |spawn| spawn.of(Node { seen: seen.clone() }).serve())
}

fn eager(supervisor: Supervisor) -> Supervisor {
    supervisor.intensity(u32::MAX, Duration::MAX).backoff(Backoff::none())
}

/// Makes a process fail, and waits for its exit.
fn crash(node: Address<Node>) {
    let life = node.pid().join();
    node.crash().send_wait().unwrap();
    life.wait();
}
