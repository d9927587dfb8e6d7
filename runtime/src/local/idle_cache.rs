//! A thread's cache of idle processes: those that it ran lately, with their tokens, besides the one that is
//! [warm](super::tokens) now.
//!
//! The warm process is moved here when another one becomes warm, or when the thread takes its next process from
//! elsewhere than the run-next slot. A process that becomes idle while others wait only in the deque comes here at
//! once. A message from the same thread finds the process by the address of its slot, and takes the token as it takes
//! that of the warm process: so no message between processes of one thread goes through a parked token. The cache is
//! direct-mapped: if the place of a process is occupied, its token is parked.
//!
//! A thread cannot check its whole cache every few steps, as it does its warm process. A remote sender therefore
//! notifies the thread that caches the process:
//!
//! * *cache*: the thread stores the token in its place, and the mark on the slot.
//! * *push*: another thread pushes. *ask*: it looks for the mark and, if that is set, for the process in the cache of
//!   each thread. *notify*: it sets [`NOTIFIED`](super::tokens::NOTIFIED) for the thread that has it.
//! * *flush*: between two steps, the thread sees the flag and parks every cached token. The cache then stays disabled
//!   for a while: others use these processes too.
//! * *check*: at its next visit to the shared queues, the thread passes a fence, and looks at each process that it has
//!   cached since the last one.
//!
//! *Nothing is overlooked*: *push* and both looks of *ask* are sequentially consistent, and so is the fence. Either
//! *check* sees what was pushed, or *ask* comes after the fence, and sees the mark and the place of *cache*; unless the
//! thread has taken the process out again since, and then it looks at its lanes in any case. (Each look needs that
//! order for itself: mark and place are stored one by one, and neither implies the other.)
//!
//! Behind a step that does not end, the watchdog takes everything out of the cache, as it takes vacant slots
//! (`engine/watchdog/detector`). The thread flushes it before it gives its permit away, blocks, sleeps or exits, and at
//! each tick. A thread that is not watched, or has lost its permit, has none. A model is in `tests/models`.

use crate::slots::{Slot, Token};
use crate::sync::{AtomicBool, AtomicPtr, AtomicUsize, Ordering, disturb, fence, fence_for_models};
use std::ptr::{self, NonNull};

/// How many places there are: 2 KiB for each thread. To park all these tokens takes some 5 µs.
const PLACES: usize = if cfg!(loom) { 2 } else { 256 };

/// How many processes may be cached between two visits to shared queues, 20 steps apart: each makes one idle.
const RECENT: usize = if cfg!(loom) { 2 } else { 32 };

pub(super) struct IdleCache {
    places: Box<[AtomicPtr<Slot>; PLACES]>,
    /// Whether a process was cached since the last flush.
    is_used: AtomicBool,
    /// Written by the thread alone, also without the lock.
    is_enabled: AtomicBool,
    /// For *check*.
    recent: [AtomicPtr<Slot>; RECENT],
    recently: AtomicUsize,
}

impl IdleCache {
    pub(super) fn new() -> Self {
        let empty = || AtomicPtr::new(ptr::null_mut());
        Self {
            places: Box::new(std::array::from_fn(|_| empty())),
            is_used: AtomicBool::new(false),
            is_enabled: AtomicBool::new(false),
            recent: std::array::from_fn(|_| empty()),
            recently: AtomicUsize::new(0),
        }
    }

    /// The place of a process. By the address of its slot, which a sender has in a register; slots lie side by side.
    /// (In models they do not.)
    #[inline(always)]
    fn place(&self, slot: &Slot) -> &AtomicPtr<Slot> {
        let number = if cfg!(loom) { slot.index() as usize } else { slot.address() / size_of::<Slot>() };
        &self.places[number % PLACES]
    }

    /// Returns whether there may be processes in it. From any thread, stale at once.
    #[inline(always)]
    pub(super) fn is_used(&self) -> bool {
        self.is_used.load(Ordering::Relaxed)
    }

    #[inline(always)]
    pub(super) fn is_enabled(&self) -> bool {
        self.is_enabled.load(Ordering::Relaxed)
    }

    pub(super) fn enable(&self, is_enabled: bool) {
        self.is_enabled.store(is_enabled, Ordering::Relaxed);
    }

    /// Returns whether that process is in this cache: the second look of *ask*. From any thread, stale at once.
    pub(super) fn has(&self, slot: &Slot) -> bool {
        fence_for_models();
        ptr::eq(self.place(slot).load(Ordering::SeqCst), slot)
    }
}

