//! What the log says of messages and answers that cannot travel.

use super::error::CodecError;
use crate::threads::users_code;
use std::collections::BTreeSet;
use std::mem::discriminant;
use std::sync::{Mutex, PoisonError};

/// How many lines there may be: what a peer calls its messages is for the peer to say.
const MAX_LINES: usize = 1_024;

/// What the log has said already. Each message is named once for each build that does not have it in this form, and
/// once for each kind of failure: its senders may try again and again.
#[derive(Default)]
pub(super) struct Reports(Mutex<BTreeSet<String>>);

impl Reports {
    pub(super) fn note(&self, error: &CodecError) {
        let line = error.to_string();
        let key = match error {
            // With the hashes of both builds.
            CodecError::NotRemote { .. } | CodecError::Unknown { .. } | CodecError::Incompatible { .. } => line.clone(),
            // What varies in the others is the value's, of which there may be any number.
            error => format!("{:?} {}", discriminant(error), error.name().unwrap_or_default()),
        };
        let mut said = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_new = said.len() < MAX_LINES && said.insert(key);
        drop(said);
        if is_new {
            // A subscriber of the log is a user's code.
            users_code(move || {
                tracing::warn!(target: "postroom", error = line, "a message cannot travel between two nodes");
            });
        }
    }
}
