//! The threads of a cluster, and what must not run on them.
//!
//! A node keeps its lease, and hears of others, by its own threads. Users' code (a waker, the subscriber of the log)
//! may block, and a node whose driver waited for it would be fenced; so it runs elsewhere: in a porter
//! (`node/porter.rs`), or on a notifier of the runtime. A type's `Deserialize` alone runs where its messages arrive,
//! and its `Serialize` where those are sent that have waited for a session to open or are passed on to a third node.

use postroom::__private::{ThreadKind, run_users_code};
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::thread::{Builder, JoinHandle};

/// Starts a thread of a cluster. That it panics is a fault of this crate, and is logged.
pub(crate) fn spawn(name: &'static str, run: impl FnOnce() + Send + 'static) -> io::Result<JoinHandle<()>> {
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

/// Runs users' code: here, or on a thread that does nothing else if this is a thread of a cluster. Its panic costs
/// nothing else.
pub(crate) fn users_code(job: impl FnOnce() + Send + 'static) {
    run_users_code(move || {
        if let Err(panic) = catch_unwind(AssertUnwindSafe(job)) {
            // Its drop may panic again.
            std::mem::forget(panic);
        }
    });
}
