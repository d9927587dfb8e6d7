//! Groups: members, watchers, and the removal of empty groups.

use postroom::Mailbox;
use postroom::error::{BadName, GroupError};
use postroom::inspect::DeadLetterReason;
use postroom::prelude::*;
use postroom::supervision::Supervisor;
use postroom_tests::face::{Log, builder, watched, with_dead_letters, with_runtime};
use std::collections::BTreeSet;
use std::future::Future;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

/// A message to the members.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Said(pub(crate) u32);

#[process]
pub(crate) struct Member {
    pub(crate) heard: Log<u32>,
}

#[process]
impl Member {
    #[entry]
    pub(crate) fn serve(&mut self) {}

    #[message(Said)]
    fn said(&mut self, said: Said) {
        self.heard.add(said.0);
    }

    #[message]
    fn wait_at(&mut self, ctx: &mut Context<Self>, gate: postroom_tests::face::Gate) {
        let _ = ctx;
        gate.pass();
    }

    #[message]
    fn heard(&mut self) -> Vec<u32> {
        self.heard.all()
    }

    #[message]
    fn enter(&mut self, ctx: &mut Context<Self>, room: String) -> Result<bool, GroupError> {
        ctx.group(room).join(ctx.pid())
    }
}

fn member(runtime: &Runtime) -> Address<Member> {
    runtime.spawn(Member { heard: Log::new() }).serve().unwrap()
}

fn end(pid: Pid, how: fn(Pid) -> bool) -> ExitReason {
    let ended = pid.join();
    how(pid);
    ended.wait()
}

/// Returns the next event. Panics if none arrives.
fn event(mailbox: &mut Mailbox) -> GroupEvent {
    let package = mailbox.receive_timeout(Duration::from_secs(30)).expect("an event");
    package.take().unwrap_or_else(|other| panic!("{other:?}"))
}

pub(crate) fn pids(list: &[Pid]) -> BTreeSet<Pid> {
    list.iter().copied().collect()
}

#[test]
fn joining_twice_and_leaving_once_leaves_one_membership() {
    with_runtime(|runtime| {
        let (room, one) = (runtime.group("room"), member(runtime));
        assert_eq!((room.join(one), room.join(one.pid())), (Ok(true), Ok(false)));
        assert_eq!((&*room.members(), room.len(), room.broadcast(Said(1))), (&[one.pid()][..], 1, 1));
        assert!(room.leave(one));
        assert!(room.contains(one));
        assert_eq!(room.broadcast(Said(2)), 1);
        assert!(room.leave(one));
        assert!(!room.contains(one) && room.is_empty() && !room.leave(one));
        assert_eq!((room.broadcast(Said(3)), one.heard().wait()), (0, Ok(vec![1, 2])));
        assert_eq!((runtime.statistics().directory.groups, runtime.statistics().directory.memberships), (0, 0));
    });
}

/// Catches: a process that is counted as a member although it only watches changes.
#[test]
fn a_watcher_is_not_a_member() {
    with_runtime(|runtime| {
        let (room, one, mailbox) = (runtime.group("room"), member(runtime), Mailbox::new().unwrap());
        assert!(room.subscribe(mailbox.pid()).unwrap().is_empty());
        room.join(one).unwrap();
        let directory = runtime.statistics().directory;
        assert_eq!((directory.groups, directory.members, directory.watchers), (1, 1, 1));
        assert!(room.leave(one));
        let directory = runtime.statistics().directory;
        assert_eq!((directory.groups, directory.members, directory.watchers), (1, 0, 1));
    });
}

#[test]
fn a_member_that_ends_leaves_however_often_it_has_joined() {
    with_runtime(|runtime| {
        let room = runtime.group("room");
        for how in [Pid::stop as fn(Pid) -> bool, Pid::kill, |pid| pid.cancel("enough")] {
            let (one, other) = (member(runtime), member(runtime));
            for _ in 0..3 {
                room.join(one).unwrap();
            }
            room.join(other).unwrap();
            end(one.pid(), how);
            assert_eq!(&*room.members(), [other.pid()]);
            end(other.pid(), how);
            let statistics = runtime.statistics();
            assert_eq!(
                (statistics.directory.groups, statistics.directory.members, statistics.directory.memberships),
                (0, 0, 0)
            );
            assert_eq!(room.join(one), Err(GroupError::Gone(one.pid())));
            assert_eq!(runtime.statistics().directory.groups, 0);
        }
    });
}

