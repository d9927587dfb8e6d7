//! Children that fail, are killed and are stopped at the same time, while others send to them.

use super::*;
use crate::supervision::kept::{Scribe, scribe};
use crate::supervision::restarting::Till;
use crate::supervision::{Worker, eager, worker};
use postroom::supervision::{Backoff, Child, ChildState, GaveUp, Supervisor, Tree};
use postroom::test::sometimes;
use postroom_tests::face::Log;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

/// Makes a supervisor restart children after a delay, any number of times.
fn patient(supervisor: Supervisor) -> Supervisor {
    supervisor.intensity(u32::MAX, Duration::MAX).backoff(Backoff::constant(SOON).jitter(0.0))
}

/// Makes a child fail, if it is running.
fn crash(worker: Address<Worker>) {
    let _down = worker.crash("it had to").send();
}

/// Checks the log of a group of children: none starts while a later one runs, and two with the same name never run at
/// the same time. Returns the number of starts, and the number of children that ended while a later one ran. (A child
/// that is stopped never does.)
#[track_caller]
fn assert_in_order(lines: &[String], names: &[&str]) -> (usize, usize) {
    let mut running: Vec<&str> = Vec::new();
    let (mut starts, mut early) = (0, 0);
    let place = |name: &str| names.iter().position(|other| *other == name).unwrap();
    for line in lines {
        let (name, what) = line.split_once(' ').unwrap();
        if what == "starts" {
            assert!(running.iter().all(|other| place(other) < place(name)), "{name} starts too early: {lines:?}");
            running.push(name);
            starts += 1;
        } else {
            let at = running.iter().position(|other| *other == name).unwrap_or_else(|| panic!("{lines:?}"));
            running.remove(at);
            early += usize::from(running.iter().any(|other| place(other) > place(name)));
        }
    }
    (starts, early)
}

/// Senders send while a killer kills the child. Each message is handled once, and those of each sender in order.
#[postroom::test(seeds = 200)]
fn in_a_storm_of_kills_every_message_is_handled_once_and_in_order(sim: Sim) {
    let book = Log::new();
    sim.crash::<Scribe>(0.1);
    let tree = patient(Supervisor::one_for_one()).add(scribe(&book).keep_at_most(usize::MAX));
    let tree = tree.spawn(sim.host()).unwrap();
    let scribe: Address<Scribe> = tree.child("scribe").unwrap();
    let senders: Vec<_> = (0..2)
        .map(|sender| {
            race(&sim, async move {
                for number in 0..5 {
                    scribe.write(sender * 100 + number).send_async().await.unwrap();
                    pause().await;
                }
            })
        })
        .collect();
    let killer = race(&sim, async move {
        for _ in 0..2 {
            pause().await;
            scribe.pid().kill();
            sleep(SOON).await;
        }
    });
    all(senders);
    killer.wait().unwrap();
    sim.advance(20 * SOON);
    let handled = book.all();
    for sender in 0..2 {
        let numbers: Vec<u64> = handled.iter().filter(|number| **number / 100 == sender).copied().collect();
        assert_eq!(numbers, (0..5).map(|number| sender * 100 + number).collect::<Vec<_>>());
    }
    let restarts = tree.children()[0].restarts;
    sometimes!(restarts > 2, "it crashes besides");
    sometimes!(restarts > 0 && book.len() == 10, "it is killed");
}

/// A child is killed again and again. The result of each call agrees with what happened to the call.
#[postroom::test(seeds = 200)]
fn what_calls_are_told_agrees_with_what_was_handled(sim: Sim) {
    let count = Arc::new(AtomicU64::new(0));
    let inside = count.clone();
    let tree = patient(Supervisor::one_for_one())
        .child("till", move |spawn| spawn.of(Till(inside.clone())).serve())
        .spawn(sim.host())
        .unwrap();
    let till: Address<Till> = tree.child("till").unwrap();
    let callers: Vec<_> = (0..3)
        .map(|caller| {
            race(&sim, async move {
                let mut outcomes = Vec::new();
                for _ in 0..2 {
                    outcomes.push(match caller {
                        0 => till.put().timeout(LONG).await,
                        _ => till.put().timeout(LONG).wait_for_restart().await,
                    });
                }
                outcomes
            })
        })
        .collect();
    let killer = race(&sim, async move {
        for _ in 0..2 {
            pause().await;
            till.pid().kill();
        }
        sleep(SOON).await;
        till.pid().kill();
    });
    let (outcomes, ()) = (all(callers), killer.wait().unwrap());
    let (mut handled, mut unknown) = (0, 0);
    for (caller, outcome) in outcomes.iter().enumerate().flat_map(|(caller, all)| all.iter().map(move |o| (caller, o)))
    {
        match outcome {
            Ok(()) => handled += 1,
            Err(CallError::Restarting) => {
                sometimes!(true, "a call finds it down");
                assert_eq!(caller, 0, "the others may wait");
            }
            Err(error) if error.delivery() == Delivery::NotDelivered => sometimes!(true, "one is in its mailbox"),
            Err(CallError::Died(ExitReason::Killed)) => unknown += 1,
            other => panic!("{other:?}"),
        }
    }
    let counted = count.load(SeqCst);
    assert!((handled..=handled + unknown).contains(&counted), "{counted} of {handled} and perhaps {unknown}");
}

