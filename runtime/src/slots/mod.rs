//! The table of processes. A PID is looked up by an index and a comparison of generation, node and host.
//!
//! * [`slot`]: the slot of a process, and the token that gives its holder exclusive rights;
//! * [`directory`]: the slots, and the list of free ones;
//! * [`chunks`]: tables with an entry per slot, of slots or of data that few processes need;
//! * [`link_endpoint`]: slots as receivers of link messages.
//!
//! There is one table per program, not one per host: an address may outlive its runtime, and a sender may hold a slot's
//! token while the host is shut down. So slots are never moved and never freed; they are recycled by all hosts alike,
//! and memory stays at its high-water mark. Rejected: a table per host (freed while a sender uses it), a reference
//! count or an epoch on each lookup (a cost that the authors of erlang/otp and kameo removed, or regret).

pub(crate) mod chunks;
pub(crate) mod directory;
pub(crate) mod link_endpoint;
pub(crate) mod slot;

pub(crate) use directory::TABLE;
pub(crate) use slot::cold_state::{ColdState, ProcessKind};
pub(crate) use slot::{Admission, RefusalReason, Schedule, SendPolicy, SendRefusal, Slot, SlotHost, SlotOwner, Token};
