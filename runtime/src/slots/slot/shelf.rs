//! The shelf of a thread: the idle processes that it has run lately, with their tokens, beside the one that is
//! [warm](super::local_tokens) now.
//!
//! When another process becomes the warm one, or the thread takes its next process from elsewhere than the run-next
//! slot, the warm one goes to the shelf; and so does one that becomes idle while others wait in the deque alone. A
//! message from the same thread finds it there, by the place of its slot, and takes the token as it takes that of the
//! warm one: so no message between processes of one thread pays for the way through a parked token. The place may be
//! taken by another process; then the token is parked.
//!
//! A thread cannot look at its whole shelf every few steps, as it does at the warm process. So who sends to a shelved
//! process from elsewhere tells its thread:
//!
//! * *shelve*: the thread stores the token in its place, and the mark on the slot.
//! * *push*: another thread pushes. *ask*: it looks for the mark and, if it sees that, for the process in its place on
//!   the shelf of each thread. *tell*: it sets [`ROUSED`](super::local_tokens::ROUSED) for the thread that has it.
//! * *clear*: between two steps, the thread sees that, and lays down all that is on the shelf. Then the shelf stays
//!   closed for a while: others use these processes too.
//! * *visit*: at its next visit to a far end, the thread passes a fence, and looks at each process that it has shelved
//!   since the last one.
//!
//! *Nothing is overlooked*: *push* and both looks of *ask* are sequentially consistent, and so is the fence. Either the
//! thread's look in *visit* sees what was pushed, or *ask* comes after the fence, and sees the mark and the place of
//! *shelve*; unless the thread has taken the process from there since, and then it looks at its lanes in any case.
//! (Each look needs that order for itself: mark and place are stored one by one, and neither says anything about the
//! other.)
//!
//! Behind a step that does not end, the watchdog takes all that is on the shelf, as it takes vacant slots
//! (`engine/watchdog/detector`). Before a thread gives its permit away, blocks, sleeps or exits, and at each tick, it
//! clears its shelf. One that is not watched, or has lost its permit, has none. A model is in `tests/models`.

use super::{Slot, Token};
use crate::sync::{AtomicBool, AtomicPtr, AtomicUsize, Ordering, disturb, fence, fence_for_models};
use std::ptr::{self, NonNull};

/// How many places there are: 2 KiB for each thread. To park all these tokens takes some 5 µs.
const PLACES: usize = if cfg!(loom) { 2 } else { 256 };

/// How many processes may be shelved between two visits to far ends, 20 steps apart: each makes one idle.
const RECENT: usize = if cfg!(loom) { 2 } else { 32 };

pub(super) struct Shelf {
    places: Box<[AtomicPtr<Slot>; PLACES]>,
    /// Whether one was shelved since the shelf was cleared.
    is_used: AtomicBool,
    /// Written by the thread alone, also without the lock.
    is_open: AtomicBool,
    /// For *visit*.
    recent: [AtomicPtr<Slot>; RECENT],
    recently: AtomicUsize,
}

