//! The properties that must hold, and the search of all states.

use crate::links::Links;
use crate::world::{Act, COUNT, Event, Index, MonitorState, Why, World, is_unlinking};
use stateright::{Checker, HasDiscoveries, Model, Property};
use std::time::Instant;

/// The number of messages in flight at once that some state of each scenario must reach.
const IN_FLIGHT: usize = 8;

/// The initial state, and the acts that processes may perform.
#[derive(Clone)]
pub(crate) struct Scenario {
    pub(crate) start: World,
    pub(crate) allowed: &'static [ActKind],
    /// Whether all three processes are in the same position at the start. Then the first act is always the first
    /// process's, towards the second, which leaves a sixth of the states.
    pub(crate) is_symmetric: bool,
    /// A planted fault: notices are received ahead of messages that were sent before them.
    pub(crate) notices_overtake: bool,
    /// A planted fault: the messages of one sender in the control lane are received in any order.
    pub(crate) control_is_unordered: bool,
}

/// A kind of act.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ActKind {
    Link,
    Watch,
    Trap,
    Kill,
    Finish,
    Fail,
}

impl Scenario {
    fn acts(&self, world: &World, process: Index, acts: &mut Vec<Act>) {
        for kind in self.allowed {
            let others = (0..COUNT).filter(|other| *other != process);
            match kind {
                ActKind::Link => acts.extend(others.flat_map(|other| [Act::Link(other), Act::Unlink(other)])),
                ActKind::Watch => {
                    acts.extend(others.map(Act::Watch));
                    let mine = &world.watches[process];
                    acts.extend(
                        mine.iter()
                            .filter(|(_, (_, watch))| *watch != MonitorState::Withdrawn)
                            .map(|(n, _)| Act::Unwatch(*n)),
                    );
                }
                ActKind::Trap => acts.push(Act::Trap),
                ActKind::Kill => acts.extend(others.map(Act::Kill)),
                ActKind::Finish => acts.push(Act::End(Why::Normal)),
                ActKind::Fail => acts.push(Act::End(Why::Failed)),
            }
        }
    }

    /// Returns whether a symmetric scenario may begin with this act.
    fn may_begin(&self, process: Index, act: Act) -> bool {
        let towards = match act {
            Act::Link(other) | Act::Unlink(other) | Act::Watch(other) | Act::Kill(other) => Some(other),
            Act::Unwatch(_) | Act::Trap | Act::End(_) => None,
        };
        process == 0 && towards.is_none_or(|other| other == 1)
    }
}

impl Model for Scenario {
    type State = World;
    type Action = Event;

    fn init_states(&self) -> Vec<World> {
        vec![self.start.clone()]
    }

    fn actions(&self, world: &World, events: &mut Vec<Event>) {
        if world.fault.is_some() {
            return;
        }
        for process in 0..COUNT {
            if world.acts > 0 && world.running(process).is_some() {
                let mut acts = Vec::new();
                self.acts(world, process, &mut acts);
                if self.is_symmetric && *world == self.start {
                    acts.retain(|act| self.may_begin(process, *act));
                }
                events.extend(acts.into_iter().map(|act| Event::Act(process, act)));
            }
            if matches!(world.states[process], crate::world::State::Exiting(..)) {
                events.push(Event::NotifyPartners(process));
            }
            for from in 0..COUNT {
                let queued = world.control[from][process].len();
                if world.is_dead(process) {
                    events.extend((0..queued).map(|place| Event::AnswerForDead(from, process, place)));
                } else {
                    let receivable = if self.control_is_unordered { queued } else { queued.min(1) };
                    events.extend((0..receivable).map(|place| Event::Receive(from, process, place)));
                }
                if !world.notices[from][process].is_empty() && (queued == 0 || self.notices_overtake) {
                    events.push(Event::ReceiveNotice(from, process));
                }
            }
        }
    }

