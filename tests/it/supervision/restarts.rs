//! Exits of children, and the restarts that follow.

use super::*;
use postroom::supervision::{Child, GaveUp, Restart};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

#[test]
fn children_start_in_order_before_spawn_returns() {
    soon(|| {
        let (runtime, log) = (runtime(), Log::new());
        let tree = Supervisor::one_for_one().child("a", worker("a", &log)).child("b", worker("b", &log));
        let tree = tree.spawn(&runtime).unwrap();
        assert_eq!(lines(&log), ["a starts", "b starts"]);
        assert!(tree.pid().is_alive());
    });
}

#[test]
fn with_one_for_one_only_the_failed_child_is_restarted() {
    soon(|| {
        let (runtime, log) = (runtime(), Log::new());
        let tree = eager(Supervisor::one_for_one()).child("a", worker("a", &log)).child("b", worker("b", &log));
        let tree = tree.spawn(&runtime).unwrap();
        let (a, b) = (tree.child::<Worker>("a").unwrap(), tree.child::<Worker>("b").unwrap());
        b.add(7).wait().unwrap();
        assert!(matches!(crash(a), ExitReason::Panic(_)));
        is_back(a);
        assert_eq!(b.add(0).wait(), Ok(7));
        assert_eq!(lines(&log), ["a starts", "b starts", "a ends", "a starts"]);
        assert_eq!((restarts(&tree, "a"), restarts(&tree, "b")), (1, 0));
    });
}

#[test]
fn with_one_for_all_the_others_are_stopped_in_reverse_order_and_all_start_in_order() {
    soon(|| {
        let (runtime, log) = (runtime(), Log::new());
        let mut supervisor = eager(Supervisor::one_for_all());
        for name in ["a", "b", "c"] {
            supervisor = supervisor.child(name, worker(name, &log));
        }
        let tree = supervisor.spawn(&runtime).unwrap();
        crash(tree.child("b").unwrap());
        until_restarted(&tree, "b", 1);
        let expected =
            ["a starts", "b starts", "c starts", "b ends", "c ends", "a ends", "a starts", "b starts", "c starts"];
        eventually(|| lines(&log) == expected);
        assert_eq!((restarts(&tree, "a"), restarts(&tree, "b")), (0, 1));
    });
}

#[test]
fn with_rest_for_one_later_children_are_restarted_and_earlier_ones_are_not() {
    soon(|| {
        let (runtime, log) = (runtime(), Log::new());
        let mut supervisor = eager(Supervisor::rest_for_one());
        for name in ["a", "b", "c"] {
            supervisor = supervisor.child(name, worker(name, &log));
        }
        let tree = supervisor.spawn(&runtime).unwrap();
        crash(tree.child("b").unwrap());
        let expected = ["a starts", "b starts", "c starts", "b ends", "c ends", "b starts", "c starts"];
        eventually(|| lines(&log) == expected);
        is_back(tree.child("c").unwrap());
    });
}

/// Children of each of the three kinds end, once with a normal exit and once with a crash.
#[test]
fn permanent_children_always_start_again_transient_ones_after_failures_temporary_ones_never() {
    soon(|| {
        for (restart, when_done, when_failed) in
            [(Restart::Permanent, true, true), (Restart::Transient, false, true), (Restart::Temporary, false, false)]
        {
            for (fails, again) in [(false, when_done), (true, when_failed)] {
                let (runtime, log) = (runtime(), Log::new());
                let child = Child::new("a", worker("a", &log)).restart(restart);
                let tree = eager(Supervisor::one_for_one()).add(child).spawn(&runtime).unwrap();
                let a: Address<Worker> = tree.child("a").unwrap();
                let life = a.pid().join();
                if fails {
                    a.crash("it had to").send().unwrap()
                } else {
                    a.finish().send().unwrap()
                }
                assert_eq!(life.wait().is_normal(), !fails);
                if again {
                    is_back(a);
                } else {
                    eventually(|| tree.children()[0].state == postroom::supervision::ChildState::Down);
                    assert!(a.add(1).wait().is_err());
                }
                assert_eq!(restarts(&tree, "a"), u64::from(again), "{restart:?}, fails: {fails}");
            }
        }
    });
}

#[test]
fn a_child_with_an_async_entry_has_ended_when_its_body_has() {
    #[process]
    struct Job {
        runs: Arc<AtomicUsize>,
    }
    #[process]
    impl Job {
        #[entry]
        async fn run(&mut self) -> Result<u64, std::io::Error> {
            // The first two runs fail.
            if self.runs.fetch_add(1, SeqCst) < 2 { Err(std::io::Error::other("not yet")) } else { Ok(7) }
        }
    }
    soon(|| {
        let (runtime, runs) = (runtime(), Arc::new(AtomicUsize::new(0)));
        let counted = runs.clone();
        let job = Child::new("job", move |spawn| spawn.of(Job { runs: runs.clone() }).run());
        let tree = eager(Supervisor::one_for_one()).add(job.transient()).spawn(&runtime).unwrap();
        eventually(|| tree.children()[0].state == postroom::supervision::ChildState::Down);
        assert_eq!((counted.load(SeqCst), restarts(&tree, "job")), (3, 2));
        assert_eq!(tree.children()[0].last.as_ref().unwrap().reason, ExitReason::Normal);
    });
}

