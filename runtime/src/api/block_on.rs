//! Waiting for a future without a runtime.

use crate::actor::tasks::current::outside;
use crate::engine::blocking::block_in_place::while_blocked;
use crate::util::block_on;
use std::future::Future;

/// Runs `future` to completion, blocking the calling thread, like [`Runtime::block_on`](crate::Runtime::block_on). It
/// is for code that has no runtime, such as a library function that must wait. Inside a process this costs a thread, as
/// [`Call::wait`](crate::Call::wait) does. In a [simulated test](mod@crate::test), the simulated processes run in the
/// meantime.
///
/// ```
/// assert_eq!(postroom::block_on(async { 1 + 2 }), 3);
/// ```
pub fn block_on<F: Future>(future: F) -> F::Output {
    while_blocked(|| outside(|| block_on::block_on(future)))
}
