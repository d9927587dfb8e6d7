//! The state of a child as users see it.

use super::{errors::while_handling, plan::Phase, plan::Restart};
use crate::{ExitReason, Pid};
use std::{fmt, sync::Arc};

/// The state of a child.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ChildState {
    /// Will be started once those before it run.
    Waiting,
    /// Running.
    Running,
    /// Told to end, or killed.
    Stopping,
    /// Killed, but has not ended: its step does not return.
    Stuck,
    /// Failed, or stopped with its group; will be restarted.
    BackingOff,
    /// Down, and will not be restarted by itself.
    #[default]
    Down,
}

impl ChildState {
    pub(super) fn of(phase: Option<Phase>) -> Self {
        match phase {
            Some(Phase::Waiting { .. } | Phase::Starting) => Self::Waiting,
            Some(Phase::Running) => Self::Running,
            Some(Phase::Asked | Phase::Killed) => Self::Stopping,
            Some(Phase::Stuck) => Self::Stuck,
            Some(Phase::Delayed | Phase::Parked) => Self::BackingOff,
            Some(Phase::Over) | None => Self::Down,
        }
    }
}

impl fmt::Display for ChildState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Waiting => "waiting",
            Self::Running => "running",
            Self::Stopping => "stopping",
            Self::Stuck => "stuck",
            Self::BackingOff => "backing off",
            Self::Down => "down",
        })
    }
}

/// How a child ended last, or why it could not start.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct LastEnd {
    /// The exit reason.
    pub reason: ExitReason,
    /// The type of the message that it was handling when it failed. That message is not delivered again.
    pub handling: Option<&'static str>,
}

impl fmt::Display for LastEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.reason, while_handling(self.handling))
    }
}

/// The published state of a child, written by its supervisor.
#[derive(Clone, Debug, Default)]
pub(crate) struct ChildStatus {
    pub(super) state: ChildState,
    pub(super) restarts: u64,
    /// After which ends it is restarted.
    pub(super) restart: Restart,
    pub(super) last: Option<LastEnd>,
    /// The process of which that is the end; `None` if it is of a start.
    pub(super) ended: Option<Pid>,
    pub(super) process: Option<&'static str>,
    /// The name of the node that it runs on, or ran on last, if that is another.
    pub(super) node: Option<Arc<str>>,
}
