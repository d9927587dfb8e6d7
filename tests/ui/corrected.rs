//! The corrected cases, which must compile. They are built like all other tests, since trybuild would build the runtime
//! once more for them.

#![allow(warnings, clippy::all)]

include!(concat!(env!("OUT_DIR"), "/corrected.rs"));

fn main() {}
