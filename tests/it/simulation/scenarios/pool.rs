//! Pools whose members fail, start and retire during calls.

use super::*;
use crate::pool::{Worker, WorkerEcho, WorkerNote};
use postroom::supervision::Backoff;
use postroom::test::sometimes;
use postroom::{Pool, RunningPool};
use postroom_tests::face::Log;

/// Many callers, members that fail at any time, and a short queue: each call gets one answer, and nothing is left over.
fn storm(sim: &Sim, pool: Pool) {
    let pool = pool
        .intensity(u32::MAX, Duration::ZERO)
        .backoff(Backoff::constant(SOON).jitter(0.0))
        .spawn(sim.host(), |spawn| spawn.of(Worker::default()).serve())
        .unwrap();
    sim.crash::<Worker>(0.1);
    let address = pool.address();
    let callers: Vec<_> = (0..4)
        .map(|caller| {
            race(sim, async move {
                let mut answers = Vec::new();
                for value in 0..2 {
                    if caller == 0 {
                        answers.push(address.crash().timeout(LONG).await);
                    }
                    let value = caller * 10 + value;
                    let answer = address.echo(value).timeout(LONG).await;
                    assert!(answer.as_ref().is_ok_and(|echo| *echo == value) || answer.is_err(), "{answer:?}");
                    answers.push(answer);
                }
                answers
            })
        })
        .collect();
    let victims = pool.clone();
    let killer = race(sim, async move {
        pause().await;
        victims.members().first().map(|member| member.kill());
    });
    let (answers, _) = (all(callers).concat(), killer.wait().unwrap());
    for answer in &answers {
        match answer {
            Ok(_) => {}
            Err(CallError::Died(_)) => sometimes!(true, "a member dies with a message in hand"),
            Err(CallError::Full) => sometimes!(true, "the queue is full"),
            Err(CallError::Timeout) => sometimes!(true, "one waits too long in the queue"),
            Err(CallError::Gone(_)) => {}
            other => panic!("{other:?}"),
        }
    }
    let now = pool.statistics();
    assert_eq!((now.waiting, now.in_flight), (0, 0));
    sim.advance(20 * SOON);
    assert_eq!(
        address.echo(99).timeout(LONG).wait().or_else(|error| if is_crash(&error) { Ok(99) } else { Err(error) }),
        Ok(99)
    );
    let over = pool.pid().join();
    pool.stop();
    assert_eq!(over.wait(), ExitReason::Normal);
    sim.until_idle().unwrap();
    assert_eq!((sim.statistics().processes.live, sim.statistics().timers), (0, 0));
}

/// Returns whether a call failed because the simulation crashed a member.
fn is_crash(error: &CallError) -> bool {
    matches!(error, CallError::Gone(ExitReason::Panic(_)) | CallError::Died(ExitReason::Panic(_)))
}

#[postroom::test(seeds = 200)]
fn each_call_is_answered_once_while_members_of_a_fixed_pool_die(sim: Sim) {
    storm(&sim, Pool::fixed(2).queue(2));
}

#[postroom::test(seeds = 200)]
fn each_call_is_answered_once_while_members_of_an_elastic_pool_come_go_and_die(sim: Sim) {
    storm(&sim, Pool::elastic(0..=2).queue(1).idle_after(SOON).concurrency(2).deadline(SOON));
}

/// Checks that a stopped pool finishes accepted messages, and refuses later ones.
fn stopped(sim: &Sim, pool: RunningPool<Worker>, log: &Log<u32>) {
    let (address, over) = (pool.address(), pool.pid().join());
    let callers: Vec<_> =
        (0..5).map(|value| race(sim, async move { address.echo(value).timeout(LONG).await })).collect();
    let stops = pool.clone();
    let stopper = race(sim, async move {
        pause().await;
        stops.stop();
    });
    let (answers, ()) = (all(callers), stopper.wait().unwrap());
    assert_eq!(over.wait(), ExitReason::Normal);
    let answered = answers.iter().filter(|answer| answer.is_ok()).count();
    sometimes!((1..5).contains(&answered), "it is stopped between two calls");
    sometimes!(answered == 5, "it is stopped after all of them");
    assert!(answers.iter().all(|answer| matches!(answer, Ok(_) | Err(CallError::Gone(ExitReason::NoProcess)))));
    assert_eq!((log.len(), pool.statistics().accepted), (answered, answered as u64));
    sim.until_idle().unwrap();
    assert_eq!(sim.statistics().processes.live, 0);
}

