//! The state of a child as users see it.

use super::{errors::while_handling, plan::Phase, plan::Restart};
use crate::{ExitReason, Pid};
use std::{fmt, sync::Arc};

/// The state of a child.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ChildState {
    /// To be started once the children before it run.
    Waiting,
    /// Running.
    Running,
    /// Told to end, or killed.
    Stopping,
    /// Killed, but has not ended: its step does not return.
    Stuck,
    /// Failed, or stopped with its group; will be restarted.
    BackingOff,
    /// Down, and not to be restarted automatically.
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

/// The most recent end of a child, or the reason why it could not start.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct LastEnd {
    /// The exit reason.
    pub reason: ExitReason,
    /// The type of the message that the child was handling when it failed. That message is not delivered again.
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
    /// Tells after which outcomes the child is restarted.
    pub(super) restart: Restart,
    pub(super) last: Option<LastEnd>,
    /// The process whose end `last` describes, or `None` if `last` is a failed start.
    pub(super) ended: Option<Pid>,
    pub(super) process: Option<&'static str>,
    /// Name of the node that the child runs on, or last ran on, if that is another node.
    pub(super) node: Option<Arc<str>>,
}
