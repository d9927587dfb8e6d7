//! What is known of a slot besides, if anything is: few have had a long mailbox, or a bound of their own.
//!
//! In chunks that are made when one of their slots first needs it, never moved and never freed, as the slots.

use super::ring::Ring;
use crate::clock::TimerKey;
use crate::mailbox::bound::Bound;
use crate::oneshot::Oneshot;
use crate::pid::SLOT_BITS;
use crate::scheduler::host::Host;
use crate::sync::{Arc, AtomicPtr, Mutex, MutexGuard, Ordering, lock};
use crate::table::Slot;
use std::collections::VecDeque;
use std::ops::{Deref, DerefMut};
use std::ptr;

const CHUNK_BITS: u32 = 10;
const CHUNK: usize = 1 << CHUNK_BITS;
const CHUNKS: usize = 1 << (SLOT_BITS - CHUNK_BITS);

/// The program's.
pub(super) static SIDES: Sides = Sides([const { AtomicPtr::new(ptr::null_mut()) }; CHUNKS]);

/// See the module.
pub(super) struct Sides([AtomicPtr<[Side; CHUNK]>; CHUNKS]);

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
    /// A process that is held; the number tells this hold from others of the same process.
    Process { slot: &'static Slot, generation: u64, number: u64 },
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
    /// Where the process itself is held.
    pub(super) held: Option<Held>,
}

impl State {
    fn is_nothing(&self) -> bool {
        self.bound.is_none() && self.ring.is_none() && self.waiting.is_empty() && self.held.is_none()
    }
}

impl Sides {
    /// That of a slot, if there is one.
    pub(super) fn get(&'static self, index: u32) -> Option<&'static Side> {
        let chunk = self.0.get(index as usize >> CHUNK_BITS)?.load(Ordering::Acquire);
        // SAFETY: null, or a complete chunk, which is never freed.
        let chunk = unsafe { chunk.as_ref() }?;
        Some(&chunk[index as usize & (CHUNK - 1)])
    }

    /// That of a slot.
    pub(super) fn make(&'static self, index: u32) -> &'static Side {
        if let Some(side) = self.get(index) {
            return side;
        }
        let fresh: Box<[Side]> = (0..CHUNK).map(|_| Side::default()).collect();
        let fresh: Box<[Side; CHUNK]> = match fresh.try_into() {
            Ok(chunk) => chunk,
            Err(_) => unreachable!("made with this length"),
        };
        let fresh = Box::into_raw(fresh);
        let place = &self.0[index as usize >> CHUNK_BITS];
        if place.compare_exchange(ptr::null_mut(), fresh, Ordering::AcqRel, Ordering::Relaxed).is_err() {
            // SAFETY: made above, and nobody else has seen it.
            drop(unsafe { Box::from_raw(fresh) });
        }
        self.get(index).unwrap_or_else(|| unreachable!("made just now"))
    }
}
