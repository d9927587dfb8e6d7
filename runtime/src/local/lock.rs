//! The lock of what a thread keeps: its owner takes it without an atomic exchange.
//!
//! The thread may be in a step that never ends, or that has lost its permit, and then others must be able to take its
//! tokens. They pay for that:
//!
//! * O1 the thread stores `busy`, and passes the light barrier; O2 it reads `attention`; if that says [`REVOKED`], it
//!   does without these tokens: it queues, parks or searches instead; if not, O3 it moves tokens by loads and stores;
//!   O4 it clears `busy`.
//! * O5 another thread sets [`REVOKED`], and leaves if it was set; O6 it passes the heavy barrier; O7 it waits until
//!   `busy` is clear; O8 it takes the tokens; O9 it clears [`REVOKED`].
//!
//! *One at a time*: by the barriers, O2 sees O5, or O7 sees O1 and waits for O4. O4 is Release and O7 Acquire, O9
//! Release and O2 Acquire: each sees what the other has done, with the tokens and with the slots. Of several others,
//! O5 admits one.
//!
//! *O7 ends*: a section, O1 to O4, takes few instructions, and runs no code of users. If the system stops the thread
//! in one, O7 gives up after [`PATIENCE`] looks: the caller tries again later, as the watchdog does at its next tick.
//! Then what the thread has is its own again, although it may have done without it at O2.
//!
//! # Attention
//!
//! The word that says [`REVOKED`] has all else that the thread is to check between two steps, so that one look shows
//! all of it. A caller of a section may name further bits that forbid it. Who sets one of these does not wait for a
//! section in progress.

use crate::sync::{
    AtomicBool, AtomicU16, Ordering, disturb, fence, heavy_barrier, is_light_barrier_enough, light_barrier, spin,
    yield_now,
};

/// Whether threads keep anything. In a build with `--cfg postroom_no_local` every section is refused, so all tokens are
/// parked or queued where others see them; only performance changes.
pub(crate) const IS_ON: bool = !cfg!(postroom_no_local);

/// In `attention`: the thread has lost its permit, although it is in a step.
pub(crate) const LOST: u16 = 2;
/// The watchdog rests (watchdog:R3).
pub(crate) const UNWATCHED: u16 = 8;
/// The tokens are being taken from the thread.
const REVOKED: u16 = 64;
/// Light barriers are not enough yet, or never: each section has a fence.
const FENCED: u16 = 128;
/// Something was sent to a process in the table of the cache.
pub(crate) const NOTIFIED: u16 = 256;

/// How often O7 looks before it gives up. In models it looks once.
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

    /// Returns what the thread is to check between two steps. The bits that this module does not define are
    /// `engine::workers::worker`'s.
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

    /// *notify* of `cache`. The thread sees what was pushed before when it [acknowledges](Self::acknowledge) this.
    pub(crate) fn notify(&self) {
        if self.attention.load(Ordering::SeqCst) & NOTIFIED == 0 {
            self.attention.fetch_or(NOTIFIED, Ordering::SeqCst);
        }
    }

    /// O1 to O4. `None`: the tokens are being taken from the thread, or `attention` has one of `forbidden`.
    #[inline(always)]
    pub(super) fn section<R>(&self, forbidden: u16, body: impl FnOnce() -> R) -> Option<R> {
        let attention = self.begin();
        let done = if self.may_move(attention, forbidden) { Some(body()) } else { None };
        self.end();
        done
    }

    /// O1 and O2. Returns what `attention` says: zero if tokens may be moved and there is nothing to check.
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

    /// Returns whether the section that has begun with that `attention` may move tokens. By then what
    /// [`attention`](Self::attention) says is no older.
    #[inline(always)]
    pub(super) fn may_move(&self, attention: u16, forbidden: u16) -> bool {
        attention & (FENCED | REVOKED | forbidden) == 0 || self.may_move_behind_fence(attention, forbidden)
    }

    /// O4.
    #[inline(always)]
    pub(super) fn end(&self) {
        self.busy.store(false, Ordering::Release);
    }

    /// O1 and O2 with a fence: what `attention` said before it may be stale.
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

    /// O5 to O9, for another thread, with `take` as O8. `None`: a third one is about to, or the owner cannot be waited
    /// for.
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

    /// Does O5, or O9, alone.
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

    /// Catches: a section behind a fence that relies on what `attention` said before the fence.
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
