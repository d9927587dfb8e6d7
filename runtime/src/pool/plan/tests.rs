use super::*;
use crate::pid::NodeId;
use crate::supervision::Backoff;
use std::time::Duration;

mod failures;

/// A plan, and a simulated world that carries out its actions: live members, and the messages of each.
struct World {
    plan: PoolPlan<u8, u32>,
    now: Moment,
    began: Moment,
    members: Vec<(MemberId, u8, Vec<u32>)>,
    /// Members that have been started but have not been given a message, so their numbers are not known yet.
    silent: Vec<(Pid, u8)>,
    starts: VecDeque<u8>,
    stopped: Vec<Pid>,
    cancelled: Vec<Pid>,
    killed: Vec<Pid>,
    given_up: Vec<ExitReason>,
    given: Vec<(u8, u32)>,
    expired: Vec<u32>,
    failed: Vec<u32>,
    /// The reason of the last message in `failed`.
    told: Option<ExitReason>,
    copied: usize,
    over: usize,
    pids: u32,
}

/// Returns rules that allow any number of failures, with known delays.
fn rules(least: usize, most: usize) -> PoolRules {
    let backoff = Backoff::exponential(FIRST, LAST).jitter(0.0);
    let (choice, intensity) = (Balancing::LeastLoaded, (u32::MAX, Duration::ZERO));
    PoolRules { choice, concurrency: 1, queue: 4, patience: None, idle: None, least, most, backoff, intensity }
}

const FIRST: Duration = Duration::from_millis(20);
const LAST: Duration = Duration::from_secs(5);

const SECOND: Duration = Duration::from_secs(1);

impl World {
    fn new(rules: PoolRules, lanes: u8) -> Self {
        let now = Moment::now();
        let mut world = Self {
            plan: PoolPlan::new(rules, 0..lanes, Random::new(0, 0)),
            now,
            began: now,
            members: vec![],
            silent: vec![],
            starts: VecDeque::new(),
            stopped: vec![],
            cancelled: vec![],
            killed: vec![],
            given_up: vec![],
            given: vec![],
            expired: vec![],
            failed: vec![],
            told: None,
            copied: 0,
            over: 0,
            pids: 0,
        };
        world.plan.open();
        world.act();
        world
    }

    fn act(&mut self) {
        while let Some(action) = self.plan.action() {
            match action {
                PoolAction::Give(member, waiting) => {
                    if let Some(place) = self.silent.iter().position(|(pid, _)| *pid == member.pid) {
                        let (_, lane) = self.silent.remove(place);
                        self.members.push((member, lane, vec![]));
                    }
                    match self.members.iter_mut().find(|(known, ..)| *known == member) {
                        Some((_, lane, hand)) => {
                            self.given.push((*lane, waiting.message));
                            hand.push(waiting.message);
                        }
                        // The member has exited, but its exit has not been reported.
                        None => self.plan.bounced(self.now, member.number, false, waiting),
                    }
                }
                PoolAction::Copy(..) => self.copied += 1,
                PoolAction::Start(lane) => self.starts.push_back(lane),
                PoolAction::Stop(pid) => self.stopped.push(pid),
                PoolAction::Expire(message) => self.expired.push(message),
                PoolAction::Fail(message, why) => {
                    self.failed.push(message);
                    self.told = Some(why);
                }
                PoolAction::Cancel(pid) => self.cancelled.push(pid),
                PoolAction::Kill(pid) => self.killed.push(pid),
                PoolAction::GiveUp(reason) => self.given_up.push(reason),
                PoolAction::Over => self.over += 1,
            }
        }
    }

    fn arrive(&mut self, lane: u8, message: u32) -> Result<(), PoolRefusal> {
        let arrived = self.plan.arrive(self.now, lane, message).map_err(|(_, refusal)| refusal);
        self.act();
        arrived
    }

    /// Makes the oldest requested start succeed, if it is still wanted.
    fn try_start(&mut self) -> Option<Pid> {
        let lane = self.starts.pop_front().unwrap();
        if !self.plan.wants(&lane) {
            self.plan.unstarted(self.now, &lane, &Unstarted::Unwanted);
            self.act();
            return None;
        }
        self.pids += 1;
        let pid = Pid::new(NodeId::new(1).unwrap(), 0, self.pids, 1);
        self.silent.push((pid, lane));
        self.plan.started(self.now, &lane, pid);
        self.act();
        Some(pid)
    }

