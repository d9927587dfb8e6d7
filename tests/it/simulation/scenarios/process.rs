//! Processes that end, or are upgraded, while others send to them and wait for them.

use super::*;
use crate::process::upgrade::{Better, Counter, Drops};
use postroom::error::UpgradeError;
use postroom::manual::Event;
use postroom::test::{Simulation, sometimes};
use postroom_tests::face::Log;
use postroom_tests::{Ask, act};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

/// A process is killed, stopped and cancelled, and finishes on its own, all at the same time. There is one exit and one
/// `close`, and all joins get the same reason.
#[postroom::test(seeds = 200)]
fn ends_that_race_are_one_end(sim: Sim) {
    let closes = Arc::new(AtomicU64::new(0));
    let closed = closes.clone();
    let process = act(move |events, out| {
        if let Some(Event::Message(_)) = events.next() {
            out.done();
        } else {
            out.idle();
        }
        Ok(())
    });
    let process = process.close(move || _ = closed.fetch_add(1, SeqCst));
    let (pid, host) = (sim.spawn_process(process).start().unwrap(), sim.host());
    let racers: Vec<_> = (0..4)
        .map(|racer| {
            race(&sim, async move {
                let (is_there, ended) = (pid.is_alive(), pid.join());
                pause().await;
                match racer {
                    3 => drop(host.send(pid, ())),
                    way => end(pid, way),
                }
                let reason = ended.await;
                assert!(!is_there || reason != ExitReason::NoProcess, "it was there");
                reason
            })
        })
        .collect();
    let reasons = all(racers);
    let told: Vec<_> = reasons.iter().filter(|reason| **reason != ExitReason::NoProcess).collect();
    sometimes!(reasons[0] == ExitReason::Normal, "it is done or stopped");
    sometimes!(reasons[0] == ExitReason::Killed, "it is killed");
    sometimes!(matches!(reasons[0], ExitReason::Cancelled(_)), "it is cancelled");
    sometimes!(told.len() < 4, "one comes to wait when it has ended");
    assert!(!told.is_empty() && told.iter().all(|reason| *reason == told[0]), "{reasons:?}");
    assert_eq!(closes.load(SeqCst), 1);
}

/// Messages sent before the stop are handled; later ones are refused or become dead letters.
#[postroom::test(seeds = 200)]
fn a_stop_comes_after_the_backlog(sim: Sim) {
    let handled = Log::new();
    let notes = handled.clone();
    let process = act(move |events, out| {
        while let Some(event) = events.next() {
            if let Event::Message(package) = event {
                notes.add(package.take::<(usize, u32)>().unwrap());
            }
        }
        out.idle();
        Ok(())
    });
    let (pid, host) = (sim.spawn_process(process).start().unwrap(), sim.host());
    let senders: Vec<_> = (0..2_usize)
        .map(|sender| {
            race(&sim, async move {
                let mut sent = 0;
                for number in 0..4_u32 {
                    sent += u64::from(host.send(pid, (sender, number)).is_ok());
                    pause().await;
                }
                sent
            })
        })
        .collect();
    let stopper = race(&sim, async move {
        pause().await;
        // In the mailbox, this message is ahead of the stop.
        host.send(pid, (2_usize, 0_u32)).unwrap();
        assert!(pid.stop());
    });
    let (sent, ()) = (all(senders).iter().sum::<u64>() + 1, stopper.wait().unwrap());
    sim.until_idle().unwrap();
    let (handled, dead) = (handled.all(), sim.statistics().dead_letters.ended);
    sometimes!(dead > 0, "one comes after the stop");
    sometimes!(sent < 9, "one comes back");
    assert!(handled.contains(&(2, 0)) && !pid.is_alive());
    assert_eq!(handled.len() as u64 + dead, sent);
    for sender in 0..2 {
        let numbers: Vec<u32> = handled.iter().filter(|(by, _)| *by == sender).map(|(_, number)| *number).collect();
        assert_eq!(numbers, (0..numbers.len() as u32).collect::<Vec<_>>());
    }
}

