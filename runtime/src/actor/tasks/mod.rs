//! The waits of a process, and how answers find them.
//!
//! * [`waker`]: the waker of a process; [`current`]: the process that a thread runs;
//! * [`pending`]: the table of waits, which consists of [`rows`]; [`background`]: futures beside the methods;
//!   [`inbox`]: input that has arrived and has not been handled; [`ending`]: requests to end;
//!   [`attachment`]: the progress of attached streams; [`handover`]: handing the state to another definition;
//! * [`awaits`], [`interval`]: awaiting time, commands and cancellation; [`time_source`]: the clock of a process;
//! * [`outside`]: answers to threads and to tasks of other executors.

pub(crate) mod attachment;
pub(crate) mod awaits;
pub(crate) mod background;
pub(crate) mod current;
pub(crate) mod ending;
pub(crate) mod handover;
pub(crate) mod inbox;
pub(crate) mod interval;
pub(crate) mod outside;
pub(crate) mod pending;
pub(crate) mod rows;
pub(crate) mod time_source;
pub(crate) mod waker;

pub(crate) use attachment::{Attachment, StashedMessage};
pub(crate) use awaits::{Patience, TimerFuture};
pub(crate) use background::Acts;
pub(crate) use current::{Entered, TableCell, Wanting};
pub(crate) use handover::Handover;
pub(crate) use outside::{ExitWaiter, OutsideWait};
pub(crate) use pending::{CommandResult, WaitKey, Waits};
