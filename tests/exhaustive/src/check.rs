//! What must hold, and the search through all that can happen.

use crate::links::Links;
use crate::world::{Act, COUNT, Event, Watch, Who, Why, World, is_unlinking};
use stateright::{Checker, HasDiscoveries, Model, Property};
use std::time::Instant;

/// How much is on its way at once in some state that each scenario reaches.
const IN_FLIGHT: usize = 8;

/// Where the processes begin, and what they may do.
#[derive(Clone)]
pub(crate) struct Scenario {
    pub(crate) start: World,
    pub(crate) may: &'static [May],
    /// Whether all three are in the same position at the start: then it is always the first that acts first, and
    /// towards the second, which leaves one of six.
    pub(crate) is_symmetric: bool,
    /// A planted fault: notices are heard ahead of what was said before them.
    pub(crate) notices_overtake: bool,
    /// A planted fault: what one says to another in the control lane is heard in any order.
    pub(crate) control_is_unordered: bool,
}

/// A kind of act.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum May {
    Link,
    Watch,
    Trap,
    Kill,
    Finish,
    Fail,
}

impl Scenario {
    fn acts(&self, world: &World, who: Who, acts: &mut Vec<Act>) {
        for may in self.may {
            let others = (0..COUNT).filter(|other| *other != who);
            match may {
                May::Link => acts.extend(others.flat_map(|other| [Act::Link(other), Act::Unlink(other)])),
                May::Watch => {
                    acts.extend(others.map(Act::Watch));
                    let mine = &world.watches[who];
                    acts.extend(
                        mine.iter().filter(|(_, (_, watch))| *watch != Watch::TakenBack).map(|(n, _)| Act::Unwatch(*n)),
                    );
                }
                May::Trap => acts.push(Act::Trap),
                May::Kill => acts.extend(others.map(Act::Kill)),
                May::Finish => acts.push(Act::End(Why::Normal)),
                May::Fail => acts.push(Act::End(Why::Failed)),
            }
        }
    }

    /// Whether the first act of all may be this one.
    fn may_begin(&self, who: Who, act: Act) -> bool {
        let towards = match act {
            Act::Link(other) | Act::Unlink(other) | Act::Watch(other) | Act::Kill(other) => Some(other),
            Act::Unwatch(_) | Act::Trap | Act::End(_) => None,
        };
        who == 0 && towards.is_none_or(|other| other == 1)
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
        for who in 0..COUNT {
            if world.acts > 0 && world.living(who).is_some() {
                let mut acts = Vec::new();
                self.acts(world, who, &mut acts);
                if self.is_symmetric && *world == self.start {
                    acts.retain(|act| self.may_begin(who, *act));
                }
                events.extend(acts.into_iter().map(|act| Event::Acts(who, act)));
            }
            if matches!(world.lives[who], crate::world::Life::Leaving(..)) {
                events.push(Event::Tells(who));
            }
            for from in 0..COUNT {
                let said = world.control[from][who].len();
                if world.is_dead(who) {
                    events.extend((0..said).map(|place| Event::Buries(from, who, place)));
                } else {
                    let heard = if self.control_is_unordered { said } else { said.min(1) };
                    events.extend((0..heard).map(|place| Event::Hears(from, who, place)));
                }
                if !world.notices[from][who].is_empty() && (said == 0 || self.notices_overtake) {
                    events.push(Event::Notices(from, who));
                }
            }
        }
    }

    fn next_state(&self, world: &World, event: Event) -> Option<World> {
        let mut world = world.clone();
        match event {
            Event::Acts(who, act) => {
                if !world.act(who, act) {
                    return None;
                }
            }
            Event::Hears(from, who, place) => world.receives(from, who, place),
            Event::Notices(from, who) => world.notices(from, who),
            Event::Tells(who) => world.tells(who),
            Event::Buries(from, who, place) => world.buries(from, who, place),
        }
        Some(world)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        fn at_rest(world: &World, holds: impl Fn(&World) -> bool) -> bool {
            !world.is_at_rest() || holds(world)
        }
        vec![
            Property::always("nothing is told that should not be", |_, world: &World| world.fault.is_none()),
            Property::always("at rest both sides of a link agree", |_, world| at_rest(world, links_agree)),
            Property::always("at rest nobody is bound to the dead", |_, world| {
                at_rest(world, nobody_is_bound_to_the_dead)
            }),
            Property::always("at rest each watch was told, or is known to the watched", |_, world| {
                at_rest(world, watches_are_kept)
            }),
            Property::always("at rest everyone has learnt of the failure of a partner", |_, world| {
                at_rest(world, |world| !world.owed.as_flattened().contains(&true))
            }),
            Property::always("at rest who was killed, or whose owner has ended, is dead", |_, world| {
                at_rest(world, |world| (0..COUNT).all(|who| !world.condemned[who] || world.is_dead(who)))
            }),
            Property::always("at rest owners know those they own, and no others", |_, world| {
                at_rest(world, owners_know)
            }),
            Property::sometimes("much is on its way at once", |_, world: &World| world.in_flight() >= IN_FLIGHT),
            Property::sometimes("somebody has ended, and nothing is left to do", |_, world: &World| {
                world.is_at_rest() && (0..COUNT).any(|who| world.is_dead(who))
            }),
        ]
    }
}

/// Each process that lives, with what it knows.
fn living(world: &World) -> impl Iterator<Item = (Who, &Links<Who>)> {
    (0..COUNT).filter_map(|who| Some((who, world.living(who)?)))
}

fn links_agree(world: &World) -> bool {
    living(world).all(|(one, links)| {
        living(world).filter(|(other, _)| *other != one).all(|(other, theirs)| {
            let (mine, theirs) =
                (links.links().any(|linked| linked == other), theirs.links().any(|linked| linked == one));
            mine == theirs
        }) && (0..COUNT).all(|other| !is_unlinking(links, other))
    })
}

fn nobody_is_bound_to_the_dead(world: &World) -> bool {
    living(world).all(|(_, links)| {
        let bound = links.links().chain(links.all_watched()).chain(links.watchers()).chain(links.owned());
        bound.into_iter().all(|other| !world.is_dead(other))
    })
}

fn watches_are_kept(world: &World) -> bool {
    living(world).all(|(who, links)| {
        let waits = |by: Who, of: Who| {
            let watches = world.watches[by].values();
            watches.filter(|(target, watch)| *target == of && *watch == Watch::Waits).count()
        };
        let told = (0..COUNT).all(|other| !world.is_dead(other) || waits(who, other) == 0);
        let known = living(world).all(|(other, theirs)| {
            let watches = links.all_watched().filter(|watched| *watched == other).count();
            let knows = theirs.watchers().filter(|watcher| *watcher == who).count();
            watches == waits(who, other) && knows == watches
        });
        told && known
    })
}

fn owners_know(world: &World) -> bool {
    living(world).all(|(who, links)| {
        (0..COUNT).all(|other| {
            let owns = links.owned().any(|owned| owned == other);
            owns == (world.owns[who][other] && !world.is_dead(other))
        })
    })
}

/// Searches all that can happen, and says how much that is.
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
