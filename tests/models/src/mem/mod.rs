//! A stand-in for the allocator of size classes.

pub(crate) mod size_classes;
