//! Tests of stopping and restarting one child by request.

use super::*;

#[test]
fn a_child_that_is_stopped_stays_down_and_its_end_is_no_failure() {
    let mut bench = Bench::running(Strategy::OneForOne, 2);
    assert_eq!(bench.on(SupervisorEvent::StopChild(Id(0))), [SupervisorAction::Ask(Id(0))]);
    assert_eq!(bench.ended(0, crash()), [SupervisorAction::Over(Id(0))]);
    assert_eq!((bench.phase(1), bench.plan.restarts(Id(0))), (Some(Phase::Running), 0));
}

#[test]
fn a_dynamic_child_that_is_stopped_is_forgotten() {
    let mut bench = Bench::running(Strategy::Dynamic, 1);
    bench.on(SupervisorEvent::StopChild(Id(0)));
    assert_eq!(bench.ended(0, ExitReason::Shutdown), [SupervisorAction::Forgotten(Id(0))]);
    assert_eq!(bench.phase(0), None);
    assert_eq!(bench.on(SupervisorEvent::StopChild(Id(0))), []);
    assert_eq!(bench.on(SupervisorEvent::RestartChild(Id(0))), []);
    assert_eq!(bench.ended(0, crash()), []);
}

#[test]
fn a_restart_by_request_is_no_failure_and_waits_for_no_delay() {
    let mut bench = Bench::running(Strategy::OneForOne, 1);
    assert_eq!(bench.on(SupervisorEvent::RestartChild(Id(0))), [SupervisorAction::Ask(Id(0))]);
    assert_eq!(bench.ended(0, ExitReason::Shutdown), [SupervisorAction::Start(Id(0))]);
    bench.on(SupervisorEvent::Started(Id(0)));
    assert_eq!(bench.plan.restarts(Id(0)), 0);
    bench.ended(0, crash());
    assert_eq!(bench.on(SupervisorEvent::RestartChild(Id(0))), [SupervisorAction::Start(Id(0))]);
    assert!(bench.timers.is_empty());
}

#[test]
fn the_last_of_several_requests_holds() {
    let mut bench = Bench::running(Strategy::OneForOne, 1);
    bench.on(SupervisorEvent::StopChild(Id(0)));
    bench.on(SupervisorEvent::RestartChild(Id(0)));
    assert_eq!(bench.ended(0, ExitReason::Shutdown), [SupervisorAction::Start(Id(0))]);
    assert_eq!(bench.on(SupervisorEvent::StopChild(Id(0))), [], "while it starts");
    assert_eq!(bench.on(SupervisorEvent::Started(Id(0))), [SupervisorAction::Ask(Id(0))]);
    assert_eq!(bench.ended(0, ExitReason::Shutdown), [SupervisorAction::Over(Id(0))]);
}

#[test]
fn stopping_what_waits_for_its_delay_ends_the_waiting() {
    let mut bench = Bench::running(Strategy::OneForOne, 1);
    bench.ended(0, crash());
    assert_eq!(bench.on(SupervisorEvent::StopChild(Id(0))), [SupervisorAction::Over(Id(0))]);
    assert!(bench.timers.is_empty());
}

#[test]
fn stopping_one_whose_first_start_fails_lets_those_after_it_start() {
    let mut bench = Bench::new(Strategy::OneForOne);
    let (a, b) = (bench.plan.add(permanent()), bench.plan.add(permanent()));
    bench.on(SupervisorEvent::Begin);
    bench.on(SupervisorEvent::StartFailed(a, crash()));
    assert_eq!(bench.on(SupervisorEvent::StopChild(a)), [SupervisorAction::Over(a), SupervisorAction::Start(b)]);
}

#[test]
fn a_wish_to_restart_comes_to_nothing_when_all_end() {
    let mut bench = Bench::running(Strategy::OneForOne, 1);
    bench.on(SupervisorEvent::RestartChild(Id(0)));
    bench.on(SupervisorEvent::StopAll(ExitReason::Normal));
    bench.on(SupervisorEvent::RestartChild(Id(0)));
    let end = SupervisorAction::Finished(SupervisorEnd::Asked(ExitReason::Normal));
    assert_eq!(bench.ended(0, ExitReason::Shutdown), [SupervisorAction::Over(Id(0)), end]);
}

#[test]
fn one_that_is_stuck_is_not_started_again_before_it_has_ended() {
    let mut bench = Bench::running(Strategy::OneForOne, 1);
    bench.on(SupervisorEvent::RestartChild(Id(0)));
    bench.due(child(0));
    assert_eq!(bench.due(child(0)), []);
    assert_eq!(bench.phase(0), Some(Phase::Stuck));
    assert_eq!(bench.on(SupervisorEvent::RestartChild(Id(0))), []);
    assert_eq!(bench.ended(0, ExitReason::Killed), [SupervisorAction::Start(Id(0))]);
}
