//! Tests of the runtime through its public API, one folder or file for each folder of the runtime; `whole` tests
//! combinations of them.
//!
//! All share one program. A test of a global resource (memory, threads, descriptors, subscriber or panic hook) has a
//! program of its own, beside this folder.

mod actor;
mod call;
mod deadlock;
mod engine;
mod links;
mod names;
mod pool;
mod process;
mod recorder;
mod registry;
mod routing;
mod simulation;
mod supervision;
mod time;
mod whole;
