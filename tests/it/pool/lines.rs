//! The queue of a pool: its order, expiry and refusals.

use super::*;

#[test]
fn messages_wait_for_a_free_member_and_are_taken_in_order() {
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
        when(&workers, |now| (now.in_flight, now.waiting) == (1, 9));
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
        when(&workers, |now| now.waiting + now.in_flight == 0);
        assert_eq!(address.echo(9).wait(), Ok(9));
    });
}

#[test]
fn without_a_queue_only_messages_with_a_free_member_are_accepted() {
    with_runtime(|runtime| {
        let workers = pool(runtime, Pool::elastic(0..=2).queue(0));
        let (address, gate) = (workers.address(), Gate::new());
        // The pool starts members for these two messages.
        address.work(gate.clone(), 1).send().unwrap();
        address.work(gate.clone(), 2).send().unwrap();
        assert_eq!(address.echo(3).wait(), Err(CallError::Full));
        gate.open();
        when(&workers, |now| now.waiting + now.in_flight == 0);
        assert_eq!(address.echo(4).wait(), Ok(4));
    });
}

#[test]
fn a_message_that_expires_fails_its_caller_with_timeout_and_is_a_dead_letter() {
    watched(|| {
        let (builder, dead) = with_dead_letters();
        let (clock, runtime) = still(builder);
        let workers = pool(&runtime, Pool::fixed(1).deadline(SECOND));
        let (address, gate) = (workers.address(), Gate::new());
        let first = {
            let gate = gate.clone();
            thread::spawn(move || address.work(gate, 1).timeout(LONG).wait())
        };
        gate.wait_for_arrival();
        // No member takes this in time, and the caller itself would wait for an hour.
        let second = thread::spawn(move || address.echo(2).timeout(LONG).wait());
        when(&workers, |now| now.waiting == 1);
        clock.advance(SECOND / 2).unwrap();
        address.echo(3).send().unwrap();
        clock.advance(SECOND / 2 - Duration::from_nanos(1)).unwrap();
        assert_eq!(workers.statistics().waiting, 2);
        clock.advance(Duration::from_nanos(1)).unwrap();
        assert_eq!(second.join().unwrap(), Err(CallError::Timeout));
        assert_eq!((workers.statistics().waiting, dead.len()), (1, 1));
        clock.advance(SECOND / 2).unwrap();
        assert_eq!(dead.all().iter().map(|(_, reason)| *reason).collect::<Vec<_>>(), [DeadLetterReason::Expired; 2]);
        assert!(dead.all()[0].0.ends_with("WorkerEcho"));
        let now = workers.statistics();
        assert_eq!((now.expired, now.waiting, now.in_flight), (2, 0, 1));
        assert_eq!((runtime.statistics().dead_letters.expired, runtime.statistics().dead_letters.total()), (2, 2));
        // A message that a member handles does not expire.
        clock.advance(LONG).unwrap();
        gate.open();
        assert!(first.join().unwrap().is_ok_and(|value| value == 1));
    });
}

#[test]
fn a_wait_for_room_ends_when_a_message_is_done() {
    with_runtime(|runtime| {
        let workers = pool(runtime, Pool::fixed(1).queue(1));
        let (address, gate) = (workers.address(), Gate::new());
        address.work(gate.clone(), 1).send().unwrap();
        address.work(gate.clone(), 2).send().unwrap();
        assert_eq!(address.echo(3).try_send().unwrap_err().reason, SendFailure::Full(workers.pid()));
        let error = address.echo(3).timeout(Duration::from_millis(1)).send_wait().unwrap_err();
        assert_eq!((error.message.value, error.reason), (3, SendFailure::Full(workers.pid())));
        let blocks = thread::spawn(move || address.echo(3).timeout(Duration::MAX).send_wait().is_ok());
        let awaits = runtime.spawn(Sends).send(address).unwrap();
        let task = thread::spawn({
            let host = runtime.host();
            move || Runtime::new().map(|other| other.block_on(address.echo(5).send_async()).is_ok() && host == host)
        });
        gate.open();
        assert!(blocks.join().unwrap());
        assert!(awaits.wait().unwrap());
        assert!(task.join().unwrap().unwrap());
        when(&workers, |now| now.accepted == 5 && now.waiting + now.in_flight == 0);
    });
}

