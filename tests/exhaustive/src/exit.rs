//! A stand-in for exit reasons.

use crate::links::protocol::Cause;

/// Why a process exited.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum ExitReason {
    Normal,
    Failed,
    /// It had ended before.
    Gone,
    /// The session with its node is over.
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
