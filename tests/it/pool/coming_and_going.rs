//! Start, replacement and retirement of members; and the end of the pool.

use super::*;
use postroom_tests::HOUR;
use std::sync::atomic::AtomicBool;

#[test]
fn an_elastic_pool_has_none_at_start_and_ten_calls_one_after_another_make_one() {
    with_runtime(|runtime| {
        let workers = pool(runtime, Pool::elastic(0..=8));
        assert_eq!((workers.members().len(), workers.statistics().started), (0, 0));
        for value in 0..10 {
            assert_eq!(workers.address().echo(value).wait(), Ok(value));
        }
        assert_eq!((workers.members().len(), workers.statistics().started), (1, 1));
    });
}

#[test]
fn an_elastic_pool_grows_while_all_are_busy_up_to_its_bound_and_shrinks_when_they_idle() {
    watched(|| {
        let (clock, runtime) = still(builder());
        let workers = pool(&runtime, Pool::elastic(1..=4).idle_after(SECOND));
        let (address, gate) = (workers.address(), Gate::new());
        assert_eq!(workers.members().len(), 1);
        for value in 0..9 {
            address.work(gate.clone(), value).send().unwrap();
        }
        when(&workers, |now| now.in_flight == 4 && now.waiting == 5);
        clock.advance(LONG).unwrap();
        assert_eq!(workers.members().len(), 4, "they have work");
        gate.open();
        when(&workers, |now| now.waiting + now.in_flight == 0);
        clock.advance(SECOND - Duration::from_nanos(1)).unwrap();
        assert_eq!(workers.members().len(), 4);
        clock.advance(Duration::from_nanos(1)).unwrap();
        assert_eq!((workers.members().len(), runtime.statistics().processes.live), (1, 2));
        assert_eq!(workers.statistics().started, 4);
        assert_eq!(address.who().wait(), Ok(workers.members()[0]));
        // The last idle member stays.
        clock.advance(LONG).unwrap();
        assert_eq!(workers.members().len(), 1);
    });
}

#[test]
fn stopping_a_pool_finishes_accepted_messages_and_refuses_later_ones() {
    with_runtime(|runtime| {
        let log = Log::new();
        let seen = log.clone();
        let workers = Pool::fixed(2)
            .broadcast::<WorkerNote>()
            .spawn(runtime, move |spawn| spawn.of(Worker { seen: seen.clone(), ..Worker::default() }).serve())
            .unwrap();
        let (address, gate) = (workers.address(), Gate::new());
        let calls: Vec<_> = (0..6)
            .map(|value| {
                let gate = gate.clone();
                thread::spawn(move || address.work(gate, value).timeout(LONG).wait())
            })
            .collect();
        when(&workers, |now| now.in_flight == 2 && now.waiting == 4);
        let end = workers.pid().join();
        workers.stop();
        let refused = address.echo(9).send().unwrap_err();
        assert_eq!(refused.reason, SendFailure::Gone(workers.pid()));
        assert_eq!(address.echo(9).wait(), Err(CallError::Gone(ExitReason::NoProcess)));
        assert_eq!(address.note(9).wait(), Err(CallError::Gone(ExitReason::NoProcess)));
        assert_eq!((workers.statistics().accepted, workers.statistics().refused), (6, 3));
        gate.open();
        for (value, call) in calls.into_iter().enumerate() {
            assert_eq!(call.join().unwrap(), Ok(value as u32));
        }
        assert_eq!(end.wait(), ExitReason::Normal);
        assert_eq!(log.len(), 6);
        assert!(!workers.pid().is_alive());
        // The retired PID itself refuses the message, so the pool does not count it.
        assert_eq!(address.echo(9).send().unwrap_err().reason, SendFailure::Gone(workers.pid()));
        assert_eq!(workers.statistics().refused, 3);
        assert_eq!(runtime.statistics().processes.live, 0);
        // A second stop has no further effect.
        workers.stop();
    });
}

