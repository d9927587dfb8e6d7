//! Stops of children and trees.

use super::*;
use postroom::supervision::{Child, ChildState};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

#[test]
fn a_tree_stops_its_children_in_reverse_order_and_then_ends() {
    soon(|| {
        let (runtime, log) = (runtime(), Log::new());
        let mut supervisor = Supervisor::one_for_one();
        for name in ["a", "b", "c"] {
            supervisor = supervisor.child(name, worker(name, &log));
        }
        let tree = supervisor.spawn(&runtime).unwrap();
        let (a, end) = (tree.child::<Worker>("a").unwrap(), tree.join());
        assert!(tree.stop());
        assert_eq!(end.wait(), ExitReason::Normal);
        assert_eq!(lines(&log)[3..], ["c ends", "b ends", "a ends"]);
        assert!(a.add(1).wait().is_err());
        assert!(!tree.stop() && !a.pid().is_alive());
        assert_eq!(tree.join().wait(), ExitReason::Normal);
    });
}

/// A `stop` of a plain process is handled in order, and drops the state. A supervisor first stops its children.
#[test]
fn stop_and_cancel_of_the_supervisors_pid_stop_its_children_in_order_too() {
    soon(|| {
        let ends: [fn(Pid) -> bool; 2] = [Pid::stop, |pid| pid.cancel("enough")];
        for (end, reason) in ends.into_iter().zip([ExitReason::Normal, ExitReason::Cancelled("enough".into())]) {
            let (runtime, log) = (runtime(), Log::new());
            let tree = Supervisor::one_for_one().child("a", worker("a", &log)).child("b", worker("b", &log));
            let tree = tree.spawn(&runtime).unwrap();
            let ended = tree.join();
            assert!(end(tree.pid()));
            assert_eq!(ended.wait(), reason);
            assert_eq!(lines(&log)[2..], ["b ends", "a ends"]);
        }
    });
}

#[process]
struct Stubborn {
    log: Log<String>,
}

#[process]
impl Stubborn {
    #[entry]
    fn serve(&mut self) {}
    /// Logs the cancellation, and ignores it.
    #[signal]
    fn on_cancel(&mut self, _cancel: Cancel) {
        self.log.add("told".to_string());
    }
    #[message]
    fn ask(&mut self) {}
}

#[test]
fn a_child_that_ignores_its_stop_is_killed_at_its_deadline_and_the_others_still_stop_in_order() {
    soon(|| {
        let (clock, log) = (Clock::manual(), Log::new());
        let runtime = Runtime::builder().workers(2).clock(clock.clone()).build().unwrap();
        let own = log.clone();
        let stubborn = Child::new("stubborn", move |spawn| spawn.of(Stubborn { log: own.clone() }).serve());
        let patience = Duration::from_millis(20);
        let tree = Supervisor::one_for_one()
            .child("a", worker("a", &log))
            .add(stubborn.stop_within(patience))
            .child("c", worker("c", &log))
            .spawn(&runtime)
            .unwrap();
        let life = tree.child_pid("stubborn").unwrap().join();
        let end = tree.join();
        tree.stop();
        eventually(|| lines(&log).contains(&"told".to_string()));
        clock.advance(patience).unwrap();
        assert_eq!(end.wait(), ExitReason::Normal);
        assert_eq!(life.wait(), ExitReason::Killed);
        assert_eq!(lines(&log)[2..], ["c ends", "told", "a ends"]);
    });
}

#[test]
fn without_time_to_stop_a_child_is_killed_without_a_cancellation() {
    soon(|| {
        let (runtime, log) = (runtime(), Log::new());
        let own = log.clone();
        let stubborn = Child::new("stubborn", move |spawn| spawn.of(Stubborn { log: own.clone() }).serve());
        let tree = Supervisor::one_for_one().add(stubborn.stop_within(Duration::ZERO)).spawn(&runtime).unwrap();
        let (life, end) = (tree.child_pid("stubborn").unwrap().join(), tree.join());
        tree.stop();
        assert_eq!((end.wait(), life.wait()), (ExitReason::Normal, ExitReason::Killed));
        assert!(log.is_empty());
    });
}

