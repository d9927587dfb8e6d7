//! The names of processes.
//!
//! * [`name`]: a valid name;
//! * [`table`]: which process holds which name, and the aliases that follow a name.

pub(crate) mod name;
pub(crate) mod table;
