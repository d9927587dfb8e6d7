//! The obligations to answer a peer. If one is dropped unmet, the drop sends a refusal.

use crate::envelope::{Envelope, ToldKind};
use crate::node::peer::Peer;
use crate::starts::Started;
use bytes::Bytes;
use std::sync::Arc;

/// The kind of a start request.
pub(super) enum StartKind {
    Plain,
    /// A start with a key: a repetition returns the process of the first start.
    Keyed(String),
    /// Requested by a supervisor.
    Child,
}

/// The obligation to answer a peer's request about a process.
pub(crate) struct AskAnswer {
    pub(super) peer: Arc<Peer>,
    pub(super) number: u64,
    pub(super) is_given: bool,
}

impl AskAnswer {
    pub(super) fn give(mut self, told: ToldKind, bytes: Bytes) {
        self.is_given = true;
        // If no one waits for the answer, only a denial is sent.
        if self.number > 0 || told == ToldKind::Denied {
            self.peer.say(Envelope::Told { number: self.number, told, bytes });
        }
    }
}

impl Drop for AskAnswer {
    /// Denies the request if it has no answer, because the node ends before its policy has decided.
    fn drop(&mut self) {
        if !self.is_given && self.number > 0 {
            self.peer.say(Envelope::Told { number: self.number, told: ToldKind::Denied, bytes: Bytes::new() });
        }
    }
}

/// The obligation to answer a peer's request to start a process.
pub(super) struct StartAnswer {
    pub(super) peer: Arc<Peer>,
    pub(super) number: u64,
    /// Whether a supervisor requested the process.
    pub(super) is_child: bool,
    pub(super) is_given: bool,
    /// The length of the inputs, if the start is [recorded](Peer::begin_start).
    pub(super) noted: Option<usize>,
}

impl StartAnswer {
    /// Answers the request. Returns false if the process must be killed because it is a child and the session is over.
    pub(super) fn give(mut self, started: Started) -> bool {
        self.put(started)
    }

    /// Answers the request, and kills a child whose session is over.
    pub(super) fn tell(self, started: Started) {
        let pid = started.clone();
        if !self.give(started)
            && let Ok(pid) = pid
        {
            pid.kill();
        }
    }

    fn put(&mut self, started: Started) -> bool {
        self.is_given = true;
        if self.is_child {
            return self.peer.adopt(self.number, started);
        }
        self.peer.answer_start(self.number, started);
        true
    }
}

impl Drop for StartAnswer {
    fn drop(&mut self) {
        if !self.is_given {
            self.put(Err("it is being shut down, or the start has panicked".into()));
        }
        self.noted.into_iter().for_each(|length| self.peer.end_start(length));
    }
}
