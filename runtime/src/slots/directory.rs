//! The directory of slots, and the list of free ones.
//!
//! Free slots are listed by index. Each thread keeps some indices and exchanges [`BATCH`] at a time with the program's
//! list, so that most spawns and exits touch no shared cache line. Slots that were never used are also handed to
//! threads in batches. A thread opens the first incarnation of such a slot with plain stores: no other thread has been
//! given the index, and no PID of the slot has been valid yet, so no thread has passed the generation check that
//! precedes each push and each claim. An unused slot still has the mark of a vacant one in its mailbox, because a
//! thread that ends leaves its unused indices to the program's list, like any others.
//!
//! `take` skips a slot whose token a late sender holds at that moment (to dispose of its message). Such a slot goes
//! back to the list. A slot is listed once, by the thread that ended its process, unless that thread keeps the slot
//! with its token. A thread takes the slots that it keeps before listed ones.

use super::chunks::{ChunkEntry, Chunks};
use super::slot::{Slot, Token};
use crate::env::world::World;
use crate::pid::{Pid, Resident, SLOT_BITS};
use crate::sync::{AtomicU32, Ordering, SegQueue, simulated};
use std::cell::RefCell;
use std::ops::Range;

/// Number of free indices that move between a thread and the program's list at a time, and of unused ones that a thread
/// takes at a time. The value is a guess: the cost is shared by this many spawns.
const BATCH: usize = 128;

/// Number of slots with a held token that are skipped before a slot that was never used is taken.
const SKIPS: usize = 8;

pub(crate) struct SlotTable {
    slots: Chunks<Slot>,
    /// Number of slots that have been handed to threads at least once.
    used: AtomicU32,
    free: SegQueue<Vec<u32>>,
}

impl ChunkEntry for Slot {
    fn unused(index: u32) -> Self {
        Self::unused(index)
    }
}

/// The program's table. It belongs to no runtime, because addresses outlive runtimes.
pub(crate) static TABLE: World<SlotTable> = World::new(SlotTable::new());

thread_local! {
    static CACHE: RefCell<IndexCache> = const { RefCell::new(IndexCache::EMPTY) };
}

/// The free indices of a thread. They go to the program's list when the thread ends.
struct IndexCache {
    free: Vec<u32>,
    /// Indices of slots that were never used.
    new: Range<u32>,
}

impl IndexCache {
    const EMPTY: Self = Self { free: Vec::new(), new: 0..0 };

    /// Takes all indices out of the cache.
    fn leave(&mut self) -> Vec<u32> {
        let mut left = std::mem::take(&mut self.free);
        left.extend(std::mem::take(&mut self.new));
        left
    }
}

impl Drop for IndexCache {
    fn drop(&mut self) {
        let left = self.leave();
        if !left.is_empty() {
            TABLE.free.push(left);
        }
    }
}

impl SlotTable {
    /// Takes `count` slots that were never used, in ascending order; fewer if there are not so many.
    #[cfg(feature = "test")]
    pub(crate) fn lease(&self, count: u32) -> Vec<u32> {
        self.take_unused(count).filter(|index| self.slots.make(*index).is_some()).collect()
    }

    fn take_unused(&self, count: u32) -> Range<u32> {
        let more = |used: u32| (used < 1 << SLOT_BITS).then(|| used.saturating_add(count).min(1 << SLOT_BITS));
        let first = self.used.fetch_update(Ordering::AcqRel, Ordering::Relaxed, more);
        first.map_or(0..0, |first| first..more(first).unwrap_or(first))
    }

    const fn new() -> Self {
        Self { slots: Chunks::new(), used: AtomicU32::new(0), free: SegQueue::new() }
    }

