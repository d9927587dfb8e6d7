//! Tests of the strategies one-for-all and rest-for-one.

use super::*;

#[test]
fn all_are_stopped_in_reverse_order_and_started_again_in_order() {
    let mut bench = Bench::running(Strategy::OneForAll, 3);
    assert_eq!(bench.ended(1, crash()), [SupervisorAction::Ask(Id(2))]);
    assert_eq!(bench.delay(TimerOf::Group), Some(ms(100)));
    assert_eq!(bench.ended(2, ExitReason::Shutdown), [SupervisorAction::Ask(Id(0))]);
    assert_eq!(bench.ended(0, ExitReason::Shutdown), []);
    let actions = bench.due(TimerOf::Group);
    assert_eq!(bench.start_all(actions), [0, 1, 2]);
    assert_eq!([0, 1, 2].map(|id| bench.plan.restarts(Id(id))), [0, 1, 0], "one failed, the others were stopped");
    assert!(bench.timers.is_empty());
}

#[test]
fn with_rest_for_one_those_before_it_run_on() {
    let mut bench = Bench::running(Strategy::RestForOne, 4);
    assert_eq!(bench.ended(2, crash()), [SupervisorAction::Ask(Id(3))]);
    assert_eq!(bench.ended(3, crash()), []);
    let actions = bench.due(TimerOf::Group);
    assert_eq!(bench.start_all(actions), [2, 3]);
    assert_eq!([0, 1].map(|id| bench.phase(id)), [Some(Phase::Running); 2]);
}

#[test]
fn the_delay_may_pass_before_all_are_down() {
    let mut bench = Bench::running(Strategy::OneForAll, 2);
    assert_eq!(bench.ended(1, crash()), [SupervisorAction::Ask(Id(0))]);
    assert_eq!(bench.due(TimerOf::Group), []);
    let actions = bench.ended(0, ExitReason::Shutdown);
    assert_eq!(bench.start_all(actions), [0, 1]);
}

#[test]
fn what_fails_while_its_group_is_stopped_is_no_failure() {
    let mut bench = Bench::running(Strategy::OneForAll, 3);
    bench.ended(1, crash());
    assert_eq!(bench.ended(0, crash()), [], "it had not been asked");
    assert_eq!(bench.ended(2, crash()), []);
    assert_eq!([0, 1, 2].map(|id| bench.plan.restarts(Id(id))), [0, 1, 0]);
    let actions = bench.due(TimerOf::Group);
    assert_eq!(bench.start_all(actions), [0, 1, 2]);
}

#[test]
fn a_failure_before_the_group_makes_the_group_larger() {
    let mut bench = Bench::running(Strategy::RestForOne, 3);
    assert_eq!(bench.ended(2, crash()), []);
    assert_eq!(bench.ended(0, crash()), [SupervisorAction::Ask(Id(1))]);
    assert_eq!(bench.ended(1, ExitReason::Shutdown), []);
    let actions = bench.due(TimerOf::Group);
    assert_eq!(bench.start_all(actions), [0, 1, 2]);
    assert!(bench.timers.is_empty());
}

#[test]
fn a_start_that_fails_stops_the_group_again() {
    let mut bench = Bench::new(Strategy::OneForAll);
    let [a, b, c] = [0; 3].map(|_| bench.plan.add(permanent()));
    bench.on(SupervisorEvent::Begin);
    bench.on(SupervisorEvent::Started(a));
    assert_eq!(bench.on(SupervisorEvent::StartFailed(b, crash())), [SupervisorAction::Ask(a)]);
    assert_eq!(bench.phase(c.0), Some(Phase::Parked));
    assert_eq!(bench.ended(0, ExitReason::Shutdown), []);
    let actions = bench.due(TimerOf::Group);
    assert_eq!(bench.start_all(actions), [0, 1, 2]);
}

#[test]
fn a_transient_child_that_had_finished_starts_with_its_group_and_a_temporary_one_does_not() {
    let mut bench = Bench::new(Strategy::OneForAll);
    for restart in [Restart::Transient, Restart::Temporary, Restart::Temporary, Restart::Permanent] {
        bench.plan.add(of(restart));
    }
    bench.run_all();
    bench.ended(0, ExitReason::Normal);
    bench.ended(1, ExitReason::Normal);
    assert_eq!(bench.ended(3, crash()), [SupervisorAction::Ask(Id(2))]);
    assert_eq!(bench.ended(2, ExitReason::Shutdown), [SupervisorAction::Over(Id(2))]);
    let actions = bench.due(TimerOf::Group);
    assert_eq!(bench.start_all(actions), [0, 3]);
}

#[test]
fn a_temporary_child_that_fails_concerns_no_other() {
    let mut bench = Bench::new(Strategy::OneForAll);
    let (_, b) = (bench.plan.add(permanent()), bench.plan.add(of(Restart::Temporary)));
    bench.run_all();
    assert_eq!(bench.ended(1, crash()), [SupervisorAction::Over(b)]);
}

#[test]
fn what_was_stopped_by_request_stays_down_when_its_group_starts() {
    let mut bench = Bench::running(Strategy::OneForAll, 2);
    assert_eq!(bench.on(SupervisorEvent::StopChild(Id(0))), [SupervisorAction::Ask(Id(0))]);
    assert_eq!(bench.ended(0, ExitReason::Shutdown), [SupervisorAction::Over(Id(0))]);
    assert_eq!(bench.ended(1, crash()), []);
    let actions = bench.due(TimerOf::Group);
    assert_eq!(bench.start_all(actions), [1]);
    let actions = bench.on(SupervisorEvent::RestartChild(Id(0)));
    assert_eq!(bench.start_all(actions), [0]);
}

#[test]
fn a_child_that_someone_wants_started_while_its_group_is_down_starts_with_it() {
    let mut bench = Bench::running(Strategy::OneForAll, 2);
    bench.on(SupervisorEvent::StopChild(Id(0)));
    bench.ended(0, ExitReason::Shutdown);
    bench.ended(1, crash());
    assert_eq!(bench.on(SupervisorEvent::RestartChild(Id(0))), []);
    let actions = bench.due(TimerOf::Group);
    assert_eq!(bench.start_all(actions), [0, 1]);
}

#[test]
fn too_many_failures_of_a_group_end_the_supervisor() {
    let mut bench = Bench::with(Strategy::OneForAll, 1, ms(1_000), Backoff::none());
    (0..2).for_each(|_| {
        bench.plan.add(permanent());
    });
    bench.run_all();
    bench.ended(0, crash());
    let actions = bench.ended(1, ExitReason::Shutdown);
    assert_eq!(bench.start_all(actions), [0, 1]);
    assert_eq!(bench.ended(1, crash()), [SupervisorAction::Over(Id(1)), SupervisorAction::Ask(Id(0))]);
    let end = SupervisorEnd::GaveUp { child: Id(1), restarts: 0, reason: crash() };
    assert_eq!(bench.ended(0, ExitReason::Shutdown), [SupervisorAction::Over(Id(0)), SupervisorAction::Finished(end)]);
}
