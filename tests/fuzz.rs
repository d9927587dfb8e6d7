//! Fuzz targets: parsers of external input, which are run on random inputs that are made from good ones.
//!
//! Each target is a function of bytes, `target(data: &[u8])`, in the form that cargo-fuzz calls (`fuzz/fuzz_targets`).
//! It panics on a violation, and returns a number for the kind of outcome. The driver runs on stable. It mutates the
//! inputs of a corpus, and adds each input whose kind of outcome is new to the corpus. Each target gets 5,000 inputs
//! with a fixed seed. With `POSTROOM_FUZZ_SECONDS` it runs for that time instead, with a random seed that is printed;
//! `POSTROOM_FUZZ_SEED` sets the seed.
//!
//! Faults that these targets were seen to detect: a generation that is one bit too long for one of the two PID parsers;
//! a name that is one byte too long; a JSON input that must not be omitted; a request whose words depend on the pieces
//! in which it arrives; a call error that is written as a different one; and, only in runs by time, a frame whose flags
//! are not checked.
//!
//! Blind spots: without support from the compiler, the driver does not know which branches an input reaches. So a
//! fault that needs several steps, none of which changes the outcome, is only found by luck. Inputs have at most
//! [`LONGEST`] bytes.
//!
//! [`LONGEST`]: driver::LONGEST

#[path = "../examples/redis/batch.rs"]
#[expect(dead_code, reason = "a batch is the server's affair")]
mod batch;
#[path = "fuzz/codec.rs"]
mod codec;
#[path = "../examples/redis/command.rs"]
#[expect(dead_code, reason = "the server reads what is only made here")]
mod command;
#[path = "fuzz/driver.rs"]
mod driver;
#[path = "fuzz/envelope.rs"]
mod envelope;
#[path = "fuzz/frame.rs"]
mod frame;
#[path = "../examples/redis/inline.rs"]
mod inline;
#[path = "fuzz/json.rs"]
mod json;
#[path = "fuzz/name.rs"]
mod name;
#[path = "fuzz/pid.rs"]
mod pid;
#[path = "fuzz/redis.rs"]
mod redis;
#[path = "../examples/redis/reply.rs"]
#[expect(dead_code, reason = "replies are the server's affair")]
mod reply;
#[path = "../examples/redis/resp.rs"]
mod resp;
