//! Checks `runtime/src/links/protocol.rs` and `runtime/src/routing/ties.rs` (the production modules, not copies) in
//! all states that three processes on one node or on two can reach, with the [stateright](https://docs.rs/stateright)
//! model checker. `README.md` lists what is covered, what is not, and which planted faults are caught.
//!
//! * `world`: the processes, the messages in flight between them, and the effects of each event;
//! * `routing`: the sessions between two nodes;
//! * `check`: the properties, and the search;
//! * `scenarios`: the initial states, and the acts that processes may perform.

#[cfg(test)]
mod check;
#[cfg(test)]
mod exit;
#[cfg(test)]
mod links;
#[cfg(test)]
mod pid;
#[cfg(test)]
mod routing;
#[cfg(test)]
mod scenarios;
#[cfg(test)]
mod world;
