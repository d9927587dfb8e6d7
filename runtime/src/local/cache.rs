//! A thread's cache: processes with nothing to do that it ran lately, with their tokens.
//!
//! At its *front* is the process that came to rest last while another one was to run next: of a pair that sends to each
//! other, one is there while the other one runs. It moves into the *table* when another one comes to the front; so does
//! an idle process when the thread takes its next one from elsewhere than the run-next slot, and an idle process that
//! comes to rest while others wait only in the deque comes into the table at once. (One that waits for control is then
//! likely to be answered by another thread: its token is parked.) In the table, the address of its slot leads to its
//! place. If that is occupied, its token is parked.
//!
//! At each visit to the shared queues the thread looks whether others have sent something to the process at its front,
//! which waits that long: a few time slices of those that send to each other. It cannot look at the whole table every
//! few steps. So a sender on another thread notifies the thread that has the process in its table:
//!
//! * *cache*: the thread stores the token in its place, and the mark on the slot.
//! * *push*: another thread pushes. *ask*: it looks for the mark and, if that is set, for the process in the table of
//!   each thread. *notify*: it sets [`NOTIFIED`](super::lock::NOTIFIED) for the thread that has it.
//! * *flush*: between two steps, the thread sees the flag and parks every token in the cache. The table then stays
//!   disabled for a while: others use these processes too.
//! * *check*: at its next visit to the shared queues, the thread passes a fence, and looks at each process that has
//!   come into its table since the last one.
//!
//! *Nothing is overlooked*: *push* and both looks of *ask* are sequentially consistent, and so is the fence. Either
//! *check* sees what was pushed, or *ask* comes after the fence, and sees the mark and the place of *cache*; unless the
//! thread has taken the process out again since, and then it looks at its lanes in any case. (Each look needs that
//! order for itself: mark and place are stored one by one, and neither implies the other.)
//!
//! Behind a step that does not end, the watchdog takes everything out of the cache, as it takes the process in the
//! run-next slot (`engine/watchdog/detector`). The thread flushes it before it gives its permit away, blocks, sleeps or
//! exits, and at each tick. A thread that is not watched, or has lost its permit, has nothing in its table. A model is
//! in `tests/models`.

use crate::slots::{Slot, Token};
use crate::sync::{AtomicBool, AtomicPtr, AtomicUsize, Ordering, disturb, fence, fence_for_models};
use std::ptr::{self, NonNull};

/// How many places the table has: 2 KiB for each thread. To park all these tokens takes some 5 µs.
const PLACES: usize = if cfg!(loom) { 2 } else { 256 };

/// How many processes may come into the table between two visits to shared queues, 20 steps apart: each brings one.
const RECENT: usize = if cfg!(loom) { 2 } else { 32 };

pub(super) struct Cache {
    pub(super) front: AtomicPtr<Slot>,
    table: Box<[AtomicPtr<Slot>; PLACES]>,
    /// Whether a process has come into the table since the last flush.
    is_table_used: AtomicBool,
    /// Whether the table is in use. Written by the thread alone, also without the lock.
    is_enabled: AtomicBool,
    /// For *check*.
    recent: [AtomicPtr<Slot>; RECENT],
    recently: AtomicUsize,
}

/// Returns whether something has been sent to a process that is kept, which may then have a step to make.
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

    /// The place of a process in the table. By the address of its slot, which a sender has in a register; slots lie
    /// side by side. (In models they do not.)
    #[inline(always)]
    fn place(&self, slot: &Slot) -> &AtomicPtr<Slot> {
        let number = if cfg!(loom) { slot.index() as usize } else { slot.address() / size_of::<Slot>() };
        &self.table[number % PLACES]
    }

    #[inline(always)]
    pub(super) fn has_front(&self) -> bool {
        !self.front.load(Ordering::Relaxed).is_null()
    }

    /// Returns whether others have sent something to the process at the front. From any thread, stale at once.
    pub(super) fn has_filled_front(&self) -> bool {
        // SAFETY: null, or a slot; slots are never freed.
        let front = unsafe { self.front.load(Ordering::Relaxed).as_ref() };
        front.is_some_and(|slot| slot.lanes.has_control() || slot.permit.is_kept_idle() && slot.lanes.depth() > 0)
    }

    /// Returns whether there may be processes in the table. From any thread, stale at once.
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

    /// Returns whether that process is in this table: the second look of *ask*. From any thread, stale at once.
    pub(super) fn has(&self, slot: &Slot) -> bool {
        fence_for_models();
        ptr::eq(self.place(slot).load(Ordering::SeqCst), slot)
    }
}

/// For the one who has the lock.
impl Cache {
    /// Does *cache*. Returns false, and has done nothing, if the table is disabled, the place occupied, or no more can
    /// be checked at the next visit.
    ///
    /// # Safety
    /// The caller has the token of `slot`, which is marked as kept. It is the table's if this returns true.
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

    /// Returns where that process is, if it is here.
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

    /// For *check*: takes the process at the front, or one of those that have come into the table since the last visit,
    /// if something has been sent to it. If there is none, the check is over.
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
            // SAFETY: an entry that was written, of a slot; slots are never freed.
            let slot = unsafe { &*pointer };
            let place = self.place(slot);
            // SAFETY: the token is here, if the process still is.
            if ptr::eq(place.load(Ordering::Relaxed), slot) && unsafe { has_input(slot) } {
                place.store(ptr::null_mut(), Ordering::Relaxed);
                self.recently.store(left, Ordering::Relaxed);
                return pointer;
            }
        }
        self.recently.store(0, Ordering::Relaxed);
        ptr::null_mut()
    }

    /// Takes the process at the front; if there is none, the first of those at or behind the place `from` of the table,
    /// and moves that behind it. When there is none, the table counts as unused: nothing may be put here in between.
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

    /// Moves tokens into `to`, while it has [room](Self::room).
    pub(super) fn take_all(&self, to: &mut Vec<Token>) {
        let mut from = 0;
        while to.len() < to.capacity()
            && let Some(slot) = NonNull::new(self.take_from(&mut from))
        {
            // SAFETY: a token that was put here, and is taken out once.
            to.push(unsafe { Token::from_raw(slot) });
        }
    }

    /// Returns an empty list, with room for all that there may be now.
    pub(super) fn room(&self) -> Vec<Token> {
        Vec::with_capacity(1 + if self.has_table() { PLACES } else { 0 })
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::slots::slot::words::ParkKind;

    /// Slots side by side: the first and the last have the same place.
    fn slots() -> &'static [Slot] {
        Vec::from_iter((0..=PLACES as u32).map(Slot::unused)).leak()
    }

    fn put(cache: &Cache, slot: &'static Slot) -> bool {
        slot.permit.keep(Some(ParkKind::Idle));
        // SAFETY: nothing else uses these slots.
        unsafe { cache.put(slot) }
    }

    /// Mutations: a disabled table takes processes; a process replaces another one in its place.
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

    /// Mutations: more are noted than fit; a check does not begin anew.
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

    /// Mutation: a message counts as input for a process that waits for control only.
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

    /// Mutations: the front is left; the table still counts as used when all was taken.
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
