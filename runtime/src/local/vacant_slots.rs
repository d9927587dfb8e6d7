//! Vacant slots that a thread keeps, with their tokens, for the processes that it spawns next.
//!
//! To park the token of a vacant slot takes an atomic exchange, and to claim it for the next process another one. A
//! thread that both ends and spawns processes saves the two: it keeps the token, and opens the next incarnation with
//! it. These tokens are among those that a thread [keeps to itself](super::tokens), under the lock of these.
//!
//! # What arrives late
//!
//! No request comes there: a slot is not kept while a [requester](crate::slots::slot::requests) is about to push. A
//! sender of a message that found the process alive, and pushes after its end, meets no mark in the mailbox of a kept
//! slot, as if the process were in its last step. What was pushed lies there until the slot leaves this list: then the
//! token is parked, which disposes of it. If it leaves for the next process, that is spawned in another slot: in this
//! one it would have the caller wait for its first step, which may be long, and may wait in turn for the caller. (Only
//! what is pushed even later, by a sender that was preempted, is found by that process, which refuses it by its
//! generation; a caller does not wait for that.) So no slot may stay here for long. At each tick of the watchdog the
//! thread gives those back that were there at the tick before; and all of them with each [flush](super::tokens).
//!
//! Behind a step that does not end, the watchdog takes them, with what is in the run-next slot. A thread that is not
//! watched, or has lost its permit, keeps none.
//!
//! To dispose of what has arrived runs code of users, and is left to a worker (`engine/host/late_slots`); the token of
//! an empty slot is parked by the thread that gives it back.
//!
//! No one is told of the end of a process whose slot is kept (`exit` sees to that), so no dead letter follows such
//! news.

use crate::slots::Token;
use crate::sync::{AtomicUsize, Ordering, OwnedCell};

/// How many slots a thread keeps: as many as the directory moves at a time. With fewer, a process that spawns a hundred
/// others before they run finds too few.
pub(crate) const MOST: usize = 128;

pub(super) struct VacantSlots {
    /// How many there are. Any thread reads it, stale at once.
    count: AtomicUsize,
    /// The fewest that there were since the last tick: so many, the oldest, were there all the time.
    fewest: AtomicUsize,
    tokens: OwnedCell<Vec<Token>>,
}

// SAFETY: the lock of `tokens` gives the list to one thread at a time.
unsafe impl Sync for VacantSlots {}

impl VacantSlots {
    pub(super) fn none() -> Self {
        // Never grown under the lock: the allocator may be the user's.
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

    /// Takes the token that was kept last.
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

    /// At a tick: moves those that have been there since the last one into `to`, which has [room](Self::room) for all.
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

    /// Returns an empty list with room for all.
    pub(super) fn room() -> Vec<Token> {
        Vec::with_capacity(MOST)
    }
}
