//! The properties that must hold, and the search through all states.

use crate::links::protocol::Links;
use crate::routing::NODES;
use crate::world::{Act, COUNT, Event, Index, MonitorState, State, Why, World, is_unlinking};
use stateright::{Checker, HasDiscoveries, Model, Property};
use std::time::Instant;

/// Each scenario must reach some state with at least this many messages in flight at once. The first number is for one
/// node. The second is for two nodes, on which the processes perform fewer acts.
const IN_FLIGHT: [usize; NODES] = [8, 4];

/// The initial state, and the acts that processes may perform.
#[derive(Clone)]
pub(crate) struct Scenario {
    pub(crate) start: World,
    pub(crate) allowed: &'static [ActKind],
    /// The processes that perform acts. They act only on each other.
    pub(crate) actors: &'static [Index],
    /// Whether all three processes start in the same position. If so, the first act is always by the first process, and
    /// towards the second process if it is towards any. This reduces the number of states to a sixth.
    pub(crate) is_symmetric: bool,
    /// A planted fault: notices overtake messages that were sent before them.
    pub(crate) notices_overtake: bool,
    /// A planted fault: the messages of one sender in the control lane are received in arbitrary order.
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
            let others = self.actors.iter().copied().filter(|other| *other != process);
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

    /// Returns whether a symmetric scenario may start with this act.
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
            let is_idle = world.is_idle(process);
            if world.acts > 0 && is_idle && self.actors.contains(&process) && world.running(process).is_some() {
                let mut acts = Vec::new();
                self.acts(world, process, &mut acts);
                if self.is_symmetric && *world == self.start {
                    acts.retain(|act| self.may_begin(process, *act));
                }
                events.extend(acts.into_iter().map(|act| Event::Act(process, act)));
            }
            if is_idle && matches!(world.states[process], State::Exiting(..)) {
                events.push(Event::NotifyPartners(process));
            }
            for from in 0..COUNT {
                let queued = world.control[from][process].len();
                if world.is_dead(process) {
                    events.extend((0..queued).map(|place| Event::AnswerForDead(from, process, place)));
                } else if is_idle {
                    let receivable = if self.control_is_unordered { queued } else { queued.min(1) };
                    events.extend((0..receivable).map(|place| Event::Receive(from, process, place)));
                }
                let is_notified = is_idle && !world.notices[from][process].is_empty();
                if is_notified && (queued == 0 || self.notices_overtake) {
                    events.push(Event::ReceiveNotice(from, process));
                }
            }
        }
        if let Some(sessions) = &world.sessions {
            let mut between = Vec::new();
            sessions.events(&mut between);
            events.extend(between.into_iter().map(Event::BetweenNodes));
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
            Event::BetweenNodes(event) => world.between_nodes(event),
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
            Property::always("at rest nothing is bound across nodes without a session", |_, world| {
                at_rest(world, nothing_without_a_session)
            }),
            Property::always("at rest each link across nodes that has ended was told once", |_, world| {
                at_rest(world, ends_are_told)
            }),
            Property::always("at rest a node knows all that ends with the session", |_, world| {
                at_rest(world, ties_agree)
            }),
            Property::sometimes("many messages are in flight at once", |_, world: &World| {
                world.in_flight() >= IN_FLIGHT[usize::from(world.sessions.is_some())]
            }),
            Property::sometimes("the nodes are in their next session", |_, world: &World| {
                world.sessions.as_ref().is_none_or(|sessions| sessions.is_renewed())
            }),
            Property::sometimes(
                "a process has exited, if it may, and the world is at rest",
                |this: &Self, world: &World| {
                    let may_exit = this.allowed.iter().any(|kind| matches!(kind, ActKind::Finish | ActKind::Fail));
                    world.is_at_rest() && (!may_exit || (0..COUNT).any(|process| world.is_dead(process)))
                },
            ),
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

/// Returns each running process once for each process on the other node, paired with that process.
fn across(world: &World) -> impl Iterator<Item = (Index, &Links<Index>, Index)> {
    running(world).flat_map(move |(one, links)| {
        (0..COUNT).filter(move |other| world.elsewhere(one, *other).is_some()).map(move |other| (one, links, other))
    })
}

/// Returns the number of links and monitors between a process and another, in both directions.
fn bonds(links: &Links<Index>, other: Index) -> usize {
    links.links().chain(links.all_watched()).chain(links.watchers()).filter(|bound| *bound == other).count()
}

fn nothing_without_a_session(world: &World) -> bool {
    let is_connected = world.sessions.as_ref().is_none_or(|sessions| sessions.is_connected());
    is_connected || across(world).all(|(_, links, other)| bonds(links, other) == 0)
}

fn ends_are_told(world: &World) -> bool {
    across(world).all(|(one, links, other)| {
        let linked = links.links_with(other).count();
        world.elsewhere(one, other).is_none_or(|sessions| sessions.links(one, other) == linked)
    })
}

fn ties_agree(world: &World) -> bool {
    let Some(sessions) = &world.sessions else { return true };
    (0..NODES).all(|node| {
        let local = across(world).filter(|(one, ..)| sessions.of_node(node).any(|local| local == *one));
        let known: usize = local.map(|(_, links, other)| bonds(links, other)).sum();
        sessions.ties(node).is_none_or(|ties| ties >= known)
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
