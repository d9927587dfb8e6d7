//! Supervision trees, and features that use the addresses of their children.

use super::*;
use postroom::CallError;
use postroom::test::Clock;
use postroom_tests::HOUR;
use postroom_tests::partner::{Partner, fell_with};

#[test]
fn calls_around_the_children_of_a_supervisor_are_found_to_be_a_cycle_through_their_addresses() {
    for workers in [1, 2] {
        watched(move || {
            let runtime = builder().workers(workers).build().unwrap();
            let mut supervisor = Supervisor::one_for_one();
            for name in ["a", "b", "c"] {
                supervisor = supervisor.child(name, |spawn| spawn.of(Node::default()).serve());
            }
            let tree = supervisor.spawn(&runtime).unwrap();
            let [a, b, c] = ["a", "b", "c"].map(|name| tree.child::<Node>(name).unwrap());
            assert_eq!(a.around(vec![b, c]).wait(), Ok(2));
            let Err(CallError::Failed(text)) = a.around(vec![b, c, a]).wait() else { panic!("it came through") };
            assert!(text.contains("around"), "{text}");
            // In this call, a process calls itself by its own address.
            assert!(a.around(vec![a]).wait().is_err());
        });
    }
}

#[test]
fn a_hard_bound_and_kept_messages_lose_nothing_over_restarts() {
    for overflow in [Overflow::Refuse, Overflow::Wait] {
        with_runtime(move |runtime| {
            let log = Log::new();
            let own = log.clone();
            let child = Child::new("node", move |spawn| {
                spawn.of(Node { seen: own.clone() }).mailbox(Bound::Hard(4, overflow)).serve()
            });
            let tree = eager(Supervisor::one_for_one()).add(child.keep_at_most(8)).spawn(runtime).unwrap();
            let node: Address<Node> = tree.child("node").unwrap();
            let over = Arc::new(AtomicBool::new(false));
            let killer = {
                let over = over.clone();
                thread::spawn(move || {
                    let mut kills = 0;
                    while !over.load(SeqCst) || kills < 20 {
                        kills += usize::from(node.pid().kill());
                        thread::sleep(Duration::from_micros(300));
                    }
                })
            };
            for number in 0..3_000 {
                node.add(number).send_wait().unwrap();
            }
            over.store(true, SeqCst);
            killer.join().unwrap();
            until(|| log.len() >= 3_000);
            let all = log.all();
            let wrong = all.iter().zip(0..).position(|(seen, expected)| *seen != expected);
            assert_eq!(
                (wrong.map(|at| all[at - 2..].iter().take(30).collect::<Vec<_>>()), all.len()),
                (None, 3_000),
                "{overflow:?}"
            );
        });
    }
}

#[test]
fn a_link_to_an_address_of_a_child_is_one_to_the_process_that_serves_there_then() {
    with_runtime(|runtime| {
        let log = Log::new();
        let tree = eager(Supervisor::one_for_one()).add(node(&log)).spawn(runtime).unwrap();
        let node: Address<Node> = tree.child("node").unwrap();
        let partner = runtime.spawn(Partner::default()).serve().unwrap();
        partner.link(node.pid()).wait().unwrap();
        let served = node.pid().info().unwrap().pid;
        let end = partner.pid().join();
        crash(node);
        let reason = end.wait();
        assert!(fell_with(&reason, served), "{reason} of {served}");
        until(|| node.add(1).wait() == Ok(1));
        // In the other direction, the child fails with its link partner, and is restarted.
        let partner = runtime.spawn(Partner::default()).serve().unwrap();
        partner.link(node.pid()).wait().unwrap();
        let life = node.pid().join();
        partner.fail().send().unwrap();
        assert!(fell_with(&life.wait(), partner.pid()));
        until(|| node.add(1).wait() == Ok(1));
    });
}

#[test]
fn a_monitor_of_an_address_by_name_reports_the_exit_of_its_holder() {
    with_runtime(|runtime| {
        let by_name = runtime.named_address::<Node>("here").unwrap();
        let (watcher, reports) = Partner::reporting();
        let watcher = runtime.spawn(watcher).serve().unwrap();
        watcher.watch(by_name.pid()).wait().unwrap();
        assert_eq!(reports.down().reason, ExitReason::NoProcess);
        let holder = runtime.spawn(Node::default()).named("here").serve().unwrap();
        let monitor = watcher.watch(by_name.pid()).wait().unwrap();
        holder.pid().kill();
        let down = reports.down();
        assert_eq!((down.monitor, down.reason), (monitor, ExitReason::Killed));
        assert_eq!(down.pid, holder.pid());
    });
}

