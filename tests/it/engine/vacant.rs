//! Slots of ended processes that a thread keeps for its next spawns. Whatever that thread does, joins, monitors and
//! links of the ended processes are answered.
//!
//! Not covered: which slots are kept, and messages that reach them late (tested in `engine/context/vacant.rs`). If a
//! tick of the watchdog comes between a process's last check here and its blocking call, the thread keeps no slot, and
//! the test shows nothing.

use postroom::prelude::*;
use postroom::{Host, block_in_place};
use postroom_tests::partner::Trapper;
use postroom_tests::{Latch, act, idle_for_ever, soon};
use std::sync::mpsc::{Sender, channel};

/// The number of processes that end on the thread.
const ENDED: usize = 20;

/// Spawns processes that end in their first step.
fn spawn_brief(host: Host) -> Vec<Pid> {
    let brief = || {
        act(|_, out| {
            out.done();
            Ok(())
        })
    };
    (0..ENDED).map(|_| host.spawn_process(brief()).start().expect("it starts")).collect()
}

/// The way in which the thread blocks.
#[derive(Clone, Copy, Debug)]
enum Way {
    Async,
    InPlace,
    Join(Pid),
}

/// A process that lets others end on its thread, so that the thread keeps their slots. Then the process blocks.
#[process]
struct Keeper {
    way: Way,
    /// The number of live processes before the spawns.
    alive: u64,
    ended: Vec<Pid>,
    told: Sender<Vec<Pid>>,
    until: Latch,
}

#[process]
impl Keeper {
    #[entry]
    fn begin(&mut self, ctx: &mut Context<Self>) {
        let host = ctx.host().expect("a host");
        self.alive = host.statistics().processes.live;
        self.ended = spawn_brief(host);
        ctx.address().go_on().send().expect("it lives");
    }

    #[message]
    async fn go_on(&mut self, ctx: &mut Context<Self>) {
        // A process that is no longer alive may still be ending, and accept requests.
        let alive = ctx.host().expect("a host").statistics().processes.live;
        if alive > self.alive || self.ended.iter().any(|pid| pid.is_alive()) {
            ctx.address().go_on().send().expect("it lives");
            return;
        }
        let (told, ended, until) = (self.told.clone(), self.ended.clone(), self.until.clone());
        let block = move || {
            told.send(ended).expect("the test waits");
            until.wait();
        };
        match self.way {
            Way::Async => ctx.blocking(block).await,
            Way::InPlace => block_in_place(block),
            Way::Join(pid) => {
                self.told.send(self.ended.clone()).expect("the test waits");
                pid.join().wait();
            }
        }
    }
}

/// Catches: a join, monitor or link of an ended process that is not answered before the thread that keeps the slot has
/// stopped blocking.
#[test]
fn ends_are_told_while_the_thread_that_keeps_the_slots_blocks() {
    soon(|| {
        for workers in [1, 2] {
            let runtime = Runtime::builder().workers(workers).build().unwrap();
            let other = runtime.spawn_process(idle_for_ever()).start().unwrap();
            for way in [Way::Join(other), Way::Async, Way::InPlace] {
                let ((told, ended), until) = (channel(), Latch::new());
                let keeper = Keeper { way, alive: 0, ended: Vec::new(), told, until: until.clone() };
                let keeper = runtime.spawn(keeper).begin().unwrap();
                let ended = ended.recv().unwrap();
                let (trapper, reports) = Trapper::reporting();
                let trapper = runtime.spawn(trapper).serve().unwrap();
                for pid in &ended {
                    assert_eq!(pid.join().wait(), ExitReason::NoProcess, "{way:?}");
                    trapper.watch(*pid).wait().unwrap();
                    assert_eq!(reports.down().reason, ExitReason::NoProcess, "{way:?}");
                    trapper.link(*pid).wait().unwrap();
                    assert_eq!(reports.exit().reason, ExitReason::NoProcess, "{way:?}");
                }
                until.open();
                other.kill();
                let end = keeper.pid().join();
                keeper.pid().stop();
                assert_eq!(end.wait(), ExitReason::Normal);
            }
        }
    });
}
