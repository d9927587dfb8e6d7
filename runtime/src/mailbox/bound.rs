//! The bound of a mailbox.

use super::node::{BEHIND, FARTHEST};

/// The bound of a mailbox, in messages: set it for one process with [`Spawn::mailbox`](crate::Spawn::mailbox), and for
/// all of a runtime with [`Builder::mailbox`](crate::Builder::mailbox). A bound of zero is refused.
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
    /// Suspends processes that send beyond the bound, after their step, until half of the messages are handled; code
    /// outside of processes gets the message back. Exact to within 128 messages and the sends of the steps in progress;
    /// if the operating system stops a sender in mid-send, the mailbox can reach twice its bound first.
    /// A bound below 128 therefore means little: use [`Hard`](Self::Hard). At most [`Bound::MOST_SOFT`].
    Soft(usize),
    /// Never exceeds the bound; [`Overflow`] says what happens to further messages. Each message costs a lock shared by
    /// the senders, and counts until the step that takes it.
    Hard(usize, Overflow),
    /// Limited by memory alone: for processes that must never suspend a sender, and whose senders are few and slow.
    Unbounded,
}

impl Bound {
    /// The default bound: soft, 1,024 messages.
    pub const DEFAULT: Self = Self::Soft(1_024);

    /// The largest soft bound: 4,194,303 messages. A mailbox longer than twice that cannot be measured, and one step
    /// may send as many messages again as the bound allows.
    pub const MOST_SOFT: usize = BEHIND as usize;

    /// Checks that the bound admits messages, and that the mailbox can be measured.
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
    /// A mailbox of that length cannot be measured.
    TooLarge {
        came: usize,
    },
}

// A mailbox at twice the largest bound can still be measured.
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
    /// It is returned to its sender.
    Refuse,
    /// Its sender's thread waits for room: inside a process the worker runs others meanwhile. It is returned if the
    /// wait could not end: for the process itself, or around a cycle of full mailboxes.
    Wait,
    /// The oldest message becomes a dead letter.
    DropOldest,
    /// It becomes a dead letter itself.
    DropNewest,
}
