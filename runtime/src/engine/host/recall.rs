//! Recalling the tokens that a thread keeps to itself: see `thread_cache/tokens`.

use super::Scheduler;
use super::late_slot::LateSlot;
use crate::engine::workers::worker::Worker;
use crate::slots::Token;
use crate::thread_cache::evict::Evicted;
use crate::thread_cache::tokens::Revoked;

impl Scheduler {
    /// Moves the tokens that a thread keeps to itself. The process in its run-next slot and cached processes with input
    /// go to the inject queue of the permit that `holder` has, or to the global queue if it has none; vacant slots are
    /// given back or, if something has arrived in them, queued to be [emptied](super::late_slots). Returns whether any
    /// process was moved. Runs no user code, since the watchdog calls this.
    ///
    /// In the global queue a process would be behind all others; the inject queue is visited next by the thread with
    /// the permit, and by all that search. The move is made while no thread can park, so that a process is in a queue
    /// again before its thread parks: otherwise the host would seem to be idle.
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

    /// Takes one of the processes that a thread of a stopped host keeps to itself. Queues the others. Gives its vacant
    /// slots back or, if something has arrived in them, queues them without an announcement.
    pub(crate) fn take_local(&'static self, thread: &Worker) -> Option<Token> {
        let mut is_any_late = false;
        let mut tokens = self.with_input(thread.local.revoke(), &mut is_any_late);
        let first = tokens.next();
        tokens.for_each(|token| self.push_global(token));
        first
    }

    /// Evicts the kept processes. Returns the tokens of those with input. Sets `is_any_late` if a vacant slot was
    /// queued instead of given back.
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
