//! Messages in flight, and how answers travel back.
//!
//! * [`package`]: a message with its destination and its caller;
//! * [`caller`]: the caller as the called process holds it; [`call_id`]: whether its answer is still expected;
//!   [`answer`]: the answer as the calling process gets it;
//! * [`command`]: commands that a step yields, and their completions;
//! * [`dead_letter`]: messages that no process will handle.

pub(crate) mod answer;
pub(crate) mod call_id;
pub(crate) mod caller;
pub(crate) mod command;
pub(crate) mod dead_letter;
pub(crate) mod package;
