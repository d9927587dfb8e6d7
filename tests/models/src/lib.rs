//! Models of the protocols that threads meet in, for the [loom](https://docs.rs/loom) model checker.
//!
//! The modules below with a `#[path]` into `runtime/src` are the production code, not copies: here their `crate::sync` is
//! `sync`, made of loom's types. What the models need of the rest of the runtime is a small stand-in. `README.md` says
//! what is covered, what is not, and which planted faults are caught.

#[cfg(test)]
mod check;
#[cfg(test)]
mod fault;
#[cfg(test)]
mod models;
#[cfg(test)]
mod sync;

// Stand-ins.
#[cfg(test)]
mod blocks;
#[cfg(test)]
mod caller;
#[cfg(test)]
mod clock;
#[cfg(test)]
#[allow(dead_code)]
mod oneshot;
#[cfg(test)]
mod package;
#[cfg(test)]
mod panics;
#[cfg(test)]
mod pointing;

// The production modules. What no model uses of them is no concern here.
#[cfg(test)]
#[allow(dead_code, unreachable_pub)]
#[path = "../../../runtime/src/dead_letter.rs"]
mod dead_letter;
#[cfg(test)]
#[allow(dead_code, unreachable_pub, unused_imports)]
#[path = "../../../runtime/src/errors/mod.rs"]
mod errors;
#[cfg(test)]
#[allow(dead_code, unreachable_pub)]
#[path = "../../../runtime/src/exit.rs"]
mod exit;
#[cfg(test)]
#[allow(dead_code, unreachable_pub)]
mod mailbox;
#[cfg(test)]
#[allow(dead_code)]
#[allow(clippy::modulo_one, reason = "one cell is enough for a model")]
#[path = "../../../runtime/src/memberships.rs"]
mod memberships;
#[cfg(test)]
#[path = "../../../runtime/src/name.rs"]
mod name;
#[cfg(test)]
#[allow(dead_code)]
#[path = "../../../runtime/src/names.rs"]
mod names;
#[cfg(test)]
#[allow(dead_code, unreachable_pub)]
#[path = "../../../runtime/src/payload.rs"]
mod payload;
#[cfg(test)]
#[allow(dead_code, unreachable_pub)]
#[path = "../../../runtime/src/pid.rs"]
mod pid;
#[cfg(test)]
#[allow(dead_code, unreachable_pub)]
mod process;
#[cfg(test)]
#[allow(dead_code)]
mod scheduler;
#[cfg(test)]
#[allow(dead_code)]
mod table;
#[cfg(test)]
#[allow(dead_code)]
#[path = "../../../runtime/src/ticket.rs"]
mod ticket;
#[cfg(test)]
#[allow(dead_code, unreachable_pub)]
mod topology;
#[cfg(test)]
#[allow(dead_code)]
#[path = "../../../runtime/src/wait_graph.rs"]
mod wait_graph;
