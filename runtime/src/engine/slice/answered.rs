//! The time slice of a process with an answer beside its token: a caller whose call was answered on the same thread.
//!
//! Such a slice nearly always consists of one step, which takes the answer and ends in the next wait. The step gets no
//! other input, so it needs few of the checks in [`step`](super::step); all other cases are left to that module.

use super::run::SliceBudget;
use super::scratch::StepScratch;
use crate::call::caller;
use crate::engine::context::thread::ThreadContext;
use crate::errors::ProcessError;
use crate::process::resume::FirstAnswer;
use crate::slots::Token;
use crate::slots::slot::words::ParkKind;
use crate::sync::disturb;
use crate::thread_cache::tokens::Following;

impl ThreadContext {
    /// Runs the time slice of a process that has [an answer](crate::thread_cache::tokens) on this thread and is marked
    /// as running. Time slices of other processes with an answer may follow directly. Returns the first process that
    /// follows without an answer, for [`run_slices`]. Not inlined, so that other time slices do not pay for it.
    ///
    /// [`run_slices`]: ThreadContext::run_slices
    #[inline(never)]
    pub(crate) fn run_answered_slices(&self, scratch: &mut StepScratch, mut token: Token) -> Option<Token> {
        loop {
            let next = self.run_answered_slice(scratch, token)?;
            if !next.has_answer {
                return Some(next.token);
            }
            token = next.token;
        }
    }

    #[inline(always)]
    fn run_answered_slice(&self, scratch: &mut StepScratch, mut token: Token) -> Option<Following> {
        let slot = token.slot();
        if slot.lanes.has_control() {
            // The general step takes the answer first.
            self.run_any_slice(scratch, token.release(), SliceBudget::Usual);
            return None;
        }
        if !slot.deficit.is_none() || token.is_special() {
            let token = self.thread.local.push_answer(token);
            self.run_any_slice(scratch, token.release(), SliceBudget::Usual);
            return None;
        }
        self.begin_slice(scratch, &token, SliceBudget::Usual);
        disturb();
        // SAFETY: this is the token, and only the input uses the lanes until the step is over.
        unsafe { scratch.input.begin(&slot.lanes, slot, token.generation()) };
        let Some(answer) = self.thread.local.take_its_answer() else { unreachable!("it was seen, and is its own") };
        let Some(body) = token.body() else { unreachable!("a token that is scheduled is that of a living process") };
        let outcome = body.resume(FirstAnswer(answer), scratch.parts());
        if caller::has_orphans() {
            // These callers were dropped by a panic that the process caught itself.
            caller::blame_nobody();
        }
        self.count(scratch, slot);
        if outcome.is_ok() && scratch.awaits_another_answer(slot) {
            scratch.end_awaiting();
            disturb();
            return match self.follow(token, ParkKind::Waiting) {
                Ok(next) => Some(next),
                Err(token) => {
                    if let Some(held) = self.keep_or_park(token, ParkKind::Waiting) {
                        self.go_on_answered(scratch, held);
                    }
                    None
                }
            };
        }
        let failed = outcome.err().map(ProcessError::into_reason);
        let after = self.after(scratch, &mut token, failed);
        disturb();
        if let Some(token) = self.conclude(scratch, token, after) {
            self.go_on(scratch, token);
        }
        None
    }

    /// Continues with a process for which something has arrived in the meantime.
    #[cold]
    #[inline(never)]
    fn go_on_answered(&self, scratch: &mut StepScratch, token: Token) {
        if let Some(token) = self.may_go_on(scratch, token) {
            self.go_on(scratch, token);
        }
    }
}
