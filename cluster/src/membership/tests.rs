//! Tests of several members that share one model of the store: each rule by an example, and all rules under random
//! faults.

use super::store::{World, id};
use super::*;
use crate::clock::Moment;
use crate::store::{Change, Entry, Revision, StoreError};
use bytes::Bytes;
use std::collections::BTreeMap;

fn seeds(usual: u64) -> std::ops::Range<u64> {
    0..std::env::var("POSTROOM_CLUSTER_SEEDS").map_or(usual, |text| text.parse().expect("a number of seeds"))
}

/// Returns a world with nodes 1 to `count`, which know each other.
fn cluster(count: u64) -> World {
    let mut world = World::new(count);
    (1..=count).for_each(|number| {
        world.start(id(number));
    });
    world.run(1_000);
    world.check_agreement();
    assert!(world.machines.iter().all(|machine| machine.entered.is_some()));
    world
}

/// Performs one random action on a cluster.
fn act(world: &mut World, next_id: &mut u64) {
    let at = world.random.below(world.machines.len() as u64) as usize;
    let other = world.random.below(world.machines.len() as u64) as usize;
    let node = world.machines[other].node;
    let runs = world.machines[at].is_alive;
    match world.random.below(18) {
        0 | 1 => {
            *next_id += 1;
            world.start(id(*next_id));
        }
        2 if runs => world.crash(at),
        3 if runs => {
            world.leave(at);
            if world.random.chance(30) {
                // The node may crash before it deletes its record.
                world.crash(at);
            }
        }
        4 | 5 if runs => world.cut(at),
        6..=8 => world.heal(at),
        9..=13 => world.hint(at, node),
        14 => world.lost = [0, 10, 50][world.random.below(3) as usize],
        _ => rejoin(world),
    }
}

/// Lets nodes that were evicted join again with the same ID.
fn rejoin(world: &mut World) {
    for at in 0..world.machines.len() {
        let machine = &mut world.machines[at];
        if machine.is_alive && !machine.is_cut && machine.ends == [MembershipEvent::Evicted] {
            machine.is_alive = false;
            let node = machine.node;
            world.start(node);
        }
    }
}

fn survive(seed: u64, causes: &mut BTreeMap<Loss, u32>) {
    let mut world = World::new(seed);
    world.slowest = [5, 200, 3_000][world.random.below(3) as usize];
    let mut next_id = 4;
    (1..=next_id).for_each(|number| {
        world.start(id(number));
    });
    for _ in 0..40 {
        let wait = [0, 50, 1_000, 4_000][world.random.below(4) as usize];
        world.run(wait);
        act(&mut world, &mut next_id);
    }
    // End all faults. Further below, each node gets a hint about every node, and learns which leases have expired.
    (world.lost, world.slowest) = (0, 200);
    (0..world.machines.len()).for_each(|at| world.heal(at));
    // Start a new node, since there may be no node left.
    world.start(id(next_id + 1));
    for _ in 0..3 {
        world.run(20_000);
        rejoin(&mut world);
    }
    for at in 0..world.machines.len() {
        for other in 0..world.machines.len() {
            let machine = &world.machines[other];
            let (node, revision) = (machine.node, machine.revision.filter(|_| machine.entered.is_none()));
            world.hint(at, node);
            revision.into_iter().for_each(|revision| world.lease_expires(at, node, revision));
        }
    }
    world.run(30_000);
    world.check_agreement();
    for machine in &world.machines {
        machine.losses.iter().for_each(|(.., cause)| *causes.entry(*cause).or_default() += 1);
    }
}

#[test]
fn all_nodes_agree_in_the_end_and_each_loss_is_reported_once() {
    let mut causes = BTreeMap::new();
    for seed in seeds(1_000) {
        let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| survive(seed, &mut causes)));
        assert!(result.is_ok(), "seed {seed}");
    }
    // If a cause were rare, the runs would prove nothing about it.
    assert!(causes.len() == 5 && causes.values().all(|&count| count >= 10), "{causes:?}");
}

