//! Fuzz targets: parsers of what may come from outside, on inputs that are made at random from good ones.
//!
//! Each target is a function of bytes, `target(data: &[u8])`, in the form that cargo-fuzz calls; it panics at what must
//! not be, and returns a number for the kind of outcome. The driver here runs on stable: it mutates the inputs of a
//! corpus, and adds an input whose kind of outcome is new. 5,000 inputs for each target with a fixed seed, or for as
//! long as `POSTROOM_FUZZ_SECONDS` says, with a seed that is printed and that `POSTROOM_FUZZ_SEED` sets.
//!
//! Seen to fail: by a generation that is one bit too long for one of the two that read PIDs; a name one byte too long;
//! an input of JSON that must not be left out; a request whose words depend on the pieces in which it comes; an
//! error of a call that is written as another; and, in runs by time only, a frame whose flags are not checked.
//!
//! Blind spots: without the compiler's help nothing says which branches an input reaches, so what takes several steps
//! none of which changes the outcome is found by luck only. Inputs are of at most [`LONGEST`] bytes.
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
