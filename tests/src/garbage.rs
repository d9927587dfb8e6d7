//! Garbage collection before memory is counted.

/// Frees the memory that the workers' queues have retired. `crossbeam-epoch` keeps each thread's garbage, in bags of 2
/// KB, until other threads have pinned enough times.
pub fn collect_garbage() {
    (0..1_000).for_each(|_| crossbeam_epoch::pin().flush());
}