    fn start(&mut self) -> Pid {
        self.try_start().unwrap()
    }

    fn start_fails(&mut self) {
        let lane = self.starts.pop_front().unwrap();
        self.plan.unstarted(self.now, &lane, &Unstarted::Failed(ExitReason::Killed));
        self.act();
    }

    /// Completes the oldest message of the member at index `place`.
    fn done(&mut self, place: usize) {
        let (member, _, hand) = &mut self.members[place];
        hand.remove(0);
        let number = member.number;
        self.plan.done(self.now, number);
        self.act();
    }

    /// Makes a member fail: its callers get errors, and the pool is notified of these; its exit is reported later.
    fn dies(&mut self, pid: Pid) -> usize {
        let member = self.members.iter().find(|(member, ..)| member.pid == pid);
        let (number, lost) = member.map_or((0, 0), |(member, _, hand)| (member.number, hand.len()));
        self.members.retain(|(member, ..)| member.pid != pid);
        self.silent.retain(|(other, _)| *other != pid);
        self.stopped.retain(|other| *other != pid);
        for _ in 0..lost {
            self.plan.done(self.now, number);
            self.act();
        }
        lost
    }

    fn down(&mut self, pid: Pid) {
        self.dies(pid);
        self.plan.down(self.now, pid, &ExitReason::Killed);
        self.act();
    }

    /// Makes a member exit on its own, without a message.
    fn ends(&mut self, pid: Pid, why: &ExitReason) {
        self.dies(pid);
        self.plan.down(self.now, pid, why);
        self.act();
    }

    /// Advances to the next requested start and returns how long that took. Returns `None` if no start will be
    /// requested.
    fn next_start(&mut self) -> Option<Duration> {
        let began = self.now;
        while self.starts.is_empty() {
            let due = self.plan.due()?;
            self.after(due.since(self.now));
        }
        Some(self.now.since(began))
    }

    fn after(&mut self, pause: Duration) {
        self.now = self.now.after(pause);
        self.plan.tick(self.now);
        self.act();
    }

    fn messages(&self) -> Vec<u32> {
        self.given.iter().map(|(_, message)| *message).collect()
    }
}

#[test]
fn an_elastic_pool_starts_one_for_calls_one_after_another() {
    let mut world = World::new(rules(0, 8), 1);
    assert!(world.starts.is_empty());
    for message in 0..10 {
        world.arrive(0, message).unwrap();
        if message == 0 {
            world.start();
        }
        world.done(0);
    }
    assert_eq!((world.starts.len(), world.plan.statistics(PoolStatistics::default()).members), (0, 1));
    assert_eq!(world.messages(), (0..10).collect::<Vec<_>>());
}

#[test]
fn it_grows_by_one_for_each_that_finds_nobody_up_to_its_bound() {
    let mut world = World::new(rules(0, 3), 1);
    for message in 0..5 {
        world.arrive(0, message).unwrap();
    }
    assert_eq!(world.starts.len(), 3);
    let _members: Vec<Pid> = (0..3).map(|_| world.start()).collect();
    assert_eq!(world.messages(), [0, 1, 2]);
    world.done(1);
    assert_eq!(world.messages(), [0, 1, 2, 3]);
}

#[test]
fn a_member_that_is_to_take_more_at_once_is_not_doubled_for_them() {
    let mut world = World::new(PoolRules { concurrency: 3, ..rules(0, 8) }, 1);
    for message in 0..4 {
        world.arrive(0, message).unwrap();
    }
    assert_eq!(world.starts.len(), 2);
    world.start();
    assert_eq!(world.messages(), [0, 1, 2]);
}

#[test]
fn a_full_line_refuses_and_those_that_are_coming_count() {
    let mut world = World::new(rules(0, 1), 1);
    // Four messages wait, and the member that is starting will take one at once.
    for message in 0..5 {
        world.arrive(0, message).unwrap();
    }
    assert_eq!(world.arrive(0, 5), Err(PoolRefusal::Full));
    world.start();
    assert_eq!(
        world.plan.statistics(PoolStatistics::default()),
        PoolStatistics { members: 1, waiting: 4, in_flight: 1, ..PoolStatistics::default() }
    );
    assert_eq!(world.arrive(0, 5), Err(PoolRefusal::Full));
    world.done(0);
    world.arrive(0, 6).unwrap();
}

