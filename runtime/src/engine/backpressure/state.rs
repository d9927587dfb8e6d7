//! The back-pressure state of a slot whose mailbox has been full or has its own bound, or whose process is suspended.
//! It is kept in a side table, since such slots are few.

use crate::engine::host::Scheduler;
use crate::env::clock::TimerKey;
use crate::env::world::World;
use crate::mailbox::bound::{Bound, Overflow};
use crate::mailbox::node::{Envelope, NodeKind, distance};
use crate::pid::{Pid, Resident};
use crate::routing::TransportQueue;
use crate::slots::Slot;
use crate::slots::chunks::{ChunkEntry, Chunks};
use crate::sync::{Arc, Mutex, MutexGuard, lock};
use crate::util::oneshot::Oneshot;
use std::cell::RefCell;
use std::collections::VecDeque;
use std::ops::{Deref, DerefMut};

pub(crate) static SIDES: World<Chunks<SharedState>> = World::new(Chunks::new());

pub(crate) fn side_of(slot: &'static Slot) -> &'static SharedState {
    SIDES.make(slot.index()).unwrap_or_else(|| unreachable!("the index of a slot is one of the table's"))
}

/// The place to which the process of this thread has sent too much.
#[derive(Clone, Copy)]
pub(crate) enum Congestion {
    /// A mailbox over its bound.
    Mailbox {
        on: &'static Slot,
        generation: u64,
        /// The amount that the thread had spent when the congestion began, or when the step last waited for room.
        since: u64,
    },
    /// The queue of a transport, which the thread notes separately: see [`take_full_queue`].
    Abroad,
}

thread_local! {
    /// The full transport queue that the step of this thread has sent to: see [`Congestion::Abroad`].
    static FULL_QUEUE: RefCell<Option<FullPlace>> = const { RefCell::new(None) };
}

/// Notes the full transport queue that this step has sent to.
pub(super) fn note_full_queue(place: FullPlace) {
    // The previous place may hold the last reference to a queue, so it is dropped outside the borrow.
    let _before = FULL_QUEUE.replace(Some(place));
}

/// Takes the full transport queue that this step has sent to, if there is one.
pub(super) fn take_full_queue() -> Option<FullPlace> {
    FULL_QUEUE.take()
}

/// The place at which a process is suspended.
#[derive(Clone)]
pub(crate) enum FullPlace {
    Mailbox {
        slot: &'static Slot,
        generation: u64,
    },
    /// The queue of a transport, and the process that it leads to.
    Abroad(TransportQueue, Pid),
}

impl FullPlace {
    /// Returns the process whose mailbox this is, or to which the queue leads.
    pub(crate) fn pid(&self) -> Option<Pid> {
        match self {
            Self::Mailbox { slot, .. } => slot.resident(),
            Self::Abroad(_, to) => Some(*to),
        }
    }

    /// Returns the mailbox, if this is one.
    pub(crate) fn mailbox(&self) -> Option<&'static Slot> {
        match self {
            Self::Mailbox { slot, .. } => Some(slot),
            Self::Abroad(..) => None,
        }
    }
}

/// The state of a slot, under a lock. It is boxed, and allocated only while needed, since each of a million processes
/// may be suspended once.
#[derive(Default)]
pub(crate) struct SharedState(Mutex<Option<Box<MailboxState>>>);

impl ChunkEntry for SharedState {
    fn unused(_: u32) -> Self {
        Self::default()
    }
}

impl SharedState {
    pub(crate) fn lock(&self) -> LockedState<'_> {
        let mut state = lock(&self.0);
        state.get_or_insert_default();
        LockedState(state)
    }
}

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

/// A signal that is set when there may be room, and when the receiver ends.
pub(crate) type RoomSignal = Arc<Oneshot<()>>;

pub(crate) enum RoomWaiter {
    /// A suspended process; `number` identifies the suspension. `sends` is the amount that it is expected to send when
    /// it resumes: the amount that its last step has spent.
    Process {
        slot: &'static Slot,
        generation: u64,
        number: u64,
        sends: u64,
    },
    Room(RoomSignal),
}

pub(crate) struct SuspendedAt {
    pub(crate) at: FullPlace,
    pub(crate) number: u64,
    pub(crate) host: &'static Scheduler,
    /// The signal that the process waits for inside its step, if it does.
    pub(crate) room: Option<RoomSignal>,
    /// The timer that resumes the process when it has waited for the maximum time.
    pub(crate) forced_release: Option<TimerKey>,
}

impl RoomWaiter {
    /// Returns whether the waiter may still be waiting. Always true for a process, since its state is under another
    /// lock.
    pub(crate) fn is_wanted(&self) -> bool {
        match self {
            Self::Process { .. } => true,
            Self::Room(room) => !room.is_abandoned(),
        }
    }

