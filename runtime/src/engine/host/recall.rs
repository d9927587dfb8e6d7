//! Taking from a thread what it keeps to itself: see `local/tokens`.

use super::Scheduler;
use super::late_slot::LateSlot;
use crate::engine::workers::worker::Worker;
use crate::local::evict::Evicted;
use crate::local::tokens::Revoked;
use crate::slots::Token;

impl Scheduler {
    /// Moves what a thread keeps to itself, the process in its run-next slot and those kept with input, to the inject
    /// queue of the permit that `holder` has, or to the global queue if it has none; and the vacant slots to where they
    /// are [emptied](super::late_slots). Returns whether there was any process. Runs no code of users: the watchdog
    /// calls it.
    ///
    /// In the global queue it would be behind all others; the inject queue is visited next by the thread with the
    /// permit, and by all that search. Called while no thread can park: so it is in a queue again before its thread
    /// can, or the host would seem to be idle.
    pub(crate) fn move_local(&'static self, thread: &Worker, holder: usize) -> bool {
        let mut is_any_late = false;
        let moved = self.idle.with_permits(|permits| {
            let queue = permits.permit(holder).map_or(&self.global, |permit| &self.permits[permit].inject);
            let tokens = self.with_input(thread.local.revoke(), &mut is_any_late);
            tokens.map(|token| queue.push(token)).count() > 0
        });
        if moved || is_any_late {
            self.announce();
        }
        moved
    }

    /// Takes one process from those that a thread of a stopped host keeps to itself; queues the others, and its vacant
    /// slots, without an announcement of these.
    pub(crate) fn take_local(&'static self, thread: &Worker) -> Option<Token> {
        let mut is_any_late = false;
        let mut tokens = self.with_input(thread.local.revoke(), &mut is_any_late);
        let first = tokens.next();
        tokens.for_each(|token| self.push_global(token));
        first
    }

    /// Evicts the processes that were kept. Returns the tokens of those that have something to do. Notes whether a
    /// vacant slot was queued, of those that are given back.
    fn with_input(&self, revoked: Option<Revoked>, is_any_late: &mut bool) -> impl Iterator<Item = Token> {
        let Revoked { run_next, cached, vacant } = revoked.unwrap_or_default();
        for token in vacant {
            *is_any_late |= self.queue_unless_empty(token);
        }
        let left = cached.into_iter().filter_map(|token| match token.evict() {
            Evicted::Parked => None,
            Evicted::HasInput(token) => Some(token),
            Evicted::HasEnded(token) => {
                self.late_slots.push(LateSlot::Listed(token));
                *is_any_late = true;
                None
            }
        });
        run_next.into_iter().chain(left)
    }
}
