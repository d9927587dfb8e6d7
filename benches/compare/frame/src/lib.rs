//! Code shared by the harness and the systems: the plan of a run ([`plan`]), the work inside messages ([`kernel`]), the
//! driver of the probes ([`probe`]), and names ([`names`]).

pub mod kernel;
pub mod names;
pub mod plan;
pub mod probe;
