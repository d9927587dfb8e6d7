//! What lies about when memory is counted.

/// Frees what the queues of workers have given up: `crossbeam-epoch` keeps what a thread leaves behind, 2 KB at a time,
/// until other threads have passed by often enough.
pub fn collect_garbage() {
    (0..1_000).for_each(|_| crossbeam_epoch::pin().flush());
}
