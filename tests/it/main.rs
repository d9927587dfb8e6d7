//! Tests of the runtime through its public API, with one module for each folder of the runtime; `whole` tests
//! combinations of them.
//!
//! All modules share one test binary. A test of a global resource (memory, threads, file descriptors, subscriber or
//! panic hook) has its own binary, beside this folder.

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