    pub(crate) fn sends(&self) -> u64 {
        match self {
            Self::Process { sends, .. } => *sends,
            Self::Room(_) => 1,
        }
    }
}

/// The queue of a mailbox with a hard bound. See [`placeholders`](super::placeholders).
pub(crate) struct BoundedQueue {
    most: usize,
    pub(crate) overflow: Overflow,
    envelopes: VecDeque<Envelope>,
    /// How many of the envelopes are messages. The bound does not apply to the others.
    messages: usize,
}

impl BoundedQueue {
    fn of(bound: Bound) -> Option<Self> {
        match bound {
            Bound::Hard(most, overflow) => Some(Self { most, overflow, envelopes: VecDeque::new(), messages: 0 }),
            Bound::Soft(_) | Bound::Unbounded => None,
        }
    }

    pub(crate) fn is_full(&self) -> bool {
        self.messages >= self.most
    }

    pub(crate) fn push(&mut self, envelope: Envelope) {
        self.messages += usize::from(envelope.kind == NodeKind::Message);
        self.envelopes.push_back(envelope);
    }

    pub(crate) fn pop(&mut self) -> Option<Envelope> {
        self.take_at(0)
    }

    pub(crate) fn take_oldest_message(&mut self) -> Option<Envelope> {
        self.take_at(self.envelopes.iter().position(|envelope| envelope.kind == NodeKind::Message)?)
    }

    fn take_at(&mut self, place: usize) -> Option<Envelope> {
        let envelope = self.envelopes.remove(place)?;
        self.messages -= usize::from(envelope.kind == NodeKind::Message);
        Some(envelope)
    }

    pub(crate) fn into_envelopes(self) -> VecDeque<Envelope> {
        self.envelopes
    }
}

#[derive(Default)]
pub(crate) struct MailboxState {
    /// The process that the bound and the queue belong to.
    pub(crate) generation: u64,
    /// The mailbox's own bound; `None` for the host's default.
    pub(crate) bound: Option<Bound>,
    pub(crate) queue: Option<BoundedQueue>,
    pub(crate) waiting: VecDeque<RoomWaiter>,
    /// Number of messages still expected from processes that were resumed while the mailbox was not empty.
    pub(crate) expected: u64,
    /// The number of the newest message seen so far.
    pub(crate) seen: u64,
    /// The number of a recent message, while the mailbox is congested. A sender that cannot learn its predecessor's
    /// number uses this; otherwise the length would be forgotten each time that a sender is preempted while numbering
    /// its message.
    pub(crate) known: u64,
    /// The process's own suspension.
    pub(crate) suspension: Option<SuspendedAt>,
}

impl MailboxState {
    /// Records the number of the newest message; zero if it is unknown, for example because its sender is about to
    /// write it.
    pub(crate) fn note_arrivals(&mut self, last: u64) {
        if last != 0 {
            self.expected = self.expected.saturating_sub(distance(self.seen, last));
            self.seen = last;
            self.note_known(last);
        }
    }

    pub(crate) fn note_known(&mut self, last: u64) {
        if last != 0 {
            self.known = last;
        }
    }

    fn is_nothing(&self) -> bool {
        self.bound.is_none()
            && self.queue.is_none()
            && self.waiting.is_empty()
            && self.suspension.is_none()
            && self.known == 0
    }
}

/// Sets the bound of a mailbox whose process has not started.
pub(crate) fn set_bound(slot: &'static Slot, generation: u64, bound: Bound) {
    let mut side = side_of(slot).lock();
    *side = MailboxState { generation, bound: Some(bound), queue: BoundedQueue::of(bound), ..MailboxState::default() };
    slot.note_own_bound(matches!(bound, Bound::Hard(..)));
}

/// Returns the bound of a mailbox; `None` if it is unbounded.
pub(crate) fn bound_of(slot: &'static Slot) -> Option<u64> {
    let bound = match SIDES.get(slot.index()).filter(|_| slot.has_own_bound()) {
        Some(side) => side.lock().bound.unwrap_or_default(),
        None => slot.owner()?.host.bound(),
    };
    match bound {
        Bound::Soft(most) | Bound::Hard(most, _) => Some(most as u64),
        Bound::Unbounded => None,
    }
}

/// Returns whether a mailbox is over its bound or, if the bound is hard, full.
pub(crate) fn is_over(slot: &'static Slot) -> bool {
    if slot.is_hard_bounded() {
        let side = SIDES.get(slot.index());
        return side.is_some_and(|side| side.lock().queue.as_ref().is_some_and(BoundedQueue::is_full));
    }
    bound_of(slot).is_some_and(|bound| slot.lanes.depth() > bound)
}
