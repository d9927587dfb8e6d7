//! Blocking steps together with virtual clocks, with calls, and with a shutdown.

use super::{Running as Counted, blocker, with_workers};
use postroom::prelude::*;
use postroom::test::Clock;
use postroom_tests::{HOUR, Latch, eventually, soon};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::thread;
use std::time::Duration;

#[process]
struct Night {
    over: Arc<AtomicBool>,
    go: Latch,
}

#[process]
impl Night {
    #[entry]
    fn serve(&mut self) {}

    #[message]
    fn blocks(&mut self, ctx: &mut Context<Self>) {
        ctx.blocking(|| {
            self.go.wait();
            self.over.store(true, SeqCst);
        })
        .wait();
    }

    #[message]
    async fn sleeps(&mut self, ctx: &mut Context<Self>) {
        ctx.sleep(HOUR).await;
    }

    #[message]
    async fn waits_in_what_blocks(&mut self, ctx: &mut Context<Self>, other: Address<Night>) -> bool {
        ctx.blocking(|| other.sleeps().timeout(2 * HOUR).wait().is_ok()).await
    }
}

/// A virtual clock does not advance while a step blocks.
#[test]
fn a_process_that_blocks_is_not_at_rest() {
    soon(|| {
        let clock = Clock::manual();
        let runtime = Runtime::builder().workers(2).clock(clock.clone()).build().unwrap();
        let night = Night { over: Arc::default(), go: Latch::new() };
        let (over, go) = (night.over.clone(), night.go.clone());
        let night = runtime.spawn(night).serve().unwrap();
        night.blocks().send().unwrap();
        eventually(|| runtime.statistics().blocking.blocked == 1);
        let moves = thread::spawn(move || {
            clock.advance(HOUR).unwrap();
            over.load(SeqCst)
        });
        // In the meantime other processes start and exit.
        let others: Vec<_> = (0..20).map(|_| blocker(&runtime, &Counted::default())).collect();
        others.iter().for_each(|(.., go)| go.open());
        assert!(others.iter().all(|(other, ..)| other.block().timeout(Duration::MAX).wait() == Ok(7)));
        go.open();
        assert!(moves.join().unwrap(), "time was moved while something blocked");
    });
}

/// The step waits for another process, so nothing can happen until time advances.
#[test]
fn a_process_that_waits_for_another_in_blocking_code_is_at_rest() {
    soon(|| {
        let clock = Clock::manual();
        let runtime = Runtime::builder().workers(1).clock(clock.clone()).build().unwrap();
        let night = || runtime.spawn(Night { over: Arc::default(), go: Latch::new() }).serve().unwrap();
        let (waits, sleeps) = (night(), night());
        let call = thread::spawn(move || waits.waits_in_what_blocks(sleeps).timeout(3 * HOUR).wait());
        eventually(|| runtime.statistics().blocking.blocked == 1);
        clock.advance(HOUR).unwrap();
        assert_eq!(call.join().unwrap(), Ok(true));
    });
}

#[test]
fn a_shutdown_waits_for_blocking_code_and_names_its_process_if_it_does_not_return() {
    soon(|| {
        let runtime = with_workers(1);
        let (address, inside, go) = blocker(&runtime, &Counted::default());
        address.block().send().unwrap();
        inside.wait();
        thread::scope(|scope| {
            let shutdown = scope.spawn(move || runtime.shutdown_within(Duration::from_secs(20)).unwrap());
            go.open();
            assert!(!shutdown.join().unwrap().was_forced());
        });
        let runtime = with_workers(1);
        let (address, inside, go) = blocker(&runtime, &Counted::default());
        let end = address.pid().join();
        address.block().send().unwrap();
        inside.wait();
        let report = runtime.shutdown_within(Duration::from_millis(20)).unwrap();
        assert_eq!(report.stuck.iter().map(|left| left.pid).collect::<Vec<_>>(), [address.pid()]);
        go.open();
        assert_eq!(end.wait(), ExitReason::Killed);
    });
}

#[test]
fn runtimes_come_and_go_while_their_steps_block() {
    soon(|| {
        for round in 0..100 {
            let runtime = with_workers(1 + round % 3);
            let blockers: Vec<_> = (0..5).map(|_| blocker(&runtime, &Counted::default())).collect();
            blockers.iter().for_each(|(blocker, ..)| blocker.block().send().unwrap());
            blockers.iter().for_each(|(.., go)| go.open());
            let report = runtime.shutdown_within(HOUR).unwrap();
            assert!(!report.was_forced() && report.alive == 5, "{report}");
        }
    });
}
