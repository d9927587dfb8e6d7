//! Code shared by the harness and the systems: the plan of a run ([`plan`]), the work inside messages ([`kernel`]), the
//! driver of the probes ([`probe`]), senders that are no processes ([`outside`]), a client of HTTP ([`http`]), and
//! names ([`names`]).

pub mod http;
pub mod kernel;
pub mod names;
pub mod outside;
pub mod plan;
pub mod probe;
