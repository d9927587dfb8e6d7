//! The waker of a process.
//!
//! Those that others have are counted (see [`lent`](crate::deadlock::foreign_wakers)); the one that a process is polled
//! with is not.

use crate::deadlock::foreign_wakers::{give_back, lend};
use crate::pid::Pid;
use crate::slots::{Slot, TABLE};
use std::mem::ManuallyDrop;
use std::ops::Deref;
use std::ptr;
use std::task::{Context, RawWaker, RawWakerVTable, Waker};

/// The life that a table belongs to; `None` for a machine that is driven by hand.
pub(crate) type TableOwner = Option<(&'static Slot, u64)>;

/// The waker of a process, to be given away: its slot and generation, in the place of an address. It owns nothing, so
/// it may be woken long after the process is gone.
pub(crate) fn waker_of(owner: TableOwner) -> Waker {
    // The clone is counted.
    own_waker_of(owner).clone()
}

/// The waker that a process is polled with.
pub(crate) struct OwnWaker(ManuallyDrop<Waker>);

impl Deref for OwnWaker {
    type Target = Waker;

    #[inline]
    fn deref(&self) -> &Waker {
        &self.0
    }
}

/// The waker that a process is polled with.
#[inline]
pub(crate) fn own_waker_of(owner: TableOwner) -> OwnWaker {
    let word = life_of(owner);
    let waker = if word == 0 {
        Waker::noop().clone()
    } else {
        // SAFETY: the functions of the table take any word of a life.
        unsafe { Waker::new(data_of(word), &VTABLE) }
    };
    // Never dropped, since it was not counted.
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
    wake(owner_of_life(data.addr() as u64));
}

fn wake_and_drop_word(data: *const ()) {
    match owner_of_life(data.addr() as u64) {
        Some((slot, generation)) => slot.wake_and_give_back(generation, || give_back(data.addr() as u64)),
        None => drop_word(data),
    }
}

fn drop_word(data: *const ()) {
    give_back(data.addr() as u64);
}

/// An owner in one word: slot and generation, which is never zero.
pub(crate) fn life_of(owner: TableOwner) -> u64 {
    owner.map_or(0, |(slot, generation)| u64::from(slot.index()) << crate::pid::GENERATION_BITS | generation)
}

/// The word for the process that is named so, if there is one.
#[inline]
pub(crate) fn life_of_pid(pid: Option<Pid>) -> u64 {
    pid.map_or(0, |pid| u64::from(pid.slot()) << crate::pid::GENERATION_BITS | pid.generation())
}

/// The owner that the word stands for.
pub(crate) fn owner_of_life(life: u64) -> TableOwner {
    let generation = life & crate::pid::GENERATION_MASK;
    let slot = TABLE.slot((life >> crate::pid::GENERATION_BITS) as u32)?;
    (generation != 0).then_some((slot, generation))
}

/// The waker in `context`, unless it is that of the process itself, which is polled after every answer anyway.
pub(crate) fn foreign_waker(context: &Context<'_>, owner: TableOwner) -> Option<Waker> {
    foreign_waker_of(context, life_of(owner))
}

/// The same for the owner of that word.
#[inline]
pub(crate) fn foreign_waker_of(context: &Context<'_>, life: u64) -> Option<Waker> {
    (!is_own(context, life)).then(|| context.waker().clone())
}

/// Returns whether the waker in `context` is that of the process itself. Runs no foreign code.
#[inline]
pub(crate) fn is_own(context: &Context<'_>, life: u64) -> bool {
    let waker = context.waker();
    match life {
        0 => waker.will_wake(Waker::noop()),
        _ => waker.data().addr() as u64 == life && ptr::eq(waker.vtable(), &VTABLE),
    }
}
