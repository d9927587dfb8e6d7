//! Errors of spawns, entries and results.

use super::naming::{BadName, NameError};
use super::words::{are, count, did_you_mean, list};
use crate::mailbox::bound::{Bound, WrongBound};
use crate::{exit::ExitReason, pid::Pid};
use std::convert::Infallible;

/// The reason why a process could not be spawned. Everything that the spawn had acquired was released.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SpawnError {
    /// The runtime is shutting down.
    #[error("the runtime is shutting down and accepts no new processes")]
    Shutdown,
    /// There is no such entry, or the inputs do not match it.
    #[error(transparent)]
    Entry(Box<EntryError>),
    /// The entry, or `init`, failed or panicked.
    #[error("the process could not start: {0}")]
    Init(InitError),
    /// A start hook refused the process.
    #[error("a start hook refused the process: {0}")]
    Refused(String),
    /// The host's limit of live processes is reached.
    #[error("the host's limit of {limit} live processes is reached; raise `process_limit`, or wait for one to end")]
    Limit {
        /// The limit.
        limit: usize,
    },
    /// This spawn has already been used.
    #[error("this spawn has been started already; call `spawn` again for another process")]
    Used,
    /// Another process has the name.
    #[error("the name `{name}` belongs to {holder}; choose another name, or send to that process")]
    Name {
        /// The name.
        name: String,
        /// The process that has the name.
        holder: Pid,
    },
    /// The bound of the process's mailbox is zero.
    #[error("a mailbox with a bound of 0 accepts no message; use a bound of at least 1, or `Bound::Unbounded`")]
    Mailbox,
    /// The soft bound of the process's mailbox is greater than the length that can be measured.
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
    /// An option binds the process to its spawner, but the spawner is not a process.
    #[error(
        "`{option}` binds a process to its spawner, which is not a process here; spawn it \
            inside a process, or remove the option"
    )]
    NoProcess {
        /// The option.
        option: &'static str,
    },
    /// The name is invalid.
    #[error(transparent)]
    BadName(#[from] BadName),
    /// The holder of the name has another type.
    #[error("the name `{name}` belongs to {pid}, which has type `{found}`, not `{expected}`; choose another name")]
    NameType {
        /// The name.
        name: String,
        /// The process that has the name.
        pid: Pid,
        /// The type to spawn.
        expected: &'static str,
        /// The type of the holder.
        found: &'static str,
    },
    /// All 2^28 slots are in use.
    #[error("all {} slots for processes are in use", 1_u32 << crate::pid::SLOT_BITS)]
    Slots,
    /// The bounds of a pool allow it no member.
    #[error("a pool of {least} to {most} members can have no member; allow at least one, and no fewer than {least}")]
    NoMembers {
        /// Minimum number of members.
        least: usize,
        /// Maximum number of members.
        most: usize,
    },
    /// The window for counting restarts of members is zero.
    #[error(
        "an intensity of {restarts} restarts within a window of zero counts none; use a longer window, or `u32::MAX` \
            restarts for no limit"
    )]
    Window {
        /// The number of restarts to allow.
        restarts: u32,
    },
    /// Too many processes are starting inside one another, each spawned from the `init` of the previous one.
    #[error("{depth} processes are starting inside each other; spawn from a step instead of from the entry")]
    Depth {
        /// The depth.
        depth: usize,
    },
    /// The system refused a thread for a pinned process.
    #[error("no thread could be started for the pinned process: {0}; run fewer pinned processes at a time")]
    Thread(String),
}

/// The reason why a process could not be started by name.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// No process type is registered under that name.
    #[error("no process type `{name}` is registered; there {}{}", are(has), did_you_mean(name, has))]
    Unknown {
        /// The requested name.
        name: String,
        /// The registered names.
        has: Vec<String>,
    },
    /// The inputs are not valid JSON, or are neither an array nor an object.
    #[error("the inputs must be a JSON array, or a JSON object with a value for each input's name: {0}")]
    Json(String),
    /// The process could not be spawned, or the entry or its inputs do not match.
    #[error(transparent)]
    Spawn(#[from] SpawnError),
}

