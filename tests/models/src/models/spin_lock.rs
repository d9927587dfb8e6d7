//! A lock for a few moves (`sync/spin_lock.rs`): one thread at a time, which sees what the last one did.
//!
//! The lock is production code.
//!
//! Not covered: three threads. Two that wait could yield to each other forever.

use crate::check::check;
use crate::sync::{Arc, SpinLock};
use loom::thread;

#[test]
fn it_admits_one_thread_at_a_time() {
    check(3, &["yielded"], || {
        let lock = Arc::new(SpinLock::new(0_u32));
        // If two threads used the value at a time, or one after the other without seeing its change, loom would report
        // it.
        let theirs = lock.clone();
        let other = thread::spawn(move || theirs.with(|value| *value += 1));
        lock.with(|value| *value += 1);
        other.join().expect("no panic");
        assert_eq!(lock.with(|value| *value), 2);
    });
}
