//! Threads and tasks that wait for room in a mailbox.

pub(crate) use super::state::RoomSignal;
use super::state::RoomWaiter;
use super::suspend;
use crate::engine::blocking::block_in_place::while_blocked;
use crate::routing::TransportQueue;
use crate::slots::Slot;
use crate::util::oneshot::Oneshot;
use std::task::{Poll, Waker};
use std::time::Instant;

/// A wait for room. If it is dropped after it was granted room, the next waiter gets that room.
pub(crate) struct RoomRequest {
    room: RoomSignal,
    /// The mailbox, if it grants room to one waiter at a time.
    at: Option<&'static Slot>,
}

/// Requests room in the mailbox of the process with this generation. Returns `None` if there is room, or the process
/// has ended.
pub(crate) fn ask(slot: &'static Slot, generation: u64) -> Option<RoomRequest> {
    let room = RoomSignal::new(Oneshot::new());
    suspend::wait_at(slot, generation, RoomWaiter::Room(room.clone())).then_some(RoomRequest { room, at: Some(slot) })
}

/// Requests room in the queue of a transport. Returns `None` if there is room.
pub(crate) fn ask_abroad(queue: &TransportQueue) -> Option<RoomRequest> {
    let room = RoomSignal::new(Oneshot::new());
    queue.wait(RoomWaiter::Room(room.clone())).then(|| RoomRequest::of(room))
}

impl RoomRequest {
    /// Creates a wait for a signal that all waiters receive at once.
    pub(crate) fn of(room: RoomSignal) -> Self {
        Self { room, at: None }
    }

    pub(crate) fn wait(self, until: Option<Instant>) {
        while_blocked(|| self.room.wait(until));
    }

    pub(crate) fn poll(&self, waker: &Waker) -> Poll<()> {
        self.room.poll(waker)
    }
}

impl Drop for RoomRequest {
    fn drop(&mut self) {
        if self.room.abandon()
            && let Some(slot) = self.at
        {
            suspend::resume_waiters(slot, false);
        }
    }
}
