//! Requests to a process that may be ending: to notify someone of its end, to link, to show its state, or to end.
//!
//! A requester may wait for the answer, so a request must not end up in the mailbox of the slot's next process. The
//! request would be found there only after a step, and that step may be long and may itself wait for the requester. A
//! requester that is preempted after it has read the generation and before it pushes would put its request there.
//! Therefore requesters are counted, and no process starts in a slot that has some:
//!
//! * *count*: the requester counts itself in.
//! * *look*: it reads the generation. If the process is alive, it pushes. If the process is exiting, the requester
//!   passes a heavy barrier, looks again, and pushes if the process is still exiting. Otherwise the process is over,
//!   and the requester drops its request. The drop answers the request.
//! * *push*, and then *leave*: it counts itself out.
//! * *close*: the exit closes the generation. *vacate*: when it has emptied the mailbox, it marks the generation as
//!   over, passes a light barrier, and looks at the mailbox once more. It does so by parking the token or, if the
//!   thread is to keep the slot, in *keep*. *keep* looks for requesters first. If there is a requester, or something
//!   has arrived, the token is parked after all.
//! * *claim*: a thread that takes the slot from the directory skips it while it has requesters.
//!
//! *No request reaches another process.* *count*, *look*, *push*, *close*, *keep* and *claim* are sequentially
//! consistent, and the count is released by *leave* and acquired by *keep* and *claim*. A requester that pushes has
//! seen the process alive or exiting. If it was alive, *count* precedes *close*. If it was exiting, the barriers make
//! *count* visible to everything after *vacate*. *keep* and *claim* follow both *close* and *vacate*. So in either case
//! they see the requester, or see that it has left and therefore also see its push. A slot that is not claimed has no
//! next process.
//!
//! *No request is overlooked.* A request that is pushed before the last look at the mailbox is handled by the exit.
//! After that look the token is parked, since a slot with a requester is not kept, so *push* takes the token and
//! disposes of everything in the mailbox.
//!
//! The counts are kept in the slot's owner, which saves space in the slot: slots whose indices have the same low bits
//! share a count. A slot may thus be skipped because of a requester of another slot, and a spawn takes yet another one.
//! A simulation does not skip such a slot but waits for the requester. (A requester runs no user code.) The reason is
//! that the requester may belong to another simulation, if the host of that one reuses the owner of this slot's last
//! process, and the choice of slots in a run must not depend on that.
//!
//! # Calls
//!
//! Senders of messages are not counted: that would cost two atomic exchanges per message. But a caller waits for an
//! answer, so it performs *look* after its push. If the process is alive, or still exiting after the barrier, the exit
//! finds the message, at the latest in its last look. Otherwise the message may be in the mailbox of the next process,
//! so the caller withdraws it and fails the call itself, unless the call has been answered or failed already; the word
//! of the call decides (`call::call_id`). Code that passes on the message of another caller does the same. If the exit
//! found the message after all, and the supervisor keeps it for the next incarnation, that incarnation discards it: a
//! call that was withdrawn is never handled.
//!
//! Models of requests and of calls are in `tests/models` (`vacant_slots`).

use super::Slot;
use super::generation::LifePhase;
use crate::mailbox::node::{Envelope, NodeKind};
use crate::mailbox::node_pool;
use crate::mailbox::payload::Payload;
use crate::process::control::Control;
use crate::sync::{Ordering, disturb, fence_for_models, heavy_barrier, simulated};
use std::ptr;

impl Slot {
    /// Sends a request to the process of `generation`. If that process is over, drops the request. The drop notifies
    /// the requester.
    pub(crate) fn request(&'static self, generation: u64, control: Control) {
        simulated::note_sent(self.index());
        let payload = Some(Payload::new(control));
        let envelope = Envelope { kind: NodeKind::Signal, generation, word: ptr::null_mut(), payload };
        if let Err(envelope) = self.push_request(envelope) {
            self.late(envelope);
        }
    }

    fn push_request(&'static self, envelope: Envelope) -> Result<(), Envelope> {
        // The generation is read first, so the owner is that of the process or of a later one.
        let owner = if self.is_last(envelope.generation) { self.owner() } else { None };
        let Some(owner) = owner else { return Err(envelope) };
        let counted = owner.requesters.count(self.index());
        if !self.may_be_asked(envelope.generation) {
            return Err(envelope);
        }
        disturb();
        #[cfg(all(test, not(loom)))]
        crate::sync::window::pass(crate::sync::window::Window::BeforeRequest);
        let claim = self.lanes.push_control(node_pool::node(envelope));
        drop(counted);
        self.settle(claim);
        Ok(())
    }

    /// Performs *look*. Returns whether a request may be pushed.
    pub(super) fn may_be_asked(&self, generation: u64) -> bool {
        let look = || self.generation.load(Ordering::SeqCst).phase_of(generation);
        let mut phase = look();
        if cfg!(loom) && phase == LifePhase::Alive {
            // The fence comes only after the first look. Before it, the fence would substitute for the barrier below
            // and hide the absence of that barrier.
            fence_for_models();
            phase = look();
        }
        match phase {
            LifePhase::Alive => true,
            LifePhase::Exiting => {
                heavy_barrier();
                look() == LifePhase::Exiting
            }
            LifePhase::Over => false,
        }
    }

    /// Returns whether the slot may have requesters: the check in *keep* and *claim*.
    #[inline]
    pub(super) fn has_requesters(&self) -> bool {
        self.owner().is_some_and(|owner| owner.requesters.has_some(self.index()))
    }

    /// In a simulation, waits until there are no requesters, and returns true. Elsewhere, returns false at once.
    #[cold]
    pub(super) fn waits_for_requesters(&self) -> bool {
        if simulated::is_here() {
            while self.has_requesters() {
                crate::sync::yield_now();
            }
            return true;
        }
        false
    }
}

#[cfg(all(test, feature = "test"))]
impl super::SlotOwner {
    /// Counts a requester for each of the owner's slots until the result is dropped.
    pub(crate) fn count_requesters(&self) -> impl Sized + '_ {
        self.requesters.count_all()
    }
}
