//! Processes that are bound to their spawner before they run.

use postroom::manual::Event;
use postroom::prelude::*;
use postroom_tests::act;
use postroom_tests::face::with_runtime;
use postroom_tests::partner::{self, Begin, Bound, LONG, Partner, Report, Reports, Trapper, fell_with};
use std::sync::mpsc::channel;

fn parent(runtime: &Runtime) -> (Address<Partner>, Reports) {
    let (parent, reports) = Partner::reporting();
    (runtime.spawn(parent).serve().unwrap(), reports)
}

#[test]
fn the_exit_of_a_monitored_child_is_reported_however_early() {
    with_runtime(|runtime| {
        let (parent, reports) = parent(runtime);
        for (begin, is_normal) in [(Begin::EndAtOnce, true), (Begin::Run, true), (Begin::RunAndFail, false)] {
            let children = parent.spawn_many(500, Bound::Monitored, begin).wait().unwrap();
            let mut downs: Vec<_> = children.iter().map(|_| reports.down()).collect();
            assert!(
                downs.iter().all(|down| down.reason.is_normal() == is_normal && down.reason != ExitReason::NoProcess)
            );
            downs.sort_by_key(|down| down.pid);
            let mut children = children;
            children.sort();
            assert!(downs.iter().map(|down| down.pid).eq(children));
        }
        assert_eq!(parent.pid().bindings().wait().unwrap().count(), 0);
    });
}

#[test]
fn a_linked_child_that_fails_at_once_takes_its_parent_with_it() {
    with_runtime(|runtime| {
        for _ in 0..100 {
            let (parent, _told) = parent(runtime);
            let end = parent.pid().join();
            let child = parent.spawn(Bound::Linked, Begin::RunAndFail).wait();
            let reason = end.wait_timeout(LONG).unwrap();
            // Either the answer or the exit may come first.
            if let Ok(child) = child {
                assert!(fell_with(&reason, child), "{reason}");
            }
            assert!(matches!(reason, ExitReason::Linked { .. }), "{reason}");
        }
    });
}

#[test]
fn a_linked_child_that_ends_at_once_as_planned_leaves_nothing() {
    with_runtime(|runtime| {
        let (parent, reports) = parent(runtime);
        parent.spawn_many(100, Bound::Linked, Begin::EndAtOnce).wait().unwrap();
        parent.spawn_many(100, Bound::Linked, Begin::Run).wait().unwrap();
        // An exiting process leaves the count of live processes before it notifies its partners.
        postroom_tests::face::until(|| parent.pid().bindings().wait().unwrap().count() == 0);
        assert_eq!(runtime.statistics().processes.live, 1);
        parent.say("all").wait().unwrap();
        assert_eq!(reports.until_word(), []);
    });
}

/// The spawner gets the error. A notice in addition would report the failure twice.
#[test]
fn a_child_that_does_not_start_is_reported_only_by_the_error() {
    with_runtime(|runtime| {
        let (trapper, reports) = Trapper::reporting();
        let trapper = runtime.spawn(trapper).serve().unwrap();
        for bound in [Bound::Linked, Bound::Monitored, Bound::Owned, Bound::All] {
            let refused = trapper.spawn(bound, Begin::Refuse).wait();
            assert!(matches!(refused, Err(CallError::Failed(SpawnError::Init(_)))), "{refused:?}");
        }
        trapper.say("all").wait().unwrap();
        assert_eq!(reports.until_word(), []);
        assert_eq!(trapper.pid().bindings().wait().unwrap().count(), 0);
    });
}

#[test]
fn a_process_that_binds_itself_and_does_not_start_fails_its_links_and_leaves_nothing() {
    with_runtime(|runtime| {
        let (linked, reports) = Trapper::reporting();
        let linked = runtime.spawn(linked).serve().unwrap();
        let monitored = runtime.spawn(Partner::default()).serve().unwrap();
        let refused = runtime.spawn(Partner::default()).bind_and_refuse(linked.pid(), monitored.pid());
        assert!(refused.is_err());
        assert!(reports.exit().reason.to_string().contains("it does not start"));
        assert_eq!(linked.pid().bindings().wait().unwrap().count(), 0);
        assert_eq!(monitored.pid().bindings().wait().unwrap().count(), 0);
    });
}

#[test]
fn binding_options_outside_of_processes_are_refused_by_name() {
    with_runtime(|runtime| {
        let spawn = || runtime.spawn(Partner::default());
        let refused = [spawn().linked().serve(), spawn().monitored().serve(), spawn().owned().serve()];
        for (refused, asked) in refused.into_iter().zip(["linked", "monitored", "owned"]) {
            assert!(matches!(refused, Err(SpawnError::NoProcess { option }) if option == asked));
        }
        let by_hand = runtime.spawn_process(postroom_tests::idle_for_ever()).linked().start();
        assert!(matches!(by_hand, Err(SpawnError::NoProcess { option: "linked" })));
        assert_eq!(runtime.statistics().processes.spawned, 0);
    });
}

#[test]
fn all_bindings_of_a_child_are_there_before_it_runs() {
    with_runtime(|runtime| {
        let (parent, _told) = parent(runtime);
        let child = parent.spawn(Bound::All, Begin::Serve).wait().unwrap();
        let theirs = child.bindings().wait().unwrap();
        assert_eq!((theirs.links, theirs.monitored_by), (vec![parent.pid()], vec![parent.pid()]));
        let mine = parent.pid().bindings().wait().unwrap();
        assert_eq!((mine.links, mine.monitors, mine.owned), (vec![child], vec![child], vec![child]));
    });
}

