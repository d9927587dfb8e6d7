//! Requests to the example `redis`: `cargo fuzz run redis --fuzz-dir tests/fuzz`.

#![no_main]

#[path = "../../../examples/redis/batch.rs"]
mod batch;
#[path = "../../../examples/redis/command.rs"]
mod command;
#[path = "../driver.rs"]
mod driver;
#[path = "../../../examples/redis/inline.rs"]
mod inline;
#[path = "../redis.rs"]
mod redis;
#[path = "../../../examples/redis/reply.rs"]
mod reply;
#[path = "../../../examples/redis/resp.rs"]
mod resp;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let _kind = redis::target(data);
});
