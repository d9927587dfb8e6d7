//! What the harness and the systems share: what a run is ([`plan`]), the work inside of its messages ([`kernel`]), how
//! the probes are driven ([`probe`]), and what things are called ([`names`]).

pub mod kernel;
pub mod names;
pub mod plan;
pub mod probe;
