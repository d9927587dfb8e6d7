//! Names of the cluster. Each has one holder at a time, and a token that fences off earlier holders.
//!
//! A name is an entry of [`Bucket::Names`](crate::store::Bucket::Names): its value contains the process that holds the
//! name, and the membership of its node at the registration. **The store decides**: of several processes that register
//! a name at once, one creates the entry. A [`Names`] is one node's view of all names, and generates this node's
//! requests to the store. It is a state machine without clock, thread or store.
//!
//! # Protocol
//! * **register.** Create the entry. After a conflict, read it: it may be this node's own, from an attempt whose answer
//!   was lost. If it belongs to another process, the name is taken, and the caller learns who holds it.
//! * **confirm.** An entry counts only if the store **has this node's record as well**, in the revision that is its
//!   epoch. The caller reads the record after it has found the entry, and before it passes the answer on. If the record
//!   is missing, the caller fences the node first.
//! * **token.** The revision of the entry is the fencing token: it is greater than the tokens of all earlier holders. A
//!   holder passes it with each write to an external resource. The resource refuses a smaller token than it has seen.
//! * **lose.** If the entry of a holder disappears, the holder must end: another process may have the name. No node
//!   that follows this protocol deletes it while the holder's lease is valid.
//! * **release.** The holder releases the name, or has ended: its node deletes the entry, in the revision that it has
//!   created. A deletion that the store could not perform is repeated until it succeeds.
//! * **inherit.** The names of a node that has left are deleted at once. The names of a lost node are deleted only when
//!   its **lease** is over: until then it may not know that it is cut off, and its holders may still act. Each of the
//!   other nodes deletes them, and one succeeds.
//! * **watch.** [`holder`](Names::holder) looks up what the bucket's watch has reported: it makes no request, and its
//!   result may be out of date by the delay of the watch.
//!
//! A node performs its operations on one entry in order, one access at a time.
//!
//! # When the store is lost
//! If the store is lost or replaced by an older copy, the names are gone while their holders are alive, on nodes
//! whose leases are gone too, and which may not know it yet. Let `d` be the time of the loss.
//! 1. Each lease was written before `d`: all holders of names in the old store have ended by `d` plus the lease time.
//! 2. A member of the old store may create an entry in the new one, but is not confirmed there: the record of its
//!    membership was in the old store, and no record has that revision again. So it is fenced. A copy that contains the
//!    record is below the floor of that member's engine, because leases have been written since: the engine empties the
//!    copy before any other access.
//! 3. A node that is fenced because its lease or its record is gone, at `r > d`, rejoins a lease time after `r`: it
//!    registers after all holders of the old store have ended.
//! 4. A node that is fenced at `f` because it could not renew its lease may have been a member at `d`; then `d` is
//!    before `f`. It may return to the new store, which contains no trace of the loss. So it rejoins before `f` plus a
//!    lease time only if the store is [known](crate::membership::Membership::expect) to be the same one: it has the
//!    record of this node's earlier membership, or of another that this node knew, in that revision.
//! 5. Its entries have greater revisions than any of the old store: point 4 of the engine's [contract](crate::engine).
//!
//! Always joining at `f` plus a lease time would be simpler, but would exclude a node that was cut off for up to that
//! time after its network recovers. Whether the node finds its own lease when it returns is not a criterion: even in
//! the same store, the lease may have expired by then, and it expires before the holders of a lost store have ended.
//! With the records, a node waits needlessly only if its whole cluster was cut off until all were fenced, and it
//! returns after the others have rejoined.
//!
//! So invariants 1 and 3 survive the loss for nodes that were members at `d`. A node that was not a member at `d`, and
//! registers a name within a lease time after `d`, may get it while a holder of the old store still acts. But its token
//! is greater, and fences that holder off. Nor do the invariants hold with a copy so fresh that no lease has been
//! written since it was made.
//!
//! # Invariants
//! 1. A name that this node has registered is its own until it deletes the entry, or until another node finds that
//!    this node's lease is over. By then this node has fenced itself, and its holders have ended.
//! 2. Each registration is answered exactly once.
//! 3. The tokens of a name only grow.
//!
//! # Limits
//! | limit | value | reason |
//! |---|---|---|
//! | name | [`MAX_NAME`] = 1,024 B | the same limit as for names within a node |
//! | names | 100,000 | each node watches them all, in about 150 bytes each |

