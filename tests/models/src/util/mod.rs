//! Stand-ins for utilities that are independent of processes.

#[path = "../../../../runtime/src/util/block.rs"]
pub(crate) mod block;
#[path = "../../../../runtime/src/util/debug.rs"]
pub(crate) mod debug;
#[path = "../../../../runtime/src/util/defer.rs"]
pub(crate) mod defer;
pub(crate) mod dispose;
pub(crate) mod notifiers;
pub(crate) mod oneshot;
pub(crate) mod panics;