impl Shelf {
    pub(super) fn new() -> Self {
        let empty = || AtomicPtr::new(ptr::null_mut());
        Self {
            places: Box::new(std::array::from_fn(|_| empty())),
            is_used: AtomicBool::new(false),
            is_open: AtomicBool::new(false),
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

    /// Returns whether there may be processes on it. From any thread, stale at once.
    #[inline(always)]
    pub(super) fn is_used(&self) -> bool {
        self.is_used.load(Ordering::Relaxed)
    }

    #[inline(always)]
    pub(super) fn is_open(&self) -> bool {
        self.is_open.load(Ordering::Relaxed)
    }

    pub(super) fn set_open(&self, is_open: bool) {
        self.is_open.store(is_open, Ordering::Relaxed);
    }

    /// Returns whether that process is on this shelf: the second look of *ask*. From any thread, stale at once.
    pub(super) fn has(&self, slot: &Slot) -> bool {
        fence_for_models();
        ptr::eq(self.place(slot).load(Ordering::SeqCst), slot)
    }
}

/// For the one who has the lock.
impl Shelf {
    /// Does *shelve*. Returns false, and has done nothing, if the shelf is closed, the place taken, or no more can be
    /// looked at in the next visit.
    ///
    /// # Safety
    /// The caller has the token of `slot`, which is the shelf's if this returns true.
    #[inline(always)]
    pub(super) unsafe fn put(&self, slot: &'static Slot) -> bool {
        let (place, recently) = (self.place(slot), self.recently.load(Ordering::Relaxed));
        let has_room = self.is_open() && recently < RECENT && place.load(Ordering::Relaxed).is_null();
        if !has_room {
            return false;
        }
        let pointer = ptr::from_ref(slot).cast_mut();
        self.recent[recently].store(pointer, Ordering::Relaxed);
        self.recently.store(recently + 1, Ordering::Relaxed);
        self.is_used.store(true, Ordering::Relaxed);
        disturb();
        place.store(pointer, Ordering::Relaxed);
        slot.permit.set_shelved();
        true
    }

    /// Returns the place of that process, if it is there.
    #[inline(always)]
    pub(super) fn find(&self, slot: &Slot) -> Option<&AtomicPtr<Slot>> {
        let place = self.place(slot);
        ptr::eq(place.load(Ordering::Relaxed), slot).then_some(place)
    }

    /// Begins *visit*. Returns whether there is something to look at.
    pub(super) fn begin_look(&self) -> bool {
        let has_recent = self.recently.load(Ordering::Relaxed) > 0;
        if has_recent {
            fence(Ordering::SeqCst);
        }
        has_recent
    }

    /// For *visit*: takes one of those shelved since the last visit to which something has been sent. If there is none,
    /// the look is over.
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

    /// Takes the first of those at or behind the place `from`, and moves that behind it. When there is none, the shelf
    /// counts as unused: nothing may be put on it in between.
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

    fn put(shelf: &Shelf, slot: &'static Slot) -> bool {
        // SAFETY: nothing else uses these slots.
        unsafe { shelf.put(slot) }
    }

    /// Mutations: a closed shelf takes processes; one whose place is taken loses the one that was there.
    #[test]
    fn a_place_has_one_process_while_the_shelf_is_open() {
        let (shelf, slots) = (Shelf::new(), slots());
        let (first, last) = (&slots[0], &slots[PLACES]);
        assert!(!put(&shelf, first) && !shelf.is_used() && !first.permit.is_warm());
        shelf.set_open(true);
        assert!(put(&shelf, first) && shelf.has(first) && first.permit.is_shelved());
        assert!(!put(&shelf, last) && !shelf.has(last) && shelf.find(last).is_none());
        shelf.find(first).expect("it is there").store(ptr::null_mut(), Ordering::Relaxed);
        assert!(put(&shelf, last) && shelf.has(last) && !shelf.has(first));
    }

    /// Mutations: more than fit are noted; a look does not begin anew.
    #[test]
    fn what_was_shelved_is_looked_at_once() {
        let (shelf, slots) = (Shelf::new(), slots());
        shelf.set_open(true);
        let shelved = slots.iter().filter(|slot| put(&shelf, slot)).count();
        assert_eq!(shelved, RECENT, "the next look must see them all");
        let node = || crate::mailbox::node_pool::message(0, (), ptr::null_mut());
        for slot in [&slots[0], &slots[RECENT - 1], &slots[RECENT]] {
            let _claim = slot.lanes.push_control(node());
        }
        let mut seen: Vec<_> = std::iter::from_fn(|| NonNull::new(shelf.take_filled())).collect();
        seen.sort_unstable();
        assert_eq!(seen, [NonNull::from(&slots[0]), NonNull::from(&slots[RECENT - 1])]);
        let _claim = slots[1].lanes.push_control(node());
        assert!(!shelf.begin_look() && shelf.take_filled().is_null(), "for this one the thread is told");
        assert!(shelf.has(&slots[1]));
    }

    /// Mutation: the shelf still counts as used when all was taken.
    #[test]
    fn all_is_taken_from_the_shelf() {
        let (shelf, slots) = (Shelf::new(), slots());
        shelf.set_open(true);
        assert!(put(&shelf, &slots[PLACES - 1]) && put(&shelf, &slots[3]) && shelf.is_used());
        let mut from = 0;
        let mut taken: Vec<_> = std::iter::from_fn(|| NonNull::new(shelf.take_from(&mut from))).collect();
        taken.sort_unstable();
        assert_eq!(taken, [NonNull::from(&slots[3]), NonNull::from(&slots[PLACES - 1])]);
        assert!(!shelf.is_used() && !shelf.has(&slots[3]) && !shelf.begin_look());
    }
}
