//! The state of a process as text. The request goes through the control lane, so the process answers it between two
//! messages, when its state is consistent.
//!
//! The `Debug` of the state is user code that runs on the process's thread. A panic is caught, and the text is cut off
//! at [`MOST_BYTES`] or after [`LASTS`]. A `Debug` that blocks holds up the process like any other step that does not
//! end.

use crate::env::clock::instant_now;
use crate::pid::Pid;
use crate::sync::Arc;
use crate::util::oneshot::Oneshot;
use std::fmt;
use std::time::{Duration, Instant};

/// Maximum size of a description in bytes.
const MOST_BYTES: usize = 64 << 10;
/// Maximum time for which the `Debug` may write.
const LASTS: Duration = Duration::from_millis(100);

/// The state of a process as text.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Description {
    /// The output of the state's `Debug`, at most 64 KiB.
    pub text: String,
    /// Whether the output was cut off because it was longer or took more than 100 ms.
    pub is_cut: bool,
}

/// The reason why a process's state could not be shown.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DescribeError {
    /// The process has ended, or lives on another node.
    #[error("{0} is not alive in this program, or has ended before it came to show its state")]
    Gone(Pid),
    /// The process's type does not allow its state to be shown.
    #[error("the type of {0} shows nothing of its state; write `#[process(inspect)]` before it")]
    Hidden(Pid),
    /// An async method or entry owns the state. Until it returns, the state cannot be read.
    #[error("{0} is in an async method or entry, which has its state until it returns; ask again later")]
    Away(Pid),
    /// The `Debug` of the state panicked.
    #[error("the `Debug` of the state of {0} has panicked: {1}")]
    Panicked(Pid, String),
    /// The `Debug` of the state returned an error.
    #[error("the `Debug` of the state of {0} has returned an error")]
    Failed(Pid),
}

pub(crate) type Described = Result<Description, DescribeError>;

/// A request for a description. Dropping it unanswered means that it reached no live process.
pub(crate) struct DescriptionRequest {
    told: Arc<Oneshot<Described>>,
    pid: Pid,
}

/// The response of a process to a description request.
#[doc(hidden)]
#[derive(Debug)]
pub enum StateShown {
    /// The type is not marked `inspect`.
    Hidden,
    /// A future owns the state at present.
    Away,
    /// The state was written, with this result.
    Written(fmt::Result),
}

impl DescriptionRequest {
    pub(crate) fn new(told: Arc<Oneshot<Described>>, pid: Pid) -> Self {
        Self { told, pid }
    }

    /// Answers with the state that `describe` writes. `describe` returns the text of a panic as an error.
    pub(crate) fn answer(self, describe: impl FnOnce(&mut dyn fmt::Write) -> Result<StateShown, String>) {
        let mut to = Limited::new(MOST_BYTES, LASTS);
        let (shown, pid) = (describe(&mut to), self.pid);
        self.told.put(match shown {
            Ok(StateShown::Hidden) => Err(DescribeError::Hidden(pid)),
            Ok(StateShown::Away) => Err(DescribeError::Away(pid)),
            // An error that results from the cut-off is not a failure of the `Debug`.
            Ok(StateShown::Written(Err(_))) if !to.is_cut => Err(DescribeError::Failed(pid)),
            Ok(StateShown::Written(_)) => Ok(Description { text: to.text, is_cut: to.is_cut }),
            Err(panic) => Err(DescribeError::Panicked(pid, panic)),
        });
    }
}

impl Drop for DescriptionRequest {
    fn drop(&mut self) {
        // Has no effect if the request was answered.
        self.told.put(Err(DescribeError::Gone(self.pid)));
    }
}

/// A writer that accepts text up to a size and a deadline, and then fails, so that a `Debug` that propagates errors
/// stops.
pub(super) struct Limited {
    pub(super) text: String,
    most: usize,
    until: Instant,
    pub(super) is_cut: bool,
}

impl Limited {
    pub(super) fn new(most: usize, lasts: Duration) -> Self {
        Self { text: String::new(), most, until: instant_now() + lasts, is_cut: false }
    }
}

impl fmt::Write for Limited {
    fn write_str(&mut self, part: &str) -> fmt::Result {
        if self.is_cut || instant_now() >= self.until {
            self.is_cut = true;
            return Err(fmt::Error);
        }
        let room = self.most - self.text.len();
        self.is_cut = part.len() > room;
        self.text.push_str(&part[..part.floor_char_boundary(room)]);
        if self.is_cut { Err(fmt::Error) } else { Ok(()) }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::fmt::Write as _;

    #[test]
    fn text_is_cut_between_two_letters() {
        let mut to = Limited::new(MOST_BYTES, Duration::from_secs(3600));
        assert_eq!(to.write_str("a"), Ok(()));
        assert_eq!(to.write_str(&"ä".repeat(MOST_BYTES)), Err(fmt::Error));
        assert_eq!((to.text.len(), to.is_cut), (MOST_BYTES - 1, true));
        assert_eq!(to.write_str("x"), Err(fmt::Error));
        let mut late = Limited::new(MOST_BYTES, Duration::ZERO);
        assert_eq!((late.write_str("x"), late.is_cut), (Err(fmt::Error), true));
    }
}
