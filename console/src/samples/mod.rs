//! What only those who look pay for: a statistical profile, and how long messages wait.
//!
//! * `histogram`: durations, in buckets;
//! * `profile`: what the looks come to, without a clock or a thread;
//! * `sampler`: the thread that looks, while someone has looked at the console within the last minute.

mod histogram;
mod profile;
mod sampler;

pub(crate) use histogram::{BOUNDS, Buckets};
pub(crate) use profile::{MethodFigures, ProcessFigures, Profile, Totals};
pub(crate) use sampler::Samples;
