//! Turns a hang into a failure.

use std::any::Any;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};

/// Returns the factor by which time limits are multiplied, from `POSTROOM_PATIENCE`. It is meant for tools that slow
/// the program down, such as sanitizers.
fn patience() -> u32 {
    crate::variable("POSTROOM_PATIENCE").unwrap_or(1)
}

/// The minimum time limit. It is so long that a slow, busy machine is not mistaken for a hang.
const LEAST: Duration = Duration::from_secs(240);

/// Runs `body` on a thread of its own and returns its result.
///
/// # Panics
/// If `body` panics, with the same payload. Also if `body` has not returned after `limit` or four minutes, whichever is
/// longer, multiplied by `POSTROOM_PATIENCE`.
pub fn within<R: Send + 'static>(limit: Duration, body: impl FnOnce() -> R + Send + 'static) -> R {
    let result = run(limit, Box::new(move || Box::new(body())));
    *result.downcast().expect("what the body returns")
}

/// Returns the round numbers of a randomized test. There are `most` rounds, unless the machine is so busy that they
/// take longer than a quarter of the minimum time limit. Then there are fewer, but at least a tenth.
pub fn rounds(most: u64) -> impl Iterator<Item = u64> {
    let begun = Instant::now();
    (0..most).take_while(move |round| round * 10 < most || begun.elapsed() < LEAST / 4)
}

/// Implements [`within`] without generics. A thousand bodies would make as many instances of this code, a twentieth of
/// the test program.
fn run(limit: Duration, body: Box<dyn FnOnce() -> Box<dyn Any + Send> + Send>) -> Box<dyn Any + Send> {
    let limit = limit.max(LEAST) * patience();
    let (done, wait) = channel();
    let name = std::thread::current().name().unwrap_or("test").to_string();
    let thread = std::thread::Builder::new().name(name).spawn(move || {
        let result = body();
        let _nobody_waits = done.send(());
        result
    });
    let thread = thread.expect("a thread for the body of a test");
    match wait.recv_timeout(limit) {
        Ok(()) | Err(RecvTimeoutError::Disconnected) => match thread.join() {
            Ok(result) => result,
            Err(panic) => std::panic::resume_unwind(panic),
        },
        Err(RecvTimeoutError::Timeout) => panic!("this hangs: it has not returned after {limit:?}"),
    }
}

/// A shutdown deadline that even a slow machine meets. If a test hangs, its [time limit](soon) expires first.
pub const HOUR: Duration = Duration::from_secs(3_600);

/// Runs `body` [`within`] the limit that most tests use.
///
/// # Panics
/// As for [`within`].
pub fn soon<R: Send + 'static>(body: impl FnOnce() -> R + Send + 'static) -> R {
    within(Duration::from_secs(30), body)
}
