//! What is kept of a child to be told.

use super::errors::while_handling;
use super::plan::Phase;
use crate::exit::ExitReason;
use std::fmt;

/// Where a child is in its life.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ChildState {
    /// It is to be started when those before it run.
    Waiting,
    /// It runs.
    Running,
    /// It has been told to end, or killed.
    Stopping,
    /// It was killed, and has not ended: its step does not return.
    Stuck,
    /// It has failed, or another one of its group, and is to be started again.
    BackingOff,
    /// It is down, and does not come back by itself.
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
    /// Why.
    pub reason: ExitReason,
    /// The type of the message that it was handling when it failed. That message is not delivered again.
    pub handling: Option<&'static str>,
}

impl fmt::Display for LastEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.reason, while_handling(self.handling))
    }
}

/// What is kept of a child to be told: its supervisor writes it.
#[derive(Clone, Debug, Default)]
pub(crate) struct ChildStatus {
    pub(super) state: ChildState,
    pub(super) restarts: u64,
    pub(super) last: Option<LastEnd>,
    /// What the process calls its type.
    pub(super) process: Option<&'static str>,
}
