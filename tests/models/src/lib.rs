//! Models of the concurrent protocols, for the [loom](https://docs.rs/loom) model checker.
//!
//! The modules below with a `#[path]` into `runtime/src` are the production code, not copies: here, their
//! `crate::sync` is the `sync` module of this crate, made of loom's types. Small stand-ins replace the rest of the
//! runtime. The folders mirror those of `runtime/src`. `README.md` lists what is covered, what is not, and which
//! planted faults are caught.

// The models use only parts of the production modules.
#![cfg(test)]
#![allow(dead_code, unreachable_pub, unused_imports)]

mod check;
mod fault;
mod models;
mod sync;

mod call;
mod deadlock;
mod engine;
mod env;
#[path = "../../../runtime/src/errors/mod.rs"]
mod errors;
#[path = "../../../runtime/src/exit.rs"]
mod exit;
mod links;
mod mailbox;
mod mem;
mod names;
mod observe;
#[path = "../../../runtime/src/pid.rs"]
mod pid;
mod process;
mod recorder;
mod routing;
mod slots;
#[path = "../../../runtime/src/thread_cache/mod.rs"]
mod thread_cache;
mod time;
mod util;
