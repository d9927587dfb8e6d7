//! Tests of failures: which exits count as failures, the delays of restarts, and the intensity limit.

use super::*;

#[test]
fn which_ends_of_which_kinds_are_failures() {
    for (restart, normal, failed) in
        [(Restart::Permanent, true, true), (Restart::Transient, false, true), (Restart::Temporary, false, false)]
    {
        for (reason, restarted) in [
            (ExitReason::Normal, normal),
            (ExitReason::Shutdown, normal),
            (ExitReason::Killed, failed),
            (crash(), failed),
        ] {
            let mut bench = Bench::new(Strategy::OneForOne);
            let a = bench.plan.add(of(restart));
            bench.run_all();
            let expected = if restarted { vec![] } else { vec![SupervisorAction::Over(a)] };
            assert_eq!(bench.ended(0, reason.clone()), expected, "{restart:?} {reason}");
            assert_eq!(bench.delay(child(0)).is_some(), restarted, "{restart:?} {reason}");
        }
    }
}

#[test]
fn delays_double_up_to_the_cap_and_a_stable_run_resets_them() {
    let mut bench =
        Bench::with(Strategy::OneForOne, u32::MAX, ms(1), Backoff::exponential(ms(100), ms(500)).jitter(0.0));
    bench.plan.add(permanent());
    bench.run_all();
    for delay in [100, 200, 400, 500, 500] {
        bench.now = bench.now.after(ms(499));
        bench.ended(0, crash());
        assert_eq!(bench.delay(child(0)), Some(ms(delay)));
        let actions = bench.due(child(0));
        bench.start_all(actions);
    }
    bench.now = bench.now.after(ms(500));
    bench.ended(0, crash());
    assert_eq!(bench.delay(child(0)), Some(ms(100)));
}

#[test]
fn without_a_delay_a_child_is_started_again_at_once() {
    let mut bench = Bench::with(Strategy::OneForOne, 3, ms(1_000), Backoff::none());
    let a = bench.plan.add(permanent());
    bench.run_all();
    assert_eq!(bench.ended(0, crash()), [SupervisorAction::Start(a)]);
}

#[test]
fn the_jitter_is_drawn_from_the_number_passed_in() {
    let mut plan =
        SupervisorPlan::new(Strategy::OneForOne, Intensity::new(3, ms(1)), Backoff::exponential(ms(1_024), ms(1_024)));
    let (now, a) = (Moment::now(), plan.add(permanent()));
    plan.on(now, SupervisorEvent::Begin, 0);
    let actions = plan.on(now, SupervisorEvent::StartFailed(a, crash()), 1 << 63);
    assert_eq!(actions, [SupervisorAction::Set { of: TimerOf::Child(a), number: 1, after: ms(768) }]);
}

#[test]
fn only_the_one_that_failed_is_restarted() {
    let mut bench = Bench::running(Strategy::OneForOne, 3);
    assert_eq!(bench.ended(1, crash()), []);
    assert_eq!(bench.due(child(1)), [SupervisorAction::Start(Id(1))]);
    assert_eq!([0, 2].map(|id| bench.phase(id)), [Some(Phase::Running); 2]);
}

#[test]
fn more_failures_than_the_window_allows_end_the_supervisor_with_the_last_reason() {
    let mut bench = Bench::running(Strategy::OneForOne, 3);
    for id in [0, 1, 0] {
        bench.ended(id, crash());
        let actions = bench.due(child(id));
        bench.start_all(actions);
    }
    // The fourth failure within ten seconds: the others are stopped in reverse order, and then the supervisor exits.
    assert_eq!(bench.ended(0, ExitReason::Killed), [SupervisorAction::Over(Id(0)), SupervisorAction::Ask(Id(2))]);
    assert_eq!(bench.ended(2, ExitReason::Shutdown), [SupervisorAction::Over(Id(2)), SupervisorAction::Ask(Id(1))]);
    let end = SupervisorEnd::GaveUp { child: Id(0), restarts: 2, reason: ExitReason::Killed };
    assert_eq!(bench.ended(1, ExitReason::Shutdown), [SupervisorAction::Over(Id(1)), SupervisorAction::Finished(end)]);
    assert!(bench.timers.is_empty());
}

#[test]
fn failures_far_enough_apart_are_never_too_many() {
    let mut bench = Bench::running(Strategy::OneForOne, 1);
    for _ in 0..100 {
        bench.now = bench.now.after(ms(3_400));
        assert_eq!(bench.ended(0, crash()), []);
        let actions = bench.due(child(0));
        bench.start_all(actions);
    }
    assert_eq!(bench.plan.restarts(Id(0)), 100);
}

#[test]
fn a_dynamic_child_that_failed_too_often_is_still_known_at_the_end() {
    let mut bench = Bench::with(Strategy::Dynamic, 0, ms(1), Backoff::none());
    let (a, b) = (bench.plan.add(permanent()), bench.plan.add(permanent()));
    bench.run_all();
    assert_eq!(bench.ended(0, crash()), [SupervisorAction::Over(a), SupervisorAction::Ask(b)]);
    let end = SupervisorEnd::GaveUp { child: a, restarts: 0, reason: crash() };
    assert_eq!(bench.ended(1, ExitReason::Shutdown), [SupervisorAction::Forgotten(b), SupervisorAction::Finished(end)]);
}