#[test]
fn every_exit_of_an_owner_ends_its_owned_processes_transitively() {
    /// A process that owns a partner, and exits on request.
    #[process]
    struct Owner;

    #[process]
    impl Owner {
        #[entry]
        fn serve(&mut self) {}
        #[message]
        fn own(&mut self) -> Pid {
            partner::spawn(Bound::Owned, Begin::Serve).unwrap()
        }
        #[message]
        fn own_an_owner(&mut self) -> Address<Owner> {
            Host::current().unwrap().spawn(Owner).owned().serve().unwrap()
        }
        #[message]
        fn fail(&mut self) {
            panic!("failed as it was told");
        }
    }

    with_runtime(|runtime| {
        let ends: [fn(Address<Owner>); 4] = [
            |owner| assert!(owner.pid().stop()),
            |owner| owner.fail().send().unwrap(),
            |owner| assert!(owner.pid().kill()),
            |owner| assert!(owner.pid().cancel("enough")),
        ];
        for end in ends {
            let owner = runtime.spawn(Owner).serve().unwrap();
            let owned = owner.own_an_owner().wait().unwrap();
            let theirs = owned.own().wait().unwrap();
            let joins = [owned.pid().join(), theirs.join()];
            end(owner);
            for join in joins {
                assert_eq!(join.wait_timeout(LONG), Some(ExitReason::Shutdown));
            }
        }
        assert_eq!(runtime.statistics().processes.live, 0);
    });
}

#[test]
fn the_exit_of_an_owned_process_does_not_affect_its_owner() {
    with_runtime(|runtime| {
        let (parent, reports) = parent(runtime);
        let owned = parent.spawn(Bound::Owned, Begin::Serve).wait().unwrap();
        assert_eq!(parent.pid().bindings().wait().unwrap().owned, [owned]);
        let end = owned.join();
        owned.kill();
        end.wait_timeout(LONG).unwrap();
        parent.say("all").wait().unwrap();
        assert_eq!(reports.until_word(), []);
        assert_eq!(parent.pid().bindings().wait().unwrap().count(), 0);
    });
}

/// A process with a signal method for the cancellation decides for itself when to end, as usual.
#[test]
fn an_owned_process_may_clean_up_before_it_follows_its_owner() {
    #[process]
    struct Tidy(std::sync::mpsc::Sender<ExitReason>);

    #[process]
    impl Tidy {
        #[entry]
        fn serve(&mut self) {}
        #[signal]
        fn cancel(&mut self, ctx: &mut Context<Self>, cancel: Cancel) {
            let _over = self.0.send(cancel.reason);
            ctx.stop();
        }
    }

    #[process]
    struct Owner(std::sync::mpsc::Sender<ExitReason>);

    #[process]
    impl Owner {
        #[entry]
        fn serve(&mut self) -> Result<(), SpawnError> {
            Host::current().expect("a process").spawn(Tidy(self.0.clone())).owned().serve().map(drop)
        }
    }

    with_runtime(|runtime| {
        let (sender, receiver) = channel();
        let owner = runtime.spawn(Owner(sender)).serve().unwrap();
        owner.pid().kill();
        assert_eq!(receiver.recv_timeout(LONG).unwrap(), ExitReason::Shutdown);
        postroom_tests::face::until(|| runtime.statistics().processes.live == 0);
    });
}

/// A parent that spawns while it starts, and then fails to start, counts as failed.
#[test]
fn the_children_of_a_parent_that_does_not_start_learn_of_it() {
    with_runtime(|runtime| {
        let (sender, receiver) = channel();
        let refuses = act(|_, _| Ok(())).init(move |_| {
            let children = [Bound::Owned, Bound::Linked].map(|bound| partner::spawn(bound, Begin::Serve).unwrap());
            let _over = sender.send(children.map(|child| (child, child.join())));
            Err(InitError::Failed("no".into()))
        });
        assert!(runtime.spawn_process(refuses).start().is_err());
        let [(_, owned), (_, linked)] = receiver.recv_timeout(LONG).unwrap();
        assert_eq!(owned.wait_timeout(LONG), Some(ExitReason::Shutdown));
        assert!(matches!(linked.wait_timeout(LONG), Some(ExitReason::Linked { .. })));
        assert_eq!(runtime.statistics().processes.live, 0);
    });
}

#[test]
fn a_hand_written_parent_can_bind_in_its_start_and_is_notified_in_its_steps() {
    with_runtime(|runtime| {
        let (sender, receiver) = channel();
        let parent = act(move |events, out| {
            while let Some(event) = events.next() {
                if let Event::Signal(Signal::Down(down)) = event {
                    let _over = sender.send(down.reason);
                }
            }
            out.idle();
            Ok(())
        })
        .init(|_| {
            partner::spawn(Bound::Monitored, Begin::Run).map(drop).map_err(|error| InitError::Failed(error.into()))
        });
        let pid = runtime.spawn_process(parent).start().unwrap();
        assert_eq!(receiver.recv_timeout(LONG).unwrap(), ExitReason::Normal);
        assert_eq!(pid.bindings().wait().unwrap().count(), 0);
    });
}

#[test]
fn a_message_and_a_failure_of_a_child_arrive_in_that_order() {
    #[process]
    struct Child(Address<Partner>);

    #[process]
    impl Child {
        #[entry]
        async fn run(&mut self) -> Result<(), String> {
            self.0.say("last words").send().map_err(|error| error.to_string())?;
            Err("and over".to_string())
        }
    }

    with_runtime(|runtime| {
        let (parent, reports) = parent(runtime);
        for _ in 0..100 {
            let child = runtime.spawn(Child(parent));
            let child = child.run().unwrap().pid();
            parent.watch(child).wait().unwrap();
            assert_eq!(reports.next(), Report::Word("last words"));
            assert_eq!(reports.down().pid, child);
        }
    });
}