#[test]
fn what_waits_too_long_expires_in_order_and_what_is_in_hand_does_not() {
    let mut world = World::new(PoolRules { patience: Some(SECOND), ..rules(1, 1) }, 1);
    world.start();
    world.arrive(0, 0).unwrap();
    world.arrive(0, 1).unwrap();
    world.after(SECOND / 2);
    world.arrive(0, 2).unwrap();
    assert_eq!(world.plan.due(), Some(world.now.after(SECOND / 2)));
    world.after(SECOND / 2);
    assert_eq!(world.expired, [1]);
    world.after(SECOND / 2);
    assert_eq!(world.expired, [1, 2]);
    assert_eq!(world.plan.due(), None);
    assert_eq!(world.plan.statistics(PoolStatistics::default()).in_flight, 1);
}

/// Catches: senders that wait for room and are not woken when a message has expired.
#[test]
fn what_expires_makes_room_for_those_that_wait_for_it() {
    let mut world = World::new(PoolRules { patience: Some(SECOND), queue: 1, ..rules(1, 1) }, 1);
    world.start();
    world.arrive(0, 0).unwrap();
    world.arrive(0, 1).unwrap();
    assert_eq!(world.arrive(0, 2), Err(PoolRefusal::Full));
    world.plan.take_freed();
    assert!(!world.plan.has_room());
    world.after(SECOND);
    assert!(world.plan.take_freed() && world.plan.has_room());
}

#[test]
fn members_that_idle_go_down_to_the_least_and_never_while_they_have_work() {
    let mut world = World::new(PoolRules { idle: Some(SECOND), ..rules(1, 3) }, 1);
    let first = world.start();
    for message in 0..3 {
        world.arrive(0, message).unwrap();
    }
    let _others: Vec<Pid> = (0..2).map(|_| world.start()).collect();
    world.done(0);
    world.done(1);
    world.after(SECOND);
    // The third has work, and the pool keeps at least one: two are retired.
    assert_eq!(world.stopped.len(), 2);
    assert!(world.stopped.contains(&first));
    assert_eq!(world.plan.members().len(), 1);
    // Retired members count until they have ended.
    world.arrive(0, 3).unwrap();
    assert!(world.starts.is_empty());
    let stopped = world.stopped.clone();
    stopped.into_iter().for_each(|pid| world.down(pid));
    assert_eq!(world.starts.len(), 1, "for the one that waits");
}

#[test]
fn one_that_was_as_few_as_there_are_to_be_goes_when_another_has_come() {
    let mut world = World::new(PoolRules { idle: Some(SECOND), ..rules(1, 2) }, 1);
    let first = world.start();
    world.after(SECOND);
    assert!(world.stopped.is_empty());
    assert_eq!(world.plan.due(), None, "nothing to look at while it is alone");
    world.arrive(0, 0).unwrap();
    world.arrive(0, 1).unwrap();
    world.start();
    world.done(0);
    world.after(SECOND);
    assert_eq!(world.stopped, [first]);
}

#[test]
fn round_robin_goes_on_where_it_was_and_skips_the_busy() {
    let mut world = World::new(PoolRules { choice: Balancing::RoundRobin, ..rules(3, 3) }, 1);
    let pids: Vec<Pid> = (0..3).map(|_| world.start()).collect();
    let mut turns = vec![];
    for message in 0..7 {
        world.arrive(0, message).unwrap();
        let place = world.members.iter().position(|(.., hand)| hand.contains(&message)).unwrap();
        turns.push(world.members[place].0.pid);
        // The second member is slow.
        if message != 1 {
            world.done(place);
        }
    }
    assert_eq!(turns, [pids[0], pids[1], pids[2], pids[0], pids[2], pids[0], pids[2]]);
}

#[test]
fn a_member_found_gone_bounces_its_message_to_the_head_of_the_line() {
    let mut world = World::new(rules(1, 1), 1);
    let first = world.start();
    world.dies(first);
    for message in 0..3 {
        world.arrive(0, message).unwrap();
    }
    assert!(world.given.is_empty());
    assert_eq!(world.plan.statistics(PoolStatistics::default()).waiting, 3);
    world.plan.down(world.now, first, &ExitReason::Killed);
    world.act();
    // The member handled nothing, so the queued messages fail, and the next start is delayed.
    assert_eq!((world.failed.len(), world.starts.len()), (3, 0));
    world.after(LAST);
    assert_eq!(world.starts.len(), 1);
}

