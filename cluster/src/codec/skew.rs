//! Errors that senders and callers get for a message or an answer that cannot travel. Differences between two builds
//! are kept for the life of the program, since the errors hold them as `&'static`.

use super::Codecs;
use super::error::CodecError;
use super::form::Form;
use super::message::MAX_MESSAGE;
use postroom::error::{SendFailure, Skew};
use postroom::{CallError, Pid};
use std::collections::HashSet;
use std::sync::{Mutex, PoisonError};

/// The maximum number of differences that are kept, since a peer may claim any hashes.
const MAX_SKEWS: usize = 1_024;

impl Codecs {
    /// Returns the failure to report for a message to `to` that could not be encoded.
    pub(crate) fn failure(&self, error: &CodecError, to: Pid) -> SendFailure {
        let skew = |form: &Form, there| {
            let skew = Skew { message: form.name, here: form.hash, there };
            kept(skew).map_or(SendFailure::NotRemote(to), SendFailure::OtherBuild)
        };
        let form = error.name().and_then(|name| {
            let forms = &self.0.forms;
            forms.binary_search_by(|form| form.name.cmp(name)).ok().map(|at| &forms[at])
        });
        match (error, form) {
            (CodecError::TooLong { bytes, .. }, _) => SendFailure::TooLong { bytes: *bytes, limit: MAX_MESSAGE },
            (CodecError::Unknown { here: false, .. }, Some(form)) => skew(form, None),
            (CodecError::Incompatible { there, .. }, Some(form)) => skew(form, Some(*there)),
            (CodecError::Unwritable { .. } | CodecError::Panicked { .. }, Some(form)) => {
                SendFailure::Unwritable { message: form.name }
            }
            // No exported process here has the message. Errors of decoding cannot occur for an outgoing message.
            _ => SendFailure::NotRemote(to),
        }
    }
}

/// Returns the error of a call whose message could not be read here.
pub(crate) fn not_taken(error: &CodecError) -> CallError {
    match error {
        CodecError::Unknown { .. } | CodecError::Incompatible { .. } | CodecError::NotRemote { .. } => {
            CallError::NotRemote
        }
        CodecError::TooLong { bytes, .. } => CallError::TooLong { bytes: *bytes, limit: MAX_MESSAGE },
        error => CallError::Unreadable(error.to_string().into()),
    }
}

/// Returns the error of a call whose message was handled, but whose answer could not be written or read here.
pub(crate) fn answer_lost(error: &CodecError) -> CallError {
    match error {
        CodecError::TooLong { bytes, .. } => CallError::AnswerTooLong { bytes: *bytes, limit: MAX_MESSAGE },
        CodecError::Answer { expected, came, .. } => CallError::Mismatch { expected, found: came },
        error => CallError::AnswerLost(error.to_string().into()),
    }
}

/// Returns a copy of the difference with static lifetime, or `None` if too many differences are kept already.
fn kept(skew: Skew) -> Option<&'static Skew> {
    static SKEWS: Mutex<Option<HashSet<&'static Skew>>> = Mutex::new(None);
    let mut skews = SKEWS.lock().unwrap_or_else(PoisonError::into_inner);
    let skews = skews.get_or_insert_default();
    if let Some(kept) = skews.get(&skew) {
        return Some(kept);
    }
    if skews.len() == MAX_SKEWS {
        return None;
    }
    let skew: &'static Skew = Box::leak(Box::new(skew));
    skews.insert(skew);
    Some(skew)
}
