//! A stand-in for exit reasons.

use crate::links::protocol::Cause;

/// The reason why a process exited.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum ExitReason {
    Normal,
    Failed,
    /// The process had already ended.
    Gone,
    /// The session with the process's node has ended.
    NodeLost,
}

impl Cause for ExitReason {
    fn is_quiet(&self) -> bool {
        *self == Self::Normal
    }

    fn gone() -> Self {
        Self::Gone
    }
}
