//! What a process awaits, and how the answer finds it.
//!
//! * [`waker`]: the waker of a process; [`current`]: the process that a thread runs;
//! * [`pending`]: everything that the process waits for; [`background`]: futures beside its methods; [`attachment`]:
//!   how far an attached stream is; [`handover`]: what of it survives an upgrade;
//! * [`awaits`], [`interval`]: awaiting time, commands and cancellation; [`time_source`]: which clock a process goes
//!   by;
//! * [`outside`]: answers to threads and to tasks of other executors.

pub(crate) mod attachment;
pub(crate) mod awaits;
pub(crate) mod background;
pub(crate) mod current;
pub(crate) mod handover;
pub(crate) mod interval;
pub(crate) mod outside;
pub(crate) mod pending;
pub(crate) mod time_source;
pub(crate) mod waker;
