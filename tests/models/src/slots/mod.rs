//! The production slot over a stand-in directory.

use std::cell::Cell;

#[path = "../../../../runtime/src/slots/link_endpoint.rs"]
pub(crate) mod link_endpoint;
#[allow(unused_imports)]
#[path = "../../../../runtime/src/slots/slot/mod.rs"]
pub(crate) mod slot;

pub(crate) use slot::cold_state::ProcessKind;
#[allow(unused_imports)]
pub(crate) use slot::{Schedule, SendRefusal, Slot, SlotHost, SlotOwner, Token};

/// A stand-in for the directory, which counts the slots that are returned to it. Each model knows its slots itself.
pub(crate) struct Table;

pub(crate) static TABLE: Table = Table;

thread_local! {
    static FREED: Cell<u32> = const { Cell::new(0) };
}

impl Table {
    pub(crate) fn take_back(&self, token: Token) {
        if token.vacate().is_some() {
            FREED.set(FREED.get() + 1);
        }
    }

    /// Returns the slot with the given index to the directory.
    pub(crate) fn free(&self, _index: u32) {
        FREED.set(FREED.get() + 1);
    }

    /// Returns the number of slots that were returned since the last call of this function.
    pub(crate) fn freed(&self) -> u32 {
        FREED.take()
    }
}