/// The start fails three times. Until it succeeds, later children wait.
#[test]
fn a_first_start_that_fails_is_retried_as_any_other_failure() {
    soon(|| {
        let (runtime, log) = (runtime(), Log::new());
        let (tries, own) = (Arc::new(AtomicUsize::new(0)), log.clone());
        let tree = Supervisor::one_for_one()
            .intensity(3, Duration::MAX)
            .backoff(Backoff::exponential(Duration::from_millis(1), Duration::from_millis(4)))
            .child("a", move |spawn| {
                let works = tries.fetch_add(1, SeqCst) == 3;
                spawn.of(Worker { name: "a", log: own.clone(), sum: 0 }).try_serve(works)
            })
            .child("b", worker("b", &log))
            .spawn(&runtime)
            .unwrap();
        let b: Address<Worker> = tree.child("b").unwrap();
        // `b` has not been started yet, so messages to it wait.
        assert_eq!(b.add(3).wait(), Ok(3));
        let starts: Vec<_> = lines(&log).into_iter().filter(|line| !line.ends_with("ends")).collect();
        assert_eq!(starts, ["a fails to start", "a fails to start", "a fails to start", "a starts", "b starts"]);
        assert_eq!(restarts(&tree, "a"), 3);
    });
}

#[test]
fn a_closure_that_panics_is_a_start_that_fails() {
    soon(|| {
        let (runtime, log) = (runtime(), Log::new());
        let (mut tries, own) = (0, log.clone());
        let tree = eager(Supervisor::one_for_one()).child("a", move |spawn| {
            tries += 1;
            assert!(tries > 1, "not the first time");
            spawn.of(Worker { name: "a", log: own.clone(), sum: 0 }).serve()
        });
        let tree = tree.spawn(&runtime).unwrap();
        is_back(tree.child("a").unwrap());
        assert_eq!(restarts(&tree, "a"), 1);
        let last = tree.children()[0].last.clone().unwrap();
        assert!(last.to_string().contains("not the first time"), "{last}");
    });
}

#[test]
fn more_failures_than_the_window_allows_end_the_supervisor_with_the_child_and_its_reason() {
    soon(|| {
        let (runtime, log) = (runtime(), Log::new());
        let supervisor = Supervisor::one_for_one().intensity(2, Duration::MAX).backoff(Backoff::none());
        let supervisor = supervisor.child("a", worker("a", &log)).child("b", worker("b", &log));
        let tree = supervisor.child("c", worker("c", &log)).spawn(&runtime).unwrap();
        let (b, end) = (tree.child::<Worker>("b").unwrap(), tree.join());
        for _ in 0..2 {
            crash(b);
            is_back(b);
        }
        crash(b);
        let ExitReason::Error(error) = end.wait() else { panic!("a supervisor that gives up ends of an error") };
        let gave_up = error.downcast_ref::<GaveUp>().unwrap();
        assert_eq!((&*gave_up.child, gave_up.restarts, gave_up.most), ("b", 2, 2));
        assert!(matches!(&gave_up.reason, ExitReason::Panic(panic) if panic.message == "it had to"));
        assert!(gave_up.handling.unwrap().ends_with("WorkerCrash"));
        let text = gave_up.to_string();
        assert!(text.contains("`b`") && text.contains("after 2 restarts") && text.contains("it had to"), "{text}");
        // The other children were stopped in reverse order.
        assert_eq!(lines(&log)[lines(&log).len() - 3..], ["b ends", "c ends", "a ends"]);
        // A later join gets the same reason.
        assert_eq!(tree.join().wait().to_string(), ExitReason::Error(error).to_string());
    });
}

#[test]
fn with_no_restart_allowed_the_first_failure_is_one_too_many() {
    soon(|| {
        let (runtime, log) = (runtime(), Log::new());
        let tree = Supervisor::one_for_one().intensity(0, Duration::ZERO).child("a", worker("a", &log));
        let tree = tree.spawn(&runtime).unwrap();
        let end = tree.join();
        crash(tree.child("a").unwrap());
        assert!(matches!(end.wait(), ExitReason::Error(_)));
    });
}

/// If a child cannot start and is retried endlessly without delay, its supervisor is busy, but stays responsive.
#[test]
fn a_supervisor_that_tries_without_end_can_be_stopped() {
    soon(|| {
        let (runtime, log) = (runtime(), Log::new());
        let own = log.clone();
        let tree = eager(Supervisor::one_for_one())
            .child("a", move |spawn| spawn.of(Worker { name: "a", log: own.clone(), sum: 0 }).try_serve(false));
        let tree = tree.spawn(&runtime).unwrap();
        eventually(|| log.len() > 1_000);
        let end = tree.join();
        assert!(tree.stop());
        assert_eq!(end.wait(), ExitReason::Normal);
    });
}
