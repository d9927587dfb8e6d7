//! Messages of the directory to a peer.

use super::{Peer, Phase};
use crate::directory::message::DirectoryMessage;
use crate::engine::Lane;
use crate::envelope::Envelope;
use postroom::Pid;
use postroom::error::SendFailure;

impl Peer {
    /// Ends the session because the peer requested or sent more than is stored for one peer.
    pub(crate) fn end_flood(&self) {
        let mut state = self.lock();
        state.is_flooding = true;
        state.session.abort();
        self.announce(state);
    }

    /// Returns whether the session was ended because the peer requested or sent more than is stored for one peer.
    pub(crate) fn is_flooding(&self) -> bool {
        self.lock().is_flooding
    }

    /// Returns a PID for messages to the node and not to a process.
    pub(crate) fn anyone(&self) -> Pid {
        self.lock().anyone
    }

    /// Queues a message of the directory, after the messages already sent to processes of the peer.
    ///
    /// # Errors
    /// [`SendFailure::Full`] if there is no room, and [`SendFailure::UnknownNode`] if the session is not open.
    pub(crate) fn offer(&self, message: &DirectoryMessage) -> Result<(), SendFailure> {
        let envelope = Envelope::Directory { message: message.encode() };
        let mut state = self.lock();
        let to = state.anyone;
        if !matches!(state.phase, Phase::Open(_)) {
            return Err(SendFailure::UnknownNode(to));
        }
        let was_idle = state.is_idle();
        state.queue(Lane::Data, to, &envelope).map_err(|refusal| refusal.into_failure(to))?;
        self.transmit_queued(state, was_idle);
        Ok(())
    }
}
