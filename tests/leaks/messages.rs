//! Messages, and a random number generator.

use super::books::Parcel;
use postroom::prelude::*;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// A time that is longer than any test. A wait of this length ends for another reason, or it has leaked.
pub const LONG: Duration = Duration::from_secs(3600);

pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[derive(Clone, Copy, Debug)]
pub struct Dice(pub u64);

impl Dice {
    pub fn roll(&mut self, sides: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % sides
    }

    pub fn next(&mut self) -> Self {
        Self(self.0.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ self.roll(u64::MAX) | 1)
    }

    pub fn short(&mut self) -> Duration {
        Duration::from_micros(self.roll(3_000))
    }

    /// Returns a duration that is mostly short, and otherwise longer than the life of any process.
    pub fn perhaps_long(&mut self) -> Duration {
        if self.roll(3) == 0 { LONG } else { self.short() }
    }
}

/// A request to act at random, followed by `left` more generations of such requests.
#[derive(Debug)]
pub struct Deed {
    pub left: u32,
    pub dice: Dice,
    pub parcel: Parcel,
}

/// A message that is broadcast.
#[derive(Clone, Debug)]
pub struct Tick(pub Parcel);

/// A command that is answered late, perhaps only when its completion is dropped.
pub struct Later;

impl Command for Later {
    type Output = u64;
}

/// Commands that have not been answered.
pub type Stash = Arc<Mutex<Vec<Completion<u64>>>>;

/// The maximum number of commands that wait for their answers.
const STASHED: usize = 16;

/// Handles [`Later`]. Stores the command, and answers the oldest one if too many are stored.
pub fn put_off(stash: &Stash, completion: Completion<u64>) {
    let first = {
        let mut stash = lock(stash);
        stash.push(completion);
        (stash.len() > STASHED).then(|| stash.remove(0))
    };
    if let Some(first) = first {
        first.complete(1);
    }
}
