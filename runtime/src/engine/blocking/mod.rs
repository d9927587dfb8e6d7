//! Steps that block: their permit serves other processes in the meantime.
//!
//! * [`block_in_place`]: for synchronous code;
//! * [`queued`]: for async code, which can wait for a spare thread without blocking one.

pub(crate) mod block_in_place;
pub(crate) mod queued;
