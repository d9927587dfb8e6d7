//! Members that fail: the delay before their replacements, the messages that wait until then, and pools that give up.

use super::*;
use postroom::routing::{LinkMessage, Node, Receiver, Router, Transport, Undeliverable};
use postroom::supervision::Supervisor;
use postroom::{NodeId, Package};
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::channel;

/// Returns the reason why a pool gave up.
fn gave_up(reason: &ExitReason) -> &PoolGaveUp {
    match reason {
        ExitReason::Error(error) => error.downcast_ref().unwrap_or_else(|| panic!("{error}")),
        reason => panic!("{reason}"),
    }
}

/// Catches: members that fail at their messages and are replaced at once, thousands per second, without counting as
/// failures.
#[test]
fn members_that_die_of_their_messages_are_replaced_after_a_pause_that_grows() {
    watched(|| {
        let (clock, runtime) = still(builder());
        let (began, starts) = (clock.now(), Log::new());
        let (counts, watch) = (starts.clone(), clock.clone());
        let workers = Pool::fixed(1)
            .backoff(Backoff::exponential(Duration::from_millis(20), LONG).jitter(0.0))
            .spawn(&runtime, move |spawn| {
                counts.add(watch.now() - began);
                spawn.of(Worker::default()).serve()
            })
            .unwrap();
        (0..4).for_each(|_| workers.address().crash().send().unwrap());
        clock.advance(SECOND).unwrap();
        assert_eq!(starts.all(), [0, 20, 60, 140, 300].map(Duration::from_millis));
        assert_eq!(workers.statistics().failed, 4);
        assert_eq!(workers.address().echo(1).wait(), Ok(1));
    });
}

/// Catches: a pool that never ends although its members always fail, and waiting calls and joins that do not get the
/// reason.
#[test]
fn a_pool_whose_members_fail_too_often_gives_up_and_all_hear_why() {
    with_runtime(|runtime| {
        let workers = pool(runtime, Pool::fixed(1).intensity(2, LONG).backoff(Backoff::none()));
        let (address, gate, end) = (workers.address(), Gate::new(), workers.pid().join());
        address.work(gate.clone(), 0).send().unwrap();
        gate.wait_for_arrival();
        (0..3).for_each(|_| address.crash().send().unwrap());
        let waits = thread::spawn(move || address.echo(1).timeout(LONG).wait());
        when(&workers, |now| now.waiting == 4);
        gate.open();
        let end = end.wait();
        let expected = gave_up(&end);
        assert_eq!((expected.most, expected.within), (2, LONG));
        assert!(matches!(&expected.reason, ExitReason::Panic(panic) if panic.message == "over the edge"), "{end}");
        assert!(end.to_string().contains("no more than 2 restarts within 3600s are allowed"), "{end}");
        assert_eq!(waits.join().unwrap(), Err(CallError::Gone(end)));
        assert_eq!((workers.statistics().started, workers.statistics().failed), (3, 3));
        assert!(!workers.pid().is_alive());
        assert_eq!(address.echo(2).send().unwrap_err().reason, SendFailure::Gone(workers.pid()));
        until(|| runtime.statistics().processes.live == 0);
    });
}

/// Catches: failed starts that do not count as failures.
#[test]
fn a_pool_whose_members_cannot_be_started_gives_up_too() {
    with_runtime(|runtime| {
        let workers = Pool::elastic(0..=1)
            .intensity(1, LONG)
            .backoff(Backoff::none())
            .spawn(runtime, |_| Err::<Address<Worker>, _>(SpawnError::Refused("no paper".to_string())))
            .unwrap();
        let end = workers.pid().join();
        let failed: Vec<_> = (0..2).map(|_| workers.address().echo(1).wait().unwrap_err()).collect();
        assert!(failed.iter().all(|error| error.to_string().contains("no paper")), "{failed:?}");
        assert!(gave_up(&end.wait()).reason.to_string().contains("no paper"));
        assert_eq!(workers.statistics().failed, 2);
    });
}