#[test]
fn a_node_that_crashed_is_lost_a_grace_after_the_hint_and_for_all() {
    let mut world = cluster(4);
    let revision = world.machines[3].entered.unwrap();
    world.crash(3);
    world.hint(0, id(4));
    world.run(990);
    assert!(world.machines.iter().all(|machine| machine.losses.is_empty()));
    world.run(200);
    for machine in &world.machines[..3] {
        assert!(matches!(machine.losses[..], [(node, lost, _)] if node == id(4) && lost == revision));
    }
    // The end of its lease is not a second loss.
    world.run(20_000);
    assert!(world.machines[..3].iter().all(|machine| machine.losses.len() == 1));
}

#[test]
fn a_wrong_hint_does_nothing() {
    let mut world = cluster(3);
    for at in 0..3 {
        (1..=3).for_each(|number| world.hint(at, id(number)));
    }
    world.run(20_000);
    world.check_agreement();
    assert!(world.machines.iter().all(|machine| machine.losses.is_empty()));
}

#[test]
fn an_interruption_shorter_than_the_grace_is_no_loss() {
    let mut world = cluster(3);
    world.cut(2);
    world.hint(0, id(3));
    world.run(500);
    world.heal(2);
    world.run(20_000);
    assert!(world.machines.iter().all(|machine| machine.losses.is_empty() && machine.ends.is_empty()));
}

#[test]
fn a_node_that_was_cut_off_for_long_finds_itself_evicted_and_joins_as_another() {
    let mut world = cluster(3);
    let revision = world.machines[2].entered.unwrap();
    world.cut(2);
    world.hint(1, id(3));
    world.run(5_000);
    world.heal(2);
    world.run(5_000);
    assert_eq!(world.machines[2].ends, [MembershipEvent::Evicted]);
    let fenced = world.machines[2].losses.iter().map(|(node, _, cause)| (*node, *cause)).collect::<Vec<_>>();
    assert_eq!(fenced, [(id(1), Loss::Fenced), (id(2), Loss::Fenced)]);
    rejoin(&mut world);
    world.run(5_000);
    world.check_agreement();
    assert!(world.machines[3].entered.unwrap() > revision);
}

#[test]
fn a_goodbye_counts_at_once_and_the_record_that_is_still_there_does_not() {
    let mut members = entered();
    members.on_change(put(2, 5));
    assert!(matches!(next(&mut members), MembershipEvent::Joined { .. }));
    members.goodbye(id(2), Revision(4));
    assert_eq!(members.poll_event(), None, "of an earlier membership");
    members.goodbye(id(2), Revision(5));
    assert_eq!(next(&mut members), lost(2, 5, Loss::Left));
    members.goodbye(id(2), Revision(5));
    for _ in 0..2 {
        // The watch is interrupted, twice, before the record is deleted.
        members.on_change(Change::Resync);
        members.on_change(put(1, 3));
        members.on_change(put(2, 5));
        members.on_change(Change::Synced { revision: Revision(9) });
    }
    members.on_change(Change::Deleted { key: "node-2.2".into(), revision: Revision(10) });
    assert_eq!((members.poll_event(), members.poll_request()), (None, None));
    members.on_change(put(2, 11));
    assert!(matches!(next(&mut members), MembershipEvent::Joined { .. }));
}

#[test]
fn a_record_that_is_left_behind_by_a_goodbye_is_deleted_when_the_lease_is_over() {
    let mut members = entered();
    members.on_change(put(2, 5));
    next(&mut members);
    members.goodbye(id(2), Revision(5));
    next(&mut members);
    members.lease_expired(id(2), Revision(4));
    assert_eq!(members.poll_request(), None);
    members.lease_expired(id(2), Revision(5));
    assert_eq!(members.poll_request().unwrap().inquiry, Inquiry::Record(Access::Delete(Revision(5))));
}

