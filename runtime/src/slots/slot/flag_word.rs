//! The word of a slot's flags.

use crate::sync::{AtomicU8, Ordering};

pub(super) const COLD_STATE: u8 = 1;
/// The mailbox is above its bound. A hint for senders: one that sees it late checks once too few or too many.
pub(super) const CONGESTED: u8 = 2;
/// The cold state has work for each step: values to pass on, or controls that were left.
pub(super) const CHECKS_COLD_STATE: u8 = 4;
/// The process is suspended at the congested mailbox of another.
pub(super) const SUSPENDED: u8 = 8;
/// The mailbox has its own bound. Set before the process begins.
pub(super) const OWN_BOUND: u8 = 16;
/// The bound is hard: messages are in a queue, and placeholders for them in the lane. Set before the process begins.
pub(super) const HARD_BOUND: u8 = 32;
/// The process has a supervisor, which stops it when its host is shut down.
pub(super) const SUPERVISED: u8 = 64;
/// Requests to stop are delivered to the process as signals, ahead of its messages: it has others to stop first.
pub(super) const TOLD_TO_STOP: u8 = 128;

pub(super) struct Flags(AtomicU8);

impl Flags {
    pub(super) fn none() -> Self {
        Self(AtomicU8::new(0))
    }

    pub(super) fn clear(&self) {
        self.0.store(0, Ordering::Relaxed);
    }

    /// Returns whether one of `flags` is set. Relaxed.
    #[inline]
    pub(super) fn any(&self, flags: u8) -> bool {
        self.0.load(Ordering::Relaxed) & flags != 0
    }

    /// Like `any`, sequentially consistent.
    pub(super) fn any_in_order(&self, flags: u8) -> bool {
        self.0.load(Ordering::SeqCst) & flags != 0
    }

    pub(super) fn set(&self, flags: u8, to: bool) {
        if to {
            self.0.fetch_or(flags, Ordering::SeqCst);
        } else {
            self.0.fetch_and(!flags, Ordering::SeqCst);
        }
    }
}