    fn next_state(&self, world: &World, event: Event) -> Option<World> {
        let mut world = world.clone();
        match event {
            Event::Act(process, act) => {
                if !world.act(process, act) {
                    return None;
                }
            }
            Event::Receive(from, process, place) => world.receive(from, process, place),
            Event::ReceiveNotice(from, process) => world.receive_notice(from, process),
            Event::NotifyPartners(process) => world.notify_partners(process),
            Event::AnswerForDead(from, process, place) => world.answer_for_dead(from, process, place),
        }
        Some(world)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        fn at_rest(world: &World, holds: impl Fn(&World) -> bool) -> bool {
            !world.is_at_rest() || holds(world)
        }
        vec![
            Property::always("no message is delivered that should not be", |_, world: &World| world.fault.is_none()),
            Property::always("at rest both sides of a link agree", |_, world| at_rest(world, links_agree)),
            Property::always("at rest no process is bound to a dead one", |_, world| {
                at_rest(world, no_binding_to_the_dead)
            }),
            Property::always("at rest each monitor has fired, or is known to the monitored process", |_, world| {
                at_rest(world, monitors_are_kept)
            }),
            Property::always("at rest each partner of a failed process was notified", |_, world| {
                at_rest(world, |world| !world.failure_pending.as_flattened().contains(&true))
            }),
            Property::always("at rest each process that was killed, or whose owner has exited, is dead", |_, world| {
                at_rest(world, |world| (0..COUNT).all(|process| !world.killed[process] || world.is_dead(process)))
            }),
            Property::always("at rest owners know the processes that they own, and no others", |_, world| {
                at_rest(world, owners_know)
            }),
            Property::sometimes("many messages are in flight at once", |_, world: &World| {
                world.in_flight() >= IN_FLIGHT
            }),
            Property::sometimes("a process has exited, and the world is at rest", |_, world: &World| {
                world.is_at_rest() && (0..COUNT).any(|process| world.is_dead(process))
            }),
        ]
    }
}

/// Returns each running process, with its links.
fn running(world: &World) -> impl Iterator<Item = (Index, &Links<Index>)> {
    (0..COUNT).filter_map(|process| Some((process, world.running(process)?)))
}

fn links_agree(world: &World) -> bool {
    running(world).all(|(one, links)| {
        running(world).filter(|(other, _)| *other != one).all(|(other, theirs)| {
            let (mine, theirs) =
                (links.links().any(|linked| linked == other), theirs.links().any(|linked| linked == one));
            mine == theirs
        }) && (0..COUNT).all(|other| !is_unlinking(links, other))
    })
}

fn no_binding_to_the_dead(world: &World) -> bool {
    running(world).all(|(_, links)| {
        let bound = links.links().chain(links.all_watched()).chain(links.watchers()).chain(links.owned());
        bound.into_iter().all(|other| !world.is_dead(other))
    })
}

fn monitors_are_kept(world: &World) -> bool {
    running(world).all(|(process, links)| {
        let waits = |by: Index, of: Index| {
            let watches = world.watches[by].values();
            watches.filter(|(target, watch)| *target == of && *watch == MonitorState::Active).count()
        };
        let delivered = (0..COUNT).all(|other| !world.is_dead(other) || waits(process, other) == 0);
        let known = running(world).all(|(other, theirs)| {
            let watches = links.all_watched().filter(|watched| *watched == other).count();
            let knows = theirs.watchers().filter(|watcher| *watcher == process).count();
            watches == waits(process, other) && knows == watches
        });
        delivered && known
    })
}

fn owners_know(world: &World) -> bool {
    running(world).all(|(process, links)| {
        (0..COUNT).all(|other| {
            let owns = links.owned().any(|owned| owned == other);
            owns == (world.owns[process][other] && !world.is_dead(other))
        })
    })
}

/// Searches all states of the scenario, and prints their number.
pub(crate) fn check(scenario: Scenario) {
    let name = std::thread::current().name().unwrap_or("scenario").to_string();
    let began = Instant::now();
    let checker = scenario.checker().threads(2).finish_when(HasDiscoveries::AnyFailures).spawn_dfs().join();
    println!(
        "{name}: {} states, {} steps between them, {} deep, {:.1} s",
        checker.unique_state_count(),
        checker.state_count(),
        checker.max_depth(),
        began.elapsed().as_secs_f64()
    );
    checker.assert_properties();
}
