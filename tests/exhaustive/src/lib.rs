//! Checks `runtime/src/links/protocol.rs`, the production module and not a copy, in all states that three processes can
//! reach, with the [stateright](https://docs.rs/stateright) model checker. `README.md` lists what is covered, what is
//! not, and which planted faults are caught.
//!
//! * `world`: the processes, the messages in flight between them, and the effects of each event;
//! * `check`: the properties, and the search;
//! * `scenarios`: the initial states, and the acts that processes may perform.

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