/// Catches: a sender that waits for room, and is not woken when a message expires.
#[test]
fn a_wait_for_room_ends_when_a_message_expires() {
    watched(|| {
        let (clock, runtime) = still(builder());
        let workers = pool(&runtime, Pool::fixed(1).queue(1).deadline(SECOND));
        let (address, gate) = (workers.address(), Gate::new());
        address.work(gate.clone(), 1).send().unwrap();
        gate.wait_for_arrival();
        address.echo(2).send().unwrap();
        let blocks = thread::spawn(move || address.echo(3).timeout(LONG).send_wait().is_ok());
        when(&workers, |now| now.refused == 1);
        clock.advance(SECOND).unwrap();
        assert!(blocks.join().unwrap());
        assert_eq!((workers.statistics().expired, workers.statistics().waiting), (1, 1));
        gate.open();
        when(&workers, |now| now.waiting + now.in_flight == 0);
    });
}

/// Catches: a copy that is refused by a full member, but reported as sent to a member that has exited.
#[test]
fn a_copy_for_a_member_without_room_is_an_overflow_and_fails_its_caller_as_full() {
    watched(|| {
        let (builder, dead) = with_dead_letters();
        let runtime = builder.build().unwrap();
        let workers = Pool::fixed(1)
            .broadcast::<WorkerNote>()
            .spawn(&runtime, |spawn| spawn.of(Worker::default()).mailbox(Bound::Hard(1, Overflow::Refuse)).serve())
            .unwrap();
        let (address, member, gate) = (workers.address(), workers.members()[0], Gate::new());
        runtime.send(member, WorkerWork { gate: gate.clone(), value: 1 }).unwrap();
        gate.wait_for_arrival();
        until(|| runtime.send(member, WorkerEcho { value: 2 }).is_ok());
        assert_eq!(address.note(3).wait(), Err(CallError::Full));
        assert_eq!(dead.all().iter().map(|(_, reason)| *reason).collect::<Vec<_>>(), [DeadLetterReason::Overflow]);
        gate.open();
    });
}

/// A process that sends to a pool, and waits for room.
#[process]
struct Sends;

#[process]
impl Sends {
    #[entry]
    async fn send(&mut self, pool: Address<Worker>) -> bool {
        pool.echo(4).send_async().await.is_ok()
    }
}

#[test]
fn a_wait_for_room_fails_when_the_pool_stops() {
    with_runtime(|runtime| {
        let workers = pool(runtime, Pool::fixed(1).queue(0));
        let (address, gate) = (workers.address(), Gate::new());
        address.work(gate.clone(), 1).send().unwrap();
        let blocks = thread::spawn(move || address.echo(3).timeout(Duration::MAX).send_wait().unwrap_err().reason);
        let end = workers.pid().join();
        workers.stop();
        assert_eq!(blocks.join().unwrap(), SendFailure::Gone(workers.pid()));
        gate.open();
        assert_eq!(end.wait(), ExitReason::Normal);
    });
}

#[test]
fn a_member_whose_mailbox_others_have_filled_is_left_alone_until_it_has_room() {
    with_runtime(|runtime| {
        let workers = Pool::fixed(1)
            .spawn(runtime, |spawn| spawn.of(Worker::default()).mailbox(Bound::Hard(1, Overflow::Refuse)).serve())
            .unwrap();
        let (address, member, gate) = (workers.address(), workers.members()[0], Gate::new());
        // The messages are sent directly to the member, which handles the first one and has the second in its mailbox.
        runtime.send(member, WorkerWork { gate: gate.clone(), value: 1 }).unwrap();
        gate.wait_for_arrival();
        until(|| runtime.send(member, WorkerEcho { value: 2 }).is_ok());
        let call = thread::spawn(move || address.echo(3).timeout(LONG).wait());
        when(&workers, |now| now.accepted == 1);
        assert_eq!(workers.members(), [member], "it is not taken for dead");
        gate.open();
        assert_eq!(call.join().unwrap(), Ok(3));
    });
}

#[test]
fn calls_with_kept_replies_count_until_they_are_answered() {
    with_runtime(|runtime| {
        let workers = pool(runtime, Pool::fixed(1));
        let address = workers.address();
        let kept = thread::spawn(move || address.keep().timeout(LONG).wait());
        when(&workers, |now| now.in_flight == 1);
        address.echo(1).send().unwrap();
        assert_eq!(workers.statistics().waiting, 1);
        let member = workers.members()[0];
        // The message is sent directly to the member, so it may get ahead of the pool's messages.
        until(|| {
            runtime.send(member, WorkerAnswerAll { value: 5 }).unwrap();
            kept.is_finished()
        });
        assert_eq!(kept.join().unwrap(), Ok(5));
        when(&workers, |now| now.waiting + now.in_flight == 0);
    });
}
