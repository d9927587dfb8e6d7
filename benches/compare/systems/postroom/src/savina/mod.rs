//! Workloads of the Savina suite.

pub mod banking;
pub mod chameneos;
pub mod dictionary;
pub mod philosophers;
pub mod radix_sort;
