//! Failing members: the backoff of their lanes, messages that wait during a backoff, and pools that give up.

use super::*;
use crate::pool::plan::failures::ENDS_WITHIN;

fn error() -> ExitReason {
    ExitReason::error("over the edge")
}

/// Makes a world with one lane and one member that has completed a message.
fn serving(rules: PoolRules) -> (World, Pid) {
    let mut world = World::new(rules, 1);
    world.arrive(0, 0).unwrap();
    let member = world.start();
    world.done(0);
    (world, member)
}

/// Catches: a member that has completed a message, or has failed at one, is always replaced at once.
#[test]
fn each_failure_after_the_first_waits_longer_also_of_members_that_have_served() {
    let (mut world, mut member) = serving(rules(1, 1));
    let mut pauses = vec![];
    for message in 1..=11 {
        world.arrive(0, message).unwrap();
        // The member fails while it handles the message.
        world.down(member);
        assert!(world.starts.is_empty());
        pauses.push(world.next_start().unwrap());
        member = world.start();
    }
    let expected = (0..11).map(|doublings| (FIRST * (1 << doublings)).min(LAST));
    assert_eq!(pauses, expected.collect::<Vec<_>>());
    assert_eq!(world.plan.statistics(PoolStatistics::default()).failed, 11);
}

/// Catches: a count of failures that is never reset, or that is reset by each success.
#[test]
fn a_stable_run_begins_the_delays_anew_and_a_shorter_one_does_not() {
    let (mut world, mut member) = serving(rules(1, 1));
    let mut pauses = vec![];
    for run in [Duration::ZERO, LAST - Duration::from_nanos(1), LAST, Duration::ZERO] {
        world.after(run);
        world.ends(member, &error());
        pauses.push(world.next_start().unwrap());
        member = world.start();
        world.arrive(0, 1).unwrap();
        world.done(0);
    }
    assert_eq!(pauses, [FIRST, FIRST * 2, FIRST, FIRST * 2]);
}

/// Catches: messages that start members during the delay, or that are refused or fail although a member will start.
#[test]
fn what_comes_while_a_lane_backs_off_waits_and_starts_nobody() {
    let (mut world, member) = serving(PoolRules { queue: 2, ..rules(0, 3) });
    world.ends(member, &error());
    for message in 1..=3 {
        world.arrive(0, message).unwrap();
    }
    // Two may wait, and the next member will take one at once.
    assert_eq!(world.arrive(0, 4), Err(PoolRefusal::Full));
    assert!(world.starts.is_empty() && world.failed.is_empty());
    assert_eq!(world.next_start(), Some(FIRST));
    world.start();
    assert_eq!(world.messages(), [0, 1]);
}

/// Catches: a delay that grows with the number of members instead of with the rounds.
#[test]
fn members_that_fail_together_are_one_round_and_all_come_back() {
    let mut world = World::new(rules(4, 4), 1);
    for _round in 0..2 {
        let members: Vec<Pid> = (0..4).map(|_| world.start()).collect();
        (0..4).for_each(|message| world.arrive(0, message).unwrap());
        (0..4).for_each(|place| world.done(place));
        members.into_iter().for_each(|member| world.ends(member, &error()));
        assert!(world.starts.is_empty());
        world.next_start().unwrap();
        assert_eq!(world.starts.len(), 4);
    }
    assert_eq!(world.now.since(world.began), FIRST + FIRST * 2);
}

/// Catches: a normal exit counts as a failure, or a normal exit before any completed message does not.
#[test]
fn a_normal_end_is_a_failure_only_of_a_member_that_was_done_with_nothing() {
    let (mut world, member) = serving(rules(1, 1));
    world.ends(member, &ExitReason::Normal);
    assert_eq!((world.starts.len(), world.plan.statistics(PoolStatistics::default()).failed), (1, 0));
    let idle = world.start();
    world.ends(idle, &ExitReason::Normal);
    assert_eq!((world.starts.len(), world.plan.statistics(PoolStatistics::default()).failed), (0, 1));
    assert_eq!(world.next_start(), Some(FIRST));
}