/// The loss needs no probes: a node that is stopped may still be subscribed.
#[test]
fn a_member_without_a_lease_is_lost_though_it_answers() {
    let mut world = cluster(2);
    let revision = world.machines[1].entered.unwrap();
    world.lease_expires(0, id(2), revision);
    world.run(1_000);
    assert!(matches!(world.machines[0].losses[..], [(node, lost, _)] if node == id(2) && lost == revision));
    assert_eq!(world.machines[1].ends, [MembershipEvent::Evicted]);
}

#[test]
fn the_lease_of_an_earlier_membership_says_nothing_of_this_one() {
    let mut members = entered();
    members.on_change(put(2, 5));
    members.lease_expired(id(2), Revision(3));
    assert_eq!(members.poll_request(), None);
}

#[test]
fn a_second_node_with_the_same_id_is_refused_with_the_name_of_the_first() {
    let mut world = cluster(2);
    let second = world.start(id(2));
    world.run(1_000);
    let error = JoinRefusal::Collision { node: id(2), holder: "node-2".into() };
    assert!(error.to_string().contains("logical_node"));
    assert_eq!(world.machines[second].ends, [MembershipEvent::Refused(error)]);
    assert!(world.machines[1].ends.is_empty());
}

/// Returns the view of node 1, a member with revision 3.
fn entered() -> Membership {
    let mut members = Membership::new(id(1), Record::new("node-1", 7).unwrap());
    let request = members.poll_request().unwrap();
    answer(&mut members, request.number, Answer::Written(Ok(Revision(3))));
    assert_eq!(next(&mut members), MembershipEvent::Entered(Revision(3)));
    members
}

fn answer(members: &mut Membership, number: u64, answer: Answer) {
    members.handle(Moment::START, number, Finding::Record(answer));
}

fn next(members: &mut Membership) -> MembershipEvent {
    members.poll_event().expect("an event")
}

fn entry(number: u64, revision: u64) -> Entry {
    let record = Record::new(format!("node-{number}"), revision).unwrap();
    Entry { key: format!("node-{number}.{}", id(number)), value: record.encode(), revision: Revision(revision) }
}

fn put(number: u64, revision: u64) -> Change {
    Change::Put(entry(number, revision))
}

fn lost(number: u64, revision: u64, cause: Loss) -> MembershipEvent {
    MembershipEvent::Lost { node: id(number), revision: Revision(revision), cause }
}

fn conflict() -> Answer {
    Answer::Written(Err(StoreError::Conflict { key: "1".into() }))
}

#[test]
fn a_creation_whose_answer_was_lost_is_found() {
    for error in [StoreError::Unknown, StoreError::Conflict { key: "1".into() }] {
        let record = Record::new("node-1", 7).unwrap();
        let mut members = Membership::new(id(1), record.clone());
        let request = members.poll_request().unwrap();
        answer(&mut members, request.number, Answer::Written(Err(error)));
        let request = members.poll_request().unwrap();
        assert_eq!(request.inquiry, Inquiry::Record(Access::Get));
        let entry = Entry { key: "node-1.1".into(), value: record.encode(), revision: Revision(9) };
        answer(&mut members, request.number, Answer::Read(Ok(Some(entry))));
        assert_eq!(next(&mut members), MembershipEvent::Entered(Revision(9)));
    }
}

#[test]
fn a_store_that_refuses_the_record_ends_the_attempt_and_one_that_is_away_does_not() {
    let mut members = Membership::new(id(1), Record::new("node-1", 7).unwrap());
    let request = members.poll_request().unwrap();
    answer(&mut members, request.number, Answer::Written(Err(StoreError::Unavailable)));
    assert_eq!((members.poll_request(), members.poll_event()), (None, None));
    let again = members.next_timeout().unwrap();
    assert_eq!(again.since(Moment::START), OWN_RETRY);
    members.handle_timeout(again);
    let request = members.poll_request().unwrap();
    assert!(matches!(request.inquiry, Inquiry::Record(Access::Create(_))));
    answer(&mut members, request.number, Answer::Written(Err(StoreError::Closed)));
    assert_eq!(next(&mut members), MembershipEvent::Refused(JoinRefusal::Store(StoreError::Closed)));
}

