//! Processes by key: each key has a node, on which its process is started on first request.
//!
//! The node follows from the key alone: of the nodes that export the type, it is the one with the greatest hash of its
//! ID and the key (rendezvous hashing; Thaler and Ravishankar 1998). So nodes that see the same exporters agree without
//! communicating, and when a node joins or leaves, only its own keys move. A [`KeyedProcesses`] is one node's part: its
//! questions to other nodes, and its own processes. It is a state machine without clock, thread or store.
//!
//! # Protocol
//! * **ask.** A node that needs the process of a key asks the key's home node, which answers with the process that it
//!   has, or starts one. It starts only one, however many nodes ask in the meantime.
//! * **moved.** A node that sees another home for the key refuses. The asking node tries again a little later: the two
//!   see different exporters, and one of them is about to learn of the change. So in a steady state no key has two
//!   processes.
//! * **move.** When the exporters change, each node stops those of its processes whose keys now have another home. Such
//!   a process still handles the messages that have arrived. A node that is fenced stops all of its processes by key,
//!   since their keys move to other nodes.
//!
//! # Bounds
//! A node answers only peers with a session. If the answers that a peer has not taken reach [`MAX_ANSWERS`], no more
//! are kept for it, and the session with it ends. Questions are not sent after their deadline.
//!
//! # Limitations
//! **A moved key starts anew**: only the state that its process has stored elsewhere survives. While nodes see
//! different exporters, a key may have two processes **for a moment**, since the store is not asked. If that must never
//! happen, register a name.
//!
//! # Invariants
//! 1. A node has at most one process of a key at a time. The next process is started when the previous one has ended.
//! 2. Each question is answered once, at its deadline at the latest.
//!
//! # Extension point
//! [`KeyedStart`] is all that a process by key needs from the rest of the crate: its type, its entry, and the key as
//! the only input. A start with another kind of key belongs there.

mod machine;
mod rendezvous;
#[cfg(test)]
mod tests;

pub use machine::{KeyedProcesses, MAX_ANSWERS, MAX_KEYS};
pub use rendezvous::home;

use crate::directory::MAX_NAME;
pub use crate::directory::message::KeyRefusal;
use postroom::Pid;

/// A process to start on this node. [`KeyedProcesses::started`] must report the result exactly once.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct KeyedStart {
    /// The name of its type.
    pub process: String,
    /// Its key, the only input.
    pub key: String,
    /// The name of its entry.
    pub entry: String,
}

/// The answer to a question about a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// The number that [`KeyedProcesses::ask`] returned.
    pub number: u64,
    /// The process, or why there is none.
    pub result: Result<Pid, KeyedError>,
}

/// Why there is no process for a key.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum KeyedError {
    /// The key is empty or too long.
    #[error("a key has {bytes} bytes; use 1 to {MAX_NAME}")]
    Length {
        /// Its length.
        bytes: usize,
    },
    /// The type has several entries, or none, and the call does not name one.
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
    /// The node of the key has the maximum number of keys, or of waiting questions.
    #[error("the node of this key has {MAX_KEYS} keys, the most it may have; let processes end that are not needed")]
    Full,
    /// The process was not started.
    #[error("the process was not started: {reason}; its entry must take the key, a `String`, as its only input")]
    Failed {
        /// The reason that its node reports.
        reason: String,
    },
    /// The policy of the key's node does not allow the start.
    #[error("the node of the key does not allow the start; change what it allows with `Builder::allow` there")]
    Denied,
    /// The nodes do not agree on where the key is, or its node does not answer.
    #[error("the node of the key did not answer in time, or the members change; ask again")]
    Timeout,
    /// This node is currently not a member of the cluster.
    #[error("this node is not a member of the cluster now; try again when it has joined")]
    NotAMember,
}
