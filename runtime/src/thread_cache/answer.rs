//! Answers to processes. An answer to a process that the calling thread keeps, and that waits for control only, is
//! stored beside the process's token, and the process runs next. All other answers are
//! [pushed](crate::slots::slot::control).

use super::current;
use crate::call::caller::Port;
use crate::mailbox::node::NodeBox;
use crate::pid::{Pid, incarnation};
use crate::recorder::kind::RecordKind;
use crate::slots::Slot;
use crate::sync::simulated;
use std::ptr;

impl Port for Slot {
    fn recorded(&'static self) -> &'static dyn Port {
        // SAFETY: the other type is this one, in a transparent wrapper.
        unsafe { &*ptr::from_ref(self).cast::<RecordedSlot>() }
    }

    fn answer(&'static self, node: NodeBox, generation: u64) {
        simulated::note_sent(self.index());
        if !self.is_living(generation) {
            return self.answered_late(node);
        }
        if self.permit.is_kept_waiting() {
            return answer_kept(self, node);
        }
        self.push_answer(node);
    }

    fn pid_of(&self, generation: u64) -> Option<Pid> {
        Some(self.owner()?.pid(self.index(), generation))
    }
}

/// Delivers an answer to a process that the calling thread may keep.
#[inline(always)]
fn answer_kept(slot: &'static Slot, node: NodeBox) {
    let node = match current() {
        Some(local) => match local.put_answered_next(slot, node) {
            Ok(()) => return,
            Err(node) => node,
        },
        None => node,
    };
    slot.push_answer(node);
}

/// The slot of a process whose call was recorded: its answer is recorded too.
#[repr(transparent)]
struct RecordedSlot(Slot);

impl Port for RecordedSlot {
    fn answer(&'static self, node: NodeBox, generation: u64) {
        if let Some(recorder) = self.0.owner().and_then(|owner| owner.host.recorder()) {
            let process = incarnation(self.0.index(), generation);
            recorder.note(RecordKind::Answer, process, node.word().addr() as u64, None);
        }
        self.0.answer(node, generation);
    }

    fn pid_of(&self, generation: u64) -> Option<Pid> {
        self.0.pid_of(generation)
    }

    fn recorded(&'static self) -> &'static dyn Port {
        self
    }
}
