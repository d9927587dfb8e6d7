//! Supervisors below supervisors.

use super::*;
use postroom::supervision::{Child, GaveUp};
use postroom::{CallError, ChildSpawn};
use std::sync::{Arc, Mutex};

/// Returns the factory of a nested supervisor with one child and no allowed restart.
fn strict(
    log: &Log<String>,
) -> impl FnMut(ChildSpawn) -> Result<Tree, postroom::supervision::SupervisorError> + Send + use<> {
    let log = log.clone();
    move |spawn| Supervisor::one_for_one().intensity(0, Duration::MAX).child("b", worker("b", &log)).spawn(spawn)
}

#[test]
fn a_supervisor_that_gives_up_is_restarted_by_its_own_and_the_addresses_below_it_stay_valid() {
    soon(|| {
        let (runtime, log) = (runtime(), Log::new());
        let tree = eager(Supervisor::one_for_one()).child("a", worker("a", &log)).child("sub", strict(&log));
        let tree = tree.spawn(&runtime).unwrap();
        let sub = tree.tree("sub").unwrap();
        let b: Address<Worker> = sub.child("b").unwrap();
        assert_eq!(b.add(3).wait(), Ok(3));
        crash(b);
        is_back(b);
        assert_eq!(b.add(1).wait(), Ok(1));
        assert_eq!((restarts(&tree, "sub"), restarts(&tree, "a"), restarts(&sub, "b")), (1, 0, 0));
        assert_eq!(tree.tree("sub").unwrap().child::<Worker>("b").unwrap(), b);
        let last = tree.children()[1].last.clone().unwrap();
        let ExitReason::Error(error) = &last.reason else { panic!("{last}") };
        assert_eq!(&*error.downcast_ref::<GaveUp>().unwrap().child, "b");
        assert_eq!(lines(&log), ["a starts", "b starts", "b ends", "b starts"]);
    });
}

#[test]
fn escalating_failures_end_the_top_supervisor_with_the_whole_chain() {
    soon(|| {
        let (runtime, log) = (runtime(), Log::new());
        let tree = Supervisor::one_for_all().intensity(0, Duration::MAX).child("a", worker("a", &log));
        let tree = tree.child("sub", strict(&log)).spawn(&runtime).unwrap();
        let b: Address<Worker> = tree.tree("sub").unwrap().child("b").unwrap();
        let end = tree.join();
        crash(b);
        let text = end.wait().to_string();
        assert!(text.contains("`sub`") && text.contains("`b`") && text.contains("it had to"), "{text}");
        assert_eq!(lines(&log), ["a starts", "b starts", "b ends", "a ends"]);
        assert!(b.add(1).wait().is_err());
    });
}

#[test]
fn a_sibling_that_fails_has_the_supervisor_below_stop_its_children_in_order_and_start_them_again() {
    soon(|| {
        let (runtime, log) = (runtime(), Log::new());
        let own = log.clone();
        let tree = eager(Supervisor::one_for_all()).child("a", worker("a", &log)).child("sub", move |spawn| {
            let sub = Supervisor::one_for_one().child("b", worker("b", &own));
            sub.child("c", worker("c", &own)).spawn(spawn)
        });
        let tree = tree.spawn(&runtime).unwrap();
        crash(tree.child("a").unwrap());
        let started = ["a starts", "b starts", "c starts"];
        let expected: Vec<_> = started.into_iter().chain(["a ends", "c ends", "b ends"]).chain(started).collect();
        eventually(|| lines(&log) == expected);
    });
}

/// The nested supervisor is restarted because of a sibling. That is not a failure of its own, so messages to its
/// children keep waiting.
#[test]
fn messages_for_a_child_wait_through_the_restart_of_its_supervisor() {
    soon(|| while !waits_through_the_restart() {});
}

/// Returns whether the message had to wait. If the child is released before its supervisor has stopped it, the message
/// does not have to.
fn waits_through_the_restart() -> bool {
    let (runtime, log) = (runtime(), Log::new());
    let own = log.clone();
    let tree = Supervisor::one_for_one().child("sub", move |spawn| {
        let b = Child::new("b", worker("b", &own)).keep_messages();
        Supervisor::one_for_one().add(b).spawn(spawn)
    });
    let tree = tree.spawn(&runtime).unwrap();
    let sub = tree.tree("sub").unwrap();
    let b: Address<Worker> = sub.child("b").unwrap();
    assert_eq!(b.add(100).wait(), Ok(100));
    let (here, go) = (Latch::new(), Latch::new());
    b.pass(here.clone(), go.clone()).send().unwrap();
    here.wait();
    let call = std::thread::spawn(move || b.add(7).timeout(Duration::MAX).wait());
    eventually(|| b.pid().info().is_some_and(|info| info.mailbox >= 1));
    tree.restart_child("sub").unwrap();
    eventually(|| tree.children()[0].state == postroom::supervision::ChildState::Stopping);
    go.open();
    let answer = call.join().unwrap();
    if answer == Ok(107) {
        return false;
    }
    assert_eq!(answer, Ok(7));
    assert_eq!(lines(&log), ["b starts", "b ends", "b starts"]);
    true
}

