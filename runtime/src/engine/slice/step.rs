//! One time slice of a process: from taking its token until the process idles, is queued again, or exits.
//!
//! A time slice is one step, or several while input keeps arriving and the budget lasts. The budget counts events taken
//! and nodes drawn, so that sending costs as much as receiving. A process that has used its budget goes to the global
//! queue: in a measurement, one that returned to the hot end of a deque kept running alone while 204,784 others were
//! ready.
//!
//! A single step can exceed the budget, since a loop of sends cannot be interrupted. Its process then skips as many
//! time slices as it has overdrawn (deficit round robin: Shreedhar and Varghese, 1995), so that its receivers catch up:
//! otherwise a producer of a thousand messages a step would outrun a consumer that takes 128 per slice on the same
//! permit. This balances processes against each other. It does not bound mailboxes, and threads outside the runtime pay
//! nothing.
//!
//! The guard against panics surrounds all steps that a thread runs (see [`run_loop`](crate::engine::sched::run_loop)),
//! not each one: entering it costs 20 instructions and keeps the compiler from inlining through it. A panic leaves the
//! guard; [`ThreadContext::panicked`] ends the process that was running, and the thread enters the guard again.

use super::outcome::{EndBy, StatusKind, StepFacts, StepOutcome, rests_simply};
use crate::call::caller::{self, Caller};
use crate::call::dead_letter::DeadLetterReason;
use crate::call::package::Package;
use crate::engine::backpressure;
use crate::engine::backpressure::state::Congestion;
use crate::engine::context::thread::ThreadContext;
use crate::engine::lifecycle::exit::{end, end_normally};
use crate::engine::workers::worker::Worker;
use crate::env::clock::{Moment, TimerKey};
use crate::exit::{ExitReason, Panic};
use crate::mailbox::lanes::Controls;
use crate::mailbox::node_pool;
use crate::mailbox::payload::Payload;
use crate::pid::Pid;
use crate::process::control::keep_join;
use crate::process::description::DescriptionRequest;
use crate::process::handover::Upgrade;
use crate::process::input::StepInput;
use crate::process::output::{Contradiction, StepRequest, StepStatus, Written, Yield};
use crate::process::rare_events::RareEvents;
use crate::process::resume::StepParts;
use crate::process::slice::BUDGET;
use crate::recorder::recording;
use crate::slots::slot::words::{Deferral, ParkKind};
use crate::slots::{Slot, Token};
use crate::sync::{Ordering, disturb};
use crate::time::timers::{TimerAction, complete};
use crate::util::dispose::dispose_here;
use crate::util::panics::{Site, contain};
use std::ptr::NonNull;
use std::time::Duration;

/// The running time of other processes that counts as one time slice of a deficit. So a deficit, which is at most 253
/// time slices, is over after 13 ms for each such process of the host, however long the time slices of others are.
const PASS: Duration = Duration::from_micros(50);

/// A thread on which time slices end by their budget more often than this calls no other thread for a process that it
/// will run next itself, because waking a thread takes as long. (Measured with one and with sixteen senders to one
/// process, on two permits: 29 and 32 ns per message instead of 67 and 96. Where each message takes a microsecond, a
/// time slice takes longer than this, and is shared.)
const BRIEF: Duration = Duration::from_micros(50);

/// The limit of a time slice.
#[derive(Clone, Copy)]
pub(crate) enum SliceBudget {
    /// At most [`BUDGET`] events, and at most two ticks of the watchdog.
    Usual,
    /// This number of events, for a simulation or to time one event.
    Exactly(u32),
}

pub(crate) enum AfterStep {
    /// Another step in this time slice: there is input, and budget.
    Again,
    /// Queue the process behind others.
    Requeue,
    ParkIdle,
    ParkWaiting,
    /// Park until a node arrives in the control lane: the process waits for its yields, so a mere wake is no reason for
    /// another step.
    ParkForYields,
    /// The process ends. The reason is in `scratch.reason`.
    End,
    /// The process has congested a mailbox. The flag tells whether it also waits for its yields.
    Suspend(Congestion, bool),
}