/// The watch reports the changes before the answer to the creation arrives.
#[test]
fn an_eviction_before_the_entry_is_known_is_not_missed() {
    let mut members = Membership::new(id(1), Record::new("node-1", 7).unwrap());
    let request = members.poll_request().unwrap();
    members.on_change(put(1, 3));
    members.on_change(Change::Deleted { key: "node-1.1".into(), revision: Revision(4) });
    answer(&mut members, request.number, Answer::Written(Ok(Revision(3))));
    assert_eq!(
        (next(&mut members), next(&mut members)),
        (MembershipEvent::Entered(Revision(3)), MembershipEvent::Evicted)
    );

    let mut members = Membership::new(id(1), Record::new("node-1", 7).unwrap());
    let request = members.poll_request().unwrap();
    members.on_change(Change::Resync);
    members.on_change(Change::Synced { revision: Revision(5) });
    answer(&mut members, request.number, Answer::Written(Ok(Revision(3))));
    assert_eq!(members.poll_request().unwrap().inquiry, Inquiry::Record(Access::Get));
}

#[test]
fn a_change_of_an_earlier_membership_of_this_node_evicts_no_one() {
    let mut members = entered();
    members.on_change(put(1, 1));
    members.on_change(Change::Deleted { key: "node-1.1".into(), revision: Revision(2) });
    members.on_change(put(1, 3));
    members.on_change(Change::Resync);
    members.on_change(Change::Synced { revision: Revision(2) }); // older than this node's record
    assert_eq!((members.poll_event(), members.poll_request()), (None, None));
}

#[test]
fn what_a_snapshot_does_not_have_is_read_again_before_it_counts() {
    let mut members = entered();
    (2..=4).for_each(|number| members.on_change(put(number, 10 + number)));
    while members.poll_event().is_some() {}
    members.on_change(Change::Resync);
    members.on_change(Change::Synced { revision: Revision(20) });
    assert_eq!(members.poll_event(), None);
    let requests: Vec<_> = std::iter::from_fn(|| members.poll_request()).collect();
    let nodes: Vec<_> = requests.iter().map(|request| request.node.id).collect();
    assert_eq!(nodes, [id(2), id(3), id(4), id(1)]);
    assert!(requests.iter().all(|request| request.inquiry == Inquiry::Record(Access::Get)));
    answer(&mut members, requests[0].number, Answer::Read(Ok(Some(entry(2, 12)))));
    assert_eq!(members.poll_event(), None, "it is there");
    answer(&mut members, requests[1].number, Answer::Read(Ok(None)));
    assert_eq!(next(&mut members), lost(3, 13, Loss::Removed));
    answer(&mut members, requests[2].number, Answer::Read(Ok(Some(entry(4, 22)))));
    assert_eq!(next(&mut members), lost(4, 14, Loss::Rejoined));
    assert!(matches!(next(&mut members), MembershipEvent::Joined { revision: Revision(22), .. }));
    answer(&mut members, requests[3].number, Answer::Read(Ok(None)));
    assert_eq!((next(&mut members), next(&mut members)), (lost(2, 12, Loss::Fenced), lost(4, 22, Loss::Fenced)));
    assert_eq!((next(&mut members), members.poll_event()), (MembershipEvent::Evicted, None));
}

/// Returns a view with a suspected member of revision 5, and the number of the first probe.
fn suspected() -> (Membership, u64) {
    let mut members = entered();
    members.on_change(put(2, 5));
    next(&mut members);
    members.suspect(id(2));
    members.suspect(id(2));
    let request = members.poll_request().unwrap();
    assert_eq!((request.inquiry, members.poll_request()), (Inquiry::Probe, None));
    (members, request.number)
}

