//! The conditions under which a session accepts an envelope.

use crate::codec::Encoded;
use crate::envelope::Content;
use postroom::Pid;
use postroom::error::SendFailure;
use std::time::Duration;

/// The interval at which open calls are searched for callers that have given up, since callers do not report that.
pub(super) const LOOK_FOR_ABANDONED: Duration = Duration::from_millis(100);

/// Maximum number of bytes that may wait for room in the session in total: answers, links, controls, and messages of
/// suspended processes.
pub(super) const MOST_OWED: usize = 64 << 20;

/// Whether a message is accepted if there is no room for it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Admission {
    /// The message is refused.
    IfRoom,
    /// The message is accepted up to a second bound, and the sending process is suspended for it.
    Beyond,
    /// The message is accepted, because it was already accepted before the session opened.
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

    /// Returns the reason why a process was not started, as text.
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
