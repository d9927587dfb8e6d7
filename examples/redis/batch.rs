//! The operations of a connection for one shard, in one message, which returns with the replies.
//!
//! So many requests of a client need only few messages, and their contents are moved, not copied.

use std::collections::VecDeque;
use std::sync::Arc;

use smallvec::SmallVec;

use crate::reply::Replies;

/// Most keys are short, and are moved and stored without an allocation.
pub type Key = SmallVec<[u8; 24]>;
/// Shared by all receivers of a message.
pub type Value = Arc<[u8]>;

/// Replies of this size in bytes are written to the client, even if more may follow.
const MANY: usize = 64 * 1024;

/// An operation on one key.
#[derive(Debug)]
pub enum Operation {
    Get,
    Set(Value),
    Increment,
    /// Expires the key in that many seconds.
    Expire(i64),
    TimeToLive,
}

#[derive(Default)]
pub struct Batch {
    pub operations: VecDeque<(Key, Operation)>,
    /// The replies, including those to earlier requests of the client.
    pub replies: Replies,
}

impl Batch {
    /// Whether the replies must be written before more are added.
    pub fn is_full(&self) -> bool {
        self.replies.bytes.len() >= MANY
    }
}
