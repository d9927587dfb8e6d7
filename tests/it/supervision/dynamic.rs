//! Dynamic children.

use super::*;
use postroom::CallError;
use postroom::supervision::{Child, ChildError};

fn dynamic(runtime: &Runtime) -> Tree {
    eager(Supervisor::dynamic()).spawn(runtime).unwrap()
}

#[test]
fn children_are_started_and_stopped_while_the_supervisor_runs() {
    soon(|| {
        let (runtime, log) = (runtime(), Log::new());
        let tree = dynamic(&runtime);
        assert!(tree.children().is_empty());
        let a = tree.start(Child::new("a", worker("a", &log))).unwrap();
        // The child can be called at once, since messages wait until it runs.
        assert_eq!(a.add(4).wait(), Ok(4));
        assert_eq!(tree.child::<Worker>("a").unwrap(), a);
        let life = a.pid().join();
        tree.stop_child("a").unwrap();
        assert_eq!(life.wait(), ExitReason::Shutdown);
        eventually(|| tree.children().is_empty());
        assert!(matches!(tree.child::<Worker>("a"), Err(ChildError::Unknown { count: 0, .. })));
        assert!(a.add(1).wait().is_err() && !a.pid().is_alive());
    });
}

#[test]
fn messages_to_a_child_before_it_runs_wait_in_order() {
    soon(|| {
        // Nothing runs before the runtime is resumed.
        let runtime = Runtime::builder().workers(1).paused().build().unwrap();
        let (book, tree) = (Log::new(), dynamic(&runtime));
        let scribe = tree.start(super::kept::scribe(&book)).unwrap();
        (0..10).for_each(|number| scribe.write(number).send().unwrap());
        runtime.resume().unwrap();
        assert_eq!(scribe.write(10).wait(), Ok(10));
        assert_eq!(book.all(), (0..=10).collect::<Vec<_>>());
    });
}

#[test]
fn a_child_that_fails_is_started_again_and_the_others_are_left_alone() {
    soon(|| {
        let (runtime, log) = (runtime(), Log::new());
        let tree = dynamic(&runtime);
        let a = tree.start(Child::new("a", worker("a", &log))).unwrap();
        let b = tree.start(Child::new("b", worker("b", &log))).unwrap();
        assert_eq!((a.add(1).wait(), b.add(2).wait()), (Ok(1), Ok(2)));
        crash(a);
        is_back(a);
        assert_eq!((a.add(1).wait(), b.add(0).wait()), (Ok(1), Ok(2)));
        assert_eq!(restarts(&tree, "a"), 1);
    });
}

#[test]
fn a_dynamic_child_that_is_gone_is_forgotten_and_its_name_is_free() {
    soon(|| {
        let (runtime, log) = (runtime(), Log::new());
        let tree = dynamic(&runtime);
        for _ in 0..50 {
            let a = tree.start(Child::new("a", worker("a", &log)).temporary()).unwrap();
            let taken = tree.start(Child::new("a", worker("a", &log))).unwrap_err();
            assert_eq!(taken, ChildError::Duplicate { name: "a".into() });
            a.finish().send().unwrap();
            eventually(|| tree.children().is_empty());
        }
    });
}

#[test]
fn a_one_shot_child_may_move_its_state_and_is_not_restarted() {
    soon(|| {
        let (runtime, log) = (runtime(), Log::new());
        let tree = dynamic(&runtime);
        // A worker is not `Clone`, so it can be moved only once.
        let own = Worker { name: "a", log: log.clone(), sum: 40 };
        let a = tree.start(Child::once("a", move |spawn| spawn.of(own).serve())).unwrap();
        assert_eq!(a.add(2).wait(), Ok(42));
        crash(a);
        eventually(|| tree.children().is_empty());
        assert!(a.add(1).wait().is_err());

        // A child that fails to start is not restarted.
        let own = Worker { name: "b", log: log.clone(), sum: 0 };
        tree.start(Child::once("b", move |spawn| spawn.of(own).try_serve(false))).unwrap();
        eventually(|| tree.children().is_empty());
    });
}

#[test]
fn a_one_shot_child_that_should_restart_reports_why_it_cannot() {
    soon(|| {
        let (runtime, log) = (runtime(), Log::new());
        let own = Worker { name: "a", log, sum: 0 };
        let child = Child::once("a", move |spawn| spawn.of(own).serve()).permanent();
        let tree = eager(Supervisor::one_for_one()).intensity(1, Duration::MAX).add(child).spawn(&runtime).unwrap();
        let end = tree.join();
        crash(tree.child("a").unwrap());
        let reason = end.wait().to_string();
        assert!(reason.contains("closure that can be called only once"), "{reason}");
    });
}

