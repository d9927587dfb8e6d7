//! Very many timers that are due at once: the thread that fires them lets processes run in between.
//!
//! Not covered: how long other processes wait, which `benches/compare -- --probe` measures.

use postroom::Host;
use postroom::prelude::*;
use postroom_tests::{eventually, soon};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::time::Duration;

const TIMERS: u64 = 2_000;

/// A process that sets timers for another one, all within one step.
#[process]
struct Setter {
    hearer: Address<Hearer>,
}

#[process]
impl Setter {
    #[entry]
    fn serve(&mut self) {}

    #[message]
    fn set(&mut self) {
        for _ in 0..TIMERS {
            self.hearer.hear().send_after(Duration::from_nanos(1)).expect("the hearer lives");
        }
    }
}

#[process]
struct Hearer {
    host: Host,
    heard: Arc<AtomicU64>,
    while_timers_were_left: Arc<AtomicU64>,
}

#[process]
impl Hearer {
    #[entry]
    fn serve(&mut self) {}

    #[message]
    fn hear(&mut self) {
        if self.host.statistics().timers > 0 {
            self.while_timers_were_left.fetch_add(1, SeqCst);
        }
        self.heard.fetch_add(1, SeqCst);
    }
}

/// Mutation: in `engine/host/mod.rs`, `fire_timers`, do not decrement `left`.
#[test]
fn the_only_worker_runs_processes_before_it_has_fired_all_that_is_due() {
    soon(|| {
        let runtime = Runtime::builder().workers(1).build().unwrap();
        let (heard, while_timers_were_left) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
        let hearer = Hearer {
            host: runtime.host(),
            heard: heard.clone(),
            while_timers_were_left: while_timers_were_left.clone(),
        };
        // Unbounded, since a timer's message to a full mailbox is a dead letter.
        let hearer = runtime.spawn(hearer).mailbox(Bound::Unbounded).serve().unwrap();
        runtime.spawn(Setter { hearer }).serve().unwrap().set().send().unwrap();
        eventually(|| heard.load(SeqCst) == TIMERS);
        assert!(while_timers_were_left.load(SeqCst) > 0, "all were fired before the first was heard");
    });
}
