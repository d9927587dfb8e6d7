//! The address of one child in the state of another.

use super::*;
use postroom::supervision::ChildError;
use postroom::{ChildSpawn, ProcessError, SpawnError};
use postroom_tests::act;

/// A protocol that several kinds of processes implement.
#[protocol]
trait Doubles {
    fn double(&self, amount: u64) -> u64;
}

/// A process that implements the protocol in an async entry.
#[process]
struct Doubler;

#[process(protocols(Doubles))]
impl Doubler {
    #[entry]
    async fn run(&mut self, ctx: &mut Context<Self>) {
        ctx.serve(self).await;
    }
}

#[process]
impl Doubles for Doubler {
    fn double(&self, amount: u64) -> u64 {
        2 * amount
    }
}

/// A child that calls another one. It knows only the other's protocol.
#[process]
struct Asks {
    whom: Address<dyn Doubles>,
}

#[process]
impl Asks {
    #[entry]
    fn serve(&mut self) {}

    #[message]
    async fn ask(&mut self, amount: u64) -> Result<u64, CallError> {
        self.whom.double(amount).await
    }
}

/// A child that forwards its messages to another one.
#[process]
struct Relay {
    to: Address<Worker>,
}

#[process]
impl Relay {
    #[entry]
    fn serve(&mut self) {}

    #[message]
    async fn add(&mut self, amount: u64) -> Result<u64, CallError> {
        self.to.add(amount).wait_for_restart().await
    }

    #[message]
    fn to(&self) -> Address<Worker> {
        self.to
    }
}

/// A child can also get the address of a later child. Catches: a closure that gets the PID of one incarnation, and an
/// address that becomes stale.
#[test]
fn a_child_is_given_the_address_of_its_sibling_which_outlives_restarts_of_both() {
    soon(|| {
        let (runtime, log) = (runtime(), Log::new());
        let relay = |spawn: ChildSpawn| {
            let to = spawn.sibling("a")?;
            spawn.of(Relay { to }).serve()
        };
        let tree = eager(Supervisor::one_for_one())
            .child("before", relay)
            .child("a", worker("a", &log))
            .child("after", relay)
            .spawn(&runtime)
            .unwrap();
        let a: Address<Worker> = tree.child("a").unwrap();
        for name in ["before", "after"] {
            let relay: Address<Relay> = tree.child(name).unwrap();
            assert_eq!((relay.to().wait(), relay.add(0).wait()), (Ok(a), Ok(0)));
            let life = relay.pid().join();
            relay.pid().kill();
            life.wait();
            crash(a);
            assert_eq!(relay.add(3).wait_for_restart().wait(), Ok(3), "{name}");
            assert_eq!(relay.to().wait(), Ok(a));
            crash(a);
            is_back(a);
        }
    });
}

#[test]
fn a_nested_tree_gets_the_address_of_its_sibling() {
    soon(|| {
        let (runtime, log) = (runtime(), Log::new());
        let tree = Supervisor::one_for_one()
            .child("a", worker("a", &log))
            .child("relays", |spawn| {
                let to = spawn.sibling("a")?;
                let relays = Supervisor::one_for_one().child("only", move |spawn| spawn.of(Relay { to }).serve());
                relays.spawn(spawn)
            })
            .spawn(&runtime)
            .unwrap();
        let relay: Address<Relay> = tree.tree("relays").unwrap().child("only").unwrap();
        assert_eq!(relay.add(7).wait(), Ok(7));
    });
}

/// The closure fails with the error that it gets, so the child does not start.
#[test]
fn a_sibling_that_there_is_not_is_an_error_of_the_start() {
    soon(|| {
        let (runtime, log) = (runtime(), Log::new());
        let told = Log::new();
        let asks = |told: Log<ChildError>| {
            move |spawn: ChildSpawn| {
                told.add(spawn.sibling::<Relay>("a").unwrap_err());
                let to = spawn.sibling("b").inspect_err(|error| told.add(error.clone()))?;
                spawn.of(Relay { to }).serve()
            }
        };
        let never = Supervisor::one_for_one().backoff(Backoff::constant(Duration::MAX));
        let tree = never.child("a", worker("a", &log)).child("relay", asks(told.clone())).spawn(&runtime).unwrap();
        let [wrong, unknown] = told.all().try_into().unwrap();
        assert_eq!(wrong.to_string(), "the child `a` has type `Worker`, not `Relay`");
        assert!(matches!(&unknown, ChildError::Unknown { count: 2, .. }), "{unknown}");
        let last = tree.children().swap_remove(1).last.unwrap().reason.to_string();
        assert!(last.contains("there is no child `b`; there are `a`, `relay`"), "{last}");
    });
}

