//! Where the slots are, and which of them are free.
//!
//! Slots come in chunks of 4,096, found by index through a fixed directory, never moved and never freed. Free ones are
//! kept by index: each thread has some at hand and exchanges [`BATCH`] at a time with the program's list, so that
//! spawning and ending share no line per process.
//!
//! `take` skips a slot whose token a late sender holds at that moment (it is burying its own message there): that slot
//! goes back to the list. A slot is on the list once, put there by the one that ended its process.

use super::slot::{Slot, Token};
use crate::env::world::World;
use crate::mem::arena::{LARGE, region};
use crate::pid::{Pid, Resident, SLOT_BITS};
use crate::sync::{AtomicPtr, AtomicU32, Mutex, Ordering, SegQueue, lock};
use std::cell::RefCell;
use std::ptr;

const CHUNK_BITS: u32 = 12;
const CHUNK: usize = 1 << CHUNK_BITS;
const CHUNKS: usize = 1 << (SLOT_BITS - CHUNK_BITS);

/// How many free indices move between a thread and the program at a time. A guess: the cost of the queue is spread over
/// as many spawns.
const BATCH: usize = 128;

/// How many slots whose token a thread holds are skipped before a new slot is made instead.
const SKIPS: usize = 8;

/// All slots of the program.
pub(crate) struct SlotTable {
    chunks: [AtomicPtr<[Slot; CHUNK]>; CHUNKS],
    /// How many slots have been handed out at least once.
    used: AtomicU32,
    /// Taken by the thread that makes a chunk.
    growth: Mutex<()>,
    free: SegQueue<Vec<u32>>,
}

/// The program's table. Addresses outlive runtimes, so it is the program's and not a runtime's.
pub(crate) static TABLE: World<SlotTable> = World::new(SlotTable::new());

thread_local! {
    static HAND: RefCell<LocalIndices> = const { RefCell::new(LocalIndices(Vec::new())) };
}

/// The free indices that a thread keeps. They go to the program's list when it ends.
struct LocalIndices(Vec<u32>);

impl Drop for LocalIndices {
    fn drop(&mut self) {
        if !self.0.is_empty() {
            TABLE.free.push(std::mem::take(&mut self.0));
        }
    }
}

impl SlotTable {
    const fn new() -> Self {
        Self {
            chunks: [const { AtomicPtr::new(ptr::null_mut()) }; CHUNKS],
            used: AtomicU32::new(0),
            growth: Mutex::new(()),
            free: SegQueue::new(),
        }
    }

    /// The slot with that index, if there is one yet.
    #[inline]
    pub(crate) fn slot(&self, index: u32) -> Option<&'static Slot> {
        let chunk = self.chunks.get(index as usize >> CHUNK_BITS)?.load(Ordering::Acquire);
        // SAFETY: a chunk in the directory is complete and never freed.
        let chunk: &'static [Slot; CHUNK] = unsafe { chunk.as_ref()? };
        Some(&chunk[index as usize & (CHUNK - 1)])
    }

    /// The slot that `pid` names, if its process lives there.
    #[inline]
    pub(crate) fn living(&self, pid: Pid) -> Option<&'static Slot> {
        let slot = self.slot(pid.slot())?;
        slot.carries(pid).then_some(slot)
    }

    /// The same if its process lives there, or did and no other has since: it may be on its way out.
    pub(crate) fn last(&self, pid: Pid) -> Option<&'static Slot> {
        self.slot(pid.slot()).filter(|slot| slot.has_carried(pid))
    }

    /// Returns whether `pid` is the PID of a process that lives, to the last bit: a text may say anything. In one order
    /// with the end of that process.
    pub(crate) fn lives(&self, pid: Pid) -> bool {
        let slot = self.slot(pid.slot());
        slot.is_some_and(|slot| slot.is_living_in_order(pid.generation()) && slot.resident() == Some(pid))
    }

    /// All slots that were ever used.
    pub(crate) fn slots(&self) -> impl Iterator<Item = &'static Slot> + '_ {
        let used = self.used.load(Ordering::Acquire);
        (0..used).filter_map(|index| self.slot(index))
    }

    /// A free slot's token; `None` when all 2^28 slots are in use.
    pub(crate) fn take(&self) -> Option<Token> {
        let mut skipped = Vec::new();
        let token = loop {
            let Some(index) = self.take_index() else { break self.take_new() };
            let Some(token) = self.slot(index).and_then(Token::claim_free) else {
                skipped.push(index);
                if skipped.len() < SKIPS {
                    continue;
                }
                break self.take_new();
            };
            break Some(token);
        };
        if !skipped.is_empty() {
            self.free.push(skipped);
        }
        token
    }

    fn take_index(&self) -> Option<u32> {
        HAND.try_with(|hand| {
            let hand = &mut hand.borrow_mut().0;
            if hand.is_empty() {
                *hand = self.free.pop()?;
            }
            hand.pop()
        })
        // This thread is ending and has nothing at hand any more.
        .unwrap_or_else(|_| {
            let mut indices = self.free.pop()?;
            let index = indices.pop();
            if !indices.is_empty() {
                self.free.push(indices);
            }
            index
        })
    }

    fn take_new(&self) -> Option<Token> {
        let index = self
            .used
            .fetch_update(Ordering::AcqRel, Ordering::Relaxed, |used| (used < 1 << SLOT_BITS).then_some(used + 1));
        let index = index.ok()?;
        self.grow(index);
        self.slot(index).and_then(Token::claim_free)
    }

    /// Makes the chunk that `index` lies in, and perhaps its neighbours, unless a thread has.
    fn grow(&self, index: u32) {
        let place = &self.chunks[index as usize >> CHUNK_BITS];
        if !place.load(Ordering::Acquire).is_null() {
            return;
        }
        let _growth = lock(&self.growth);
        if place.load(Ordering::Acquire).is_null() {
            // A program with few processes gets one chunk at a time, one with many a large page of them.
            let many = LARGE / size_of::<[Slot; CHUNK]>();
            let chunk = index as usize >> CHUNK_BITS;
            let group = if chunk < many { chunk..chunk + 1 } else { chunk / many * many..(chunk / many + 1) * many };
            let memory = region(group.len() * size_of::<[Slot; CHUNK]>()).cast::<Slot>();
            for (count, index) in (group.start * CHUNK..group.end * CHUNK).enumerate() {
                // SAFETY: within the region, which is aligned to a cache line at least.
                unsafe { memory.add(count).write(Slot::unused(index as u32)) };
            }
            for (count, chunk) in group.enumerate() {
                // SAFETY: within the region.
                let slots = unsafe { memory.add(count * CHUNK) }.cast::<[Slot; CHUNK]>();
                self.chunks[chunk].store(slots.as_ptr(), Ordering::Release);
            }
        }
    }

    /// Buries the slot of a process that has ended, and puts it back on the list.
    pub(crate) fn take_back(&self, token: Token) {
        if let Some(index) = token.release() {
            self.free(index);
        }
    }

    /// Puts the slot of that index, which carries no process and whose token is parked, back on the list.
    pub(crate) fn free(&self, index: u32) {
        let kept = HAND.try_with(|hand| {
            let hand = &mut hand.borrow_mut().0;
            if hand.len() >= 2 * BATCH {
                self.free.push(hand.split_off(BATCH));
            }
            hand.push(index);
        });
        if kept.is_err() {
            self.free.push(vec![index]);
        }
    }
}