#[test]
fn a_start_that_fails_tells_those_that_wait_and_is_tried_again_after_growing_pauses() {
    let mut world = World::new(rules(1, 1), 1);
    world.arrive(0, 0).unwrap();
    world.start_fails();
    assert_eq!(world.failed, [0]);
    let mut pauses = vec![];
    for _ in 0..12 {
        let due = world.plan.due().unwrap();
        pauses.push(due.since(world.now));
        world.after(due.since(world.now));
        world.start_fails();
    }
    assert!(pauses.is_sorted() && pauses[0] < pauses[3], "{pauses:?}");
    assert_eq!(pauses.last(), Some(&LAST));
}

#[test]
fn where_others_serve_a_start_that_fails_fails_nobody() {
    let mut world = World::new(rules(1, 2), 1);
    world.start();
    world.arrive(0, 0).unwrap();
    world.arrive(0, 1).unwrap();
    world.start_fails();
    assert!(world.failed.is_empty());
    world.done(0);
    assert_eq!(world.messages(), [0, 1]);
}

#[test]
fn a_key_never_has_two_members_and_its_lane_is_forgotten() {
    let mut world = World::new(PoolRules { idle: Some(SECOND), ..rules(0, 1) }, 0);
    world.arrive(7, 0).unwrap();
    let first = world.start();
    world.done(0);
    world.after(SECOND);
    assert_eq!(world.stopped, [first]);
    world.arrive(7, 1).unwrap();
    assert!(world.starts.is_empty(), "the first has not ended");
    world.down(first);
    let second = world.start();
    assert_eq!(world.messages(), [0, 1]);
    world.done(0);
    world.after(SECOND);
    world.down(second);
    assert!(world.plan.lanes.is_empty());
    assert_eq!(world.plan.due(), None);
}

#[test]
fn a_pool_that_drains_handles_what_it_has_takes_nothing_and_is_over_once() {
    let mut world = World::new(rules(1, 1), 1);
    let first = world.start();
    world.arrive(0, 0).unwrap();
    world.arrive(0, 1).unwrap();
    world.plan.drain(world.now);
    world.act();
    assert_eq!(world.arrive(0, 2), Err(PoolRefusal::Draining));
    assert!(world.stopped.is_empty());
    world.done(0);
    assert_eq!((world.messages(), world.stopped.len()), (vec![0, 1], 0));
    world.done(0);
    assert_eq!((world.stopped.clone(), world.over), (vec![first], 0));
    world.down(first);
    world.plan.drain(world.now);
    world.act();
    assert_eq!(world.over, 1);
}

/// Catches: a requested start that is withdrawn when the pool is stopped, although messages wait for the member.
#[test]
fn a_pool_that_drains_while_its_only_member_starts_starts_it_for_what_waits_and_not_for_nothing() {
    let mut world = World::new(rules(1, 1), 1);
    world.arrive(0, 0).unwrap();
    world.plan.drain(world.now);
    world.act();
    let first = world.try_start();
    assert_eq!((first.is_some(), world.messages()), (true, vec![0]));
    let mut world = World::new(rules(1, 1), 1);
    world.plan.drain(world.now);
    world.act();
    assert_eq!(world.over, 0);
    assert_eq!((world.try_start(), world.over), (None, 1));
}

#[test]
fn a_pool_that_drains_still_starts_members_for_what_waits() {
    let mut world = World::new(rules(0, 1), 1);
    world.arrive(0, 0).unwrap();
    world.arrive(0, 1).unwrap();
    let first = world.start();
    world.plan.drain(world.now);
    world.act();
    world.done(0);
    world.down(first);
    assert_eq!(world.messages(), [0, 1]);
    assert_eq!(world.over, 1, "the second died with its member");
}

