//! Errors of building a runtime and of shutting it down.

use crate::mailbox::bound::{Bound, WrongBound};

/// The reason why a runtime could not be built.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// A runtime was built in a simulated test or by one of its processes.
    #[error(
        "a simulated test has one runtime, which is its own: use the `Sim`, or `Host::current()` in a process; test \
         shutdown, drain and several runtimes in an ordinary test"
    )]
    Simulated,
    /// The number of workers is invalid.
    #[error("{from} requests `{came}` workers; use a whole number from 1 to {most}")]
    Workers {
        /// Source of the number.
        from: &'static str,
        /// The number that was given.
        came: String,
        /// Maximum number.
        most: usize,
    },
    /// The process limit is zero.
    #[error("a process limit of 0 allows no process; use a limit of at least 1, or none")]
    Limit,
    /// The mailbox bound is zero.
    #[error("mailboxes with a bound of 0 accept no message; use a bound of at least 1, or `Bound::Unbounded`")]
    Mailbox,
    /// The soft mailbox bound is greater than the length that can be measured.
    #[error(
        "a soft bound of {came} messages is too large: at most {most} can be measured; use a smaller bound, \
         `Bound::Hard`, which is counted exactly, or `Bound::Unbounded`"
    )]
    SoftBound {
        /// The bound that was given.
        came: usize,
        /// Maximum bound: [`Bound::MOST_SOFT`](crate::Bound::MOST_SOFT).
        most: usize,
    },
    /// The stall limit is zero.
    #[error(
        "a stall limit of 0 would report every step; give the time that a step may take while others wait, or \
         `Duration::MAX` to look for no stalls"
    )]
    StallLimit,
    /// The limit for blocking threads is invalid.
    #[error(
        "`blocking_threads` cannot be {came}; use a number from 1 to {most}: without any, a process that blocks could \
         stop all others"
    )]
    BlockingThreads {
        /// The number that was given.
        came: usize,
        /// Maximum number.
        most: usize,
    },
    /// The stack size is too small to run a step, or greater than any system allows.
    #[error("`worker_stack_size` cannot be {came}; use a number of bytes from {least} to {most}")]
    StackSize {
        /// The size that was given.
        came: usize,
        /// Minimum size.
        least: usize,
        /// Maximum size.
        most: usize,
    },
    /// The system refused to start the threads.
    #[error("the worker threads could not be started: {0}")]
    Threads(std::io::Error),
    /// The system refused the resources that Tokio needs for sockets and timers.
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

/// The reason why the caller could not wait for a shutdown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ShutdownError {
    /// The caller is one of the processes that the shutdown would wait for, or runs on a thread of the runtime that
    /// these processes depend on, or is a Tokio task on a thread that they may need in order to end. Such a task can
    /// await [`Runtime::shutdown_async`](crate::Runtime::shutdown_async) instead.
    #[error(
        "neither a process nor a task on the runtime's own Tokio thread can wait for its shutdown, which has begun \
         without being waited for"
    )]
    FromInside,
    /// The shutdown was requested by a simulated test or one of its processes. They cannot wait for it, because their
    /// time is not that of this runtime.
    #[error(
        "a simulated test cannot wait for the shutdown or the drain of a runtime, which has begun without being waited \
         for; test them in an ordinary test, with a runtime of its own"
    )]
    Simulated,
    /// The system refused to install a handler for ctrl-c.
    #[error("cannot listen for ctrl-c; another part of the program may have set a handler of its own")]
    NoSignal,
}