/// Lets time pass until the next timer, and returns the request that follows.
fn after_timer(members: &mut Membership) -> MembershipRequest {
    assert_eq!(members.poll_request(), None);
    let next = members.next_timeout().expect("a timer");
    members.handle_timeout(next);
    members.poll_request().expect("a request")
}

fn probed(members: &mut Membership, number: u64, outcome: ProbeOutcome) {
    members.handle(Moment::START, number, Finding::Probe(outcome));
}

#[test]
fn no_answer_to_a_probe_proves_nothing_and_begins_anew() {
    let (mut members, number) = suspected();
    probed(&mut members, number, ProbeOutcome::NoResponders);
    let second = after_timer(&mut members);
    assert_eq!(second.inquiry, Inquiry::Probe);
    probed(&mut members, second.number, ProbeOutcome::Unknown);
    assert_eq!(members.next_timeout(), Some(Moment::START + PROBE_AGAIN));
    let first = after_timer(&mut members);
    probed(&mut members, first.number, ProbeOutcome::NoResponders);
    let second = after_timer(&mut members);
    probed(&mut members, second.number, ProbeOutcome::NoResponders);
    assert_eq!(members.poll_request().unwrap().inquiry, Inquiry::Record(Access::Delete(Revision(5))));
    let (mut members, number) = suspected();
    for _ in 0..2 {
        probed(&mut members, number, ProbeOutcome::Responders);
        assert_eq!((members.next_timeout(), members.poll_request()), (None, None));
    }
    // The answer to that probe is no longer awaited.
    answer(&mut members, number, conflict());
}

/// Returns a view that is deleting the record of a suspect, and the number of the deletion.
fn deleting() -> (Membership, u64) {
    let (mut members, number) = suspected();
    probed(&mut members, number, ProbeOutcome::NoResponders);
    let second = after_timer(&mut members);
    probed(&mut members, second.number, ProbeOutcome::NoResponders);
    let number = members.poll_request().unwrap().number;
    (members, number)
}

#[test]
fn a_deletion_that_fails_is_looked_into() {
    for error in [StoreError::Conflict { key: "2".into() }, StoreError::Unknown] {
        let (mut members, number) = deleting();
        answer(&mut members, number, Answer::Written(Err(error.clone())));
        let request = members.poll_request().unwrap();
        assert_eq!(request.inquiry, Inquiry::Record(Access::Get));
        answer(&mut members, request.number, Answer::Read(Ok(Some(entry(2, 5)))));
        assert_eq!(members.poll_request().unwrap().inquiry, Inquiry::Probe, "what was found may be true no more");

        let (mut members, number) = deleting();
        answer(&mut members, number, Answer::Written(Err(error)));
        let request = members.poll_request().unwrap();
        answer(&mut members, request.number, Answer::Read(Err(StoreError::Unavailable)));
        let request = after_timer(&mut members);
        answer(&mut members, request.number, Answer::Read(Ok(None)));
        assert_eq!(next(&mut members), lost(2, 5, Loss::Removed));
    }
    let (mut members, number) = deleting();
    answer(&mut members, number, Answer::Written(Err(StoreError::Unavailable)));
    assert_eq!(after_timer(&mut members).inquiry, Inquiry::Probe);
}

#[test]
fn an_expired_lease_is_not_forgotten_when_the_deletion_fails_or_the_watch_is_interrupted() {
    let mut members = entered();
    members.on_change(put(2, 5));
    next(&mut members);
    members.lease_expired(id(2), Revision(5));
    let request = members.poll_request().unwrap();
    answer(&mut members, request.number, Answer::Written(Err(StoreError::Unavailable)));
    let request = after_timer(&mut members);
    assert_eq!(request.inquiry, Inquiry::Record(Access::Delete(Revision(5))));
    members.on_change(Change::Resync);
    members.on_change(put(1, 3));
    members.on_change(Change::Synced { revision: Revision(5) });
    let read = members.poll_request().unwrap();
    answer(&mut members, request.number, conflict()); // late: it belongs to the previous step
    assert_eq!(members.poll_request(), None);
    answer(&mut members, read.number, Answer::Read(Ok(Some(entry(2, 5)))));
    assert_eq!(members.poll_request().unwrap().inquiry, Inquiry::Record(Access::Delete(Revision(5))));
}

