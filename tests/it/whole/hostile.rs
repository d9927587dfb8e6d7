//! Users' code at its worst: it panics wherever it is called from, also in dropping its own panic, comes back into the
//! runtime from there, takes long, forgets what it was given. The process that it belongs to ends with that panic, all
//! who wait for it hear so, no other process is harmed, and the shutdown is clean.
//!
//! No verdict is a time: what is held up is waited for, and the watchdog ends a hang.

mod faults;
