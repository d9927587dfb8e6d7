//! The scenarios of the other tests in which processes race, each under 200 seeded schedules; one file for each folder.
//! `POSTROOM_SEEDS=10000` runs them with more. `sometimes!` marks the rare path that a scenario is about: one that no
//! seed meets fails.
//!
//! Where a threaded test holds a thread at a gate to force one order, a scenario has orders chosen by seed.
//!
//! Left out are the scenarios whose race a simulation does not have:
//!
//! * sockets, and futures and timers of Tokio: `engine/reactor`, `engine/http`, `actor/futures`. They are the system's;
//! * real blocking, threads of one's own, and stalls: `engine/blocking`, `engine/stalls`, `engine/pinned`, and
//!   `call/moving`, where a caller goes on with another thread;
//! * exact counts of steps, parks, thefts and wakes: `engine/scheduling`, `engine/levels`, `engine/fairness`,
//!   `engine/deque`, and what is counted in `process/waking` and `engine/bounds/holds`. One thread plays all workers,
//!   and nothing sleeps or is stolen;
//! * the shutdown and drain of a runtime: `engine/shutdown`, `supervision/shutdown`, and in `call/delivered` and
//!   `pool/coming_and_going` what a shutdown throws away. The runtime of a simulation ends after the test's body, and
//!   it can have no other;
//! * two runtimes that talk to each other: in `links`, `names` and `registry` what crosses hosts;
//! * a moment *within* the end of a process (a `close` or a drop that is held up): in `names/holders`,
//!   `registry/groups` and `process/ends`. A turn is one piece; `tests/models` has these;
//! * what has no race: one process, or one order that its messages prescribe.

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

/// Longer than anything here takes.
const LONG: Duration = Duration::from_secs(3600);

/// A time that several things take, so that they come to an end at one moment.
const SOON: Duration = Duration::from_millis(5);

/// Sleeps.
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
