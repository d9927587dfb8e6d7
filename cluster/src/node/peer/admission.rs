//! Whether an envelope is accepted for a session.

use crate::codec::Encoded;
use crate::envelope::Content;
use postroom::Pid;
use postroom::error::SendFailure;
use std::time::Duration;

/// The interval at which open calls are searched for callers that have given up, since callers do not report that.
pub(super) const LOOK_FOR_ABANDONED: Duration = Duration::from_millis(100);

/// Number of bytes that may wait for room in the session at all: answers, links, and messages of suspended processes.
pub(super) const MOST_OWED: usize = 64 << 20;

/// Whether a message is accepted if there is no room for it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Admission {
    /// No.
    IfRoom,
    /// Up to a second bound: the sending process is suspended for it.
    Beyond,
    /// Yes: it was accepted before, and is not refused now.
    Accepted,
}

pub(super) fn content(encoded: Encoded) -> Content {
    Content { message: encoded.id.0, bytes: encoded.bytes }
}

/// Why an envelope was not queued.
pub(super) enum Refusal {
    Full,
    Over,
    TooLong { bytes: usize, limit: usize },
}

impl Refusal {
    pub(super) fn into_failure(self, to: Pid) -> SendFailure {
        match self {
            Self::Full => SendFailure::Full(to),
            Self::Over => SendFailure::UnknownNode(to),
            Self::TooLong { bytes, limit } => SendFailure::TooLong { bytes, limit },
        }
    }

    /// Returns the text for a process that was not started.
    pub(super) fn into_text(self) -> String {
        match self {
            Self::Full => "too much waits to be sent there; try again when some of it has been".into(),
            Self::Over => "it was lost".into(),
            Self::TooLong { bytes, limit } => {
                format!("the inputs have {bytes} bytes on their way, and {limit} travel at most; send the rest later")
            }
        }
    }
}
