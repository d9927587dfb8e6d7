//! A thread's cache: tokens of processes that the thread ran recently and that have nothing to do.
//!
//! At its *front* is the process that most recently came to rest while another one was to run next: of two processes
//! that send to each other, one is at the front while the other runs. When another process takes the front, the
//! previous one moves into the *table*. An idle process also moves into the table when the thread takes its next
//! process from anywhere but the run-next slot. An idle process that comes to rest while others wait only in the deque
//! goes into the table directly. (In these two cases, the token of a process that waits for control is parked, because
//! another thread is likely to answer it.) The place of a process in the table depends on the address of its slot. If
//! the place is occupied, the token is parked.
//!
//! At each visit to the shared queues, the thread checks whether others have sent something to the process at its
//! front. Until then the process waits, for no longer than a few time slices of processes that send to each other. The
//! thread cannot check its whole table every few steps, so a sender on another thread notifies the thread that has the
//! process in its table:
//!
//! * *cache*: the thread stores the token in its place, and the mark in the slot.
//! * *push*: another thread pushes. *ask*: it looks for the mark and, if that is set, for the process in the table of
//!   each thread. *notify*: it sets [`NOTIFIED`](super::lock::NOTIFIED) for the thread that has the process.
//! * *flush*: between two steps, the thread sees the flag and parks every token in the cache. The table then stays
//!   disabled for a while, since other threads use these processes too.
//! * *check*: at its next visit to the shared queues, the thread executes a fence and looks at each process that was
//!   put into its table since the previous visit.
//!
//! *No input is overlooked*: *push*, both reads of *ask*, and the fence are sequentially consistent. Either *check*
//! sees the input, or *ask* comes after the fence and sees the mark and the place that *cache* stored, unless the
//! thread has taken the process out again since. In that case the thread looks at the process's lanes anyway. (Both
//! reads need this order: mark and place are stored one after the other, and seeing one does not imply seeing the
//! other.)
//!
//! If a step does not end, the watchdog takes everything out of the cache of its thread, like the process in the
//! run-next slot (`engine/watchdog/detector`). The thread itself flushes its cache before it gives its permit away,
//! blocks, sleeps or exits, and at each tick. A thread that is not watched, or has lost its permit, has nothing in its
//! table. A model is in `tests/models`.

use crate::slots::{Slot, Token};
use crate::sync::{AtomicBool, AtomicPtr, AtomicUsize, Ordering, disturb, fence, fence_for_models};
use std::ptr::{self, NonNull};

/// Number of places in the table, which take 2 KiB per thread. Parking that many tokens takes about 5 µs.
const PLACES: usize = if cfg!(loom) { 2 } else { 256 };

/// Maximum number of processes that are put into the table between two visits to shared queues. Visits are 20 steps
/// apart, and a step adds at most one process.
const RECENT: usize = if cfg!(loom) { 2 } else { 32 };

pub(super) struct Cache {
    pub(super) front: AtomicPtr<Slot>,
    table: Box<[AtomicPtr<Slot>; PLACES]>,
    /// Whether a process was put into the table since it was last emptied.
    is_table_used: AtomicBool,
    /// Whether the table accepts processes. Written only by the thread itself, with or without the lock.
    is_enabled: AtomicBool,
    /// The processes that were put into the table since the last *check*.
    recent: [AtomicPtr<Slot>; RECENT],
    /// Number of entries used in `recent`.
    recently: AtomicUsize,
}

/// Returns whether a kept process has input for which it may have to run.
///
/// # Safety
/// The calling thread has the token.
unsafe fn has_input(slot: &Slot) -> bool {
    // SAFETY: the caller's promise.
    slot.lanes.has_control() || !unsafe { slot.lanes.is_data_empty() } && slot.permit.is_kept_idle()
}

impl Cache {
    pub(super) fn new() -> Self {
        let empty = || AtomicPtr::new(ptr::null_mut());
        Self {
            front: empty(),
            table: Box::new(std::array::from_fn(|_| empty())),
            is_table_used: AtomicBool::new(false),
            is_enabled: AtomicBool::new(false),
            recent: std::array::from_fn(|_| empty()),
            recently: AtomicUsize::new(0),
        }
    }

    /// Returns the place of a process in the table. It is derived from the address of the slot, which a sender has in a
    /// register; slots are contiguous in memory, except in models.
    #[inline(always)]
    fn place(&self, slot: &Slot) -> &AtomicPtr<Slot> {
        let number = if cfg!(loom) { slot.index() as usize } else { slot.address() / size_of::<Slot>() };
        &self.table[number % PLACES]
    }

    #[inline(always)]
    pub(super) fn has_front(&self) -> bool {
        !self.front.load(Ordering::Relaxed).is_null()
    }

