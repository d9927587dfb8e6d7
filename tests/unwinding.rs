//! The first runtime of a program is started while a thread unwinds. There is no other test in this program, since the
//! panic hook is global.

use postroom::prelude::*;
use postroom_tests::watchdog::soon;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// A value that starts a runtime when it is dropped.
struct StartsAtDrop;

impl Drop for StartsAtDrop {
    fn drop(&mut self) {
        let runtime = Runtime::builder().workers(1).build().expect("it starts");
        assert!(runtime.shutdown().expect("not inside").is_clean());
    }
}

/// Catches: a runtime that changes the panic hook while its thread unwinds. The change would panic, and so abort the
/// program.
#[test]
fn a_runtime_is_started_and_shut_down_by_a_thread_that_unwinds() {
    let unwinding = || {
        let _paused = Runtime::builder().workers(1).paused().build().expect("it is built");
        let _starts = StartsAtDrop;
        panic!("an assertion of a test, for instance");
    };
    let panic = soon(move || catch_unwind(AssertUnwindSafe(unwinding))).map_err(|panic| panic.is::<&str>());
    assert!(matches!(panic, Err(true)));
}
