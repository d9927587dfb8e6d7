//! The storage of a thread for its steps.

use crate::engine::backpressure::state::Congestion;
use crate::engine::workers::worker::Worker;
use crate::exit::ExitReason;
use crate::mailbox::payload::Payload;
use crate::process::input::StepInput;
use crate::process::output::{StepStatus, Written};
use crate::process::resume::StepParts;
use crate::recorder::recording;
use crate::slots::Slot;
use crate::slots::slot::words::Deferral;
use crate::sync::Ordering;

/// The action that follows a step.
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
    pub(super) written: Written,
    pub(super) reason: ExitReason,
    pub(super) result: Option<Payload>,
    pub(super) has_values: bool,
    /// Whether the process has panicked in this time slice.
    pub(super) has_panicked: bool,
    /// What the record of the slice's end will contain, if the slice is recorded.
    slice: u64,
}

impl StepScratch {
    pub(crate) fn new(thread: &'static Worker) -> Self {
        Self {
            // SAFETY: the thread permanently holds the token of these lanes, and uses only the storage created most
            // recently.
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
    pub(super) fn note_slice(&mut self, after: &AfterStep, slot: &Slot) {
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
    /// arrived since.
    #[inline(always)]
    pub(crate) fn is_plain(&self) -> bool {
        self.written.is_plain() && self.input.is_plain() && !self.input.is_spent()
    }

    /// Returns whether the step left no input, yielded nothing, and needed none of the rare state.
    pub(super) fn is_simple(&self) -> bool {
        self.input.is_simple() && self.written.yields.is_empty()
    }

    /// Returns whether a simple step, within its budget, has ended the process normally and without a result. It need
    /// not have taken anything: its entry may have asked for the end.
    pub(super) fn ends_simply(&self) -> bool {
        matches!(self.written.status, StepStatus::Ended(ExitReason::Normal, None))
            && self.is_simple()
            && !self.input.is_spent()
    }

    /// Returns whether the process has taken answers and awaits another one, and nothing else remains to be done after
    /// its step: [`after`](super::after) would find nothing to do.
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

    pub(super) fn end(&mut self, reason: ExitReason, result: Option<Payload>) -> AfterStep {
        (self.reason, self.result) = (reason, result);
        AfterStep::End
    }
}