    /// Returns whether the process at the front has input. May be called from any thread; the result may already be out
    /// of date.
    pub(super) fn has_filled_front(&self) -> bool {
        // SAFETY: null, or a slot; slots are never freed.
        let front = unsafe { self.front.load(Ordering::Relaxed).as_ref() };
        front.is_some_and(|slot| slot.lanes.has_control() || slot.permit.is_kept_idle() && slot.lanes.depth() > 0)
    }

    /// Returns whether there may be processes in the table. May be called from any thread; the result may already be
    /// out of date.
    #[inline(always)]
    pub(super) fn has_table(&self) -> bool {
        self.is_table_used.load(Ordering::Relaxed)
    }

    #[inline(always)]
    pub(super) fn is_enabled(&self) -> bool {
        self.is_enabled.load(Ordering::Relaxed)
    }

    pub(super) fn enable(&self, is_enabled: bool) {
        self.is_enabled.store(is_enabled, Ordering::Relaxed);
    }

    /// Returns whether the process in `slot` is in this table: the second read of *ask*. May be called from any thread;
    /// the result may already be out of date.
    pub(super) fn has(&self, slot: &Slot) -> bool {
        fence_for_models();
        ptr::eq(self.place(slot).load(Ordering::SeqCst), slot)
    }
}

/// Operations for the holder of the lock.
impl Cache {
    /// Performs *cache*. Returns false without any effect if the table is disabled, the place is occupied, or the next
    /// visit can check no more processes.
    ///
    /// # Safety
    /// The caller has the token of `slot`, which is marked as kept. If the result is true, the token belongs to the
    /// table.
    #[inline(always)]
    pub(super) unsafe fn put(&self, slot: &'static Slot) -> bool {
        let (place, recently) = (self.place(slot), self.recently.load(Ordering::Relaxed));
        let has_room = self.is_enabled() && recently < RECENT && place.load(Ordering::Relaxed).is_null();
        if !has_room {
            return false;
        }
        let pointer = ptr::from_ref(slot).cast_mut();
        self.recent[recently].store(pointer, Ordering::Relaxed);
        self.recently.store(recently + 1, Ordering::Relaxed);
        self.is_table_used.store(true, Ordering::Relaxed);
        disturb();
        place.store(pointer, Ordering::Relaxed);
        slot.permit.note_in_table();
        true
    }

    /// Returns the place that holds the process in `slot`, if it is in the cache.
    #[inline(always)]
    pub(super) fn find(&self, slot: &Slot) -> Option<&AtomicPtr<Slot>> {
        if ptr::eq(self.front.load(Ordering::Relaxed), slot) {
            return Some(&self.front);
        }
        let place = self.place(slot);
        ptr::eq(place.load(Ordering::Relaxed), slot).then_some(place)
    }

    /// Begins *check*. Returns whether there is something to check.
    pub(super) fn begin_check(&self) -> bool {
        let has_recent = self.recently.load(Ordering::Relaxed) > 0;
        if has_recent {
            fence(Ordering::SeqCst);
        }
        has_recent || self.has_front()
    }

    /// Takes a process with input for *check*: the one at the front, or one that was put into the table since the
    /// previous visit. Returns null if there is no such process; then the check is complete.
    pub(super) fn take_filled(&self) -> *mut Slot {
        let front = self.front.load(Ordering::Relaxed);
        // SAFETY: null, or a slot, whose token is here; slots are never freed.
        if unsafe { front.as_ref().is_some_and(|slot| has_input(slot)) } {
            self.front.store(ptr::null_mut(), Ordering::Relaxed);
            return front;
        }
        let mut left = self.recently.load(Ordering::Relaxed);
        while left > 0 {
            left -= 1;
            let pointer = self.recent[left].load(Ordering::Relaxed);
            // SAFETY: the entry was written with the address of a slot; slots are never freed.
            let slot = unsafe { &*pointer };
            let place = self.place(slot);
            // SAFETY: the token is here if the process still is.
            if ptr::eq(place.load(Ordering::Relaxed), slot) && unsafe { has_input(slot) } {
                place.store(ptr::null_mut(), Ordering::Relaxed);
                self.recently.store(left, Ordering::Relaxed);
                return pointer;
            }
        }
        self.recently.store(0, Ordering::Relaxed);
        ptr::null_mut()
    }

    /// Takes the process at the front or, if there is none, the first one in the table from place `from` on, and moves
    /// `from` past it. If there is none left, marks the table as unused. So nothing must be put into the cache between
    /// the calls that empty it.
    pub(super) fn take_from(&self, from: &mut usize) -> *mut Slot {
        let front = self.front.load(Ordering::Relaxed);
        if !front.is_null() {
            self.front.store(ptr::null_mut(), Ordering::Relaxed);
            return front;
        }
        if self.has_table() {
            while let Some(place) = self.table.get(*from) {
                *from += 1;
                let slot = place.load(Ordering::Relaxed);
                if !slot.is_null() {
                    place.store(ptr::null_mut(), Ordering::Relaxed);
                    return slot;
                }
            }
            self.recently.store(0, Ordering::Relaxed);
            self.is_table_used.store(false, Ordering::Relaxed);
        }
        ptr::null_mut()
    }

