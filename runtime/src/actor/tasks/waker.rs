//! The waker of a process.
//!
//! Only wakers that were cloned are counted (see [`foreign_wakers`](crate::deadlock::foreign_wakers)).

use crate::deadlock::foreign_wakers::{give_back, lend};
use crate::slots::{Slot, TABLE};
use std::task::{Context, RawWaker, RawWakerVTable, Waker};
use std::{mem::ManuallyDrop, ops::Deref, ptr};

/// The incarnation that owns a table, or `None` for a machine that is driven by hand.
pub(crate) type TableOwner = Option<(&'static Slot, u64)>;

/// Creates a waker of the process for other code. It may outlive the process: its data is the incarnation, not a
/// pointer.
pub(crate) fn waker_of(incarnation: u64) -> Waker {
    // Cloned, so that it is counted.
    own_waker_of(incarnation).clone()
}

/// The waker that a process is polled with; it is not counted.
pub(crate) struct OwnWaker(ManuallyDrop<Waker>);

impl Deref for OwnWaker {
    type Target = Waker;

    #[inline]
    fn deref(&self) -> &Waker {
        &self.0
    }
}

#[inline]
pub(crate) fn own_waker_of(incarnation: u64) -> OwnWaker {
    let waker = if incarnation == 0 {
        Waker::noop().clone()
    } else {
        // SAFETY: the functions of the vtable accept any incarnation word.
        unsafe { Waker::new(ptr::without_provenance(incarnation as usize), &VTABLE) }
    };
    // Never dropped, because it was not counted.
    OwnWaker(ManuallyDrop::new(waker))
}

pub(crate) fn wake(incarnation: u64) {
    if let Some((slot, generation)) = owner_of(incarnation) {
        slot.wake(generation);
    }
}

static VTABLE: RawWakerVTable = RawWakerVTable::new(clone_word, wake_and_drop_word, wake_word, drop_word);

fn clone_word(data: *const ()) -> RawWaker {
    lend(data.addr() as u64);
    RawWaker::new(data, &VTABLE)
}

fn wake_word(data: *const ()) {
    wake(data.addr() as u64);
}

fn wake_and_drop_word(data: *const ()) {
    match owner_of(data.addr() as u64) {
        Some((slot, generation)) => slot.wake_and_give_back(generation, || give_back(data.addr() as u64)),
        None => drop_word(data),
    }
}

fn drop_word(data: *const ()) {
    give_back(data.addr() as u64);
}

pub(crate) fn owner_of(incarnation: u64) -> TableOwner {
    let generation = incarnation & crate::pid::GENERATION_MASK;
    let slot = TABLE.slot((incarnation >> crate::pid::GENERATION_BITS) as u32)?;
    (generation != 0).then_some((slot, generation))
}

/// Returns the waker in `context`, or `None` if it is the process's own: the process is polled after every answer
/// anyway.
#[inline]
pub(crate) fn foreign_waker(context: &Context<'_>, incarnation: u64) -> Option<Waker> {
    (!is_own(context, incarnation)).then(|| context.waker().clone())
}

/// Returns whether the waker in `context` is the process's own. Runs no foreign code.
#[inline]
pub(crate) fn is_own(context: &Context<'_>, incarnation: u64) -> bool {
    let waker = context.waker();
    match incarnation {
        0 => waker.will_wake(Waker::noop()),
        _ => waker.data().addr() as u64 == incarnation && ptr::eq(waker.vtable(), &VTABLE),
    }
}
