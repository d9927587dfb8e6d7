//! The reactor of another library, driven by the workers.
//!
//! * [`reactor`]: the engine's interface to it;
//! * [`tokio`](self): Tokio's, with the feature `tokio`.

pub(crate) mod reactor;
#[cfg(feature = "tokio")]
pub(crate) mod tokio;
