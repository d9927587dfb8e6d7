//! What `#[process]` says of a struct.
//!
//! * [`actor`]: the trait that it implements; [`entry`], [`inputs`] (and `json`): entries and what they are given;
//!   [`spawn_core`]: a spawn before its entry is known;
//! * [`context`]: what a method can do; [`reply`]: the answer that it owes;
//! * [`protocol`]: messages that several structs answer; [`named_message`]: a message by the name of its method;
//! * [`placement`]: which threads may run it; [`kind`]: what is known of the type without an instance.

pub(crate) mod actor;
pub(crate) mod context;
pub(crate) mod entry;
pub(crate) mod inputs;
#[cfg(feature = "serde")]
pub(crate) mod json;
pub(crate) mod kind;
pub(crate) mod named_message;
pub(crate) mod placement;
pub(crate) mod protocol;
pub(crate) mod reply;
pub(crate) mod spawn_core;
