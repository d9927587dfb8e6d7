//! The cases as corrected: they must compile. They are built as all other tests are; trybuild would build the runtime
//! once more for them.

#![allow(warnings, clippy::all)]

include!(concat!(env!("OUT_DIR"), "/corrected.rs"));

fn main() {}