/// Catches: retired members that count as failures.
#[test]
fn members_that_are_let_go_do_not_fail_however_they_end() {
    let mut world = World::new(PoolRules { idle: Some(SECOND), intensity: (0, SECOND), ..rules(0, 1) }, 1);
    world.arrive(0, 0).unwrap();
    let member = world.start();
    world.done(0);
    world.after(SECOND);
    assert_eq!(world.stopped, [member]);
    world.ends(member, &error());
    assert_eq!((world.given_up.len(), world.plan.statistics(PoolStatistics::default()).failed), (0, 0));
}

/// Catches: a pool that never gives up, or that gives up without failing waiting messages, ending its members, exiting,
/// or refusing messages.
#[test]
fn one_failure_too_many_and_the_pool_gives_up() {
    let mut world = World::new(PoolRules { intensity: (2, SECOND), ..rules(2, 2) }, 1);
    let (mut first, second) = (world.start(), world.start());
    for _ in 0..2 {
        world.ends(first, &error());
        world.next_start().unwrap();
        first = world.start();
    }
    for message in 0..4 {
        world.arrive(0, message).unwrap();
    }
    assert_eq!(world.plan.statistics(PoolStatistics::default()).waiting, 2);
    world.down(first);
    let reason = ExitReason::error(PoolGaveUp { most: 2, within: SECOND, reason: ExitReason::Killed });
    assert_eq!((world.failed.clone(), world.told.clone()), (vec![2, 3], Some(reason.clone())));
    assert_eq!(world.given_up, [reason]);
    assert_eq!((world.cancelled.clone(), world.killed.len()), (vec![second], 0));
    assert_eq!(world.arrive(0, 9), Err(PoolRefusal::Draining));
    assert!(world.starts.is_empty());
    // The other member does not exit.
    world.after(ENDS_WITHIN - Duration::from_nanos(1));
    assert!(world.killed.is_empty() && world.over == 0);
    world.after(Duration::from_nanos(1));
    assert_eq!((world.killed.clone(), world.over), (vec![second], 0));
    world.down(second);
    assert_eq!((world.over, world.plan.due(), world.plan.statistics(PoolStatistics::default()).failed), (1, None, 3));
}

/// Catches: a killed or cancelled pool that stops its idle members before they get the reason, so that they end
/// normally.
#[test]
fn a_pool_that_ends_for_a_reason_stops_no_member_before_it_drains() {
    let mut world = World::new(rules(2, 2), 1);
    let members = [world.start(), world.start()];
    world.arrive(0, 0).unwrap();
    assert_eq!(world.plan.end_with(ExitReason::Killed), Vec::<u32>::new());
    assert_eq!(world.arrive(0, 1), Err(PoolRefusal::Draining));
    world.done(0);
    assert_eq!(world.stopped, []);
    world.plan.drain(world.now);
    world.act();
    assert_eq!(world.stopped, members);
    members.into_iter().for_each(|member| world.down(member));
    assert_eq!((world.over, world.starts.len()), (1, 0));
}

/// Catches: a pool that stops members after its process has ended, although the process is about to cancel them.
#[test]
fn a_closed_pool_stops_no_member() {
    let mut world = World::new(rules(1, 1), 1);
    world.start();
    world.arrive(0, 0).unwrap();
    world.arrive(0, 1).unwrap();
    assert_eq!(world.plan.end_with(ExitReason::NoProcess), [1]);
    world.plan.close();
    world.done(0);
    assert_eq!((world.stopped.len(), world.over), (0, 0));
}

/// Catches: failures that are counted forever instead of within the window.
#[test]
fn failures_that_are_far_enough_apart_are_never_too_many() {
    let backoff = Backoff::none();
    let mut world = World::new(PoolRules { intensity: (2, SECOND), backoff, ..rules(1, 1) }, 1);
    let mut member = world.start();
    for _ in 0..9 {
        world.ends(member, &error());
        world.after(SECOND / 2);
        member = world.start();
    }
    assert!(world.given_up.is_empty());
}