#[test]
fn a_hint_during_a_reading_is_followed_after_it() {
    let mut members = entered();
    members.on_change(put(2, 5));
    next(&mut members);
    members.on_change(Change::Resync);
    members.on_change(put(1, 3));
    members.on_change(Change::Synced { revision: Revision(5) });
    let read = members.poll_request().unwrap();
    members.suspect(id(2));
    answer(&mut members, read.number, Answer::Read(Ok(Some(entry(2, 5)))));
    assert_eq!(members.poll_request().unwrap().inquiry, Inquiry::Probe);
}

#[test]
fn an_answer_about_an_earlier_membership_is_late() {
    let (mut members, number) = deleting();
    members.on_change(put(2, 8));
    assert_eq!(next(&mut members), lost(2, 5, Loss::Rejoined));
    next(&mut members);
    answer(&mut members, number, Answer::Written(Ok(Revision(7))));
    members.on_change(put(2, 5));
    members.on_change(Change::Deleted { key: "node-2.2".into(), revision: Revision(7) });
    assert_eq!((members.poll_event(), members.members().count()), (None, 1));
}

#[test]
fn records_that_are_none_are_reported_and_ignored() {
    let mut members = entered();
    let strange = |key: &str, value: &'static [u8]| {
        Change::Put(Entry { key: key.into(), value: Bytes::from_static(value), revision: Revision(9) })
    };
    members.on_change(strange("no id", b"x"));
    assert!(matches!(next(&mut members), MembershipEvent::Unreadable { error: RecordError::Key, .. }));
    members.on_change(put(2, 5));
    next(&mut members);
    // Whatever this record contains, the previous membership is over.
    members.on_change(strange("node-2.2", b"\x09strange"));
    assert_eq!(next(&mut members), lost(2, 5, Loss::Rejoined));
    assert!(matches!(next(&mut members), MembershipEvent::Unreadable { error: RecordError::Form { form: 9 }, .. }));
    members.on_change(put(2, 5));
    members.on_change(Change::Deleted { key: "no id".into(), revision: Revision(10) });
    assert_eq!(members.poll_event(), None);
}

#[test]
fn leaving_deletes_the_record_whenever_it_is_written() {
    let mut members = entered();
    members.leave();
    assert_eq!(members.poll_request().unwrap().inquiry, Inquiry::Record(Access::Delete(Revision(3))));

    // The node leaves before the answer to the creation has arrived.
    let record = Record::new("node-1", 7).unwrap();
    let begin = || {
        let mut members = Membership::new(id(1), record.clone());
        let request = members.poll_request().unwrap();
        members.leave();
        members.on_change(put(2, 5));
        assert_eq!((members.poll_event(), members.poll_request()), (None, None));
        (members, request.number)
    };
    let (mut members, number) = begin();
    answer(&mut members, number, Answer::Written(Ok(Revision(3))));
    assert_eq!(members.poll_request().unwrap().inquiry, Inquiry::Record(Access::Delete(Revision(3))));
    let (mut members, number) = begin();
    answer(&mut members, number, Answer::Written(Err(StoreError::Unknown)));
    let request = members.poll_request().unwrap();
    let ours = Entry { key: "node-1.1".into(), value: record.encode(), revision: Revision(4) };
    answer(&mut members, request.number, Answer::Read(Ok(Some(ours))));
    assert_eq!(members.poll_request().unwrap().inquiry, Inquiry::Record(Access::Delete(Revision(4))));
    let (mut members, number) = begin();
    answer(&mut members, number, conflict());
    let request = members.poll_request().unwrap();
    answer(&mut members, request.number, Answer::Read(Ok(Some(entry(1, 4)))));
    assert_eq!(members.poll_request(), None, "another's");
}

