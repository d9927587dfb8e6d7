//! What a process shows of its state, to those who look: asked for through its control lane, so that it is answered
//! between two messages and never torn.
//!
//! The `Debug` of the state is users' code, and runs on the process's thread: a panic is caught, and what it writes is
//! cut at [`MOST_BYTES`] and [`LASTS`]. One that blocks is a step that does not end, like any other.

use crate::env::clock::instant_now;
use crate::pid::Pid;
use crate::sync::Arc;
use crate::util::oneshot::Oneshot;
use std::fmt;
use std::time::{Duration, Instant};

/// The most bytes of a description.
const MOST_BYTES: usize = 64 << 10;
/// How long the `Debug` may write.
const LASTS: Duration = Duration::from_millis(100);

/// The state of a process as text.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Description {
    /// What its `Debug` has written, at most 64 KiB.
    pub text: String,
    /// Whether it would have written more, or for longer than 100 ms.
    pub is_cut: bool,
}

/// Why a process has not shown its state.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DescribeError {
    /// It has ended, or lives on another node.
    #[error("{0} is not alive in this program, or has ended before it came to show its state")]
    Gone(Pid),
    /// Its type does not say that its state may be shown.
    #[error("the type of {0} shows nothing of its state; write `#[process(inspect)]` before it")]
    Hidden(Pid),
    /// An async method or entry has the state, and it cannot be seen before that returns.
    #[error("{0} is in an async method or entry, which has its state until it returns; ask again later")]
    Away(Pid),
    /// The `Debug` of its state has panicked.
    #[error("the `Debug` of the state of {0} has panicked: {1}")]
    Panicked(Pid, String),
    /// The `Debug` of its state has failed.
    #[error("the `Debug` of the state of {0} has returned an error")]
    Failed(Pid),
}

pub(crate) type Described = Result<Description, DescribeError>;

/// A request, on its way to the process. Dropped if it reached no live process.
pub(crate) struct DescriptionRequest {
    told: Arc<Oneshot<Described>>,
    pid: Pid,
}

/// What a process says to a request.
#[doc(hidden)]
#[derive(Debug)]
pub enum StateShown {
    /// Nothing: its type does not say `inspect`.
    Hidden,
    /// Nothing now: a future has the state.
    Away,
    /// It has written it.
    Written(fmt::Result),
}

impl DescriptionRequest {
    pub(crate) fn new(told: Arc<Oneshot<Described>>, pid: Pid) -> Self {
        Self { told, pid }
    }

    /// Has `describe` write the state, which returns the text of its panic if it has one.
    pub(crate) fn answer(self, describe: impl FnOnce(&mut dyn fmt::Write) -> Result<StateShown, String>) {
        let mut to = Limited::new(MOST_BYTES, LASTS);
        let (shown, pid) = (describe(&mut to), self.pid);
        self.told.put(match shown {
            Ok(StateShown::Hidden) => Err(DescribeError::Hidden(pid)),
            Ok(StateShown::Away) => Err(DescribeError::Away(pid)),
            // Having no room is no failure of the `Debug`.
            Ok(StateShown::Written(Err(_))) if !to.is_cut => Err(DescribeError::Failed(pid)),
            Ok(StateShown::Written(_)) => Ok(Description { text: to.text, is_cut: to.is_cut }),
            Err(panic) => Err(DescribeError::Panicked(pid, panic)),
        });
    }
}

impl Drop for DescriptionRequest {
    fn drop(&mut self) {
        // No effect if it was answered.
        self.told.put(Err(DescribeError::Gone(self.pid)));
    }
}

/// Takes text up to a number of bytes and a moment, and fails from then on: so that a `Debug` that heeds it ends.
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