#[test]
fn a_broadcast_follows_the_overflow_policy_of_each_mailbox_and_does_not_wait() {
    #[derive(Clone, Copy)]
    struct Said(u64);
    #[process]
    struct Hears(Log<u64>);
    #[process]
    impl Hears {
        #[entry]
        fn serve(&mut self) {}
        #[message(Said)]
        fn said(&mut self, said: Said) {
            self.0.add(said.0);
        }
        #[message]
        async fn pass(&mut self, gate: Gate) {
            gate.passed().await;
        }
    }
    with_runtime(|runtime| {
        let (group, gate) = (runtime.group("all"), Gate::new());
        let members: Vec<_> = [Overflow::DropOldest, Overflow::DropNewest, Overflow::Refuse, Overflow::Wait]
            .into_iter()
            .map(|overflow| {
                let log = Log::new();
                let member = runtime.spawn(Hears(log.clone())).mailbox(Bound::Hard(2, overflow)).serve().unwrap();
                group.join(member).unwrap();
                member.pass(gate.clone()).send().unwrap();
                log
            })
            .collect();
        gate.wait_for_arrivals(4);
        until(|| group.members().iter().all(|pid| pid.info().unwrap().mailbox == 0));
        let reached: Vec<usize> = (0..5).map(|number| group.broadcast(Said(number))).collect();
        // A message that a member drops is a dead letter, but has reached the member. A refused message has not.
        assert_eq!(reached, [4, 4, 2, 2, 2]);
        gate.open();
        until(|| members.iter().all(|log| log.len() == 2));
        assert_eq!(members[0].all(), [3, 4]);
        assert_eq!(members[1..].iter().map(Log::all).collect::<Vec<_>>(), [[0, 1], [0, 1], [0, 1]]);
    });
}

#[test]
fn a_supervisor_waits_by_the_manual_clock_also_below_another() {
    watched(|| {
        let clock = Clock::manual();
        let runtime = builder().clock(clock.clone()).build().unwrap();
        let tree = Supervisor::one_for_one()
            .child("sub", |spawn| {
                let patient = Supervisor::one_for_one().backoff(Backoff::constant(Duration::from_secs(60)));
                patient.child("node", |spawn| spawn.of(Node::default()).serve()).spawn(spawn)
            })
            .child("pool", |spawn| {
                Pool::elastic(0..=2)
                    .idle_after(Duration::from_secs(60))
                    .spawn(spawn, |spawn| spawn.of(Node::default()).serve())
            })
            .spawn(&runtime)
            .unwrap();
        let node: Address<Node> = tree.tree("sub").unwrap().child("node").unwrap();
        let pool: Address<Node> = tree.child("pool").unwrap();
        assert_eq!(pool.add(1).wait(), Ok(1));
        crash(node);
        runtime.until_idle().unwrap();
        let before = runtime.statistics().processes.live;
        clock.advance(Duration::from_millis(59_999)).unwrap();
        runtime.until_idle().unwrap();
        assert!(node.add(1).wait().is_err());
        clock.advance(Duration::from_millis(1)).unwrap();
        runtime.until_idle().unwrap();
        assert_eq!(node.add(2).wait(), Ok(2));
        // One process was added, and the idle member of the pool was retired.
        assert_eq!(runtime.statistics().processes.live, before);
        // Stop the tree during its back-off.
        crash(node);
        runtime.until_idle().unwrap();
        let end = tree.join();
        tree.stop();
        assert_eq!(end.wait(), ExitReason::Normal);
        assert_eq!(runtime.statistics().timers, 0);
    });
}

#[test]
fn a_process_that_is_linked_named_in_a_group_and_a_child_stays_all_that_through_an_upgrade() {
    #[process]
    struct After(Log<u64>);
    #[process]
    impl After {
        #[entry]
        fn serve(&mut self) {}
        #[message(NodeAdd)]
        fn add(&mut self, message: NodeAdd) -> u64 {
            self.0.add(message.number + 1_000);
            message.number + 1_000
        }
        #[message(NodeCrash)]
        fn crash(&mut self, _crash: NodeCrash) {
            panic!("the new one")
        }
    }
    with_runtime(|runtime| {
        let log = Log::new();
        let own = log.clone();
        let child = Child::new("node", move |spawn| spawn.of(Node { seen: own.clone() }).named("it").serve());
        let tree = eager(Supervisor::one_for_one()).add(child.keep_messages()).spawn(runtime).unwrap();
        let node: Address<Node> = tree.child("node").unwrap();
        let now = node.pid().info().unwrap().pid;
        let group = runtime.group("all");
        group.join(now).unwrap();
        let partner = runtime.spawn(Partner::default()).serve().unwrap();
        partner.link(node.pid()).wait().unwrap();
        // The upgrade is requested through the alias.
        node.pid().upgrade(|old: Node| After(old.seen)).wait().unwrap();
        assert_eq!(node.pid().info().unwrap().pid, now);
        assert_eq!((node.add(1).wait(), runtime.whereis("it"), group.len()), (Ok(1_001), Some(now), 1));
        assert_eq!(partner.pid().bindings().wait().unwrap().links, [now]);
        let end = partner.pid().join();
        crash(node);
        assert!(fell_with(&end.wait(), now));
        // The closure spawns the successor, so the successor has the original definition.
        until(|| node.add(5).wait() == Ok(5));
        assert_eq!(group.len(), 0);
    });
}