/// Two children of a group fail at the same time. The group is stopped and started in order, once or twice.
#[postroom::test(seeds = 200)]
fn a_group_of_which_two_fail_at_once_restarts_in_order(sim: Sim) {
    let log = Log::new();
    let names = ["a", "b", "c"];
    let tree = names.iter().fold(eager(Supervisor::one_for_all()), |tree, name| tree.child(*name, worker(name, &log)));
    let tree = tree.spawn(sim.host()).unwrap();
    let racers = ["a", "c"].map(|name| {
        let child: Address<Worker> = tree.child(name).unwrap();
        race(&sim, async move {
            pause().await;
            crash(child);
        })
    });
    all(racers);
    sim.until_idle().unwrap();
    let (starts, early) = assert_in_order(&log.all(), &names);
    assert!(early <= 1, "only the first fails before others are stopped: {:?}", log.all());
    sometimes!(starts == 6, "they fail in one restart");
    sometimes!(starts == 9, "they fail one after the other");
    assert!(starts == 6 || starts == 9, "{:?}", log.all());
    let children = tree.children();
    assert!(children.iter().all(|child| child.state == ChildState::Running), "{tree}");
}

/// With `rest_for_one`, children before the failed one are left alone.
#[postroom::test(seeds = 200)]
fn the_rest_is_restarted_in_order(sim: Sim) {
    let log = Log::new();
    let names = ["a", "b", "c"];
    let tree = names.iter().fold(eager(Supervisor::rest_for_one()), |tree, name| tree.child(*name, worker(name, &log)));
    let tree = tree.spawn(sim.host()).unwrap();
    let (way, host) = (sim.random(), sim.host());
    let racers = ["b", "c"].map(|name| {
        let pid = tree.child_pid(name).unwrap();
        race(&sim, async move {
            pause().await;
            match way % 2 {
                0 => _ = pid.kill(),
                _ => _ = host.send(pid, crate::supervision::WorkerCrash { text: "it had to" }),
            }
        })
    });
    all(racers);
    sim.until_idle().unwrap();
    let lines = log.all();
    let (starts, early) = assert_in_order(&lines, &names);
    assert!(early <= 1, "only the second fails before another is stopped: {lines:?}");
    sometimes!(starts == 5, "both fail in one restart");
    sometimes!(starts > 5, "they fail one after the other");
    assert!((5..=7).contains(&starts), "{lines:?}");
    assert_eq!(lines.iter().filter(|line| line.starts_with('a')).count(), 1);
}

/// If a child fails just as it is stopped for good, it stays down.
#[postroom::test(seeds = 200)]
fn a_child_that_is_stopped_as_it_fails_stays_down(sim: Sim) {
    let log = Log::new();
    let tree = patient(Supervisor::one_for_one()).child("a", worker("a", &log)).child("b", worker("b", &log));
    let tree = tree.spawn(sim.host()).unwrap();
    let a: Address<Worker> = tree.child("a").unwrap();
    let crasher = race(&sim, async move {
        pause().await;
        crash(a);
    });
    let stopped = tree.clone();
    let stopper = race(&sim, async move {
        pause().await;
        stopped.stop_child("a").unwrap();
    });
    all([crasher, stopper]);
    sim.advance(4 * SOON);
    let children = tree.children();
    let failed = children[0].last.as_ref().is_some_and(|last| matches!(last.reason, ExitReason::Panic(_)));
    sometimes!(failed, "it fails first");
    sometimes!(!failed, "it is stopped first");
    assert_eq!((children[0].state, children[1].state), (ChildState::Down, ChildState::Running), "{tree}");
    assert_in_order(&log.all(), &["a", "b"]);
    tree.restart_child("a").unwrap();
    sim.until_idle().unwrap();
    assert_eq!(a.add(1).wait(), Ok(1));
}

/// A child is told to end, and is joined, just as it starts. It ends, the join gets the reason, and from then on the
/// child's name is free.
#[postroom::test(seeds = 200)]
fn a_child_that_is_told_to_end_as_it_begins_ends_and_frees_its_name(sim: Sim) {
    let log = Log::new();
    let tree = eager(Supervisor::dynamic()).spawn(sim.host()).unwrap();
    let start = {
        let (tree, log) = (tree.clone(), log.clone());
        move || tree.start(Child::new("a", worker("a", &log)).temporary())
    };
    let a = start().unwrap().pid();
    let way = sim.random() % 3;
    let waiter = race(&sim, async move {
        pause().await;
        let has_begun = a.is_alive();
        let reason = a.join().await;
        let again = start().map(|again| again.pid());
        (has_begun, reason, again)
    });
    let ender = race(&sim, async move {
        pause().await;
        let has_begun = a.is_alive();
        let is_told = match way {
            0 => a.kill(),
            1 => a.stop(),
            _ => a.cancel("enough"),
        };
        (has_begun, is_told)
    });
    let ((waited, reason, again), (asked, is_told)) = (waiter.wait().unwrap(), ender.wait().unwrap());
    assert!(is_told, "it ends only by this");
    let expected = [ExitReason::Killed, ExitReason::Normal, "enough".into()][way as usize].clone();
    sometimes!(!asked, "it is told before it begins");
    sometimes!(asked, "it is told when it runs");
    sometimes!(!waited && reason == expected, "it is waited for before it begins");
    sometimes!(reason == ExitReason::NoProcess, "it is waited for when it has ended");
    assert!(reason == expected || reason == ExitReason::NoProcess, "{reason}");
    assert!(again.is_ok_and(|again| again != a), "the name is free");
}

