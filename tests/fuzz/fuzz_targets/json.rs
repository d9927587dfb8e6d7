//! Starts and messages by name: `cargo fuzz run json --fuzz-dir tests/fuzz`.

#![no_main]

#[path = "../driver.rs"]
mod driver;
#[path = "../json.rs"]
mod json;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let _kind = json::target(data);
});
