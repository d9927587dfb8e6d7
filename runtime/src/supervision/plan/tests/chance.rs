//! Random worlds: children that start, fail, ignore their stop and get stuck, requests at any time, timers that fire at
//! any time. The invariants are checked after each event, on records that are independent of the plan.
//!
//! Not covered: the length of delays (see `restarts.rs`), and threads, which the plan does not use.

use super::*;
use crate::env::chance::Random;
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// The state of a child, recorded outside of the plan.
#[derive(Debug, Default)]
struct Seen {
    starting: bool,
    alive: bool,
    /// Whether this incarnation was cancelled or killed.
    cancelled: bool,
    /// Whether it was killed, and the time to wait for its end has passed.
    given_up_on: bool,
    /// Whether its stop or restart was requested. If so, the order of stops does not apply.
    requested: bool,
    known: bool,
}

struct World {
    plan: SupervisorPlan,
    strategy: Strategy,
    most: u32,
    within: Duration,
    now: Moment,
    seen: BTreeMap<Id, Seen>,
    timers: HashMap<TimerOf, (u64, bool)>,
    restarts: Vec<Moment>,
    finished: Option<SupervisorEnd>,
    random: Random,
}

impl World {
    fn new(seed: u64) -> Self {
        let mut random = Random::new(seed, 0);
        let strategy =
            [Strategy::OneForOne, Strategy::OneForAll, Strategy::RestForOne, Strategy::Dynamic][random.below(4)];
        let (most, within) = (random.below(6) as u32, ms([1, 50, 1_000, u64::MAX][random.below(4)]));
        let backoff = [
            Backoff::none(),
            Backoff::constant(ms(10)),
            Backoff::exponential(ms(1), ms(40)),
            Backoff::exponential(ms(5), ms(9)).jitter(1.0).reset_after(ms(3)),
        ];
        let backoff = backoff[random.below(4)].clone();
        let mut world = Self {
            plan: SupervisorPlan::new(strategy, Intensity::new(most, within), backoff),
            strategy,
            most,
            within,
            now: Moment::now(),
            seen: BTreeMap::new(),
            timers: HashMap::new(),
            restarts: Vec::new(),
            finished: None,
            random,
        };
        (0..world.random.below(6)).for_each(|_| world.add());
        world
    }

    fn add(&mut self) {
        let restart = [Restart::Permanent, Restart::Permanent, Restart::Transient, Restart::Temporary];
        let restart = restart[self.random.below(4)];
        let stop_within = [Duration::ZERO, ms(5), Duration::MAX][self.random.below(3)];
        let id = self.plan.add(ChildRules { restart, stop_within });
        self.seen.insert(id, Seen { known: true, ..Seen::default() });
    }

    fn happens(&mut self, event: SupervisorEvent) {
        let before: u64 = self.seen.keys().map(|id| self.plan.restarts(*id)).sum();
        let chance = self.random.next();
        let actions = self.plan.on(self.now, event, chance);
        let mut forgotten = BTreeSet::new();
        for action in actions {
            assert!(self.finished.is_none(), "{action:?} after the end");
            match action {
                SupervisorAction::Start(id) => {
                    self.starts_in_order(id);
                    let seen = self.seen.get_mut(&id).unwrap();
                    assert!(seen.known && !seen.alive && !seen.starting, "two of {id:?} at once");
                    *seen = Seen { known: true, starting: true, ..Seen::default() };
                }
                SupervisorAction::Ask(id) => {
                    self.stops_in_order(id);
                    let seen = self.seen.get_mut(&id).unwrap();
                    assert!(seen.alive && !seen.cancelled, "{id:?} is cancelled once per incarnation");
                    seen.cancelled = true;
                }
                SupervisorAction::Kill(id) => {
                    let cancelled = self.seen[&id].cancelled;
                    if !cancelled {
                        self.stops_in_order(id);
                    }
                    let seen = self.seen.get_mut(&id).unwrap();
                    assert!(seen.alive);
                    seen.cancelled = true;
                }
                SupervisorAction::Set { of, number, after } => {
                    self.timers.insert(of, (number, after == Duration::MAX));
                }
                SupervisorAction::Unset(of) => assert!(self.timers.remove(&of).is_some(), "{of:?} was not set"),
                SupervisorAction::Over(id) => assert!(!self.seen[&id].alive, "{id:?} is over and lives"),
                SupervisorAction::Forgotten(id) => {
                    assert!(!self.seen[&id].alive, "{id:?} is forgotten and lives");
                    self.seen.get_mut(&id).unwrap().known = false;
                    forgotten.insert(id);
                }
                SupervisorAction::Finished(end) => {
                    assert!(self.seen.values().all(|seen| !seen.alive && !seen.starting), "the end before theirs");
                    assert!(self.timers.is_empty(), "timers left at the end: {:?}", self.timers);
                    self.finished = Some(end);
                }
            }
        }
        let after: u64 = self.seen.keys().map(|id| self.plan.restarts(*id)).sum();
        if after > before {
            self.restarts.push(self.now);
            assert_eq!(after, before + 1, "one failure, one restart");
        }
        self.within_the_window();
    }

