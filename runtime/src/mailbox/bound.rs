//! The bound of a mailbox.

use super::node::{BEHIND, FARTHEST};

/// The bound of a mailbox, in messages. Set it for one process with [`Spawn::mailbox`](crate::Spawn::mailbox), or for
/// a whole runtime with [`Builder::mailbox`](crate::Builder::mailbox). A bound of zero is refused.
///
/// ```
/// use postroom::error::SendFailure;
/// use postroom::prelude::*;
///
/// #[process]
/// struct Printer;
///
/// #[process]
/// impl Printer {
///     #[entry]
///     fn serve(&mut self) {}
///     #[message]
///     fn print(&mut self, page: u32) { let _ = page; }
/// }
///
/// let runtime = Runtime::builder().paused().build()?; // nothing is handled yet
/// let printer = runtime.spawn(Printer).mailbox(Bound::Hard(2, Overflow::Refuse)).serve()?;
/// printer.print(1).send()?;
/// printer.print(2).send()?;
/// let refused = printer.print(3).send().unwrap_err(); // the message comes back
/// assert_eq!((refused.message.page, refused.reason), (3, SendFailure::Full(printer.pid())));
///
/// runtime.resume()?;
/// runtime.until_idle()?;
/// printer.print(3).send()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Bound {
    /// Suspends a process that has sent beyond the bound. The suspension begins after the process's current step, and
    /// lasts until half of the messages are handled. Code outside of processes gets the message back instead. The bound
    /// is exact to within 128 messages and the sends of the steps in progress; if the operating system preempts a
    /// sender in the middle of a send, the mailbox can reach twice its bound first. A bound below 128 therefore means
    /// little: use [`Hard`](Self::Hard). The bound can be at most [`Bound::MOST_SOFT`].
    Soft(usize),
    /// Never exceeds the bound; [`Overflow`] determines what happens to further messages. Each send takes a lock
    /// shared by all senders, and a message counts until a step takes it.
    Hard(usize, Overflow),
    /// Limited by memory alone: for processes that must never suspend a sender, and whose senders are few and slow.
    Unbounded,
}

impl Bound {
    /// The default bound: soft, 1,024 messages.
    pub const DEFAULT: Self = Self::Soft(1_024);

    /// The largest soft bound: 4,194,303 messages. The length of a mailbox can be measured up to twice that, and one
    /// step may send as many further messages as the bound allows.
    pub const MOST_SOFT: usize = BEHIND as usize;

    /// Checks that the bound is not zero, and that the mailbox's length can be measured.
    pub(crate) fn check(self) -> Result<Self, WrongBound> {
        match self {
            Self::Soft(0) | Self::Hard(0, _) => Err(WrongBound::Nothing),
            Self::Soft(came) if came > Self::MOST_SOFT => Err(WrongBound::TooLarge { came }),
            fine => Ok(fine),
        }
    }
}

pub(crate) enum WrongBound {
    Nothing,
    /// The length of such a mailbox cannot be measured.
    TooLarge {
        came: usize,
    },
}

// The length of a mailbox at twice the largest bound can still be measured.
const _: () = assert!(2 * BEHIND <= FARTHEST);

impl Default for Bound {
    fn default() -> Self {
        Self::DEFAULT
    }
}

/// What happens to a message for a full mailbox with a [hard](Bound::Hard) bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Overflow {
    /// The message is returned to its sender.
    Refuse,
    /// The sender's thread waits for room; if the sender is a process, its worker runs other processes in the meantime.
    /// The message is returned if the wait could never end, because a process sends to itself or full mailboxes form a
    /// cycle.
    Wait,
    /// The oldest message becomes a dead letter.
    DropOldest,
    /// The new message becomes a dead letter.
    DropNewest,
}
