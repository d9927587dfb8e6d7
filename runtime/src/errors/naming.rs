//! What those meet who give a process a name, take it into a group, or look for it.

use crate::pid::Pid;

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
