//! Errors of steps, yields and timeouts.

use super::sending::{CallError, Delivery};
use crate::exit::ExitReason;
use std::{fmt, time::Duration};

/// The error that a step returns to end its process: any error, or text.
#[derive(Debug)]
pub struct ProcessError(Box<dyn std::error::Error + Send + Sync>);

impl ProcessError {
    /// Creates an error from another error or from text.
    pub fn new(what: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        Self(what.into())
    }

    /// Returns the error, if it is an `E`.
    pub fn downcast_ref<E: std::error::Error + 'static>(&self) -> Option<&E> {
        self.0.downcast_ref()
    }

    pub(crate) fn into_reason(self) -> ExitReason {
        ExitReason::error(self.0)
    }
}

impl fmt::Display for ProcessError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Lets `?` convert any error in a step. (This is why `ProcessError` cannot implement `Error`. It converts to a
/// `Box<dyn Error>` instead.)
impl<E: std::error::Error + Send + Sync + 'static> From<E> for ProcessError {
    fn from(error: E) -> Self {
        Self(Box::new(error))
    }
}

impl From<ProcessError> for Box<dyn std::error::Error + Send + Sync> {
    fn from(error: ProcessError) -> Self {
        error.0
    }
}

impl From<ProcessError> for Box<dyn std::error::Error> {
    fn from(error: ProcessError) -> Self {
        error.0
    }
}

/// The reason why a step is invalid. The scheduler never takes an invalid step. A machine that is driven by hand
/// refuses one with a [`ProcessError`] that can be [downcast](ProcessError::downcast_ref) to this type.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum StepError {
    /// The process has not been started.
    #[error("a step before `init`; start the process first")]
    BeforeInit,
    /// The process has ended.
    #[error("a step after the process has ended; make a new one")]
    AfterDone,
}

/// The reason why a yield failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CommandError {
    /// No handler is registered for this type of command.
    #[error("no handler for the command `{command}`; add one to the builder with `.handler::<{command}>(…)`")]
    Unregistered {
        /// The type of the command.
        command: &'static str,
    },
    /// The handler dropped its completion.
    #[error("the handler of the command dropped its completion without an answer")]
    Dropped,
    /// The handler failed.
    #[error("{0}")]
    Failed(Box<dyn std::error::Error + Send + Sync>),
    /// The handler panicked.
    #[error("the handler of the command panicked: {0}")]
    Panicked(String),
    /// A yielded call got no answer.
    #[error(transparent)]
    Call(#[from] CallError),
}

impl CommandError {
    /// Returns whether the command, or the message of the call, may have been handled.
    pub fn delivery(&self) -> Delivery {
        match self {
            Self::Unregistered { .. } => Delivery::NotDelivered,
            Self::Dropped | Self::Panicked(_) => Delivery::Unknown,
            Self::Failed(_) => Delivery::Handled,
            Self::Call(error) => error.delivery(),
        }
    }
}

/// A timeout: the future did not complete in time and was dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
#[error("the future did not complete within {0:?} and was dropped")]
pub struct Elapsed(pub Duration);