/// A thread's storage for its steps, so that a step need not create it.
pub(crate) struct StepScratch {
    pub(super) input: StepInput,
    written: Written,
    reason: ExitReason,
    result: Option<Payload>,
    has_values: bool,
    /// Whether the process has panicked in this time slice.
    has_panicked: bool,
    /// The content of the record of the slice's end, if the slice is recorded.
    slice: u64,
}

impl StepScratch {
    pub(crate) fn new(thread: &'static Worker) -> Self {
        Self {
            // SAFETY: the thread permanently holds the token of these lanes, and uses only the storage created last.
            input: unsafe { StepInput::new(&thread.slice, &thread.nowhere) },
            written: Written::default(),
            reason: ExitReason::Normal,
            result: None,
            has_values: false,
            has_panicked: false,
            slice: recording::IDLE,
        }
    }

    /// Stores how a step ended, for the record of the slice. The caller holds the token.
    fn note_slice(&mut self, after: &AfterStep, slot: &Slot) {
        let then = match after {
            AfterStep::Again | AfterStep::Requeue => recording::READY,
            AfterStep::ParkIdle => recording::IDLE,
            AfterStep::ParkWaiting | AfterStep::ParkForYields => recording::WAITS,
            AfterStep::End => recording::ENDED,
            AfterStep::Suspend(..) => recording::SUSPENDED,
        };
        self.slice = if slot.is_in_message() { then | recording::SLICE_IN_MESSAGE } else { then };
    }

    /// Stores how a slice ends if the process is deferred in it. The caller holds the token.
    pub(crate) fn note_deferred(&mut self, slot: &Slot) {
        self.slice = match slot.deficit.deferral() {
            _ if slot.deficit.is_none() => recording::IDLE,
            Deferral::Suspended { .. } => recording::SUSPENDED,
            Deferral::Slices(_) => recording::READY,
        };
        if slot.is_in_message() {
            self.slice |= recording::SLICE_IN_MESSAGE;
        }
    }

    /// Takes the content for the record of the slice's end.
    pub(crate) fn take_slice(&mut self) -> u64 {
        std::mem::replace(&mut self.slice, recording::IDLE)
    }

    #[inline(always)]
    pub(crate) fn parts(&mut self) -> StepParts<'_> {
        StepParts { input: &mut self.input, written: &mut self.written }
    }

    /// Returns whether a step with messages only left nothing else to do. Parking the token shows whether something has
    /// arrived meanwhile.
    #[inline(always)]
    pub(crate) fn is_plain(&self) -> bool {
        self.written.is_plain() && self.input.is_plain() && !self.input.is_spent()
    }

    /// Returns whether the step left no input, yielded nothing, and needed none of the rare state.
    fn is_simple(&self) -> bool {
        self.input.is_simple() && self.written.yields.is_empty()
    }

    /// Returns whether a simple step, within its budget, has ended the process normally and without a result. It need
    /// not have taken anything: its entry may have asked for the end.
    fn ends_simply(&self) -> bool {
        matches!(self.written.status, StepStatus::Ended(ExitReason::Normal, None))
            && self.is_simple()
            && !self.input.is_spent()
    }

    /// Returns whether the process has taken answers and awaits another one, and nothing else remains to be done after
    /// its step: [`ThreadContext::after_other`] would find nothing to do.
    #[inline(always)]
    pub(crate) fn awaits_another_answer(&self, slot: &Slot) -> bool {
        matches!(self.written.status, StepStatus::Suspended)
            && self.is_simple()
            && self.input.has_taken()
            && !self.input.is_spent()
            && !slot.is_congested()
            && slot.metadata.outstanding.load(Ordering::Relaxed) == 0
    }

    /// Clears the state of a step after which the process [`awaits_another_answer`](Self::awaits_another_answer).
    #[inline(always)]
    pub(crate) fn end_awaiting(&mut self) {
        self.input.end_simple();
        self.written.forget_suspended();
    }

    fn end(&mut self, reason: ExitReason, result: Option<Payload>) -> AfterStep {
        (self.reason, self.result) = (reason, result);
        AfterStep::End
    }
}

