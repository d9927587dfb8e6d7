//! Log lines about messages and answers that cannot travel.

use super::error::CodecError;
use crate::threads::users_code;
use std::collections::BTreeSet;
use std::mem::discriminant;
use std::sync::{Mutex, PoisonError};

/// The maximum number of lines, since a peer may use any number of message names.
const MAX_LINES: usize = 1_024;

/// The messages that have been logged. Each is logged once for each build that has another form of it, and once for
/// each kind of failure, since senders may retry again and again.
#[derive(Default)]
pub(super) struct Reports(Mutex<BTreeSet<String>>);

impl Reports {
    pub(super) fn note(&self, error: &CodecError) {
        let line = error.to_string();
        let key = match error {
            // These lines do not depend on the value. The third kind includes the hashes of both builds.
            CodecError::NotRemote { .. } | CodecError::Unknown { .. } | CodecError::Incompatible { .. } => line.clone(),
            // The other lines depend on the value, so there is no limit to how many of them can differ.
            error => format!("{:?} {}", discriminant(error), error.name().unwrap_or_default()),
        };
        let mut said = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_new = said.len() < MAX_LINES && said.insert(key);
        drop(said);
        if is_new {
            // A log subscriber is user code.
            users_code(move || {
                tracing::warn!(target: "postroom", error = line, "a message cannot travel between two nodes");
            });
        }
    }
}
