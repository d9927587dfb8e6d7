//! Supervisors: who starts processes again that fail, and stops them in order.
//!
//! A [`Supervisor`] says what to start, in which order, and what to do when one of them ends. Spawned, it gives a [`Tree`], which
//! prints, stops, and takes in further children; `.child(…)` gives addresses that stay valid across restarts.

// From the bottom up:
// * `backoff` and `intensity`: how long to wait before a restart, and how many there may be;
// * `plan`: what a supervisor does, as a pure state machine;
// * `errors`, and `status`: what is told of a child; `post`: where a child is reached, whichever life it is in; `roll`: the
//   children of a supervisor, as others see them; `show`: a tree as a text;
// * `life`: one life of a child, as its end is told; `child`: what is said of a child before it is started;
// * `driver`: the supervisor's process; `tree`: its handle; `siblings`: how a child is given the address of
//   another; `supervisor`, with `place`: how it is built and spawned.
mod backoff;
mod child;
mod driver;
mod errors;
pub(crate) mod intensity;
mod life;
pub(crate) mod place;
mod plan;
mod post;
mod roll;
mod show;
mod siblings;
mod status;
mod supervisor;
mod tree;

pub use backoff::Backoff;
pub use child::Child;
pub use errors::{ChildError, GaveUp, SupervisorError};
pub use place::SpawnPlace;
pub use plan::Restart;
pub use show::ChildInfo;
pub use status::{ChildState, LastEnd};
pub use supervisor::Supervisor;
pub use tree::Tree;
