//! Tests of the plan, event by event; `chance` (in `tests/chance.rs`) adds random events.

mod chance;
mod ends;
mod groups;
mod requests;
mod restarts;

use super::*;
use crate::exit::Panic;

pub(super) const fn ms(milliseconds: u64) -> Duration {
    Duration::from_millis(milliseconds)
}

pub(super) fn crash() -> ExitReason {
    ExitReason::Panic(Panic { message: "crash".into(), place: String::new() }.into())
}

pub(super) fn permanent() -> ChildRules {
    ChildRules { restart: Restart::Permanent, stop_within: ms(1_000) }
}

pub(super) fn of(restart: Restart) -> ChildRules {
    ChildRules { restart, ..permanent() }
}

/// A plan with a manual clock.
pub(super) struct Bench {
    pub(super) plan: SupervisorPlan,
    pub(super) now: Moment,
    /// The pending timers.
    pub(super) timers: std::collections::HashMap<TimerOf, (u64, Duration)>,
}

impl Bench {
    pub(super) fn new(strategy: Strategy) -> Self {
        Self::with(strategy, 3, ms(10_000), Backoff::exponential(ms(100), ms(800)).jitter(0.0))
    }

    pub(super) fn with(strategy: Strategy, most: u32, within: Duration, backoff: Backoff) -> Self {
        let plan = SupervisorPlan::new(strategy, Intensity::new(most, within), backoff);
        Self { plan, now: Moment::now(), timers: std::collections::HashMap::new() }
    }

    /// Makes a plan with `children` permanent children, all of which run.
    pub(super) fn running(strategy: Strategy, children: usize) -> Self {
        let mut bench = Self::new(strategy);
        (0..children).for_each(|_| {
            bench.plan.add(permanent());
        });
        bench.run_all();
        bench
    }

    /// Begins, and carries out all requested starts.
    pub(super) fn run_all(&mut self) {
        let actions = self.on(SupervisorEvent::Begin);
        self.start_all(actions);
    }

    /// Carries out the starts in these actions, and those that follow from them. Returns their order.
    pub(super) fn start_all(&mut self, actions: Vec<SupervisorAction>) -> Vec<u64> {
        let (mut actions, mut order) = (actions, Vec::new());
        while let Some(id) = actions.iter().find_map(|action| match action {
            SupervisorAction::Start(id) => Some(*id),
            _ => None,
        }) {
            actions.retain(|action| *action != SupervisorAction::Start(id));
            order.push(id.0);
            actions.extend(self.on(SupervisorEvent::Started(id)));
        }
        order
    }

    /// Passes an event to the plan. Returns the plan's actions, except for those about timers, which are applied to
    /// `timers`.
    pub(super) fn on(&mut self, event: SupervisorEvent) -> Vec<SupervisorAction> {
        let actions = self.plan.on(self.now, event, 0);
        let mut left = Vec::new();
        for action in actions {
            match action {
                SupervisorAction::Set { of, number, after } => {
                    self.timers.insert(of, (number, after));
                }
                SupervisorAction::Unset(of) => assert!(self.timers.remove(&of).is_some(), "{of:?} was not set"),
                other => left.push(other),
            }
        }
        left
    }

    pub(super) fn ended(&mut self, id: u64, reason: ExitReason) -> Vec<SupervisorAction> {
        self.on(SupervisorEvent::Ended(Id(id), reason))
    }

    /// Advances the clock until the timer for `of` is due.
    pub(super) fn due(&mut self, of: TimerOf) -> Vec<SupervisorAction> {
        let (number, after) = self.timers.remove(&of).expect("it is set");
        self.now = self.now.after(after);
        self.on(SupervisorEvent::Due(of, number))
    }

    pub(super) fn delay(&self, of: TimerOf) -> Option<Duration> {
        self.timers.get(&of).map(|timer| timer.1)
    }

    pub(super) fn phase(&self, id: u64) -> Option<Phase> {
        self.plan.phase(Id(id))
    }
}

pub(super) const fn child(id: u64) -> TimerOf {
    TimerOf::Child(Id(id))
}

#[test]
fn children_start_in_order_each_when_the_one_before_it_runs() {
    let mut bench = Bench::new(Strategy::OneForOne);
    let [a, b, c] = [0; 3].map(|_| bench.plan.add(permanent()));
    assert_eq!(bench.on(SupervisorEvent::Begin), [SupervisorAction::Start(a)]);
    assert_eq!(bench.on(SupervisorEvent::Begin), []);
    assert_eq!(bench.on(SupervisorEvent::Started(a)), [SupervisorAction::Start(b)]);
    assert_eq!(bench.on(SupervisorEvent::Started(b)), [SupervisorAction::Start(c)]);
    assert_eq!(bench.on(SupervisorEvent::Started(c)), []);
}

#[test]
fn a_first_start_that_fails_is_retried_as_any_other_failure_and_holds_those_after_it() {
    let mut bench = Bench::new(Strategy::OneForOne);
    let [a, b] = [0; 2].map(|_| bench.plan.add(permanent()));
    bench.on(SupervisorEvent::Begin);
    for delay in [100, 200, 400].map(ms) {
        assert_eq!(bench.on(SupervisorEvent::StartFailed(a, crash())), []);
        assert_eq!(bench.delay(child(0)), Some(delay));
        assert_eq!(bench.due(child(0)), [SupervisorAction::Start(a)]);
    }
    assert_eq!(bench.on(SupervisorEvent::Started(a)), [SupervisorAction::Start(b)]);
    assert_eq!(bench.plan.restarts(a), 3);
}

#[test]
fn a_first_start_that_fails_too_often_ends_the_supervisor() {
    let mut bench = Bench::with(Strategy::OneForOne, 0, ms(1), Backoff::none());
    let [a, b] = [0; 2].map(|_| bench.plan.add(permanent()));
    bench.on(SupervisorEvent::Begin);
    let end = SupervisorEnd::GaveUp { child: a, restarts: 0, reason: crash() };
    let actions = bench.on(SupervisorEvent::StartFailed(a, crash()));
    assert_eq!(actions, [SupervisorAction::Over(a), SupervisorAction::Over(b), SupervisorAction::Finished(end)]);
}

#[test]
fn a_temporary_child_that_cannot_start_is_over_and_the_next_one_starts() {
    let mut bench = Bench::new(Strategy::OneForOne);
    let (a, b) = (bench.plan.add(of(Restart::Temporary)), bench.plan.add(permanent()));
    bench.on(SupervisorEvent::Begin);
    assert_eq!(
        bench.on(SupervisorEvent::StartFailed(a, crash())),
        [SupervisorAction::Over(a), SupervisorAction::Start(b)]
    );
}

#[test]
fn dynamic_children_do_not_wait_for_each_other() {
    let mut bench = Bench::new(Strategy::Dynamic);
    let [a, b] = [0; 2].map(|_| bench.plan.add(permanent()));
    assert_eq!(bench.on(SupervisorEvent::Begin), [SupervisorAction::Start(a), SupervisorAction::Start(b)]);
    let c = bench.plan.add(permanent());
    assert_eq!(bench.on(SupervisorEvent::StartFailed(a, crash())), [SupervisorAction::Start(c)]);
}
