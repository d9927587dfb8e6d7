//! Very many timers that are due at the same time: the thread that fires them lets processes run in between.
//!
//! Not covered: how long other processes wait. That is measured by `benches/compare -- --probe`.

use postroom::Host;
use postroom::prelude::*;
use postroom_tests::face::builder;
use postroom_tests::{eventually, soon};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::time::{Duration, Instant};

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

    /// Sets timers that are all due at the same moment, `after` from now.
    #[message]
    fn set(&mut self, after: Duration) {
        let due = Instant::now() + after;
        for _ in 0..TIMERS {
            let after = due.saturating_duration_since(Instant::now());
            self.hearer.hear().send_after(after).expect("the hearer lives");
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

/// Sets timers that are due `after` from now, and returns the number of their messages that were handled while timers
/// were left. Returns `None` if some of the timers were due before all had been set.
fn heard_while_timers_were_left(after: Duration) -> Option<u64> {
    // The watchdog must not give the worker to another thread, however long the machine lets this one wait: the first
    // thread would keep the hearer until the next tick, and the second one could fire all timers meanwhile.
    let runtime = builder().workers(1).stall_limit(Duration::MAX).build().unwrap();
    let (heard, while_timers_were_left) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let hearer =
        Hearer { host: runtime.host(), heard: heard.clone(), while_timers_were_left: while_timers_were_left.clone() };
    // The mailbox is unbounded, since a timer's message to a full mailbox is a dead letter.
    let hearer = runtime.spawn(hearer).mailbox(Bound::Unbounded).serve().unwrap();
    let setter = runtime.spawn(Setter { hearer }).serve().unwrap();
    setter.set(after).wait().unwrap();
    let together = runtime.statistics().timers == TIMERS as usize;
    eventually(|| heard.load(SeqCst) == TIMERS);
    together.then(|| while_timers_were_left.load(SeqCst))
}

/// Mutation: in `engine/host/mod.rs`, `fire_timers`, do not decrement `left`.
#[test]
fn the_only_worker_runs_processes_before_it_has_fired_all_that_is_due() {
    soon(|| {
        // A busy machine may set the timers too slowly. Then there is another attempt, with more time.
        let mut afters = std::iter::successors(Some(Duration::from_millis(50)), |after| Some(*after * 2));
        let heard = afters.find_map(heard_while_timers_were_left).expect("an endless iterator");
        assert!(heard > 0, "all were fired before the first was heard");
    });
}
