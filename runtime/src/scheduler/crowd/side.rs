//! What is known of a slot besides, if anything is: few have had a long mailbox, or a bound of their own.
//!
//! In a side table of the slots.

use super::ring::Ring;
use crate::clock::TimerKey;
use crate::mailbox::bound::Bound;
use crate::mailbox::node::distance;
use crate::oneshot::Oneshot;
use crate::scheduler::host::Host;
use crate::sync::{Arc, Mutex, MutexGuard, lock};
use crate::table::Slot;
use crate::table::side::Side as Table;
use std::collections::VecDeque;
use std::ops::{Deref, DerefMut};

/// The program's.
pub(super) static SIDES: Table<Side> = Table::new(Side::default);

/// What is known of a slot, to be locked.
pub(super) fn side_of(slot: &'static Slot) -> &'static Side {
    SIDES.make(slot.index()).unwrap_or_else(|| unreachable!("the index of a slot is one of the table's"))
}

/// That of one slot, under a lock. A box, and only while there is something to be known: a million processes may each be held
/// once.
#[derive(Default)]
pub(super) struct Side(Mutex<Option<Box<State>>>);

impl Side {
    pub(super) fn lock(&self) -> Known<'_> {
        let mut state = lock(&self.0);
        state.get_or_insert_default();
        Known(state)
    }
}

/// What is known of a slot, while nobody else looks.
pub(super) struct Known<'a>(MutexGuard<'a, Option<Box<State>>>);

impl Deref for Known<'_> {
    type Target = State;

    fn deref(&self) -> &State {
        self.0.as_deref().unwrap_or_else(|| unreachable!("put there when it was locked"))
    }
}

impl DerefMut for Known<'_> {
    fn deref_mut(&mut self) -> &mut State {
        self.0.get_or_insert_default()
    }
}

impl Drop for Known<'_> {
    fn drop(&mut self) {
        if self.0.as_ref().is_some_and(|state| state.is_nothing()) {
            *self.0 = None;
        }
    }
}

/// Told when there may be room; told too when the mailbox's process ends.
pub(crate) type Room = Arc<Oneshot<()>>;

/// Someone who waits for room in a mailbox.
pub(super) enum Waiting {
    /// A process that is held; the number tells this hold from others of the same process. `sends` is how much is expected of it
    /// when it goes on: what its last step has spent.
    Process { slot: &'static Slot, generation: u64, number: u64, sends: u64 },
    /// A thread or a task.
    Room(Room),
}

/// Where a process is held.
pub(super) struct Held {
    pub(super) at: &'static Slot,
    pub(super) number: u64,
    pub(super) host: &'static Host,
    /// Its step waits on its thread.
    pub(super) room: Option<Room>,
    /// Lets it go after a while.
    pub(super) valve: Option<TimerKey>,
}

impl Waiting {
    /// Whether it may wait still. Of a process that is not known without another lock.
    pub(super) fn is_wanted(&self) -> bool {
        match self {
            Self::Process { .. } => true,
            Self::Room(room) => !room.is_abandoned(),
        }
    }

    /// How many messages are expected of it.
    pub(super) fn sends(&self) -> u64 {
        match self {
            Self::Process { sends, .. } => *sends,
            Self::Room(_) => 1,
        }
    }
}

/// What is known of the process in a slot besides.
#[derive(Default)]
pub(super) struct State {
    /// The process that the bound and the ring belong to.
    pub(super) generation: u64,
    /// `None`: the host's.
    pub(super) bound: Option<Bound>,
    pub(super) ring: Option<Ring>,
    /// Who waits for room in its mailbox, in the order in which they came.
    pub(super) waiting: VecDeque<Waiting>,
    /// How many messages are expected still of those that were let go while the process had others, and the number of the message
    /// that had come last when that was said.
    pub(super) expected: u64,
    pub(super) seen: u64,
    /// While the mailbox is too full: the number of a message that came not long ago. A sender that does not learn its
    /// predecessor's takes it for that, or the mailbox would be forgiven its length each time that the machine puts a sender
    /// aside as it numbers its message.
    pub(super) known: u64,
    /// Where the process itself is held.
    pub(super) held: Option<Held>,
}

impl State {
    /// The message that came last has that number; zero if it is not known, as while its sender is about to give it one.
    pub(super) fn note_arrivals(&mut self, last: u64) {
        if last != 0 {
            self.expected = self.expected.saturating_sub(distance(self.seen, last));
            self.seen = last;
            self.note_known(last);
        }
    }

    /// The message of that number came last, unless it is zero.
    pub(super) fn note_known(&mut self, last: u64) {
        if last != 0 {
            self.known = last;
        }
    }

    fn is_nothing(&self) -> bool {
        self.bound.is_none() && self.ring.is_none() && self.waiting.is_empty() && self.held.is_none() && self.known == 0
    }
}
