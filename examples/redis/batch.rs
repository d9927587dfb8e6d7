//! A batch: several operations of a connection for one shard in one message, which returns with the replies.
//!
//! This way many requests of a client need few messages, and their contents are moved, not copied.

use std::collections::VecDeque;
use std::sync::Arc;

use smallvec::SmallVec;

use crate::reply::Replies;

/// The key of a value. Most keys are short, and are moved and stored without an allocation.
pub type Key = SmallVec<[u8; 24]>;
/// A value, which the messages and the shard share without copying it.
pub type Value = Arc<[u8]>;

/// Size of the replies, in bytes, at which they are written to the client, even if more may follow.
const MANY: usize = 64 * 1024;

/// An operation on one key.
#[derive(Debug)]
pub enum Operation {
    Get,
    Set(Value),
    Increment,
    /// Expires the key after this many seconds.
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
    /// Returns whether the replies must be written before more are added.
    pub fn is_full(&self) -> bool {
        self.replies.bytes.len() >= MANY
    }
}
