//! Supervisors.

mod backoff;
mod intensity;
mod plan;

pub use backoff::Backoff;
pub use plan::Restart;
