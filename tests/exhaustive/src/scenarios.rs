//! From where, and with what each process may do.

use crate::check::{May, Scenario, check};
use crate::world::World;

/// How much the processes may do in all, of their own accord; `POSTROOM_EXHAUSTIVE_MORE` is added to it.
fn acts(default: u8) -> u8 {
    let more = std::env::var("POSTROOM_EXHAUSTIVE_MORE").ok();
    let more = more.map_or(0, |more| more.parse().expect("POSTROOM_EXHAUSTIVE_MORE is a small whole number"));
    default.saturating_add_signed(more)
}

/// Three strangers.
fn strangers(acts: u8, may: &'static [May]) -> Scenario {
    Scenario {
        start: World::new(self::acts(acts)),
        may,
        is_symmetric: true,
        notices_overtake: false,
        control_is_unordered: false,
    }
}

/// Three of which each is linked to the others, and watches them.
fn bound(acts: u8, may: &'static [May]) -> Scenario {
    let mut start = World::new(self::acts(acts));
    for (one, other) in [(0, 1), (1, 2), (2, 0)] {
        start.born(one, other, true, true, false);
        start.born(other, one, true, true, false);
    }
    Scenario { start, may, is_symmetric: true, notices_overtake: false, control_is_unordered: false }
}

/// The first owns the second, and that one the third.
fn owners(acts: u8, may: &'static [May]) -> Scenario {
    let mut start = World::new(self::acts(acts));
    start.born(0, 1, true, true, true);
    start.born(1, 2, false, true, true);
    Scenario { start, may, is_symmetric: false, notices_overtake: false, control_is_unordered: false }
}

const ALL: &[May] = &[May::Link, May::Watch, May::Trap, May::Kill, May::Finish, May::Fail];

/// Eight acts: two processes can unlink, link and unlink again at once.
#[test]
fn links() {
    check(strangers(8, &[May::Link, May::Fail]));
}

#[test]
fn watches() {
    check(strangers(7, &[May::Watch, May::Finish]));
}

#[test]
fn all() {
    check(strangers(5, ALL));
}

#[test]
fn all_of_those_that_are_bound() {
    check(bound(4, ALL));
}

#[test]
fn all_of_those_that_own_each_other() {
    check(owners(4, ALL));
}

#[test]
#[should_panic(expected = "nobody is bound to the dead")]
fn fault_a_link_is_heard_after_the_notice_of_the_end() {
    check(Scenario { notices_overtake: true, ..strangers(4, &[May::Link, May::Finish]) });
}

#[test]
#[should_panic(expected = "at rest")]
fn fault_a_watch_is_heard_after_the_watcher_was_forgotten() {
    check(Scenario { control_is_unordered: true, ..strangers(4, &[May::Watch, May::Finish]) });
}
