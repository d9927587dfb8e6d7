//! Supervisors of a host that shuts down.

use super::*;
use postroom::supervision::Child;
use postroom_tests::HOUR;
use std::sync::mpsc::channel;

/// This is repeated a hundred times, since a failure would be random: the shutdown cancels all processes at once,
/// except supervised ones.
#[test]
fn when_the_runtime_goes_down_children_are_stopped_by_their_supervisor_in_reverse_order() {
    soon(|| {
        for _ in 0..100 {
            let (runtime, log) = (runtime(), Log::new());
            let own = log.clone();
            let mut supervisor = Supervisor::one_for_one();
            for name in ["a", "b"] {
                supervisor = supervisor.child(name, worker(name, &log));
            }
            let supervisor = supervisor.child("sub", move |spawn| {
                let sub = Supervisor::one_for_one().child("c", worker("c", &own));
                sub.child("d", worker("d", &own)).spawn(spawn)
            });
            let tree = supervisor.child("e", worker("e", &log)).spawn(&runtime).unwrap();
            let end = tree.join();
            let report = runtime.shutdown_within(HOUR).unwrap();
            assert!(!report.was_forced() && report.alive == 7, "{report}");
            assert_eq!(end.wait(), ExitReason::Shutdown);
            assert_eq!(lines(&log)[5..], ["e ends", "d ends", "c ends", "b ends", "a ends"]);
        }
    });
}

/// The host shuts down while the supervisor is in a restart loop. If the host then refuses a start, that is not a
/// failure.
#[test]
fn a_restart_that_a_shutdown_refuses_is_no_failure() {
    soon(|| {
        for _ in 0..20 {
            let (runtime, log) = (runtime(), Log::new());
            let supervisor = eager(Supervisor::one_for_one()).child("a", worker("a", &log));
            let tree = supervisor.child("crasher", |spawn| spawn.of(Crasher).run()).spawn(&runtime).unwrap();
            eventually(|| restarts(&tree, "crasher") > 10);
            let end = tree.join();
            assert!(!runtime.shutdown_within(HOUR).unwrap().was_forced());
            assert_eq!(end.wait(), ExitReason::Shutdown);
        }
    });
}

#[process]
struct Crasher;

#[process]
impl Crasher {
    #[entry]
    async fn run(&mut self) {
        panic!("at once")
    }
}

#[test]
fn at_the_deadline_of_the_shutdown_children_are_killed_whatever_their_supervisor_allows_them() {
    #[process]
    struct Stubborn;
    #[process]
    impl Stubborn {
        #[entry]
        fn serve(&mut self) {}
        #[signal]
        fn on_cancel(&mut self, _cancel: Cancel) {}
    }
    soon(|| {
        let runtime = runtime();
        let stubborn = Child::new("stubborn", |spawn| spawn.of(Stubborn).serve());
        let tree = Supervisor::one_for_one().add(stubborn.stop_within(Duration::MAX)).spawn(&runtime).unwrap();
        let life = tree.child_pid("stubborn").unwrap().join();
        let report = runtime.shutdown_within(Duration::from_millis(20)).unwrap();
        assert_eq!((report.alive, report.killed), (2, 2), "{report}");
        assert_eq!(life.wait(), ExitReason::Killed);
    });
}

#[test]
fn a_runtime_that_is_dropped_inside_one_of_its_processes_still_stops_supervised_children_in_order() {
    #[process]
    struct Owner {
        runtime: Option<Runtime>,
    }
    #[process]
    impl Owner {
        #[entry]
        fn serve(&mut self) {}
        #[message]
        fn let_go(&mut self) {
            self.runtime = None;
        }
    }
    soon(|| {
        let (runtime, log) = (runtime(), Log::new());
        let supervisor = Supervisor::one_for_one().child("a", worker("a", &log)).child("b", worker("b", &log));
        let tree = supervisor.spawn(&runtime).unwrap();
        let (host, end) = (runtime.host(), tree.join());
        let owner = host.spawn(Owner { runtime: Some(runtime) }).serve().unwrap();
        owner.let_go().send().unwrap();
        assert_eq!(end.wait(), ExitReason::Shutdown);
        assert_eq!(lines(&log)[2..], ["b ends", "a ends"]);
    });
}

#[test]
fn a_supervisor_is_not_spawned_on_a_runtime_that_is_down() {
    soon(|| {
        let (runtime, log) = (runtime(), Log::new());
        let host = runtime.host();
        runtime.shutdown().unwrap();
        let refused = Supervisor::one_for_one().child("a", worker("a", &log)).spawn(host);
        let refused = refused.unwrap_err();
        let spawn = postroom::supervision::SupervisorError::Spawn(SpawnError::Shutdown);
        assert_eq!(refused.to_string(), spawn.to_string());
        assert!(log.is_empty());
    });
}

/// A child's closure spawns processes without supervision. The shutdown cancels them like any others.
#[test]
fn helpers_that_a_closure_spawns_on_the_host_are_cancelled_by_the_shutdown_itself() {
    soon(|| {
        let (runtime, log) = (runtime(), Log::new());
        let (say, said) = channel();
        let own = log.clone();
        let supervisor = Supervisor::one_for_one().child("a", move |spawn| {
            let helper = spawn.host().spawn(Worker { name: "helper", log: own.clone(), sum: 0 }).serve()?;
            say.send(helper.pid().join()).unwrap();
            spawn.of(Worker { name: "a", log: own.clone(), sum: 0 }).serve()
        });
        let _tree = supervisor.spawn(&runtime).unwrap();
        assert!(!runtime.shutdown_within(HOUR).unwrap().was_forced());
        assert_eq!(said.recv().unwrap().wait(), ExitReason::Shutdown);
    });
}
