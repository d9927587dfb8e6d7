//! The reactor of another library, driven by the workers.
//!
//! * [`reactor`]: the engine's interface to such a reactor;
//! * [`tokio`](self): its implementation for Tokio, with the feature `tokio`.

pub(crate) mod reactor;
#[cfg(feature = "tokio")]
pub(crate) mod tokio;
