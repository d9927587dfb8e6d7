//! The actions after a step, according to its [`outcome`](super::outcome).

use super::outcome::{EndBy, StatusKind, StepFacts, StepOutcome, rests_simply};
use super::scratch::{AfterStep, StepScratch};
use crate::call::caller::Caller;
use crate::call::dead_letter::DeadLetterReason;
use crate::call::package::Package;
use crate::engine::backpressure;
use crate::engine::context::thread::ThreadContext;
use crate::env::clock::{Moment, TimerKey};
use crate::exit::ExitReason;
use crate::pid::Pid;
use crate::process::control::keep_join;
use crate::process::output::{Contradiction, StepRequest, StepStatus, Yield};
use crate::process::rare_events::RareEvents;
use crate::slots::{Slot, Token};
use crate::sync::Ordering;
use crate::time::timers::{TimerAction, complete};
use crate::util::panics::{Site, contain};

impl ThreadContext {
    /// Acts on the outcome of a step that did more than take messages, or that has `failed`.
    #[inline(never)]
    pub(crate) fn after(&self, scratch: &mut StepScratch, token: &mut Token, failed: Option<ExitReason>) -> AfterStep {
        if failed.is_none() && scratch.ends_simply() && !token.slot().is_congested() {
            scratch.input.end_simple();
            // Nothing in the status needs a drop.
            std::mem::forget(std::mem::take(&mut scratch.written.status));
            return AfterStep::End;
        }
        if failed.is_none() && scratch.awaits_another_answer(token.slot()) {
            scratch.end_awaiting();
            return AfterStep::ParkWaiting;
        }
        self.after_other(scratch, token, failed)
    }

    #[inline(never)]
    fn after_other(&self, scratch: &mut StepScratch, token: &mut Token, failed: Option<ExitReason>) -> AfterStep {
        let after = self.after_step(scratch, token, failed);
        let rests = matches!(after, AfterStep::ParkWaiting | AfterStep::ParkForYields);
        let slot = token.slot();
        if slot.is_congested() && (rests || scratch.input.is_data_empty()) {
            backpressure::suspend::resume_waiters(slot, true);
        }
        // This comes last, so that the next process is not blamed for the sends of this one.
        let congestion = if scratch.input.is_spent() { backpressure::congestion::take() } else { None };
        match congestion {
            Some(congestion) if !matches!(after, AfterStep::End) => {
                AfterStep::Suspend(congestion, matches!(after, AfterStep::ParkForYields))
            }
            _ => after,
        }
    }

    fn after_step(&self, scratch: &mut StepScratch, token: &mut Token, failed: Option<ExitReason>) -> AfterStep {
        // This is usually false: most completions are answers to calls, not to yields.
        let counts_yields =
            scratch.input.completions() > 0 && token.slot().metadata.outstanding.load(Ordering::Relaxed) > 0;
        if scratch.input.is_spent() {
            // The deficit is recorded even if the process is going to park: the messages that it has sent must be
            // handled before it sends more.
            self.record_deficit(scratch, token.slot());
        }
        if failed.is_none() && scratch.is_simple() && !counts_yields {
            let simple = match (&scratch.written.status, scratch.input.has_taken()) {
                (StepStatus::Ended(ExitReason::Normal, None), _) => Some(AfterStep::End),
                (status, true) => match rests_simply(status.into()) {
                    Some(StepOutcome::ParkIdle) => Some(AfterStep::ParkIdle),
                    Some(StepOutcome::ParkWaiting) => Some(AfterStep::ParkWaiting),
                    _ => None,
                },
                (_, false) => None,
            };
            if let Some(after) = simple {
                scratch.input.end_simple();
                scratch.written.status = StepStatus::Idle;
                return after;
            }
        }
        self.after_all(scratch, token, failed)
    }

