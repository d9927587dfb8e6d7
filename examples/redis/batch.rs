//! What a connection asks of one shard in one message. It goes there with operations, and comes back with replies.
//!
//! A client that sends many requests at once is answered with few messages so, and what is in them is moved, not
//! copied.

use std::collections::VecDeque;
use std::sync::Arc;

use smallvec::SmallVec;

use crate::reply::Replies;

/// Short ones, as most are, are moved and kept without an allocation.
pub type Key = SmallVec<[u8; 24]>;
/// Shared with those that it is on its way to.
pub type Value = Arc<[u8]>;

/// So many bytes of replies are written to the client, though more may come.
const MANY: usize = 64 * 1024;

/// What is to be done with one key.
#[derive(Debug)]
pub enum Operation {
    Get,
    Set(Value),
    Increment,
    /// In so many seconds.
    Expire(i64),
    TimeToLive,
}

#[derive(Default)]
pub struct Batch {
    pub operations: VecDeque<(Key, Operation)>,
    /// To what the client has asked before, too.
    pub replies: Replies,
}

impl Batch {
    /// Whether the replies are to be written before there are more.
    pub fn is_full(&self) -> bool {
        self.replies.bytes.len() >= MANY
    }
}
