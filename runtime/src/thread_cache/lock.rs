//! The lock of the tokens that a thread keeps. The thread itself takes it without an atomic exchange.
//!
//! The thread may be in a step that never ends or that has lost its permit, and other threads must then be able to take
//! its tokens. Only they pay for the synchronization:
//!
//! * O1: the thread sets `busy` and passes the light barrier. O2: it reads `attention`. If [`REVOKED`] is set there, it
//!   does without these tokens: it queues, parks or searches instead. If not, O3: it moves tokens by loads and stores.
//!   O4: it clears `busy`.
//! * O5: another thread sets [`REVOKED`], and gives up if it was set already. O6: it passes the heavy barrier. O7: it
//!   waits until `busy` is clear. O8: it takes the tokens. O9: it clears [`REVOKED`].
//!
//! *One at a time*: because of the barriers, either O2 sees O5, or O7 sees O1 and waits for O4. O4 is Release and O7
//! Acquire, O9 is Release and O2 Acquire, so each side sees what the other has done to the tokens and the slots. Of
//! several other threads, O5 admits one.
//!
//! *O7 ends*: a section, O1 to O4, takes few instructions and runs no user code. If the system preempts the thread in a
//! section, O7 gives up when it has looked [`PATIENCE`] times, and the caller tries again later, as the watchdog does
//! at its next tick. The thread can then use its tokens again, although it may have done without them at O2.
//!
//! # Attention
//!
//! The word with [`REVOKED`] also contains everything else that the thread must check between two steps, so that one
//! load is enough. The caller of a section may name further bits that forbid the section. A thread that sets one of
//! these bits does not wait for a section in progress.

use crate::sync::{
    AtomicBool, AtomicU16, Ordering, disturb, fence, heavy_barrier, is_light_barrier_enough, light_barrier, spin,
    yield_now,
};

/// Whether threads keep any tokens. In a build with `--cfg postroom_no_local` every section is refused, so all tokens
/// are parked or queued where others see them; only performance changes.
pub(crate) const IS_ON: bool = !cfg!(postroom_no_local);

/// A bit of `attention`: the thread has lost its permit, although it is in a step.
pub(crate) const LOST: u16 = 2;
/// The watchdog rests (watchdog:R3).
pub(crate) const UNWATCHED: u16 = 8;
/// The tokens are being taken from the thread.
const REVOKED: u16 = 64;
/// Light barriers do not work, or have not been prepared yet, so each section has a fence.
const FENCED: u16 = 128;
/// Something was sent to a process in the table of the cache.
pub(crate) const NOTIFIED: u16 = 256;

/// Number of times that O7 looks before it gives up; once in models.
const PATIENCE: u32 = if cfg!(loom) { 1 } else { 1_000 };

pub(crate) struct BiasedLock {
    busy: AtomicBool,
    attention: AtomicU16,
}

impl BiasedLock {
    pub(super) fn new() -> Self {
        let attention = if is_light_barrier_enough() { 0 } else { FENCED };
        Self { busy: AtomicBool::new(false), attention: AtomicU16::new(attention) }
    }

    /// Returns the bits that the thread must check between two steps. Those that this module does not define are
    /// defined by `engine::workers::worker`.
    #[inline(always)]
    pub(crate) fn attention(&self) -> u16 {
        self.attention.load(Ordering::Relaxed) & !(REVOKED | FENCED)
    }

    /// Sets bits of `attention`.
    pub(crate) fn call_attention(&self, to: u16, order: Ordering) {
        self.attention.fetch_or(to, order);
    }

    /// Clears bits of `attention`. Returns those that were set.
    pub(crate) fn acknowledge(&self, bits: u16, order: Ordering) -> u16 {
        self.attention.fetch_and(!bits, order) & bits
    }

    /// Performs *notify* of `cache`. When the thread [acknowledges](Self::acknowledge) the bit, it sees everything that
    /// was pushed before.
    pub(crate) fn notify(&self) {
        if self.attention.load(Ordering::SeqCst) & NOTIFIED == 0 {
            self.attention.fetch_or(NOTIFIED, Ordering::SeqCst);
        }
    }

