//! A hook that records what it is told.

use postroom::inspect::{Hook, Started};
use postroom::{ExitReason, Pid};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Records what a hook was told, by process.
#[derive(Clone, Debug, Default)]
pub struct Witness(Arc<Mutex<Told>>);

/// See [`Witness`].
#[derive(Debug, Default)]
pub struct Told {
    /// The number of starts of each process.
    pub started: HashMap<Pid, u32>,
    /// The number of starts of each process that were undone.
    pub undone: HashMap<Pid, u32>,
    /// The number of ends of each process, and the last reason.
    pub completed: HashMap<Pid, (u32, ExitReason)>,
    /// Started, and not undone or completed.
    pub alive: usize,
    /// The most that were alive at once.
    pub most: usize,
}

impl Witness {
    /// Makes an empty record.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the record so far.
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
