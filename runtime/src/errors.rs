//! What goes wrong between processes: each error says what was expected, what came, and what to do.

use crate::exit::ExitReason;
use crate::payload::Payload;
use crate::pid::Pid;
use std::convert::Infallible;
use std::fmt;
use std::time::Duration;

/// Why a call got no answer. `E` is the error of the called method.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum CallError<E = Infallible> {
    /// The method returned this error.
    #[error("{0}")]
    Failed(E),
    /// The process is dead, or died before it answered.
    #[error("the called process ended before it answered ({0})")]
    Gone(ExitReason),
    /// The deadline passed. The answer, should it come, is dropped.
    #[error(
        "no answer before the deadline; give the call more time with `.timeout(…)`, or find out what the process waits for"
    )]
    Timeout,
    /// The mailbox was full.
    #[error("the mailbox of the called process is full; try again later, or wait for room with `send_wait`")]
    Full,
    /// The call would have waited for itself.
    #[error("the call would wait for itself: {0}")]
    Cycle(Cycle),
    /// The process dropped the call without answering it.
    #[error("the called process dropped the call without an answer")]
    Dropped,
    /// The process has no method for a message of this type, or answers it with another type.
    #[error("the called process does not understand the message, or answers it with another type")]
    Unhandled,
    /// The runtime is shutting down.
    #[error("the runtime is shutting down")]
    Shutdown,
}

impl<E> CallError<E> {
    /// Whether the same call may well succeed later.
    pub fn is_retryable(&self) -> bool {
        matches!(self, Self::Timeout | Self::Full | Self::Dropped)
    }

    /// The error of the called method, if it was that.
    pub fn failed(self) -> Option<E> {
        match self {
            Self::Failed(error) => Some(error),
            _ => None,
        }
    }
}

impl CallError {
    /// The same, for a call that could have failed with an `E`.
    pub(crate) fn widen<E>(self) -> CallError<E> {
        match self {
            Self::Failed(never) => match never {},
            Self::Gone(reason) => CallError::Gone(reason),
            Self::Timeout => CallError::Timeout,
            Self::Full => CallError::Full,
            Self::Cycle(cycle) => CallError::Cycle(cycle),
            Self::Dropped => CallError::Dropped,
            Self::Unhandled => CallError::Unhandled,
            Self::Shutdown => CallError::Shutdown,
        }
    }
}

/// Why an entry gave no result. `E` is the error of the entry.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum RunError<E = Infallible> {
    /// The entry returned this error.
    #[error("{0}")]
    Failed(E),
    /// The process ended otherwise.
    #[error("the process ended without a result ({0})")]
    Ended(ExitReason),
}

/// A ring of calls in which everyone waits for the next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cycle {
    /// Who waits, and the method that it called; the last waits for the first.
    pub calls: Vec<(Pid, &'static str)>,
}

impl fmt::Display for Cycle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (pid, method) in &self.calls {
            write!(f, "{pid} calls {method}, ")?;
        }
        f.write_str("which waits for the first")
    }
}

/// The time that something was given is over. What it was doing is dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
#[error("it did not come to an end in {0:?}, and was dropped")]
pub struct Elapsed(pub Duration);

/// A message that was refused; it comes back whole.
#[derive(Clone, PartialEq)]
pub struct SendError<M> {
    /// The message.
    pub message: M,
    /// Why it was refused.
    pub reason: SendFailure,
}

/// Why a message was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
#[non_exhaustive]
pub enum SendFailure {
    /// The process has ended, or its PID was never given out.
    #[error("{0} is no living process; find the present one by name, or monitor it to learn of its end")]
    Gone(Pid),
    /// The PID belongs to a node that this program has no way to.
    #[error("{0} lives on a node that this program is not connected to; connect the router to it")]
    UnknownNode(Pid),
    /// The PID belongs to a host that this program does not have.
    #[error("{0} lives on a host that this program does not have")]
    UnknownHost(Pid),
    /// The mailbox is full.
    #[error("the mailbox of {0} is full; try again later, or wait for room with `send_wait`")]
    Full(Pid),
    /// No process has the name that the message was for.
    #[error("no process has that name; register one, or spawn one with `.named(…).or_existing()`")]
    UnknownName,
    /// A timer was asked for, and there is no runtime to keep it.
    #[error("{0} is run by no scheduler, so nobody can keep the time for it; send at once instead")]
    NoTimer(Pid),
}

