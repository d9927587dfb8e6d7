//! Groups and topics whose members come and go during look-ups and sends.

use super::*;
use crate::registry::groups::{Member, Said, follow, pids};
use postroom::test::sometimes;
use postroom_tests::face::Log;
use std::collections::BTreeSet;

fn members(sim: &Sim, count: usize) -> Vec<Address<Member>> {
    (0..count).map(|_| sim.spawn(Member { heard: Log::new() }).serve().unwrap()).collect()
}

/// A process that follows a group. It begins with the list that it gets when it subscribes.
#[process]
#[derive(Default)]
struct Follower {
    known: BTreeSet<Pid>,
    events: usize,
}

#[process]
impl Follower {
    #[entry]
    fn serve(&mut self) {}

    #[message]
    fn subscribe(&mut self, ctx: &mut Context<Self>) {
        self.known = pids(&ctx.group("room").subscribe(ctx.pid()).unwrap());
    }

    #[message(GroupEvent)]
    fn event(&mut self, event: GroupEvent) {
        self.events += 1;
        follow(&mut self.known, event);
    }

    #[message]
    fn known(&mut self) -> (BTreeSet<Pid>, usize) {
        (self.known.clone(), self.events)
    }
}

/// Members join, leave and die while followers subscribe. Each follower's list and events lead to the final set of
/// members.
#[postroom::test(seeds = 200)]
fn a_list_and_the_events_after_it_have_no_gap_and_no_double(sim: Sim) {
    let all_of_them = members(&sim, 3);
    let followers: Vec<_> = (0..2).map(|_| sim.spawn(Follower::default()).serve().unwrap()).collect();
    let comers: Vec<_> = all_of_them
        .iter()
        .map(|&member| {
            let (host, way) = (sim.host(), sim.random());
            race(&sim, async move {
                let room = host.group("room");
                for bit in 0..4 {
                    let _was_there = match way >> bit & 1 {
                        0 => room.join(member).unwrap(),
                        _ => room.leave(member),
                    };
                    pause().await;
                }
                if way >> 4 & 1 == 1 {
                    end(member.pid(), way >> 5);
                }
            })
        })
        .collect();
    let begin = followers.clone();
    let beginner = race(&sim, async move {
        for follower in begin {
            pause().await;
            follower.subscribe().send().unwrap();
        }
    });
    all(comers);
    beginner.wait().unwrap();
    sim.until_idle().unwrap();
    let there = pids(&sim.group("room").members());
    for follower in &followers {
        let (known, events) = follower.known().wait().unwrap();
        sometimes!(events > 3, "it follows from the start");
        sometimes!(events == 0 && !known.is_empty(), "all have come before it follows");
        assert_eq!(known, there);
    }
    assert_eq!(sim.statistics().directory.members, there.len());
}

/// A broadcast returns the number of members that it reaches. Each of them handles it, or ends with it in the mailbox.
#[postroom::test(seeds = 200)]
fn a_broadcast_reaches_as_many_as_it_says(sim: Sim) {
    let logs: Vec<Log<u32>> = (0..3).map(|_| Log::new()).collect();
    let members: Vec<_> =
        logs.iter().map(|heard| sim.spawn(Member { heard: heard.clone() }).serve().unwrap()).collect();
    let room = sim.group("room");
    members.iter().for_each(|member| assert_eq!(room.join(*member), Ok(true)));
    let sender = race(&sim, async move {
        let mut reached = 0;
        for number in 0..3 {
            reached += room.broadcast(Said(number)) as u64;
            pause().await;
        }
        reached
    });
    let (first, last, host, way) = (members[0], members[2], sim.host(), sim.random());
    let leaver = race(&sim, async move {
        pause().await;
        end(first.pid(), way);
        pause().await;
        host.group("room").leave(last);
    });
    let (reached, ()) = (sender.wait().unwrap(), leaver.wait().unwrap());
    sim.until_idle().unwrap();
    let (heard, dead) = (logs.iter().map(|log| log.len() as u64).sum::<u64>(), sim.statistics().dead_letters.ended);
    sometimes!(dead > 0, "a member ends with a message in its mailbox");
    sometimes!(reached == 9, "all are there for all");
    assert_eq!((heard + dead, logs[1].all()), (reached, vec![0, 1, 2]));
    assert!(logs.iter().all(|log| log.all().is_sorted()));
    assert_eq!(sim.statistics().directory.members, 1);
}

/// A process that records events of its type.
#[process]
#[derive(Default)]
struct Reader(Log<u32>);

#[process]
impl Reader {
    #[entry]
    fn serve(&mut self) {}

    #[message]
    fn subscribe(&mut self, ctx: &mut Context<Self>, wants: bool) -> bool {
        if wants { ctx.subscribe::<Said>() } else { ctx.unsubscribe::<Said>() }
    }

    #[message(Said)]
    fn said(&mut self, said: Said) {
        self.0.add(said.0);
    }
}

/// An event reaches each process that is subscribed when it is published, and reaches it once.
#[postroom::test(seeds = 200)]
fn an_event_reaches_each_that_is_subscribed_then(sim: Sim) {
    let (log, host) = (Log::new(), sim.host());
    let reader = sim.spawn(Reader(log.clone())).serve().unwrap();
    let wavers = race(&sim, async move {
        let mut changes = Vec::new();
        for wants in [true, true, false, true] {
            changes.push(reader.subscribe(wants).await.unwrap());
        }
        changes
    });
    let publisher = race(&sim, async move {
        let mut reached = Vec::new();
        for number in 0..6 {
            if host.publish(Said(number)) == 1 {
                reached.push(number);
            }
            pause().await;
        }
        reached
    });
    let (changes, reached) = (wavers.wait().unwrap(), publisher.wait().unwrap());
    sim.until_idle().unwrap();
    sometimes!(!reached.is_empty() && reached.len() < 6, "it subscribes between two events");
    sometimes!(reached.windows(2).any(|pair| pair[1] > pair[0] + 1), "it misses one between two that it hears");
    assert_eq!((changes, log.all()), (vec![true, false, true, true], reached));
}
