//! A child's address is finally gone when nothing can start the child any more, even if handles of its tree are left.
//! From then on it has no names and is in no group or topic, and the watchers of its groups have been notified.

use super::*;
use postroom::error::{GroupError, SendFailure};
use postroom::supervision::{Child, ChildState};
use postroom::{Mailbox, Topic};

/// A PID that is in a group and a topic and has a name, and a watcher of the group.
struct Places<'a> {
    runtime: &'a Runtime,
    name: &'static str,
    pid: Pid,
    watcher: Mailbox,
}

impl<'a> Places<'a> {
    fn of(runtime: &'a Runtime, name: &'static str, pid: Pid) -> Self {
        let watcher = Mailbox::new().unwrap();
        let group = runtime.group(name);
        assert!(group.join(pid).unwrap());
        group.subscribe(watcher.pid()).unwrap();
        runtime.register_name(name, pid).unwrap();
        runtime.topic::<u8>(name).subscribe(pid).unwrap();
        Self { runtime, name, pid, watcher }
    }

    fn has(&self) -> [bool; 3] {
        let topic: Topic<u8> = self.runtime.topic(self.name);
        [
            self.runtime.group(self.name).contains(self.pid),
            self.runtime.whereis(self.name) == Some(self.pid),
            topic.subscribers().contains(&self.pid),
        ]
    }

    fn has_all(&self) -> bool {
        self.has() == [true; 3]
    }

    fn has_none(&self) -> bool {
        self.has() == [false; 3]
    }

    /// Checks that the PID has lost all registrations and cannot get them again, and that the watcher got the reason.
    fn are_lost(mut self, why: &ExitReason) {
        assert!(self.has_none());
        let event = self.watcher.receive().take::<GroupEvent>().unwrap();
        let GroupEvent::Left { pid, reason: Some(reason), .. } = event else { panic!("{event:?}") };
        assert_eq!((pid, &reason), (self.pid, why));
        assert!(!self.pid.is_alive() && self.pid.resolve().is_none());
        assert_eq!(self.runtime.group(self.name).join(self.pid), Err(GroupError::Gone(self.pid)));
        assert!(self.runtime.register_name(self.name, self.pid).is_err());
        assert_eq!(self.runtime.send(self.pid, 1_u8).unwrap_err().reason, SendFailure::Gone(self.pid));
    }
}

fn stopped(tree: &Tree) {
    let end = tree.join();
    tree.stop();
    end.wait();
}

/// Catches: addresses that stay in groups for as long as a handle of the tree exists.
#[test]
fn a_stopped_trees_children_are_in_no_group_although_its_handle_exists() {
    soon(|| {
        let (runtime, log) = (runtime(), Log::new());
        let tree = Supervisor::one_for_one()
            .child("a", worker("a", &log))
            .child("below", {
                let log = log.clone();
                move |spawn| Supervisor::one_for_one().child("b", worker("b", &log)).spawn(spawn)
            })
            .spawn(&runtime)
            .unwrap();
        let below = tree.tree("below").unwrap();
        let pids = [tree.child_pid("a").unwrap(), below.pid(), below.child_pid("b").unwrap()];
        let places: Vec<Places> =
            ["a", "below", "b"].into_iter().zip(pids).map(|(name, pid)| Places::of(&runtime, name, pid)).collect();
        assert!(places.iter().all(Places::has_all));
        stopped(&tree);
        places.into_iter().for_each(|places| places.are_lost(&ExitReason::Shutdown));
        // The handles still return the PIDs.
        assert_eq!((tree.child_pid("a").unwrap(), below.child_pid("b").unwrap()), (pids[0], pids[2]));
        assert_eq!(tree.children()[0].state, ChildState::Down);
        assert_eq!(tree.child::<Worker>("a").unwrap().pid(), pids[0]);
    });
}

/// Catches: addresses that stay in groups after their supervisor has given up, or that leave without its reason.
#[test]
fn the_children_of_a_supervisor_that_gave_up_are_in_no_group_either() {
    soon(|| {
        let (runtime, log) = (runtime(), Log::new());
        let supervisor = Supervisor::one_for_one().intensity(0, Duration::MAX);
        let tree = supervisor.child("a", worker("a", &log)).spawn(&runtime).unwrap();
        let a: Address<Worker> = tree.child("a").unwrap();
        let (places, end) = (Places::of(&runtime, "a", a.pid()), tree.join());
        let reason = crash(a);
        end.wait();
        places.are_lost(&reason);
    });
}

/// Catches: a child that loses its registrations although it may be restarted, or that keeps them although it cannot
/// be.
#[test]
fn a_restartable_child_keeps_its_registrations_and_a_dynamic_one_that_is_gone_does_not() {
    soon(|| {
        let (runtime, log) = (runtime(), Log::new());
        let tree = Supervisor::one_for_one().child("a", worker("a", &log)).spawn(&runtime).unwrap();
        let a: Address<Worker> = tree.child("a").unwrap();
        let places = Places::of(&runtime, "a", a.pid());
        tree.stop_child("a").unwrap();
        eventually(|| tree.children()[0].state == ChildState::Down);
        assert!(places.has_all());
        tree.restart_child("a").unwrap();
        is_back(a);
        assert!(places.has_all());

        let dynamic = Supervisor::dynamic().spawn(&runtime).unwrap();
        let inner = log.clone();
        let below =
            Child::new("below", move |spawn| Supervisor::one_for_one().child("b", worker("b", &inner)).spawn(spawn));
        dynamic.start_any(below.temporary()).unwrap();
        let below = dynamic.tree("below").unwrap();
        // The child does not exist before its supervisor has started.
        eventually(|| below.child_pid("b").is_ok());
        let [first, second] = [below.pid(), below.child_pid("b").unwrap()];
        let lost = [Places::of(&runtime, "below", first), Places::of(&runtime, "b", second)];
        eventually(|| below.children()[0].state == ChildState::Running);
        dynamic.stop_child("below").unwrap();
        eventually(|| dynamic.children().is_empty() && lost.iter().all(Places::has_none));
        lost.into_iter().for_each(|places| places.are_lost(&ExitReason::Shutdown));
        assert!(below.child_pid("b").is_ok(), "the handle tells as before");
    });
}