impl SendFailure {
    /// The same of the PID that the sender used, which pointed on to the one that refused. What is said of nodes and hosts
    /// stays: it is true of that one only.
    pub(crate) fn about(self, pid: Pid) -> Self {
        match self {
            Self::Gone(_) => Self::Gone(pid),
            Self::Full(_) => Self::Full(pid),
            other => other,
        }
    }
}

impl<M> fmt::Debug for SendError<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SendError").field("message", &std::any::type_name::<M>()).field("reason", &self.reason).finish()
    }
}

impl<M> fmt::Display for SendError<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a message was refused: {}", self.reason)
    }
}

impl<M> std::error::Error for SendError<M> {}

impl<M, E> From<SendError<M>> for CallError<E> {
    fn from(error: SendError<M>) -> Self {
        match error.reason {
            SendFailure::Full(_) => Self::Full,
            _ => Self::Gone(ExitReason::Gone),
        }
    }
}

/// Why a process could not be spawned. Nothing of it is left.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SpawnError {
    /// The runtime is shutting down.
    #[error("the runtime is shutting down and takes no new processes")]
    Shutdown,
    /// There is no such entry, or the inputs do not fit it.
    #[error(transparent)]
    Entry(Box<EntryError>),
    /// The entry, or `init`, failed or panicked.
    #[error("the process could not start: {0}")]
    Init(InitError),
    /// A start hook refused it.
    #[error("a start hook refused the process: {0}")]
    Refused(String),
    /// As many processes live as the host allows.
    #[error("{limit} processes live, as many as the host allows; raise `process_limit`, or wait for one to end")]
    Limit {
        /// How many may live.
        limit: usize,
    },
    /// The builder had been used already.
    #[error("this spawn has been started already; call `spawn` again for another process")]
    Used,
    /// Another process has the name.
    #[error("the name `{name}` belongs to {holder}; choose another name, or send to that process")]
    Name {
        /// The name.
        name: String,
        /// Who has it.
        holder: Pid,
    },
    /// The bound of its mailbox is zero.
    #[error("a mailbox for 0 messages would let nothing through; give a bound of at least 1, or `Bound::Unbounded`")]
    Mailbox,
    /// It was to be bound to the process that spawns it, and no process does.
    #[error(
        "`{option}` binds a process to the one that spawns it, and this is no process; spawn it from inside one, or leave that out"
    )]
    NoProcess {
        /// The option.
        option: &'static str,
    },
    /// The name is none that a process can have.
    #[error(transparent)]
    BadName(#[from] BadName),
    /// The process that has the name is none of the type that was to be spawned.
    #[error("the name `{name}` belongs to {pid}, which is a `{found}`, not a `{expected}`; choose another name")]
    NameType {
        /// The name.
        name: String,
        /// Who has it.
        pid: Pid,
        /// What was to be spawned.
        expected: &'static str,
        /// What that is.
        found: &'static str,
    },
    /// All 2^28 slots are in use.
    #[error("all {} slots for processes are in use", 1_u32 << crate::pid::SLOT_BITS)]
    Slots,
    /// A pool that may have no members.
    #[error(
        "a pool of {least} to {most} members would serve nobody; let it have at least one, and no fewer than {least}"
    )]
    NoMembers {
        /// How many it is to have at least.
        least: usize,
        /// How many it may have.
        most: usize,
    },
    /// Processes spawned each other from their `init` too deep.
    #[error("{depth} processes are starting inside one another; spawn from a step instead of from the entry")]
    Depth {
        /// How deep.
        depth: usize,
    },
    /// The system gives no thread for a pinned process.
    #[error(
        "no thread could be started for the process, which is pinned to one: {0}; let fewer of them live at a time"
    )]
    Thread(String),
}

/// A text that can be no name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BadName {
    /// It is empty.
    #[error("a name cannot be empty; give one of 1 byte or more")]
    Empty,
    /// It is too long.
    #[error("a name of {bytes} bytes is too long; give one of {longest} bytes at most")]
    TooLong {
        /// Its length.
        bytes: usize,
        /// What a name can have.
        longest: usize,
    },
}

/// Why a process was not given a name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NameError {
    /// Another process has it.
    #[error("the name `{name}` belongs to {holder}; choose another name, or send to that process")]
    Taken {
        /// The name.
        name: String,
        /// Who has it.
        holder: Pid,
    },
    /// The process that was to have it has ended, or its PID was never given out in this program.
    #[error("{pid} is no living process of this program, and cannot be given the name `{name}`")]
    Gone {
        /// The name.
        name: String,
        /// The PID.
        pid: Pid,
    },
    /// The name is none that a process can have.
    #[error(transparent)]
    BadName(#[from] BadName),
}