#[test]
fn when_the_supervisor_below_is_stopped_for_good_callers_of_its_children_fail() {
    soon(|| {
        let (runtime, log) = (runtime(), Log::new());
        let own = log.clone();
        let never = Supervisor::one_for_one();
        let tree = never.child("sub", move |spawn| {
            let b = Child::new("b", worker("b", &own)).keep_messages();
            let patient = Supervisor::one_for_one().backoff(Backoff::constant(Duration::MAX));
            patient.add(b).spawn(spawn)
        });
        let tree = tree.spawn(&runtime).unwrap();
        let sub = tree.tree("sub").unwrap();
        let b: Address<Worker> = sub.child("b").unwrap();
        crash(b);
        eventually(|| sub.children()[0].state == postroom::supervision::ChildState::BackingOff);
        let call = std::thread::spawn(move || b.add(7).timeout(Duration::MAX).wait());
        tree.stop_child("sub").unwrap();
        assert!(matches!(call.join().unwrap(), Err(CallError::Gone(_))));
        eventually(|| b.add(1).wait().is_err());
    });
}

/// Catches: a message to a child that the supervisor has already given up on, but that waits until the supervisor has
/// exited, however long the other children take to stop. (Mutation: in `driver.rs`, `may_return` does not check whether
/// the supervisor gave up.)
#[test]
fn a_call_to_a_child_fails_at_once_while_the_supervisor_below_that_gave_up_on_it_still_stops_the_others() {
    soon(|| {
        let (runtime, log) = (runtime(), Log::new());
        let own = log.clone();
        let tree = eager(Supervisor::one_for_one()).child("sub", move |spawn| {
            let b = Child::new("b", worker("b", &own)).keep_messages();
            let slow = Child::new("c", worker("c", &own)).stop_within(Duration::MAX);
            Supervisor::one_for_one().intensity(0, Duration::MAX).add(b).add(slow).spawn(spawn)
        });
        let tree = tree.spawn(&runtime).unwrap();
        let sub = tree.tree("sub").unwrap();
        let (b, c): (Address<Worker>, Address<Worker>) = (sub.child("b").unwrap(), sub.child("c").unwrap());
        let (here, go) = (Latch::new(), Latch::new());
        c.pass(here.clone(), go.clone()).send().unwrap();
        here.wait();
        crash(b);
        // The child is down or has been given up on. In both cases the call fails before the other child has stopped.
        let answer = b.add(7).timeout(Duration::from_secs(10)).wait();
        assert!(matches!(answer, Err(CallError::Gone(_))), "{answer:?}");
        assert!(b.add(7).send().is_err(), "nothing is kept for it any more");
        go.open();
        is_back(b);
        assert_eq!(b.add(1).wait(), Ok(1));
    });
}

/// A child that has the handle of its own tree may inspect, stop and restart the tree's children.
#[test]
fn a_child_may_have_the_handle_of_its_own_tree() {
    #[process]
    struct Boss {
        tree: Arc<Mutex<Option<Tree>>>,
    }
    #[process]
    impl Boss {
        #[entry]
        fn serve(&mut self) {}
        #[message]
        fn restart(&mut self, name: String) -> bool {
            self.tree.lock().unwrap().as_ref().unwrap().restart_child(&name).is_ok()
        }
    }
    soon(|| {
        let (runtime, log) = (runtime(), Log::new());
        let place = Arc::new(Mutex::new(None));
        let own = place.clone();
        let tree = Supervisor::one_for_one().child("a", worker("a", &log));
        let tree = tree.child("boss", move |spawn| spawn.of(Boss { tree: own.clone() }).serve());
        let tree = tree.spawn(&runtime).unwrap();
        *place.lock().unwrap() = Some(tree.clone());
        let boss: Address<Boss> = tree.child("boss").unwrap();
        assert_eq!(boss.restart("a".to_string()).wait(), Ok(true));
        eventually(|| lines(&log) == ["a starts", "a ends", "a starts"]);
        // A child may restart itself, too.
        let life = boss.pid().join();
        assert_eq!(boss.restart("boss".to_string()).wait(), Ok(true));
        assert_eq!(life.wait(), ExitReason::Shutdown);
        eventually(|| boss.restart("a".to_string()).wait().is_ok());
    });
}

#[test]
fn a_process_may_spawn_a_tree_of_its_own() {
    #[process]
    struct Root {
        log: Log<String>,
    }
    #[process]
    impl Root {
        #[entry]
        fn serve(&mut self) {}
        #[message]
        fn grow(&mut self, ctx: &mut Context<Self>) -> Tree {
            let supervisor = Supervisor::one_for_one().child("a", worker("a", &self.log));
            supervisor.spawn(ctx).unwrap()
        }
    }
    soon(|| {
        let (runtime, log) = (runtime(), Log::new());
        let root = runtime.spawn(Root { log: log.clone() }).serve().unwrap();
        let tree = root.grow().wait().unwrap();
        assert_eq!(tree.pid().info().unwrap().parent, Some(root.pid()));
        let a: Address<Worker> = tree.child("a").unwrap();
        assert_eq!(a.pid().info().unwrap().parent, Some(tree.pid()));
        assert_eq!(a.add(1).wait(), Ok(1));
    });
}
