//! Accesses to one entry of the store, as values: what a state machine asks its caller to do.

use crate::engine::{Bucket, Engine, Entry, Revision, StoreError};
use bytes::Bytes;

/// What to do with an entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Access {
    /// Create it with this value.
    Create(Bytes),
    /// Replace the revision by this value.
    Update(Bytes, Revision),
    /// Delete the revision.
    Delete(Revision),
    /// Read it.
    Get,
}

/// What came of an access.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The answer to a write: its revision.
    Written(Result<Revision, StoreError>),
    /// The answer to [`Access::Get`].
    Read(Result<Option<Entry>, StoreError>),
}

impl Access {
    /// Has an engine make the access to `key`. `then` runs once, later.
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
