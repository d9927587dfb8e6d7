//! Errors. Each one states what was expected, what was received, and what to do about it.
//!
//! The modules group them by recipient: senders and callers ([`sending`], [`skew`]), spawners ([`starting`]), users of
//! names ([`naming`]), the process itself ([`stepping`]), and the owner of the runtime ([`running`]). [`words`] has the
//! wording that they share.

pub(crate) mod naming;
pub(crate) mod running;
pub(crate) mod sending;
pub(crate) mod skew;
pub(crate) mod starting;
pub(crate) mod stepping;
pub(crate) mod words;

pub use naming::{AddressError, BadName, GroupError, NameError, WhereisError};
pub use running::{BuildError, ShutdownError};
pub use sending::{CallError, Cycle, Delivery, MessageError, SendError, SendFailure};
pub use skew::Skew;
pub use starting::{EntryError, InitError, RunError, SpawnError, StartError};
pub use stepping::{CommandError, Elapsed, ProcessError, StepError};
pub(crate) use words::{describe, did_you_mean, distance, list};
