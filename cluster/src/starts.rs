//! Results of process starts on another node.

use crate::codec::CodecError;
use postroom::Pid;

/// The maximum length of a key, in bytes.
pub(crate) const MAX_KEY: usize = 1_024;

/// Why a process was not started on another node.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// The node is no longer a member, or there is no session with it.
    #[error("node `{node}` cannot be reached; ask for another with `cluster.any`, or wait until it is back")]
    Unreachable {
        /// The name of the node.
        node: String,
    },
    /// The inputs do not fit the entry, or the type is not exported here.
    #[error(transparent)]
    Inputs(#[from] CodecError),
    /// The node refused the start.
    #[error("node `{node}` has not said that it was started: {reason}")]
    Refused {
        /// The name of the node.
        node: String,
        /// The reason that it reported.
        reason: String,
    },
    /// The node's policy denies the start.
    #[error("node `{node}` does not allow the start; change what it allows with `Builder::allow` there")]
    Denied {
        /// The name of the node.
        node: String,
    },
    /// Too many starts of this node are waiting at the other node. The process was not started.
    #[error("node `{node}` has 4,096 starts of this node waiting, or 16 MiB of inputs; try again when some are made")]
    Full {
        /// The name of the node.
        node: String,
    },
    /// The key belongs to a process of another type.
    #[error("node `{node}` has started `{process}` with this key; use another key for each type")]
    KeyTaken {
        /// The name of the node.
        node: String,
        /// The type of the process that the key belongs to.
        process: String,
    },
    /// The key is empty or too long.
    #[error("the key of a start has {bytes} bytes; use 1 to {MAX_KEY}")]
    KeyLength {
        /// The length of the key.
        bytes: usize,
    },
}

/// The result of a start on another node: the process, or why it was not started.
pub(crate) type Started = Result<Pid, NotStarted>;

/// Why a process was not started on another node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum NotStarted {
    /// Refused with a human-readable reason.
    Said(String),
    /// The node does not allow the start.
    Denied,
    /// Too many starts of this node are waiting there.
    Full,
    /// A process of another type was started with the key.
    KeyTaken { process: String },
}

impl From<&str> for NotStarted {
    fn from(reason: &str) -> Self {
        Self::Said(reason.to_owned())
    }
}

impl From<String> for NotStarted {
    fn from(reason: String) -> Self {
        Self::Said(reason)
    }
}

impl NotStarted {
    /// Converts the reason to the error of a start on `node`.
    pub(crate) fn into_error(self, node: String) -> StartError {
        match self {
            Self::Said(reason) => StartError::Refused { node, reason },
            Self::Denied => StartError::Denied { node },
            Self::Full => StartError::Full { node },
            Self::KeyTaken { process } => StartError::KeyTaken { node, process },
        }
    }
}
