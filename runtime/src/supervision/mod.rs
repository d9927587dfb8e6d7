//! Supervisors: who starts processes again that fail, and stops them in order.
//!
//! A [`Supervisor`] says what to start, in which order, and what to do when one of them ends. Spawned, it gives a
//! [`Tree`], which prints, stops, and takes in further children; `.child(…)` gives addresses that stay valid across
//! restarts.

// From the bottom up:
// * `plan`: what a supervisor does, as a pure state machine, with back-off and restart intensity;
// * `errors`, and `status`: what is told of a child; `child_slot`: where a child is reached, across restarts;
//   `registry`: the children of a supervisor, as others see them; `show`: a tree as text;
// * `incarnation`: one run of a child, as its end is told; `child`: what is said of a child before it is started;
// * `driver`: the supervisor's process; `tree`: its handle; `siblings`: how a child is given the address of
//   another; `supervisor`, with `place`: how it is built and spawned.

pub(crate) mod child;
pub(crate) mod child_slot;
pub(crate) mod driver;
pub(crate) mod errors;
pub(crate) mod incarnation;
pub(crate) mod place;
pub(crate) mod plan;
pub(crate) mod registry;
pub(crate) mod show;
pub(crate) mod siblings;
pub(crate) mod status;
pub(crate) mod supervisor;
pub(crate) mod tree;

pub use child::Child;
pub use errors::{ChildError, GaveUp, SupervisorError};
pub use place::SpawnPlace;
pub use plan::Restart;
pub use plan::backoff::Backoff;
pub use show::ChildInfo;
pub use status::{ChildState, LastEnd};
pub use supervisor::Supervisor;
pub use tree::Tree;
