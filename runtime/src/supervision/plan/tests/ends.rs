//! Tests of stopping children, and of the end of the supervisor.

use super::*;

#[test]
fn all_are_stopped_in_reverse_order_each_when_the_one_after_it_is_down() {
    let mut bench = Bench::running(Strategy::OneForOne, 3);
    assert_eq!(bench.on(SupervisorEvent::StopAll(ExitReason::Shutdown)), [SupervisorAction::Ask(Id(2))]);
    assert_eq!(bench.on(SupervisorEvent::StopAll(ExitReason::Normal)), [], "the first reason stands");
    assert_eq!(bench.ended(2, ExitReason::Shutdown), [SupervisorAction::Over(Id(2)), SupervisorAction::Ask(Id(1))]);
    assert_eq!(bench.ended(0, crash()), [SupervisorAction::Over(Id(0))], "it is not started again");
    let end = SupervisorEnd::Asked(ExitReason::Shutdown);
    assert_eq!(bench.ended(1, ExitReason::Shutdown), [SupervisorAction::Over(Id(1)), SupervisorAction::Finished(end)]);
    assert!(bench.timers.is_empty());
}

#[test]
fn dynamic_children_are_all_asked_at_once() {
    let mut bench = Bench::running(Strategy::Dynamic, 3);
    let asked = [2, 1, 0].map(|id| SupervisorAction::Ask(Id(id)));
    assert_eq!(bench.on(SupervisorEvent::StopAll(ExitReason::Normal)), asked);
    bench.ended(0, ExitReason::Shutdown);
    bench.ended(2, ExitReason::Shutdown);
    let end = SupervisorEnd::Asked(ExitReason::Normal);
    assert_eq!(
        bench.ended(1, ExitReason::Shutdown),
        [SupervisorAction::Forgotten(Id(1)), SupervisorAction::Finished(end)]
    );
}

#[test]
fn one_that_ignores_its_stop_is_killed_at_its_deadline_and_the_others_still_stop_in_order() {
    let mut bench = Bench::running(Strategy::OneForOne, 3);
    bench.on(SupervisorEvent::StopAll(ExitReason::Normal));
    assert_eq!(bench.delay(child(2)), Some(ms(1_000)));
    assert_eq!(bench.due(child(2)), [SupervisorAction::Kill(Id(2))]);
    assert_eq!(bench.ended(2, ExitReason::Killed), [SupervisorAction::Over(Id(2)), SupervisorAction::Ask(Id(1))]);
}

#[test]
fn one_that_does_not_end_of_the_kill_holds_the_others_up_for_a_while_and_the_end_for_as_long_as_it_lives() {
    let mut bench = Bench::running(Strategy::OneForOne, 2);
    bench.on(SupervisorEvent::StopAll(ExitReason::Normal));
    bench.due(child(1));
    assert_eq!(bench.delay(child(1)), Some(PATIENCE));
    assert_eq!(bench.due(child(1)), [SupervisorAction::Ask(Id(0))]);
    assert_eq!(bench.phase(1), Some(Phase::Stuck));
    assert_eq!(bench.ended(0, ExitReason::Shutdown), [SupervisorAction::Over(Id(0))]);
    let end = SupervisorEnd::Asked(ExitReason::Normal);
    assert_eq!(bench.ended(1, ExitReason::Killed), [SupervisorAction::Over(Id(1)), SupervisorAction::Finished(end)]);
}

#[test]
fn no_deadline_kills_at_once_and_the_longest_never() {
    let mut bench = Bench::new(Strategy::OneForOne);
    let never = bench.plan.add(ChildRules { stop_within: Duration::MAX, ..permanent() });
    let at_once = bench.plan.add(ChildRules { stop_within: Duration::ZERO, ..permanent() });
    bench.run_all();
    assert_eq!(bench.on(SupervisorEvent::StopAll(ExitReason::Normal)), [SupervisorAction::Kill(at_once)]);
    assert_eq!(bench.ended(1, ExitReason::Killed), [SupervisorAction::Over(at_once), SupervisorAction::Ask(never)]);
    assert_eq!(bench.delay(TimerOf::Child(never)), None);
}

#[test]
fn what_waits_for_its_delay_is_down_already() {
    for strategy in [Strategy::OneForOne, Strategy::OneForAll, Strategy::Dynamic] {
        let mut bench = Bench::running(strategy, 1);
        bench.ended(0, crash());
        assert_eq!(bench.timers.len(), 1);
        let actions = bench.on(SupervisorEvent::StopAll(ExitReason::Normal));
        assert_eq!(
            actions.last(),
            Some(&SupervisorAction::Finished(SupervisorEnd::Asked(ExitReason::Normal))),
            "{strategy:?}"
        );
        assert!(bench.timers.is_empty(), "{strategy:?}");
    }
}

#[test]
fn without_children_the_end_is_at_once_and_once() {
    let mut bench = Bench::new(Strategy::Dynamic);
    let end = SupervisorAction::Finished(SupervisorEnd::Asked(ExitReason::Normal));
    assert_eq!(bench.on(SupervisorEvent::StopAll(ExitReason::Normal)), [end]);
    assert_eq!(bench.on(SupervisorEvent::StopAll(ExitReason::Normal)), []);
}

#[test]
fn one_that_starts_while_all_end_is_stopped_when_it_has() {
    for strategy in [Strategy::OneForOne, Strategy::Dynamic] {
        let mut bench = Bench::new(strategy);
        let a = bench.plan.add(permanent());
        bench.on(SupervisorEvent::Begin);
        assert_eq!(bench.on(SupervisorEvent::StopAll(ExitReason::Normal)), []);
        assert_eq!(bench.on(SupervisorEvent::Started(a)), [SupervisorAction::Ask(a)]);
        let actions = bench.ended(0, ExitReason::Shutdown);
        assert_eq!(actions.last(), Some(&SupervisorAction::Finished(SupervisorEnd::Asked(ExitReason::Normal))));
    }
}

#[test]
fn a_timer_that_was_replaced_does_nothing_when_it_comes() {
    let mut bench = Bench::running(Strategy::OneForOne, 1);
    bench.ended(0, crash());
    let (late, _) = bench.timers[&child(0)];
    let actions = bench.on(SupervisorEvent::RestartChild(Id(0)));
    bench.start_all(actions);
    assert_eq!(bench.on(SupervisorEvent::Due(child(0), late)), []);
    bench.on(SupervisorEvent::StopAll(ExitReason::Normal));
    assert_eq!(bench.on(SupervisorEvent::Due(child(0), late)), []);
    assert_eq!(bench.phase(0), Some(Phase::Asked));
}
