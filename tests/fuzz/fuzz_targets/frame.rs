//! Frames between nodes: `cargo fuzz run frame --fuzz-dir tests/fuzz`.

#![no_main]

#[path = "../driver.rs"]
mod driver;
#[path = "../frame.rs"]
mod frame;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let _kind = frame::target(data);
});
