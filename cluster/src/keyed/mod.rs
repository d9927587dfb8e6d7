//! Processes by key: each key has a node, and on it a process that is started when it is first asked for.
//!
//! Which node that is follows from the key alone: of the nodes that export the type, the one with the greatest hash of
//! its ID and the key (rendezvous hashing; Thaler and Ravishankar 1998). So nodes that see the same exporters agree
//! without a word, and when a node comes or goes only its own keys move. A [`KeyedProcesses`] is one node's part: what
//! it asks others, and the processes that it has. It is a state machine without clock, thread or store.
//!
//! # Protocol
//! * **ask.** The node of a key is asked for its process. It answers with the process that it has, or starts one: once,
//!   however many ask meanwhile.
//! * **moved.** A node that sees another home for the key refuses. The asker tries again a little later: the two see
//!   different exporters, and one of them will hear why. So in a steady state no key has two processes.
//! * **move.** When the exporters change, each node stops its processes of keys that are at home elsewhere now. They
//!   handle what has arrived. A node that is fenced stops all: their keys move to others.
//!
//! # Bounds
//! A node answers whom it knows. If the answers that another has not taken come to [`MAX_ANSWERS`], no more are kept
//! for it, and the session with it ends. Questions are not sent after their deadline.
//!
//! # What this is not
//! **A moved key starts anew**: its state is what the process has stored elsewhere. And while nodes see different
//! exporters, two processes of a key may live **for a moment**: the store is not asked. If that must never be, register
//! a name.
//!
//! # Invariants
//! 1. A node has at most one process of a key at a time; the next is started when the one before has ended.
//! 2. Each question is answered once, at the latest at its deadline.
//!
//! # Seam
//! [`KeyedStart`] is all that a process by key needs of the rest: its type, its entry, and the key as the only input.
//! It is the place for a start with a key of another kind.

mod machine;
mod rendezvous;
#[cfg(test)]
mod tests;

pub use machine::{KeyedProcesses, MAX_ANSWERS, MAX_KEYS};
pub use rendezvous::home;

use crate::directory::MAX_NAME;
pub use crate::directory::message::KeyRefusal;
use postroom::Pid;

/// A process to be started on this node, and exactly once answered by [`KeyedProcesses::started`].
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct KeyedStart {
    /// The name of its type.
    pub process: String,
    /// Its key, the only input.
    pub key: String,
    /// The name of its entry.
    pub entry: String,
}

/// What came of a question for a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// The number that [`KeyedProcesses::ask`] has returned.
    pub number: u64,
    /// The process, or why there is none.
    pub result: Result<Pid, KeyedError>,
}

/// Why there is no process for a key.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum KeyedError {
    /// The key has no bytes, or too many.
    #[error("a key has {bytes} bytes; use 1 to {MAX_NAME}")]
    Length {
        /// How many.
        bytes: usize,
    },
    /// The type has several entries, or none, and the call does not say which.
    #[error("`{process}` has {} entries that other nodes can start; name one with `.entry(\"…\")`", entries.len())]
    Entry {
        /// The type.
        process: &'static str,
        /// Its entries.
        entries: Vec<&'static str>,
    },
    /// No node that can be reached exports the type.
    #[error("no node of the cluster that can be reached exports `{process}`; export it with `.export::<{process}>()`")]
    NotExported {
        /// The type.
        process: String,
    },
    /// The node of the key has too many.
    #[error("the node of this key has {MAX_KEYS} keys, the most it may have; let processes end that are not needed")]
    Full,
    /// The process was not started.
    #[error("the process was not started: {reason}; its entry must take the key, a `String`, as its only input")]
    Failed {
        /// Why, as its node says.
        reason: String,
    },
    /// The policy of the key's node says no.
    #[error("the node of the key does not allow the start; change what it allows with `Builder::allow` there")]
    Denied,
    /// The nodes do not agree about where the key is, or its node does not answer.
    #[error("the node of the key did not answer in time, or the members change; ask again")]
    Timeout,
    /// This node is not a member of the cluster at the moment.
    #[error("this node is not a member of the cluster now; try again when it has joined")]
    NotAMember,
}
