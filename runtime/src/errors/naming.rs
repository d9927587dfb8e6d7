//! Errors of names, groups and lookups.

use crate::pid::Pid;

/// An invalid name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BadName {
    /// The name is empty.
    #[error("a name cannot be empty; use at least 1 byte")]
    Empty,
    /// The name is too long.
    #[error("a name of {bytes} bytes is too long; use at most {longest} bytes")]
    TooLong {
        /// Length of the name, in bytes.
        bytes: usize,
        /// Maximum length, in bytes.
        longest: usize,
    },
}

/// The reason why a process was not registered under a name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NameError {
    /// Another process has the name.
    #[error("the name `{name}` belongs to {holder}; choose another name, or send to that process")]
    Taken {
        /// The name.
        name: String,
        /// The process that has the name.
        holder: Pid,
    },
    /// The process to register has ended, or its PID was never given out in this program.
    #[error("{pid} is not a live process of this program, and cannot be given the name `{name}`")]
    Gone {
        /// The name.
        name: String,
        /// The PID.
        pid: Pid,
    },
    /// The name is invalid.
    #[error(transparent)]
    BadName(#[from] BadName),
    /// The runtime has been shut down.
    #[error("the runtime has been shut down, and registers no names")]
    Shutdown,
}

/// The reason why a process could not join a group or subscribe to a topic.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum GroupError {
    /// The process has ended, or its PID was never given out in this program.
    #[error("{0} is not a live process of this program")]
    Gone(Pid),
    /// The name of the group or topic is invalid.
    #[error(transparent)]
    BadName(#[from] BadName),
    /// The runtime of the group or topic has been shut down.
    #[error("the runtime of the group has been shut down, and takes no members")]
    Shutdown,
}

/// The reason why a name has no address of the requested type.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum WhereisError {
    /// No process has the name.
    #[error("no process has the name `{name}`; register one, or spawn one with `.named(…).or_existing()`")]
    Unknown {
        /// The name, shortened if it is long.
        name: String,
    },
    /// The process with the name has another type.
    #[error(transparent)]
    Address(#[from] AddressError),
}

/// The reason why a PID has no address of the requested type.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AddressError {
    /// No process with this PID is alive.
    #[error("{0} is not a live process")]
    Gone(Pid),
    /// The process is of another type.
    #[error("{pid} has type `{found}`, not `{expected}`")]
    Type {
        /// The PID.
        pid: Pid,
        /// The requested type.
        expected: &'static str,
        /// The actual type.
        found: &'static str,
    },
    /// The process does not implement the protocol.
    #[error("{pid} has type `{found}`, which does not answer the protocol `{protocol}`")]
    Protocol {
        /// The PID.
        pid: Pid,
        /// The protocol.
        protocol: &'static str,
        /// The type of the process.
        found: &'static str,
    },
}
