//! The text of a PID: `cargo fuzz run pid --fuzz-dir tests/fuzz`.

#![no_main]

#[path = "../driver.rs"]
mod driver;
#[path = "../pid.rs"]
mod pid;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let _kind = pid::target(data);
});
