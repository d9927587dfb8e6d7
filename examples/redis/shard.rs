//! A shard: the process that owns some of the keys.
//!
//! To expire a key, the shard sends itself a delayed message.

use std::sync::Arc;
use std::time::{Duration, Instant};

use hashbrown::HashMap;
use postroom::Timer;
use postroom::prelude::*;

use crate::batch::{Batch, Key, Operation, Value};
use crate::reply::Replies;
use crate::resp::number;

#[process]
#[derive(Default)]
pub struct Shard {
    entries: HashMap<Key, Entry>,
}

struct Entry {
    value: Value,
    end: Option<End>,
}

/// The expiry of a key. Its message is cancelled if the key is overwritten or deleted first.
struct End {
    at: Instant,
    timer: Timer,
}

impl Drop for End {
    fn drop(&mut self) {
        self.timer.cancel();
    }
}

/// The reason why a key was not changed.
#[derive(Debug, thiserror::Error)]
enum Unchanged {
    #[error("value is not an integer or out of range")]
    NotANumber,
    #[error("increment or decrement would overflow")]
    Overflow,
    #[error("invalid expire time in 'expire' command")]
    EndOfTime,
}

#[process]
impl Shard {
    #[entry]
    pub fn serve(&mut self) {}

    /// Executes operations until the replies are large enough to be written to the client.
    #[message]
    pub fn perform(&mut self, ctx: &mut Context<Self>, mut batch: Batch) -> Batch {
        while !batch.is_full()
            && let Some((key, operation)) = batch.operations.pop_front()
        {
            self.answer(ctx, key, operation, &mut batch.replies);
        }
        batch
    }

    #[message]
    pub fn get(&self, key: Key) -> Option<Value> {
        self.entries.get(&key).map(|entry| entry.value.clone())
    }

    /// Returns whether the key existed.
    #[message]
    pub fn delete(&mut self, key: Key) -> bool {
        self.entries.remove(&key).is_some()
    }

    #[message]
    pub fn exists(&self, key: Key) -> bool {
        self.entries.contains_key(&key)
    }

    /// Expires a key, unless its expiry was changed while this message was in flight.
    #[message]
    fn lapse(&mut self, ctx: &mut Context<Self>, key: Key) {
        let is_over = |end: &End| end.at <= ctx.now();
        if self.entries.get(&key).and_then(|entry| entry.end.as_ref()).is_some_and(is_over) {
            self.entries.remove(&key);
        }
    }

    fn answer(&mut self, ctx: &Context<Self>, key: Key, operation: Operation, replies: &mut Replies) {
        match operation {
            Operation::Get => replies.bulk_or_null(self.entries.get(&key).map(|entry| &*entry.value)),
            Operation::Set(value) => {
                self.entries.insert(key, Entry { value, end: None });
                replies.simple("OK");
            }
            Operation::Increment => match self.increment(key) {
                Ok(number) => replies.integer(number),
                Err(error) => replies.error(error),
            },
            Operation::Expire(seconds) => match self.expire(ctx, key, seconds) {
                Ok(is_there) => replies.integer(i64::from(is_there)),
                Err(error) => replies.error(error),
            },
            Operation::TimeToLive => replies.integer(match self.entries.get(&key).map(|entry| &entry.end) {
                None => -2,
                Some(None) => -1,
                Some(Some(end)) => (end.at.saturating_duration_since(ctx.now()).as_secs_f64() + 0.5) as i64,
            }),
        }
    }

    /// Increments a number. A missing key counts as 0.
    fn increment(&mut self, key: Key) -> Result<i64, Unchanged> {
        let entry = self.entries.entry(key).or_insert_with(|| Entry { value: Arc::from(*b"0"), end: None });
        let before = number(&entry.value).ok_or(Unchanged::NotANumber)?;
        let after = before.checked_add(1).ok_or(Unchanged::Overflow)?;
        entry.value = itoa::Buffer::new().format(after).as_bytes().into();
        Ok(after)
    }

    /// Makes a key expire after this many seconds, or immediately if that is not positive. Returns whether the key
    /// exists.
    fn expire(&mut self, ctx: &Context<Self>, key: Key, seconds: i64) -> Result<bool, Unchanged> {
        let Some(entry) = self.entries.get_mut(&key) else { return Ok(false) };
        let Some(seconds) = u64::try_from(seconds).ok().filter(|seconds| *seconds > 0) else {
            return Ok(self.delete(key));
        };
        let left = Duration::from_secs(seconds);
        let at = ctx.now().checked_add(left).ok_or(Unchanged::EndOfTime)?;
        let timer = ctx.address().lapse(key).send_after(left);
        // A timer is refused only during the shutdown.
        entry.end = timer.ok().map(|timer| End { at, timer });
        Ok(true)
    }
}
