//! The table finds a process by its PID: an index, and a compare of the generation, the node and the host.
//!
//! * [`slot`]: the place that a process lives in, and the token that gives its holder the rights to it;
//! * [`directory`]: where the slots are, and which of them are free;
//! * [`side_table`]: what few processes have, kept apart from their slots;
//! * [`link_endpoint`]: how a slot hears what linked processes say.
//!
//! There is one table per program, not one per host: an address may outlive the runtime that gave it out, and a sender
//! may hold a slot's token while the host is going down. So slots are never moved and never freed; they are recycled,
//! by all hosts alike, and memory stays at its high-water mark. Rejected: a table per host (freed under a sender's
//! feet), a reference count or an epoch on each lookup (the cost that the erlang/otp and kameo authors removed, or
//! regret).

pub(crate) mod directory;
pub(crate) mod link_endpoint;
pub(crate) mod side_table;
pub(crate) mod slot;

pub(crate) use directory::TABLE;
pub(crate) use slot::cold_state::{ColdState, ProcessKind};
pub(crate) use slot::{Admission, RefusalReason, Schedule, SendRefusal, Slot, SlotOwner, Token};