#[test]
fn the_supervisor_on_one_host_and_a_watcher_of_its_child_on_another_end_in_either_order() {
    watched(|| {
        for order in [0, 1] {
            let [one, two] = [(); 2].map(|()| builder().build().unwrap());
            let tree = eager(Supervisor::one_for_one()).add(node(&Log::new())).spawn(&one).unwrap();
            let node: Address<Node> = tree.child("node").unwrap();
            let (watcher, reports) = Partner::reporting();
            let watcher = two.spawn(watcher).serve().unwrap();
            watcher.watch(node.pid()).wait().unwrap();
            crash(node);
            assert!(matches!(reports.down().reason, ExitReason::Panic(_)));
            until(|| node.add(1).wait() == Ok(1));
            watcher.watch(node.pid()).wait().unwrap();
            if order == 0 {
                assert!(!one.shutdown_within(HOUR).unwrap().was_forced());
                assert_eq!(reports.down().reason, ExitReason::Shutdown);
                assert!(!two.shutdown_within(HOUR).unwrap().was_forced());
            } else {
                assert!(!two.shutdown_within(HOUR).unwrap().was_forced());
                crash(node);
                until(|| node.add(1).wait() == Ok(1));
                assert!(!one.shutdown_within(HOUR).unwrap().was_forced());
            }
        }
    });
}

/// If the closure's own request for a link were honoured, the supervisor and its child would fail with each other.
#[test]
fn a_child_that_is_spawned_linked_monitored_and_owned_fails_and_restarts_like_any_other() {
    with_runtime(|runtime| {
        let tree = eager(Supervisor::one_for_one())
            .child("node", |spawn| spawn.of(Node::default()).linked().monitored().owned().serve());
        // The job fails at once, before its supervisor can react.
        let tree = tree.add(Child::new("job", |spawn| spawn.of(Job).linked().run()).transient());
        let tree = tree.spawn(runtime).unwrap();
        let node: Address<Node> = tree.child("node").unwrap();
        for restarts in 1..4 {
            crash(node);
            until(|| node.add(1).wait() == Ok(1) && tree.children()[0].restarts == restarts);
        }
        assert!(tree.pid().is_alive());
        assert_eq!(tree.pid().bindings().wait().unwrap().links, []);
    });
}

#[process]
struct Job;

#[process]
impl Job {
    #[entry]
    async fn run(&mut self) -> Result<(), String> {
        static RUNS: AtomicUsize = AtomicUsize::new(0);
        if RUNS.fetch_add(1, SeqCst) < 5 { Err("not yet".to_string()) } else { Ok(()) }
    }
}

/// Like any process, the supervisor fails with its link partner, but it stops its children first.
#[test]
fn a_supervisor_fails_with_its_link_partner_after_it_has_stopped_its_children_in_order() {
    with_runtime(|runtime| {
        let log = Log::new();
        let (first, second) = (log.clone(), log.clone());
        let tree = Supervisor::one_for_one()
            .child("a", move |spawn| spawn.of(Cleans { name: "a", log: first.clone() }).run())
            .child("b", move |spawn| spawn.of(Cleans { name: "b", log: second.clone() }).run());
        let tree = tree.spawn(runtime).unwrap();
        let partner = runtime.spawn(Partner::default()).serve().unwrap();
        partner.link(tree.pid()).wait().unwrap();
        let end = tree.join();
        partner.fail().send().unwrap();
        let reason = end.wait();
        assert!(fell_with(&reason, partner.pid()), "{reason}");
        assert_eq!(log.all(), ["b", "a"]);
    });
}

/// A process that cleans up before its exit.
#[process]
struct Cleans {
    name: &'static str,
    log: Log<&'static str>,
}

#[process]
impl Cleans {
    #[entry]
    async fn run(&mut self, ctx: &mut Context<Self>) {
        ctx.cancelled().await;
        self.log.add(self.name);
    }
}
