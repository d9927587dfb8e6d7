//! Eventual names: registered at once, even while the cluster is split; after the split, one holder remains.
//!
//! A name in [`names`](crate::names) needs a majority of the broker's servers, and has one holder at any time. An
//! eventual name needs no store: a process **claims** it on its own node, and each node reports its claims to the nodes
//! that it has a session with. So the two sides of a split may each have a holder. When the sides are connected again,
//! both see both claims and determine the same winner without further messages. An [`EventualNames`] is one node's
//! view. It is a state machine without clock, thread or store: a store that cannot be reached during a split does not
//! help, and without a split the sessions convey everything that the store would.
//!
//! # Protocol
//! * **claim.** A claim has a **stamp**: one more than the greatest that this node has seen (Lamport 1978). If this
//!   node knows of a holder of the name, the claim is refused. Otherwise the claim holds on this node at once, and the
//!   peers are notified.
//! * **win.** Of several claims, the one with the smallest stamp wins; among equal stamps, the smallest PID. So a
//!   holder wins against every claim that could have known of it.
//! * **lose.** A node that learns of a better claim than its own withdraws its own, sends the losing process a
//!   [`NameLost`], and tells the peers.
//! * **forget.** When the session with a node ends, that node's claims become unknown. They are reported again when the
//!   next session begins. A process that ends withdraws its claims.
//!
//! # Invariants
//! 1. Once all nodes have sessions with each other and no message is in flight, all see the same holder of each name.
//! 2. The best claim is never withdrawn in favour of another. If a process loses to a claim that is just being
//!    released, the name becomes free.
//! 3. A process that loses a name is notified once.
//!
//! # Bounds
//! A node knows the claims of the nodes that it has a session with. All members of a cluster have sessions with each
//! other, so a split heals when these sessions open. Each node may have [`MAX_CLAIMS`] claims. A slow peer is sent only
//! the latest state of each name.

mod machine;
#[cfg(test)]
mod tests;

pub use machine::{EventualNames, MAX_CLAIMS};

use crate::directory::MAX_NAME;
use postroom::Pid;

/// The message to a process that has lost an eventual name because another process claimed it, on the other side of a
/// split or at the same moment. The process keeps running, unless it ends by itself.
///
/// If the process has no method for the message, it becomes a dead letter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NameLost {
    /// The name.
    pub name: String,
    /// The process that now holds the name.
    pub holder: Pid,
}

/// Why a process could not claim an eventual name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ClaimError {
    /// Another process holds the name, as far as this node knows.
    #[error("`{name}` is held by {holder}; send to the holder, or choose another name")]
    Taken {
        /// The name.
        name: String,
        /// Its holder.
        holder: Pid,
    },
    /// The name is empty or too long.
    #[error("an eventual name has {bytes} bytes; use 1 to {MAX_NAME}")]
    Length {
        /// Its length.
        bytes: usize,
    },
    /// The process does not belong to this node.
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
    /// This node has the maximum number of eventual names.
    #[error("this node has {limit} eventual names, the most it may have; release some")]
    Full {
        /// The maximum.
        limit: usize,
    },
    /// This node has left the cluster.
    #[error("this node has left the cluster; join the cluster again")]
    Left,
}
