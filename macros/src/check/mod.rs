//! Validation of user code: types of processes and messages, and errors that say what to write instead.
//!
//! * [`diagnostics`]: all errors of an item, reported at once; [`suggest`]: "did you mean"; [`text`]: tokens as a
//!   person would write them;
//! * [`self_type`]: the type of a `#[process] impl`; [`owned`]: types that a message can carry; [`bare`]: a type
//!   without its invisible group; [`attributes`]: conditions of attributes.

pub(crate) mod attributes;
pub(crate) mod bare;
pub(crate) mod diagnostics;
pub(crate) mod owned;
pub(crate) mod self_type;
pub(crate) mod suggest;
pub(crate) mod text;