/// Catches: a member that is requested and then not started, because the pool was stopped in between, although messages
/// wait for it.
#[test]
fn a_pool_that_is_stopped_before_its_only_member_has_started_handles_waiting_messages() {
    with_runtime(|runtime| {
        let (busy, go) = (Gate::new(), Gate::new());
        let (is_busy, may_go) = (busy.clone(), go.clone());
        let workers = Pool::by_key(|echo: &WorkerEcho| echo.value)
            .spawn(runtime, move |spawn, _| {
                is_busy.open();
                may_go.pass();
                spawn.of(Worker::default()).serve()
            })
            .unwrap();
        let address = workers.address();
        let call = |value| thread::spawn(move || address.echo(value).timeout(LONG).wait());
        let first = call(1);
        busy.pass();
        // The pool's process is blocked in the closure, so it gets to this start only after the pool has been stopped.
        let second = call(2);
        when(&workers, |now| now.waiting == 2);
        let end = workers.pid().join();
        workers.stop();
        go.open();
        assert_eq!((first.join().unwrap(), second.join().unwrap(), end.wait()), (Ok(1), Ok(2), ExitReason::Normal));
    });
}

#[test]
fn the_pid_of_a_pool_stops_cancels_and_kills_it() {
    watched(|| {
        let (builder, dead) = with_dead_letters();
        let runtime = builder.build().unwrap();
        let begin = || {
            let workers = pool(&runtime, Pool::fixed(1));
            let gate = Gate::new();
            let (address, inner) = (workers.address(), gate.clone());
            let first = thread::spawn(move || address.work(inner, 1).timeout(LONG).wait());
            // The message is being handled: unhandled messages of a member become dead letters when it is killed.
            gate.wait_for_arrival();
            let second = thread::spawn(move || address.echo(2).timeout(LONG).wait());
            when(&workers, |now| now.waiting == 1);
            (workers, gate, first, second)
        };
        let (workers, gate, first, second) = begin();
        let end = workers.pid().join();
        assert!(workers.pid().stop());
        gate.open();
        assert_eq!((first.join().unwrap(), second.join().unwrap(), end.wait()), (Ok(1), Ok(2), ExitReason::Normal));
        assert!(dead.is_empty());

        let (workers, _gate, first, second) = begin();
        let end = workers.pid().join();
        assert!(workers.pid().kill());
        assert_eq!(second.join().unwrap(), Err(CallError::Gone(ExitReason::Killed)));
        assert_eq!(end.wait(), ExitReason::Killed);
        // The members exit with the pool, which owns them.
        assert!(matches!(first.join().unwrap(), Err(CallError::Died(_))));
        assert_eq!(dead.len(), 1);

        let (workers, _gate, first, second) = begin();
        let end = workers.pid().join();
        assert!(workers.pid().cancel("enough"));
        let enough = |reason: &ExitReason| reason.to_string().contains("enough");
        assert!(matches!(second.join().unwrap(), Err(CallError::Gone(reason)) if enough(&reason)));
        assert!(matches!(first.join().unwrap(), Err(CallError::Died(reason)) if enough(&reason)));
        assert!(enough(&end.wait()));
        until(|| runtime.statistics().processes.live == 0);
    });
}

#[test]
fn a_shutdown_ends_a_pool_and_its_members_and_fails_waiting_calls() {
    watched(|| {
        let runtime = builder().build().unwrap();
        let workers = pool(&runtime, Pool::fixed(2));
        let (address, gate) = (workers.address(), Gate::new());
        let calls: Vec<_> = (0..4)
            .map(|value| {
                let gate = gate.clone();
                thread::spawn(move || address.work(gate, value).timeout(LONG).wait())
            })
            .collect();
        when(&workers, |now| now.in_flight == 2 && now.waiting == 2);
        // A message that was passed to a member may still be in the member's mailbox.
        gate.wait_for_arrivals(2);
        let report = runtime.shutdown_within(HOUR).unwrap();
        assert!(!report.was_forced(), "{report}");
        let answers: Vec<_> = calls.into_iter().map(|call| call.join().unwrap()).collect();
        // A call that is passed to a member that has already exited fails with `NoProcess`.
        let were_in_line = |answer: &Result<_, CallError>| match answer {
            Err(CallError::Died(ExitReason::Shutdown)) => false,
            Err(CallError::Gone(ExitReason::Shutdown | ExitReason::NoProcess)) => true,
            other => panic!("{other:?}"),
        };
        assert_eq!(answers.iter().filter(|answer| were_in_line(answer)).count(), 2, "{answers:?}");
    });
}

