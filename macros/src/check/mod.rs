//! What the user wrote, judged: types that can be a process or travel in a message, and the errors that name the cure.
//!
//! * [`diagnostics`]: every mistake of an item, reported at once; [`suggest`]: "did you mean"; [`text`]: tokens as a
//!   person would write them;
//! * [`self_type`]: the type that a `#[process] impl` is about; [`owned`]: types that can travel.

pub(crate) mod diagnostics;
pub(crate) mod owned;
pub(crate) mod self_type;
pub(crate) mod suggest;
pub(crate) mod text;
