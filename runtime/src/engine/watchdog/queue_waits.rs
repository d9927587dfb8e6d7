//! Detects whether a process has waited in a queue for a whole tick. Uses no thread and no clock: the caller passes in
//! samples. They consist of numbers that queues and threads keep anyway, so there is no cost per process.
//!
//! * If a queue contained more processes at a tick than have been taken from it since, one of them has been in the
//!   queue since that tick, whatever the order in which they are taken.
//! * The number taken is an *upper bound*, so a reported wait is always a real one (except for a process that passes
//!   between two queues at the tick). For the deque of a thread, it counts one process for each step of the thread,
//!   since a time slice has one or more, and all that any thread has stolen. For the global queue and the inject
//!   queues, it counts the processes that threads have counted as taken from those, and all visits to shared queues
//!   (`find`).
//! * So a wait is overlooked only in a deque: behind time slices of many steps, or if processes are taken from one end
//!   while the process is at the other. A process with time slices of many steps uses them up, and is then in the
//!   global queue. For the remaining cases, a limit of awake threads is checked from time to time (`awake_limit`).

/// A queue at a tick.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct QueueSample {
    pub(crate) queued: usize,
    /// Upper bound on the number taken from it so far. Only differences matter.
    pub(crate) taken: u64,
}

/// The queues at the most recent tick, in an order that does not change.
#[derive(Debug, Default)]
pub(crate) struct QueueWaits {
    before: Vec<QueueSample>,
}

impl QueueWaits {
    /// Handles a tick. Returns whether a process has been in one of the queues since the previous tick.
    pub(crate) fn look(&mut self, queues: &[QueueSample]) -> bool {
        let has_waited = queues.iter().zip(&self.before).any(|(now, before)| {
            let taken = now.taken.saturating_sub(before.taken);
            before.queued as u64 > taken
        });
        self.before.clear();
        self.before.extend_from_slice(queues);
        has_waited
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn look(waits: &mut QueueWaits, queues: &[(usize, u64)]) -> bool {
        let queues: Vec<_> = queues.iter().map(|&(queued, taken)| QueueSample { queued, taken }).collect();
        waits.look(&queues)
    }

    #[test]
    fn what_is_not_taken_has_waited() {
        let mut waits = QueueWaits::default();
        assert!(!look(&mut waits, &[(0, 70), (0, 0)]));
        assert!(!look(&mut waits, &[(5, 75), (0, 0)]), "they came since");
        assert!(!look(&mut waits, &[(9, 80), (0, 0)]), "five have been taken of five");
        assert!(look(&mut waits, &[(4, 88), (0, 0)]), "eight of nine");
        assert!(!look(&mut waits, &[(0, 92), (0, 0)]));
    }

    #[test]
    fn each_queue_counts_for_itself() {
        let mut waits = QueueWaits::default();
        assert!(!look(&mut waits, &[(3, 0), (1, 0)]));
        assert!(look(&mut waits, &[(3, 1_000), (1, 0)]), "what is taken elsewhere is not taken there");
        assert!(!look(&mut waits, &[(3, 2_000), (1, 1), (8, 0)]), "a new thread has a new queue");
        assert!(look(&mut waits, &[(3, 3_000), (1, 2), (8, 7)]));
    }
}
