//! What the log says of messages that two builds do not share.

use super::error::CodecError;
use crate::threads::users_code;
use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

/// How many lines there may be: what a peer calls its messages is for the peer to say.
const MAX_LINES: usize = 1_024;

/// What the log has said already. Each message is named once for each build that does not have it in this form: its
/// senders may try again and again.
#[derive(Default)]
pub(super) struct Reports(Mutex<BTreeSet<String>>);

impl Reports {
    pub(super) fn note(&self, error: &CodecError) {
        if !matches!(error, CodecError::NotRemote { .. } | CodecError::Unknown { .. } | CodecError::Incompatible { .. })
        {
            return;
        }
        let line = error.to_string();
        let mut said = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_new = said.len() < MAX_LINES && said.insert(line.clone());
        drop(said);
        if is_new {
            // A subscriber of the log is a user's code.
            users_code(move || {
                tracing::warn!(target: "postroom", error = line, "a message cannot travel between two nodes");
            });
        }
    }
}