    /// Moves tokens into `to` while that has [room](Self::room).
    pub(super) fn take_all(&self, to: &mut Vec<Token>) {
        let mut from = 0;
        while to.len() < to.capacity()
            && let Some(slot) = NonNull::new(self.take_from(&mut from))
        {
            // SAFETY: a token that was put here, and is taken out once.
            to.push(unsafe { Token::from_raw(slot) });
        }
    }

    /// Returns an empty list with room for all tokens that may be in the cache now.
    pub(super) fn room(&self) -> Vec<Token> {
        Vec::with_capacity(1 + if self.has_table() { PLACES } else { 0 })
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::slots::slot::words::ParkKind;

    /// Returns contiguous slots. The first and the last have the same place.
    fn slots() -> &'static [Slot] {
        Vec::from_iter((0..=PLACES as u32).map(Slot::unused)).leak()
    }

    fn put(cache: &Cache, slot: &'static Slot) -> bool {
        slot.permit.keep(Some(ParkKind::Idle));
        // SAFETY: nothing else uses these slots.
        unsafe { cache.put(slot) }
    }

    /// Catches: a disabled table that accepts processes; a process that replaces another one in its place.
    #[test]
    fn a_place_has_one_process_while_the_table_is_enabled() {
        let (cache, slots) = (Cache::new(), slots());
        let (first, last) = (&slots[0], &slots[PLACES]);
        assert!(!put(&cache, first) && !cache.has_table() && !first.permit.is_in_table());
        cache.enable(true);
        assert!(put(&cache, first) && cache.has(first) && first.permit.is_in_table());
        assert!(!put(&cache, last) && !cache.has(last) && cache.find(last).is_none());
        cache.find(first).expect("it is there").store(ptr::null_mut(), Ordering::Relaxed);
        assert!(put(&cache, last) && cache.has(last) && !cache.has(first));
    }

    /// Catches: more recent processes than their list has room for; a check that does not clear the list.
    #[test]
    fn what_has_come_into_the_table_is_checked_once() {
        let (cache, slots) = (Cache::new(), slots());
        cache.enable(true);
        let cached = slots.iter().filter(|slot| put(&cache, slot)).count();
        assert_eq!(cached, RECENT, "the next check must see them all");
        let node = || crate::mailbox::node_pool::message(0, (), ptr::null_mut());
        for slot in [&slots[0], &slots[RECENT - 1], &slots[RECENT]] {
            let _claim = slot.lanes.push_control(node());
        }
        let mut seen: Vec<_> = std::iter::from_fn(|| NonNull::new(cache.take_filled())).collect();
        seen.sort_unstable();
        assert_eq!(seen, [NonNull::from(&slots[0]), NonNull::from(&slots[RECENT - 1])]);
        let _claim = slots[1].lanes.push_control(node());
        assert!(!cache.begin_check() && cache.take_filled().is_null(), "for this one the thread is told");
        assert!(cache.has(&slots[1]));
    }

    /// Catches: a message that counts as input for a process that waits for control only.
    #[test]
    fn a_message_is_no_input_for_a_process_that_waits_for_control() {
        let (cache, slots) = (Cache::new(), slots());
        let slot = &slots[0];
        slot.permit.keep(Some(ParkKind::Waiting));
        cache.front.store(ptr::from_ref(slot).cast_mut(), Ordering::Relaxed);
        let node = || crate::mailbox::node_pool::message(0, (), ptr::null_mut());
        let _claim = slot.lanes.push_data(node(), || 0, |_| ());
        assert!(!cache.has_filled_front() && cache.take_filled().is_null());
        let _claim = slot.lanes.push_control(node());
        assert!(cache.has_filled_front() && ptr::eq(cache.take_filled(), slot));
    }

    /// Catches: a front that is not taken; a table that still counts as used when everything was taken.
    #[test]
    fn all_is_taken_from_the_cache() {
        let (cache, slots) = (Cache::new(), slots());
        cache.enable(true);
        assert!(put(&cache, &slots[PLACES - 1]) && put(&cache, &slots[3]) && cache.has_table());
        cache.front.store(ptr::from_ref(&slots[5]).cast_mut(), Ordering::Relaxed);
        let mut from = 0;
        let mut taken: Vec<_> = std::iter::from_fn(|| NonNull::new(cache.take_from(&mut from))).collect();
        taken.sort_unstable();
        assert_eq!(taken, [3, 5, PLACES - 1].map(|index| NonNull::from(&slots[index])));
        assert!(!cache.has_table() && !cache.has_front() && !cache.has(&slots[3]) && !cache.begin_check());
    }
}