/// One child is in a step that does not return. The others are stopped all the same. Only the child's own successor
/// waits for its exit.
#[test]
fn a_child_in_a_step_that_does_not_return_holds_up_only_its_own_successor() {
    soon(|| {
        let (runtime, log) = (runtime(), Log::new());
        let b = Child::new("b", worker("b", &log)).stop_within(Duration::from_millis(1));
        let tree = Supervisor::one_for_all().child("a", worker("a", &log)).add(b).child("c", worker("c", &log));
        let tree = eager(tree).spawn(&runtime).unwrap();
        let b = tree.child::<Worker>("b").unwrap();
        let (here, go) = (Latch::new(), Latch::new());
        b.pass(here.clone(), go.clone()).send().unwrap();
        here.wait();
        crash(tree.child("c").unwrap());
        eventually(|| tree.children()[1].state == ChildState::Stuck);
        eventually(|| lines(&log)[3..] == ["c ends", "a ends"]);
        go.open();
        eventually(|| lines(&log)[5..] == ["b ends", "a starts", "b starts", "c starts"]);
    });
}

#[test]
fn a_child_may_take_its_time_to_clean_up() {
    #[process]
    struct Slow {
        here: Latch,
        cleaned: Arc<AtomicBool>,
        go: Latch,
    }
    #[process]
    impl Slow {
        #[entry]
        async fn run(&mut self, ctx: &mut Context<Self>) {
            self.here.open();
            ctx.cancelled().await;
            ctx.sleep(Duration::from_millis(5)).await;
            self.cleaned.store(true, SeqCst);
            self.go.open();
        }
    }
    soon(|| {
        let (runtime, log) = (runtime(), Log::new());
        let (cleaned, here, go) = (Arc::new(AtomicBool::new(false)), Latch::new(), Latch::new());
        let (own, own_here, own_go) = (cleaned.clone(), here.clone(), go.clone());
        let slow = move || Slow { here: own_here.clone(), cleaned: own.clone(), go: own_go.clone() };
        let tree = Supervisor::one_for_one()
            .child("a", worker("a", &log))
            .child("slow", move |spawn| spawn.of(slow()).run())
            .spawn(&runtime)
            .unwrap();
        let end = tree.join();
        // If a child is cancelled before it has started, it has nothing to clean up.
        here.wait();
        tree.stop();
        go.wait();
        assert_eq!(end.wait(), ExitReason::Normal);
        assert!(cleaned.load(SeqCst));
        assert_eq!(lines(&log), ["a starts", "a ends"]);
    });
}

#[test]
fn a_child_that_is_stopped_by_request_stays_down_until_it_is_wanted_again() {
    soon(|| {
        let (runtime, log) = (runtime(), Log::new());
        let tree = Supervisor::one_for_one().child("a", worker("a", &log)).child("b", worker("b", &log));
        let tree = tree.spawn(&runtime).unwrap();
        let a: Address<Worker> = tree.child("a").unwrap();
        let life = a.pid().join();
        tree.stop_child("a").unwrap();
        assert_eq!(life.wait(), ExitReason::Shutdown);
        eventually(|| tree.children()[0].state == ChildState::Down);
        assert!(a.add(1).wait().is_err());
        tree.restart_child("a").unwrap();
        is_back(a);
        assert_eq!(restarts(&tree, "a"), 0, "that was no failure");
    });
}

#[test]
fn a_restart_by_request_replaces_the_process_behind_the_address() {
    soon(|| {
        let (runtime, log) = (runtime(), Log::new());
        let tree = Supervisor::one_for_one().intensity(0, Duration::MAX).child("a", worker("a", &log));
        let tree = tree.spawn(&runtime).unwrap();
        let a: Address<Worker> = tree.child("a").unwrap();
        assert_eq!(a.add(5).wait(), Ok(5));
        let life = a.pid().join();
        tree.restart_child("a").unwrap();
        assert_eq!(life.wait(), ExitReason::Shutdown);
        is_back(a);
        assert_eq!(a.add(1).wait(), Ok(1));
    });
}

#[test]
fn a_supervisor_that_is_killed_takes_its_children_along() {
    soon(|| {
        let (runtime, log) = (runtime(), Log::new());
        let tree = Supervisor::one_for_one().child("a", worker("a", &log)).child("sub", {
            let log = log.clone();
            move |spawn| Supervisor::one_for_one().child("b", worker("b", &log)).spawn(spawn)
        });
        let tree = tree.spawn(&runtime).unwrap();
        let (a, b) = (tree.child_pid("a").unwrap(), tree.tree("sub").unwrap().child_pid("b").unwrap());
        let ends = [a.join(), b.join(), tree.join()];
        tree.pid().kill();
        assert!(ends.into_iter().all(|end| end.wait() == ExitReason::Killed));
        assert_eq!(tree.join().wait(), ExitReason::Killed);
    });
}

