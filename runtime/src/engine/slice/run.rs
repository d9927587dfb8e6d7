//! One time slice of a process: from taking its token until the process idles, is queued again, or exits.
//!
//! A time slice is one step, or several while input keeps arriving and the budget lasts. The budget counts events taken
//! and nodes drawn, so that sending costs as much as receiving. A process that has used its budget goes to the global
//! queue: in a measurement, a process that returned to the hot end of a deque kept running alone while 204,784 others
//! were ready.
//!
//! A single step can exceed the budget, since a loop of sends cannot be interrupted. Its process then skips as many
//! time slices as it has overdrawn (deficit round robin: Shreedhar and Varghese, 1995), so that its receivers catch up:
//! otherwise a producer of a thousand messages per step would outrun a consumer that takes 128 per slice on the same
//! permit. This balances processes against each other. It does not bound mailboxes, and threads outside the runtime pay
//! nothing.
//!
//! The guard against panics surrounds all steps that a thread runs (see [`run_loop`](crate::engine::sched::run_loop)),
//! not each one: entering it costs 20 instructions and keeps the compiler from inlining through it. A panic leaves the
//! guard; [`ThreadContext::panicked`] ends the process that was running, and the thread enters the guard again.

use super::scratch::{AfterStep, StepScratch};
use crate::engine::backpressure;
use crate::engine::backpressure::state::Congestion;
use crate::engine::context::thread::ThreadContext;
use crate::engine::lifecycle::exit::{end, end_normally};
use crate::env::clock::Moment;
use crate::exit::{ExitReason, Panic};
use crate::process::slice::BUDGET;
use crate::slots::slot::words::{Deferral, ParkKind};
use crate::slots::{Slot, Token};
use crate::sync::disturb;
use crate::util::dispose::dispose_here;
use crate::util::panics::Site;
use std::ptr::NonNull;
use std::time::Duration;

/// The running time of other processes that counts as one time slice of a deficit. So a deficit, which is at most 253
/// time slices, is paid off after 13 ms, times the number of processes of the host that have one, however long the time
/// slices of others are.
const PASS: Duration = Duration::from_micros(50);

/// A thread that uses up time slices at shorter intervals than this wakes no other thread for a process that it will
/// run next itself, because waking a thread takes as long. (Measured with one and with sixteen senders to one process,
/// on two permits: 29 and 32 ns per message instead of 67 and 96. Where each message takes a microsecond, a time slice
/// takes longer than this, and other threads are woken.)
const BRIEF: Duration = Duration::from_micros(50);
/// The limit of a time slice.
#[derive(Clone, Copy)]
pub(crate) enum SliceBudget {
    /// At most [`BUDGET`] events, and at most two ticks of the watchdog.
    Usual,
    /// This number of events, for a simulation or to time one event.
    Exactly(u32),
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

    /// Requeues a process with a deficit, or returns its token if it may run now. A process with a signal may run at
    /// once. A process with an answer may not, because otherwise one that sends a thousand messages and then calls
    /// would never pay off its deficit. Each [`PASS`] that others have taken since the thread last saw a process with a
    /// deficit also counts as a time slice, so that long time slices of others delay the process no more than short
    /// ones.
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
        // No thread is woken, since this one checks the global queue again before it parks.
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

    pub(super) fn record_deficit(&self, scratch: &StepScratch, slot: &'static Slot) {
        // The quotient is rounded, because a time slice that ends with its step slightly exceeds the budget.
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
    /// came from its step or from the rest of the time slice. Returns the panic if the thread runs no process.
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

    /// Takes a token that was not parked because something has arrived. Returns it if there is another step in this
    /// time slice; otherwise queues the process.
    #[inline(always)]
    pub(crate) fn may_go_on(&self, scratch: &StepScratch, token: Token) -> Option<Token> {
        // There is another step while the budget lasts and no thread waits for the permit.
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
        // This excludes the cost of the congestion itself.
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

    /// Queues a process behind others, since it has used up its time slice. See `sleep`, *Own work*.
    fn push_used(&self, token: Token) {
        // With a single permit, there is no other thread to wake.
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
}
