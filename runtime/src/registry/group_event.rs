//! What is told of a group.

use crate::exit::ExitReason;
use crate::pid::Pid;
use crate::sync::Arc;

/// What a group's subscribers are told, as a message.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum GroupEvent {
    /// A process has become a member.
    Joined {
        /// The name of the group.
        group: Arc<str>,
        /// The process.
        pid: Pid,
    },
    /// A process is no member any more.
    Left {
        /// The name of the group.
        group: Arc<str>,
        /// The process.
        pid: Pid,
        /// Why it ended; `None` if it has left.
        reason: Option<ExitReason>,
    },
}
