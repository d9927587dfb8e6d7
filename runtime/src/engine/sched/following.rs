//! Time slices that follow each other at once: two processes that send to each other.
//!
//! Nearly every time slice begins with a message, and is one step long. If that has left nothing to be seen to, and has
//! had another process run next, the idle one stays [warm](crate::slots::slot::local_tokens) and the other one's time
//! slice follows: what the thread looks at between two time slices ([`next`](ThreadContext::next)) is then one section
//! of the lock, in which the byte of requests is zero, and one comparison. That is with the count of steps at which a
//! far end or the deque comes first, set at each visit to a far end. It is zero while the thread keeps no process warm.
//!
//! Whatever is not so is left to [`step`](super::step), with the same checks in the same order.

use super::step::{AfterStep, StepScratch};
use crate::call::caller;
use crate::engine::context::local::ThreadContext;
use crate::exit::ExitReason;
use crate::process::slice::BUDGET;
use crate::slots::Token;
use crate::slots::slot::local_tokens::Following;
use crate::sync::disturb;

impl ThreadContext {
    /// Runs the time slice of a process without an answer here, which is named as running, and those that follow at
    /// once.
    #[inline(always)]
    pub(super) fn run_slices(&self, scratch: &mut StepScratch, mut token: Token) {
        let (token, after) = loop {
            let slot = token.slot();
            if !slot.deficit.is_none() || slot.lanes.has_control() || token.is_special() {
                return self.run_other_slice(scratch, token);
            }
            slot.permit.set(self.permit_index.get());
            scratch.input.begin_slice(BUDGET);
            disturb();
            // SAFETY: this is the token, and only the input uses the lanes until the step is over.
            unsafe { scratch.input.begin(&slot.lanes, slot, token.generation()) };
            let Some(body) = token.body() else {
                unreachable!("a token that is scheduled is that of a living process")
            };
            let outcome = body.serve(scratch.parts());
            if caller::has_orphans() {
                // Dropped by a panic that the process caught itself.
                caller::blame_nobody();
            }
            self.count(scratch, slot);
            match outcome {
                Ok(()) if scratch.is_plain() => {}
                Ok(()) => break self.after_held(scratch, token, None),
                Err(error) => break self.after_held(scratch, token, Some(error.into_reason())),
            }
            disturb();
            match self.follow(token) {
                Ok(Following::Message(next)) => token = next,
                Ok(Following::Answer(next)) => match self.run_answered_slice(scratch, next) {
                    Some(next) => token = next,
                    None => return,
                },
                Err(held) => break (held, AfterStep::ParkIdle),
            }
        };
        disturb();
        if let Some(token) = self.conclude(scratch, token, after) {
            self.go_on_apart(scratch, token);
        }
    }

    /// Calls [`after`](Self::after) with a place of its own for the token, so that the loop above needs none.
    #[inline(always)]
    fn after_held(
        &self,
        scratch: &mut StepScratch,
        mut token: Token,
        failed: Option<ExitReason>,
    ) -> (Token, AfterStep) {
        let after = self.after(scratch, &mut token, failed);
        (token, after)
    }

    /// Runs a time slice that begins with more than messages. Not inlined, so that others do not pay for it.
    #[inline(never)]
    pub(super) fn run_other_slice(&self, scratch: &mut StepScratch, token: Token) {
        self.run_slice_with::<false>(scratch, token.put_down());
    }

    /// Goes on with a process for which something has arrived meanwhile.
    #[cold]
    #[inline(never)]
    fn go_on_apart(&self, scratch: &mut StepScratch, token: Token) {
        self.go_on::<false>(scratch, token);
    }
}
