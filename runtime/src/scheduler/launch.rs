//! How the threads of a host start.

use super::host::Host;
use super::lend::occupy;
use super::local::Context;
use super::seat::{Seat, Shared};
use crate::clock::Moment;
use crate::random::Random;
use crate::sync::{Arc, Deque, Ordering, lock, spawn_thread};
use crate::table::Token;
use std::cell::{Cell, RefCell};

impl Host {
    /// Starts the threads that have not been started. What was spawned before runs now.
    pub(crate) fn start(&'static self) -> std::io::Result<()> {
        crate::panics::install_hook();
        let mut deques = lock(&self.deques);
        while let Some(deque) = deques.pop() {
            let index = deques.len();
            let name = format!("{}-{index}", self.config.name);
            // A thread that cannot be started leaves the host with those that could: the caller shuts it down.
            let thread = spawn_thread(name, move || self.run_thread(index, deque))?;
            lock(&self.running).push(thread);
        }
        Ok(())
    }

    fn run_thread(&'static self, index: usize, deque: Deque<Token>) {
        let Some(user) = self.user() else { return };
        let worker = (0..self.workers.len()).find(|&worker| self.workers[worker].take(index));
        let worker = worker.unwrap_or_else(|| unreachable!("there are as many workers as threads"));
        self.threads[index].worker.store(worker, Ordering::Relaxed);
        let context = Arc::new(Shared::new(Context {
            host: self,
            seat: Seat::new(),
            user,
            index,
            thread: &self.threads[index],
            worker_index: worker,
            worker: &self.workers[worker],
            deque,
            fair: Cell::new(0),
            turns: Cell::new(0),
            debtor_seen: Cell::new(Moment::about_now()),
            streak: Cell::new(0),
            random: RefCell::new(Random::new(self.config.seed, index as u64)),
        }));
        occupy(&context);
    }
}
