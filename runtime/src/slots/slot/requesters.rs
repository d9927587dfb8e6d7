//! Counts of requesters: threads that are about to push a [request](super::requests).

use crate::sync::{AtomicU32, Ordering};

/// Number of counts per owner.
const COUNTS: usize = if cfg!(loom) { 1 } else { 64 };
const _: () = assert!(COUNTS.is_power_of_two());

/// The requesters of an owner's slots that have not pushed yet. Slots whose indices have the same low bits share a
/// count.
pub(super) struct Requesters([AtomicU32; COUNTS]);

/// A counted requester. Dropping it performs *leave*.
pub(super) struct Counted<'a>(&'a AtomicU32);

impl Requesters {
    pub(super) fn none() -> Self {
        Self(std::array::from_fn(|_| AtomicU32::new(0)))
    }

    fn of(&self, slot: u32) -> &AtomicU32 {
        &self.0[slot as usize & (COUNTS - 1)]
    }

    /// Performs *count*.
    pub(super) fn count(&self, slot: u32) -> Counted<'_> {
        let count = self.of(slot);
        count.fetch_add(1, Ordering::SeqCst);
        Counted(count)
    }

    /// Returns whether the slot may have requesters: the check in *keep* and *claim*.
    pub(super) fn has_some(&self, slot: u32) -> bool {
        self.of(slot).load(Ordering::SeqCst) > 0
    }

    #[cfg(all(test, feature = "test"))]
    pub(super) fn count_all(&self) -> Vec<Counted<'_>> {
        (0..COUNTS as u32).map(|slot| self.count(slot)).collect()
    }
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Release);
    }
}