/// Spawns a tree with two children: a permanent one, and a transient one.
fn group(runtime: &Runtime, log: &Log<String>) -> (Tree, Address<Worker>, Address<Worker>) {
    let tree = eager(Supervisor::one_for_all())
        .child("a", worker("a", log))
        .add(Child::new("b", worker("b", log)).transient())
        .spawn(runtime)
        .unwrap();
    let (a, b) = (tree.child("a").unwrap(), tree.child("b").unwrap());
    (tree, a, b)
}

fn is(tree: &Tree, child: usize, state: ChildState) -> bool {
    tree.children()[child].state == state
}

/// Catches: a child that is restarted with its group although it was stopped on request. (Mutation: in `settle.rs`,
/// check only `finished`.)
#[test]
fn a_transient_child_that_was_stopped_stays_down_when_its_group_is_restarted() {
    soon(|| {
        let (runtime, log) = (runtime(), Log::new());
        let (tree, a, b) = group(&runtime, &log);
        tree.stop_child("b").unwrap();
        eventually(|| is(&tree, 1, ChildState::Down));
        crash(a);
        until_restarted(&tree, "a", 1);
        is_back(a);
        assert!(is(&tree, 1, ChildState::Down) && !b.pid().is_alive());
        assert_eq!(lines(&log).iter().filter(|line| *line == "b starts").count(), 1);
    });
}

/// Catches: a stop that is still remembered after the child was started again and has then finished by itself.
/// (Mutation: in `plan/requests.rs`, `restart_child` does not clear `stopped`.)
#[test]
fn a_finished_transient_child_is_restarted_with_its_group_even_if_it_was_stopped_before() {
    soon(|| {
        let (runtime, log) = (runtime(), Log::new());
        let (tree, a, b) = group(&runtime, &log);
        tree.stop_child("b").unwrap();
        eventually(|| is(&tree, 1, ChildState::Down));
        tree.restart_child("b").unwrap();
        is_back(b);
        b.finish().send().unwrap();
        eventually(|| is(&tree, 1, ChildState::Down));
        crash(a);
        is_back(a);
        is_back(b);
        assert_eq!(lines(&log).iter().filter(|line| *line == "b starts").count(), 3);
    });
}

/// Catches: a failure after a long run that counts as one more failure in a row, or as none. Then the delay after the
/// next failure is too long or too short. (Mutation: in `plan/backoff.rs`, `Backoff::failed`, set `in_a_row` to 0, to 2
/// or to one more after a stable run.)
#[test]
fn the_second_failure_after_a_stable_run_waits_for_twice_as_long_as_the_first() {
    soon(|| {
        let clock = postroom::test::Clock::manual();
        let runtime = postroom_tests::face::builder().clock(clock.clone()).build().unwrap();
        let (began, starts) = (clock.now(), Log::new());
        let (log, watch, seen) = (Log::new(), clock.clone(), starts.clone());
        let mut start = worker("a", &log);
        let millis = Duration::from_millis;
        let backoff = Backoff::exponential(millis(10), millis(1_000)).jitter(0.0).reset_after(Duration::from_secs(5));
        let tree = Supervisor::one_for_one()
            .intensity(u32::MAX, Duration::MAX)
            .backoff(backoff)
            .child("a", move |spawn| {
                seen.add(watch.now() - began);
                start(spawn)
            })
            .spawn(&runtime)
            .unwrap();
        let a: Address<Worker> = tree.child("a").unwrap();
        let fail_after = |run: Duration| {
            clock.advance(run).unwrap();
            let before = clock.now();
            crash(a);
            clock.advance(millis(2_000)).unwrap();
            let started = began + *starts.all().last().unwrap();
            started - before
        };
        // Each run takes two seconds, except for the third. That one takes longer than `reset_after`.
        let delays =
            [fail_after(millis(0)), fail_after(millis(0)), fail_after(Duration::from_secs(9)), fail_after(millis(0))];
        assert_eq!(delays, [10, 20, 10, 20].map(millis));
        drop(tree);
    });
}