/// A node whose lease expired while it was cut off may find its own record, if no other node was there to delete it.
#[test]
fn a_node_that_joins_again_removes_its_own_record_first() {
    let conflict = || StoreError::Conflict { key: "1".into() };
    for removed in [Ok(Revision(9)), Err(conflict())] {
        let (now, record) = (Moment::START, Record::new("eu-1", 2).unwrap());
        let mut members = Membership::rejoin(id(1), record.clone(), Revision(4));
        for error in [StoreError::Unavailable, StoreError::Unknown] {
            let request = members.poll_request().unwrap();
            assert_eq!(request.inquiry, Inquiry::Record(Access::Delete(Revision(4))));
            members.handle(now, request.number, Finding::Record(Answer::Written(Err(error))));
            assert_eq!(members.poll_request(), None, "not at once");
            members.handle_timeout(members.next_timeout().unwrap());
        }
        let request = members.poll_request().unwrap();
        assert_eq!(request.inquiry, Inquiry::Record(Access::Delete(Revision(4))));
        members.handle(now, request.number, Finding::Record(Answer::Written(removed)));
        // The watch may report the deletion late, or may report an earlier change.
        members.on_change(Change::Deleted { key: "eu-1.1".into(), revision: Revision(9) });
        let request = members.poll_request().unwrap();
        assert_eq!(request.inquiry, Inquiry::Record(Access::Create(record.encode())));
        members.handle(now, request.number, Finding::Record(Answer::Written(Ok(Revision(10)))));
        assert_eq!(members.poll_event(), Some(MembershipEvent::Entered(Revision(10))));
        assert_eq!(members.poll_event(), None);
    }
    let mut members = Membership::rejoin(id(1), Record::new("eu-1", 2).unwrap(), Revision(4));
    members.leave();
    assert_eq!((members.poll_request(), members.poll_event()), (None, None), "there is nothing to undo");
}

/// Catches: a node that joins a different store while holders of the old one may still act.
#[test]
fn a_node_that_was_fenced_joins_when_it_knows_the_store_or_all_leases_are_over() {
    let (now, until) = (Moment::START, Moment::after_start(Duration::from_secs(15)));
    let conflict = || Answer::Written(Err(StoreError::Conflict { key: "1".into() }));
    let removed = |removal: Answer, reported: Vec<Change>| {
        let mut members = Membership::rejoin(id(1), Record::new("node-1", 8).unwrap(), Revision(4));
        members.expect([(id(1), Revision(4)), (id(2), Revision(5))].into(), until);
        let request = members.poll_request().unwrap();
        assert_eq!(request.inquiry, Inquiry::Record(Access::Delete(Revision(4))));
        members.handle(now, request.number, Finding::Record(removal));
        reported.into_iter().for_each(|change| members.on_change(change));
        members
    };
    let joins = |members: &mut Membership| {
        let inquiry = members.poll_request().map(|request| request.inquiry);
        matches!(inquiry, Some(Inquiry::Record(Access::Create(_))))
    };
    let synced = Change::Synced { revision: Revision(20) };
    // The store is known if this node's own record still existed, or if a record of another node that it knows still
    // does.
    assert!(joins(&mut removed(Answer::Written(Ok(Revision(6))), vec![])));
    assert!(joins(&mut removed(conflict(), vec![Change::Resync, put(2, 5)])));
    let mut members = removed(Answer::Written(Err(StoreError::Unavailable)), vec![Change::Resync, put(2, 5)]);
    members.handle_timeout(members.next_timeout().unwrap());
    let request = members.poll_request().unwrap();
    members.handle(now, request.number, Finding::Record(conflict()));
    assert!(joins(&mut members));

    // Records of other nodes or of other memberships prove nothing; nor do the reports of an earlier watch.
    for reported in [
        vec![],
        vec![Change::Resync, synced.clone()],
        vec![Change::Resync, put(2, 19), put(3, 5), synced],
        vec![put(2, 5)],
    ] {
        let mut members = removed(conflict(), reported);
        assert!(!joins(&mut members));
        assert_eq!(members.next_timeout(), Some(until));
        members.handle_timeout(until);
        assert!(joins(&mut members));
    }
}

