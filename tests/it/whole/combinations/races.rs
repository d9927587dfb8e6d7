//! Exits that race with other events.

use super::*;
use postroom_tests::HOUR;

/// The supervisor's PID may still be routable after the supervisor has begun to stop its children. If a child is added
/// then, it must not hang.
#[test]
fn a_child_that_is_added_while_its_supervisor_ends_is_refused_or_ends_with_it_and_no_caller_waits_for_ever() {
    let ends: [fn(Pid) -> bool; 3] = [Pid::kill, Pid::stop, |pid| pid.cancel("enough")];
    watched(move || {
        let runtime = builder().build().unwrap();
        for round in 0..600 {
            let tree = Supervisor::dynamic().spawn(&runtime).unwrap();
            let end = ends[round % 3];
            let adders: Vec<_> = (0..2)
                .map(|who| {
                    let tree = tree.clone();
                    thread::spawn(move || {
                        for number in 0.. {
                            let child =
                                Child::new(format!("{who} {number}"), |spawn| spawn.of(Node::default()).serve());
                            match tree.start(child) {
                                Ok(node) => {
                                    let answer = node.add(1).timeout(Duration::from_secs(20)).wait();
                                    assert_ne!(answer, Err(CallError::Timeout), "nobody serves it, and nobody says so");
                                }
                                Err(_) => return,
                            }
                        }
                    })
                })
                .collect();
            thread::sleep(Duration::from_micros(round as u64 % 50 * 10));
            let over = tree.join();
            end(tree.pid());
            adders.into_iter().for_each(|adder| adder.join().unwrap());
            over.wait();
        }
        until(|| runtime.statistics().processes.live == 0);
    });
}

/// Whatever ends a child, its name is free before the supervisor is notified of the exit.
#[test]
fn a_restarted_child_always_gets_its_name_back() {
    with_runtime(|runtime| {
        let named = |name: &'static str| Child::new(name, move |spawn| spawn.of(Node::default()).named(name).serve());
        for supervisor in [Supervisor::one_for_one(), Supervisor::one_for_all(), Supervisor::rest_for_one()] {
            let tree = eager(supervisor).add(named("x").keep_messages()).add(named("y")).add(named("z"));
            let tree = tree.spawn(runtime).unwrap();
            let ends: [fn(Pid) -> bool; 3] = [Pid::kill, Pid::stop, |pid| pid.cancel("enough")];
            for round in 0..300 {
                let name = ["x", "y", "z"][round % 3];
                let pid = tree.child_pid(name).unwrap();
                let before = pid.info().map(|info| info.pid);
                ends[round / 3 % 3](pid);
                if round % 7 == 0 {
                    until(|| pid.info().is_some_and(|info| Some(info.pid) != before));
                }
            }
            until(|| tree.children().iter().all(|child| child.state == postroom::supervision::ChildState::Running));
            for child in tree.children() {
                let last = child.last.as_ref().map(|last| last.to_string()).unwrap_or_default();
                assert!(!last.contains("name"), "{tree}");
                until(|| {
                    runtime.whereis(&child.name) == tree.child_pid(&child.name).unwrap().info().map(|info| info.pid)
                });
            }
            let end = tree.join();
            tree.stop();
            end.wait();
            assert_eq!(runtime.statistics().directory.names, 0);
        }
    });
}

