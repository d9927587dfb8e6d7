//! Invalid and extreme input to supervisors.

use super::*;
use postroom::supervision::{Child, SupervisorError};

fn refusal(supervisor: Supervisor) -> SupervisorError {
    supervisor.spawn(&runtime()).unwrap_err()
}

#[test]
fn two_children_of_one_name_are_refused_and_nothing_is_started() {
    soon(|| {
        let log = Log::new();
        let supervisor = Supervisor::one_for_one().child("a", worker("a", &log)).child("a", worker("b", &log));
        let refused = refusal(supervisor);
        assert!(matches!(&refused, SupervisorError::Duplicate { name } if name == "a"), "{refused}");
        assert!(log.is_empty());
    });
}

#[test]
fn a_supervisor_without_children_is_refused_unless_it_is_dynamic() {
    soon(|| {
        let refused = refusal(Supervisor::rest_for_one());
        assert!(matches!(refused, SupervisorError::Childless { strategy: "rest_for_one" }));
        assert!(refused.to_string().contains("Supervisor::dynamic()"));
        let runtime = runtime();
        assert!(Supervisor::dynamic().spawn(&runtime).unwrap().pid().is_alive());
    });
}

#[test]
fn a_window_without_length_is_refused_where_it_would_mean_anything() {
    soon(|| {
        let (runtime, log) = (runtime(), Log::new());
        let with = |most| Supervisor::one_for_one().intensity(most, Duration::ZERO).child("a", worker("a", &log));
        assert!(matches!(with(1).spawn(&runtime).unwrap_err(), SupervisorError::Window { most: 1 }));
        // No restarts, and unlimited restarts, need no window.
        with(0).spawn(&runtime).unwrap();
        with(u32::MAX).spawn(&runtime).unwrap();
    });
}

#[test]
fn the_longest_durations_and_the_longest_names_work() {
    soon(|| {
        let (runtime, log) = (runtime(), Log::new());
        let long = "n".repeat(1 << 20);
        let child = Child::new(&*long, worker("a", &log)).stop_within(Duration::MAX).keep_at_most(usize::MAX);
        let supervisor = Supervisor::one_for_one().intensity(1, Duration::MAX).add(child).child("", worker("b", &log));
        let tree = supervisor.backoff(Backoff::exponential(Duration::ZERO, Duration::MAX)).spawn(&runtime).unwrap();
        let a: Address<Worker> = tree.child(&long).unwrap();
        crash(a);
        is_back(a);
        assert_eq!(tree.child::<Worker>("").unwrap().add(1).wait(), Ok(1));
        assert!(tree.to_string().len() < 4_096, "a name is cut where it is printed");
        let unknown = tree.child::<Worker>(&"m".repeat(1 << 20)).unwrap_err().to_string();
        assert!(unknown.len() < 4_096, "and in errors");
        let end = tree.join();
        tree.stop();
        assert_eq!(end.wait(), ExitReason::Normal);
    });
}

#[test]
fn of_many_children_an_error_names_those_with_the_nearest_names() {
    soon(|| {
        let (runtime, log) = (runtime(), Log::new());
        let tree = Supervisor::dynamic().spawn(&runtime).unwrap();
        for number in 0..200 {
            tree.start(Child::new(format!("worker-{number}"), worker("a", &log))).unwrap();
        }
        let text = tree.child::<Worker>("worker_117").unwrap_err().to_string();
        assert!(
            text.contains("there are 200, among them `worker-117`") && text.ends_with("did you mean `worker-117`?")
        );
        assert!(text.len() < 600, "{text}");
    });
}

#[test]
fn a_name_that_another_process_has_is_refused_and_the_spawn_undone() {
    soon(|| {
        let (runtime, log) = (runtime(), Log::new());
        let holder = runtime.spawn_process(postroom_tests::idle_for_ever()).named("tree").start().unwrap();
        let supervisor = Supervisor::one_for_one().named("tree").child("a", worker("a", &log));
        let refused = supervisor.spawn(&runtime).unwrap_err();
        assert!(matches!(refused, SupervisorError::Spawn(SpawnError::Name { holder: has, .. }) if has == holder));
        assert!(log.is_empty());
        let tree = Supervisor::one_for_one().named("other").child("a", worker("a", &log)).spawn(&runtime).unwrap();
        assert_eq!(runtime.whereis("other"), Some(tree.pid()));
    });
}

/// A supervisor treats a message of an unknown type as a dead letter, like any process.
#[test]
fn an_unknown_message_to_a_supervisor_is_a_dead_letter() {
    soon(|| {
        let (builder, letters) = postroom_tests::face::with_dead_letters();
        let (runtime, log) = (builder.build().unwrap(), Log::new());
        let tree = Supervisor::one_for_one().child("a", worker("a", &log)).spawn(&runtime).unwrap();
        runtime.send(tree.pid(), 5_u64).unwrap();
        eventually(|| letters.len() == 1);
        assert!(tree.pid().is_alive());
    });
}

#[test]
fn a_tree_is_no_process_with_messages_and_a_process_is_no_tree() {
    soon(|| {
        let (runtime, log) = (runtime(), Log::new());
        let own = log.clone();
        let tree = Supervisor::one_for_one()
            .child("a", worker("a", &log))
            .child("sub", move |spawn| Supervisor::one_for_all().child("b", worker("b", &own)).spawn(spawn));
        let tree = tree.spawn(&runtime).unwrap();
        let wrong = tree.child::<Worker>("sub").unwrap_err().to_string();
        assert_eq!(wrong, "the child `sub` has type `one_for_all supervisor`, not `Worker`");
        let wrong = tree.tree("a").unwrap_err().to_string();
        assert_eq!(wrong, "the child `a` is not a supervisor but a `Worker`; ask for its address with `child`");
    });
}

/// The timers, child slots and children of a supervisor end with it.
#[test]
fn a_tree_that_has_ended_leaves_no_process_and_no_timer() {
    soon(|| {
        let (runtime, log) = (runtime(), Log::new());
        let tree = Supervisor::one_for_one().backoff(Backoff::constant(Duration::from_secs(3_600)));
        let tree = tree.child("a", worker("a", &log)).child("b", worker("b", &log)).spawn(&runtime).unwrap();
        crash(tree.child("a").unwrap());
        eventually(|| runtime.statistics().timers == 1);
        let end = tree.join();
        tree.stop();
        end.wait();
        eventually(|| runtime.statistics().processes.live == 0);
        assert_eq!(runtime.statistics().timers, 0);
    });
}