mod machine;
mod record;
#[cfg(test)]
mod tests;

pub use machine::Names;
#[cfg(any(test, feature = "test"))]
pub(crate) use record::decode as decode_record;
pub(crate) use record::key;
pub use record::{Holder, MAX_NAME, NameRecordError};

use crate::access::Access;
use crate::store::Revision;
use postroom::Pid;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::time::Duration;

/// A fencing token: greater than those of all earlier holders of the name.
///
/// Every resource that a holder writes to stores the greatest token that it has seen, and refuses a write with a
/// smaller one. So a holder that was cut off and does not know it yet, or whose step continues after its node was
/// fenced, can do no harm.
///
/// It grows even if the broker's store is lost. It is at most 2^53 for the next two centuries, and fits into a
/// message or a database column.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Token(pub u64);

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

impl From<Revision> for Token {
    fn from(revision: Revision) -> Self {
        Self(revision.0)
    }
}

/// An access to the entry of a name, to be performed at once and answered exactly once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NameRequest {
    /// The number to pass to [`Names::handle`] together with the answer.
    pub number: u64,
    /// The key of the entry.
    pub key: String,
    /// The access.
    pub access: Access,
}

fn within(time: Option<Duration>) -> String {
    // Rounded up, so that the lease is over after this time.
    time.map_or_else(String::new, |time| format!(", in at most {} s", time.as_millis().div_ceil(1_000)))
}

/// The result of a registration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Registered {
    /// The number that [`Names::register`] returned.
    pub number: u64,
    /// The token, or why the name was not registered.
    pub result: Result<Token, RegisterError>,
    /// The holder, if the name is [taken](RegisterError::Taken), and the membership in which it registered the name.
    pub holder: Option<Holder>,
}

/// Why a name was not registered.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RegisterError {
    /// Another process holds the name.
    #[error("`{name}` is held by {holder}; send to the holder, or choose another name")]
    Taken {
        /// The name.
        name: String,
        /// The holder.
        holder: Pid,
    },
    /// The node of the name's holder is lost. The name becomes free when that node's lease is over.
    #[error(
        "`{name}` is still that of {holder}, whose node is lost, and comes free when the lease of that node is over{}; \
         register it again then",
        within(*.free_within)
    )]
    HolderLost {
        /// The name.
        name: String,
        /// The former holder.
        holder: Pid,
        /// The longest time until the lease is over: zero if it is over already, and `None` if this node has not seen
        /// the lease. The lease may last longer if the lost node renews it once more because it has not noticed yet
        /// that it is lost. The nodes delete the name when they learn that the lease is over, so a registration at that
        /// very moment may still fail; the next one does not.
        free_within: Option<Duration>,
    },
    /// The name is empty or too long.
    #[error("a name of the cluster has {bytes} bytes; use 1 to {MAX_NAME}")]
    Length {
        /// The length of the name.
        bytes: usize,
    },
    /// The store has no leader, or cannot be reached. The name was not registered.
    #[error("the broker's store cannot be reached, so `{name}` was not registered; try again when it is back")]
    Unavailable {
        /// The name.
        name: String,
    },
    /// The store did not answer. The name may have been registered.
    #[error(
        "the broker's store did not answer: `{name}` may be registered or not; register it again, which finds what \
         this process has"
    )]
    Unknown {
        /// The name.
        name: String,
    },
    /// The value under the name's key is not a record of this crate.
    #[error("the store has no record of this crate for `{name}`: {error}")]
    Unreadable {
        /// The name.
        name: String,
        /// The error in the record.
        error: NameRecordError,
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
    /// This node is not currently a member of the cluster.
    #[error("this node is not a member of the cluster now; try again when it has joined")]
    NotAMember,
    /// The store refuses the entry.
    #[error("the broker's store refuses `{name}`: {error}")]
    Store {
        /// The name.
        name: String,
        /// The store's error.
        error: crate::store::StoreError,
    },
}
