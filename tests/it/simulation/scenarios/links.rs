//! Links and monitors that are made, removed and notified while processes end.

use super::*;
use crate::links::stress::Wild;
use postroom::Monitor;
use postroom::test::sometimes;
use postroom_tests::partner::{self, Begin, Bound, Partner, Report, Reports, Trapper, fell_with};
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

fn partners(sim: &Sim, count: usize) -> Vec<Address<Partner>> {
    (0..count).map(|_| sim.spawn(Partner::default()).serve().unwrap()).collect()
}

/// Spawns a partner, and also returns its reports.
fn watcher(sim: &Sim) -> (Address<Partner>, Reports) {
    let (watcher, told) = Partner::reporting();
    (sim.spawn(watcher).serve().unwrap(), told)
}

/// Makes a partner fail, or end in another abnormal way.
fn fail(partner: Address<Partner>, way: u64) {
    match way % 3 {
        0 => partner.pid().kill(),
        1 => partner.pid().cancel("enough"),
        _ => partner.fail().send().is_ok(),
    };
}

/// The links of a chain are made while its first process fails. All processes fail, through a link or while linking.
#[postroom::test(seeds = 200)]
fn a_chain_falls_however_far_it_has_been_made(sim: Sim) {
    let nodes = partners(&sim, 5);
    let ends: Vec<_> = nodes.iter().map(|node| node.pid().join()).collect();
    let (chain, way) = (nodes.clone(), sim.random());
    let linker = race(&sim, async move {
        for pair in chain.windows(2) {
            // The process may have failed already.
            let _fallen = pair[1].link(pair[0].pid()).send();
            pause().await;
        }
    });
    let first = nodes[0];
    let failer = race(&sim, async move {
        pause().await;
        fail(first, way);
    });
    all([linker, failer]);
    let reasons: Vec<_> = ends.into_iter().map(|end| end.wait()).collect();
    let is_gone =
        |reason: &ExitReason| matches!(reason, ExitReason::Linked { reason, .. } if **reason == ExitReason::NoProcess);
    sometimes!(reasons.iter().any(is_gone), "one links to what is gone");
    sometimes!(reasons[1..].iter().all(|reason| fell_with(reason, first.pid()) && !is_gone(reason)), "all were linked");
    assert!(reasons[1..].iter().all(|reason| matches!(reason, ExitReason::Linked { .. })), "{reasons:?}");
    assert_eq!(sim.statistics().processes.live, 0);
}

/// Both processes link and unlink at random. When each has handled all notices, both halves agree.
#[postroom::test(seeds = 200)]
fn both_halves_of_a_link_agree(sim: Sim) {
    let pair = partners(&sim, 2);
    let racers: Vec<_> = [(pair[0], pair[1]), (pair[1], pair[0])]
        .into_iter()
        .map(|(who, whom)| {
            let bits = sim.random();
            race(&sim, async move {
                for bit in 0..4 {
                    match bits >> bit & 1 == 1 {
                        true => who.link(whom.pid()).await.unwrap(),
                        false => who.unlink(whom.pid()).await.unwrap(),
                    }
                }
            })
        })
        .collect();
    all(racers);
    sim.until_idle().unwrap();
    let links = |partner: Address<Partner>| partner.pid().bindings().wait().unwrap().links;
    let (first, second) = (links(pair[0]), links(pair[1]));
    sometimes!(!first.is_empty(), "they end linked");
    sometimes!(first.is_empty(), "they end unlinked");
    assert_eq!(first.is_empty(), second.is_empty());
    assert!(first.len() <= 1 && first.iter().all(|pid| *pid == pair[1].pid()), "{first:?}");
    let end = pair[1].pid().join();
    pair[0].pid().kill();
    if !first.is_empty() {
        assert!(fell_with(&end.wait(), pair[0].pid()));
    } else {
        sim.until_idle().unwrap();
        assert!(pair[1].pid().is_alive());
    }
}

/// One process fails on its own. The other fails with it, since it handles the link's notice before its own message.
#[postroom::test(seeds = 200)]
fn of_two_that_are_linked_and_fail_at_once_one_falls(sim: Sim) {
    let pair = partners(&sim, 2);
    pair[0].link(pair[1].pid()).wait().unwrap();
    let ends: Vec<_> = pair.iter().map(|partner| partner.pid().join()).collect();
    let racers: Vec<_> = pair.iter().map(|&partner| race(&sim, async move { fail(partner, 2) })).collect();
    all(racers);
    let fell: Vec<bool> =
        ends.into_iter().zip([1, 0]).map(|(end, other)| fell_with(&end.wait(), pair[other].pid())).collect();
    sometimes!(fell == [true, false], "the second fails first");
    sometimes!(fell == [false, true], "the first fails first");
    assert_ne!(fell[0], fell[1]);
    assert_eq!(sim.statistics().processes.live, 0);
}