/// A node may write records under keys with its own name. They must not give it the ID of another node.
#[test]
fn an_id_belongs_to_the_name_that_it_was_first_seen_with() {
    let claim = |revision| {
        let record = Record::new("thief", 1).unwrap();
        Change::Put(Entry { key: "thief.2".into(), value: record.encode(), revision: Revision(revision) })
    };
    let mut members = entered();
    members.on_change(put(2, 5));
    next(&mut members);
    let is_claim = |event: MembershipEvent| {
        let error = RecordError::Claimed { key: "thief.2".into(), holder: "node-2".into() };
        assert!(error.to_string().contains("`thief.2`") && error.to_string().contains("`node-2`"));
        assert_eq!(event, MembershipEvent::Unreadable { key: "thief.2".into(), error });
    };
    // The ID is claimed while its owner is a member, and again while it is away. Then the owner comes back.
    members.on_change(claim(6));
    is_claim(next(&mut members));
    members.on_change(Change::Deleted { key: "thief.2".into(), revision: Revision(7) });
    assert_eq!((members.poll_event(), members.members().count()), (None, 1));
    members.on_change(Change::Deleted { key: "node-2.2".into(), revision: Revision(8) });
    assert_eq!(next(&mut members), lost(2, 5, Loss::Removed));
    members.on_change(claim(9));
    is_claim(next(&mut members));
    members.on_change(put(2, 10));
    assert!(matches!(next(&mut members), MembershipEvent::Joined { revision: Revision(10), .. }));

    // The binding is remembered when this node joins again.
    let bindings = members.bindings().clone();
    let mut members = Membership::rejoin(id(1), Record::new("node-1", 8).unwrap(), Revision(3));
    members.remember(bindings);
    members.on_change(Change::Resync);
    members.on_change(claim(11));
    is_claim(next(&mut members));
    members.on_change(Change::Synced { revision: Revision(11) });
    assert_eq!((members.poll_event(), members.members().count()), (None, 0));

    // A claim on this node's own ID, made while it was away, does not keep it out either.
    let request = members.poll_request().unwrap();
    answer(&mut members, request.number, Answer::Written(Ok(Revision(12))));
    let record = Record::new("thief", 1).unwrap();
    let entry = Entry { key: "thief.1".into(), value: record.encode(), revision: Revision(11) };
    members.on_change(Change::Put(entry));
    assert!(matches!(next(&mut members), MembershipEvent::Unreadable { error: RecordError::Claimed { .. }, .. }));
    let request = members.poll_request().unwrap();
    answer(&mut members, request.number, Answer::Written(Ok(Revision(13))));
    assert_eq!(next(&mut members), MembershipEvent::Entered(Revision(13)));

    // No other node takes this node's own ID from it.
    let mut members = entered();
    let record = Record::new("thief", 1).unwrap();
    let entry = Entry { key: "thief.1".into(), value: record.encode(), revision: Revision(6) };
    members.on_change(Change::Put(entry));
    assert!(matches!(next(&mut members), MembershipEvent::Unreadable { error: RecordError::Claimed { .. }, .. }));
    members.on_change(Change::Deleted { key: "thief.1".into(), revision: Revision(7) });
    assert_eq!(members.poll_event(), None);
}

#[test]
fn a_node_that_has_drawn_the_id_of_another_does_not_join() {
    let mut members = Membership::new(id(2), Record::new("node-1", 7).unwrap());
    members.on_change(Change::Resync);
    members.on_change(put(2, 5));
    let error = JoinRefusal::Collision { node: id(2), holder: "node-2".into() };
    assert_eq!((next(&mut members), members.poll_request()), (MembershipEvent::Refused(error), None));
}
