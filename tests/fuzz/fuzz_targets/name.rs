//! Names of processes: `cargo fuzz run name --fuzz-dir tests/fuzz`.

#![no_main]

#[path = "../driver.rs"]
mod driver;
#[path = "../name.rs"]
mod name;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let _kind = name::target(data);
});