/// A killed supervisor counts as alive until its children have exited. Otherwise its successor would find the
/// children's names, and files, in use, and fail too.
#[test]
fn a_supervisor_that_is_killed_has_ended_when_its_children_have() {
    with_runtime(|runtime| {
        let log = Log::new();
        let own = log.clone();
        let tree = Supervisor::one_for_one().intensity(1, Duration::MAX).backoff(Backoff::none());
        let tree = tree.child("sub", move |spawn| {
            let own = own.clone();
            let child = move |spawn: postroom::ChildSpawn| {
                let node = spawn.of(Node::default()).named("only").serve();
                own.add(node.as_ref().map(|_| ()).map_err(ToString::to_string));
                node
            };
            // This supervisor has a nested supervisor, which it kills when it is killed itself.
            Supervisor::one_for_one()
                .child("subsub", move |spawn| {
                    Supervisor::one_for_one().intensity(0, Duration::MAX).child("node", child.clone()).spawn(spawn)
                })
                .spawn(spawn)
        });
        let tree = tree.spawn(runtime).unwrap();
        let sub = tree.tree("sub").unwrap();
        let node: Address<Node> = sub.tree("subsub").unwrap().child("node").unwrap();
        let (here, gate) = (Gate::new(), Gate::new());
        node.block(here.clone(), gate.clone()).send().unwrap();
        here.pass();
        let (over, below) = (sub.pid().join(), node.pid().join());
        sub.pid().kill();
        assert!(sub.pid().is_alive(), "its child is in a step");
        gate.open();
        assert_eq!((below.wait(), over.wait()), (ExitReason::Killed, ExitReason::Killed));
        until(|| node.add(1).wait() == Ok(1));
        assert_eq!((log.all(), tree.children()[0].restarts), (vec![Ok(()), Ok(())], 1));
    });
}

#[test]
fn shutdown_ends_trees_and_pools_with_suspended_senders() {
    watched(|| {
        for workers in [1, 2, 16] {
            let runtime = builder().workers(workers).build().unwrap();
            let gate = Gate::new();
            let log = Log::new();
            let own = log.clone();
            let tree = Supervisor::one_for_all()
                .child("sub", move |spawn| {
                    let sink = node(&own).keep_messages();
                    Supervisor::one_for_one().add(sink).spawn(spawn)
                })
                .child("pool", |spawn| Pool::fixed(2).queue(4).spawn(spawn, |spawn| spawn.of(Node::default()).serve()))
                .spawn(&runtime)
                .unwrap();
            let sink: Address<Node> = tree.tree("sub").unwrap().child("node").unwrap();
            let pool: Address<Node> = tree.child("pool").unwrap();
            sink.pass(gate.clone()).send().unwrap();
            gate.wait_for_arrival();
            for _ in 0..4 {
                runtime.spawn(Flood { to: vec![sink, pool] }).run().unwrap();
            }
            until(|| sink.pid().info().is_some_and(|info| info.mailbox > 1_000));
            let opener = gate.clone();
            let closing = thread::spawn(move || runtime.shutdown_within(HOUR).unwrap());
            thread::sleep(Duration::from_millis(5));
            opener.open();
            let report = closing.join().unwrap();
            assert!(!report.was_forced(), "{report}");
        }
    });
}

#[process]
struct Flood {
    to: Vec<Address<Node>>,
}

#[process]
impl Flood {
    #[entry]
    async fn run(&mut self, ctx: &mut Context<Self>) {
        for number in 0u64.. {
            for to in &self.to {
                let _full = to.add(number).send();
            }
            if ctx.is_cancelled() {
                return;
            }
            ctx.sleep(Duration::from_nanos(1)).await;
        }
    }
}

/// Checks the same as `a_supervisor_that_is_killed_has_ended_when_its_children_have`, but for a pool.
#[test]
fn a_pool_that_is_killed_has_ended_when_its_members_have() {
    with_runtime(|runtime| {
        let tree = Supervisor::one_for_one().intensity(1, Duration::MAX).backoff(Backoff::none());
        let tree = tree.child("pool", |spawn| {
            Pool::fixed(1).spawn(spawn, |spawn| spawn.of(Node::default()).named("only").serve())
        });
        let tree = tree.spawn(runtime).unwrap();
        let pool: Address<Node> = tree.child("pool").unwrap();
        let (here, gate, member) = (Gate::new(), Gate::new(), runtime.whereis("only").unwrap());
        pool.block(here.clone(), gate.clone()).send().unwrap();
        here.pass();
        let (over, below) = (pool.pid().join(), member.join());
        assert!(pool.pid().kill());
        assert!(pool.pid().is_alive(), "its member is in a step");
        gate.open();
        assert_eq!((below.wait(), over.wait()), (ExitReason::Killed, ExitReason::Killed));
        until(|| pool.add(1).wait() == Ok(1));
        assert_eq!(tree.children()[0].restarts, 1);
    });
}