#[postroom::test(seeds = 200)]
fn a_pool_that_is_stopped_finishes_what_it_took(sim: Sim) {
    let log = Log::new();
    let seen = log.clone();
    let pool = Pool::fixed(2)
        .spawn(sim.host(), move |spawn| spawn.of(Worker { seen: seen.clone(), ..Worker::default() }).serve())
        .unwrap();
    stopped(&sim, pool, &log);
}

/// When the pool is stopped, some keys have no process yet.
#[postroom::test(seeds = 200, max_turns = 10_000)]
fn a_pool_by_key_that_is_stopped_finishes_what_it_took(sim: Sim) {
    let log = Log::new();
    let seen = log.clone();
    let pool = Pool::by_key(|echo: &WorkerEcho| echo.value)
        .spawn(sim.host(), move |spawn, _| spawn.of(Worker { seen: seen.clone(), ..Worker::default() }).serve())
        .unwrap();
    stopped(&sim, pool, &log);
}

/// The only member is retired because it is idle. At about that moment, a call arrives.
#[postroom::test(seeds = 200)]
fn a_call_that_comes_as_the_last_member_is_let_go_is_answered(sim: Sim) {
    let pool = Pool::elastic(0..=1).idle_after(SOON).spawn(sim.host(), |spawn| spawn.of(Worker::default()).serve());
    let pool = pool.unwrap();
    let (address, wait) = (pool.address(), Duration::from_millis(4 + sim.random() % 3));
    let caller = race(&sim, async move {
        let mut members = Vec::new();
        for _ in 0..3 {
            members.push(address.who().timeout(LONG).await.unwrap());
            sleep(wait).await;
        }
        members
    });
    let members = caller.wait().unwrap();
    sometimes!(members[0] == members[1], "it is in time");
    sometimes!(members[0] != members[1], "it is answered by a new member");
    sim.advance(2 * SOON);
    assert_eq!((pool.members().len(), sim.statistics().processes.live), (0, 1));
}

/// A broadcast goes once to each live member.
#[postroom::test(seeds = 200)]
fn what_is_broadcast_goes_to_each_member_once(sim: Sim) {
    let log = Log::new();
    let seen = log.clone();
    let pool = Pool::fixed(3)
        .broadcast::<WorkerNote>()
        .backoff(Backoff::constant(SOON).jitter(0.0))
        .spawn(sim.host(), move |spawn| spawn.of(Worker { seen: seen.clone(), ..Worker::default() }).serve())
        .unwrap();
    let address = pool.address();
    let sender = race(&sim, async move {
        for value in 0..2 {
            address.note(value).send().unwrap();
            pause().await;
        }
    });
    let victims = pool.clone();
    let killer = race(&sim, async move {
        pause().await;
        assert!(victims.members()[0].kill());
    });
    all([sender, killer]);
    sim.until_idle().unwrap();
    let count = |value| log.all().iter().filter(|seen| **seen == value).count();
    sometimes!(count(0) == 3 && count(1) == 2, "a member dies between the two");
    sometimes!(sim.statistics().dead_letters.ended > 0, "a member dies with a copy in its mailbox");
    assert!([0, 1].into_iter().all(|value| (2..=3).contains(&count(value))), "{:?}", log.all());
}

/// Messages of one key are handled one by one and in order, whichever processes serve the key.
#[postroom::test(seeds = 200)]
fn messages_of_one_key_stay_in_order(sim: Sim) {
    let log = Log::new();
    let seen = log.clone();
    let pool = Pool::by_key(|echo: &WorkerEcho| echo.value % 2)
        .idle_after(Duration::ZERO)
        .spawn(sim.host(), move |spawn, _| spawn.of(Worker { seen: seen.clone(), ..Worker::default() }).serve())
        .unwrap();
    let address = pool.address();
    let senders: Vec<_> = (0..2)
        .map(|key| {
            race(&sim, async move {
                for number in 0..4 {
                    address.echo(number * 2 + key).send().unwrap();
                    pause().await;
                }
            })
        })
        .collect();
    all(senders);
    sim.until_idle().unwrap();
    for key in 0..2 {
        let numbers: Vec<u32> = log.all().into_iter().filter(|value| value % 2 == key).collect();
        assert_eq!(numbers, (0..4).map(|number| number * 2 + key).collect::<Vec<_>>());
    }
    sometimes!(pool.statistics().started > 2, "a key is let go and served anew");
}
