//! Checks `runtime/src/links/protocol.rs`, the production module and not a copy, in all that can happen among three
//! processes, with the [stateright](https://docs.rs/stateright) model checker. `README.md` says what is covered, what
//! is not, and which planted faults are caught.
//!
//! * `world`: the processes, what is on its way between them, and what follows from each event;
//! * `check`: what must hold, and the search;
//! * `scenarios`: from where, and with what each process may do.

#[cfg(test)]
mod check;
#[cfg(test)]
#[allow(dead_code, unreachable_pub)]
#[path = "../../../runtime/src/links/protocol.rs"]
mod links;
#[cfg(test)]
mod scenarios;
#[cfg(test)]
mod world;
