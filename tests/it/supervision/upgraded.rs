//! Children that are upgraded: their type in the tree, and the definition with which they are restarted.

use super::*;
use postroom::supervision::{Child, ChildError, ChildState};

/// The definition that a worker is upgraded to.
#[process]
struct Clerk {
    sum: u64,
}

#[process]
impl Clerk {
    #[entry]
    fn serve(&mut self) {}

    #[message]
    fn total(&self) -> u64 {
        self.sum
    }

    #[message(WorkerCrash)]
    fn crash(&mut self, crash: WorkerCrash) {
        panic!("{}", crash.text)
    }
}

fn kind(tree: &Tree) -> &'static str {
    tree.children()[0].process.unwrap()
}

fn upgrade(pid: Pid) -> Address<Clerk> {
    pid.upgrade(|old: Worker| Clerk { sum: old.sum }).wait().unwrap()
}

/// Catches: a tree or an address that still uses the type with which the child was started.
#[test]
fn a_tree_shows_the_current_type_and_a_restart_returns_to_the_original() {
    soon(|| {
        let (runtime, log) = (runtime(), Log::new());
        let tree = eager(Supervisor::one_for_one()).child("a", worker("a", &log)).spawn(&runtime).unwrap();
        let a: Address<Worker> = tree.child("a").unwrap();
        assert_eq!((a.add(5).wait(), kind(&tree)), (Ok(5), "Worker"));
        let clerk = upgrade(a.pid());
        assert_eq!((clerk.pid(), clerk.total().wait()), (a.pid(), Ok(5)));
        assert_eq!(kind(&tree), "Clerk");
        assert!(tree.to_string().contains("\n  a: Clerk <"), "{tree}");
        assert_eq!(runtime.address::<Clerk>(a.pid()).unwrap(), clerk);
        assert!(runtime.address::<Worker>(a.pid()).is_err());
        // The tree returns addresses of both types: the current one, and the one after a restart.
        assert_eq!((tree.child::<Clerk>("a").unwrap(), tree.child::<Worker>("a").unwrap()), (clerk, a));
        crash(a);
        is_back(a);
        assert_eq!((a.add(0).wait(), kind(&tree)), (Ok(0), "Worker"));
        assert!(runtime.address::<Worker>(a.pid()).is_ok() && tree.child::<Clerk>("a").is_err());
    });
}

/// Catches: a redefined child that returns to its old definition, or changes at once.
#[test]
fn a_child_that_was_redefined_is_restarted_as_the_new_definition_and_keeps_all_else() {
    soon(|| {
        let (runtime, log) = (runtime(), Log::new());
        let tree = eager(Supervisor::one_for_one()).child("a", worker("a", &log)).spawn(&runtime).unwrap();
        let a: Address<Worker> = tree.child("a").unwrap();
        runtime.register_name("the clerk", a.pid()).unwrap();
        tree.redefine("a", |spawn| spawn.of(Clerk { sum: 1_000 }).serve()).unwrap();
        eventually(|| tree.child::<Clerk>("a").is_ok());
        assert_eq!((a.add(5).wait(), kind(&tree)), (Ok(5), "Worker"), "its present life goes on");
        let clerk = upgrade(a.pid());
        assert_eq!(clerk.total().wait(), Ok(5));
        crash(a);
        eventually(|| clerk.total().wait() == Ok(1_000));
        assert_eq!((kind(&tree), restarts(&tree, "a")), ("Clerk", 1));
        assert_eq!(runtime.whereis("the clerk"), Some(a.pid()));
        assert!(tree.child::<Worker>("a").is_err());
        // The same holds while the child is down.
        tree.stop_child("a").unwrap();
        eventually(|| tree.children()[0].state == ChildState::Down);
        assert_eq!((kind(&tree), tree.child::<Clerk>("a").unwrap()), ("Clerk", clerk));
    });
}

/// Catches: a redefinition that outlives the supervisor and its closures, or a child's address that does not outlive
/// them.
#[test]
fn a_restarted_supervisor_uses_its_closures() {
    soon(|| {
        let (runtime, log) = (runtime(), Log::new());
        let tree = eager(Supervisor::one_for_one())
            .child("sub", move |spawn| Supervisor::one_for_one().child("a", worker("a", &log)).spawn(spawn))
            .spawn(&runtime)
            .unwrap();
        let sub = tree.tree("sub").unwrap();
        let a: Address<Worker> = sub.child("a").unwrap();
        sub.redefine("a", |spawn| spawn.of(Clerk { sum: 7 }).serve()).unwrap();
        sub.restart_child("a").unwrap();
        eventually(|| kind(&sub) == "Clerk");
        let life = sub.pid().join();
        sub.pid().kill();
        life.wait();
        is_back(a);
        assert_eq!((kind(&sub), sub.child::<Worker>("a").unwrap()), ("Worker", a));
    });
}

#[test]
fn a_child_that_cannot_be_redefined_is_refused_with_the_reason() {
    soon(|| {
        let (runtime, log) = (runtime(), Log::new());
        let own = log.clone();
        let tree = eager(Supervisor::one_for_one())
            .child("a", worker("a", &log))
            .child("sub", move |spawn| Supervisor::one_for_one().child("b", worker("b", &own)).spawn(spawn))
            .spawn(&runtime)
            .unwrap();
        let unknown = tree.redefine("z", worker("z", &log)).unwrap_err();
        assert!(matches!(unknown, ChildError::Unknown { .. }), "{unknown}");
        let process = tree.redefine("sub", worker("b", &log)).unwrap_err();
        assert_eq!(process.to_string(), "the child `sub` has type `one_for_one supervisor`, not `Worker`");
        let supervisor = tree
            .redefine("a", |spawn| {
                Supervisor::one_for_one().add(Child::new("x", worker("x", &Log::new()))).spawn(spawn)
            })
            .unwrap_err();
        assert!(matches!(supervisor, ChildError::NoTree { .. }), "{supervisor}");
        let end = tree.join();
        tree.stop();
        end.wait();
        assert_eq!(tree.redefine("a", worker("a", &log)), Err(ChildError::Gone(tree.pid())));
    });
}

/// Catches: a supervisor that fails when the drop of an unneeded closure panics.
#[test]
fn a_closure_whose_drop_panics_is_contained() {
    struct Bomb;
    impl Drop for Bomb {
        fn drop(&mut self) {
            panic!("dropped")
        }
    }
    soon(|| {
        let (runtime, log) = (runtime(), Log::new());
        let (mut start, bomb) = (worker("a", &log), Bomb);
        let first = move |spawn| {
            let _armed = &bomb;
            start(spawn)
        };
        let tree = eager(Supervisor::one_for_one()).child("a", first).spawn(&runtime).unwrap();
        tree.redefine("a", |spawn| spawn.of(Clerk { sum: 9 }).serve()).unwrap();
        tree.restart_child("a").unwrap();
        eventually(|| tree.child::<Clerk>("a").is_ok_and(|clerk| clerk.total().wait() == Ok(9)));
        assert!(tree.pid().is_alive());
    });
}
