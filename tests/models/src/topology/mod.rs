//! The production modules of what binds processes. What they say is heard by slots, and answered to whoever stands in.

#[path = "../../../../runtime/src/topology/bond.rs"]
pub(crate) mod bond;
#[path = "../../../../runtime/src/topology/bonds.rs"]
pub(crate) mod bonds;
