//! Eventual names: registered at once, also while the cluster is split; after the split one holder is left.
//!
//! A name of [`names`](crate::names) needs a majority of the broker's servers, and has one holder at any time. An
//! eventual name needs nothing: a process **claims** it on its own node, and each node tells its claims to those that
//! it has a session with. So the two sides of a split may each have a holder. When they meet, both see both claims and
//! find the same winner, without a word more. An [`EventualNames`] is one node's view. It is a state machine without
//! clock, thread or store: a store that cannot be reached in a split is no help, and outside of one the sessions know
//! all that it would.
//!
//! # Protocol
//! * **claim.** A claim has a **stamp**: one more than the greatest that this node has seen (Lamport 1978). A name of
//!   which this node knows a holder is refused. Otherwise the claim holds at once, here, and the peers are told.
//! * **win.** Of several claims the one with the smallest stamp wins, and of equal ones the smaller PID. So a holder
//!   wins against those that could have known of it.
//! * **lose.** A node that hears of a better claim than its own withdraws its own, tells its process
//!   [`NameLost`], and tells the peers.
//! * **forget.** The claims of a node are unknown when the session with it ends, and are told again when the next one
//!   begins. A process that ends withdraws its claims.
//!
//! # Invariants
//! 1. Once all nodes have sessions with each other and nothing is on its way, all see the same holder of each name.
//! 2. The best claim is never withdrawn for another one. A process that loses to a claim that is just given up
//!    leaves the name free.
//! 3. A process that loses a name is told once.
//!
//! # Bounds
//! A node knows the claims of nodes that it has a session with. Members of a cluster have sessions with each other, so
//! a split heals when they have. [`MAX_CLAIMS`] claims for each node; to a peer that is slow, only the last state of
//! each name is told.

mod machine;
#[cfg(test)]
mod tests;

pub use machine::{EventualNames, MAX_CLAIMS};

use crate::directory::MAX_NAME;
use postroom::Pid;

/// The message to a process that has lost an eventual name: another process has claimed it, on the other side of a
/// split or at the same moment. The process goes on, unless it ends by itself.
///
/// A process without a method for it gets a dead letter instead.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NameLost {
    /// The name.
    pub name: String,
    /// The process that holds it now.
    pub holder: Pid,
}

/// Why a process has not claimed an eventual name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ClaimError {
    /// A process has the name, as far as this node knows.
    #[error("`{name}` is held by {holder}; send to the holder, or choose another name")]
    Taken {
        /// The name.
        name: String,
        /// Its holder.
        holder: Pid,
    },
    /// The name has no bytes, or too many.
    #[error("an eventual name has {bytes} bytes; use 1 to {MAX_NAME}")]
    Length {
        /// How many.
        bytes: usize,
    },
    /// The process is not one of this node.
    #[error("{pid} is not a process of this node; register it where it runs")]
    Elsewhere {
        /// The process.
        pid: Pid,
    },
    /// The process has ended.
    #[error("{pid} has ended; register the process that takes its place")]
    Ended {
        /// The process.
        pid: Pid,
    },
    /// This node has too many.
    #[error("this node has {limit} eventual names, the most it may have; release some")]
    Full {
        /// How many there may be.
        limit: usize,
    },
    /// This node has left the cluster.
    #[error("this node has left the cluster; join the cluster again")]
    Left,
}