    #[inline]
    pub(crate) fn slot(&self, index: u32) -> Option<&'static Slot> {
        self.slots.get(index)
    }

    #[inline]
    pub(crate) fn living(&self, pid: Pid) -> Option<&'static Slot> {
        let slot = self.slot(pid.slot())?;
        slot.carries(pid).then_some(slot)
    }

    /// Like [`living`](Self::living), but also returns the slot if the process is exiting or has ended, until the slot
    /// is reused.
    pub(crate) fn last(&self, pid: Pid) -> Option<&'static Slot> {
        self.slot(pid.slot()).filter(|slot| slot.has_carried(pid))
    }

    /// Returns whether `pid` is exactly the PID of a live process. (A PID that was parsed from text may be arbitrary.)
    /// The check is in one total order with exits.
    pub(crate) fn lives(&self, pid: Pid) -> bool {
        let slot = self.slot(pid.slot());
        slot.is_some_and(|slot| slot.is_living_in_order(pid.generation()) && slot.resident() == Some(pid))
    }

    pub(crate) fn slots(&self) -> impl Iterator<Item = &'static Slot> + '_ {
        let used = self.used.load(Ordering::Acquire);
        (0..used).filter_map(|index| self.slot(index))
    }

    /// Takes a free slot's token; `None` if all 2^28 slots are in use.
    #[inline]
    pub(crate) fn take(&self) -> Option<Token> {
        let Some(index) = self.take_index() else { return self.take_new() };
        let token = self.slots.make(index).and_then(Token::claim_free);
        if token.is_some() { token } else { self.take_another(index) }
    }

    /// Takes the token of a slot other than `skipped`, because the token of `skipped` is held.
    #[cold]
    fn take_another(&self, skipped: u32) -> Option<Token> {
        let mut skipped = vec![skipped];
        let token = loop {
            let Some(index) = self.take_index() else { break self.take_new() };
            let Some(token) = self.slots.make(index).and_then(Token::claim_free) else {
                skipped.push(index);
                if skipped.len() < SKIPS {
                    continue;
                }
                break self.take_new();
            };
            break Some(token);
        };
        self.free.push(skipped);
        token
    }

    fn take_index(&self) -> Option<u32> {
        if let Some(simulator) = simulated::here() {
            return simulator.take_slot();
        }
        with_cache(|cache| {
            // `SegQueue::pop` executes a fence even if the queue is empty.
            if cache.free.is_empty() && !self.free.is_empty() {
                cache.free = self.free.pop()?;
            }
            cache.free.pop()
        })
    }

    fn take_new(&self) -> Option<Token> {
        let index = with_cache(|cache| {
            if cache.new.is_empty() {
                cache.new = self.take_unused(BATCH as u32);
            }
            cache.new.next()
        });
        self.slots.make(index?).map(Token::claim_unused)
    }

    /// Vacates the slot of a process that has ended, and returns it to the list.
    pub(crate) fn take_back(&self, token: Token) {
        if let Some(index) = token.vacate() {
            self.free(index);
        }
    }

    /// Like [`take_back`](Self::take_back) if nothing has arrived in the slot; otherwise returns the token. Runs no
    /// user code and schedules nothing. Must be called only for a slot that is not listed, so that no other process can
    /// have started in it.
    pub(crate) fn take_back_empty(&self, token: Token) -> Option<Token> {
        let index = token.is_reusable().then_some(token.slot().index());
        let late = token.park_vacant();
        if late.is_none()
            && let Some(index) = index
        {
            self.free(index);
        }
        late
    }

    /// Returns a vacant slot to the list. The slot's token must be parked.
    pub(crate) fn free(&self, index: u32) {
        if let Some(simulator) = simulated::here() {
            return simulator.return_slot(index);
        }
        with_cache(|IndexCache { free, .. }| {
            if free.len() >= 2 * BATCH {
                self.free.push(free.split_off(BATCH));
            }
            free.push(index);
        });
    }
}

/// Calls `body` with the thread's free indices, or with none if the thread is ending and its cache is gone.
fn with_cache<R>(body: impl Fn(&mut IndexCache) -> R) -> R {
    let here = CACHE.try_with(|cache| body(&mut cache.borrow_mut()));
    here.unwrap_or_else(|_| body(&mut { IndexCache::EMPTY }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pid::SLOT_BITS;
    use std::collections::HashSet;

    /// Runs `body` on a thread that starts without free indices and leaves none to the program's table.
    fn apart(body: impl FnOnce() + Send) {
        std::thread::scope(|scope| {
            scope.spawn(|| {
                body();
                CACHE.with(|cache| drop(cache.borrow_mut().leave()));
            });
        });
    }

    /// Catches: unused indices that are lost when their thread ends; a batch that begins where that of another thread
    /// did.
    #[test]
    fn new_slots_that_a_thread_leaves_are_listed_and_each_is_taken_once() {
        static OWN: SlotTable = SlotTable::new();
        let mut taken = HashSet::new();
        let mut take = |token: Option<Token>| {
            let slot = token.expect("there are free slots").slot();
            assert!(taken.insert(slot.index()), "slot {} is taken twice", slot.index());
            assert!(Token::claim_free(slot).is_none(), "the token of slot {} is taken", slot.index());
        };
        apart(|| {
            (0..2).for_each(|_| take(OWN.take()));
            OWN.free.push(CACHE.with(|cache| cache.borrow_mut().leave()));
        });
        apart(|| (2..2 * BATCH).for_each(|_| take(OWN.take())));
        assert_eq!(OWN.used.load(Ordering::Relaxed) as usize, 2 * BATCH, "the listed ones come first");
    }

    /// Catches: a `take` that only considers existing chunks and does not allocate one.
    #[test]
    fn a_listed_slot_whose_chunk_was_never_made_is_taken() {
        static OWN: SlotTable = SlotTable::new();
        let last = (1 << SLOT_BITS) - 1;
        OWN.free.push(vec![last]);
        apart(|| assert_eq!(OWN.take().map(|token| token.slot().index()), Some(last)));
    }
}