    /// Checks that there are at most `most` restarts in any window shorter than `within`.
    fn within_the_window(&self) {
        let recent = self.restarts.iter().filter(|&&moment| self.now.since(moment) < self.within).count();
        assert!(recent <= self.most as usize, "{recent} restarts within {:?}, {} allowed", self.within, self.most);
    }

    /// Called when a child is stopped. Checks that no later child is alive, except for those that were given up on or
    /// whose stop or restart was requested.
    fn stops_in_order(&self, id: Id) {
        if self.strategy == Strategy::Dynamic || self.seen[&id].requested {
            return;
        }
        let later: Vec<_> = self
            .seen
            .range(id..)
            .skip(1)
            .filter(|(_, seen)| seen.alive && !seen.given_up_on && !seen.requested)
            .collect();
        assert!(later.is_empty(), "{id:?} is stopped before {later:?}");
    }

    /// Checks that no earlier child is still starting when this one starts for the first time.
    fn starts_in_order(&self, id: Id) {
        let is_restart = !self.restarts.is_empty();
        if self.strategy == Strategy::Dynamic || is_restart || self.seen.values().any(|seen| seen.requested) {
            return;
        }
        assert!(self.seen.range(..id).all(|(_, seen)| !seen.starting), "{id:?} starts before those before it have");
    }

    fn one_of(&mut self, which: impl Fn(&Seen) -> bool) -> Option<Id> {
        let ids: Vec<Id> = self.seen.iter().filter(|(_, seen)| which(seen)).map(|(id, _)| *id).collect();
        if ids.is_empty() { None } else { Some(ids[self.random.below(ids.len())]) }
    }

    fn reason(&mut self) -> ExitReason {
        [ExitReason::Normal, ExitReason::Shutdown, ExitReason::Killed, crash()][self.random.below(4)].clone()
    }

    fn answer_start(&mut self, id: Id) {
        let works = self.random.below(4) > 0;
        let seen = self.seen.get_mut(&id).unwrap();
        (seen.starting, seen.alive) = (false, works);
        let event = if works { SupervisorEvent::Started(id) } else { SupervisorEvent::StartFailed(id, crash()) };
        self.happens(event);
    }

    fn end_one(&mut self, id: Id) {
        self.seen.get_mut(&id).unwrap().alive = false;
        let reason = self.reason();
        self.happens(SupervisorEvent::Ended(id, reason));
    }

    fn fire(&mut self, of: TimerOf) {
        let (number, _) = self.timers.remove(&of).unwrap();
        if let TimerOf::Child(id) = of
            && self.plan.phase(id) == Some(Phase::Killed)
        {
            self.seen.get_mut(&id).unwrap().given_up_on = true;
        }
        self.happens(SupervisorEvent::Due(of, number));
    }