#[test]
fn a_failed_member_is_replaced_and_only_its_current_messages_fail() {
    with_runtime(|runtime| {
        let workers = pool(runtime, Pool::fixed(1));
        let (address, gate) = (workers.address(), Gate::new());
        let before = workers.members();
        let crash = {
            let (address, gate) = (address, gate.clone());
            address.work(gate.clone(), 0).send().unwrap();
            when(&workers, |now| now.in_flight == 1);
            thread::spawn(move || address.crash().timeout(LONG).wait())
        };
        when(&workers, |now| now.waiting == 1);
        let waits: Vec<_> =
            (1..5).map(|value| thread::spawn(move || address.echo(value).timeout(LONG).wait())).collect();
        when(&workers, |now| now.waiting == 5);
        gate.open();
        let crashed = crash.join().unwrap();
        assert!(matches!(&crashed, Err(CallError::Died(ExitReason::Panic(_)))), "{crashed:?}");
        for (value, call) in (1..5).zip(waits) {
            assert_eq!(call.join().unwrap(), Ok(value));
        }
        assert_ne!(workers.members(), before);
        assert_eq!(workers.members().len(), 1);
    });
}

#[test]
fn a_factory_that_fails_at_the_start_is_the_error_of_the_spawn_and_leaves_nothing() {
    with_runtime(|runtime| {
        let mut count = 0;
        let error = Pool::fixed(3)
            .spawn(runtime, move |spawn| {
                count += 1;
                if count == 3 {
                    Err(SpawnError::Refused("no third".to_string()))
                } else {
                    spawn.of(Worker::default()).serve()
                }
            })
            .unwrap_err();
        assert!(matches!(&error, SpawnError::Refused(text) if text == "no third"), "{error}");
        until(|| runtime.statistics().processes.live == 0);
        let error = Pool::fixed(1).spawn(runtime, |_| -> Result<Pid, SpawnError> { panic!("no one") }).unwrap_err();
        assert!(error.to_string().contains("no one"), "{error}");
    });
}

#[test]
fn a_factory_that_fails_later_fails_waiting_calls_and_the_pool_recovers() {
    with_runtime(|runtime| {
        let broken = Arc::new(AtomicBool::new(true));
        let breaks = broken.clone();
        let workers = Pool::elastic(0..=4)
            .spawn(runtime, move |spawn| match breaks.load(SeqCst) {
                true => Err(SpawnError::Refused("the disk is full".to_string())),
                false => spawn.of(Worker::default()).serve(),
            })
            .unwrap();
        let error = workers.address().echo(1).wait().unwrap_err();
        assert!(error.to_string().contains("the disk is full"), "{error}");
        assert!(workers.address().echo(2).wait().is_err());
        broken.store(false, SeqCst);
        assert_eq!(workers.address().echo(3).wait(), Ok(3));
        let now = workers.statistics();
        assert_eq!((now.failed, now.started), (2, 1));
    });
}

#[test]
fn members_that_end_at_once_are_started_anew_after_a_pause_that_grows() {
    watched(|| {
        let (clock, runtime) = still(builder());
        let began = clock.now();
        let starts = Log::new();
        let (counts, watch) = (starts.clone(), clock.clone());
        let workers = Pool::fixed(1)
            .backoff(Backoff::exponential(Duration::from_millis(20), LONG).jitter(0.0))
            .spawn(&runtime, move |spawn| {
                counts.add(watch.now() - began);
                match counts.len() {
                    ..4 => spawn.of(Worker::default()).flee().map(|running| running.address()),
                    _ => spawn.of(Worker::default()).serve(),
                }
            })
            .unwrap();
        // Although no message waits, the pool has its member again in the end.
        clock.advance(SECOND).unwrap();
        assert_eq!(starts.all(), [0, 20, 60, 140].map(Duration::from_millis));
        assert_eq!((workers.members().len(), workers.statistics().failed), (1, 3));
        assert_eq!(workers.address().echo(1).wait(), Ok(1));
    });
}

#[test]
fn dropping_the_result_of_spawn_does_not_end_the_pool() {
    with_runtime(|runtime| {
        let address = pool(runtime, Pool::fixed(1)).address();
        assert_eq!(address.echo(1).wait(), Ok(1));
        assert!(address.pid().is_alive());
    });
}