/// Catches: a member that starts while the pool gives up is kept, or the pool is over before that start is settled.
#[test]
fn a_start_that_is_under_way_when_the_pool_gives_up_holds_it_up_and_is_taken_back() {
    let mut world = World::new(PoolRules { intensity: (0, SECOND), ..rules(2, 2) }, 1);
    let first = world.start();
    world.ends(first, &error());
    assert_eq!((world.given_up.len(), world.over, world.starts.len()), (1, 0, 1));
    assert_eq!(world.try_start(), None);
    assert_eq!((world.over, world.plan.statistics(PoolStatistics::default()).failed), (1, 1));
    // The result is the same if the start had begun before it could be withdrawn.
    let mut world = World::new(PoolRules { intensity: (0, SECOND), ..rules(2, 2) }, 1);
    let first = world.start();
    world.ends(first, &error());
    let late = Pid::new(NodeId::new(1).unwrap(), 0, 99, 1);
    world.starts.clear();
    world.plan.started(world.now, &0, late);
    world.act();
    assert_eq!(world.stopped, [late]);
    world.ends(late, &error());
    assert_eq!((world.over, world.given_up.len()), (1, 1));
}

/// Catches: a full host that makes its pools give up, or pools that retry without a delay.
#[test]
fn a_start_for_which_the_host_has_no_room_is_tried_later_and_never_too_often() {
    let mut world = World::new(PoolRules { intensity: (0, SECOND), ..rules(0, 1) }, 0);
    let mut pauses = vec![];
    for message in 0..3 {
        world.arrive(7, message).unwrap();
        pauses.push(world.next_start().unwrap());
        world.starts.clear();
        world.plan.unstarted(world.now, &7, &Unstarted::NoRoom(error()));
        world.act();
        assert_eq!(world.failed.len(), 1 + message as usize);
    }
    assert_eq!((pauses, world.given_up.len()), (vec![Duration::ZERO, FIRST, FIRST * 2], 0));
}

/// Catches: a key is forgotten together with its process, so that its next message starts another process at once; or a
/// key is never forgotten.
#[test]
fn a_key_that_backs_off_is_remembered_until_that_is_over() {
    let mut world = World::new(rules(0, 1), 0);
    world.arrive(7, 0).unwrap();
    let member = world.start();
    world.down(member);
    assert_eq!(world.plan.lanes.len(), 1);
    world.arrive(7, 1).unwrap();
    // Another key is not affected.
    world.arrive(8, 2).unwrap();
    assert_eq!(world.starts, [8]);
    world.start();
    world.after(FIRST);
    let member = world.start();
    world.down(member);
    world.after(FIRST * 2);
    assert_eq!(world.plan.lanes.keys().collect::<Vec<_>>(), [&8]);
}

/// Catches: an endless delay that counts as none, or for which a timer is set.
#[test]
fn a_lane_with_a_delay_without_end_stays_down() {
    let (mut world, member) = serving(PoolRules { backoff: Backoff::constant(Duration::MAX), ..rules(1, 1) });
    world.ends(member, &error());
    assert!(world.plan.due().is_none_or(|due| due == Moment::NEVER));
    world.after(Duration::from_secs(1 << 30));
    assert!(world.starts.is_empty());
    // The pool can still be stopped.
    world.plan.drain(world.now);
    world.act();
    assert_eq!(world.over, 1);
}

/// Catches: a draining pool that starts members for waiting messages during the delay, or never.
#[test]
fn a_pool_that_drains_backs_off_too_and_gives_up_too() {
    let (mut world, member) = serving(PoolRules { intensity: (1, SECOND), ..rules(1, 1) });
    for message in 1..=3 {
        world.arrive(0, message).unwrap();
    }
    world.plan.drain(world.now);
    world.act();
    world.down(member);
    assert_eq!(world.next_start(), Some(FIRST));
    let member = world.start();
    assert_eq!(world.messages(), [0, 1, 2]);
    world.down(member);
    assert_eq!((world.failed.clone(), world.given_up.len(), world.over), (vec![3], 1, 1));
}
