//! Waiting for ctrl-c. The system lets a program have one handler, so all runtimes share this one.

use crate::sync::{Condvar, Mutex, OnceLock, lock, wait as wait_on};

static INTERRUPTS: (Mutex<u64>, Condvar) = (Mutex::new(0), Condvar::new());

/// Blocks until the program is interrupted.
pub(crate) fn wait() -> Result<(), String> {
    static HANDLER: OnceLock<Result<(), String>> = OnceLock::new();
    let (count, changed) = &INTERRUPTS;
    let before = *lock(count);
    HANDLER
        .get_or_init(|| {
            let handle = || {
                *lock(&INTERRUPTS.0) += 1;
                INTERRUPTS.1.notify_all();
            };
            ctrlc::set_handler(handle).map_err(|error| error.to_string())
        })
        .clone()?;
    let mut seen = lock(count);
    while *seen == before {
        seen = wait_on(changed, seen);
    }
    Ok(())
}
