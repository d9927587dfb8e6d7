//! What can be wrong with a tree, and with what is asked of one.

use crate::errors::{InitError, SpawnError, did_you_mean, list};
use crate::exit::ExitReason;
use crate::pid::Pid;
use std::sync::Arc;
use std::time::Duration;

/// Why a supervisor could not be spawned. Nothing of it is left.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SupervisorError {
    /// Two children have the same name.
    #[error("two children are called `{name}`; a supervisor knows its children by name, so give each its own")]
    Duplicate {
        /// The name.
        name: String,
    },
    /// It has no children, and cannot be given any later.
    #[error(
        "a {strategy} supervisor without children has nothing to do; add one with `.child(…)`, or use \
            `Supervisor::dynamic()`"
    )]
    Childless {
        /// What kind of supervisor.
        strategy: &'static str,
    },
    /// The window in which restarts are counted has no length.
    #[error(
        "an intensity of {most} restarts within no time counts none; give a longer time, or `u32::MAX` restarts \
            for no limit"
    )]
    Window {
        /// How many restarts were to be allowed.
        most: u32,
    },
    /// Its process could not be spawned.
    #[error(transparent)]
    Spawn(#[from] SpawnError),
}

/// Why a supervisor could not do what was asked of one of its children.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ChildError {
    /// There is no child of that name.
    #[error("there is no child `{name}`; there {}{}", are(has, *count), did_you_mean(name, has))]
    Unknown {
        /// The name asked for.
        name: String,
        /// The children there are: all, or the sixteen whose names are most like it.
        has: Vec<String>,
        /// How many there are.
        count: usize,
    },
    /// The child is of another type.
    #[error("the child `{name}` is a `{found}`, not a `{expected}`")]
    Type {
        /// The child.
        name: String,
        /// What it was taken for.
        expected: &'static str,
        /// What it is.
        found: String,
    },
    /// The child is no supervisor.
    #[error("the child `{name}` is no supervisor, but a `{found}`; ask for its address with `child`")]
    NoTree {
        /// The child.
        name: String,
        /// What it is.
        found: String,
    },
    /// The child is a hand-written process that has not been started, so that its type is not known.
    #[error(
        "the type of the child `{name}` is known when it runs, which it does not; ask for its PID with \
            `child_pid`, or with `sibling_pid` in a child's closure"
    )]
    Untyped {
        /// The child.
        name: String,
    },
    /// Another child has the name.
    #[error("there is a child `{name}` already; stop that one and wait for its end, or choose another name")]
    Duplicate {
        /// The name.
        name: String,
    },
    /// The supervisor takes no more children.
    #[error(
        "a {strategy} supervisor takes no children while it runs; use `Supervisor::dynamic()` for those that \
            come and go"
    )]
    Fixed {
        /// What kind of supervisor.
        strategy: &'static str,
    },
    /// The supervisor has ended.
    #[error("the supervisor {0} has ended")]
    Gone(Pid),
    /// A sibling was asked for where the process is not the child of a supervisor.
    #[error(
        "there is no sibling `{name}`: what is spawned here is not the child of a supervisor; capture the \
            address in the closure instead"
    )]
    Alone {
        /// The name asked for.
        name: String,
    },
}

/// For the closure that starts a supervisor as a child, in which a sibling is asked for.
impl From<ChildError> for SupervisorError {
    fn from(error: ChildError) -> Self {
        Self::Spawn(error.into())
    }
}

/// For the closure that starts a child, in which a sibling is asked for: the child cannot start.
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

/// What a supervisor ends of when one of its children fails more often than is allowed: its exit reason is
/// [`ExitReason::Error`] with this in it.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error(
    "the child `{child}`, restarted {} before, ended once more ({reason}{}); no more than {} within {within:?} \
        are allowed",
    times(*.restarts),
    while_handling(*.handling),
    count_restarts(u64::from(*.most))
)]
#[non_exhaustive]
pub struct GaveUp {
    /// The child that failed last.
    pub child: Arc<str>,
    /// How often it had been restarted.
    pub restarts: u64,
    /// How many restarts, of all children together, are allowed within the time below.
    pub most: u32,
    /// The time.
    pub within: Duration,
    /// Why it ended at last.
    pub reason: ExitReason,
    /// The type of the message in which it failed, if it was handling one.
    pub handling: Option<&'static str>,
}

pub(super) fn count_restarts(count: u64) -> String {
    match count {
        1 => "1 restart".to_string(),
        count => format!("{count} restarts"),
    }
}

fn times(count: u64) -> String {
    match count {
        0 => "never".to_string(),
        1 => "once".to_string(),
        count => format!("{count} times"),
    }
}

pub(super) fn while_handling(message: Option<&str>) -> String {
    message.map(|message| format!(", while handling {message}")).unwrap_or_default()
}