/// The upgrade is answered, and the state is dropped once.
#[postroom::test(seeds = 200)]
fn an_upgrade_that_races_with_a_kill_is_made_or_refused(sim: Sim) {
    let drops = Drops::default();
    let old = sim.spawn(Counter { kept: Some(drops.clone()), ..Counter::default() }).serve(1).unwrap();
    let (pid, joined) = (old.pid(), old.pid().join());
    let upgrader = race(&sim, async move { pid.upgrade(|old: Counter| Better::of(old, 2)).await });
    let killer = race(&sim, async move {
        pause().await;
        pid.kill();
    });
    let (upgraded, ()) = (upgrader.wait().unwrap(), killer.wait().unwrap());
    assert_eq!(joined.wait(), ExitReason::Killed);
    sometimes!(upgraded.is_ok(), "the upgrade is first");
    sometimes!(upgraded.is_err(), "the kill is first");
    match upgraded {
        Ok(address) => assert_eq!(address.pid(), pid),
        Err(error) => assert_eq!(error, UpgradeError::Gone(pid)),
    }
    assert_eq!(drops.0.load(SeqCst), 1);
}

/// Each message is handled once, either by the old definition or by the new one. The new one counts it tenfold.
#[postroom::test(seeds = 200)]
fn messages_around_an_upgrade_are_handled_once(sim: Sim) {
    let old = sim.spawn(Counter::default()).serve(0).unwrap();
    let senders: Vec<_> = (0..3)
        .map(|_| {
            race(&sim, async move {
                old.add(1).send().unwrap();
                pause().await;
                old.add(1).timeout(LONG).await.unwrap();
            })
        })
        .collect();
    let upgrader = race(&sim, async move {
        pause().await;
        old.pid().upgrade(|old: Counter| Better::of(old, 10)).await.unwrap()
    });
    let (_, new) = (all(senders), upgrader.wait().unwrap());
    sim.until_idle().unwrap();
    let count = new.count().wait().unwrap();
    sometimes!(count == 6, "all are handled before it");
    sometimes!(count == 60, "all are handled after it");
    sometimes!((7..60).contains(&count), "it is between two messages");
    assert!((0..=6).any(|by_new| count == 6 + by_new * 9), "{count}");
}

/// Answers come late, or when the process has ended. Each reaches the process that asked for it, or none at all.
#[test]
fn completions_that_race_with_death_never_reach_a_stranger() {
    let handles =
        |builder: postroom::Builder| builder.handler(|Ask(what), done: postroom::Completion<u64>| done.complete(what));
    let test = Simulation::new("completions").seeds(200).builder(handles).check(|sim| {
        sim.delay_command::<Ask>(0.7, SOON);
        sim.fail_command::<Ask>(0.2);
        let answers = Log::new();
        let asker = |number: u64| {
            let (answers, mut has_asked) = (answers.clone(), false);
            act(move |events, out| {
                while let Some(event) = events.next() {
                    if let Event::Completed { tag, result } = event {
                        assert_eq!(tag, number);
                        answers.add((number, result.ok().map(|answer| answer.take::<u64>().unwrap())));
                        out.done();
                        return Ok(());
                    }
                }
                if !std::mem::replace(&mut has_asked, true) {
                    out.perform(Ask(number), number);
                }
                out.wait();
                Ok(())
            })
        };
        let pids: Vec<_> = (0..3).map(|number| sim.spawn_process(asker(number)).start().unwrap()).collect();
        let (first, host) = (pids[0], sim.host());
        let next = asker(7);
        let killer = race(&sim, async move {
            pause().await;
            first.kill();
            pause().await;
            // This process may reuse the slot of the first one.
            host.spawn_process(next).start().unwrap();
        });
        killer.wait().unwrap();
        sim.advance(4 * SOON);
        let answers = answers.all();
        sometimes!(answers.len() == 3, "one is killed before its answer");
        sometimes!(sim.statistics().late > 0, "an answer comes to one that has ended");
        sometimes!(answers.iter().any(|(_, answer)| answer.is_none()), "a command fails");
        assert!(answers.iter().all(|(number, answer)| answer.is_none_or(|answer| answer == *number)), "{answers:?}");
        assert!(answers.len() >= 3 && sim.statistics().processes.live == 0, "{answers:?}");
    });
    test.expect("each reaches the one that asked");
}