/// Catches: members that outlive a pool that gives up, and a pool that never ends because one of its members does not
/// exit.
#[test]
fn the_members_of_a_pool_that_gives_up_are_cancelled_and_killed_if_they_do_not_exit() {
    #[process]
    struct Deaf {
        told: std::sync::mpsc::Sender<ExitReason>,
        kept: Vec<Reply<u32>>,
    }
    #[process]
    impl Deaf {
        #[entry]
        fn serve(&mut self) {}
        #[signal]
        fn cancelled(&mut self, cancel: Cancel) {
            self.told.send(cancel.reason).unwrap();
        }
        #[message]
        fn keep(&mut self, reply: Reply<u32>) {
            self.kept.push(reply);
        }
        #[message]
        fn crash(&mut self) {
            panic!("over the edge")
        }
    }
    watched(|| {
        let (clock, runtime) = still(builder());
        let (told, hears) = channel();
        let workers = Pool::fixed(2)
            .intensity(0, LONG)
            .spawn(&runtime, move |spawn| spawn.of(Deaf { told: told.clone(), kept: vec![] }).serve())
            .unwrap();
        let address = workers.address();
        let kept = thread::spawn(move || address.keep().timeout(LONG).wait());
        until(|| workers.members().into_iter().any(|member| member.info().is_some_and(|info| info.messages == 1)));
        let ends: Vec<_> = workers.members().into_iter().map(Pid::join).collect();
        let over = workers.pid().join();
        workers.address().crash().send().unwrap();
        assert_eq!(hears.recv().unwrap(), ExitReason::Shutdown);
        assert!(workers.pid().is_alive(), "one of its members lives");
        clock.advance(Duration::from_secs(5)).unwrap();
        let ends: Vec<_> = ends.into_iter().map(|end| end.wait()).collect();
        assert!(ends.contains(&ExitReason::Killed), "{ends:?}");
        assert_eq!(kept.join().unwrap(), Err(CallError::Died(ExitReason::Killed)));
        gave_up(&over.wait());
    });
}

/// Catches: a pool that gives up without counting as a failure for its supervisor.
#[test]
fn a_pool_that_gives_up_is_started_again_by_its_supervisor() {
    with_runtime(|runtime| {
        let tree = Supervisor::one_for_one()
            .backoff(Backoff::none())
            .child("workers", |spawn| {
                Pool::fixed(1).intensity(0, LONG).spawn(spawn, |spawn| spawn.of(Worker::default()).serve())
            })
            .spawn(runtime)
            .unwrap();
        let workers: Address<Worker> = tree.child("workers").unwrap();
        let end = workers.pid().join();
        workers.crash().send().unwrap();
        gave_up(&end.wait());
        until(|| workers.echo(1).wait() == Ok(1));
        let child = &tree.children()[0];
        assert_eq!(child.restarts, 1);
        gave_up(&child.last.as_ref().unwrap().reason);
    });
}

#[test]
fn an_intensity_that_counts_nothing_is_refused() {
    with_runtime(|runtime| {
        let none = Pool::fixed(1).intensity(3, Duration::ZERO);
        let error = none.spawn(runtime, |spawn| spawn.of(Worker::default()).serve()).unwrap_err();
        assert!(matches!(error, SpawnError::Window { restarts: 3 }), "{error}");
        let keyed = Pool::by_key(|echo: &WorkerEcho| echo.value).intensity(3, Duration::ZERO);
        let error = keyed.spawn(runtime, |spawn, _| spawn.of(Worker::default()).serve()).unwrap_err();
        assert!(error.to_string().contains("no limit"), "{error}");
        for fine in [0, u32::MAX] {
            assert_eq!(pool(runtime, Pool::fixed(1).intensity(fine, Duration::ZERO)).address().echo(1).wait(), Ok(1));
        }
    });
}