impl From<NameError> for SpawnError {
    fn from(error: NameError) -> Self {
        match error {
            NameError::Taken { name, holder } => Self::Name { name, holder },
            NameError::BadName(error) => Self::BadName(error),
            NameError::Gone { .. } => unreachable!("a process that is being spawned lives"),
        }
    }
}

/// Why a name gave no address.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum WhereisError {
    /// No process has the name.
    #[error("no process has the name `{name}`; register one, or spawn one with `.named(…).or_existing()`")]
    Unknown {
        /// The name, or how it begins.
        name: String,
    },
    /// The process that has it is of another type.
    #[error(transparent)]
    Address(#[from] AddressError),
}

/// Why a process did not become a member of a group, or a subscriber.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum JoinError {
    /// It has ended, or its PID was never given out in this program.
    #[error("{0} is no living process of this program")]
    Gone(Pid),
    /// The name of the group or topic is none.
    #[error(transparent)]
    BadName(#[from] BadName),
}

/// Why a process did not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum InitError {
    /// There is no such entry, or the inputs do not fit it.
    #[error(transparent)]
    Entry(Box<EntryError>),
    /// The entry failed.
    #[error("{0}")]
    Failed(Box<dyn std::error::Error + Send + Sync>),
    /// The entry panicked.
    #[error("{0}")]
    Panicked(crate::exit::Panic),
    /// It had been started before.
    #[error("the process has been started already; `init` is called once")]
    Twice,
}

impl InitError {
    /// The error of an entry that failed.
    pub fn failed(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        Self::Failed(error.into())
    }
}

/// Why an entry could not be started by its name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EntryError {
    /// There is no such entry.
    #[error("`{process}` has no entry `{entry}`; it has {}{}", list(has), did_you_mean(entry, has))]
    Unknown {
        /// The process type.
        process: String,
        /// The entry asked for.
        entry: String,
        /// The entries there are.
        has: Vec<String>,
    },
    /// The wrong number of inputs.
    #[error("`{process}::{entry}` takes {} ({}), not {came}", count(*expected), list(inputs))]
    Count {
        /// The process type.
        process: String,
        /// The entry.
        entry: String,
        /// How many inputs it takes.
        expected: usize,
        /// How many came.
        came: usize,
        /// The inputs it takes, with their types.
        inputs: Vec<String>,
    },
    /// An input of the wrong type.
    #[error(
        "input `{input}` of `{process}::{entry}` is of type `{expected}`, which {came} cannot be turned into without loss"
    )]
    Type {
        /// The process type.
        process: String,
        /// The entry.
        entry: String,
        /// The input.
        input: String,
        /// Its type.
        expected: String,
        /// What came instead.
        came: String,
    },
}

/// Why a process could not be started by name.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// No process type is registered under that name.
    #[error("no process type `{name}` is registered; there {}{}", are(has), did_you_mean(name, has))]
    Unknown {
        /// The name asked for.
        name: String,
        /// The names that are registered.
        has: Vec<String>,
    },
    /// The inputs are no JSON array.
    #[error("the inputs are not a JSON array: {0}")]
    Json(String),
    /// It could not be spawned; the entry and its inputs are checked there.
    #[error(transparent)]
    Spawn(#[from] SpawnError),
}

impl From<EntryError> for SpawnError {
    fn from(error: EntryError) -> Self {
        Self::Entry(Box::new(error))
    }
}

impl From<EntryError> for InitError {
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

/// Why a process ended itself in a step: any error, or a text.
#[derive(Debug)]
pub struct ProcessError(Box<dyn std::error::Error + Send + Sync>);

impl ProcessError {
    /// An error that says `what`.
    pub fn new(what: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        Self(what.into())
    }

