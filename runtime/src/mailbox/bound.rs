//! How many messages a mailbox may have.

/// How many messages a mailbox may have: see [`Spawn::mailbox`](crate::Spawn::mailbox).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Bound {
    /// Processes that send beyond so many are held after their step until half of them are handled; whoever is no process gets
    /// the message back. To within 128 messages, and what is sent in the steps that are under way.
    Soft(usize),
    /// Never more than so many; what comes beyond goes the way that is said here. Each message costs a lock that its senders
    /// share, and counts until the step that takes it.
    Hard(usize, Overflow),
    /// As many as memory holds: for what must never wait, and whose senders are few and slow.
    Unbounded,
}

impl Bound {
    /// That of a mailbox of which nothing else is said.
    pub const DEFAULT: Self = Self::Soft(1_024);

    /// Whether nothing would go through.
    pub(crate) fn is_nothing(self) -> bool {
        matches!(self, Self::Soft(0) | Self::Hard(0, _))
    }
}

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
    /// Its sender waits, on its thread, until there is room: inside a process the worker runs others meanwhile. It goes back if
    /// waiting could not end: to the process itself, or around a ring of full mailboxes.
    Wait,
    /// The oldest is a dead letter, and makes room.
    DropOldest,
    /// It is a dead letter itself.
    DropNewest,
}
