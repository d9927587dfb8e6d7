//! Waiting for ctrl-c. The system allows one handler per program, so all runtimes share this one.

use crate::errors::ShutdownError;
use crate::sync::{Condvar, Mutex, OnceLock, lock, wait as wait_on};

static INTERRUPTS: (Mutex<u64>, Condvar) = (Mutex::new(0), Condvar::new());

/// Catches interrupts (ctrl-c, or a request to terminate). They then no longer end the program.
///
/// [`Runtime::run_until_ctrl_c`](crate::Runtime::run_until_ctrl_c) does all of this in one call. A program that
/// announces that it is ready should catch interrupts first: a reader of the announcement may send one at once.
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
#[must_use = "interrupts no longer end the program: wait for one"]
#[derive(Debug)]
pub struct Interrupt {
    before: u64,
}

impl Interrupt {
    /// Catches interrupts from now on, until the program ends.
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

    /// Blocks the thread until there is an interrupt. Returns at once if there has been one since
    /// [`catch`](Self::catch).
    pub fn wait(self) {
        let (count, changed) = &INTERRUPTS;
        let mut seen = lock(count);
        while *seen == self.before {
            seen = wait_on(changed, seen);
        }
    }
}
