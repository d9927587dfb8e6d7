//! The waker of a process.
//!
//! Wakers that were cloned are counted (see [`foreign_wakers`](crate::deadlock::foreign_wakers)); the one that a
//! process is polled with is not.

use crate::Pid;
use crate::deadlock::foreign_wakers::{give_back, lend};
use crate::slots::{Slot, TABLE};
use std::task::{Context, RawWaker, RawWakerVTable, Waker};
use std::{mem::ManuallyDrop, ops::Deref, ptr};

/// The incarnation that owns a table; `None` for a machine that is driven by hand.
pub(crate) type TableOwner = Option<(&'static Slot, u64)>;

/// Creates a waker of the process to give away: slot and generation in place of a pointer. It owns nothing and may
/// outlive the process.
pub(crate) fn waker_of(owner: TableOwner) -> Waker {
    // The clone is counted.
    own_waker_of(owner).clone()
}

/// The waker that a process is polled with, uncounted.
pub(crate) struct OwnWaker(ManuallyDrop<Waker>);

impl Deref for OwnWaker {
    type Target = Waker;

    #[inline]
    fn deref(&self) -> &Waker {
        &self.0
    }
}

#[inline]
pub(crate) fn own_waker_of(owner: TableOwner) -> OwnWaker {
    let word = incarnation_of(owner);
    let waker = if word == 0 {
        Waker::noop().clone()
    } else {
        // SAFETY: the functions of the vtable accept any incarnation word.
        unsafe { Waker::new(data_of(word), &VTABLE) }
    };
    // Never dropped: it was not counted.
    OwnWaker(ManuallyDrop::new(waker))
}

pub(crate) fn wake(owner: TableOwner) {
    if let Some((slot, generation)) = owner {
        slot.wake(generation);
    }
}

static VTABLE: RawWakerVTable = RawWakerVTable::new(clone_word, wake_and_drop_word, wake_word, drop_word);

fn data_of(word: u64) -> *const () {
    ptr::without_provenance(word as usize)
}

fn clone_word(data: *const ()) -> RawWaker {
    lend(data.addr() as u64);
    RawWaker::new(data, &VTABLE)
}

fn wake_word(data: *const ()) {
    wake(owner_of(data.addr() as u64));
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

/// Packs slot and generation in a word, which is never zero.
pub(crate) fn incarnation_of(owner: TableOwner) -> u64 {
    owner.map_or(0, |(slot, generation)| u64::from(slot.index()) << crate::pid::GENERATION_BITS | generation)
}

#[inline]
pub(crate) fn incarnation_of_pid(pid: Option<Pid>) -> u64 {
    pid.map_or(0, |pid| u64::from(pid.slot()) << crate::pid::GENERATION_BITS | pid.generation())
}

pub(crate) fn owner_of(incarnation: u64) -> TableOwner {
    let generation = incarnation & crate::pid::GENERATION_MASK;
    let slot = TABLE.slot((incarnation >> crate::pid::GENERATION_BITS) as u32)?;
    (generation != 0).then_some((slot, generation))
}

/// Returns the waker in `context`, unless it is the process's own, which is polled after every answer anyway.
pub(crate) fn foreign_waker(context: &Context<'_>, owner: TableOwner) -> Option<Waker> {
    foreign_waker_of(context, incarnation_of(owner))
}

#[inline]
pub(crate) fn foreign_waker_of(context: &Context<'_>, incarnation: u64) -> Option<Waker> {
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
