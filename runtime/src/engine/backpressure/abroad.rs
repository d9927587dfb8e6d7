//! Senders to other nodes whose transport has no room: suspended as at a mailbox with a soft bound.
//!
//! What a process sends is accepted beyond the bound of the transport, and its thread notes the transport's queue, as
//! for a mailbox in [`congestion`](super::congestion). After the step the process is suspended there
//! ([`suspend`](super::suspend)): it is listed in the queue instead of at a slot, under the queue's lock. Why no room
//! is missed is argued in [`transport_queue`](crate::routing::transport_queue). Signals, the longest wait, and the end
//! of the wait when its own mailbox is over its bound are those of any suspension. What is missing is the edge of the
//! wait graph, since what a process of another node waits for is not known here: a cycle across nodes ends with the
//! longest wait.
//!
//! If the transport does not accept more beyond its bound either, the step itself waits, as in backpressure:W9.

use super::congestion::{SendMode, Sender, mode, note_congestion_abroad, sender};
use super::state::FullPlace;
use super::suspend::wait_in_step_at;
use crate::call::package::{Package, Undeliverable};
use crate::errors::SendFailure;
use crate::routing::Transport;
use crate::routing::router::{RemoteSender, set_remote_sender};
use std::cell::RefCell;

thread_local! {
    /// What the step of this thread has sent too much to: see `Congestion::Abroad`.
    static FULL: RefCell<Option<FullPlace>> = const { RefCell::new(None) };
}

/// Takes the full transport queue that this step has sent to, if there is one.
pub(super) fn take() -> Option<FullPlace> {
    FULL.take()
}

/// From here on, sends of processes to other nodes wait for room.
pub(crate) fn begin() {
    set_remote_sender(&SuspendableSender);
}

/// Sends for the process, or the other code, that runs on the thread.
struct SuspendableSender;

impl RemoteSender for SuspendableSender {
    fn deliver(&self, transport: &dyn Transport, package: Package) -> Result<(), Undeliverable> {
        match transport.deliver(package) {
            Err(refused) if is_full(&refused) => deliver_to_full(transport, refused),
            done => done,
        }
    }
}

fn is_full(refused: &Undeliverable) -> bool {
    matches!(refused.reason, SendFailure::Full(_))
}

/// Delivers a package for which the transport has no room, if its sender may be made to wait.
#[cold]
fn deliver_to_full(transport: &dyn Transport, mut refused: Undeliverable) -> Result<(), Undeliverable> {
    let own = match sender() {
        Sender::Process(own) if mode() == SendMode::Normal => Some(own),
        Sender::Ending => None,
        Sender::Process(_) | Sender::Between | Sender::Outside => return Err(refused),
    };
    let to = refused.package.to();
    loop {
        let Some(queue) = transport.queue(to) else { return Err(refused) };
        let place = FullPlace::Abroad(queue, to);
        match (transport.deliver_beyond(refused.package), own) {
            (Ok(()), Some(_)) => {
                // The one before is dropped outside the borrow: it may be the last of a queue.
                let _before = FULL.replace(Some(place));
                note_congestion_abroad();
                return Ok(());
            }
            // One message: what it has sent before was accepted.
            (Err(again), Some(own)) if is_full(&again) && wait_in_step_at(own, place, 1) => refused = again,
            (done, _) => return done,
        }
    }
}
