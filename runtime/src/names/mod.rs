//! The names of processes.
//!
//! * [`name`]: valid names;
//! * [`table`]: the holders of names, and the aliases that follow a name.

pub(crate) mod name;
pub(crate) mod table;