#[test]
fn a_broadcast_reaches_all_live_members_and_returns_their_number() {
    with_runtime(|runtime| {
        let room = runtime.group("room");
        let members: Vec<_> = (0..10).map(|_| member(runtime)).collect();
        members.iter().for_each(|one| assert_eq!(room.join(*one), Ok(true)));
        assert_eq!(room.broadcast(Said(1)), 10);
        for dead in &members[..4] {
            end(dead.pid(), Pid::kill);
        }
        assert_eq!(room.broadcast(Said(2)), 6);
        for living in &members[4..] {
            assert_eq!(living.heard().wait(), Ok(vec![1, 2]));
        }
    });
}

/// A member that is in its `close` no longer counts as a member, and does not delay senders.
#[test]
fn a_broadcast_passes_by_a_member_that_is_being_taken_apart() {
    let (began, go_on) = (Arc::new(std::sync::Barrier::new(2)), Arc::new(std::sync::Barrier::new(2)));
    let close = (began.clone(), go_on.clone());
    with_runtime(move |runtime| {
        let room = runtime.group("room");
        let slow = postroom_tests::idle_for_ever().close(move || {
            close.0.wait();
            close.1.wait();
        });
        let slow = runtime.spawn_process(slow).start().unwrap();
        let one = member(runtime);
        room.join(slow).unwrap();
        room.join(one).unwrap();
        let ended = slow.join();
        slow.kill();
        began.wait();
        assert_eq!(room.broadcast(Said(1)), 1);
        assert_eq!(room.join(slow), Err(GroupError::Gone(slow)));
        go_on.wait();
        ended.wait();
        assert_eq!(&*room.members(), [one.pid()]);
    });
}

/// Only the slow member misses the messages for which its mailbox has no room, and they are counted.
#[test]
fn a_broadcast_waits_for_no_slow_member() {
    watched(|| {
        let (builder, dead) = with_dead_letters();
        let runtime = builder.build().unwrap();
        let slow = member(&runtime);
        misses_what_has_no_room(&runtime, slow, &dead);
    });
}

/// Catches: copies that are lost without a dead letter because the member is an alias.
#[test]
fn copies_that_have_no_room_at_a_supervised_child_are_counted() {
    watched(|| {
        let (builder, dead) = with_dead_letters();
        let runtime = builder.build().unwrap();
        let child = |spawn: postroom::ChildSpawn| spawn.of(Member { heard: Log::new() }).serve();
        let tree = Supervisor::one_for_one().child("slow", child).spawn(&runtime).unwrap();
        misses_what_has_no_room(&runtime, tree.child("slow").unwrap(), &dead);
    });
}