impl ThreadContext {
    #[inline(always)]
    pub(crate) fn run_slice(&self, scratch: &mut StepScratch, token: Token) {
        let mut token = token.acquire();
        self.thread.running.begin(&token);
        if self.thread.local.has_answer(&token) {
            match self.run_answered_slices(scratch, token) {
                Some(next) => token = next,
                None => return,
            }
        }
        self.run_slices(scratch, token);
    }

    /// Runs a time slice in the general way, whatever input it begins with, and records it if the scratch has a
    /// recorder. Not inlined, so that time slices with messages only do not pay for it.
    #[inline(never)]
    pub(crate) fn run_any_slice(&self, scratch: &mut StepScratch, token: Token, budget: SliceBudget) {
        let mut token = token.acquire();
        self.thread.running.begin(&token);
        if !token.slot().deficit.is_none() {
            match self.defer_slice(token) {
                Some(back) => token = back,
                None => return,
            }
        }
        self.begin_slice(scratch, &token, budget);
        self.go_on(scratch, token);
    }

    /// Begins a time slice of a process that is marked as running.
    #[inline(always)]
    pub(crate) fn begin_slice(&self, scratch: &mut StepScratch, token: &Token, budget: SliceBudget) {
        token.slot().permit.set(self.permit_index.get());
        match budget {
            SliceBudget::Usual => scratch.input.begin_budget(BUDGET),
            SliceBudget::Exactly(events) => scratch.input.begin_exact_budget(events),
        }
    }

    /// Requeues a process with a deficit, or returns its token if it may run now. A signal for it does not wait. An
    /// answer does, because a process that sends a thousand messages and then calls would never pay otherwise. Each
    /// [`PASS`] that others have taken since the thread last saw such a process also counts as a time slice, so that
    /// long time slices of others delay it no more than short ones.
    #[cold]
    fn defer_slice(&self, token: Token) -> Option<Token> {
        let mut token = self.thread.local.push_answer(token);
        if let Deferral::Suspended { .. } = token.slot().deficit.deferral() {
            return self.stay_suspended(token);
        }
        if self.pinned_thread.is_some() {
            // There are no time slices of others to wait for: its suspension settles the deficit.
            token.slot().deficit.clear();
            return Some(token);
        }
        if !self.is_deferred(&mut token) {
            return Some(token);
        }
        // Wakes no thread, since this one checks the global queue again before it parks.
        self.thread.running.end();
        self.host.global.push(token.release());
        self.be_watched();
        None
    }

    fn is_deferred(&self, token: &mut Token) -> bool {
        let slot = token.slot();
        let now = Moment::about_now();
        let passed = now.since(self.deficit_seen.replace(now)).as_nanos() / PASS.as_nanos();
        let left = match slot.deficit.deferral() {
            Deferral::Slices(slices) if !token.lanes().has_signal() => u128::from(slices).saturating_sub(1 + passed),
            _ => 0,
        };
        slot.deficit.set_slices(left as u64);
        left > 0
    }

    fn record_deficit(&self, scratch: &StepScratch, slot: &'static Slot) {
        // Rounded, because a time slice that ends with its step slightly exceeds the budget.
        let budget = u64::from(BUDGET);
        let slices = (scratch.input.spent().saturating_sub(budget) + budget / 2) / budget;
        if slices > 0 {
            slot.deficit.set_slices(slices);
            self.deficit_seen.set(Moment::about_now());
        }
    }

    /// Runs the steps of a time slice that has begun.
    #[inline(always)]
    pub(crate) fn go_on(&self, scratch: &mut StepScratch, token: Token) {
        match scratch.input.recorder() {
            None => self.run_steps::<false>(scratch, token),
            Some(_) => self.run_recorded_steps(scratch, token),
        }
    }

    #[cold]
    #[inline(never)]
    fn run_recorded_steps(&self, scratch: &mut StepScratch, token: Token) {
        self.run_steps::<true>(scratch, token);
    }

    #[inline(always)]
    fn run_steps<const RECORDED: bool>(&self, scratch: &mut StepScratch, mut token: Token) {
        loop {
            disturb();
            let after = self.step::<RECORDED>(scratch, &mut token);
            if RECORDED {
                scratch.note_slice(&after, token.slot());
            }
            disturb();
            match self.conclude(scratch, token, after) {
                Some(held) => token = held,
                None => return,
            }
        }
    }

