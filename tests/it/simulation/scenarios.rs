//! The scenarios of the other tests in which processes race, in one file per folder. Each runs under 200 seeded
//! schedules, or under more with `POSTROOM_SEEDS=10000`. `sometimes!` marks the rare path that a scenario exercises,
//! and fails if no seed takes that path.
//!
//! Where a threaded test blocks a thread at a gate to force an order, a scenario lets the seed choose the order.
//!
//! Scenarios whose race does not exist in a simulation are left out:
//!
//! * sockets, and futures and timers of Tokio: `engine/reactor`, `engine/http`, `actor/futures`. They belong to the
//!   system;
//! * real blocking, user threads, and stalls: `engine/blocking`, `engine/stalls`, `engine/pinned`, and `call/moving`,
//!   where a caller continues on another thread;
//! * exact counts of steps, parks, steals and wakes: `engine/scheduling`, `engine/levels`, `engine/fairness`,
//!   `engine/deque`, and the counts in `process/waking` and `engine/bounds/suspension`. One thread plays all workers,
//!   and nothing sleeps or is stolen;
//! * the shutdown and drain of a runtime: `engine/shutdown`, `supervision/shutdown`, and what a shutdown discards in
//!   `call/delivered` and `pool/coming_and_going`. The runtime of a simulation ends after the test's body, and it is
//!   the only one;
//! * two runtimes that talk to each other: the messages between hosts in `links`, `names` and `registry`;
//! * a moment *within* the end of a process (a `close` or a drop that is delayed): in `names/holders`,
//!   `registry/groups` and `process/ends`. A turn is atomic; `tests/models` covers these moments;
//! * tests without a race: with only one process, or with a single order that the messages enforce.

mod call;
mod deadlock;
mod engine;
mod links;
mod names;
mod pool;
mod process;
mod registry;
mod supervision;
mod time;

use super::racers::{all, pause, race};
use postroom::Host;
use postroom::prelude::*;
use postroom::test::Sim;
use std::time::Duration;

/// A time that is longer than any scenario.
const LONG: Duration = Duration::from_secs(3600);

/// The time that several operations take, so that they end at the same moment.
const SOON: Duration = Duration::from_millis(5);

/// A process that sleeps.
#[process]
struct Nap;

#[process]
impl Nap {
    #[entry]
    async fn nap(&mut self, ctx: &mut Context<Self>, time: Duration) {
        ctx.sleep(time).await;
    }
}

async fn sleep(time: Duration) {
    let host = Host::current().expect("called by a process");
    host.spawn(Nap).nap(time).expect("it starts").await.expect("it ends");
}

/// Ends a process in one of three ways.
fn end(pid: Pid, way: u64) {
    match way % 3 {
        0 => pid.kill(),
        1 => pid.stop(),
        _ => pid.cancel("enough"),
    };
}
