//! Supervisors: processes that restart failed children, and stop them in order.
//!
//! A [`Supervisor`] specifies its children, their order, and the strategy for failures. Spawning it returns a [`Tree`],
//! which can be printed and stopped, and accepts further children; `.child(…)` returns addresses that stay valid across
//! restarts.

// From the bottom up:
// * `plan`: the decisions of a supervisor as a pure state machine, with backoff and restart intensity;
// * `errors`, and `status`: the state of a child as users see it; `held`: requests to a child without a process;
//   `child_slot`, with `child_queue`: the stable target of a child's address; `registry`: the children of a supervisor;
//   `show`: a tree as text;
// * `incarnation`: one run of a child; `child`: its specification; `elsewhere`: a child's start on another node;
// * `driver`: the supervisor's process; `tree`: its handle; `siblings`: addresses between children; `supervisor`, with
//   `place`: building and spawning it.

pub(crate) mod child;
pub(crate) mod child_queue;
pub(crate) mod child_slot;
pub(crate) mod driver;
pub(crate) mod elsewhere;
pub(crate) mod errors;
pub(crate) mod held;
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
pub use elsewhere::{ChildStart, EndReport, Place, Placement, SpawnElsewhere, StartReport, StartingChild};
pub use errors::{ChildError, GaveUp, SupervisorError};
pub use place::SpawnPlace;
pub use plan::Restart;
pub use plan::backoff::Backoff;
pub use show::ChildInfo;
pub use status::{ChildState, LastEnd};
pub use supervisor::Supervisor;
pub use tree::Tree;
