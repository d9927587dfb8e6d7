//! User code at its worst. It panics wherever it is called, even in the drop of its own panic payload, re-enters the
//! runtime, takes a long time, or forgets values. Its process exits with that panic, all joins get the panic as the
//! reason, no other process is harmed, and the shutdown is clean.
//!
//! No result depends on time: tests wait for delayed events, and the time limit ends a hang.

mod faults;