/// The process fails with its partner, unless it has unlinked in time. Then nothing is left of the link.
#[postroom::test(seeds = 200)]
fn one_that_unlinks_falls_or_is_left_alone(sim: Sim) {
    let pair = partners(&sim, 2);
    let (one, other) = (pair[0], pair[1]);
    one.link(other.pid()).wait().unwrap();
    let end = one.pid().join();
    let unlinker = race(&sim, async move { drop(one.unlink(other.pid()).await) });
    let way = sim.random();
    let failer = race(&sim, async move { fail(other, way) });
    all([unlinker, failer]);
    sim.until_idle().unwrap();
    if one.pid().is_alive() {
        sometimes!(true, "it has unlinked in time");
        assert_eq!(one.pid().bindings().wait().unwrap().count(), 0);
    } else {
        sometimes!(true, "it falls");
        assert!(fell_with(&end.wait(), other.pid()));
    }
}

/// Processes end while they are monitored. Each monitor fires once, with the true reason if its process still existed.
#[postroom::test(seeds = 200)]
fn each_monitor_is_told_once(sim: Sim) {
    let (watcher, told) = watcher(&sim);
    let watched = partners(&sim, 3);
    let pids: Vec<_> = watched.iter().map(|partner| partner.pid()).collect();
    let ends: Vec<_> = pids.iter().map(|pid| pid.join()).collect();
    let own = pids.clone();
    let monitor = race(&sim, async move {
        let mut monitors = Vec::new();
        for pid in own.iter().chain(&own) {
            monitors.push(watcher.watch(*pid).await.unwrap());
        }
        monitors
    });
    let ways = [(); 3].map(|()| sim.random());
    let enders: Vec<_> = (0..3)
        .map(|place| {
            let (partner, way) = (watched[place], ways[place]);
            race(&sim, async move {
                pause().await;
                fail(partner, way);
            })
        })
        .collect();
    all(enders);
    let mut monitors = monitor.wait().unwrap();
    let reasons: Vec<_> = ends.into_iter().map(|end| end.wait()).collect();
    watcher.ping().wait().unwrap();
    let mut heard = Vec::new();
    for said in told.so_far() {
        let Report::Down(down) = said else { panic!("{said:?}") };
        let place = pids.iter().position(|pid| *pid == down.pid).unwrap();
        let was_there = down.reason != ExitReason::NoProcess;
        sometimes!(was_there, "it is monitored in time");
        sometimes!(!was_there, "it is gone when it is monitored");
        assert!(!was_there || down.reason == reasons[place], "{}: {}", down.reason, reasons[place]);
        heard.push(down.monitor);
    }
    let key = |monitor: &Monitor| format!("{monitor:?}");
    heard.sort_by_key(key);
    monitors.sort_by_key(key);
    assert_eq!(heard, monitors);
    assert_eq!(watcher.pid().bindings().wait().unwrap().count(), 0);
}

/// A monitor fires or is removed, but not both.
#[postroom::test(seeds = 200)]
fn a_monitor_that_is_taken_back_is_not_told(sim: Sim) {
    let (watcher, told) = watcher(&sim);
    let watched = partners(&sim, 1)[0];
    let monitor = watcher.watch(watched.pid()).wait().unwrap();
    let taker = race(&sim, async move { watcher.unwatch(monitor).await.unwrap() });
    let way = sim.random();
    let ender = race(&sim, async move { fail(watched, way) });
    let (was_taken_back, ()) = (taker.wait().unwrap(), ender.wait().unwrap());
    sim.until_idle().unwrap();
    watcher.ping().wait().unwrap();
    sometimes!(was_taken_back, "it is taken back in time");
    sometimes!(!was_taken_back, "it is told");
    assert_eq!(told.so_far().len(), usize::from(!was_taken_back));
    assert_eq!(watcher.pid().bindings().wait().unwrap().count(), 0);
}

/// The watcher ends while it sets monitors and is notified. The watched processes keep nothing of it.
#[postroom::test(seeds = 200)]
fn a_watcher_that_ends_leaves_nothing_with_those_it_watched(sim: Sim) {
    let (watcher, _told) = watcher(&sim);
    let watched = partners(&sim, 3);
    for partner in &watched {
        watcher.watch(partner.pid()).send().unwrap();
        watcher.watch(partner.pid()).send().unwrap();
    }
    let end = watcher.pid().join();
    let way = sim.random();
    let enders = [
        race(&sim, async move {
            pause().await;
            fail(watcher, way);
        }),
        race(&sim, {
            let other = watched[0];
            async move {
                pause().await;
                fail(other, way / 3);
            }
        }),
    ];
    all(enders);
    end.wait();
    sim.until_idle().unwrap();
    sometimes!(sim.statistics().dead_letters.ended > 0, "it ends before it has monitored all");
    sometimes!(sim.statistics().dead_letters.ended == 0, "it ends when it has monitored all");
    for partner in &watched[1..] {
        assert_eq!(partner.pid().bindings().wait().unwrap().count(), 0);
    }
}

