//! A stand-in for callers. It counts how many times a caller is notified that its call has failed.

use super::call_id::{CallId, claim, is_withdrawn};
use crate::check::{keep, reach};
use crate::errors::CallError;
use crate::exit::ExitReason;
use crate::mailbox::node::{MailNode, NodeBox};
use crate::pid::Pid;
use std::cell::Cell;

thread_local! {
    /// The number of notifications. A thread-local suffices, since all threads of a model run on one system thread. The
    /// count is invisible to loom, so it orders nothing.
    static TOLD: Cell<u32> = const { Cell::new(0) };
}

/// Resets the number of notifications.
pub(crate) fn forget() {
    TOLD.set(0);
}

/// Returns the number of notifications in this execution.
pub(crate) fn told() -> u32 {
    TOLD.get()
}

/// The slot of a caller, which receives the reply.
pub(crate) trait Port: Send + Sync {
    #[allow(dead_code)]
    fn answer(&'static self, node: NodeBox, generation: u64);

    #[allow(dead_code)]
    fn pid_of(&self, _generation: u64) -> Option<Pid> {
        None
    }

    #[allow(dead_code)]
    fn recorded(&'static self) -> &'static dyn Port;
}

/// A caller. The word of its envelope points to the node that waits for the answer.
pub(crate) struct Caller(CallId);

impl Caller {
    pub(crate) fn new(number: u64) -> Self {
        Self(CallId::issue(keep(MailNode::empty()), number))
    }

    pub(crate) fn record(&mut self) -> Option<u64> {
        None
    }

    pub(crate) fn id(&self) -> CallId {
        self.0
    }

    /// Converts the caller to the word of the message that carries it.
    pub(crate) fn into_word(self) -> *mut MailNode {
        std::ptr::from_ref(self.0.node()).cast_mut()
    }

    /// # Safety
    /// `word` was made by [`into_word`](Self::into_word) in this execution, or is null.
    pub(crate) unsafe fn from_word(word: *mut MailNode) -> Option<Self> {
        // SAFETY: as the caller of this function promises. The node is kept until the end of the execution.
        unsafe { word.as_ref() }.map(|node| Self(CallId::held_by(node)))
    }

    pub(crate) fn pid(&self) -> Option<Pid> {
        None
    }

    pub(crate) fn was_sent(&self) -> bool {
        true
    }

    pub(crate) fn is_withdrawn(&self) -> bool {
        is_withdrawn(self.0.word())
    }

    pub(crate) fn fail(self, _error: CallError) {
        if claim(self.0.word()) {
            reach("failed by who had its message");
            TOLD.set(TOLD.get() + 1);
        }
    }
}

pub(crate) fn fail_stranded(call: CallId, _reason: ExitReason) {
    if call.withdraw() {
        reach("withdrawn after its push");
        TOLD.set(TOLD.get() + 1);
    }
}
