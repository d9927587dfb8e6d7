//! The initial states, and the acts that processes may perform.

use crate::check::{ActKind, Scenario, check};
use crate::routing::Sessions;
use crate::world::{COUNT, World};

/// Returns the total number of acts that the processes may perform: `default` plus `POSTROOM_EXHAUSTIVE_MORE`.
fn acts(default: u8) -> u8 {
    let more = std::env::var("POSTROOM_EXHAUSTIVE_MORE").ok();
    let more = more.map_or(0, |more| more.parse().expect("POSTROOM_EXHAUSTIVE_MORE is a small whole number"));
    default.saturating_add_signed(more)
}

/// Returns a scenario with three unrelated processes.
fn strangers(acts: u8, allowed: &'static [ActKind]) -> Scenario {
    Scenario {
        start: World::new(self::acts(acts)),
        allowed,
        actors: &[0, 1, 2],
        is_symmetric: true,
        notices_overtake: false,
        control_is_unordered: false,
    }
}

/// Returns a scenario with three processes. Each is linked to the others and monitors them.
fn bound(acts: u8, allowed: &'static [ActKind]) -> Scenario {
    let mut start = World::new(self::acts(acts));
    for (one, other) in [(0, 1), (1, 2), (2, 0)] {
        start.bind_spawned(one, other, true, true, false);
        start.bind_spawned(other, one, true, true, false);
    }
    Scenario { start, is_symmetric: true, ..strangers(acts, allowed) }
}

/// Returns a scenario with three processes. The first owns the second, and the second owns the third.
fn owners(acts: u8, allowed: &'static [ActKind]) -> Scenario {
    let mut start = World::new(self::acts(acts));
    start.bind_spawned(0, 1, true, true, true);
    start.bind_spawned(1, 2, false, true, true);
    Scenario { start, is_symmetric: false, ..strangers(acts, allowed) }
}

/// Returns a scenario with three unrelated processes. The first two are on one node, and the third is on another. The
/// nodes have at most two sessions.
fn apart(acts: u8, actors: &'static [usize], refuses: bool, allowed: &'static [ActKind]) -> Scenario {
    let mut start = World::new(acts);
    start.sessions = Some(Box::new(Sessions::new([0, 0, 1], 2, refuses)));
    Scenario { start, actors, is_symmetric: false, ..strangers(acts, allowed) }
}

/// Returns the scenario with all processes trapping exits.
fn trapping(mut scenario: Scenario) -> Scenario {
    (0..COUNT).for_each(|process| scenario.start.trap(process));
    scenario
}

const ALL: &[ActKind] = &[ActKind::Link, ActKind::Watch, ActKind::Trap, ActKind::Kill, ActKind::Finish, ActKind::Fail];

/// The processes perform eight acts, so that two of them can unlink, link and unlink again at the same time.
#[test]
fn links() {
    check(strangers(8, &[ActKind::Link, ActKind::Fail]));
}

#[test]
fn monitors() {
    check(strangers(7, &[ActKind::Watch, ActKind::Finish]));
}

#[test]
fn all() {
    check(strangers(5, ALL));
}

#[test]
fn all_among_linked_processes() {
    check(bound(4, ALL));
}

#[test]
fn all_among_owned_processes() {
    check(owners(4, ALL));
}

#[test]
#[should_panic(expected = "no process is bound to a dead one")]
fn fault_a_link_is_received_after_the_exit_notice() {
    check(Scenario { notices_overtake: true, ..strangers(4, &[ActKind::Link, ActKind::Finish]) });
}

#[test]
#[should_panic(expected = "at rest")]
fn fault_a_monitor_request_is_received_after_its_withdrawal() {
    check(Scenario { control_is_unordered: true, ..strangers(4, &[ActKind::Watch, ActKind::Finish]) });
}

/// Both processes trap exits, so that they survive and link again in the next session.
#[test]
fn links_across_nodes() {
    check(trapping(apart(acts(4), &[0, 2], false, &[ActKind::Link])));
}

#[test]
fn refused_links_across_nodes() {
    check(trapping(apart(acts(3), &[0, 2], true, &[ActKind::Link])));
}

#[test]
fn failures_across_nodes() {
    check(apart(acts(3), &[0, 2], false, &[ActKind::Link, ActKind::Trap, ActKind::Fail]));
}

#[test]
fn monitors_across_nodes() {
    check(apart(acts(3), &[0, 2], true, &[ActKind::Watch, ActKind::Finish]));
}

/// The processes always perform two acts, since a search with three takes over ten minutes.
#[test]
fn all_across_nodes() {
    check(trapping(apart(2, &[0, 1, 2], false, &[ActKind::Link, ActKind::Watch, ActKind::Fail])));
}
