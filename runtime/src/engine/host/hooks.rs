//! Hooks for starts, ends, dead letters and stalls.

use crate::call::dead_letter::DeadLetter;
use crate::engine::watchdog::report::Stall;
use crate::exit::ExitReason;
use crate::pid::Pid;
use crate::util::panics::{Site, contain};

/// Called for each process of a host, when it starts and when it has ended.
///
/// Hooks run on the thread that spawns or ends the process, so they should be short. Panics in them are contained.
pub trait Hook: Send + Sync + 'static {
    /// Called when a process is about to start. An error refuses the process: the spawner gets the error, and earlier
    /// hooks are undone.
    ///
    /// # Errors
    /// The reason to refuse the process.
    fn start(&self, process: &Started) -> Result<(), String> {
        let _ = process;
        Ok(())
    }

    /// Called if a process that this hook admitted did not start, because a later hook refused it or its entry failed.
    fn undo(&self, process: &Started) {
        let _ = process;
    }

    /// Called when a process has ended, and its state has been dropped.
    fn complete(&self, process: &Started, reason: &ExitReason) {
        let _ = (process, reason);
    }
}

/// The description of a process for hooks.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Started {
    /// Its PID.
    pub pid: Pid,
    /// The name of its type.
    pub process: &'static str,
    /// The entry that it was spawned with.
    pub entry: &'static str,
    /// The process that spawned it, if one did.
    pub parent: Option<Pid>,
}

pub(crate) type DeadLetterHook = Box<dyn Fn(DeadLetter) + Send + Sync>;

pub(crate) type StallHook = Box<dyn Fn(&Stall) + Send + Sync>;

#[derive(Default)]
pub(crate) struct Hooks {
    pub(crate) hooks: Vec<Box<dyn Hook>>,
    pub(crate) dead_letter: Option<DeadLetterHook>,
    pub(crate) stall: Option<StallHook>,
}

impl Hooks {
    /// Calls the start hooks in order. If one refuses the process, undoes those before it in reverse order.
    pub(crate) fn start(&self, process: &Started) -> Result<(), String> {
        for (index, hook) in self.hooks.iter().enumerate() {
            let verdict =
                contain(Site::StartHook, || hook.start(process)).unwrap_or_else(|panic| Err(panic.to_string()));
            if let Err(refusal) = verdict {
                self.undo_from(index, process);
                return Err(refusal);
            }
        }
        Ok(())
    }

    pub(crate) fn undo(&self, process: &Started) {
        self.undo_from(self.hooks.len(), process);
    }

    fn undo_from(&self, count: usize, process: &Started) {
        self.hooks[..count].iter().rev().for_each(|hook| report(contain(Site::UndoHook, || hook.undo(process))));
    }

    pub(crate) fn stall(&self, stall: &Stall) {
        if let Some(hook) = &self.stall {
            report(contain(Site::StallHook, || hook(stall)));
        }
    }

    pub(crate) fn complete(&self, process: &Started, reason: &ExitReason) {
        self.hooks.iter().for_each(|hook| report(contain(Site::CompleteHook, || hook.complete(process, reason))));
    }
}

fn report(outcome: Result<(), crate::exit::Panic>) {
    if let Err(panic) = outcome {
        crate::util::log::error!(%panic, "a hook panicked");
        crate::call::caller::blame_nobody();
    }
}