/// Catches: a failing key that delays the others, or is restarted at once.
#[test]
fn a_key_whose_process_fails_backs_off_by_itself() {
    watched(|| {
        let (clock, runtime) = still(builder());
        let workers = Pool::by_key(|echo: &WorkerEcho| echo.value)
            .key(|_: &WorkerCrash| 7)
            .backoff(Backoff::constant(SECOND))
            .spawn(&runtime, |spawn, _| spawn.of(Worker::default()).serve())
            .unwrap();
        let address = workers.address();
        assert!(address.crash().wait().is_err());
        when(&workers, |now| now.failed == 1);
        let waits = thread::spawn(move || address.echo(7).timeout(LONG).wait());
        when(&workers, |now| now.waiting == 1);
        assert_eq!(address.echo(8).wait(), Ok(8));
        assert_eq!(workers.statistics().waiting, 1);
        clock.advance(SECOND).unwrap();
        assert_eq!(waits.join().unwrap(), Ok(7));
    });
}

/// No message is retried: those in the mailbox of an exiting member are lost, and the next member does not get them.
///
/// Catches: a message that vanishes without being counted, or whose caller waits forever.
#[test]
fn a_message_passed_to_an_exiting_member_is_a_dead_letter() {
    watched(|| {
        let (builder, dead) = with_dead_letters();
        let (runtime, seen) = (builder.build().unwrap(), Log::new());
        let log = seen.clone();
        let workers = Pool::fixed(1)
            .concurrency(3)
            .spawn(&runtime, move |spawn| spawn.of(Worker { seen: log.clone(), ..Worker::default() }).serve())
            .unwrap();
        let (address, here, gate) = (workers.address(), Gate::new(), Gate::new());
        address.leave(here.clone(), gate.clone()).send().unwrap();
        here.pass();
        address.echo(1).send().unwrap();
        let asks = thread::spawn(move || address.echo(2).timeout(LONG).wait());
        // The pool counts messages as in flight before they are in the member's mailbox.
        let member = workers.members()[0];
        until(|| member.info().unwrap().mailbox == 2);
        gate.open();
        let error = asks.join().unwrap().unwrap_err();
        assert_eq!((error.delivery(), error), (Delivery::NotDelivered, CallError::Gone(ExitReason::Normal)));
        assert_eq!(address.echo(3).wait(), Ok(3));
        assert_eq!(dead.all(), [(std::any::type_name::<WorkerEcho>(), DeadLetterReason::Ended); 2]);
        assert_eq!((seen.all(), runtime.statistics().dead_letters.ended), (vec![3], 2));
    });
}

/// Catches: a pool whose member is a supervised child, and that gives the member up for good while the child is between
/// two processes.
#[test]
fn a_member_that_is_a_supervised_child_is_waited_for_while_it_is_restarted() {
    watched(|| {
        let (clock, runtime) = still(builder());
        let pause = Duration::from_millis(50);
        let tree = Supervisor::one_for_one().backoff(Backoff::constant(pause));
        let tree = tree.child("worker", |spawn| spawn.of(Worker::default()).serve()).spawn(&runtime).unwrap();
        let member: Address<Worker> = tree.child("worker").unwrap();
        let workers = Pool::fixed(1).backoff(Backoff::none());
        let workers = workers.spawn(&runtime, move |_| Ok::<_, SpawnError>(member)).unwrap();
        assert_eq!(workers.address().echo(1).wait(), Ok(1));
        assert!(workers.address().crash().wait().is_err());
        // The pool has its member again, but the child's next process has not started yet.
        when(&workers, |now| (now.started, now.members) == (2, 1));
        let address = workers.address();
        let answer = thread::spawn(move || address.echo(2).timeout(LONG).wait());
        when(&workers, |now| now.accepted == 3);
        until(|| {
            clock.advance(pause).unwrap();
            answer.is_finished()
        });
        assert_eq!(answer.join().unwrap(), Ok(2));
        assert_eq!((workers.statistics().members, workers.statistics().started), (1, 2));
    });
}