/// The child fails at any time, from before its parent's answer to after it.
#[postroom::test(seeds = 200)]
fn a_linked_child_that_fails_at_once_takes_its_parent_with_it(sim: Sim) {
    let (parent, _told) = watcher(&sim);
    let end = parent.pid().join();
    let child = parent.spawn(partner::Bound::Linked, Begin::RunAndFail).wait();
    let reason = end.wait();
    sometimes!(child.is_ok(), "the answer is first");
    let fell =
        child.as_ref().map_or_else(|_| matches!(reason, ExitReason::Linked { .. }), |&child| fell_with(&reason, child));
    assert!(fell, "{reason}");
    assert_eq!(sim.statistics().processes.live, 0);
}

/// The owner ends while it spawns. All processes that it owns end with it.
#[postroom::test(seeds = 200)]
fn whatever_ends_an_owner_ends_all_that_it_owns(sim: Sim) {
    let parent = sim.spawn(Partner::default()).serve().unwrap();
    (0..3).for_each(|_| parent.spawn(Bound::Owned, Begin::Serve).send().unwrap());
    let way = sim.random();
    let ender = race(&sim, async move {
        pause().await;
        fail(parent, way);
    });
    ender.wait().unwrap();
    sim.until_idle().unwrap();
    let spawned = sim.statistics().processes.spawned - 2;
    sometimes!((1..3).contains(&spawned), "it is ended between two of them");
    sometimes!(spawned == 3, "it is ended after all of them");
    assert_eq!(sim.statistics().processes.live, 0);
}

/// The messages that a process sends before it ends arrive before the notice of its end.
#[postroom::test(seeds = 200)]
fn the_last_message_comes_before_the_notice_of_the_end(sim: Sim) {
    let (trapper, told) = Trapper::reporting();
    let trapper = sim.spawn(trapper).serve().unwrap();
    let (watcher, heard) = watcher(&sim);
    let failing = partners(&sim, 1)[0];
    trapper.link(failing.pid()).wait().unwrap();
    watcher.watch(failing.pid()).wait().unwrap();
    // At the same time the trapper gets a message from another process.
    let sayer = race(&sim, async move { trapper.say("beside").send().unwrap() });
    let failer = race(&sim, async move { failing.say_to_and_fail("last", watcher).send().unwrap() });
    all([sayer, failer]);
    sim.until_idle().unwrap();
    assert!(matches!(&heard.so_far()[..], [Report::Word("last"), Report::Down(_)]));
    let told = told.so_far();
    sometimes!(matches!(told[0], Report::Exit(_)), "the exit is first");
    sometimes!(matches!(told[0], Report::Word(_)), "the word is first");
    assert_eq!(told.len(), 2, "{told:?}");
}

/// Processes bind themselves to each other and end at random. Nothing is left of ended processes, and each notice is
/// delivered exactly once.
#[postroom::test(seeds = 200)]
fn nothing_is_left_of_the_dead_and_nothing_told_twice_or_not_at_all(sim: Sim) {
    const PLACES: usize = 5;
    let places = Arc::new(Mutex::new(Vec::new()));
    let wild: Vec<_> = (0..PLACES).map(|_| sim.spawn(Wild::new(&places)).serve().unwrap()).collect();
    places.lock().unwrap().extend(wild.iter().map(|wild| wild.pid()));
    for _ in 0..2 {
        for wild in &wild {
            // The process may have ended.
            let _ended = wild.act(sim.random(), true).send();
        }
        race(&sim, pause()).wait().unwrap();
    }
    sim.until_idle().unwrap();
    let living: Vec<_> = wild.iter().filter(|wild| wild.pid().is_alive()).collect();
    sometimes!(living.is_empty(), "all end");
    sometimes!(living.len() > PLACES / 2, "most live");
    let live: BTreeSet<Pid> = sim.processes().iter().map(|info| info.pid).collect();
    for wild in living {
        let bound = wild.pid().bindings().wait().unwrap();
        let everyone = [&bound.links, &bound.monitors, &bound.monitored_by, &bound.owned];
        for other in everyone.into_iter().flatten() {
            assert!(live.contains(other), "{wild:?} is bound to {other}, which is dead: {bound:?}");
            let theirs = other.bindings().wait().unwrap();
            let count = |pids: &[Pid], pid| pids.iter().filter(|other| **other == pid).count();
            assert_eq!(count(&bound.links, *other), count(&theirs.links, wild.pid()), "a link of {wild:?} and {other}");
            assert_eq!(count(&bound.monitors, *other), count(&theirs.monitored_by, wild.pid()), "{wild:?} monitors");
        }
        let (unasked, open) = wild.account().timeout(LONG).wait().unwrap();
        assert_eq!((unasked, open), (Vec::<String>::new(), bound.monitors.len()));
    }
}