/// Nine nested supervisors, each with a child that keeps messages and a pool, all ended at random.
#[test]
fn a_deep_tree_survives_a_storm_of_exits_and_shuts_down_cleanly() {
    for workers in [1, 2, 64] {
        watched(move || {
            let runtime = builder().workers(workers).build().unwrap();
            fn deep(depth: usize) -> Supervisor {
                let supervisor = eager(match depth % 3 {
                    0 => Supervisor::one_for_one(),
                    1 => Supervisor::one_for_all(),
                    _ => Supervisor::rest_for_one(),
                });
                let supervisor =
                    supervisor.add(Child::new("node", |spawn| spawn.of(Node::default()).serve()).keep_messages());
                let supervisor = supervisor.child("pool", |spawn| {
                    Pool::elastic(0..=2).spawn(spawn, |spawn| spawn.of(Node::default()).serve())
                });
                if depth == 0 { supervisor } else { supervisor.child("sub", move |spawn| deep(depth - 1).spawn(spawn)) }
            }
            let tree = deep(8).spawn(&runtime).unwrap();
            let mut trees = vec![tree.clone()];
            for _ in 0..8 {
                let sub = trees.last().unwrap().tree("sub").unwrap();
                trees.push(sub);
            }
            let over = Arc::new(AtomicBool::new(false));
            let threads: Vec<_> = (0..3)
                .map(|who| {
                    let (trees, over) = (trees.clone(), over.clone());
                    thread::spawn(move || {
                        let mut seed = who as u64 * 77 + 1;
                        while !over.load(SeqCst) {
                            seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                            let dice = (seed >> 33) as usize;
                            let tree = &trees[dice % trees.len()];
                            let child = ["node", "pool", "sub"][dice / 16 % 3];
                            let Ok(pid) = tree.child_pid(child) else { continue };
                            match dice / 64 % 6 {
                                0 => drop(pid.kill()),
                                1 => drop(pid.stop()),
                                2 => drop(pid.cancel("enough")),
                                3 => drop(tree.restart_child(child)),
                                4 => {
                                    if let Ok(node) = tree.child::<Node>(child) {
                                        let _ = node.crash().send();
                                    }
                                }
                                _ => {
                                    if let Ok(node) = tree.child::<Node>(child) {
                                        let answer = node.add(1).timeout(Duration::from_secs(30)).wait();
                                        assert_ne!(answer, Err(postroom::CallError::Timeout), "{tree}");
                                    }
                                }
                            }
                        }
                    })
                })
                .collect();
            thread::sleep(Duration::from_millis(400));
            over.store(true, SeqCst);
            threads.into_iter().for_each(|thread| thread.join().unwrap());
            until(|| trees.iter().all(|tree| tree.child::<Node>("node").is_ok_and(|node| node.add(1).wait().is_ok())));
            until(|| trees.iter().all(|tree| tree.child::<Node>("pool").is_ok_and(|node| node.add(1).wait().is_ok())));
            let report = runtime.shutdown_within(HOUR).unwrap();
            assert!(!report.was_forced(), "{report}");
        });
    }
}

/// The supervisor waits for its child, whose step does not return. The shutdown returns all the same.
#[test]
fn a_supervisor_that_is_killed_and_waits_for_a_stuck_child_holds_up_no_shutdown() {
    watched(|| {
        let runtime = builder().shutdown_deadline(Duration::from_millis(100)).build().unwrap();
        let tree = Supervisor::one_for_one().add(node(&Log::new())).spawn(&runtime).unwrap();
        let node: Address<Node> = tree.child("node").unwrap();
        let (here, gate) = (Gate::new(), Gate::new());
        let stuck = node.pid().info().unwrap().pid;
        node.block(here.clone(), gate.clone()).send().unwrap();
        here.pass();
        let end = tree.join();
        assert!(tree.pid().kill());
        let report = runtime.shutdown().unwrap();
        assert_eq!(report.stuck.iter().map(|left| left.pid).collect::<Vec<_>>(), [stuck], "{report}");
        assert_eq!(end.wait(), ExitReason::Killed);
        gate.open();
    });
}
