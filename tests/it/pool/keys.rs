//! Messages that are routed by key.

use super::*;

#[process]
struct Cart {
    owner: String,
    items: Vec<u32>,
    log: Log<String>,
}

#[process]
impl Cart {
    #[entry]
    fn serve(&mut self) {}

    #[message]
    fn add(&mut self, owner: String, item: u32) -> Vec<u32> {
        assert_eq!(owner, self.owner);
        self.items.push(item);
        self.items.clone()
    }

    #[message]
    async fn hold(&mut self, owner: String, gate: Gate) {
        gate.passed().await;
        self.log.add(owner);
    }

    #[message]
    fn unkeyed(&mut self) {}
}

impl Drop for Cart {
    fn drop(&mut self) {
        self.log.add(format!("{} is gone", self.owner));
    }
}

fn carts(runtime: &Runtime, log: &Log<String>, idle: Duration) -> RunningPool<Cart> {
    let log = log.clone();
    Pool::by_key(|add: &CartAdd| add.owner.clone())
        .key(|hold: &CartHold| hold.owner.clone())
        .idle_after(idle)
        .spawn(runtime, move |spawn, owner| {
            spawn.of(Cart { owner: owner.clone(), items: vec![], log: log.clone() }).serve()
        })
        .unwrap()
}

#[test]
fn each_key_has_one_process_made_at_its_first_message() {
    with_runtime(|runtime| {
        let carts = carts(runtime, &Log::new(), LONG);
        assert_eq!(carts.members().len(), 0);
        let add = |owner: &str, item| carts.address().add(owner.to_string(), item).wait().unwrap();
        assert_eq!(add("ada", 1), [1]);
        assert_eq!(add("bob", 2), [2]);
        assert_eq!(add("ada", 3), [1, 3]);
        assert_eq!(carts.members().len(), 2);
        // One key is blocked, and the other one continues.
        let gate = Gate::new();
        carts.address().hold("ada".to_string(), gate.clone()).send().unwrap();
        (10..20).for_each(|item| carts.address().add("ada".to_string(), item).send().unwrap());
        assert_eq!(add("bob", 4), [2, 4]);
        gate.open();
        assert_eq!(add("ada", 5), [&[1, 3][..], &(10..20).collect::<Vec<_>>(), &[5]].concat(), "in their order");
    });
}

#[test]
fn an_idle_keys_process_is_retired_and_its_next_message_starts_another() {
    watched(|| {
        let (clock, runtime) = still(builder());
        let log = Log::new();
        let carts = carts(&runtime, &log, SECOND);
        let add = |item| carts.address().add("ada".to_string(), item).wait().unwrap();
        assert_eq!((add(1), add(2)), (vec![1], vec![1, 2]));
        clock.advance(SECOND / 2).unwrap();
        assert_eq!(add(3), [1, 2, 3]);
        clock.advance(SECOND / 2).unwrap();
        assert_eq!((carts.members().len(), log.len()), (1, 0), "it was idle for half as long");
        clock.advance(SECOND / 2).unwrap();
        assert_eq!((carts.members().len(), log.all()), (0, vec!["ada is gone".to_string()]));
        assert_eq!(add(4), [4]);
    });
}

#[test]
fn messages_during_the_retirement_of_a_key_go_to_the_next_process_in_order() {
    with_runtime(|runtime| {
        let carts = carts(runtime, &Log::new(), Duration::ZERO);
        let mut before = vec![];
        for item in 0..500 {
            let items = carts.address().add("ada".to_string(), item).wait().unwrap();
            // The call was handled either by the same process as the previous call, or by a new one.
            assert!(items == [item] || items == [before, vec![item]].concat(), "{items:?}");
            before = items;
        }
        until(|| carts.members().is_empty());
        assert!(carts.statistics().started > 1);
    });
}

#[test]
fn a_message_whose_type_has_no_key_is_not_understood() {
    watched(|| {
        let (builder, dead) = with_dead_letters();
        let runtime = builder.build().unwrap();
        let carts = carts(&runtime, &Log::new(), LONG);
        assert_eq!(carts.address().unkeyed().wait(), Err(CallError::Unhandled));
        carts.address().unkeyed().send().unwrap();
        until(|| dead.len() == 2);
        assert!(dead.all().iter().all(|(_, reason)| *reason == DeadLetterReason::Unhandled));
    });
}

#[test]
fn a_key_that_panics_is_contained() {
    with_runtime(|runtime| {
        let workers = Pool::by_key(|echo: &WorkerEcho| {
            assert_ne!(echo.value, 0, "no key");
            echo.value % 2
        });
        let workers = workers.spawn(runtime, |spawn, _| spawn.of(Worker::default()).serve()).unwrap();
        assert_eq!(workers.address().echo(0).wait(), Err(CallError::Unhandled));
        assert_eq!(workers.address().echo(1).wait(), Ok(1));
    });
}

