//! A hook that writes down what it is told.

use postroom::inspect::{Hook, Started};
use postroom::{ExitReason, Pid};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What a hook was told, by process.
#[derive(Clone, Debug, Default)]
pub struct Witness(Arc<Mutex<Told>>);

/// See [`Witness`].
#[derive(Debug, Default)]
pub struct Told {
    /// How often each process was said to start.
    pub started: HashMap<Pid, u32>,
    /// How often each start was undone.
    pub undone: HashMap<Pid, u32>,
    /// How often each process was said to have ended, and of what at last.
    pub completed: HashMap<Pid, (u32, ExitReason)>,
    /// Started, and not undone or completed.
    pub alive: usize,
    /// The most that were alive at once.
    pub most: usize,
}

impl Witness {
    /// One that was told nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// What it was told so far.
    pub fn told(&self) -> MutexGuard<'_, Told> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Hook for Witness {
    fn start(&self, process: &Started) -> Result<(), String> {
        let mut told = self.told();
        *told.started.entry(process.pid).or_default() += 1;
        told.alive += 1;
        told.most = told.most.max(told.alive);
        Ok(())
    }

    fn undo(&self, process: &Started) {
        let mut told = self.told();
        *told.undone.entry(process.pid).or_default() += 1;
        told.alive -= 1;
    }

    fn complete(&self, process: &Started, reason: &ExitReason) {
        let mut told = self.told();
        told.completed.entry(process.pid).or_insert((0, reason.clone())).0 += 1;
        told.alive -= 1;
    }
}
