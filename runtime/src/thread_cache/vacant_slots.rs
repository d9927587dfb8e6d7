//! Vacant slots that a thread keeps, with their tokens, for the processes that it spawns next.
//!
//! Parking the token of a vacant slot takes an atomic exchange, and claiming it for the next process takes another. A
//! thread that both ends and spawns processes saves both: it keeps the token and opens the next incarnation with it.
//! These tokens are among those that a thread [keeps to itself](super::tokens), under the same lock.
//!
//! # Late arrivals
//!
//! No request reaches a kept slot, because a slot is not kept while a [requester](crate::slots::slot::requests) is
//! about to push. A message can arrive: if its sender found the process alive and pushes after the end, the sender
//! finds no mark in the mailbox of a kept slot, as if the process were in its last step. The message stays in the
//! mailbox until the slot leaves this list; then the token is parked, and the message is disposed of. If the slot was
//! taken for a new process, that process is spawned in another slot: in this slot, a caller would wait for the first
//! step of the new process, and that step may be long and may itself wait for the caller. (Only a message that a
//! preempted sender pushes even later is found by the new process. That process refuses the message because of its
//! generation, and the message's caller does not wait for the new process.) So no slot may stay in this list for long.
//! At each tick of the watchdog the thread gives back the slots that were in it at the tick before, and at each
//! [flush](super::tokens) it gives back all of them.
//!
//! If a step does not end, the watchdog takes these tokens, along with the one in the run-next slot. A thread that is
//! not watched, or has lost its permit, keeps no vacant slots.
//!
//! Disposing of late messages runs user code, so it is left to a worker (`engine/host/late_slots`). The token of an
//! empty slot is parked by the thread that gives it back.
//!
//! A slot is kept only if no other process is notified when its process ends (`exit` ensures that), so no dead letter
//! can follow such a notification.

use crate::slots::Token;
use crate::sync::{AtomicUsize, Ordering, OwnedCell};

/// Maximum number of slots that a thread keeps: as many as the directory moves at a time. With a lower maximum, a
/// process that spawns a hundred others before they run would find too few.
pub(crate) const MOST: usize = 128;

pub(super) struct VacantSlots {
    /// Number of kept slots. Any thread may read it; the value may already be out of date.
    count: AtomicUsize,
    /// The minimum of `count` since the last tick: that many slots, the oldest ones, have been kept ever since.
    fewest: AtomicUsize,
    tokens: OwnedCell<Vec<Token>>,
}

// SAFETY: the lock of `tokens` gives the list to one thread at a time.
unsafe impl Sync for VacantSlots {}

impl VacantSlots {
    pub(super) fn none() -> Self {
        // The list has its full capacity from the start, so that it never grows under the lock: the allocator may be
        // the user's.
        let (count, fewest) = (AtomicUsize::new(0), AtomicUsize::new(0));
        Self { count, fewest, tokens: OwnedCell::new(Vec::with_capacity(MOST)) }
    }

    #[inline(always)]
    pub(super) fn has_some(&self) -> bool {
        self.count.load(Ordering::Relaxed) > 0
    }

    #[inline(always)]
    unsafe fn change<R>(&self, change: impl FnOnce(&mut Vec<Token>) -> R) -> R {
        self.tokens.with_mut(|tokens| {
            // SAFETY: the caller has the lock.
            let tokens = unsafe { &mut *tokens };
            let changed = change(tokens);
            self.count.store(tokens.len(), Ordering::Relaxed);
            changed
        })
    }

    /// Keeps the token of a vacant slot. Returns it if there is no room.
    ///
    /// # Safety
    /// The caller has the lock.
    #[inline(always)]
    pub(super) unsafe fn keep(&self, token: Token) -> Option<Token> {
        let keep = |tokens: &mut Vec<Token>| {
            if tokens.len() == MOST {
                return Some(token);
            }
            tokens.push(token);
            None
        };
        // SAFETY: the caller's promise.
        unsafe { self.change(keep) }
    }

    /// Takes the token that was kept most recently.
    ///
    /// # Safety
    /// The caller has the lock.
    #[inline(always)]
    pub(super) unsafe fn take(&self) -> Option<Token> {
        let take = |tokens: &mut Vec<Token>| {
            let token = tokens.pop();
            if tokens.len() < self.fewest.load(Ordering::Relaxed) {
                self.fewest.store(tokens.len(), Ordering::Relaxed);
            }
            token
        };
        // SAFETY: the caller's promise.
        unsafe { self.change(take) }
    }

    /// Moves the tokens that have been kept since the previous tick into `to`, which has [room](Self::room) for all.
    /// Called at each tick.
    ///
    /// # Safety
    /// The caller has the lock.
    pub(super) unsafe fn take_old(&self, to: &mut Vec<Token>) {
        let take = |tokens: &mut Vec<Token>| {
            to.extend(tokens.drain(..self.fewest.load(Ordering::Relaxed).min(tokens.len())));
            self.fewest.store(tokens.len(), Ordering::Relaxed);
        };
        // SAFETY: the caller's promise.
        unsafe { self.change(take) }
    }

    /// Moves all tokens into `to`, which has [room](Self::room) for them.
    ///
    /// # Safety
    /// The caller has the lock.
    pub(super) unsafe fn take_all(&self, to: &mut Vec<Token>) {
        // SAFETY: the caller's promise.
        unsafe { self.change(|tokens| to.append(tokens)) }
        self.fewest.store(0, Ordering::Relaxed);
    }

    /// Returns an empty list with room for all tokens.
    pub(super) fn room() -> Vec<Token> {
        Vec::with_capacity(MOST)
    }
}
