//! How many messages a mailbox may have.

use super::node::{BEHIND, FARTHEST};

/// How many messages a mailbox may have: see [`Spawn::mailbox`](crate::Spawn::mailbox).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Bound {
    /// Processes that send beyond so many are suspended after their step until half of them are handled; any code that
    /// is no process gets the message back. To within 128 messages, and what is sent in the steps that are under way.
    /// At most [`Bound::MOST_SOFT`].
    Soft(usize),
    /// Never more than so many; what comes beyond goes the way that is said here. Each message costs a lock that its
    /// senders share, and counts until the step that takes it.
    Hard(usize, Overflow),
    /// As many as memory holds: for what must never wait, and whose senders are few and slow.
    Unbounded,
}

impl Bound {
    /// That of a mailbox of which nothing else is said.
    pub const DEFAULT: Self = Self::Soft(1_024);

    /// The largest soft bound: 4,194,303 messages. A mailbox that is longer than twice that cannot be measured, and one
    /// step may send as many messages again as the bound allows.
    pub const MOST_SOFT: usize = BEHIND as usize;

    /// Checks that messages get through, and that the mailbox can be measured.
    pub(crate) fn check(self) -> Result<Self, WrongBound> {
        match self {
            Self::Soft(0) | Self::Hard(0, _) => Err(WrongBound::Nothing),
            Self::Soft(came) if came > Self::MOST_SOFT => Err(WrongBound::TooLarge { came }),
            fine => Ok(fine),
        }
    }
}

/// What is wrong with a bound.
pub(crate) enum WrongBound {
    /// Nothing would go through.
    Nothing,
    /// A mailbox of that length cannot be measured.
    TooLarge { came: usize },
}

// A mailbox that is over the largest bound by as much again is still seen to be.
const _: () = assert!(2 * BEHIND <= FARTHEST);

impl Default for Bound {
    fn default() -> Self {
        Self::DEFAULT
    }
}

/// What becomes of a message that a mailbox with a [hard](Bound::Hard) bound has no room for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Overflow {
    /// It goes back to its sender.
    Refuse,
    /// Its sender waits, on its thread, until there is room: inside a process the worker runs others meanwhile. It goes
    /// back if waiting could not end: to the process itself, or around a ring of full mailboxes.
    Wait,
    /// The oldest is a dead letter, and makes room.
    DropOldest,
    /// It is a dead letter itself.
    DropNewest,
}
