//! The production depots, and a stand-in for the allocator of size classes.

#[path = "../../../../runtime/src/mem/magazine.rs"]
pub(crate) mod magazine;
pub(crate) mod size_classes;