    fn after_all(&self, scratch: &mut StepScratch, token: &mut Token, failed: Option<ExitReason>) -> AfterStep {
        let slot = token.slot();
        let StepScratch { input, written, .. } = scratch;
        let completions = input.completions();
        let mut facts = StepFacts {
            status: StatusKind::from(&written.status),
            has_failed: failed.is_some(),
            is_to_end: false,
            has_taken: input.has_taken(),
            is_spent: input.is_spent(),
            has_control: input.has_control(),
            has_control_node: input.has_control_node(),
            has_messages: !input.is_data_empty() || input.has_undelivered_notices(),
            has_yields: false,
        };
        let end = input.finish().and_then(|rare| apply_rare_events(token, *rare));
        facts.is_to_end = end.is_some();
        let status = std::mem::take(&mut written.status);
        if let Some(contradiction) = written.contradiction.take() {
            warn_of(token, contradiction);
        }
        let answered = slot.metadata.outstanding.load(Ordering::Relaxed).saturating_sub(completions);
        let outstanding = answered + written.yields.len() as u32;
        slot.metadata.outstanding.store(outstanding, Ordering::Relaxed);
        if let Some(pid) = token.pid() {
            for request in written.yields.drain(..) {
                if let Some(timer) = self.dispatch(slot, pid, request) {
                    self.keep_timer(token, timer);
                }
            }
        }
        facts.has_yields = outstanding > 0;
        match (facts.outcome(), status) {
            (StepOutcome::End(EndBy::Status), StepStatus::Ended(reason, result)) => scratch.end(reason, result),
            (StepOutcome::End(EndBy::Status), StepStatus::Done(result)) => scratch.end(ExitReason::Normal, result),
            (StepOutcome::End(EndBy::NoYields), _) => scratch.end(
                ExitReason::error("the process waits for its yields, but none is outstanding; write `idle` instead"),
                None,
            ),
            (StepOutcome::End(_), status) => {
                // The status holds users' values, whose drops are user code. The callers that the process left
                // unanswered are notified at its end, when the PID is unroutable.
                let _panic = contain(Site::StatusDrop, || drop(status));
                scratch.end(failed.or(end).unwrap_or(ExitReason::Normal), None)
            }
            (StepOutcome::Upgrade, StepStatus::Upgrade(successor)) => {
                match crate::engine::lifecycle::upgrade::succeed(token, *successor) {
                    Some(panic) => scratch.end(panic, None),
                    None => AfterStep::Requeue,
                }
            }
            (StepOutcome::Again, _) => AfterStep::Again,
            (StepOutcome::Requeue | StepOutcome::Upgrade, _) => AfterStep::Requeue,
            (StepOutcome::ParkIdle, _) => AfterStep::ParkIdle,
            (StepOutcome::ParkWaiting, _) => AfterStep::ParkWaiting,
            (StepOutcome::ParkForYields, _) => AfterStep::ParkForYields,
        }
    }

    /// Stores the key of a timer, so that the timer is cancelled when the process ends.
    fn keep_timer(&self, token: &mut Token, timer: TimerKey) {
        let timers = &mut token.make_cold_state().timers;
        if timers.len() == timers.capacity() {
            // Fired timers are removed whenever the list would grow.
            timers.retain(|&timer| self.host.timers.is_pending(timer));
            // The list grows to at least twice the remaining length, so that this is rare.
            timers.reserve(timers.len());
        }
        timers.push(timer);
    }

    /// Dispatches one yield. If that fails, the error is the answer. Returns the timer that was set for the yield, if
    /// any.
    fn dispatch(&self, slot: &'static Slot, pid: Pid, Yield { tag, request }: Yield) -> Option<TimerKey> {
        let generation = pid.generation();
        match request {
            StepRequest::Command(command) => {
                let (caller, _ticket) = Caller::process(slot, generation, tag, None);
                self.host.dispatch(command, caller);
            }
            StepRequest::Call(to, message) => {
                let (caller, _ticket) = Caller::process(slot, generation, tag, None);
                let package = Package::from_parts(to, message, Some(caller));
                if let Err(refused) = crate::routing::router::route(package) {
                    let (_, message, caller) = refused.package.into_parts();
                    if let Some(caller) = caller {
                        caller.fail(refused.reason.into());
                    }
                    drop(message);
                }
            }
            StepRequest::Timer(duration) => {
                if !duration.is_zero() {
                    let due = Moment::now().after(duration);
                    // A timer that is never due is not set: nothing could cancel it.
                    let timer = (due < Moment::NEVER).then_some(TimerAction::Complete { slot, generation, tag });
                    return self.host.set_timer(due, timer?);
                }
                complete(slot, generation, tag);
            }
        }
        None
    }
}

#[cold]
fn warn_of(token: &Token, contradiction: Contradiction) {
    let Contradiction { holds, ignored } = contradiction;
    let (Some(pid), Some((process, entry))) = (token.pid(), token.slot().metadata.names()) else { return };
    crate::util::log::warn!(%pid, process, entry, holds, ignored, "a step wrote a second status, which is ignored, as \
        the first one holds: write only one of them");
}

/// Stores rare state for the next step. Returns the reason with which the process must end, if there is one.
fn apply_rare_events(token: &mut Token, rare: RareEvents) -> Option<ExitReason> {
    let RareEvents { stale, joins, left, notices, tap, end, .. } = rare;
    let needs_attention = !(left.is_empty() && notices.is_empty() && tap.is_none());
    if !joins.is_empty() || needs_attention {
        if needs_attention {
            token.set_checks_cold_state(true);
        }
        let cold_state = token.make_cold_state();
        joins.into_iter().for_each(|join| keep_join(&mut cold_state.joined, join));
        cold_state.controls = left;
        cold_state.notices = notices;
        cold_state.tap = tap;
    }
    for envelope in stale {
        token.dead_letter(envelope, DeadLetterReason::Ended, &ExitReason::NoProcess);
    }
    end
}
