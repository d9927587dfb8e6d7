//! Accesses to one entry of the store, as values that a state machine asks its caller to perform.

use crate::engine::Engine;
use crate::store::{Bucket, Entry, Revision, StoreError};
use bytes::Bytes;

/// An access to one entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Access {
    /// Creates the entry with this value.
    Create(Bytes),
    /// Replaces the given revision with this value.
    Update(Bytes, Revision),
    /// Deletes the given revision.
    Delete(Revision),
    /// Reads the entry.
    Get,
}

/// The result of an access.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The result of a write or of a deletion: its revision.
    Written(Result<Revision, StoreError>),
    /// The result of [`Access::Get`].
    Read(Result<Option<Entry>, StoreError>),
}

impl Access {
    /// Performs the access to `key` on an engine. `then` runs exactly once, and never inside this call.
    pub fn perform(self, engine: &dyn Engine, bucket: Bucket, key: &str, then: impl FnOnce(Answer) + Send + 'static) {
        match self {
            Self::Get => engine.get(bucket, key, Box::new(|read| then(Answer::Read(read)))),
            Self::Create(value) => {
                engine.create(bucket, key, value, Box::new(|written| then(Answer::Written(written))))
            }
            Self::Update(value, expected) => {
                engine.update(bucket, key, value, expected, Box::new(|written| then(Answer::Written(written))));
            }
            Self::Delete(expected) => {
                engine.delete(bucket, key, expected, Box::new(|written| then(Answer::Written(written))));
            }
        }
    }
}
