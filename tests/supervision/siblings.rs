//! The address of one child in the state of another.

use super::*;
use postroom::supervision::ChildError;
use postroom::{ChildSpawn, Pool, SpawnError};

/// A child that sends what it gets on to another one.
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

/// The child after it in the order has an address too. Would fail if the closure were given the PID of one life, or an address
/// that it has to ask for again.
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
fn a_tree_below_is_given_the_address_of_its_sibling() {
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

/// What the closure was told it passes on, and that is why the child does not start.
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
        assert_eq!(wrong.to_string(), "the child `a` is a `Worker`, not a `Relay`");
        assert!(matches!(&unknown, ChildError::Unknown { count: 2, .. }), "{unknown}");
        let last = tree.children().swap_remove(1).last.unwrap().reason.to_string();
        assert!(last.contains("there is no child `b`; there are `a`, `relay`"), "{last}");
    });
}

#[test]
fn what_is_not_the_child_of_a_supervisor_has_no_siblings() {
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
