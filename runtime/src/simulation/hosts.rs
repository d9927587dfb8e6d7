//! The hosts of a run: that of the test, and those of additional nodes.

use super::run::SimRun;
use super::state::{PlayedHost, SimulatedHost};
use crate::api::runtime::{Host, Runtime};
use crate::engine::host::Scheduler;
use crate::engine::sched::simulated::SimulatedThread;
use crate::engine::slice::scratch::StepScratch;
use crate::env::chance::Random;
use crate::env::world::World;
use crate::pid::NodeId;
use crate::sync::{AtomicU64, Ordering, lock};
use std::ptr;
use std::time::Duration;

/// The node ID of the first additional node. Within a run, IDs increase in the order in which the nodes were added. A
/// guess: no program draws an ID that low.
const FIRST_NODE: u64 = 1 << 20;

/// The first of the random streams from which the seeds of additional nodes are drawn.
const NODES: u64 = 1 << 41;

impl SimRun {
    /// Makes the calling driver simulate the hosts that have been added since its previous call.
    pub(super) fn play_all(&self, played: &mut Vec<PlayedHost>) {
        let state = &mut *self.state();
        for host in state.hosts.iter_mut().skip(played.len()) {
            let threads = host.drivers * self.workers..(host.drivers + 1) * self.workers;
            host.drivers += 1;
            let thread = SimulatedThread::begin(host.scheduler, threads);
            let scratches = thread.workers().iter().map(|worker| StepScratch::new(worker.thread)).collect();
            played.push(PlayedHost { thread, scratches });
        }
    }

    /// Returns the schedulers of all hosts.
    pub(crate) fn schedulers(&self) -> Vec<&'static Scheduler> {
        self.state().hosts.iter().map(|host| host.scheduler).collect()
    }

    /// Returns the host of the test.
    pub(crate) fn main_host(&self) -> Option<Host> {
        Host::of_scheduler(self.state().hosts.first()?.scheduler)
    }

    /// Pauses a host for `time`. A host that is already paused stays paused until the later of the two moments.
    pub(crate) fn pause(&self, host: Host, time: Duration) {
        let until = self.clock.moment().after(time);
        let state = &mut *self.state();
        let its = |hosted: &SimulatedHost| ptr::eq(hosted.scheduler, host.scheduler());
        if let Some(place) = state.hosts.iter().position(its).filter(|_| !state.is_ending) {
            let paused = state.paused.entry(place).or_insert(until);
            *paused = until.max(*paused);
        }
    }

    /// Adds a host that is a node of its own.
    ///
    /// # Errors
    /// Returns the reason why the host cannot be built.
    pub(crate) fn add_node(&self) -> Result<Host, String> {
        static NEXT: World<AtomicU64> = World::new(AtomicU64::new(FIRST_NODE));
        let node = NodeId::new(NEXT.fetch_add(1, Ordering::Relaxed)).ok_or("there are no more node IDs")?;
        let seed = Random::new(self.seed, NODES + lock(&self.nodes).len() as u64).next();
        let builder = self.case.builder(seed, self.workers, &self.clock).logical_node(node);
        let runtime = builder.build_anywhere().map_err(|error| error.to_string())?;
        let host = runtime.host();
        self.state().hosts.push(SimulatedHost { scheduler: host.scheduler(), drivers: 0 });
        lock(&self.nodes).push(runtime);
        Ok(host)
    }

    /// Takes the runtimes of the additional nodes after the run has ended.
    pub(crate) fn take_nodes(&self) -> Vec<Runtime> {
        std::mem::take(&mut *lock(&self.nodes))
    }

    /// Returns the hosts of the additional nodes.
    pub(crate) fn nodes(&self) -> Vec<Host> {
        lock(&self.nodes).iter().map(|runtime| runtime.host()).collect()
    }
}
