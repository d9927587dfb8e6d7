//! Starts of processes on the peer, and answers to the peer's own starts.

use super::Peer;
use super::admission::content;
use crate::codec::CodecError;
use crate::engine::Lane;
use crate::envelope::{Envelope, ToldKind};
use crate::reply::Completer;
use crate::starts::{NotStarted, Started};
use bytes::Bytes;
use postroom::Payloads;

/// Maximum length of the reason why a process was not started, in bytes.
const MAX_REASON: usize = 16 << 10;

/// Maximum number of waiting starts of one peer. A start waits for the policy's decision, and for other starts whose
/// `Default` is slow.
const MAX_STARTS: usize = 4_096;

/// Maximum total length of the inputs of these starts, in bytes.
const MAX_START_BYTES: usize = 16 << 20;

impl NotStarted {
    /// Converts the failure to the answer to start `number`.
    pub(super) fn into_envelope(self, number: u64) -> Envelope {
        match self {
            Self::Said(mut reason) => {
                reason.truncate(reason.floor_char_boundary(MAX_REASON));
                Envelope::Refused { number, reason }
            }
            Self::Denied => Envelope::Told { number, told: ToldKind::Denied, bytes: Bytes::new() },
            Self::Full => Envelope::Told { number, told: ToldKind::Full, bytes: Bytes::new() },
            Self::KeyTaken { process } => Envelope::KeyTaken { number, process },
        }
    }
}

impl Peer {
    /// Requests the start of a process from the peer.
    ///
    /// # Errors
    /// If the inputs do not fit the entry.
    pub(crate) fn start(
        &self,
        process: &str,
        entry: &str,
        inputs: Payloads,
        key: Option<String>,
        then: Completer<Started>,
    ) -> Result<(), CodecError> {
        let Some(agreement) = self.agreement() else {
            then.complete(Err("there is no session with it yet".into()));
            return Ok(());
        };
        let encoded = agreement.encode_inputs(process, entry, inputs)?;
        let mut state = self.lock();
        let (number, anyone) = (state.number(), state.anyone);
        let content = content(encoded);
        let envelope = match key {
            None => Envelope::Start { number, content },
            Some(key) => Envelope::StartKeyed { number, key, content },
        };
        match state.queue(Lane::Control, anyone, &envelope) {
            Ok(()) => {
                state.starts.insert(number, then);
                self.announce(state);
            }
            Err(refusal) => {
                drop(state);
                then.complete(Err(refusal.into_text().into()));
            }
        }
        Ok(())
    }

    pub(crate) fn answer_start(&self, number: u64, started: Started) {
        let envelope = match started {
            Ok(pid) => Envelope::Started { number, pid },
            Err(why) => why.into_envelope(number),
        };
        self.must_send(Lane::Control, envelope);
    }

    /// Records a start of the peer, with inputs of this length. Returns false if too many starts, or too many inputs,
    /// are waiting.
    pub(crate) fn begin_start(&self, length: usize) -> bool {
        let mut state = self.lock();
        let (count, bytes) = &mut state.waiting_starts;
        let has_room = *count < MAX_STARTS && *bytes + length <= MAX_START_BYTES;
        if has_room {
            (*count, *bytes) = (*count + 1, *bytes + length);
        }
        has_room
    }

    /// Removes a recorded start that has been performed, or that will not be performed.
    pub(crate) fn end_start(&self, length: usize) {
        let (count, bytes) = &mut self.lock().waiting_starts;
        (*count, *bytes) = (*count - 1, *bytes - length);
    }

    pub(crate) fn take_start(&self, number: u64) -> Option<Completer<Started>> {
        self.lock().starts.remove(&number)
    }

    /// Handles the peer's answer to a start, or to the start of a child.
    pub(crate) fn start_is_over(&self, number: u64, started: Started) {
        match self.take_start(number) {
            Some(then) => then.complete(started),
            None => self.child_started(number, started),
        }
    }
}
