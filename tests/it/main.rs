//! Tests of the runtime through its public API, one folder or file for each folder of the runtime; what several of them
//! do together is in `whole`.
//!
//! All share one program. What counts something of the program's own (its memory, threads, descriptors, subscriber or
//! panic hook) is a program of its own, beside this folder.

mod actor;
mod call;
mod deadlock;
mod engine;
mod links;
mod names;
mod pool;
mod process;
mod registry;
mod routing;
mod simulation;
mod supervision;
mod time;
mod whole;
