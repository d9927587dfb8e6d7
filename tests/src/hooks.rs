//! A hook that records its calls.

use postroom::inspect::{Hook, Started};
use postroom::{ExitReason, Pid};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A hook that records its calls by process.
#[derive(Clone, Debug, Default)]
pub struct Witness(Arc<Mutex<HookRecord>>);

/// The record of a [`Witness`].
#[derive(Debug, Default)]
pub struct HookRecord {
    /// The number of starts of each process.
    pub started: HashMap<Pid, u32>,
    /// The number of starts of each process that were undone.
    pub undone: HashMap<Pid, u32>,
    /// The number of exits of each process, and the reason of the first.
    pub completed: HashMap<Pid, (u32, ExitReason)>,
    /// The number of processes that have been started, and neither undone nor completed.
    pub alive: usize,
    /// The maximum of `alive`.
    pub most: usize,
}

impl Witness {
    /// Makes an empty record.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the record so far.
    pub fn record(&self) -> MutexGuard<'_, HookRecord> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Hook for Witness {
    fn start(&self, process: &Started) -> Result<(), String> {
        let mut record = self.record();
        *record.started.entry(process.pid).or_default() += 1;
        record.alive += 1;
        record.most = record.most.max(record.alive);
        Ok(())
    }

    fn undo(&self, process: &Started) {
        let mut record = self.record();
        *record.undone.entry(process.pid).or_default() += 1;
        record.alive -= 1;
    }

    fn complete(&self, process: &Started, reason: &ExitReason) {
        let mut record = self.record();
        record.completed.entry(process.pid).or_insert((0, reason.clone())).0 += 1;
        record.alive -= 1;
    }
}
