//! Calls in both directions: their answers, and callers that give up.

use super::admission::{LOOK_FOR_ABANDONED, content};
use super::{Peer, PeerState};
use crate::clock::Moment;
use crate::codec::{MessageId, answer_lost, encode_call_error};
use crate::engine::Lane;
use crate::envelope::Envelope;
use crate::node::overflow::Why;
use postroom::routing::{Abandonment, Answerer};
use postroom::{CallError, Payload};
use std::ops;

/// Number of calls that are checked in each search, which bounds the time for which the lock is held.
const LOOK_AT_MOST: usize = 4_096;

impl Peer {
    /// Records a call from the peer before it is delivered.
    pub(crate) fn begin_answering(&self, number: u64, abandonment: Abandonment) {
        self.lock().answering.insert(number, abandonment);
    }

    /// Answers a recorded call, unless its caller has given up.
    pub(crate) fn answer_noted(&self, number: u64, message: MessageId, result: Result<Payload, CallError>) {
        let is_wanted = self.lock().answering.remove(&number).is_some();
        // Otherwise `result` is dropped here, outside the lock, as its drop is user code.
        if is_wanted {
            self.answer(number, message, result);
        }
    }

    /// Abandons a call that came from the peer, because its caller has given up.
    pub(crate) fn abandoned(&self, number: u64) {
        let abandonment = self.lock().answering.remove(&number);
        if let Some(abandonment) = abandonment {
            abandonment.abandon();
        }
    }

    /// Answers a call from the peer. `message` is the ID of the call's message.
    pub(crate) fn answer(&self, number: u64, message: MessageId, result: Result<Payload, CallError>) {
        let result = result.and_then(|mut value| {
            // Without a session no one can receive the answer.
            let agreement = self.agreement().ok_or(CallError::Dropped)?;
            agreement.encode_answer(message, &mut value).map_err(|error| {
                self.codecs.report(&error);
                answer_lost(&error)
            })
        });
        self.must_send(
            Lane::Data,
            match result {
                Ok(encoded) => Envelope::Answer { number, content: content(encoded) },
                Err(error) => Envelope::Failed { number, error: encode_call_error(&error) },
            },
        );
    }

    /// Removes a call that has been answered, and returns it.
    pub(crate) fn take_call(&self, number: u64) -> Option<Answerer> {
        self.lock().calls.remove(&number)
    }
}

impl PeerState {
    /// Removes the calls whose callers have given up, and notifies the peer.
    pub(super) fn take_abandoned(&mut self, now: Moment) -> Vec<Answerer> {
        if self.look_at.is_none_or(|at| at > now) {
            return Vec::new();
        }
        let mut looked_at = 0;
        let after = (ops::Bound::Excluded(self.looked_to), ops::Bound::Unbounded);
        let numbers: Vec<_> = self
            .calls
            .range(after)
            .take(LOOK_AT_MOST)
            .inspect(|(number, _)| (looked_at, self.looked_to) = (looked_at + 1, **number))
            // `is_abandoned` checks the caller's slot, or takes the lock for its answer; neither calls back into this
            // peer.
            .filter(|(_, answerer)| answerer.is_abandoned())
            .map(|(number, _)| *number)
            .collect();
        if looked_at < LOOK_AT_MOST {
            self.looked_to = 0;
        }
        let mut abandoned = Vec::new();
        for number in numbers {
            abandoned.extend(self.calls.remove(&number));
            // The notice goes into the data lane, so that it follows the call.
            self.must_put(Lane::Data, &Envelope::Abandon { number }, Why::Owed);
        }
        self.look_at = (!self.calls.is_empty()).then(|| now + LOOK_FOR_ABANDONED);
        abandoned
    }
}