/// The reason why an entry could not be used by name. Also reported for messages: see
/// [`MessageError::Inputs`](crate::error::MessageError::Inputs).
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EntryError {
    /// There is no such entry.
    #[error("`{process}` has no entry `{entry}`; it has {}{}", list(has), did_you_mean(entry, has))]
    Unknown {
        /// The process type.
        process: String,
        /// The requested entry.
        entry: String,
        /// The known entries.
        has: Vec<String>,
    },
    /// The number of inputs is wrong.
    #[error("`{process}::{entry}` takes {} ({}), not {came}", count(*expected), list(inputs))]
    Count {
        /// The process type.
        process: String,
        /// The entry, or the message.
        entry: String,
        /// Number of inputs that the entry or message takes.
        expected: usize,
        /// Number of inputs that were given.
        came: usize,
        /// Expected inputs, with their types.
        inputs: Vec<String>,
    },
    /// A JSON object lacks a required input.
    #[error("input `{input}` of `{process}::{entry}`, of type `{expected}`, is missing; give it a value")]
    Missing {
        /// The process type.
        process: String,
        /// The entry, or the message.
        entry: String,
        /// The input.
        input: String,
        /// Type of the input.
        expected: String,
    },
    /// A JSON object has an unknown input.
    #[error("`{process}::{entry}` has no input `{input}`; it has {}{}", list(has), did_you_mean(input, has))]
    UnknownInput {
        /// The process type.
        process: String,
        /// The entry, or the message.
        entry: String,
        /// Name of the input, shortened if it is long.
        input: String,
        /// The known inputs.
        has: Vec<String>,
    },
    /// An input has the wrong type.
    #[error(
        "input `{input}` of `{process}::{entry}` is of type `{expected}`, and {came} cannot be converted \
            to it without loss"
    )]
    Type {
        /// The process type.
        process: String,
        /// The entry, or the message.
        entry: String,
        /// The input.
        input: String,
        /// Type of the input.
        expected: String,
        /// Value that was given instead.
        came: String,
    },
}

/// The reason why the start of a process failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum InitError {
    /// There is no such entry, or the inputs do not match it.
    #[error(transparent)]
    Entry(Box<EntryError>),
    /// The entry failed.
    #[error("{0}")]
    Failed(Box<dyn std::error::Error + Send + Sync>),
    /// The entry panicked.
    #[error("{0}")]
    Panicked(crate::exit::Panic),
    /// The process was already started.
    #[error("the process has been started already; `init` is called once")]
    Twice,
}

impl InitError {
    /// Creates the error of an entry that failed.
    pub fn failed(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        Self::Failed(error.into())
    }
}

/// The reason why an entry gave no result. `E` is the error of the entry.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum RunError<E = Infallible> {
    /// The entry returned this error.
    #[error("{0}")]
    Failed(E),
    /// The process ended in another way.
    #[error("the process ended without a result ({0})")]
    Ended(ExitReason),
}

impl From<WrongBound> for SpawnError {
    fn from(wrong: WrongBound) -> Self {
        match wrong {
            WrongBound::Nothing => Self::Mailbox,
            WrongBound::TooLarge { came } => Self::SoftBound { came, most: Bound::MOST_SOFT },
        }
    }
}

impl From<NameError> for SpawnError {
    fn from(error: NameError) -> Self {
        match error {
            NameError::Taken { name, holder } => Self::Name { name, holder },
            NameError::BadName(error) => Self::BadName(error),
            NameError::Shutdown => Self::Shutdown,
            NameError::Gone { .. } => unreachable!("a process that is being spawned lives"),
        }
    }
}

impl From<EntryError> for SpawnError {
    fn from(error: EntryError) -> Self {
        Self::Entry(Box::new(error))
    }
}

impl From<InitError> for SpawnError {
    fn from(error: InitError) -> Self {
        match error {
            InitError::Entry(error) => Self::Entry(error),
            error => Self::Init(error),
        }
    }
}

impl From<EntryError> for InitError {
    fn from(error: EntryError) -> Self {
        Self::Entry(Box::new(error))
    }
}
