//! The line of a pool: who waits, how long, and what comes back.

use super::*;

#[test]
fn what_finds_nobody_free_waits_and_goes_to_the_first_that_is_in_order() {
    with_runtime(|runtime| {
        let log = Log::new();
        let seen = log.clone();
        let workers = Pool::fixed(1)
            .spawn(runtime, move |spawn| spawn.of(Worker { seen: seen.clone(), ..Worker::default() }).serve())
            .unwrap();
        let gate = Gate::new();
        for value in 0..10 {
            workers.address().work(gate.clone(), value).send().unwrap();
        }
        when(&workers, |now| (now.in_hand, now.waiting) == (1, 9));
        gate.open();
        until(|| log.len() == 10);
        assert_eq!(log.all(), (0..10).collect::<Vec<_>>());
    });
}

#[test]
fn a_full_line_refuses_with_the_message_and_takes_again_when_there_is_room() {
    with_runtime(|runtime| {
        let workers = pool(runtime, Pool::fixed(2).queue(3));
        let (address, gate) = (workers.address(), Gate::new());
        for value in 0..5 {
            address.work(gate.clone(), value).send().unwrap();
        }
        let refused = address.echo(7).send().unwrap_err();
        assert_eq!((refused.message.value, refused.reason), (7, SendFailure::Full(workers.pid())));
        assert_eq!(address.echo(8).wait(), Err(CallError::Full));
        assert_eq!(runtime.block_on(async { address.echo(8).await }), Err(CallError::Full));
        assert_eq!(workers.statistics().refused, 3);
        gate.open();
        when(&workers, |now| now.waiting + now.in_hand == 0);
        assert_eq!(address.echo(9).wait(), Ok(9));
    });
}

#[test]
fn without_a_line_only_what_members_have_room_for_is_taken() {
    with_runtime(|runtime| {
        let workers = pool(runtime, Pool::elastic(0..=2).queue(0));
        let (address, gate) = (workers.address(), Gate::new());
        // Members are started for these two.
        address.work(gate.clone(), 1).send().unwrap();
        address.work(gate.clone(), 2).send().unwrap();
        assert_eq!(address.echo(3).wait(), Err(CallError::Full));
        gate.open();
        when(&workers, |now| now.waiting + now.in_hand == 0);
        assert_eq!(address.echo(4).wait(), Ok(4));
    });
}

#[test]
fn what_waits_too_long_fails_its_caller_with_timeout_and_is_a_dead_letter() {
    watched(|| {
        let (builder, dead) = with_dead_letters();
        let runtime = builder.build().unwrap();
        let workers = pool(&runtime, Pool::fixed(1).deadline(Duration::from_millis(5)));
        let (address, gate) = (workers.address(), Gate::new());
        let first = {
            let gate = gate.clone();
            thread::spawn(move || address.work(gate, 1).timeout(LONG).wait())
        };
        when(&workers, |now| now.in_hand == 1);
        // Nobody comes to these in time, and the callers themselves would wait for an hour.
        assert_eq!(address.echo(2).timeout(LONG).wait(), Err(CallError::Timeout));
        address.echo(3).send().unwrap();
        until(|| dead.len() == 2);
        assert_eq!(dead.all()[0].1, DeadLetterReason::Expired);
        assert!(dead.all()[0].0.ends_with("WorkerEcho"));
        let now = workers.statistics();
        assert_eq!((now.expired, now.waiting, now.in_hand), (2, 0, 1));
        assert_eq!(runtime.statistics().dead_expired, 2);
        // What a member has in hand is not timed.
        gate.open();
        assert_eq!(first.join().unwrap(), Ok(1));
    });
}

#[test]
fn answers_that_are_kept_count_as_in_hand_until_they_are_given() {
    with_runtime(|runtime| {
        let workers = pool(runtime, Pool::fixed(1));
        let address = workers.address();
        let kept = thread::spawn(move || address.keep().timeout(LONG).wait());
        when(&workers, |now| now.in_hand == 1);
        address.echo(1).send().unwrap();
        assert_eq!(workers.statistics().waiting, 1);
        let member = workers.members()[0];
        runtime.send(member, WorkerAnswerAll { value: 5 }).unwrap();
        assert_eq!(kept.join().unwrap(), Ok(5));
        when(&workers, |now| now.waiting + now.in_hand == 0);
    });
}
