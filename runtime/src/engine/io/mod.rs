//! The reactor of another library, driven by the permits.
//!
//! * [`reactor`]: what the engine needs of one;
//! * [`tokio`](self): Tokio's, with the feature `tokio`.

pub(crate) mod reactor;
#[cfg(feature = "tokio")]
pub(crate) mod tokio;