    fn anything(&mut self) {
        self.now = self.now.after(ms(self.random.below(8) as u64));
        match self.random.below(20) {
            0..=7 => {
                if let Some(id) = self.one_of(|seen| seen.starting) {
                    self.answer_start(id);
                }
            }
            8..=11 => {
                if let Some(id) = self.one_of(|seen| seen.alive) {
                    self.end_one(id);
                }
            }
            12..=15 => {
                let mut due: Vec<_> = self
                    .timers
                    .iter()
                    .filter(|(_, (_, never))| !never)
                    .map(|(of, (number, _))| (*number, *of))
                    .collect();
                due.sort_by_key(|(number, _)| *number);
                if !due.is_empty() {
                    let (_, of) = due[self.random.below(due.len())];
                    self.fire(of);
                }
            }
            16 | 17 => {
                if let Some(id) = self.one_of(|seen| seen.known) {
                    self.seen.get_mut(&id).unwrap().requested = true;
                    let stop = self.random.below(2) == 0;
                    self.happens(if stop { SupervisorEvent::StopChild(id) } else { SupervisorEvent::RestartChild(id) });
                }
            }
            18 if self.strategy == Strategy::Dynamic && !self.plan.is_ending() => {
                self.add();
                self.happens(SupervisorEvent::Begin);
            }
            // A late event, or one that was never requested.
            _ => {
                let id = Id(self.random.below(8) as u64);
                let dead = self.seen.get(&id).is_none_or(|seen| !seen.alive && !seen.starting);
                if dead {
                    self.happens(SupervisorEvent::Ended(id, crash()));
                }
                let number = self.random.below(50) as u64;
                if self.timers.values().all(|timer| timer.0 != number) {
                    self.happens(SupervisorEvent::Due(TimerOf::Child(id), number));
                }
            }
        }
    }

    /// Completes all pending events. Returns whether the world came to rest.
    fn comes_to_rest(&mut self) -> bool {
        for _ in 0..10_000 {
            if let Some(id) = self.one_of(|seen| seen.starting) {
                let seen = self.seen.get_mut(&id).unwrap();
                (seen.starting, seen.alive) = (false, true);
                self.happens(SupervisorEvent::Started(id));
            } else if let Some(id) = self.one_of(|seen| seen.alive && seen.cancelled) {
                self.end_one(id);
            } else if let Some(of) = self.timers.iter().find(|(_, (_, never))| !never).map(|(of, _)| *of) {
                self.fire(of);
            } else {
                return true;
            }
        }
        false
    }
}

/// Checks a world at rest: every child runs or is over, and no timer is left.
fn is_at_rest(world: &World) {
    for (id, seen) in world.seen.iter().filter(|(_, seen)| seen.known) {
        let phase = world.plan.phase(*id);
        let fits = if seen.alive { phase == Some(Phase::Running) } else { phase == Some(Phase::Over) };
        assert!(fits, "{id:?} is {phase:?}, {seen:?}");
    }
    assert!(world.timers.is_empty(), "{:?}", world.timers);
}

#[test]
fn whatever_happens_no_two_lives_overlap_stops_are_in_reverse_order_and_restarts_within_the_window() {
    let (mut gave_up, mut asked) = (0, 0);
    for seed in 0..4_000 {
        let mut world = World::new(seed);
        world.happens(SupervisorEvent::Begin);
        let rounds = world.random.below(120);
        for _ in 0..rounds {
            if world.finished.is_some() {
                break;
            }
            world.anything();
        }
        if world.finished.is_none() {
            assert!(world.comes_to_rest(), "seed {seed} does not come to rest");
            if world.finished.is_none() {
                is_at_rest(&world);
                world.happens(SupervisorEvent::StopAll(ExitReason::Normal));
                assert!(world.comes_to_rest(), "seed {seed} does not end");
            }
        }
        match world.finished {
            Some(SupervisorEnd::GaveUp { .. }) => gave_up += 1,
            Some(SupervisorEnd::Asked(_)) => asked += 1,
            None => panic!("seed {seed} has not finished"),
        }
    }
    // Both outcomes must occur.
    assert!(gave_up > 400 && asked > 400, "{gave_up} gave up, {asked} were asked");
}
