//! An account of all messages.

use postroom::prelude::*;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

/// How a message is sent. This determines what can become of it.
#[derive(Clone, Copy, Debug)]
pub enum Way {
    /// Sent: the message is handled, returned to its sender, or becomes a dead letter.
    Sent,
    /// Called: like `Sent`, but a refused or abandoned message is not returned.
    Called,
    /// Sent later: like `Sent`, or the message is withdrawn when its timer is cancelled.
    Later,
    /// Broadcast, repeated, or sent by a future. Copies for dead receivers are dropped. So is a message that a process
    /// is waiting to send when it exits.
    Copied,
}

/// A counter for each [`Way`].
pub type Each = [AtomicU64; 4];

/// The numbers of messages, by what became of them.
#[derive(Debug, Default)]
pub struct Books {
    pub made: Each,
    pub handled: Each,
    pub refused: Each,
    pub dead: Each,
    /// Messages that were dropped without being counted in one of the fields above.
    pub vanished: Each,
    /// Messages that were withdrawn with their timers.
    pub withdrawn: AtomicU64,
    /// Calls that were made.
    pub asked: AtomicU64,
    /// Calls that were answered.
    pub answered: AtomicU64,
    /// Dead letters of any type, counted by the hook.
    pub letters: AtomicU64,
    /// The number of random acts that processes have performed.
    pub deeds: AtomicU64,
    pub restarts: AtomicU64,
    pub upgrades: AtomicU64,
}

pub fn add(count: &AtomicU64) {
    count.fetch_add(1, SeqCst);
}

/// The part of each message that counts what becomes of the message.
#[derive(Debug)]
pub struct Parcel {
    books: Arc<Books>,
    way: Way,
    ended: bool,
}

impl Parcel {
    pub fn new(books: &Arc<Books>, way: Way) -> Self {
        add(&books.made[way as usize]);
        Self { books: books.clone(), way, ended: false }
    }

    fn end(mut self, which: impl Fn(&Books) -> &Each) {
        self.ended = true;
        add(&which(&self.books)[self.way as usize]);
    }

    pub fn handled(self) {
        self.end(|books| &books.handled);
    }

    pub fn refused(self) {
        self.end(|books| &books.refused);
    }
}

impl Clone for Parcel {
    fn clone(&self) -> Self {
        Self::new(&self.books, self.way)
    }
}

impl Drop for Parcel {
    fn drop(&mut self) {
        if !self.ended {
            add(&self.books.vanished[self.way as usize]);
        }
    }
}

impl Books {
    /// Counts a message that was passed to the dead-letter hook.
    pub fn letter(&self, message: Payload) {
        add(&self.letters);
        let dead = |parcel: Parcel| parcel.end(|books| &books.dead);
        let message = match message.take::<super::messages::Deed>() {
            Ok(deed) => return dead(deed.parcel),
            Err(message) => message,
        };
        let message = match message.take::<super::messages::Tick>() {
            Ok(tick) => return dead(tick.0),
            Err(message) => message,
        };
        let message = match message.take::<super::citizen::CitizenAsk>() {
            Ok(ask) => return dead(ask.deed.parcel),
            Err(message) => message,
        };
        let message = match message.take::<super::citizen::CitizenKeep>() {
            Ok(keep) => return dead(keep.deed.parcel),
            Err(message) => message,
        };
        if let Ok(delay) = message.take::<super::citizen::CitizenDelay>() {
            dead(delay.deed.parcel);
        }
    }

    /// Returns the number of messages that are not accounted for yet.
    pub fn underway(&self) -> i64 {
        let sum = |each: &Each| each.iter().map(|count| count.load(SeqCst) as i64).sum::<i64>();
        sum(&self.made) - sum(&self.handled) - sum(&self.refused) - sum(&self.dead) - sum(&self.vanished)
    }
}
