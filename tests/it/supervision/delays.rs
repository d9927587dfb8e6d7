//! Delays of a supervisor, on a virtual clock.

use super::*;
use postroom::supervision::{Child, ChildState};
use postroom::test::Clock;

fn still() -> (Clock, Runtime) {
    let clock = Clock::manual();
    let runtime = Runtime::builder().workers(2).clock(clock.clone()).build().unwrap();
    (clock, runtime)
}

/// Makes the child fail, and waits until its supervisor has handled the failure.
fn fails(runtime: &Runtime, child: Address<Worker>) {
    crash(child);
    runtime.until_idle().unwrap();
}

/// Returns the number of milliseconds after which the child is back.
fn comes_back_after(clock: &Clock, runtime: &Runtime, tree: &Tree) -> u64 {
    for milliseconds in 0..10_000 {
        if tree.children()[0].state == ChildState::Running {
            return milliseconds;
        }
        clock.advance(Duration::from_millis(1)).unwrap();
        runtime.until_idle().unwrap();
    }
    panic!("it does not come back: {tree}")
}

#[test]
fn delays_double_up_to_the_cap_and_a_stable_run_resets_them() {
    soon(|| {
        let ((clock, runtime), log) = (still(), Log::new());
        let backoff = Backoff::exponential(Duration::from_millis(50), Duration::from_millis(300)).jitter(0.0);
        let supervisor = Supervisor::one_for_one().intensity(u32::MAX, Duration::MAX).backoff(backoff);
        let tree = supervisor.child("a", worker("a", &log)).spawn(&runtime).unwrap();
        let a: Address<Worker> = tree.child("a").unwrap();
        for delay in [50, 100, 200, 300, 300] {
            fails(&runtime, a);
            assert_eq!(comes_back_after(&clock, &runtime, &tree), delay);
        }
        clock.advance(Duration::from_millis(299)).unwrap();
        fails(&runtime, a);
        assert_eq!(comes_back_after(&clock, &runtime, &tree), 300, "a millisecond short of a stable run");
        clock.advance(Duration::from_millis(300)).unwrap();
        fails(&runtime, a);
        assert_eq!(comes_back_after(&clock, &runtime, &tree), 50);
    });
}

#[test]
fn chance_shortens_delays_by_up_to_half_and_differently_each_time() {
    soon(|| {
        let ((clock, runtime), log) = (still(), Log::new());
        let backoff = Backoff::exponential(Duration::from_millis(400), Duration::from_millis(400));
        let supervisor = Supervisor::one_for_one().intensity(u32::MAX, Duration::MAX).backoff(backoff);
        let tree = supervisor.child("a", worker("a", &log)).spawn(&runtime).unwrap();
        let a: Address<Worker> = tree.child("a").unwrap();
        let delays: Vec<u64> = (0..12)
            .map(|_| {
                fails(&runtime, a);
                comes_back_after(&clock, &runtime, &tree)
            })
            .collect();
        assert!(delays.iter().all(|delay| (200..=400).contains(delay)), "{delays:?}");
        // By chance, all twelve delays are equal in one of 200^11 runs.
        assert!(delays.iter().any(|delay| *delay != delays[0]), "{delays:?}");
    });
}

#[test]
fn failures_far_enough_apart_are_never_too_many_and_close_ones_are() {
    soon(|| {
        let ((clock, runtime), log) = (still(), Log::new());
        let supervisor = Supervisor::one_for_one().intensity(2, Duration::from_secs(10)).backoff(Backoff::none());
        let tree = supervisor.child("a", worker("a", &log)).spawn(&runtime).unwrap();
        let (a, end) = (tree.child::<Worker>("a").unwrap(), tree.join());
        for _ in 0..20 {
            fails(&runtime, a);
            clock.advance(Duration::from_secs(5)).unwrap();
        }
        assert_eq!(restarts(&tree, "a"), 20);
        fails(&runtime, a);
        clock.advance(Duration::from_millis(4_999)).unwrap();
        // The second-to-last failure was 9.999 seconds ago.
        fails(&runtime, a);
        assert!(matches!(end.wait(), ExitReason::Error(_)));
    });
}

#[test]
fn a_child_has_its_whole_deadline_to_stop_and_no_more() {
    #[process]
    struct Stubborn;
    #[process]
    impl Stubborn {
        #[entry]
        fn serve(&mut self) {}
        #[signal]
        fn on_cancel(&mut self, _cancel: Cancel) {}
    }
    soon(|| {
        let (clock, runtime) = still();
        let stubborn = Child::new("stubborn", |spawn| spawn.of(Stubborn).serve());
        let tree = Supervisor::one_for_one().add(stubborn.stop_within(Duration::from_secs(5))).spawn(&runtime).unwrap();
        let (end, life) = (tree.join(), tree.child_pid("stubborn").unwrap().join());
        tree.stop();
        runtime.until_idle().unwrap();
        clock.advance(Duration::from_millis(4_999)).unwrap();
        runtime.until_idle().unwrap();
        assert_eq!(tree.children()[0].state, ChildState::Stopping);
        clock.advance(Duration::from_millis(1)).unwrap();
        assert_eq!((life.wait(), end.wait()), (ExitReason::Killed, ExitReason::Normal));
    });
}

#[test]
fn a_group_waits_for_the_delay_of_its_failed_child() {
    soon(|| {
        let ((clock, runtime), log) = (still(), Log::new());
        let supervisor = Supervisor::one_for_all().backoff(Backoff::constant(Duration::from_millis(70)));
        let tree = supervisor.child("a", worker("a", &log)).child("b", worker("b", &log)).spawn(&runtime).unwrap();
        fails(&runtime, tree.child("b").unwrap());
        assert_eq!(lines(&log)[2..], ["b ends", "a ends"]);
        assert_eq!(comes_back_after(&clock, &runtime, &tree), 70);
        assert_eq!(lines(&log)[4..], ["a starts", "b starts"]);
    });
}
