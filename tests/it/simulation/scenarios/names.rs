//! Names that are registered, released and looked up while their holders end.

use super::*;
use crate::names::addresses::Account;
use crate::names::holders::Printer;
use postroom::error::{NameError, SendFailure};
use postroom::test::sometimes;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::SeqCst};

fn printers(sim: &Sim, count: usize) -> Vec<Address<Printer>> {
    (0..count).map(|_| sim.spawn(Printer::default()).serve().unwrap()).collect()
}

/// One process gets the name, and the others learn which one. If that process ends in between, another one may get the
/// name.
#[postroom::test(seeds = 200)]
fn of_several_that_want_a_name_at_once_one_gets_it(sim: Sim) {
    let all_of_them = printers(&sim, 4);
    let racers: Vec<_> = all_of_them
        .iter()
        .map(|&printer| race(&sim, async move { printer.call_yourself("p".to_string()).await }))
        .collect();
    let victim = all_of_them[0].pid();
    let killer = race(&sim, async move {
        pause().await;
        victim.kill();
    });
    let (outcomes, ()) = (all(racers), killer.wait().unwrap());
    sim.until_idle().unwrap();
    let winners: Vec<usize> = (0..4).filter(|&place| outcomes[place].is_ok()).collect();
    sometimes!(winners.len() == 2, "a second one gets it when the first has ended");
    sometimes!(winners == [0], "the one that ends is the only one");
    assert!(winners.len() == 1 || (winners.len() == 2 && winners[0] == 0), "{outcomes:?}");
    let holder = winners.iter().find(|place| **place > 0).map(|&place| all_of_them[place].pid());
    assert_eq!((sim.whereis("p"), sim.statistics().directory.names), (holder, usize::from(holder.is_some())));
    for outcome in outcomes {
        match outcome {
            Err(CallError::Failed(NameError::Taken { holder, .. })) => {
                assert!(winners.iter().any(|&place| all_of_them[place].pid() == holder));
            }
            Ok(()) | Err(CallError::Gone(_) | CallError::Died(_)) => {}
            other => panic!("{other:?}"),
        }
    }
}

/// A process that counts its starts.
#[process]
struct Cache(Arc<AtomicUsize>);

#[process]
impl Cache {
    #[entry]
    fn serve(&mut self) {
        self.0.fetch_add(1, SeqCst);
    }

    #[message]
    fn get(&mut self) -> u32 {
        7
    }
}

/// Each caller gets a process that is alive when the caller gets it. No two processes run at the same time.
#[postroom::test(seeds = 200)]
fn of_several_that_spawn_or_get_at_once_one_spawns(sim: Sim) {
    let started = Arc::new(AtomicUsize::new(0));
    let racers: Vec<_> = (0..4)
        .map(|_| {
            let (host, started) = (sim.host(), started.clone());
            race(&sim, async move {
                pause().await;
                let cache = host.spawn(Cache(started)).named("cache").or_existing().serve().unwrap();
                let answer = cache.get().await;
                if answer.is_ok() {
                    cache.pid().kill();
                }
                (cache.pid(), answer)
            })
        })
        .collect();
    let got = all(racers);
    sim.until_idle().unwrap();
    let mut pids: Vec<Pid> = got.iter().map(|(pid, _)| *pid).collect();
    pids.sort();
    pids.dedup();
    sometimes!(pids.len() == 1, "all get the same");
    sometimes!(pids.len() > 2, "several spawn, one after the other");
    sometimes!(got.iter().any(|(_, answer)| answer.is_err()), "one gets it as it is killed");
    assert_eq!(started.load(SeqCst), pids.len());
    assert_eq!((sim.whereis("cache"), sim.statistics().directory.names), (None, 0));
}

