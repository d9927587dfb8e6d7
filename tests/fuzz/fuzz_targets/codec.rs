//! Messages of users between nodes: `cargo fuzz run codec --fuzz-dir tests/fuzz`.

#![no_main]

#[path = "../codec.rs"]
mod codec;
#[path = "../driver.rs"]
mod driver;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let _kind = codec::target(data);
});
