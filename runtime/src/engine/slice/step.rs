//! One step of a process: the thread collects the input that has arrived, and then the process handles it.

use super::scratch::{AfterStep, StepScratch};
use crate::call::caller;
use crate::engine::backpressure;
use crate::engine::context::thread::ThreadContext;
use crate::exit::{ExitReason, Panic};
use crate::mailbox::lanes::Controls;
use crate::mailbox::node_pool;
use crate::process::description::DescriptionRequest;
use crate::process::handover::Upgrade;
use crate::slots::{Slot, Token};
use crate::util::panics::{Site, contain};

impl ThreadContext {
    #[inline(always)]
    pub(super) fn step<const RECORDED: bool>(&self, scratch: &mut StepScratch, token: &mut Token) -> AfterStep {
        let slot = token.slot();
        slot.debug_owner.check();
        // SAFETY: this is the token, and only the input uses the lanes until the step is over.
        unsafe { scratch.input.begin(&slot.lanes, slot, token.generation()) };
        if RECORDED {
            let is_answered = self.thread.local.has_answer(token);
            let begins_with_message = !is_answered && !slot.lanes.has_control() && !token.is_special();
            scratch.input.record_messages(begins_with_message);
        }
        // A process with an answer beside its token and no other input does not get here unless it is recorded: see
        // `answered`.
        let begins_otherwise =
            slot.lanes.has_control() || token.is_special() || RECORDED && self.thread.local.has_answer(token);
        if begins_otherwise && let Err(panic) = self.begin_with_control(scratch, token) {
            return self.after(scratch, token, Some(ExitReason::Panic(panic.into())));
        }
        if RECORDED {
            scratch.input.record_answers();
        }
        let Some(body) = token.body() else { unreachable!("a token that is scheduled is that of a living process") };
        let outcome = if !begins_otherwise {
            body.serve(scratch.parts())
        } else if scratch.input.has_ended() {
            Ok(())
        } else {
            scratch.parts().step(|events, out| body.step(events, out))
        };
        if caller::has_orphans() {
            // These callers were dropped by a panic that the process caught itself.
            caller::blame_nobody();
        }
        self.count(scratch, slot);
        match outcome {
            Ok(()) if scratch.is_plain() => AfterStep::ParkIdle,
            Ok(()) => self.after(scratch, token, None),
            Err(error) => self.after(scratch, token, Some(error.into_reason())),
        }
    }

    /// Begins a step with something in the control lane, or with rare state. Returns the panic if this calls a method
    /// of the process and the method panics. Not inlined, like [`after`](Self::after), so that steps with messages only
    /// do not pay for it.
    #[inline(never)]
    fn begin_with_control(&self, scratch: &mut StepScratch, token: &mut Token) -> Result<(), Panic> {
        let slot = token.slot();
        if !token.is_special() && !slot.lanes.has_control() {
            // Anything that arrives in the control lane from here on is left to the next step.
            if let Some(answer) = self.thread.local.take_answer(token) {
                scratch.input.begin_with_answer(answer);
            }
            return Ok(());
        }
        let begun = if token.is_special() {
            self.begin_special(scratch, token, None)
        } else {
            // The control is usually an answer.
            match scratch.input.begin_answered(self.thread.local.take_answer(token)) {
                Some(taken) => self.begin_special(scratch, token, Some(taken)),
                None => Ok(()),
            }
        };
        // This comes after the controls have been taken. A wake among them may have been for senders that wait for
        // room.
        if slot.is_congested() {
            backpressure::suspend::resume_waiters(slot, false);
            // Prevents the end of the step from being treated as plain.
            scratch.input.note_control();
        }
        begun
    }

    /// Begins a step with rare state, or with the controls in `taken`, not all of which are answers.
    #[inline(never)]
    fn begin_special(
        &self,
        scratch: &mut StepScratch,
        token: &mut Token,
        taken: Option<Controls>,
    ) -> Result<(), Panic> {
        let slot = token.slot();
        let (mut kept, mut held) = (Controls::none(), Controls::none());
        let taken = if let Some(taken) = taken {
            taken
        } else {
            if let Some(cold_state) = token.cold_state() {
                kept = std::mem::take(&mut cold_state.controls);
                held = std::mem::take(&mut cold_state.held);
                scratch.input.keep_notices(std::mem::take(&mut cold_state.notices));
                if let Some(tap) = cold_state.tap.take() {
                    scratch.input.tap(tap);
                }
                let has_values = cold_state.values.is_some();
                if !scratch.has_values && has_values {
                    scratch.has_values = true;
                    crate::engine::context::values::set_values(cold_state.values.clone());
                }
                token.set_checks_cold_state(has_values);
            }
            let brought = self.thread.local.take_answer(token);
            if kept.is_empty() && held.is_empty() && brought.is_none() && !slot.lanes.has_control() {
                return Ok(());
            }
            let mut taken = token.lanes().take_control();
            if let Some(brought) = brought {
                taken.push_first(brought);
            }
            taken
        };
        let is_cancelled = scratch.input.begin_controlled(kept, held, taken);
        if let Some(upgrades) = scratch.input.take_upgrades() {
            ask_to_upgrade(token, upgrades)?;
        }
        if let Some(requests) = scratch.input.take_descriptions() {
            describe(token, requests);
        }
        if !is_cancelled {
            return Ok(());
        }
        let handles_cancel = match token.body() {
            Some(body) => contain(Site::HandlesCancel, || body.handles_cancel()),
            None => Ok(false),
        };
        scratch.input.cancel(matches!(handles_cancel, Ok(true)));
        handles_cancel.map(drop)
    }

    #[inline(always)]
    pub(crate) fn count(&self, scratch: &StepScratch, slot: &'static Slot) {
        let counters = &self.thread.counters;
        counters.steps.add(1);
        counters.messages.add(u64::from(scratch.input.messages()));
        slot.count(scratch.input.messages());
        node_pool::spend(1);
    }
}

#[cold]
fn ask_to_upgrade(token: &mut Token, upgrades: Vec<Upgrade>) -> Result<(), Panic> {
    let Some(body) = token.body() else { return Ok(()) };
    contain(Site::AskedToUpgrade, || upgrades.into_iter().for_each(|upgrade| body.asked_to_upgrade(upgrade)))
}

/// Answers requests for a description of the process's state. A panic of its `Debug` is reported to the requesters and
/// does not affect the process.
#[cold]
fn describe(token: &mut Token, requests: Vec<DescriptionRequest>) {
    let Some(body) = token.body() else { return };
    for request in requests {
        request.answer(|to| {
            contain(Site::StateDebug, || body.describe(to)).map_err(|panic| {
                caller::blame_nobody();
                panic.to_string()
            })
        });
    }
}