/// A key that panics in all of its methods if it is 0.
#[derive(Clone, PartialEq, Eq)]
struct Spiteful(u32);

impl std::hash::Hash for Spiteful {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        assert_ne!(self.0, 0, "no hash");
        self.0.hash(state);
    }
}

impl Drop for Spiteful {
    fn drop(&mut self) {
        assert_ne!(self.0, 0, "no drop");
    }
}

/// Catches: the drop of a key during the panic of its hash, which aborts the program.
#[test]
fn a_key_that_panics_in_its_hash_and_in_its_drop_is_contained() {
    with_runtime(|runtime| {
        let hashed = Pool::fixed(3).by_hash(|echo: &WorkerEcho| Spiteful(echo.value));
        let keyed = Pool::by_key(|echo: &WorkerEcho| Spiteful(echo.value));
        let pools = [
            hashed.spawn(runtime, |spawn| spawn.of(Worker::default()).serve()).unwrap(),
            keyed.spawn(runtime, |spawn, _| spawn.of(Worker::default()).serve()).unwrap(),
        ];
        for pool in &pools {
            assert_eq!(pool.address().echo(0).wait(), Err(CallError::Unhandled));
            assert_eq!(pool.address().echo(1).wait(), Ok(1));
            assert_eq!(pool.statistics().accepted, 1);
        }
    });
}

#[test]
fn equal_keys_of_a_fixed_pool_meet_the_same_member_and_all_members_are_used() {
    with_runtime(|runtime| {
        let log: Log<(u32, u32)> = Log::new();
        let made = Arc::new(AtomicUsize::new(0));
        let (seen, counts) = (log.clone(), made.clone());
        #[process]
        struct Shard {
            number: u32,
            log: Log<(u32, u32)>,
        }
        #[process]
        impl Shard {
            #[entry]
            fn serve(&mut self) {}
            #[message]
            fn put(&mut self, key: u32) {
                self.log.add((key, self.number));
            }
        }
        let shards = Pool::fixed(4)
            .by_hash(|put: &ShardPut| put.key)
            .spawn(runtime, move |spawn| {
                spawn.of(Shard { number: counts.fetch_add(1, SeqCst) as u32, log: seen.clone() }).serve()
            })
            .unwrap();
        assert_eq!(shards.members().len(), 4);
        for key in (0..100).chain(0..100) {
            shards.address().put(key).wait().unwrap();
        }
        let mut homes: HashMap<u32, u32> = HashMap::new();
        for (key, shard) in log.all() {
            assert_eq!(*homes.entry(key).or_insert(shard), shard);
        }
        assert_eq!(homes.values().collect::<std::collections::HashSet<_>>().len(), 4);
    });
}

/// A key that sends to its own pool when it is hashed, compared or dropped, unless such a send is already in progress.
#[derive(Clone)]
struct Chatty(u32);

std::thread_local! {
    static IS_TALKING: std::cell::Cell<bool> = const { std::cell::Cell::new(false) };
}

/// The pool's address.
static TALK: std::sync::OnceLock<Address<Talker>> = std::sync::OnceLock::new();

impl Chatty {
    fn talk(&self) {
        if !IS_TALKING.replace(true) {
            if let Some(pool) = TALK.get() {
                let _sent = pool.say(self.0 + 1).send();
                let _asked = pool.say(self.0 + 2).timeout(LONG).wait();
            }
            IS_TALKING.set(false);
        }
    }
}

impl std::hash::Hash for Chatty {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.talk();
        // All keys have the same hash, so that they must be compared.
        state.write_u8(0);
    }
}

impl PartialEq for Chatty {
    fn eq(&self, other: &Self) -> bool {
        self.talk();
        self.0 == other.0
    }
}

impl Eq for Chatty {}

impl Drop for Chatty {
    fn drop(&mut self) {
        self.talk();
    }
}

#[process]
struct Talker;

#[process]
impl Talker {
    #[entry]
    fn serve(&mut self) {}

    #[message]
    fn say(&mut self, number: u32) -> u32 {
        number
    }
}

/// Catches: key code that runs while the pool holds a lock, so that it deadlocks if it uses the pool.
#[test]
fn keys_may_use_their_pool_in_all_their_code() {
    watched(|| {
        let runtime = builder().build().unwrap();
        let pool = Pool::by_key(|say: &TalkerSay| Chatty(say.number % 7))
            .spawn(&runtime, |spawn, _| spawn.of(Talker).serve())
            .unwrap();
        TALK.set(pool.address()).unwrap();
        let callers = [(); 3].map(|()| {
            let pool = pool.address();
            thread::spawn(move || {
                (0..50).for_each(|number| assert_eq!(pool.say(number).timeout(LONG).wait(), Ok(number)))
            })
        });
        callers.into_iter().for_each(|caller| caller.join().unwrap());
        assert!(pool.statistics().started <= 9, "one for each of the seven keys, and what they add to them");
    });
}