/// A tree is stopped while its children fail and are restarted. All of them end, and none is started later.
#[postroom::test(seeds = 200)]
fn a_tree_that_is_stopped_as_children_fail_leaves_none(sim: Sim) {
    let log = Log::new();
    let tree = eager(Supervisor::one_for_all()).child("a", worker("a", &log)).child("b", worker("b", &log));
    let tree = tree.spawn(sim.host()).unwrap();
    let (b, over): (Address<Worker>, _) = (tree.child("b").unwrap(), tree.join());
    let crasher = race(&sim, async move {
        for _ in 0..2 {
            pause().await;
            crash(b);
        }
    });
    let (stopped, way) = (tree.clone(), sim.random());
    let stopper = race(&sim, async move {
        pause().await;
        match way % 3 {
            0 => stopped.pid().kill(),
            1 => stopped.pid().cancel("enough"),
            _ => stopped.stop(),
        };
    });
    all([crasher, stopper]);
    let reason = over.wait();
    sim.until_idle().unwrap();
    let lines = log.all();
    sometimes!(lines.len() > 4, "it fails before the tree is stopped");
    sometimes!(lines.len() == 4, "the tree is stopped first");
    assert!(!reason.to_string().is_empty() && lines.len() % 2 == 0, "{lines:?}");
    if way % 3 > 0 {
        // The child that fails is the last one, so none ends while a later one runs.
        assert_eq!(assert_in_order(&lines, &["a", "b"]).1, 0, "{lines:?}");
    }
    assert_eq!((sim.statistics().processes.live, b.add(1).wait().is_err()), (0, true));
}

/// Both children fail at the same time, but only one restart is allowed, so the tree gives up at the second failure.
#[postroom::test(seeds = 200)]
fn too_many_failures_at_once_end_the_tree_and_callers_learn_why(sim: Sim) {
    let log = Log::new();
    let tree = Supervisor::one_for_one().intensity(1, Duration::MAX).backoff(Backoff::constant(SOON).jitter(0.0));
    let keeps = |name| Child::new(name, worker(name, &log)).keep_messages();
    let tree = tree.add(keeps("a")).add(keeps("b")).spawn(sim.host()).unwrap();
    let children = ["a", "b"].map(|name| tree.child::<Worker>(name).unwrap());
    let over = tree.join();
    let crashers = children.map(|child| {
        race(&sim, async move {
            pause().await;
            crash(child);
        })
    });
    let caller = race(&sim, async move {
        pause().await;
        children[0].add(5).timeout(LONG).await
    });
    all(crashers);
    let answer = caller.wait().unwrap();
    let ExitReason::Error(error) = over.wait() else { panic!("it gives up") };
    let child = error.downcast_ref::<GaveUp>().unwrap().child.clone();
    sometimes!(&*child == "a", "the first is one too many");
    sometimes!(&*child == "b", "the second is one too many");
    sometimes!(answer == Ok(5), "a call is answered before");
    sometimes!(answer.is_err(), "a call is kept in vain");
    assert!(matches!(answer, Ok(5) | Err(CallError::Gone(_))), "{answer:?}");
    sim.until_idle().unwrap();
    assert_eq!(sim.statistics().processes.live, 0);
}

/// A child is started, is stopped, and finishes on its own, all at the same time. It is forgotten, and its name is free
/// again.
#[postroom::test(seeds = 200)]
fn a_dynamic_child_that_ends_as_it_is_stopped_is_forgotten(sim: Sim) {
    let log = Log::new();
    let tree: Tree = eager(Supervisor::dynamic()).spawn(sim.host()).unwrap();
    let (adds, own) = (tree.clone(), log.clone());
    let adder = race(&sim, async move {
        let child = adds.start(Child::new("x", worker("x", &own)).transient()).unwrap();
        pause().await;
        child.finish().send().is_ok()
    });
    let stops = tree.clone();
    let stopper = race(&sim, async move {
        pause().await;
        pause().await;
        stops.stop_child("x").is_ok()
    });
    let [_, stopped] = [adder, stopper].map(|racer| racer.wait().unwrap());
    sim.until_idle().unwrap();
    sometimes!(stopped, "it is stopped");
    sometimes!(!stopped, "it is not there yet, or not any more");
    assert!(tree.children().is_empty(), "{tree}");
    assert_in_order(&log.all(), &["x"]);
    tree.start(Child::new("x", worker("x", &log))).unwrap();
    sim.until_idle().unwrap();
    assert_eq!(tree.children().len(), 1);
}
