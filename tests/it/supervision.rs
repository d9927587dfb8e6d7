//! Supervisors: start, restart and stop of children, and the guarantees for senders to them.
//!
//! Back-off, strategies, the intensity window and the order of stops are also tested event by event, without a clock,
//! beside the state machine in the runtime (`supervision/plan/tests`); these tests check that the processes carry out
//! its decisions.

use postroom::manual::Event;
use postroom::prelude::*;
use postroom::supervision::{Backoff, Supervisor, Tree};
use postroom_tests::face::Log;
use postroom_tests::{Latch, eventually, soon};
use std::time::Duration;

mod addresses;
mod bad_input;
mod delays;
mod dynamic;
mod elsewhere;
mod gone;
pub(crate) mod kept;
mod nested;
mod prints;
mod requests;
pub(crate) mod restarting;
mod restarts;
mod shutdown;
mod siblings;
mod stops;
mod upgraded;

/// A child that logs its start and the drop of its state.
#[process]
pub(crate) struct Worker {
    pub(crate) name: &'static str,
    pub(crate) log: Log<String>,
    pub(crate) sum: u64,
}

#[process]
impl Worker {
    #[entry]
    pub(crate) fn serve(&mut self) {
        self.log.add(format!("{} starts", self.name));
    }

    /// Starts if `works`, and fails otherwise.
    #[entry]
    fn try_serve(&mut self, works: bool) -> Result<(), std::io::Error> {
        self.log.add(format!("{} {}", self.name, if works { "starts" } else { "fails to start" }));
        if works { Ok(()) } else { Err(std::io::Error::other("no such disk")) }
    }

    #[message]
    pub(crate) fn add(&mut self, amount: u64) -> u64 {
        self.sum += amount;
        self.sum
    }

    #[message]
    pub(crate) fn crash(&mut self, text: &'static str) {
        panic!("{text}")
    }

    #[message]
    pub(crate) fn finish(&mut self, ctx: &mut Context<Self>) {
        ctx.stop();
    }

    /// Opens `here`, and stays in its step until `go` opens.
    #[message]
    fn pass(&mut self, here: Latch, go: Latch) {
        here.open();
        go.wait();
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.log.add(format!("{} ends", self.name));
    }
}

/// Returns the factory of a child that is a [`Worker`].
pub(crate) fn worker(
    name: &'static str,
    log: &Log<String>,
) -> impl FnMut(postroom::ChildSpawn) -> Result<Address<Worker>, SpawnError> + Send + 'static {
    let log = log.clone();
    move |spawn| spawn.of(Worker { name, log: log.clone(), sum: 0 }).serve()
}

/// Makes a supervisor restart at once, any number of times.
pub(crate) fn eager(supervisor: Supervisor) -> Supervisor {
    supervisor.intensity(u32::MAX, Duration::MAX).backoff(Backoff::none())
}

fn runtime() -> Runtime {
    postroom_tests::face::builder().build().unwrap()
}

/// Makes the child fail, and waits for its exit.
fn crash(worker: Address<Worker>) -> ExitReason {
    let life = worker.pid().join();
    worker.crash("it had to").send().unwrap();
    life.wait()
}

/// Waits until the child runs again.
fn is_back(worker: Address<Worker>) {
    eventually(|| worker.add(0).wait().is_ok());
}

fn restarts(tree: &Tree, child: &str) -> u64 {
    tree.children().iter().find(|info| &*info.name == child).map_or(0, |info| info.restarts)
}

/// Waits until the child has been restarted `times` times, and runs.
fn until_restarted(tree: &Tree, child: &str, times: u64) {
    eventually(|| {
        let children = tree.children();
        let info = children.iter().find(|info| &*info.name == child).unwrap();
        info.restarts == times && info.state == postroom::supervision::ChildState::Running
    });
}

fn lines(log: &Log<String>) -> Vec<String> {
    log.all()
}