    /// Handles a panic that has left the guard around the thread's steps: ends the running process, whether the panic
    /// came from its step or from the rest of the time slice. Returns the panic if the thread runs none.
    #[cold]
    pub(crate) fn panicked(&self, scratch: &mut StepScratch, panic: Panic) -> Result<(), Panic> {
        let Some(slot) = self.thread.running() else { return Err(panic) };
        // SAFETY: while a live process is marked as running, its thread has the token (see `running`); unwinding has
        // forgotten it. Nothing panics after its incarnation is closed: see `end`.
        let mut token = unsafe { Token::from_raw(NonNull::from(slot)) };
        let is_first = !std::mem::replace(&mut scratch.has_panicked, true);
        let after = if is_first {
            self.count(scratch, slot);
            self.after(scratch, &mut token, Some(ExitReason::Panic(panic.into())))
        } else {
            // Handling the panic has panicked too: discard whatever the step left behind.
            dispose_here(Site::StatusDrop, std::mem::replace(scratch, StepScratch::new(self.thread)));
            scratch.end(ExitReason::Panic(panic.into()), None)
        };
        if let Some(token) = self.conclude(scratch, token, after) {
            self.go_on(scratch, token);
        }
        Ok(())
    }

    /// Acts on the outcome of a step. Returns the token if there is another step in this time slice.
    #[inline(always)]
    pub(crate) fn conclude(&self, scratch: &mut StepScratch, token: Token, after: AfterStep) -> Option<Token> {
        if scratch.has_values {
            self.put_values_down(scratch, &after);
        }
        let held = match after {
            AfterStep::ParkIdle => self.keep_or_park(token, ParkKind::Idle),
            AfterStep::ParkWaiting => self.keep_or_park(token, ParkKind::Waiting),
            AfterStep::ParkForYields => self.park_for_yields(token),
            AfterStep::Again => Some(token),
            AfterStep::Suspend(congestion, waits) => match self.suspend_for(scratch, token, congestion, waits) {
                Some(token) if waits => self.park_for_yields(token),
                held => held,
            },
            AfterStep::Requeue => {
                self.requeue(token);
                None
            }
            AfterStep::End => {
                self.end(scratch, token);
                None
            }
        };
        self.may_go_on(scratch, held?)
    }

    /// Returns a token that was not parked, because something has arrived, if there is another step in this time slice.
    /// Otherwise queues the process.
    #[inline(always)]
    pub(crate) fn may_go_on(&self, scratch: &StepScratch, token: Token) -> Option<Token> {
        // While the budget lasts and no thread waits for the permit.
        if !scratch.input.is_spent() && !self.thread.is_called() {
            return Some(token);
        }
        self.requeue(token);
        None
    }

    /// Stops the thread from passing on the process's values while the process still holds them, so that nothing is
    /// dropped later, when the process may run elsewhere. An exiting process passes them on in its close too: see
    /// `end`.
    #[cold]
    fn put_values_down(&self, scratch: &mut StepScratch, after: &AfterStep) {
        if !matches!(after, AfterStep::Again) {
            scratch.has_values = false;
        }
        if !matches!(after, AfterStep::Again | AfterStep::End) {
            crate::engine::context::values::set_values(None);
        }
    }

    #[cold]
    fn suspend_for(&self, scratch: &StepScratch, token: Token, congestion: Congestion, waits: bool) -> Option<Token> {
        // Without the cost of the congestion itself.
        let sends = scratch.input.spent().saturating_sub(BUDGET.into());
        let token = self.suspend(token, congestion, sends, waits);
        // The next process must not be blamed for congestion that foreign wakers have caused since.
        backpressure::congestion::take();
        token
    }

    fn requeue(&self, token: Token) {
        self.thread.running.end();
        let token = token.release();
        match self.pinned_thread {
            // Nothing else runs on the thread of a pinned process.
            Some(_) => token.wake(),
            None => self.push_used(token),
        }
    }

    /// Queues a process that has used up its time slice behind others. See `sleep`, *Own work*.
    fn push_used(&self, token: Token) {
        // With a single permit, there is no other thread to call.
        let is_next =
            self.host.permits.len() == 1 || self.is_brief() && self.deque.is_empty() && self.host.global.is_empty();
        self.host.global.push(token);
        if is_next {
            self.be_watched();
        } else {
            self.host.announce();
        }
    }

