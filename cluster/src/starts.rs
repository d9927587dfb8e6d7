//! Starts of processes on another node: what comes of them.

use crate::codec::CodecError;
use postroom::Pid;

/// The longest key, in bytes.
pub(crate) const MAX_KEY: usize = 1_024;

/// Why a process was not started on another node.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// The node is no member any more, or there is no session with it.
    #[error("node `{node}` cannot be reached; ask for another with `cluster.any`, or wait until it is back")]
    Unreachable {
        /// Its name.
        node: String,
    },
    /// The inputs do not fit the entry, or the type is not exported here.
    #[error(transparent)]
    Inputs(#[from] CodecError),
    /// The node has refused.
    #[error("node `{node}` has not said that it was started: {reason}")]
    Refused {
        /// Its name.
        node: String,
        /// What it says.
        reason: String,
    },
    /// The node's policy says no.
    #[error("node `{node}` does not allow the start; change what it allows with `Builder::allow` there")]
    Denied {
        /// Its name.
        node: String,
    },
    /// The node has too many starts of this one waiting. The process was not started.
    #[error("node `{node}` has 4,096 starts of this node waiting, or 16 MiB of inputs; try again when some are made")]
    Full {
        /// Its name.
        node: String,
    },
    /// The key belongs to a process of another type.
    #[error("node `{node}` has started `{process}` with this key; use another key for each type")]
    KeyTaken {
        /// The node's name.
        node: String,
        /// The type of the process that the key belongs to.
        process: String,
    },
    /// The key has no bytes, or too many.
    #[error("the key of a start has {bytes} bytes; use 1 to {MAX_KEY}")]
    KeyLength {
        /// How many.
        bytes: usize,
    },
}

/// What came of a start elsewhere: the process, or why there is none.
pub(crate) type Started = Result<Pid, NotStarted>;

/// Why there is none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum NotStarted {
    /// In words, for people.
    Said(String),
    /// The node does not allow it.
    Denied,
    /// Too many of the peer's wait there.
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
    /// Returns it as the error of a start on that node.
    pub(crate) fn into_error(self, node: String) -> StartError {
        match self {
            Self::Said(reason) => StartError::Refused { node, reason },
            Self::Denied => StartError::Denied { node },
            Self::Full => StartError::Full { node },
            Self::KeyTaken { process } => StartError::KeyTaken { node, process },
        }
    }
}