/// For the one who has the lock.
impl IdleCache {
    /// Does *cache*. Returns false, and has done nothing, if the cache is disabled, the place occupied, or no more can
    /// be checked at the next visit.
    ///
    /// # Safety
    /// The caller has the token of `slot`, which is the cache's if this returns true.
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
        self.is_used.store(true, Ordering::Relaxed);
        disturb();
        place.store(pointer, Ordering::Relaxed);
        slot.permit.set_cached();
        true
    }

    /// Returns the place of that process, if it is there.
    #[inline(always)]
    pub(super) fn find(&self, slot: &Slot) -> Option<&AtomicPtr<Slot>> {
        let place = self.place(slot);
        ptr::eq(place.load(Ordering::Relaxed), slot).then_some(place)
    }

    /// Begins *check*. Returns whether there is something to check.
    pub(super) fn begin_check(&self) -> bool {
        let has_recent = self.recently.load(Ordering::Relaxed) > 0;
        if has_recent {
            fence(Ordering::SeqCst);
        }
        has_recent
    }

    /// For *check*: takes one of those cached since the last visit to which something has been sent. If there is none,
    /// the check is over.
    pub(super) fn take_filled(&self) -> *mut Slot {
        let mut left = self.recently.load(Ordering::Relaxed);
        while left > 0 {
            left -= 1;
            let pointer = self.recent[left].load(Ordering::Relaxed);
            // SAFETY: an entry that was written, of a slot; slots are never freed.
            let slot = unsafe { &*pointer };
            // SAFETY: the token is here.
            let has_input = || slot.lanes.has_control() || !unsafe { slot.lanes.is_data_empty() };
            if let Some(place) = self.find(slot)
                && has_input()
            {
                place.store(ptr::null_mut(), Ordering::Relaxed);
                self.recently.store(left, Ordering::Relaxed);
                return pointer;
            }
        }
        self.recently.store(0, Ordering::Relaxed);
        ptr::null_mut()
    }

    /// Takes the first of those at or behind the place `from`, and moves that behind it. When there is none, the cache
    /// counts as unused: nothing may be put into it in between.
    pub(super) fn take_from(&self, from: &mut usize) -> *mut Slot {
        while let Some(place) = self.places.get(*from) {
            *from += 1;
            let slot = place.load(Ordering::Relaxed);
            if !slot.is_null() {
                place.store(ptr::null_mut(), Ordering::Relaxed);
                return slot;
            }
        }
        self.recently.store(0, Ordering::Relaxed);
        self.is_used.store(false, Ordering::Relaxed);
        ptr::null_mut()
    }

    /// Moves all tokens into `to`, which has [room](Self::room) for them.
    pub(super) fn take_all(&self, to: &mut Vec<Token>) {
        let mut from = 0;
        while self.is_used() {
            if let Some(slot) = NonNull::new(self.take_from(&mut from)) {
                // SAFETY: a token that was put here, and is taken out once.
                to.push(unsafe { Token::from_raw(slot) });
            }
        }
    }

    /// Returns an empty list, with room for all if `for_all`.
    pub(super) fn room(for_all: bool) -> Vec<Token> {
        Vec::with_capacity(if for_all { PLACES } else { 0 })
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    /// Slots side by side: the first and the last have the same place.
    fn slots() -> &'static [Slot] {
        Vec::from_iter((0..=PLACES as u32).map(Slot::unused)).leak()
    }

    fn put(cache: &IdleCache, slot: &'static Slot) -> bool {
        // SAFETY: nothing else uses these slots.
        unsafe { cache.put(slot) }
    }

    /// Mutations: a disabled cache takes processes; a process replaces another one in its place.
    #[test]
    fn a_place_has_one_process_while_the_cache_is_enabled() {
        let (cache, slots) = (IdleCache::new(), slots());
        let (first, last) = (&slots[0], &slots[PLACES]);
        assert!(!put(&cache, first) && !cache.is_used() && !first.permit.is_warm());
        cache.enable(true);
        assert!(put(&cache, first) && cache.has(first) && first.permit.is_cached());
        assert!(!put(&cache, last) && !cache.has(last) && cache.find(last).is_none());
        cache.find(first).expect("it is there").store(ptr::null_mut(), Ordering::Relaxed);
        assert!(put(&cache, last) && cache.has(last) && !cache.has(first));
    }

    /// Mutations: more are noted than fit; a check does not begin anew.
    #[test]
    fn what_was_cached_is_checked_once() {
        let (cache, slots) = (IdleCache::new(), slots());
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

    /// Mutation: the cache still counts as used when all was taken.
    #[test]
    fn all_is_taken_from_the_cache() {
        let (cache, slots) = (IdleCache::new(), slots());
        cache.enable(true);
        assert!(put(&cache, &slots[PLACES - 1]) && put(&cache, &slots[3]) && cache.is_used());
        let mut from = 0;
        let mut taken: Vec<_> = std::iter::from_fn(|| NonNull::new(cache.take_from(&mut from))).collect();
        taken.sort_unstable();
        assert_eq!(taken, [NonNull::from(&slots[3]), NonNull::from(&slots[PLACES - 1])]);
        assert!(!cache.is_used() && !cache.has(&slots[3]) && !cache.begin_check());
    }
}
