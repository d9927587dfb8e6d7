//! A stand-in for callers: no envelope of a model carries one.

use super::call_id::CallId;
use crate::errors::CallError;
use crate::exit::ExitReason;
use crate::mailbox::node::{MailNode, NodeBox};
use crate::pid::Pid;

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

pub(crate) enum Caller {}

impl Caller {
    pub(crate) fn record(&mut self) -> Option<u64> {
        match *self {}
    }

    pub(crate) fn id(&self) -> CallId {
        match *self {}
    }

    /// Returns the word of a message that carries this caller.
    pub(crate) fn into_word(self) -> *mut MailNode {
        match self {}
    }

    /// # Safety
    /// `word` is null.
    pub(crate) unsafe fn from_word(word: *mut MailNode) -> Option<Self> {
        assert!(word.is_null(), "no envelope of a model carries a caller");
        None
    }

    pub(crate) fn pid(&self) -> Option<Pid> {
        match *self {}
    }

    pub(crate) fn was_sent(&self) -> bool {
        match *self {}
    }

    pub(crate) fn is_withdrawn(&self) -> bool {
        match *self {}
    }

    pub(crate) fn fail(self, _error: CallError) {
        match self {}
    }
}

pub(crate) fn fail_stranded(_call: CallId, _reason: ExitReason) {
    unreachable!("no envelope of a model carries a caller")
}
