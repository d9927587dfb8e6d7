//! Time slices whose beginning and end are recorded.

use super::run::SliceBudget;
use super::scratch::StepScratch;
use crate::engine::context::thread::ThreadContext;
use crate::pid::incarnation;
use crate::recorder::kind::RecordKind;
use crate::recorder::recording::SLICE_OVER;
use crate::slots::Token;

impl ThreadContext {
    #[cold]
    #[inline(never)]
    pub(crate) fn run_recorded_slice(&self, scratch: &mut StepScratch, token: Token) {
        self.begin_recorded_slice(scratch, &token);
        if scratch.input.recorder().is_some() && self.thread.take_request_for_time() {
            self.run_timed(scratch, token);
        } else {
            self.run_begun_slice(scratch, token);
        }
        self.leave_recorded_slice(scratch);
    }

    /// Runs a time slice whose beginning has been recorded if the host is recorded.
    pub(crate) fn run_begun_slice(&self, scratch: &mut StepScratch, token: Token) {
        match scratch.input.recorder() {
            None => self.run_slice(scratch, token),
            Some(_) => self.run_any_slice(scratch, token, SliceBudget::Usual),
        }
    }

    /// Records the beginning of a slice, if the host is recorded.
    pub(crate) fn begin_recorded_slice(&self, scratch: &mut StepScratch, token: &Token) {
        if !self.is_recorded() {
            self.write_slice_end();
            return;
        }
        let (recorder, slot) = (&self.host.recorder, token.slot());
        let name = slot.metadata.kind().map(|kind| &kind.name);
        let process = incarnation(slot.index(), token.generation());
        // The record is not stamped with the end of the previous slice, even if the thread has done nothing since: see
        // `leave_recorded_slice`.
        let stamp = recorder.note(RecordKind::Slice, process, self.slice_end.take(), name);
        scratch.input.record(Some(recorder), stamp);
        scratch.note_deferred(slot);
    }

    /// Records the end of a slice whose beginning was recorded.
    #[cold]
    #[inline(never)]
    pub(crate) fn end_recorded_slice(&self, scratch: &mut StepScratch) {
        self.leave_recorded_slice(scratch);
        self.write_slice_end();
    }

    /// Stores how a recorded slice has ended. If another slice follows directly, the record of its beginning also says
    /// how this one ended, which saves one record and one reading of the clock. (The end of this slice must not serve
    /// as the beginning of the next one: the message that wakes the next process may be sent after the end of this
    /// slice, and would then seem to be sent after it was handled.)
    fn leave_recorded_slice(&self, scratch: &mut StepScratch) {
        if scratch.input.record(None, 0).is_some() {
            self.slice_end.set(scratch.take_slice() | SLICE_OVER);
        }
    }
}
