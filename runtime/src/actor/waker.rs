//! The waker of a process.

use crate::pid::Pid;
use crate::table::{Slot, TABLE};
use std::ptr;
use std::task::{Context, RawWaker, RawWakerVTable, Waker};

/// The life that a table belongs to; `None` for a machine that is driven by hand.
pub(crate) type Owner = Option<(&'static Slot, u64)>;

/// The waker of a process: its slot and generation, in the place of an address. It owns nothing, so it is free to clone,
/// and it may be woken long after the process is gone.
pub(crate) fn waker_of(owner: Owner) -> Waker {
    let word = life_of(owner);
    if word == 0 {
        return Waker::noop().clone();
    }
    let data = ptr::without_provenance::<()>(word as usize);
    // SAFETY: the functions of the table own nothing and take any data.
    unsafe { Waker::new(data, &VTABLE) }
}

static VTABLE: RawWakerVTable = RawWakerVTable::new(|data| RawWaker::new(data, &VTABLE), wake, wake, |_| ());

fn wake(data: *const ()) {
    if let Some((slot, generation)) = owner_of_life(data.addr() as u64) {
        slot.wake(generation);
    }
}

/// An owner in one word: slot and generation, which is never zero.
pub(crate) fn life_of(owner: Owner) -> u64 {
    owner.map_or(0, |(slot, generation)| u64::from(slot.index()) << crate::pid::GENERATION_BITS | generation)
}

/// The owner that the word stands for.
pub(crate) fn owner_of_life(life: u64) -> Owner {
    let generation = life & crate::pid::GENERATION_MASK;
    let slot = TABLE.slot((life >> crate::pid::GENERATION_BITS) as u32)?;
    (generation != 0).then_some((slot, generation))
}

/// The waker in `context`, unless it is that of the process itself, which is polled after every answer anyway.
pub(crate) fn foreign_waker(context: &Context<'_>, owner: Owner) -> Option<Waker> {
    let (waker, life) = (context.waker(), life_of(owner));
    let is_own = life != 0 && waker.data().addr() as u64 == life && ptr::eq(waker.vtable(), &VTABLE);
    (!is_own && !waker.will_wake(&waker_of(owner))).then(|| waker.clone())
}

/// The life that `pid` names.
pub(crate) fn owner_of(pid: Option<Pid>) -> Owner {
    let pid = pid?;
    TABLE.slot(pid.slot()).map(|slot| (slot, pid.generation()))
}