#[test]
fn a_process_without_a_supervisor_has_no_siblings() {
    soon(|| {
        let (runtime, told) = (runtime(), Log::new());
        let log = told.clone();
        let pool = Pool::fixed(1).spawn(&runtime, move |spawn| {
            log.add(spawn.sibling::<Worker>("a").unwrap_err());
            Err::<Address<Worker>, _>(SpawnError::Used)
        });
        drop(pool);
        assert!(matches!(&told.all()[0], ChildError::Alone { name } if name == "a"));
    });
}

/// Catches: an address that is refused because the sibling has not been started yet. The supervisor starts its children
/// in order, so it would retry until it gives up.
#[test]
fn a_sibling_that_has_not_been_started_yet_is_known_by_its_protocol() {
    soon(|| {
        let runtime = runtime();
        let asks = |of: &'static str| {
            move |spawn: ChildSpawn| {
                let whom = spawn.sibling(of)?;
                spawn.of(Asks { whom }).serve()
            }
        };
        let tree = Supervisor::one_for_one()
            .child("asks one", asks("one"))
            .child("asks many", asks("many"))
            .child("one", |spawn| spawn.of(Doubler).run())
            .child("many", |spawn| Pool::fixed(2).spawn(spawn, |spawn| spawn.of(Doubler).run()))
            .spawn(&runtime)
            .unwrap();
        for name in ["asks one", "asks many"] {
            let asks: Address<Asks> = tree.child(name).unwrap();
            assert_eq!(asks.ask(4).wait(), Ok(8), "{name}");
        }
        assert!(tree.children().iter().all(|info| info.restarts == 0));
    });
}

/// The type of a hand-written process is not known before it runs, but its PID is. Pools of such processes can be
/// children, too.
#[test]
fn a_hand_written_sibling_is_known_by_its_pid_before_it_starts() {
    soon(|| {
        let (runtime, told) = (runtime(), Log::new());
        let (errors, got) = (told.clone(), Log::new());
        let (pids, echo) = (Log::new(), got.clone());
        let known = pids.clone();
        let tree = Supervisor::one_for_one()
            .child("first", move |spawn| {
                errors.add(spawn.sibling::<dyn Doubles>("echo").unwrap_err().to_string());
                known.add(["echo", "pool"].map(|name| spawn.sibling_pid(name).unwrap()));
                assert!(spawn.sibling_pid("nobody").is_err());
                spawn.of(Doubler).run()
            })
            .child("echo", by_hand(echo.clone()))
            .child("pool", move |spawn| Pool::fixed(1).spawn(spawn, by_hand(echo.clone())))
            .spawn(&runtime)
            .unwrap();
        let error = told.all().remove(0);
        assert!(error.contains("sibling_pid"), "{error}");
        for pid in pids.all().remove(0) {
            runtime.send(pid, 1_u64).unwrap();
        }
        eventually(|| got.all().len() == 2);
        assert!(tree.children().iter().all(|info| info.restarts == 0));
    });
}

/// Returns the factory of a hand-written process that logs each message.
fn by_hand(got: Log<()>) -> impl FnMut(ChildSpawn) -> Result<Pid, SpawnError> + Send + 'static {
    move |spawn| {
        let got = got.clone();
        let notes = act(move |events, out| {
            while let Some(event) = events.next() {
                if let Event::Message(_) = event {
                    got.add(());
                }
            }
            out.idle();
            Ok::<_, ProcessError>(())
        });
        spawn.process(notes).start()
    }
}

/// Catches: a supervisor that starts only some of its children in the spawn, and the others when it runs.
#[test]
fn all_children_have_been_started_when_the_spawn_returns() {
    soon(|| {
        // On a paused runtime no process runs.
        let runtime = Runtime::builder().workers(1).paused().build().unwrap();
        for strategy in [Supervisor::one_for_one, Supervisor::one_for_all, Supervisor::rest_for_one] {
            let log = Log::new();
            let all = (0..200).fold(strategy(), |tree, child| tree.child(child.to_string(), worker("child", &log)));
            let tree = all.spawn(&runtime).unwrap();
            let states: Vec<_> = tree.children().iter().map(|child| child.state).collect();
            assert_eq!(states, [postroom::supervision::ChildState::Running; 200]);
        }
    });
}
