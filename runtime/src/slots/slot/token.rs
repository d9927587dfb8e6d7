//! Operations of a token's holder: opening and closing an incarnation, and exclusive access to its data.

use super::cold_state::ColdState;
use super::words::{CHECKS_COLD_STATE, COLD_STATE};
use super::{Slot, SlotOwner, Token};
#[cfg(feature = "test")]
use crate::links::message::Bindings;
use crate::mailbox::lanes::{Claim, Holder};
use crate::pid::Pid;
use crate::process::body::Body;
use crate::sync::Ordering;
use std::ptr::{self, NonNull};
use std::task::Waker;

impl Token {
    /// Claims the token of a slot that the directory took off its free list, unless a late sender holds it or is about
    /// to take it (*claim* in [`requests`](super::requests)).
    pub(crate) fn claim_free(slot: &'static Slot) -> Option<Self> {
        if slot.has_requesters() && !slot.waits_for_requesters() {
            return None;
        }
        match slot.lanes.claim() {
            Claim::Vacant => Some(Self(slot).acquire()),
            Claim::Nothing => None,
            Claim::Process => unreachable!("a free slot carries no process"),
        }
    }

    /// Takes the token of a slot that was never used and whose index only the calling thread has been given.
    pub(crate) fn claim_unused(slot: &'static Slot) -> Self {
        slot.lanes.begin();
        Self(slot).acquire()
    }

    /// Claims the token of a live process's slot, if it is parked. Used by the owner of a stand-alone mailbox.
    pub(crate) fn claim_own(slot: &'static Slot) -> Option<Self> {
        (slot.lanes.claim() == Claim::Process).then(|| Self(slot).acquire())
    }

    /// Converts the token to an address, for run queues.
    pub(crate) fn into_raw(self) -> *mut Slot {
        ptr::from_ref(self.0).cast_mut()
    }

    /// # Safety
    /// `slot` came from `into_raw`, and is converted back once.
    pub(crate) unsafe fn from_raw(slot: NonNull<Slot>) -> Self {
        // SAFETY: slots are never freed.
        Self(unsafe { slot.as_ref() })
    }

    pub(crate) fn slot(&self) -> &'static Slot {
        self.0
    }

    /// Records that the calling thread is about to use the token: see [`debug_owner`](crate::slots::slot::debug_owner).
    #[inline(always)]
    pub(crate) fn acquire(self) -> Self {
        self.0.debug_owner.begin();
        self
    }

    /// Records that the calling thread is about to give the token away.
    #[inline(always)]
    pub(crate) fn release(self) -> Self {
        self.0.debug_owner.end();
        self
    }

    #[inline]
    pub(crate) fn wake(self) {
        self.0.schedule();
    }

    /// Like [`wake`](Self::wake), but if there is a waker that is user code, returns it, and the caller wakes it later.
    /// That code may wait for a process whose token the caller has.
    pub(crate) fn hand_over(self) -> Option<Waker> {
        self.0.owner()?.scheduler.hand_over(self)
    }

    #[inline]
    pub(crate) fn pid(&self) -> Option<Pid> {
        let owner = self.0.owner()?;
        Some(owner.pid(self.0.metadata.index, self.0.living()?))
    }

    /// Returns the generation of the process. The process must be alive.
    #[inline]
    pub(crate) fn generation(&self) -> u64 {
        self.0.generation.load(Ordering::Relaxed).generation()
    }

    /// Opens a new incarnation and makes its PID routable; messages wait until the token is parked or queued.
    pub(crate) fn open(&mut self, owner: &'static SlotOwner) -> Pid {
        let slot = self.0;
        slot.debug_owner.check();
        slot.begin_generation();
        let generation = slot.generation.next();
        slot.owner.store(ptr::from_ref(owner).cast_mut(), Ordering::Release);
        slot.generation.open(generation);
        owner.pid(slot.metadata.index, generation)
    }

    /// Closes the incarnation: its PID is unroutable from here on. This is in one total order with checks by
    /// `registrations`.
    pub(crate) fn close(&mut self) {
        self.0.debug_owner.check();
        self.0.generation.close();
    }

    pub(crate) fn is_reusable(&self) -> bool {
        self.0.generation.has_next()
    }

    #[inline]
    pub(crate) fn body(&mut self) -> &mut Option<Body> {
        self.0.debug_owner.check();
        // SAFETY: the body belongs to the token's holder, and the token is borrowed exclusively.
        self.0.body.with_mut(|body| unsafe { &mut *body })
    }

    #[inline]
    pub(crate) fn has_cold_state(&self) -> bool {
        self.0.flags.any(COLD_STATE)
    }

    pub(crate) fn cold_state(&mut self) -> Option<&mut ColdState> {
        self.0.debug_owner.check();
        // SAFETY: as for the body.
        self.0.metadata.cold_state.with_mut(|cold_state| unsafe { &mut *cold_state }).as_deref_mut()
    }

    pub(crate) fn make_cold_state(&mut self) -> &mut ColdState {
        // SAFETY: this is the token, and it is borrowed exclusively.
        unsafe { self.0.own_cold_state() }
    }

    pub(crate) fn take_cold_state(&mut self) -> Option<Box<ColdState>> {
        self.0.debug_owner.check();
        if !self.has_cold_state() {
            return None;
        }
        self.0.flags.set(COLD_STATE | CHECKS_COLD_STATE, false);
        // SAFETY: as for the body.
        self.0.metadata.cold_state.with_mut(|cold_state| unsafe { &mut *cold_state }).take()
    }

    #[inline]
    pub(crate) fn lanes(&mut self) -> Holder<'_> {
        self.0.debug_owner.check();
        // SAFETY: this is the token, borrowed while the holder lives.
        unsafe { Holder::new(&self.0.lanes) }
    }
}

impl Slot {
    /// Returns the cold state, allocating it if needed.
    ///
    /// # Safety
    /// The caller holds the slot's token, and no reference to the cold state.
    #[expect(clippy::mut_from_ref, reason = "the token stands for the exclusive borrow")]
    pub(crate) unsafe fn own_cold_state(&self) -> &mut ColdState {
        self.debug_owner.check();
        self.flags.set(COLD_STATE, true);
        // SAFETY: the caller's promise.
        self.metadata.cold_state.with_mut(|cold_state| unsafe { &mut *cold_state }).get_or_insert_default()
    }

    /// Returns whether the host stores a label of the process.
    ///
    /// # Safety
    /// The caller holds the slot's token, and no reference to the cold state.
    #[cfg(feature = "spans")]
    pub(crate) unsafe fn is_labelled(&self) -> bool {
        self.debug_owner.check();
        // SAFETY: the caller's promise.
        let cold_state = self.metadata.cold_state.with_mut(|cold_state| unsafe { &*cold_state });
        cold_state.as_ref().is_some_and(|cold_state| cold_state.labelled)
    }

    /// Returns the links and monitors of the process, and whether an unlink is pending. Simulations call this between
    /// turns.
    ///
    /// # Safety
    /// No other thread uses the token during the call.
    #[cfg(feature = "test")]
    pub(crate) unsafe fn bindings_at_rest(&self) -> (Bindings, bool) {
        // SAFETY: the caller's promise.
        let cold_state = self.metadata.cold_state.with_mut(|cold_state| unsafe { &*cold_state });
        let links = cold_state.as_ref().and_then(|cold_state| cold_state.links.as_deref());
        links.map(|links| (Bindings::of(links), links.is_unlinking())).unwrap_or_default()
    }
}
