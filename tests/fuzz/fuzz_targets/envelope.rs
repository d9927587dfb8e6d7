//! Envelopes between nodes: `cargo fuzz run envelope --fuzz-dir tests/fuzz`.

#![no_main]

#[path = "../driver.rs"]
mod driver;
#[path = "../envelope.rs"]
mod envelope;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let _kind = envelope::target(data);
});