    /// Performs O1 to O4. Returns `None` if the tokens are being taken from the thread, or `attention` has one of the
    /// `forbidden` bits.
    #[inline(always)]
    pub(super) fn section<R>(&self, forbidden: u16, body: impl FnOnce() -> R) -> Option<R> {
        let attention = self.begin();
        let done = if self.may_move(attention, forbidden) { Some(body()) } else { None };
        self.end();
        done
    }

    /// Performs O1 and O2. Returns the value of `attention`: zero if tokens may be moved and there is nothing to check.
    #[inline(always)]
    pub(super) fn begin(&self) -> u16 {
        if !IS_ON {
            return REVOKED;
        }
        self.busy.store(true, Ordering::Relaxed);
        light_barrier();
        disturb();
        self.attention.load(Ordering::Acquire)
    }

    /// Returns whether the section that has begun with the value `attention` may move tokens. After this call,
    /// [`attention`](Self::attention) does not return an older value.
    #[inline(always)]
    pub(super) fn may_move(&self, attention: u16, forbidden: u16) -> bool {
        attention & (FENCED | REVOKED | forbidden) == 0 || self.may_move_behind_fence(attention, forbidden)
    }

    /// Performs O4.
    #[inline(always)]
    pub(super) fn end(&self) {
        self.busy.store(false, Ordering::Release);
    }

    /// Performs O1 and O2 with a fence. The value of `attention` that was read before the fence may be stale.
    #[cold]
    #[inline(never)]
    fn may_move_behind_fence(&self, attention: u16, forbidden: u16) -> bool {
        if attention & FENCED == 0 {
            return false;
        }
        if is_light_barrier_enough() {
            self.attention.fetch_and(!FENCED, Ordering::SeqCst);
        }
        fence(Ordering::SeqCst);
        self.attention.load(Ordering::Acquire) & (REVOKED | forbidden) == 0
    }

    /// Returns whether the thread is watched and has its permit.
    #[inline(always)]
    pub(super) fn is_in_charge(&self) -> bool {
        self.attention() & (LOST | UNWATCHED) == 0
    }

    /// Performs O5 to O9 for another thread, with `take` as O8. Returns `None` if a third thread is doing so, or if the
    /// owner takes too long to leave its section.
    pub(super) fn revoke<R>(&self, take: impl FnOnce() -> R) -> Option<R> {
        if self.attention.fetch_or(REVOKED, Ordering::AcqRel) & REVOKED != 0 {
            return None;
        }
        disturb();
        heavy_barrier();
        let is_quiet = (0..PATIENCE).any(|look| {
            if look > 100 {
                yield_now();
            } else if look > 0 {
                spin();
            }
            !self.busy.load(Ordering::Acquire)
        });
        disturb();
        let revoked = is_quiet.then(take);
        self.attention.fetch_and(!REVOKED, Ordering::Release);
        revoked
    }

    /// Performs only O5 or only O9.
    #[cfg(all(test, not(loom), not(postroom_no_local)))]
    pub(super) fn note_revoked(&self, is_revoked: bool) {
        if is_revoked {
            self.attention.fetch_or(REVOKED, Ordering::SeqCst);
        } else {
            self.attention.fetch_and(!REVOKED, Ordering::SeqCst);
        }
    }
}

#[cfg(all(test, not(loom), not(postroom_no_local)))]
mod tests {
    use super::*;

    /// Catches: a section behind a fence that relies on the value of `attention` from before the fence.
    #[test]
    fn a_section_behind_a_fence_reads_attention_again() {
        let lock = BiasedLock::new();
        for late in [REVOKED, LOST] {
            lock.call_attention(FENCED, Ordering::SeqCst);
            let stale = lock.begin();
            lock.call_attention(late, Ordering::SeqCst);
            assert!(!lock.may_move(stale, LOST), "{late}");
            lock.end();
            lock.acknowledge(late, Ordering::SeqCst);
        }
        lock.call_attention(FENCED, Ordering::SeqCst);
        assert_eq!(lock.section(LOST, || ()), Some(()));
    }
}
