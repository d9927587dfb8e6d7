//! A vacant slot in which something has arrived late: see [`late_slots`](super::late_slots).

use crate::slots::{TABLE, Token};

/// The token of a vacant slot, while it is not parked.
pub(crate) enum LateSlot {
    /// A thread has kept the slot for its next process: the slot has yet to be listed as free.
    Kept(Token),
    /// The slot was listed as free by the thread on which its process ended, and may have another process by now.
    Listed(Token),
}

impl LateSlot {
    /// Disposes of everything that has arrived, and parks the token.
    pub(crate) fn empty(self) {
        match self {
            Self::Kept(token) => TABLE.take_back(token.acquire()),
            Self::Listed(token) => token.pass_on(),
        }
    }
}
