//! Suspends processes that send to other nodes while the transport has no room, as at a mailbox with a soft bound.
//!
//! The messages of a process are accepted beyond the bound of the transport, and its thread notes the transport's
//! queue, as [`congestion`](super::congestion) does for a mailbox. After the step the process is suspended at that
//! queue ([`suspend`](super::suspend)): it is listed in the queue instead of at a slot, under the queue's lock.
//! [`transport_queue`](crate::routing::transport_queue) explains why no wake-up is lost. Like any other, this
//! suspension ends when the process gets a signal, when it has waited for the maximum time, or when its own mailbox
//! exceeds its bound. Only the edge of the wait graph is missing, since this node does not know what a process of
//! another node waits for: a cycle across nodes ends when a process in it has waited for the maximum time.
//!
//! If the transport refuses messages beyond its bound too, the step itself waits, as in backpressure:W9.

use super::congestion::{SendMode, Sender, mode, note_congestion_abroad, sender};
use super::state::{FullPlace, note_full_queue};
use super::suspend::wait_in_step_at;
use crate::call::package::{Package, Undeliverable};
use crate::errors::SendFailure;
use crate::routing::Transport;
use crate::routing::router::{RemoteSender, set_remote_sender};

/// Makes processes that send to other nodes wait for room from now on.
pub(crate) fn begin() {
    set_remote_sender(&SuspendableSender);
}

/// Sends on behalf of the process, or other code, that runs on the calling thread.
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
                note_full_queue(place);
                note_congestion_abroad();
                return Ok(());
            }
            // Waits for room for one message: the messages sent before it were accepted.
            (Err(again), Some(own)) if is_full(&again) && wait_in_step_at(own, place, 1) => refused = again,
            (done, _) => return done,
        }
    }
}