fn misses_what_has_no_room(runtime: &Runtime, slow: Address<Member>, dead: &Log<(&'static str, DeadLetterReason)>) {
    let (room, gate, quick) = (runtime.group("room"), postroom_tests::face::Gate::new(), member(runtime));
    slow.wait_at(gate.clone()).send().unwrap();
    room.join(slow).unwrap();
    room.join(quick).unwrap();
    let mut reached = 0;
    for number in 0..5_000 {
        reached += room.broadcast(Said(number));
        if number % 500 == 0 {
            // Keeps the quick member's backlog within the bound of its mailbox.
            quick.heard().wait().unwrap();
        }
    }
    assert_eq!(quick.heard().wait(), Ok((0..5_000).collect()));
    let by_slow = reached - 5_000;
    assert!((512..1_500).contains(&by_slow), "{by_slow} of a bound of 1,024");
    let overflow = (std::any::type_name::<Said>(), DeadLetterReason::Overflow);
    assert_eq!(dead.all(), vec![overflow; 5_000 - by_slow]);
    gate.open();
    postroom_tests::eventually(|| slow.pid().info().is_some_and(|info| info.mailbox == 0));
    let heard = slow.heard().wait().unwrap();
    assert_eq!(heard.len(), by_slow);
    assert!(heard.is_sorted());
}

#[test]
fn subscribers_get_joins_and_leaves_with_their_reasons() {
    with_runtime(|runtime| {
        let (room, mut mailbox) = (runtime.group("room"), Mailbox::new().unwrap());
        let (one, other) = (member(runtime), member(runtime));
        room.join(one).unwrap();
        assert_eq!(&*room.subscribe(mailbox.pid()).unwrap(), [one.pid()]);
        room.join(one).unwrap();
        room.join(other).unwrap();
        room.leave(one);
        room.leave(one);
        end(other.pid(), |pid| pid.cancel("enough"));
        let group: Arc<str> = "room".into();
        let joined = |pid| GroupEvent::Joined { group: group.clone(), pid };
        let left = |pid, reason| GroupEvent::Left { group: group.clone(), pid, reason };
        assert_eq!(event(&mut mailbox), joined(other.pid()));
        assert_eq!(event(&mut mailbox), left(one.pid(), None));
        assert_eq!(event(&mut mailbox), left(other.pid(), Some(ExitReason::Cancelled("enough".into()))));
        // The group has only watchers left.
        assert_eq!((runtime.statistics().directory.groups, runtime.statistics().directory.watchers), (1, 1));
        assert!(room.unsubscribe(mailbox.pid()) && !room.unsubscribe(mailbox.pid()));
        room.join(member(runtime)).unwrap();
        assert!(mailbox.try_receive().is_none());
    });
}

#[test]
fn a_process_is_notified_of_a_members_exit_before_joins_return() {
    with_runtime(|runtime| {
        let (room, mut mailbox) = (runtime.group("room"), Mailbox::new().unwrap());
        room.subscribe(mailbox.pid()).unwrap();
        for _ in 0..100 {
            let one = member(runtime);
            room.join(one).unwrap();
            assert!(matches!(event(&mut mailbox), GroupEvent::Joined { .. }));
            end(one.pid(), Pid::kill);
            let told = mailbox.try_receive().expect("told when the end was").take::<GroupEvent>().unwrap();
            let reason = Some(ExitReason::Killed);
            assert_eq!(told, GroupEvent::Left { group: "room".into(), pid: one.pid(), reason });
        }
    });
}

#[test]
fn a_member_may_be_a_subscriber_and_each_ends_without_the_other() {
    with_runtime(|runtime| {
        let (room, mailbox) = (runtime.group("room"), Mailbox::new().unwrap());
        room.subscribe(mailbox.pid()).unwrap();
        room.join(mailbox.pid()).unwrap();
        assert_eq!((room.len(), runtime.statistics().directory.memberships), (1, 1));
        room.leave(mailbox.pid());
        assert_eq!(
            (room.len(), runtime.statistics().directory.watchers, runtime.statistics().directory.memberships),
            (0, 1, 1)
        );
        room.join(mailbox.pid()).unwrap();
        room.unsubscribe(mailbox.pid());
        assert_eq!(
            (room.len(), runtime.statistics().directory.watchers, runtime.statistics().directory.memberships),
            (1, 0, 1)
        );
        room.subscribe(mailbox.pid()).unwrap();
        drop(mailbox);
        assert_eq!((runtime.statistics().directory.groups, runtime.statistics().directory.memberships), (0, 0));
    });
}

#[test]
fn names_that_are_none_and_processes_that_have_ended_are_refused() {
    with_runtime(|runtime| {
        let one = member(runtime);
        let long = runtime.group("r".repeat(1025));
        let too_long = BadName::TooLong { bytes: 1025, longest: 1024 };
        for (room, bad) in [(runtime.group(""), BadName::Empty), (long, too_long)] {
            assert_eq!(room.join(one), Err(GroupError::BadName(bad.clone())));
            assert_eq!(room.subscribe(one.pid()), Err(GroupError::BadName(bad)));
            assert!(!room.leave(one) && !room.contains(one) && !room.unsubscribe(one.pid()));
            assert_eq!((room.len(), room.broadcast(Said(1))), (0, 0));
        }
        end(one.pid(), Pid::kill);
        assert_eq!(runtime.group("room").subscribe(one.pid()), Err(GroupError::Gone(one.pid())));
        assert_eq!(runtime.statistics().directory.groups, 0);
    });
}

#[test]
fn a_process_joins_from_inside_and_keeps_its_place_across_hosts() {
    with_runtime(|runtime| {
        let elsewhere = builder().build().unwrap();
        let (one, other) = (member(runtime), member(&elsewhere));
        assert_eq!(one.enter("room".to_string()).wait(), Ok(true));
        assert_eq!(one.enter("room".to_string()).wait(), Ok(false));
        let room = runtime.group("room");
        assert_eq!(room.join(other), Ok(true));
        // The group of that name on its own host is another group, which `other` is not a member of.
        assert!(elsewhere.group("room").is_empty());
        assert_eq!(room.broadcast(Said(1)), 2);
        assert_eq!((one.heard().wait(), other.heard().wait()), (Ok(vec![1]), Ok(vec![1])));
        elsewhere.shutdown().unwrap();
        assert_eq!(&*room.members(), [one.pid()]);
    });
}

/// Messages of one sender to one member stay in order, whether sent or broadcast.
#[test]
fn broadcasts_and_messages_of_one_sender_stay_in_order() {
    with_runtime(|runtime| {
        let (room, one) = (runtime.group("room"), member(runtime));
        room.join(one).unwrap();
        for number in (0..1_000).step_by(2) {
            room.broadcast(Said(number));
            runtime.send(one, Said(number + 1)).unwrap();
        }
        assert_eq!(one.heard().wait(), Ok((0..1_000).collect()));
    });
}

/// The waker uses the group whose event woke it. So the runtime must not hold a lock when it wakes.
#[test]
fn the_waker_of_a_subscriber_may_use_the_group() {
    struct Asks(Mutex<Option<(postroom::Group, Pid)>>, AtomicU64);
    impl std::task::Wake for Asks {
        fn wake(self: Arc<Self>) {
            if let Some((room, pid)) = self.0.lock().unwrap().take() {
                assert!(room.contains(pid));
                room.leave(pid);
                self.1.fetch_add(1, Ordering::SeqCst);
            }
        }
    }
    with_runtime(|runtime| {
        let (room, mut mailbox) = (runtime.group("room"), Mailbox::new().unwrap());
        let one = member(runtime);
        room.subscribe(mailbox.pid()).unwrap();
        let asks = Arc::new(Asks(Mutex::new(Some((room.clone(), one.pid()))), AtomicU64::new(0)));
        let waker = std::task::Waker::from(asks.clone());
        {
            let mut waiting = std::pin::pin!(mailbox.received());
            let mut context = std::task::Context::from_waker(&waker);
            assert!(waiting.as_mut().poll(&mut context).is_pending());
        }
        room.join(one).unwrap();
        assert_eq!(asks.1.load(Ordering::SeqCst), 1);
        assert!(matches!(event(&mut mailbox), GroupEvent::Joined { .. }));
        assert!(matches!(event(&mut mailbox), GroupEvent::Left { .. }));
    });
}

/// Parks the mailbox with `waker`.
fn park(mailbox: &mut Mailbox, waker: &std::task::Waker) {
    let waiting = std::pin::pin!(mailbox.received());
    assert!(waiting.poll(&mut std::task::Context::from_waker(waker)).is_pending());
}

/// Catches: a waker that drops another subscriber which has not been woken yet, and so waits forever.
#[test]
fn the_waker_of_a_subscriber_may_drop_another() {
    struct Drops(Mutex<Option<Mailbox>>);
    impl std::task::Wake for Drops {
        fn wake(self: Arc<Self>) {
            drop(self.0.lock().unwrap().take());
        }
    }
    with_runtime(|runtime| {
        let (room, one) = (runtime.group("room"), member(runtime));
        let mut mailboxes = [(); 2].map(|()| Mailbox::new().unwrap());
        // Subscribers are woken in the order of their PIDs.
        mailboxes.sort_by_key(Mailbox::pid);
        let [mut first, mut second] = mailboxes;
        room.subscribe(first.pid()).unwrap();
        room.subscribe(second.pid()).unwrap();
        park(&mut second, std::task::Waker::noop());
        let drops = Arc::new(Drops(Mutex::new(Some(second))));
        park(&mut first, &drops.clone().into());
        room.join(one).unwrap();
        assert!(drops.0.lock().unwrap().is_none());
        assert!(matches!(event(&mut first), GroupEvent::Joined { .. }));
    });
}

/// Catches: a waker that waits for a process which has not been woken yet, and so waits forever.
#[test]
fn the_waker_of_a_subscriber_may_wait_for_another() {
    struct Calls(Address<Member>, Mutex<Option<Vec<u32>>>);
    impl std::task::Wake for Calls {
        fn wake(self: Arc<Self>) {
            let heard = self.0.heard().timeout(Duration::from_secs(3_600)).wait().unwrap();
            *self.1.lock().unwrap() = Some(heard);
        }
    }
    watched(|| {
        // Processes of the node with the highest number are woken last.
        let last = postroom::NodeId::new((1 << 48) - 1).unwrap();
        let (runtime, other) = (builder().build().unwrap(), builder().logical_node(last).build().unwrap());
        let (room, mut mailbox, process) = (runtime.group("room"), Mailbox::new().unwrap(), member(&other));
        assert!(mailbox.pid() < process.pid());
        room.subscribe(mailbox.pid()).unwrap();
        room.subscribe(process.pid()).unwrap();
        other.until_idle().unwrap();
        let calls = Arc::new(Calls(process, Mutex::new(None)));
        park(&mut mailbox, &calls.clone().into());
        room.join(member(&runtime)).unwrap();
        assert_eq!(*calls.1.lock().unwrap(), Some(Vec::new()));
    });
}

/// Members join a group and leave it or exit. At the same time, watchers subscribe, follow for a while, and
/// unsubscribe. Each watcher's list and events must lead to the final set of members, and no event may contradict what
/// the watcher knows at that time. Not covered: changes of different members that are reported in another order than
/// they happened in.
///
/// Mutation: in `group_table.rs`, `watch`, make the list before `enter`, outside of the lock.
#[test]
fn a_list_and_the_events_after_it_have_no_gap_and_no_double() {
    watched(|| {
        let runtime = Arc::new(builder().build().unwrap());
        let over = Arc::new(AtomicBool::new(false));
        let comers: Vec<_> = (0..4_u32)
            .map(|comer| {
                let (runtime, over) = (runtime.clone(), over.clone());
                thread::spawn(move || {
                    let room = runtime.group("room");
                    let mut round = comer;
                    let mut stays = Vec::new();
                    while !over.load(Ordering::Relaxed) {
                        round += 1;
                        let one = member(&runtime);
                        room.join(one).unwrap();
                        match round % 4 {
                            0 => assert!(room.leave(one)),
                            1 => {
                                one.pid().kill();
                            }
                            2 => {
                                room.join(one).unwrap();
                                assert!(room.leave(one));
                                stays.push(one);
                            }
                            _ => stays.push(one),
                        }
                        if stays.len() > 20 {
                            let leaves = stays.remove(0);
                            assert!(room.leave(leaves));
                            leaves.pid().stop();
                        }
                    }
                    stays
                })
            })
            .collect();
        let followers: Vec<_> = (0..3)
            .map(|_| {
                let runtime = runtime.clone();
                thread::spawn(move || {
                    let room = runtime.group("room");
                    let mut kept = None;
                    for round in 0..150 {
                        let mut mailbox = Mailbox::new().unwrap();
                        let mut known = pids(&room.subscribe(mailbox.pid()).unwrap());
                        for _ in 0..20 {
                            follow(&mut known, event(&mut mailbox));
                        }
                        if round == 149 {
                            kept = Some((mailbox, known));
                        } else if round % 2 == 0 {
                            assert!(room.unsubscribe(mailbox.pid()));
                        }
                    }
                    kept.expect("the last one is kept")
                })
            })
            .collect();
        let mut followed: Vec<_> = followers.into_iter().map(|follower| follower.join().unwrap()).collect();
        over.store(true, Ordering::Relaxed);
        let stays: Vec<_> = comers.into_iter().flat_map(|comer| comer.join().unwrap()).collect();
        let room = runtime.group("room");
        // Killed processes may still be exiting.
        postroom_tests::eventually(|| runtime.statistics().processes.live == runtime.processes().len() as u64);
        postroom_tests::eventually(|| pids(&room.members()) == stays.iter().map(|one| one.pid()).collect());
        for (mailbox, known) in &mut followed {
            while let Some(package) = mailbox.try_receive() {
                follow(known, package.take().unwrap());
            }
            assert_eq!(*known, pids(&room.members()));
        }
        drop(followed);
        stays.iter().for_each(|one| drop(end(one.pid(), Pid::kill)));
        let statistics = runtime.statistics();
        assert_eq!(
            (statistics.directory.groups, statistics.directory.members, statistics.directory.watchers),
            (0, 0, 0)
        );
        assert_eq!(statistics.directory.memberships, 0);
    });
}

pub(crate) fn follow(known: &mut BTreeSet<Pid>, event: GroupEvent) {
    match event {
        GroupEvent::Joined { pid, .. } => assert!(known.insert(pid), "{pid} has joined twice"),
        GroupEvent::Left { pid, .. } => assert!(known.remove(&pid), "{pid} has left without being there"),
        other => panic!("{other:?}"),
    }
}
