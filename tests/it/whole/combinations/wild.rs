//! Extreme misuse: user code that panics, calls from outside of processes, and PIDs of the wrong kind.

use super::*;
use postroom::CallError;
use postroom::supervision::ChildError;
use postroom_tests::partner::Partner;

/// A message whose clone panics.
struct Unique;

impl Clone for Unique {
    fn clone(&self) -> Self {
        panic!("there is only one")
    }
}

#[test]
fn a_clone_that_panics_is_the_senders_panic_and_groups_topics_and_pools_still_work() {
    #[process]
    struct Hears;
    #[process]
    impl Hears {
        #[entry]
        fn serve(&mut self) {}
        #[message(Unique)]
        fn unique(&mut self, _unique: Unique) {}
        #[message]
        fn ping(&mut self) {}
    }
    with_runtime(|runtime| {
        let members: Vec<_> = (0..3).map(|_| runtime.spawn(Hears).serve().unwrap()).collect();
        let (group, topic) = (runtime.group("all"), runtime.topic::<Unique>("rare"));
        for member in &members {
            group.join(*member).unwrap();
            topic.subscribe(*member).unwrap();
        }
        let panics = |act: &dyn Fn()| std::panic::catch_unwind(std::panic::AssertUnwindSafe(act)).is_err();
        assert!(panics(&|| _ = group.broadcast(Unique)));
        assert!(panics(&|| _ = topic.publish(Unique)));
        let pool = Pool::fixed(3).broadcast::<Unique>().spawn(runtime, |spawn| spawn.of(Hears).serve()).unwrap();
        let sent = panics(&|| drop(runtime.send(pool.pid(), Unique)));
        assert!(members.iter().all(|member| member.ping().wait().is_ok()));
        assert_eq!((group.len(), pool.address().ping().wait()), (3, Ok(())), "sent: {sent}");
        assert_eq!(pool.members().len(), 3);
    });
}

#[test]
fn a_key_that_panics_loses_its_message_and_not_its_pool() {
    with_runtime(|runtime| {
        let pool = Pool::by_key(|add: &NodeAdd| {
            assert!(add.number != 13, "unlucky");
            add.number % 2
        });
        let pool = pool.spawn(runtime, |spawn, _key: &u64| spawn.of(Node::default()).serve()).unwrap();
        let address: Address<Node> = pool.address();
        assert_eq!(address.add(1).wait(), Ok(1));
        let unlucky = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            address.add(13).timeout(Duration::from_secs(20)).wait()
        }));
        assert!(!matches!(unlucky, Ok(Ok(_)) | Ok(Err(CallError::Timeout))), "{unlucky:?}");
        assert_eq!((address.add(2).wait(), address.add(3).wait()), (Ok(2), Ok(3)));
    });
}

/// A value that runs a closure in its destructor.
struct Last(Option<Box<dyn FnOnce() + Send>>);

impl Drop for Last {
    fn drop(&mut self) {
        if let Some(act) = self.0.take() {
            act();
        }
    }
}

#[test]
fn trees_pools_names_groups_and_timers_from_destructors_of_processes_closures_and_messages() {
    #[process]
    struct Holds {
        #[allow(dead_code)]
        last: Last,
    }
    #[process]
    impl Holds {
        #[entry]
        fn serve(&mut self) {}
        #[message]
        fn take(&mut self, _last: Last) {}
        #[message]
        fn crash(&mut self) {
            panic!("with state")
        }
    }
    with_runtime(|runtime| {
        let host = runtime.host();
        let log = Log::new();
        let act = |name: &'static str| {
            let log = log.clone();
            Last(Some(Box::new(move || {
                let tree = Supervisor::dynamic().spawn(host).unwrap();
                let added: Address<Node> =
                    tree.start(Child::new("node", |spawn| spawn.of(Node::default()).serve())).unwrap();
                let pool = Pool::elastic(0..=1).spawn(host, |spawn| spawn.of(Node::default()).serve()).unwrap();
                host.group("last").join(added).unwrap();
                drop(host.register_name(name, added.pid()));
                // Some of these closures run inside a process, which can have ties, and some run outside of processes.
                let _bound = (added.pid().monitor(), added.pid().link());
                drop(added.add(7).send_after(Duration::from_millis(1)));
                assert!(pool.address().add(8).send().is_ok());
                pool.stop();
                tree.stop();
                log.add(name);
            })))
        };
        let nothing = || Last(None);
        let holds = runtime.spawn(Holds { last: act("killed") }).serve().unwrap();
        holds.pid().kill();
        runtime.spawn(Holds { last: act("crashed") }).serve().unwrap().crash().send().unwrap();
        let takes = runtime.spawn(Holds { last: nothing() }).serve().unwrap();
        takes.take(act("message")).wait().unwrap();
        takes.pid().kill();
        takes.pid().join().wait();
        assert!(takes.take(act("refused")).send().is_err());
        let mut held = Some(act("closure"));
        let tree = Supervisor::one_for_one().child("node", move |spawn| {
            let _held = &mut held;
            spawn.of(Node::default()).serve()
        });
        let tree = tree.spawn(runtime).unwrap();
        tree.stop();
        tree.join().wait();
        drop(tree);
        until(|| log.len() == 5);
        until(|| runtime.statistics().processes.live == 0);
        // Timers whose receiver has exited still fire once.
        until(|| runtime.statistics().timers == 0);
        let statistics = runtime.statistics();
        assert_eq!((statistics.directory.names, statistics.directory.memberships), (0, 0));
    });
}

