//! The records of a host's threads: made when first needed, never moved, reused by later threads.
//!
//! The records are in segments that double in size, so that a record can be found by its index and never moves. The
//! lowest free record is used first (`permits`), and a loop over all records stops at the highest one in use.

use super::driver_state::DriverState;
use super::worker::Worker;
use crate::engine::watchdog::detector::StepId;
use crate::sync::{Arc, CachePadded, JoinHandle, OnceLock};

/// The size of the first segment.
const FIRST: usize = 8;

/// Number of segments. Together they have room for four million threads, more than a system supports.
const SEGMENTS: usize = 19;

type Segment = Box<[OnceLock<CachePadded<Worker>>]>;

/// A thread that the host has started, or a task whose polls do the work of a thread.
pub(crate) struct StartedThread {
    end: ThreadEnd,
    /// The record of the thread; the watchdog has none.
    record: Option<&'static Worker>,
}

enum ThreadEnd {
    Thread(JoinHandle<()>),
    Task(Arc<DriverState>),
}

impl StartedThread {
    pub(crate) fn of_thread(thread: JoinHandle<()>, record: Option<&'static Worker>) -> Self {
        Self { end: ThreadEnd::Thread(thread), record }
    }

    pub(crate) fn of_task(task: Arc<DriverState>, record: &'static Worker) -> Self {
        Self { end: ThreadEnd::Task(task), record: Some(record) }
    }

    pub(crate) fn has_ended(&self) -> bool {
        match &self.end {
            ThreadEnd::Thread(thread) => thread.is_finished(),
            ThreadEnd::Task(task) => task.has_ended(),
        }
    }

    /// Returns the user code that the thread is in: a step, the exit of a process, a task of the reactor, or the action
    /// of a timer. It may never return. (The watchdog runs no user code.)
    pub(crate) fn user_code(&self) -> Option<StepId> {
        self.record.and_then(Worker::user_code)
    }

    pub(crate) fn join(self) {
        // The thread contains panics of user code. A panic of the runtime itself was printed by the panic hook.
        if let ThreadEnd::Thread(thread) = self.end {
            let _ended = thread.join();
        }
    }
}

pub(crate) struct Workers {
    segments: [OnceLock<Segment>; SEGMENTS],
}

impl Workers {
    pub(crate) fn new() -> Self {
        Self { segments: [const { OnceLock::new() }; SEGMENTS] }
    }

    /// Returns the segment of an index, and the place in that segment.
    #[inline]
    fn place(thread: usize) -> (usize, usize) {
        let segment = (thread / FIRST + 1).ilog2() as usize;
        (segment, thread - FIRST * ((1 << segment) - 1))
    }

    #[inline]
    pub(crate) fn get(&self, thread: usize) -> Option<&Worker> {
        let (segment, place) = Self::place(thread);
        let record = self.segments.get(segment)?.get()?.get(place)?.get()?;
        Some(record)
    }

    /// Returns the record with this index, creating it if needed; `None` if the index is out of range.
    pub(crate) fn make(&self, thread: usize) -> Option<&Worker> {
        let (segment, place) = Self::place(thread);
        let segment_of = || (0..FIRST << segment).map(|_| OnceLock::new()).collect();
        let records = self.segments.get(segment)?.get_or_init(segment_of);
        let record: &Worker = records.get(place)?.get_or_init(|| CachePadded::new(Worker::new()));
        Some(record)
    }

    /// Returns the existing records with indices below `count`.
    pub(crate) fn first(&self, count: usize) -> impl Iterator<Item = (usize, &Worker)> {
        let record = |number| {
            let (segment, place) = Self::place(number);
            Some((number, self.segments.get(segment)?.get()?.get(place)?.get()))
        };
        (0..count).map_while(record).filter_map(|(number, record)| Some((number, &**record?)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_number_has_one_record_that_stays_where_it_is() {
        let threads = Workers::new();
        assert!(threads.get(0).is_none());
        let made: Vec<*const Worker> =
            (0..100).filter_map(|thread| threads.make(thread)).map(std::ptr::from_ref).collect();
        assert_eq!(made.len(), 100);
        for (thread, &record) in made.iter().enumerate() {
            assert!(threads.get(thread).is_some_and(|found| std::ptr::eq(found, record)));
            assert!(threads.make(thread).is_some_and(|found| std::ptr::eq(found, record)));
        }
        let found: Vec<usize> = threads
            .first(40)
            .map(|(number, record)| {
                assert!(std::ptr::eq(record, made[number]));
                number
            })
            .collect();
        assert_eq!(found, (0..40).collect::<Vec<_>>());
        assert!(threads.get(100).is_none() && threads.make(usize::MAX / 2).is_none());
        assert_eq!(
            (Workers::place(0), Workers::place(7), Workers::place(8), Workers::place(23), Workers::place(24)),
            ((0, 0), (0, 7), (1, 0), (1, 15), (2, 0))
        );
    }
}
