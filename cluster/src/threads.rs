//! The threads of a cluster, and the code that must not run on them.
//!
//! A node renews its lease, and receives from others, on its own threads. User code (a waker, the subscriber of the
//! log) may block, and a node whose driver waited for it would be fenced; so user code runs in a porter
//! (`node/porter.rs`) or on a notifier of the runtime. There are two exceptions, which run on a thread of the node: the
//! `Deserialize` of a message that arrives, and the `Serialize` of a message that waited for a session to open or is
//! passed on to a third node.

use postroom::__private::{ThreadKind, discard_panic, run_users_code};
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::thread::{Builder, JoinHandle};

/// Starts a thread of a cluster. A panic on the thread is a bug in this crate, and is logged.
pub fn spawn(name: &'static str, run: impl FnOnce() + Send + 'static) -> io::Result<JoinHandle<()>> {
    Builder::new().name(name.into()).spawn(move || {
        ThreadKind::Cluster.enter();
        if let Err(panic) = catch_unwind(AssertUnwindSafe(run)) {
            users_code(move || {
                tracing::error!(
                    target: "postroom", thread = name,
                    "a thread of the cluster panicked: what it did has ended"
                );
            });
            resume_unwind(panic);
        }
    })
}

/// Runs user code on this thread or, if this is a thread of a cluster, on a thread that does nothing else. A panic of
/// the job ends only the job.
pub(crate) fn users_code(job: impl FnOnce() + Send + 'static) {
    run_users_code(move || {
        if let Err(panic) = catch_unwind(AssertUnwindSafe(job)) {
            discard_panic(panic);
        }
    });
}
