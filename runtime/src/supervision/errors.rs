//! The errors of supervisors and of requests to them.

use crate::errors::{did_you_mean, list};
use crate::{ExitReason, InitError, Pid, SpawnError};
use std::{sync::Arc, time::Duration};

/// The reason why a supervisor could not be spawned. Its children have been stopped.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SupervisorError {
    /// Two children have the same name.
    #[error("two children are called `{name}`; a supervisor knows its children by name, so give each its own")]
    Duplicate {
        /// The name of both children.
        name: String,
    },
    /// The supervisor has no children, and its strategy cannot add any later.
    #[error(
        "a {strategy} supervisor without children has nothing to do; add one with `.child(…)`, or use \
            `Supervisor::dynamic()`"
    )]
    Childless {
        /// The name of its strategy.
        strategy: &'static str,
    },
    /// The window for counting restarts is zero.
    #[error(
        "an intensity of {most} restarts within a window of zero counts none; use a longer window, or `u32::MAX` \
         restarts for no limit"
    )]
    Window {
        /// The number of restarts to allow.
        most: u32,
    },
    /// The process of the supervisor could not be spawned.
    #[error(transparent)]
    Spawn(#[from] SpawnError),
}

/// The reason why a supervisor refused a request about a child.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ChildError {
    /// There is no child with that name.
    #[error("there is no child `{name}`; there {}{}", are(has, *count), did_you_mean(name, has))]
    Unknown {
        /// The requested name.
        name: String,
        /// The names of the children: all, or the sixteen most similar ones.
        has: Vec<String>,
        /// The number of children.
        count: usize,
    },
    /// The child has another type.
    #[error("the child `{name}` has type `{found}`, not `{expected}`")]
    Type {
        /// The name of the child.
        name: String,
        /// The requested type.
        expected: &'static str,
        /// The type of the child.
        found: String,
    },
    /// The child is not a supervisor.
    #[error("the child `{name}` is not a supervisor but a `{found}`; ask for its address with `child`")]
    NoTree {
        /// The name of the child.
        name: String,
        /// The type of the child.
        found: String,
    },
    /// The child is a hand-written process that has not been started, so its type is unknown.
    #[error(
        "the type of the child `{name}` is unknown until it runs; ask for its PID with \
            `child_pid`, or with `sibling_pid` in a child's closure"
    )]
    Untyped {
        /// The name of the child.
        name: String,
    },
    /// Another child has the name.
    #[error("a child `{name}` already exists; stop that one and wait for its end, or choose another name")]
    Duplicate {
        /// The requested name.
        name: String,
    },
    /// The supervisor takes no further children.
    #[error(
        "a {strategy} supervisor accepts no children while it runs; use `Supervisor::dynamic()` for those that \
            come and go"
    )]
    Fixed {
        /// The name of its strategy.
        strategy: &'static str,
    },
    /// The supervisor has ended.
    #[error("the supervisor {0} has ended")]
    Gone(Pid),
    /// A sibling was requested for a process that is not a supervisor's child.
    #[error(
        "there is no sibling `{name}`: this process is not the child of a supervisor; capture the \
            address in the closure instead"
    )]
    Alone {
        /// The requested name.
        name: String,
    },
    /// A start on another node was requested for a process that is not a supervisor's child.
    #[error(
        "only the child of a supervisor is started on another node with `on`, since it has to end with its \
            supervisor, and this is none; start it with the node's `start` instead"
    )]
    Unsupervised,
}

/// Lets closures that start a supervisor as a child use `?` when they ask for a sibling.
impl From<ChildError> for SupervisorError {
    fn from(error: ChildError) -> Self {
        Self::Spawn(error.into())
    }
}

/// Lets closures that start a child use `?` when they ask for a sibling; the error makes the child's start fail.
impl From<ChildError> for SpawnError {
    fn from(error: ChildError) -> Self {
        Self::Init(InitError::failed(error))
    }
}

fn are(has: &[String], count: usize) -> String {
    match has {
        [] => "are none".to_string(),
        [name] => format!("is `{name}`"),
        names if names.len() < count => format!("are {count}, among them {}", list(names)),
        names => format!("are {}", list(names)),
    }
}

/// The error that ends a supervisor whose children fail more often than allowed: its exit reason is an
/// [`ExitReason::Error`] that contains this error.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error(
    "the child `{child}` ended ({reason}{}) after {}; no more than {} within {within:?} are allowed{}",
    while_handling(*.handling),
    count_restarts(*.restarts),
    count_restarts(u64::from(*.most)),
    if .reason.is_normal() { "; work that finishes is a `.transient()` child" } else { "" }
)]
#[non_exhaustive]
pub struct GaveUp {
    /// The child whose failure made the supervisor give up.
    pub child: Arc<str>,
    /// Number of times that the child had been restarted.
    pub restarts: u64,
    /// Number of restarts, of all children together, that are allowed within `within`.
    pub most: u32,
    /// The window for counting restarts.
    pub within: Duration,
    /// The reason of that failure.
    pub reason: ExitReason,
    /// The type of the message that the child was handling, if any.
    pub handling: Option<&'static str>,
}

pub(super) fn count_restarts(count: u64) -> String {
    match count {
        1 => "1 restart".to_string(),
        count => format!("{count} restarts"),
    }
}

pub(super) fn while_handling(message: Option<&str>) -> String {
    message.map(|message| format!(", while handling {message}")).unwrap_or_default()
}
