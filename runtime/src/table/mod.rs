//! The table finds a process by its PID: an index, and a compare of the generation, the node and the host.
//!
//! * [`slot`]: the place that a process lives in, and the token that gives its holder the rights to it;
//! * [`card`]: its second line, what is told of a process; [`extras`]: what a slot keeps for its process;
//! * [`directory`]: where the slots are, and which of them are free;
//! * [`side`]: what few processes have beside their slots: what they wait for ([`waiting`]), how many of their wakers others
//!   have ([`lent`]).
//!
//! There is one table per program, not one per host: an address may outlive the runtime that gave it out, and a sender
//! may hold a slot's token while the host is going down. So slots are never moved and never freed; they are recycled, by
//! all hosts alike, and memory stays at its high-water mark. Rejected: a table per host (freed under a sender's feet), a
//! reference count or an epoch on each lookup (the cost that the erlang/otp and kameo authors removed, or regret).

pub(crate) mod card;
pub(crate) mod directory;
mod ear;
pub(crate) mod extras;
pub(crate) mod lent;
pub(crate) mod side;
pub(crate) mod slot;
pub(crate) mod waiting;

pub(crate) use directory::TABLE;
pub(crate) use extras::{Extras, ProcessKind};
pub(crate) use slot::{Admission, Home, Keeper, Refusal, Slot, Token, Why};