/// Catches: a pool that gives up a member on another node for good because the transport refuses a single message.
#[test]
fn a_message_that_cannot_travel_to_a_member_fails_alone() {
    /// Delivers every message but the first, which it refuses as too long.
    struct Wire(Node, AtomicBool);
    impl Receiver for Wire {
        fn deliver(&self, package: Package) -> Result<(), Undeliverable> {
            if !self.1.swap(true, SeqCst) {
                return Err(Undeliverable { package, reason: SendFailure::TooLong { bytes: 9, limit: 8 } });
            }
            let (to, message, answerer) = package.take_apart();
            let time_left = answerer.time_left();
            self.0.deliver(Package::with_answer(to, message, time_left, move |answer| answerer.answer(answer)))
        }
    }
    impl Transport for Wire {
        fn send_link(&self, _: Pid, _: Pid, _: LinkMessage<ExitReason>) -> Result<(), LinkMessage<ExitReason>> {
            Ok(())
        }
    }
    watched(|| {
        let [here, there] = [(); 2].map(|()| builder().logical_node(NodeId::random()).build().unwrap());
        let wire = Wire(Node::of(there.node()).unwrap(), AtomicBool::new(false));
        let back = Wire(Node::of(here.node()).unwrap(), AtomicBool::new(true));
        Router::of_node(here.node()).connect(there.node(), Arc::new(wire));
        Router::of_node(there.node()).connect(here.node(), Arc::new(back));
        let member = there.spawn(Worker::default()).serve().unwrap();
        let workers = Pool::fixed(1).intensity(u32::MAX, LONG).backoff(Backoff::none());
        let workers = workers.spawn(&here, move |_| Ok::<_, SpawnError>(member)).unwrap();
        let ask = || here.spawn(Asks).ask(workers.address()).unwrap().wait();
        assert_eq!(ask(), Err(RunError::Failed(CallError::TooLong { bytes: 9, limit: 8 })));
        assert_eq!(ask(), Ok(3));
    });
}

/// Catches: a process that was spawned by a start that then failed, and that keeps running, although nothing knows
/// it.
#[test]
fn what_a_start_that_fails_has_spawned_is_killed() {
    with_runtime(|runtime| {
        let refusal = || SpawnError::Refused("no paper".to_string());
        let other = runtime.spawn(Worker::default()).serve().unwrap();
        let keen = || Pool::elastic(0..=1).intensity(u32::MAX, LONG).backoff(Backoff::none());
        let fails = keen().spawn(runtime, move |spawn| {
            spawn.of(Worker::default()).serve()?;
            Err::<Address<Worker>, _>(refusal())
        });
        let gives_another = keen().spawn(runtime, move |spawn| {
            spawn.of(Worker::default()).serve()?;
            Ok(other)
        });
        let nests = keen().spawn(runtime, move |spawn| {
            Pool::fixed(1).spawn(spawn, |spawn| spawn.of(Worker::default()).serve())?;
            Err::<Address<Worker>, _>(refusal())
        });
        for workers in [fails, gives_another, nests] {
            let workers = workers.unwrap();
            for value in 0..10 {
                let error = workers.address().echo(value).wait().unwrap_err();
                assert!(matches!(error, CallError::Gone(_)), "{error:?}");
            }
            assert_eq!(workers.statistics().failed, 10);
        }
        // Only the three pools are left, and `other`, which is not a member.
        until(|| runtime.statistics().processes.live == 4);
    });
}

/// Catches: a pool that keeps running although the supervised start that spawned it has failed.
#[test]
fn the_pool_of_a_child_whose_start_fails_is_killed() {
    with_runtime(|runtime| {
        let tree = Supervisor::one_for_one().backoff(Backoff::constant(Duration::MAX)).child("pool", |spawn| {
            Pool::fixed(1).spawn(spawn, |spawn| spawn.of(Worker::default()).serve())?;
            Err::<RunningPool<Worker>, _>(SpawnError::Refused("no paper".to_string()))
        });
        let _tree = tree.spawn(runtime).unwrap();
        until(|| runtime.statistics().processes.live == 1);
    });
}
