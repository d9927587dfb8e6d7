//! Requests to a process that may be ending: to notify others of its end, to link, to show something, to end.
//!
//! A requester may wait for the answer, so a request must not lie in the mailbox of the next process in the slot: it
//! would be found there after a step that may be long, and may wait in turn for the requester. But a requester that is
//! preempted between its look at the generation and its push would put it there. So it is counted meanwhile, and no
//! process starts in the slot:
//!
//! * *count*: the requester counts itself in.
//! * *look*: it looks at the generation. If the process is alive, it pushes. If it is exiting, the requester passes a
//!   heavy barrier and looks again, and pushes if it still is. Otherwise the process is over, and the requester answers
//!   itself.
//! * *push*, and then *leave*: it counts itself out.
//! * *close*: the exit closes the generation. *vacate*: when it has emptied the mailbox, it marks the generation as
//!   over, passes a light barrier, and looks at the mailbox once more: by parking the token, or, if the slot is to be
//!   kept by a thread, in *keep*: it looks for requesters first. If there is one, or something has come, the token is
//!   parked.
//! * *claim*: who takes the slot from the directory passes it over while there are requesters.
//!
//! *No request reaches another process.* *count*, *look*, *push*, *close*, *keep* and *claim* are sequentially
//! consistent, and the count is released by *leave* and acquired by *keep* and *claim*. A requester that pushes has
//! seen the process alive, and then *count* precedes *close*; or exiting, and then, by the barriers, *count* is seen by
//! all that follows *vacate*. Either way *keep* and *claim*, which follow both, see the requester; or they see it gone,
//! and then its push too. A slot that is not claimed has no next process.
//!
//! *None is overlooked.* One that is pushed before the last look at the mailbox is handled by the exit. After that the
//! token is parked, since a slot with a requester is not kept, and *push* takes it and disposes of all that is there.
//!
//! So that a slot is no larger, its owner counts, for all slots whose index has the same last digits. A slot that is
//! passed over for the requester of another one costs a process a new slot. But a simulation waits for the requester,
//! who runs no code of users: it may be one of another simulation, whose host now has the record of this slot's last
//! one, and the slots of a run must not depend on that.
//!
//! # Calls
//!
//! Messages are not counted, which would cost two exchanges for each. But a caller waits for an answer. So it looks
//! *after* its push, as above. If the process is alive, or still exiting behind the barrier, the exit comes to the
//! message: in its last look at the latest. Otherwise the message may lie in the mailbox of the next process, and the
//! caller withdraws it: it is the one who fails the call, unless another one has done so, which the word of the call
//! decides (`call::call_id`). A supervised process is left out, whose supervisor may have kept the message for the next
//! incarnation; so are messages that are passed on in a package.
//!
//! Models of both are in `tests/models` (`vacant_slots`).

use super::Slot;
use super::generation::LifePhase;
use crate::mailbox::node::{Envelope, NodeKind};
use crate::mailbox::node_pool;
use crate::mailbox::payload::Payload;
use crate::process::control::Control;
use crate::sync::{Ordering, disturb, fence_for_models, heavy_barrier};
use std::ptr;

impl Slot {
    /// Sends a request to the process of `generation`. One that is over is not asked: then the request is dropped,
    /// which tells the requester.
    pub(crate) fn request(&'static self, generation: u64, control: Control) {
        #[cfg(feature = "test")]
        if let Some(simulator) = crate::sync::simulated::here() {
            simulator.sent(self.index());
        }
        let payload = Some(Payload::new(control));
        let envelope = Envelope { kind: NodeKind::Signal, generation, word: ptr::null_mut(), payload };
        if let Err(envelope) = self.push_request(envelope) {
            self.late(envelope);
        }
    }

    fn push_request(&'static self, envelope: Envelope) -> Result<(), Envelope> {
        // The generation is read first: so the owner is that of the process, or that of a later one.
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

    /// Does *look*.
    pub(super) fn may_be_asked(&self, generation: u64) -> bool {
        let look = || self.generation.load(Ordering::SeqCst).phase_of(generation);
        let mut phase = look();
        if cfg!(loom) && phase == LifePhase::Alive {
            // Not before the look: a fence would stand in for the barrier below.
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

    /// Does the look for requesters of *keep* and *claim*.
    #[inline]
    pub(super) fn has_requesters(&self) -> bool {
        self.owner().is_some_and(|owner| owner.requesters.has_some(self.index()))
    }

    /// In a simulation, waits until there are no requesters, and returns true.
    #[cold]
    pub(super) fn waits_for_requesters(&self) -> bool {
        #[cfg(feature = "test")]
        if crate::sync::simulated::is_here() {
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
    /// Counts a requester of each of its slots until the result is dropped.
    pub(crate) fn count_requesters(&self) -> impl Sized + '_ {
        self.requesters.count_all()
    }
}
