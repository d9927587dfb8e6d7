//! Waiting for ctrl-c. The system lets a program have one handler, so all runtimes share this one.

use crate::errors::ShutdownError;
use crate::sync::{Condvar, Mutex, OnceLock, lock, wait as wait_on};

static INTERRUPTS: (Mutex<u64>, Condvar) = (Mutex::new(0), Condvar::new());

/// A program that is not ended by an interrupt (ctrl-c, or a request to terminate), but told of it.
///
/// [`Runtime::run_until_ctrl_c`](crate::Runtime::run_until_ctrl_c) is this in one go. A program that says when it is
/// ready catches interrupts before it does: a reader of that may send one at once.
///
/// ```
/// use postroom::Interrupt;
///
/// let interrupt = Interrupt::catch()?;
/// println!("ready");
/// # fn wait_and_shut_down(interrupt: Interrupt) {
/// interrupt.wait();
/// println!("shutting down");
/// # }
/// # let _later: fn(Interrupt) = wait_and_shut_down;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "from here on the program is not ended by an interrupt: wait for it"]
#[derive(Debug)]
pub struct Interrupt {
    /// How many there had been before.
    before: u64,
}

impl Interrupt {
    /// From here on, and for good, interrupts do not end the program.
    ///
    /// # Errors
    /// [`ShutdownError::NoSignal`] if another part of the program has set a handler of its own.
    pub fn catch() -> Result<Self, ShutdownError> {
        static HANDLER: OnceLock<Result<(), String>> = OnceLock::new();
        let before = *lock(&INTERRUPTS.0);
        let handler = HANDLER.get_or_init(|| {
            let handle = || {
                *lock(&INTERRUPTS.0) += 1;
                INTERRUPTS.1.notify_all();
            };
            ctrlc::set_handler(handle).map_err(|error| error.to_string())
        });
        match handler {
            Ok(()) => Ok(Self { before }),
            Err(_) => Err(ShutdownError::NoSignal),
        }
    }

    /// Blocks the thread until there is an interrupt; not at all if there has been one since it was caught.
    pub fn wait(self) {
        let (count, changed) = &INTERRUPTS;
        let mut seen = lock(count);
        while *seen == self.before {
            seen = wait_on(changed, seen);
        }
    }
}
