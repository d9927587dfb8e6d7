//! The state machine that owns a process's struct, and the future of its current method.
//!
//! * [`state_machine`]: its steps; [`serving`]: handling messages in place; [`serve`]: the loop of an async entry;
//! * [`attach`]: streams as messages; [`blocking`]: blocking operations in a method; [`upgrade`]: handing the struct to
//!   another definition.

pub(crate) mod attach;
pub(crate) mod blocking;
pub(crate) mod serve;
pub(crate) mod serving;
pub(crate) mod state_machine;
pub(crate) mod upgrade;
