//! Measurements that have a cost only while someone uses the console: a statistical profile, and how long messages
//! wait.
//!
//! * `histogram`: histograms of durations;
//! * `profile`: the statistics computed from the samples, without a clock or a thread;
//! * `sampler`: the threads that sample, while someone has used the console within the last minute.

mod histogram;
mod profile;
mod sampler;

pub(crate) use histogram::{BOUNDS, Buckets};
pub(crate) use profile::{MethodFigures, ProcessFigures, Profile, Totals};
pub(crate) use sampler::Samples;
