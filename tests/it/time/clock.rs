//! Time, on a virtual clock: no test sleeps.

mod idle;
mod manual;
mod probe;
mod timers;
mod waiting;

use postroom::prelude::*;
use postroom::test::{Clock, Probe};
use std::time::Duration;

/// Builds a runtime with a virtual clock.
pub fn still(workers: usize) -> (Clock, Runtime) {
    let clock = Clock::manual();
    let runtime = Runtime::builder().workers(workers).clock(clock.clone()).build().expect("a runtime");
    (clock, runtime)
}

pub fn probe<M: Send + 'static>(runtime: &Runtime) -> Probe<M> {
    Probe::new(runtime.host()).expect("a probe")
}

pub const SECOND: Duration = Duration::from_secs(1);
