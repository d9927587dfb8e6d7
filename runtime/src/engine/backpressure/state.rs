//! What is known of a slot besides, if anything is: few have had a long mailbox, or a bound of their own.
//!
//! In a side table of the slots.

use super::bounded_queue::BoundedQueue;
use crate::engine::host::Scheduler;
use crate::env::clock::TimerKey;
use crate::env::world::World;
use crate::mailbox::bound::Bound;
use crate::mailbox::node::distance;
use crate::slots::Slot;
use crate::slots::side_table::SideTable;
use crate::sync::{Arc, Mutex, MutexGuard, lock};
use crate::util::oneshot::Oneshot;
use std::collections::VecDeque;
use std::ops::{Deref, DerefMut};

/// The program's.
pub(crate) static SIDES: World<SideTable<SharedState>> = World::new(SideTable::new(SharedState::default));

/// What is known of a slot, to be locked.
pub(crate) fn side_of(slot: &'static Slot) -> &'static SharedState {
    SIDES.make(slot.index()).unwrap_or_else(|| unreachable!("the index of a slot is one of the table's"))
}

/// That the process whose step this thread runs has sent to a mailbox over its bound.
#[derive(Clone, Copy)]
pub(crate) struct Congestion {
    pub(crate) on: &'static Slot,
    pub(crate) generation: u64,
    /// What its thread had spent when that began, or when the step last waited for it.
    pub(crate) since: u64,
}

/// That of one slot, under a lock. A box, and only while there is something to be known: a million processes may each
/// be suspended once.
#[derive(Default)]
pub(crate) struct SharedState(Mutex<Option<Box<MailboxState>>>);

impl SharedState {
    pub(crate) fn lock(&self) -> LockedState<'_> {
        let mut state = lock(&self.0);
        state.get_or_insert_default();
        LockedState(state)
    }
}

/// What is known of a slot, locked.
pub(crate) struct LockedState<'a>(MutexGuard<'a, Option<Box<MailboxState>>>);

impl Deref for LockedState<'_> {
    type Target = MailboxState;

    fn deref(&self) -> &MailboxState {
        self.0.as_deref().unwrap_or_else(|| unreachable!("put there when it was locked"))
    }
}

impl DerefMut for LockedState<'_> {
    fn deref_mut(&mut self) -> &mut MailboxState {
        self.0.get_or_insert_default()
    }
}

impl Drop for LockedState<'_> {
    fn drop(&mut self) {
        if self.0.as_ref().is_some_and(|state| state.is_nothing()) {
            *self.0 = None;
        }
    }
}

/// Told when there may be room; told too when the mailbox's process ends.
pub(crate) type RoomSignal = Arc<Oneshot<()>>;

/// Someone who waits for room in a mailbox.
pub(crate) enum RoomWaiter {
    /// A process that is suspended; the number tells this suspension from others of the same process. `sends` is how
    /// much is expected of it when it goes on: what its last step has spent.
    Process { slot: &'static Slot, generation: u64, number: u64, sends: u64 },
    /// A thread or a task.
    Room(RoomSignal),
}

/// Where a process is suspended.
pub(crate) struct SuspendedAt {
    pub(crate) at: &'static Slot,
    pub(crate) number: u64,
    pub(crate) host: &'static Scheduler,
    /// Its step waits on its thread.
    pub(crate) room: Option<RoomSignal>,
    /// Lets it go after a while.
    pub(crate) forced_release: Option<TimerKey>,
}

impl RoomWaiter {
    /// Returns whether it may wait still. Of a process that is not known without another lock.
    pub(crate) fn is_wanted(&self) -> bool {
        match self {
            Self::Process { .. } => true,
            Self::Room(room) => !room.is_abandoned(),
        }
    }

    /// Returns how many messages are expected of it.
    pub(crate) fn sends(&self) -> u64 {
        match self {
            Self::Process { sends, .. } => *sends,
            Self::Room(_) => 1,
        }
    }
}

/// What is known of the process in a slot besides.
#[derive(Default)]
pub(crate) struct MailboxState {
    /// The process that the bound and the ring belong to.
    pub(crate) generation: u64,
    /// `None`: the host's.
    pub(crate) bound: Option<Bound>,
    pub(crate) ring: Option<BoundedQueue>,
    /// Who waits for room in its mailbox, in the order in which they came.
    pub(crate) waiting: VecDeque<RoomWaiter>,
    /// How many messages are expected still of those that were resumed while the process had others, and the number of
    /// the message that had come last when that was said.
    pub(crate) expected: u64,
    pub(crate) seen: u64,
    /// While the mailbox is too full: the number of a message that came not long ago. A sender that does not learn its
    /// predecessor's takes it for that, or the mailbox would be forgiven its length each time that the machine puts a
    /// sender aside as it numbers its message.
    pub(crate) known: u64,
    /// Where the process itself is suspended.
    pub(crate) held: Option<SuspendedAt>,
}

impl MailboxState {
    /// The message that came last has that number; zero if it is not known, as while its sender is about to give it
    /// one.
    pub(crate) fn note_arrivals(&mut self, last: u64) {
        if last != 0 {
            self.expected = self.expected.saturating_sub(distance(self.seen, last));
            self.seen = last;
            self.note_known(last);
        }
    }

    /// The message of that number came last, unless it is zero.
    pub(crate) fn note_known(&mut self, last: u64) {
        if last != 0 {
            self.known = last;
        }
    }

    fn is_nothing(&self) -> bool {
        self.bound.is_none() && self.ring.is_none() && self.waiting.is_empty() && self.held.is_none() && self.known == 0
    }
}

/// The bound of a mailbox; `None` without one.
pub(crate) fn bound_of(slot: &'static Slot) -> Option<u64> {
    let bound = match SIDES.get(slot.index()).filter(|_| slot.has_own_bound()) {
        Some(side) => side.lock().bound.unwrap_or_default(),
        None => slot.home()?.scheduler.bound(),
    };
    match bound {
        Bound::Soft(most) | Bound::Hard(most, _) => Some(most as u64),
        Bound::Unbounded => None,
    }
}

/// Returns whether a mailbox is over its bound, or has no room under a hard one.
pub(crate) fn is_over(slot: &'static Slot) -> bool {
    if slot.is_hard_bounded() {
        return SIDES
            .get(slot.index())
            .is_some_and(|side| side.lock().ring.as_ref().is_some_and(BoundedQueue::is_full));
    }
    bound_of(slot).is_some_and(|bound| slot.lanes.depth() > bound)
}