/// Names are registered from outside for a process that ends. In whatever way it ends, no name is left behind.
#[postroom::test(seeds = 200)]
fn names_given_while_their_holder_dies_are_never_left_behind(sim: Sim) {
    let (printer, way) = (printers(&sim, 1)[0], sim.random());
    let namers: Vec<_> = ["a", "b"]
        .into_iter()
        .map(|name| {
            let host = sim.host();
            race(&sim, async move {
                let mut outcomes = Vec::new();
                for round in 0..3 {
                    outcomes.push(host.register_name(format!("{name}{round}"), printer));
                    pause().await;
                    if round == 1 {
                        host.unregister_name(&format!("{name}0"));
                    }
                }
                outcomes
            })
        })
        .collect();
    let ender = race(&sim, async move {
        pause().await;
        end(printer.pid(), way);
    });
    let (outcomes, ()) = (all(namers).concat(), ender.wait().unwrap());
    sim.until_idle().unwrap();
    let given = outcomes.iter().filter(|outcome| outcome.is_ok()).count();
    sometimes!((1..6).contains(&given), "it ends between two names");
    for outcome in outcomes {
        assert!(matches!(outcome, Ok(()) | Err(NameError::Gone { .. })), "{outcome:?}");
    }
    assert_eq!(sim.statistics().directory.names, 0);
    assert!(["a0", "a1", "a2", "b0", "b1", "b2"].iter().all(|name| sim.whereis(name).is_none()));
}

/// While holders come and go, messages are sent by name. They are handled or refused, or become dead letters.
#[postroom::test(seeds = 200)]
fn what_is_sent_by_name_while_holders_change_is_handled_or_accounted_for(sim: Sim) {
    let seen = Arc::new(AtomicU64::new(0));
    let by_name = sim.named_address::<Account>("acct").unwrap();
    let senders: Vec<_> = (0..2)
        .map(|_| {
            race(&sim, async move {
                let mut sent = 0;
                for _ in 0..5 {
                    match by_name.note(1).send() {
                        Ok(()) => sent += 1,
                        Err(error) => assert_eq!(error.reason, SendFailure::UnknownName),
                    }
                    pause().await;
                }
                sent
            })
        })
        .collect();
    let (host, count, ways) = (sim.host(), seen.clone(), sim.random());
    let holders = race(&sim, async move {
        for round in 0..2 {
            let holder = host.spawn(Account { number: round, seen: count.clone() }).named("acct").serve().unwrap();
            pause().await;
            let ended = holder.pid().join();
            end(holder.pid(), ways >> round);
            ended.await;
            pause().await;
        }
    });
    let (sent, ()) = (all(senders), holders.wait().unwrap());
    sim.until_idle().unwrap();
    let (sent, seen, dead) = (sent.iter().sum::<u64>(), seen.load(SeqCst), sim.statistics().dead_letters.ended);
    sometimes!(dead > 0 && seen > 0, "one is sent as the holder ends");
    sometimes!(sent < 10, "one comes back");
    assert_eq!(seen + dead, sent);
}

/// A process that looks up a name when it is notified of the holder's end, and takes the name.
#[process]
struct Heir {
    found: Option<(Option<Pid>, Result<(), NameError>)>,
}

#[process]
impl Heir {
    #[entry]
    fn serve(&mut self) {}

    #[message]
    fn watch(&mut self, other: Pid) {
        other.monitor().unwrap();
    }

    #[message]
    fn found(&mut self) -> Option<(Option<Pid>, Result<(), NameError>)> {
        self.found.clone()
    }

    #[signal]
    fn down(&mut self, ctx: &mut Context<Self>, _down: Down) {
        self.found = Some((ctx.whereis("held"), ctx.register_name("held")));
    }
}

/// Two processes are notified of the holder's end. The first one takes the name, and the second one learns that it is
/// taken.
#[postroom::test(seeds = 200)]
fn a_name_is_free_when_the_end_of_its_holder_is_told(sim: Sim) {
    let (holder, way) = (printers(&sim, 1)[0].pid(), sim.random());
    sim.register_name("held", holder).unwrap();
    let heirs: Vec<_> = (0..2).map(|_| sim.spawn(Heir { found: None }).serve().unwrap()).collect();
    heirs.iter().for_each(|heir| heir.watch(holder).send().unwrap());
    let ender = race(&sim, async move {
        pause().await;
        end(holder, way);
    });
    ender.wait().unwrap();
    sim.until_idle().unwrap();
    let found: Vec<_> = heirs.iter().map(|heir| heir.found().wait().unwrap().unwrap()).collect();
    let winner = (0..2).find(|&place| found[place].1.is_ok()).unwrap();
    sometimes!(winner == 0, "the first is told first");
    sometimes!(winner == 1, "the second is told first");
    assert_eq!(found[winner].0, None);
    assert!(matches!(&found[1 - winner], (Some(pid), Err(NameError::Taken { holder, .. }))
        if pid == holder && *pid == heirs[winner].pid()));
}
