//! What those meet who build a runtime, or shut it down.

use crate::mailbox::bound::{Bound, WrongBound};

/// Why a runtime could not be built.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// The number of workers is no number of workers.
    #[error("{from} asks for `{came}` workers; give it a whole number from 1 to {most}")]
    Workers {
        /// Who asks.
        from: &'static str,
        /// What was asked for.
        came: String,
        /// The most there can be.
        most: usize,
    },
    /// The process limit is zero.
    #[error("a process limit of 0 would let nothing run; give a limit of at least 1, or none")]
    Limit,
    /// The bound of mailboxes is zero.
    #[error("mailboxes for 0 messages would let nothing through; give a bound of at least 1, or `Bound::Unbounded`")]
    Mailbox,
    /// The soft bound of mailboxes is larger than can be measured.
    #[error(
        "mailboxes with a soft bound of {came} messages were asked for, and {most} is the most that can be measured; give a \
         smaller bound, `Bound::Hard`, which is counted exactly, or `Bound::Unbounded`"
    )]
    SoftBound {
        /// What was asked for.
        came: usize,
        /// The most there can be: [`Bound::MOST_SOFT`](crate::Bound::MOST_SOFT).
        most: usize,
    },
    /// The limit from which on a step is stalled is zero.
    #[error(
        "a stall limit of 0 would report every step; give the time that a step may take while others wait, or \
         `Duration::MAX` to look for no stalls"
    )]
    StallLimit,
    /// The bound of threads for steps that block is no such bound.
    #[error(
        "{came} threads for steps that block were asked for; give `blocking_threads` a number from 1 to {most}: without any, \
         a process that blocks could stop all others"
    )]
    BlockingThreads {
        /// What was asked for.
        came: usize,
        /// The most there can be.
        most: usize,
    },
    /// The stacks that were asked for are too small to run a step, or larger than any is.
    #[error("a stack of {came} bytes was asked for; give `worker_stack_size` a number from {least} to {most}")]
    StackSize {
        /// What was asked for.
        came: usize,
        /// The smallest there can be.
        least: usize,
        /// The largest there can be.
        most: usize,
    },
    /// The system did not give the threads.
    #[error("the worker threads could not be started: {0}")]
    Threads(std::io::Error),
    /// The system did not give what Tokio needs to wait for sockets and timers.
    #[cfg(feature = "tokio")]
    #[error("the Tokio runtime beside the workers could not be started: {0}")]
    Reactor(std::io::Error),
}

impl From<WrongBound> for BuildError {
    fn from(wrong: WrongBound) -> Self {
        match wrong {
            WrongBound::Nothing => Self::Mailbox,
            WrongBound::TooLarge { came } => Self::SoftBound { came, most: Bound::MOST_SOFT },
        }
    }
}

/// Why a shutdown was not waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ShutdownError {
    /// It was asked for inside one of the processes that it would have to wait for, or by a Tokio task on the thread
    /// that they may need to end: such a task can await [`Runtime::shutdown_async`](crate::Runtime::shutdown_async)
    /// instead.
    #[error(
        "neither a process nor a task on the runtime's own Tokio thread can wait for its shutdown, which has begun without \
         being waited for"
    )]
    FromInside,
    /// The system did not let the program listen for ctrl-c.
    #[error("ctrl-c cannot be listened for; another part of the program may have set a handler of its own")]
    NoSignal,
}
