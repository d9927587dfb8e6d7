//! A shard: a process with some of the keys, the only one that ever sees them.
//!
//! A key that is to end at some time ends by a message that the shard sends to itself then.

use std::sync::Arc;
use std::time::{Duration, Instant};

use hashbrown::HashMap;
use postroom::Timer;
use postroom::prelude::*;

use crate::resp::number;

pub type Key = Box<[u8]>;
/// Shared with the replies that it is in, which never change it.
pub type Value = Arc<[u8]>;

/// Why a key stays as it is.
#[derive(Debug, PartialEq, thiserror::Error)]
pub enum ShardError {
    #[error("value is not an integer or out of range")]
    NotANumber,
    #[error("increment or decrement would overflow")]
    Overflow,
    #[error("invalid expire time in 'expire' command")]
    EndOfTime,
}

/// How long a key has to live.
#[derive(Debug, PartialEq)]
pub enum TimeToLive {
    Missing,
    Unlimited,
    Limited(Duration),
}

#[process]
#[derive(Default)]
pub struct Shard {
    entries: HashMap<Key, Entry>,
}

struct Entry {
    value: Value,
    end: Option<End>,
}

/// When a key ends. The message for that is taken back if something else becomes of the key.
struct End {
    at: Instant,
    timer: Timer,
}

impl Drop for End {
    fn drop(&mut self) {
        self.timer.cancel();
    }
}

#[process]
impl Shard {
    #[entry]
    pub fn serve(&mut self) {}

    #[message]
    pub fn get(&self, key: Key) -> Option<Value> {
        self.entries.get(&key).map(|entry| entry.value.clone())
    }

    #[message]
    pub fn set(&mut self, key: Key, value: Value) {
        self.entries.insert(key, Entry { value, end: None });
    }

    /// Adds one to a number. One that is not there is 0.
    #[message]
    pub fn increment(&mut self, key: Key) -> Result<i64, ShardError> {
        let entry = self.entries.entry(key).or_insert_with(|| Entry { value: Arc::from(*b"0"), end: None });
        let before = number(&entry.value).ok_or(ShardError::NotANumber)?;
        let after = before.checked_add(1).ok_or(ShardError::Overflow)?;
        entry.value = after.to_string().into_bytes().into();
        Ok(after)
    }

    /// Whether there was one.
    #[message]
    pub fn delete(&mut self, key: Key) -> bool {
        self.entries.remove(&key).is_some()
    }

    #[message]
    pub fn exists(&self, key: Key) -> bool {
        self.entries.contains_key(&key)
    }

    /// Has a key end in so many seconds; at once if there are none. Gives whether there is such a key.
    #[message]
    pub fn expire(&mut self, ctx: &mut Context<Self>, key: Key, seconds: i64) -> Result<bool, ShardError> {
        let Some(entry) = self.entries.get_mut(&key) else { return Ok(false) };
        let Some(seconds) = u64::try_from(seconds).ok().filter(|seconds| *seconds > 0) else {
            return Ok(self.delete(key));
        };
        let left = Duration::from_secs(seconds);
        let at = ctx.now().checked_add(left).ok_or(ShardError::EndOfTime)?;
        entry.end = match ctx.address().lapse(key).send_after(left) {
            Ok(timer) => Some(End { at, timer }),
            // Nobody keeps the time any more: the server shuts down.
            Err(_) => None,
        };
        Ok(true)
    }

    #[message]
    pub fn time_to_live(&self, ctx: &mut Context<Self>, key: Key) -> TimeToLive {
        match self.entries.get(&key) {
            None => TimeToLive::Missing,
            Some(Entry { end: None, .. }) => TimeToLive::Unlimited,
            Some(Entry { end: Some(end), .. }) => TimeToLive::Limited(end.at.saturating_duration_since(ctx.now())),
        }
    }

    /// The time of a key is over, unless it was given another one when this was already on its way.
    #[message]
    fn lapse(&mut self, ctx: &mut Context<Self>, key: Key) {
        let is_over = |end: &End| end.at <= ctx.now();
        if self.entries.get(&key).and_then(|entry| entry.end.as_ref()).is_some_and(is_over) {
            self.entries.remove(&key);
        }
    }
}
