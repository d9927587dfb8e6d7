//! Records of the events that a step takes, if its time slice is recorded.

use super::input::{StepInput, StepRecording};
use crate::recorder::kind::RecordKind;
use crate::recorder::ring::TypeName;
use crate::recorder::session::Recorder;

impl StepInput {
    /// Sets the recorder of messages and answers for the current time slice, which began at `stamp`. Returns the
    /// previous recorder.
    pub(crate) fn record(&mut self, recorder: Option<&'static Recorder>, stamp: u64) -> Option<&'static Recorder> {
        std::mem::replace(&mut self.recording, StepRecording { recorder, stamp }).recorder
    }

    pub(crate) fn recorder(&self) -> Option<&'static Recorder> {
        self.recording.recorder
    }

    /// Starts to record the messages of a step that has just begun.
    pub(crate) fn record_messages(&mut self, begins_with_message: bool) {
        self.filter.accept_none();
        if !begins_with_message {
            self.recording.stamp = 0;
        }
    }

    /// Records the answers with which a step begins.
    pub(crate) fn record_answers(&self) {
        if !self.controls.is_empty()
            && let (Some(recorder), Some(process)) = (self.recording.recorder, self.incarnation())
        {
            self.controls.answers().for_each(|tag| _ = recorder.note(RecordKind::AnswerTaken, process, tag, None));
        }
    }

    /// Records a message that the step has taken, if messages are recorded.
    pub(super) fn record_message(&mut self, sequence: u64, name: Option<&'static TypeName>) {
        let (Some(recorder), Some(process)) = (self.recording.recorder, self.incarnation()) else { return };
        match std::mem::take(&mut self.recording.stamp) {
            0 => _ = recorder.note(RecordKind::Handle, process, sequence, name),
            // The first message of a slice counts as taken when the slice begins. This saves reading the clock.
            stamp => recorder.note_at(stamp, RecordKind::Handle, process, sequence, name),
        }
    }
}
