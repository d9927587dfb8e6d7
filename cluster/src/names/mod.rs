//! Names of the cluster: each has one holder at a time, and a token that fences the earlier ones off.
//!
//! A name is an entry of [`Bucket::Names`](crate::engine::Bucket::Names): its value says which process holds it, and
//! during which membership of its node. **The store decides**: of several that register a name at once, one creates the
//! entry. A [`Names`] is one node's view of all names, and does what this node asks of the store. It is a state machine
//! without clock, thread or store.
//!
//! # Protocol
//! * **register.** Create the entry. A conflict is read: it may be this node's own, from an attempt whose answer was
//!   lost. If it is another's, the name is taken, and the caller learns by whom.
//! * **confirm.** An entry counts only if the store **has this node's record as well**, in the revision that is its
//!   epoch. The caller reads that after it has found the entry, and before it passes the answer on. If it is not there,
//!   the caller fences the node first.
//! * **token.** The revision of the entry is the fencing token: it is greater than the tokens of all earlier holders. A
//!   holder gives it to whatever it writes to, which refuses a smaller one than it has seen.
//! * **lose.** If the entry of a holder disappears, the holder must end: others may have the name. No node that keeps
//!   to this protocol deletes it while the holder's lease is valid.
//! * **release.** The holder gives the name up, or has ended: its node deletes the entry, in the revision that it has
//!   created. A deletion that the store could not do is repeated until it is done.
//! * **inherit.** The names of a node that has left are deleted at once; those of a node that is lost, only when its
//!   **lease** is over: until then it may not know that it is cut off, and its holders may still act. Each of the other
//!   nodes deletes them, and one succeeds.
//! * **watch.** What the bucket's watch reports is what [`holder`](Names::holder) looks up: no request, and possibly
//!   out of date by as much as the watch is late.
//!
//! What one node does with one entry it does in order, one access at a time.
//!
//! # When the store is lost
//! or an older copy takes its place, the names are gone while their holders live, on nodes whose leases are gone, too,
//! and which may not know it yet. Say that this happens at `d`.
//! 1. Each lease was written before `d`: what was registered in the old store has ended by `d` plus the lease's time.
//! 2. A member of the old store may create an entry in the new one, but is not confirmed there: the record of its
//!    membership was in the old store, and no record comes with that revision again. So it is fenced. A copy that has
//!    the record is older than what its engine has seen, whose leases have been written since: the engine empties it
//!    before it makes an access.
//! 3. A node that is fenced because its lease or its record is gone, `r > d`, joins again a lease's time after `r`: it
//!    registers after all that was registered in the old store has ended.
//! 4. A node that is fenced since it could not renew its lease may have been a member at `d`, which is before its fence
//!    `f` then, and may come back into the new store with nothing left there to notice. So it joins again before `f`
//!    plus a lease's time only if the store is [known](crate::membership::Membership::expect) to be the same one: it
//!    has the record of this node's earlier membership, or of another that this node knew, in that revision.
//! 5. Its entries have greater revisions than any of the old store: point 4 of the engine's [contract](crate::engine).
//!
//! Joining at `f` plus a lease's time in any case would be simpler, and keep a node that was cut off out of its cluster
//! for up to that time after its network was healed. Whether its lease is there when it comes back is no proof: a lease
//! of the same store may be over by then, before holders of a lost one have ended. With the records only a node waits
//! in vain whose whole cluster was away until they were fenced, and which comes back when the others have joined anew.
//!
//! So invariants 1 and 3 hold through it for nodes that were members at `d`. A node that was none, and registers a name
//! within a lease's time after `d`, may have it while a holder of the old store acts on; its token is the greater one,
//! and is what the holder is fenced off by. Nor do they hold with a copy that is so fresh that no lease was written
//! since it was made.
//!
//! # Invariants
//! 1. A name that this node has registered is its own until it deletes the entry, or until another node finds that this
//!    node's lease is over. By then this node has fenced itself, and its holders have ended.
//! 2. Each registration is answered exactly once.
//! 3. Tokens of one name only grow.
//!
//! # Limits
//! | limit | value | reason |
//! |---|---|---|
//! | name | [`MAX_NAME`] = 1,024 B | as names within a node |
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
use crate::engine::Revision;
use postroom::Pid;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::time::Duration;

/// A fencing token: greater than those of all earlier holders of the name.
///
/// Whatever a holder writes to keeps the greatest token that it has seen, and refuses a write with a smaller one. So a
/// holder that was cut off and does not know it yet, or whose step continues after its node was fenced, can do no harm.
///
/// It grows through the loss of the broker's store, too. It is a number of at most 2^53 for the next two centuries, and
/// can be a part of a message, and a column of a table.
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

/// An access to the entry of a name, to be made at once and answered exactly once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NameRequest {
    /// The number to pass to [`Names::handle`] with the answer.
    pub number: u64,
    /// The entry's key.
    pub key: String,
    /// What to do with it.
    pub access: Access,
}

fn within(time: Option<Duration>) -> String {
    // Rounded up: the lease is over by then.
    time.map_or_else(String::new, |time| format!(", in at most {} s", time.as_millis().div_ceil(1_000)))
}

/// What came of a registration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Registered {
    /// The number that [`Names::register`] has returned.
    pub number: u64,
    /// The token, or why there is none.
    pub result: Result<Token, RegisterError>,
    /// The holder, if the name is [taken](RegisterError::Taken), and the membership in which it got the name.
    pub holder: Option<Holder>,
}

/// Why a name was not registered.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RegisterError {
    /// A process has the name.
    #[error("`{name}` is held by {holder}; send to the holder, or choose another name")]
    Taken {
        /// The name.
        name: String,
        /// Its holder.
        holder: Pid,
    },
    /// The node of the process that had the name is lost. The name comes free when that node's lease is over.
    #[error(
        "`{name}` is still that of {holder}, whose node is lost, and comes free when the lease of that node is over{}; \
         register it again then",
        within(*.free_within)
    )]
    HolderLost {
        /// The name.
        name: String,
        /// The process that had it.
        holder: Pid,
        /// The longest until the lease is over, unless the lost node renews it once more because it has not heard yet
        /// that it is lost; zero when it is over; `None` if this node has not seen the lease. The nodes delete the name
        /// when they hear that the lease is over, so a registration at that very moment may come before that, and the
        /// next one does not.
        free_within: Option<Duration>,
    },
    /// The name has no bytes, or too many.
    #[error("a name of the cluster has {bytes} bytes; use 1 to {MAX_NAME}")]
    Length {
        /// How many.
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
    /// The store has something else under the name's key.
    #[error("the store has no record of this crate for `{name}`: {error}")]
    Unreadable {
        /// The name.
        name: String,
        /// What is wrong with it.
        error: NameRecordError,
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
    /// This node is not a member of the cluster at the moment.
    #[error("this node is not a member of the cluster now; try again when it has joined")]
    NotAMember,
    /// The store refuses the entry.
    #[error("the broker's store refuses `{name}`: {error}")]
    Store {
        /// The name.
        name: String,
        /// The store's error.
        error: crate::engine::StoreError,
    },
}
