//! Time slices that a simulation has chosen.

use super::run::SliceBudget;
use super::scratch::StepScratch;
use crate::engine::context::thread::ThreadContext;
use crate::exit::Panic;
use crate::slots::Token;
use crate::slots::slot::words::Deferral;
use crate::util::panics::{Site, contain};

impl ThreadContext {
    /// Runs a time slice as in production.
    pub(crate) fn run_usual_slice(&self, scratch: &mut StepScratch, token: Token) {
        self.begin_recorded_slice(scratch, &token);
        let panic = contain(Site::Slice, || self.run_begun_slice(scratch, token)).err();
        self.see_to_panic(scratch, panic);
        self.end_recorded_slice(scratch);
    }

    /// Begins the step of a process that will end as if it had panicked. Returns the panic, unless the process stays
    /// suspended.
    fn crash(&self, scratch: &mut StepScratch, token: Token, panic: Panic) -> Option<Panic> {
        let mut token = token.acquire();
        self.thread.running.begin(&token);
        if !token.slot().deficit.is_none() {
            token = self.stay_suspended(token)?;
        }
        self.begin_slice(scratch, &token, SliceBudget::Exactly(1));
        let slot = token.slot();
        // SAFETY: this is the token, and only the input uses the lanes until the step is over.
        unsafe { scratch.input.begin(&slot.lanes, slot, token.generation()) };
        Some(panic)
    }

    fn see_to_panic(&self, scratch: &mut StepScratch, panic: Option<Panic>) {
        if let Some(panic) = panic
            && let Err(panic) = self.panicked_anew(scratch, panic)
        {
            crate::util::log::error!(%panic, "a panic came from the runtime, between two steps");
        }
    }

    /// Runs a time slice with the given budget, for a simulation. With `crash`, ends the process instead, as if its
    /// step had panicked before it took anything.
    pub(crate) fn run_simulated_slice(
        &self,
        scratch: &mut StepScratch,
        token: Token,
        budget: u32,
        crash: Option<Panic>,
    ) {
        self.begin_recorded_slice(scratch, &token);
        if let Deferral::Slices(_) = token.slot().deficit.deferral() {
            // The simulation decides which process runs first.
            token.slot().deficit.clear();
        }
        let panic = match crash {
            Some(panic) => self.crash(scratch, token, panic),
            None => contain(Site::Slice, || self.run_any_slice(scratch, token, SliceBudget::Exactly(budget))).err(),
        };
        self.see_to_panic(scratch, panic);
        self.end_recorded_slice(scratch);
    }
}