/// Random worlds: each message has exactly one outcome, lanes stay in order, and all bounds are respected.
#[test]
fn every_message_has_one_end_whatever_happens() {
    let mut gave_up = 0;
    for seed in 0..400 {
        let mut random = Random::new(seed, 0);
        let (least, most) = [(0, 3), (2, 2), (1, 4), (0, 1), (1, 1)][random.below(5)];
        let lanes = if most == 1 { 3 } else { 1 };
        let rules = PoolRules {
            choice: [Balancing::LeastLoaded, Balancing::RoundRobin][random.below(2)],
            concurrency: 1 + random.below(3),
            queue: random.below(6),
            patience: [None, Some(SECOND)][random.below(2)],
            idle: [None, Some(SECOND)][random.below(2)],
            backoff: [Backoff::none(), Backoff::constant(SECOND / 2)][random.below(2)].clone(),
            intensity: [(u32::MAX, SECOND), (3, SECOND)][usize::from(random.below(4) == 0)],
            ..self::rules(least, most)
        };
        let mut world = World::new(rules.clone(), if least == 0 && most == 1 { 0 } else { lanes });
        let (mut accepted, mut handled, mut lost) = (0, 0, 0);
        let mut dead: Vec<Pid> = vec![];
        for message in 0..300 {
            match random.below(10) {
                0..=3 => accepted += u32::from(world.arrive(random.below(lanes.into()) as u8, message).is_ok()),
                4 if !world.starts.is_empty() => _ = world.try_start(),
                5 if !world.starts.is_empty() && random.below(3) == 0 => world.start_fails(),
                6 | 7 => {
                    let busy: Vec<_> =
                        (0..world.members.len()).filter(|place| !world.members[*place].2.is_empty()).collect();
                    if !busy.is_empty() {
                        handled += 1;
                        world.done(busy[random.below(busy.len())]);
                    }
                }
                8 => {
                    let all: Vec<Pid> = world.plan.all().into_iter().filter(|pid| !dead.contains(pid)).collect();
                    if !all.is_empty() && random.below(2) == 0 {
                        // The member fails, and its exit is reported later.
                        let pid = all[random.below(all.len())];
                        lost += world.dies(pid);
                        dead.push(pid);
                    } else if !dead.is_empty() {
                        let pid = dead.swap_remove(random.below(dead.len()));
                        world.down(pid);
                    }
                }
                _ => {
                    let stopped = world.stopped.iter().find(|pid| !dead.contains(pid)).copied();
                    match stopped {
                        Some(pid) => world.down(pid),
                        None => world.after(SECOND / 3),
                    }
                }
            }
            let standing = world.plan.statistics(PoolStatistics::default());
            for (.., hand) in &world.members {
                assert!(hand.len() <= rules.concurrency, "seed {seed}");
            }
            for lane in world.plan.lanes.values() {
                assert!(lane.count() <= most, "seed {seed}");
                assert!(lane.queue.iter().map(|waiting| waiting.place.serial).is_sorted(), "seed {seed}");
            }
            assert_eq!(standing.waiting, world.plan.lanes.values().map(|lane| lane.queue.len()).sum::<usize>());
            assert!(world.plan.patience.len() <= 64 + 2 * standing.waiting, "seed {seed}");
        }
        world.plan.drain(world.now);
        world.act();
        let mut rounds = 0;
        while world.over == 0 {
            rounds += 1;
            assert!(
                rounds < 1000,
                "seed {seed}: {:?} {:?}",
                world.plan.statistics(PoolStatistics::default()),
                world.stopped
            );
            std::mem::take(&mut dead).into_iter().for_each(|pid| world.down(pid));
            // Only the starts that are requested now: a withdrawn start may be requested again.
            for _ in 0..world.starts.len() {
                world.try_start();
            }
            while let Some(place) = world.members.iter().position(|(.., hand)| !hand.is_empty()) {
                handled += 1;
                world.done(place);
            }
            let over = [world.stopped.clone(), std::mem::take(&mut world.cancelled)].concat();
            over.into_iter().for_each(|pid| world.down(pid));
            world.after(SECOND);
        }
        gave_up += world.given_up.len();
        let ends = handled + lost as u32 + world.expired.len() as u32 + world.failed.len() as u32;
        assert_eq!((ends, world.over), (accepted, 1), "seed {seed}");
        // The messages of a lane with one member are given in order; with several, a message returned by an exited
        // member could come late.
        if least <= 1 && most == 1 {
            for lane in 0..lanes {
                let given: Vec<u32> = world.given.iter().filter(|(of, _)| *of == lane).map(|(_, m)| *m).collect();
                assert!(given.is_sorted(), "seed {seed}: {given:?}");
            }
        }
        assert_eq!(world.plan.due(), None, "seed {seed}");
    }
    assert!(gave_up > 20, "{gave_up}");
}