#[test]
fn upgrades_of_pools_supervisors_and_their_members_by_whatever_pid_are_typed_answers() {
    #[process]
    struct After;
    #[process]
    impl After {
        #[entry]
        fn serve(&mut self) {}
        #[message(NodeAdd)]
        fn add(&mut self, message: NodeAdd) -> u64 {
            message.number * 10
        }
    }
    with_runtime(|runtime| {
        let tree = Supervisor::one_for_one()
            .child("node", |spawn| spawn.of(Node::default()).serve())
            .child("pool", |spawn| Pool::fixed(2).spawn(spawn, |spawn| spawn.of(Node::default()).serve()))
            .spawn(runtime)
            .unwrap();
        let pool: Address<Node> = tree.child("pool").unwrap();
        for pid in [tree.pid(), pool.pid()] {
            let refused = pid.upgrade(|_: Node| After).wait();
            assert!(refused.is_err(), "{refused:?}");
        }
        assert_eq!(pool.add(1).wait(), Ok(1));
        // Upgrade one member of another pool.
        let own = Pool::fixed(2).round_robin().spawn(runtime, |spawn| spawn.of(Node::default()).serve()).unwrap();
        own.members()[0].upgrade(|_: Node| After).wait().unwrap();
        let mut answers = [own.address().add(1).wait().unwrap(), own.address().add(1).wait().unwrap()];
        answers.sort();
        assert_eq!(answers, [1, 10]);
        assert!(tree.pid().is_alive());
    });
}

#[test]
fn a_cycle_through_a_name_is_found_and_one_through_a_pool_ends_at_its_deadline() {
    with_runtime(|runtime| {
        let by_name = runtime.named_address::<Node>("it").unwrap();
        runtime.spawn(Node::default()).named("it").serve().unwrap();
        let Err(CallError::Failed(text)) = by_name.around(vec![by_name]).wait() else { panic!("it came through") };
        assert!(text.contains("wait for itself") && text.contains("around"), "{text}");
        // The pool has a single member. Of several members, one might be free, or could be started.
        let pool = Pool::fixed(1).spawn(runtime, |spawn| spawn.of(Node::default()).serve()).unwrap();
        let address = pool.address();
        let answer = address.add_at(address, Duration::from_millis(50)).wait();
        assert!(matches!(&answer, Err(CallError::Failed(text)) if text.contains("deadline")), "{answer:?}");
        assert_eq!(address.add(1).wait(), Ok(1));
    });
}

/// The sibling starts only after this child, so the child's call would wait for the child itself.
#[test]
fn a_child_that_calls_a_later_sibling_in_its_start_times_out_and_is_retried() {
    #[process]
    struct Early {
        sibling: Arc<std::sync::Mutex<Option<Address<Node>>>>,
    }
    #[process]
    impl Early {
        #[entry]
        fn serve(&mut self) -> Result<(), String> {
            let sibling = *self.sibling.lock().unwrap();
            match sibling {
                Some(sibling) => sibling
                    .add(1)
                    .timeout(Duration::from_millis(50))
                    .wait()
                    .map(drop)
                    .map_err(|error| error.to_string()),
                None => Ok(()),
            }
        }
    }
    with_runtime(|runtime| {
        let sibling = Arc::new(std::sync::Mutex::new(None));
        let own = sibling.clone();
        let tree = Supervisor::one_for_all()
            .intensity(3, Duration::MAX)
            .backoff(Backoff::none())
            .child("early", move |spawn| spawn.of(Early { sibling: own.clone() }).serve())
            .child("node", |spawn| spawn.of(Node::default()).serve());
        let tree = tree.spawn(runtime).unwrap();
        let node: Address<Node> = tree.child("node").unwrap();
        *sibling.lock().unwrap() = Some(node);
        let end = tree.join();
        crash(node);
        assert!(matches!(end.wait(), ExitReason::Error(_)));
    });
}

#[test]
fn children_beyond_a_limit_fail_to_start_until_there_is_room() {
    watched(|| {
        let runtime = builder().process_limit(3).build().unwrap();
        let guest = runtime.spawn(Partner::default()).serve().unwrap();
        let tree = eager(Supervisor::one_for_one())
            .backoff(Backoff::constant(Duration::from_millis(1)))
            .child("a", |spawn| spawn.of(Node::default()).serve())
            .child("b", |spawn| spawn.of(Node::default()).serve())
            .spawn(&runtime)
            .unwrap();
        assert!(matches!(tree.child::<Partner>("a"), Err(ChildError::Type { .. })));
        let b: Address<Node> = tree.child("b").unwrap();
        assert!(b.add(1).timeout(Duration::from_millis(20)).wait().is_err());
        guest.pid().kill();
        until(|| b.add(2).wait() == Ok(2));
        assert!(matches!(Supervisor::dynamic().spawn(&runtime), Err(postroom::supervision::SupervisorError::Spawn(_))));
    });
}