    /// Returns whether a time slice was used up on this thread shortly before this one.
    fn is_brief(&self) -> bool {
        let now = Moment::about_now();
        now.since(self.slice_used.replace(now)) < BRIEF
    }

    #[cold]
    fn end(&self, scratch: &mut StepScratch, mut token: Token) {
        scratch.has_panicked = false;
        let body = token.body().take();
        let vacant = if matches!(scratch.reason, ExitReason::Normal) && scratch.result.is_none() {
            end_normally(self.host, token, body)
        } else {
            let (reason, result) = (std::mem::replace(&mut scratch.reason, ExitReason::Normal), scratch.result.take());
            end(self.host, token, body, reason, result)
        };
        self.thread.running.end();
        if let Some(token) = vacant {
            self.keep_vacant(token);
        }
    }

    #[inline(always)]
    fn step<const RECORDED: bool>(&self, scratch: &mut StepScratch, token: &mut Token) -> AfterStep {
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
            // Dropped by a panic that the process caught itself.
            caller::blame_nobody();
        }
        self.count(scratch, slot);
        match outcome {
            Ok(()) if scratch.is_plain() => AfterStep::ParkIdle,
            Ok(()) => self.after(scratch, token, None),
            Err(error) => self.after(scratch, token, Some(error.into_reason())),
        }
    }

    /// Begins a step with something in the control lane, or with rare state. Returns the panic if a method of the
    /// process that this calls has panicked. Not inlined, like [`after`](Self::after), so that steps with messages only
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
            // Usually an answer.
            match scratch.input.begin_answered(self.thread.local.take_answer(token)) {
                Some(taken) => self.begin_special(scratch, token, Some(taken)),
                None => Ok(()),
            }
        };
        // After the controls were taken, including a wake: it may have been for senders that wait for room.
        if slot.is_congested() {
            backpressure::suspend::resume_waiters(slot, false);
            // Prevents the end of the step from being treated as plain.
            scratch.input.note_control();
        }
        begun
    }

    /// Begins a step with rare state, or with the controls in `taken`, which are not all answers.
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

    /// Acts on the outcome of a step that did more than take messages, or has `failed`.
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
        // Last, so that the next process is not blamed for the sends of this one.
        let congestion = if scratch.input.is_spent() { backpressure::congestion::take() } else { None };
        match congestion {
            Some(congestion) if !matches!(after, AfterStep::End) => {
                AfterStep::Suspend(congestion, matches!(after, AfterStep::ParkForYields))
            }
            _ => after,
        }
    }

    fn after_step(&self, scratch: &mut StepScratch, token: &mut Token, failed: Option<ExitReason>) -> AfterStep {
        // Usually false: most completions are answers to calls, not to yields.
        let counts_yields =
            scratch.input.completions() > 0 && token.slot().metadata.outstanding.load(Ordering::Relaxed) > 0;
        if scratch.input.is_spent() {
            // Even if the process is going to park: its messages must be handled before it sends more.
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

    /// Stores the key of a timer, which is cancelled when the process ends.
    fn keep_timer(&self, token: &mut Token, timer: TimerKey) {
        let timers = &mut token.make_cold_state().timers;
        if timers.len() == timers.capacity() {
            // Fired ones are removed whenever the list would grow.
            timers.retain(|&timer| self.host.timers.is_pending(timer));
            // Grows to at least twice the remaining length, so that this is rare.
            timers.reserve(timers.len());
        }
        timers.push(timer);
    }

    /// Dispatches one yield; errors are answers too. Returns the timer that was set for it.
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

#[cold]
fn warn_of(token: &Token, contradiction: Contradiction) {
    let Contradiction { holds, ignored } = contradiction;
    let (Some(pid), Some((process, entry))) = (token.pid(), token.slot().metadata.names()) else { return };
    crate::util::log::warn!(%pid, process, entry, holds, ignored, "a step wrote a second status, which is ignored, as \
        the first one holds: write only one of them");
}

/// Stores rare state for the next step. Returns the reason to end with, if there is one.
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