    /// The error, if it is an `E`.
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

/// So that `?` works on any error inside a step. (This is why a `ProcessError` is no `Error` itself; it turns into a boxed
/// one instead.)
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

/// A step that a process cannot take. The scheduler never makes one; a machine that is driven by hand refuses it, and its
/// [`ProcessError`] can be [downcast](ProcessError::downcast_ref) to this.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum StepError {
    /// The process has not been started.
    #[error("a step before `init`; start the process first")]
    BeforeInit,
    /// The process is over.
    #[error("a step after the process was done; make a new one")]
    AfterDone,
}

/// Why a yield failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CommandError {
    /// Nobody handles this type of command.
    #[error("no handler for the command `{command}`; give the builder one with `.handler::<{command}>(…)`")]
    Unregistered {
        /// The type of the command.
        command: &'static str,
    },
    /// The handler dropped its completion.
    #[error("the handler of the command dropped its completion unanswered")]
    Dropped,
    /// The handler failed.
    #[error("{0}")]
    Failed(Box<dyn std::error::Error + Send + Sync>),
    /// The handler panicked.
    #[error("the handler of the command panicked: {0}")]
    Panicked(String),
    /// A call that was yielded got no answer.
    #[error(transparent)]
    Call(#[from] CallError),
}

/// A PID that is not of the asked type.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AddressError {
    /// No such process lives.
    #[error("{0} is no living process")]
    Gone(Pid),
    /// The process is of another type.
    #[error("{pid} is a `{found}`, not a `{expected}`")]
    Type {
        /// The PID.
        pid: Pid,
        /// What it was taken for.
        expected: &'static str,
        /// What it is.
        found: &'static str,
    },
    /// The process does not answer the protocol.
    #[error("{pid} is a `{found}`, which does not answer the protocol `{protocol}`")]
    Protocol {
        /// The PID.
        pid: Pid,
        /// What it was asked for.
        protocol: &'static str,
        /// What it is.
        found: &'static str,
    },
}

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
    /// The system did not give the threads.
    #[error("the worker threads could not be started: {0}")]
    Threads(std::io::Error),
    /// The system did not give what Tokio needs to wait for sockets and timers.
    #[cfg(feature = "tokio")]
    #[error("the Tokio runtime beside the workers could not be started: {0}")]
    Reactor(std::io::Error),
}

/// Why a shutdown was not waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ShutdownError {
    /// It was asked for inside one of the processes that it would have to wait for, or by a Tokio task on the thread that
    /// they may need to end: such a task can await [`Runtime::shutdown_async`](crate::Runtime::shutdown_async) instead.
    #[error(
        "neither a process nor a task on the runtime's own Tokio thread can wait for its shutdown, which has begun without \
         being waited for"
    )]
    FromInside,
    /// The system did not let the program listen for ctrl-c.
    #[error("ctrl-c cannot be listened for; another part of the program may have set a handler of its own")]
    NoSignal,
}

/// What a payload was, for people: its value where that is known, else its type.
pub(crate) fn describe(payload: &mut Payload) -> String {
    macro_rules! shown {
        ($($type:ty)*) => {
            $(if let Some(value) = payload.get_mut::<$type>() {
                return format!("`{value:?}` of type `{}`", stringify!($type));
            })*
        };
    }
    shown!(i8 i16 i32 i64 i128 isize u8 u16 u32 u64 u128 usize f32 f64 bool char);
    format!("a value of type `{}`", payload.type_name())
}

pub(crate) fn list(names: &[String]) -> String {
    match names {
        [] => "none".to_string(),
        names => names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", "),
    }
}

fn are(names: &[String]) -> String {
    match names {
        [] => "are none; register it with `runtime.register::<Type>()`".to_string(),
        [name] => format!("is `{name}`"),
        names => format!("are {}", list(names)),
    }
}

fn count(inputs: usize) -> String {
    match inputs {
        0 => "no input".to_string(),
        1 => "1 input".to_string(),
        inputs => format!("{inputs} inputs"),
    }
}

/// `; did you mean …?`, or nothing.
pub(crate) fn did_you_mean(name: &str, names: &[String]) -> String {
    if names.len() < 2 {
        // The only one there is has just been named.
        return String::new();
    }
    let near = names.iter().map(|known| (distance(name, known), known)).min();
    match near {
        Some((distance, known)) if distance <= 1 + name.len() / 4 => format!("; did you mean `{known}`?"),
        _ => String::new(),
    }
}

/// The least number of insertions, deletions and replacements between two names (Levenshtein's), cut off for long texts.
pub(crate) fn distance(one: &str, other: &str) -> usize {
    if one.len().abs_diff(other.len()) > 8 || one.len() > 64 {
        return usize::MAX;
    }
    let other: Vec<char> = other.chars().flat_map(char::to_lowercase).collect();
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (line, letter) in one.chars().flat_map(char::to_lowercase).enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], line + 1);
        for (column, &there) in other.iter().enumerate() {
            let replaced = diagonal + usize::from(letter != there);
            diagonal = row[column + 1];
            row[column + 1] = replaced.min(diagonal + 1).min(row[column] + 1);
        }
    }
    row[other.len()]
}