#[test]
fn a_thousand_children_are_cancelled_at_once_and_all_exit() {
    #[process]
    struct Slow;
    #[process]
    impl Slow {
        #[entry]
        async fn run(&mut self, ctx: &mut Context<Self>) {
            ctx.cancelled().await;
            ctx.sleep(Duration::from_millis(10)).await;
        }
    }
    soon(|| {
        let clock = Clock::manual();
        let runtime = Runtime::builder().workers(2).clock(clock.clone()).build().unwrap();
        let tree = dynamic(&runtime);
        for number in 0..1_000 {
            tree.start(Child::new(format!("slow-{number}"), |spawn| spawn.of(Slow).run()).temporary()).unwrap();
        }
        eventually(|| runtime.statistics().processes.live == 1_001);
        let end = tree.join();
        tree.stop();
        runtime.until_idle().unwrap();
        // One after the other, they would take ten seconds.
        clock.advance(Duration::from_millis(10)).unwrap();
        runtime.until_idle().unwrap();
        assert_eq!(runtime.statistics().processes.live, 0);
        assert_eq!(end.wait(), ExitReason::Normal);
    });
}

#[test]
fn a_dynamic_child_may_be_a_tree() {
    soon(|| {
        let (runtime, log) = (runtime(), Log::new());
        let tree = dynamic(&runtime);
        let own = log.clone();
        let room =
            Child::new("room", move |spawn| Supervisor::one_for_one().child("a", worker("a", &own)).spawn(spawn));
        let pid = tree.start_any(room).unwrap();
        eventually(|| pid.is_alive());
        let a: Address<Worker> = tree.tree("room").unwrap().child("a").unwrap();
        assert_eq!(a.add(1).wait(), Ok(1));
    });
}

#[test]
fn a_supervisor_with_fixed_children_takes_no_more() {
    soon(|| {
        let (runtime, log) = (runtime(), Log::new());
        let tree = Supervisor::rest_for_one().child("a", worker("a", &log)).spawn(&runtime).unwrap();
        let refused = tree.start(Child::new("b", worker("b", &log))).unwrap_err();
        assert_eq!(refused, ChildError::Fixed { strategy: "rest_for_one" });
    });
}

#[test]
fn requests_to_a_supervisor_that_has_exited_are_refused() {
    soon(|| {
        let (runtime, log) = (runtime(), Log::new());
        let tree = dynamic(&runtime);
        tree.start(Child::new("a", worker("a", &log))).unwrap();
        let end = tree.join();
        tree.stop();
        end.wait();
        let refused = tree.start(Child::new("b", worker("b", &log))).unwrap_err();
        assert_eq!(refused, ChildError::Gone(tree.pid()));
        assert!(tree.stop_child("a").is_err() && tree.restart_child("a").is_err());
    });
}

/// The request is accepted, but it is too late to start the child.
#[test]
fn a_child_that_is_added_while_the_supervisor_stops_ends_with_its_messages() {
    soon(|| {
        let runtime = Runtime::builder().workers(1).paused().build().unwrap();
        let (log, tree) = (Log::new(), dynamic(&runtime));
        let end = tree.join();
        tree.stop();
        let a = tree.start(Child::new("a", worker("a", &log))).unwrap();
        let call = std::thread::spawn(move || a.add(1).timeout(Duration::MAX).wait());
        runtime.resume().unwrap();
        assert_eq!(end.wait(), ExitReason::Normal);
        assert!(call.join().unwrap().is_err());
        assert!(log.is_empty());
    });
}

/// Catches: a restarted supervisor that starts a child because of a request from before the restart. By then the
/// child's address is gone, and its name is free for another child.
#[test]
fn a_request_that_a_restart_has_overtaken_starts_no_child() {
    soon(|| {
        let (runtime, log) = (runtime(), Log::new());
        let strict = |spawn| Supervisor::dynamic().intensity(0, Duration::MAX).spawn(spawn);
        let tree = eager(Supervisor::one_for_one()).add(Child::new("dynamic", strict).keep_messages());
        let tree = tree.spawn(&runtime).unwrap();
        let below = tree.tree("dynamic").unwrap();
        let (here, go) = (Latch::new(), Latch::new());
        let gate = (here.clone(), go.clone());
        let bad = move |_: postroom::ChildSpawn| {
            gate.0.open();
            gate.1.wait();
            Err::<Address<Worker>, _>(SpawnError::Refused("no paper".to_string()))
        };
        let bad = below.start(Child::new("bad", bad)).unwrap();
        here.wait();
        let overtaken = below.start(Child::new("a", worker("overtaken", &log))).unwrap();
        go.open();
        until_restarted(&tree, "dynamic", 1);
        assert_eq!(refused(bad), CallError::Gone(ExitReason::NoProcess));
        let next = below.start(Child::new("a", worker("next", &log))).unwrap();
        assert_eq!(next.add(1).wait(), Ok(1));
        assert_eq!(lines(&log), ["next starts"]);
        assert_eq!(refused(overtaken), CallError::Gone(ExitReason::NoProcess));
    });
}

fn refused(worker: Address<Worker>) -> CallError {
    worker.add(0).wait().unwrap_err()
}
