//! Those that wait for room in a mailbox on a thread of their own, or in a task.

pub(crate) use super::state::RoomSignal;
use super::state::RoomWaiter;
use super::suspend;
use crate::engine::blocking::block_in_place::while_blocked;
use crate::slots::Slot;
use crate::util::oneshot::Oneshot;
use std::task::{Poll, Waker};
use std::time::Instant;

/// A wait for room. One that is given up lets the next one in, if the room was meant for this one by then.
pub(crate) struct RoomRequest {
    room: RoomSignal,
    /// Where those who wait are let in one by one.
    at: Option<&'static Slot>,
}

/// Asks to be told of room in the mailbox of the process of that generation. `None`: there is some, or it has ended.
pub(crate) fn ask(slot: &'static Slot, generation: u64) -> Option<RoomRequest> {
    let room = RoomSignal::new(Oneshot::new());
    suspend::wait_at(slot, generation, RoomWaiter::Room(room.clone())).then_some(RoomRequest { room, at: Some(slot) })
}

/// Blocks the calling thread until there may be room.
pub(crate) fn wait(slot: &'static Slot, generation: u64) {
    if let Some(wish) = ask(slot, generation) {
        wish.wait(None);
    }
}

impl RoomRequest {
    /// Of a room where all who wait are told at once.
    pub(crate) fn of(room: RoomSignal) -> Self {
        Self { room, at: None }
    }

    /// Blocks the calling thread until there may be room, or until then.
    pub(crate) fn wait(self, until: Option<Instant>) {
        while_blocked(|| self.room.wait(until));
    }

    /// Returns whether there may be room by now.
    pub(crate) fn poll(&self, waker: &Waker) -> Poll<()> {
        self.room.poll(waker)
    }
}

impl Drop for RoomRequest {
    fn drop(&mut self) {
        if self.room.abandon()
            && let Some(slot) = self.at
        {
            suspend::relieve(slot, false);
        }
    }
}
