//! Those that wait for room in a mailbox on a thread of their own, or in a task.

use super::hold::{self, Waiting};
use crate::oneshot::Oneshot;
use crate::scheduler::lend::while_blocked;
use crate::sync::Arc;
use crate::table::Slot;
use std::time::Instant;

/// Told when there may be room; told too when the mailbox's process ends.
pub(crate) type Room = Arc<Oneshot<()>>;

/// Asks to be told of room in the mailbox of the process of that generation. `None`: there is some, or it has ended.
pub(crate) fn ask(slot: &'static Slot, generation: u64) -> Option<Room> {
    let room = Room::new(Oneshot::new());
    hold::wait_at(slot, generation, Waiting::Room(room.clone())).then_some(room)
}

/// Blocks the calling thread until there may be room, or until then.
pub(crate) fn wait(slot: &'static Slot, generation: u64, until: Option<Instant>) {
    if let Some(room) = ask(slot, generation) {
        while_blocked(|| room.wait(until));
        room.abandon();
    }
}
