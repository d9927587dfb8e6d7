//! Several kinds of process that answer one protocol.
//!
//! What must not compile is in `ui`.

use postroom::prelude::*;
use postroom::{AddressError, Machine, Protocol, ProtocolInfo};
use postroom_tests::soon;
use std::collections::BTreeMap;
use std::fmt::Debug;

/// Nothing more fits in.
#[derive(Debug, PartialEq, Eq)]
pub struct Full;

/// A message that many understand.
#[derive(Debug, Clone, PartialEq)]
pub struct Tick(u32);

/// Keeps texts under keys.
#[protocol]
pub trait Storage {
    /// What is kept under `key`.
    fn get(&self, key: String) -> Option<String>;
    /// Keeps `value`.
    #[message]
    #[derive(Clone, Debug, PartialEq)]
    fn put(&mut self, key: String, value: String) -> Result<usize, Full>;
    /// All keys, one after the other.
    fn keys(&mut self, replies: Replies<String>);
    #[message(Tick)]
    fn tick(&mut self, tick: Tick) -> u32;
    fn clear(&mut self);
}

/// What all kinds of process can be asked.
#[protocol]
pub trait Audit {
    fn count(&self) -> usize;
}

/// Answers as the protocol says.
#[process]
#[derive(Default)]
struct Memory {
    kept: BTreeMap<String, String>,
    room: usize,
}

#[process(protocols(Storage, Audit))]
impl Memory {
    #[entry]
    fn serve(&mut self, room: usize) {
        self.room = room;
    }

    /// A message of its own.
    #[message]
    fn room(&self) -> usize {
        self.room
    }
}

#[process]
impl Storage for Memory {
    fn get(&self, key: String) -> Option<String> {
        self.kept.get(&key).cloned()
    }

    fn put(&mut self, key: String, value: String) -> Result<usize, Full> {
        if self.kept.len() == self.room {
            return Err(Full);
        }
        self.kept.insert(key, value);
        Ok(self.kept.len())
    }

    fn keys(&mut self, replies: Replies<String>) {
        for key in self.kept.keys() {
            let _unwanted = replies.send(key.clone());
        }
    }

    fn tick(&mut self, tick: Tick) -> u32 {
        tick.0 + 1
    }

    fn clear(&mut self) {
        self.kept.clear();
    }
}

#[process]
impl Audit for Memory {
    fn count(&self) -> usize {
        self.kept.len()
    }
}

/// Answers by asking another, awaiting, later.
#[process]
struct Cache {
    behind: Address<dyn Storage>,
    asked: usize,
}

#[process(protocols(Audit, Storage))]
impl Cache {
    #[entry]
    fn serve(&mut self) {}
}

#[process]
impl Storage for Cache {
    async fn get(&mut self, ctx: &mut Context<Self>, key: String) -> Option<String> {
        assert_eq!(ctx.address().pid(), ctx.pid());
        self.asked += 1;
        self.behind.get(key).await.ok()?
    }

    fn put(&mut self, ctx: &mut Context<Self>, key: String, value: String, reply: Reply<Result<usize, Full>>) {
        ctx.call(self.behind.put(key, value)).then(|this, answer, _| {
            this.asked += 1;
            reply.send(answer.map_err(|_| Full));
        });
    }

    async fn keys(&mut self, replies: Replies<String>) {
        let _unwanted = replies.send("one".to_owned());
    }

    fn tick(&mut self, tick: Tick) -> u32 {
        tick.0 + 100
    }

    fn clear(&mut self) {}
}

#[process]
impl Audit for Cache {
    fn count(&self) -> usize {
        self.asked
    }
}

#[process]
struct Lamp;

#[process]
impl Lamp {
    #[entry]
    fn serve(&mut self) {}
}

fn memory(runtime: &Runtime) -> Address<Memory> {
    runtime.spawn(Memory::default()).serve(2).unwrap()
}

/// What any storage does.
fn fill(storage: Address<dyn Storage>) {
    storage.put("a".into(), "1".into()).wait().unwrap();
    storage.put("b".into(), "2".into()).wait().unwrap();
    assert_eq!(storage.get("a".into()).wait(), Ok(Some("1".into())));
    assert!(matches!(storage.put("c".into(), "3".into()).wait(), Err(CallError::Failed(Full))));
}

#[test]
fn two_kinds_of_process_answer_one_protocol() {
    soon(|| {
        let runtime = Runtime::new().unwrap();
        let memory = memory(&runtime);
        fill(memory.narrow());
        memory.clear().send().unwrap();
        let cache = runtime.spawn(Cache { behind: memory.narrow(), asked: 0 }).serve().unwrap();
        fill(cache.narrow());
        assert_eq!((memory.count().wait(), cache.count().wait()), (Ok(2), Ok(4)));
    });
}

#[test]
fn the_address_of_a_protocol_is_copy_and_16_bytes() {
    fn copy<T: Copy + Send + Sync + Eq + std::hash::Hash + Debug>() {}
    copy::<Address<dyn Storage>>();
    assert_eq!(size_of::<Address<dyn Storage>>(), 16);
    assert_eq!(size_of::<Option<Address<dyn Storage>>>(), 16);
    // Nor does a process's own address grow by its protocols.
    assert_eq!(size_of::<Address<Memory>>(), 16);
}

#[test]
fn a_pid_gives_the_address_of_a_protocol_if_its_process_answers_it() {
    soon(|| {
        let runtime = Runtime::new().unwrap();
        let (memory, lamp) = (memory(&runtime), runtime.spawn(Lamp).serve().unwrap());
        assert_eq!(runtime.address::<dyn Storage>(memory.pid()), Ok(memory.narrow()));
        assert_eq!(runtime.address::<dyn Audit>(memory.pid()).unwrap().count().wait(), Ok(0));
        assert_eq!(runtime.address::<Memory>(memory.pid()), Ok(memory));

        let pid = lamp.pid();
        let error = runtime.address::<dyn Storage>(pid).unwrap_err();
        assert_eq!(error, AddressError::Protocol { pid, protocol: "Storage", found: "Lamp" });
        assert_eq!(error.to_string(), format!("{pid} is a `Lamp`, which does not answer the protocol `Storage`"));
        pid.stop();
        pid.join().wait();
        assert_eq!(runtime.address::<dyn Storage>(pid), Err(AddressError::Gone(pid)));
    });
}

#[test]
fn the_messages_of_a_protocol_are_methods_of_the_process_s_address_too() {
    soon(|| {
        let runtime = Runtime::new().unwrap();
        let memory = memory(&runtime);
        // Its own, those of the first protocol, and those of the second.
        assert_eq!(memory.room().wait(), Ok(2));
        assert_eq!(memory.put("a".into(), "1".into()).wait(), Ok(1));
        assert_eq!(memory.count().wait(), Ok(1));
        assert_eq!(memory.get("a".into()).method(), "Storage::get");
    });
}

#[test]
fn message_types_are_named_for_the_protocol_and_serve_every_process_of_it() {
    soon(|| {
        let runtime = Runtime::new().unwrap();
        let memory = memory(&runtime);
        let put = StoragePut { key: "a".into(), value: "1".into() };
        assert_eq!(put.clone(), put);
        runtime.send(memory, put.clone()).unwrap();
        runtime.send(memory.pid(), StorageClear).unwrap();
        let storage: Address<dyn Storage> = memory.narrow();
        runtime.send(storage, put).unwrap();
        let get = StorageGet { key: "a".into() };
        let recipients: [Recipient<StorageGet, Option<String>>; 3] =
            [memory.narrow(), storage.narrow(), storage.into()];
        assert_eq!(recipients[0], recipients[1]);
        assert_eq!(recipients[2].call(get).wait(), Ok(Some("1".into())));
        assert_eq!(storage.tick(Tick(6)).wait(), Ok(7));
        assert_eq!(Recipient::<Tick, u32>::of(memory.pid()).call(Tick(1)).wait(), Ok(2));
    });
}

#[test]
fn a_process_answers_a_protocol_with_streams_contexts_and_late_replies() {
    soon(|| {
        let runtime = Runtime::new().unwrap();
        let memory = memory(&runtime);
        memory.put("x".into(), "1".into()).wait().unwrap();
        let cache = runtime.spawn(Cache { behind: memory.narrow(), asked: 0 }).serve().unwrap();
        for (storage, keys) in [(memory.narrow::<Address<dyn Storage>>(), ["x"]), (cache.narrow(), ["one"])] {
            assert_eq!(storage.keys().open().unwrap().collect::<Vec<_>>(), keys);
        }
        assert_eq!(cache.tick(Tick(1)).wait(), Ok(101));
        // A message that is sent, not called, reaches an async method too.
        runtime.send(cache.pid(), StorageGet { key: "x".into() }).unwrap();
        assert_eq!(cache.count().wait(), Ok(1));
    });
}

#[test]
fn a_process_that_has_its_methods_as_the_protocol_says_is_an_ordinary_implementation() {
    /// No process.
    struct Fake;
    impl Audit for Fake {
        fn count(&self) -> usize {
            7
        }
    }
    fn fill(storage: &mut impl Storage) {
        assert_eq!(storage.put("a".into(), "1".into()), Ok(1));
        assert_eq!(storage.get("a".into()).as_deref(), Some("1"));
    }
    let mut memory = Memory { room: 1, ..Memory::default() };
    fill(&mut memory);
    let audited: [&dyn Audit; 2] = [&memory, &Fake];
    assert_eq!(audited.map(|audited| audited.count()), [1, 7]);
}

#[test]
fn what_a_process_with_protocols_does_not_understand_is_a_dead_letter() {
    soon(|| {
        let runtime = Runtime::new().unwrap();
        let (memory, lamp) = (memory(&runtime), runtime.spawn(Lamp).serve().unwrap());
        runtime.send(memory.pid(), "what?").unwrap();
        assert_eq!(memory.room().wait(), Ok(2));
        assert_eq!(runtime.statistics().dead_unhandled, 1);
        let unchecked = Recipient::<StorageClear>::of(lamp.pid());
        assert_eq!(unchecked.call(StorageClear).wait(), Err(CallError::Unhandled));
    });
}

#[test]
fn a_machine_without_a_runtime_answers_a_protocol() {
    let mut machine = Machine::new(Memory::default());
    machine.init(&mut InitContext::detached(), "serve", payloads![1_usize]).unwrap();
    let pid: Pid = format!("<{}.0.0.1>", postroom::this_node()).parse().unwrap();
    let put = StoragePut { key: "a".into(), value: "1".into() };
    let mut events = Events::of([Event::Message(Package::new(pid, put))]);
    machine.step(&mut events, &mut StepOutput::new()).unwrap();
    assert_eq!(machine.get().map(Audit::count), Some(1));
}

#[test]
fn a_protocol_says_its_name_and_its_messages() {
    let ProtocolInfo { name, messages, .. } = <dyn Storage>::INFO;
    assert_eq!((name, messages), ("Storage", ["get", "put", "keys", "tick", "clear"].as_slice()));
    let names = <Memory as postroom::Actor>::PROTOCOLS.iter().map(|protocol| protocol.name).collect::<Vec<_>>();
    assert_eq!(names, ["Storage", "Audit"]);
}

mod generic {
    use super::*;

    /// A protocol with parameters.
    #[protocol]
    pub trait Map<K, V: Clone>
    where
        K: Ord,
    {
        fn insert(&mut self, key: K, value: V) -> Option<V>;
        fn lookup(&self, key: K) -> Option<V>;
        fn size(&self) -> usize;
    }

    /// A process with parameters that answers it for all of them.
    #[process]
    struct Tree<K: Ord + Send + 'static, V: Clone + Send + 'static> {
        kept: BTreeMap<K, V>,
    }

    #[process(protocols(Map<K, V>, Audit))]
    impl<K: Ord + Send + 'static, V: Clone + Send + 'static> Tree<K, V> {
        #[entry]
        fn serve(&mut self) {}
    }

    #[process]
    impl<K: Ord + Send + 'static, V: Clone + Send + 'static> Map<K, V> for Tree<K, V> {
        fn insert(&mut self, key: K, value: V) -> Option<V> {
            self.kept.insert(key, value)
        }

        fn lookup(&self, key: K) -> Option<V> {
            self.kept.get(&key).cloned()
        }

        fn size(&self) -> usize {
            self.kept.len()
        }
    }

    #[process]
    impl<K: Ord + Send + 'static, V: Clone + Send + 'static> Audit for Tree<K, V> {
        async fn count(&mut self) -> usize {
            self.kept.len()
        }
    }

    /// One that answers it for some.
    #[process]
    struct Squares;

    #[process(protocols(self::Map<u8, u32>))]
    impl Squares {
        #[entry]
        fn serve(&mut self) {}
    }

    #[process]
    impl Map<u8, u32> for Squares {
        fn insert(&mut self, _key: u8, value: u32) -> Option<u32> {
            Some(value)
        }

        fn lookup(&self, key: u8) -> Option<u32> {
            Some(u32::from(key) * u32::from(key))
        }

        async fn size(&self, ctx: &mut Context<Self>) -> usize {
            ctx.sleep(std::time::Duration::ZERO).await;
            256
        }
    }

    #[test]
    fn protocols_and_processes_may_be_generic() {
        soon(|| {
            let runtime = Runtime::new().unwrap();
            let tree = runtime.spawn(Tree { kept: BTreeMap::new() }).serve().unwrap();
            tree.insert(3_u8, 9_u32).wait().unwrap();
            let squares = runtime.spawn(Squares).serve().unwrap();
            for map in [tree.narrow::<Address<dyn Map<u8, u32>>>(), squares.narrow()] {
                assert_eq!(map.lookup(3).wait(), Ok(Some(9)));
            }
            assert_eq!(tree.count().wait(), Ok(1));
            assert_eq!(squares.size().wait(), Ok(256));
            assert_eq!(runtime.address::<dyn Map<u8, u32>>(tree.pid()), Ok(tree.narrow()));
            assert!(runtime.address::<dyn Map<u8, u64>>(tree.pid()).is_err());
            runtime.send(tree, MapInsert { key: 1_u8, value: 1_u32 }).unwrap();
        });
    }
}

mod of_another_crate {
    use super::*;
    // Only the trait: what the macro makes beside it need not be imported.
    use postroom_tests::ledger::{Ledger, Overdrawn};

    #[process]
    struct Cash(i64);

    #[process(protocols(Ledger<i64>))]
    impl Cash {
        #[entry]
        fn serve(&mut self) {}
    }

    #[process]
    impl Ledger<i64> for Cash {
        fn book(&mut self, amount: i64) -> Result<i64, Overdrawn> {
            self.0 += amount;
            if self.0 < 0 { Err(Overdrawn) } else { Ok(self.0) }
        }

        fn balance(&self) -> i64 {
            self.0
        }

        fn note(&mut self, text: String) {
            self.0 += text.len() as i64;
        }
    }

    #[process]
    struct Branch {
        cash: Address<dyn Ledger<i64>>,
    }

    #[process(protocols(postroom_tests::ledger::Ledger<i64>))]
    impl Branch {
        #[entry]
        fn serve(&mut self) {}
    }

    #[process]
    impl postroom_tests::ledger::Ledger<i64> for Branch {
        async fn book(&mut self, amount: i64) -> Result<i64, Overdrawn> {
            self.cash.book(amount).await.map_err(|_| Overdrawn)
        }

        async fn balance(&mut self) -> i64 {
            self.cash.balance().await.unwrap_or(-1)
        }

        fn note(&mut self, text: String) {
            let _gone = self.cash.note(text).send();
        }
    }

    #[test]
    fn a_protocol_of_another_crate_is_answered() {
        soon(|| {
            let runtime = Runtime::new().unwrap();
            let cash = runtime.spawn(Cash(0)).serve().unwrap();
            let branch = runtime.spawn(Branch { cash: cash.narrow() }).serve().unwrap();
            branch.note("three".into()).wait().unwrap();
            assert_eq!(branch.book(4).wait(), Ok(9));
            let ledger: Address<dyn Ledger<i64>> = branch.narrow();
            assert_eq!(ledger.balance().wait(), Ok(9));
            assert!(matches!(ledger.book(-10).wait(), Err(CallError::Failed(Overdrawn))));
            runtime.send(branch, String::new()).unwrap();
            runtime.send(branch, postroom_tests::ledger::LedgerBook { amount: 1_i64 }).unwrap();
        });
    }
}

/// What is there only under a condition, in a module, in a function, by another path.
mod places {
    pub mod inner {
        use postroom::prelude::*;

        #[protocol(crate = ::postroom)]
        pub(crate) trait Switch {
            /// First.
            #[cfg(not(any()))]
            fn on(&mut self) -> bool;
            #[cfg(any())]
            fn never(&mut self, nothing: Nothing) -> Nothing;
            fn off(&mut self) -> u8;
            #[deprecated]
            #[message]
            fn r#move(&mut self, #[doc = "Where to."] r#to: u8) -> u8;
        }
    }

    use postroom::prelude::*;

    #[process]
    pub(super) struct Plain;

    #[process(protocols(inner::Switch))]
    impl Plain {
        #[entry]
        fn serve(&mut self) {}
    }

    #[process(crate = ::postroom)]
    impl inner::Switch for Plain {
        #[cfg(not(any()))]
        fn on(&mut self) -> bool {
            true
        }

        #[cfg(any())]
        fn never(&mut self, nothing: Nothing) -> Nothing {
            nothing
        }

        fn off(&mut self) -> u8 {
            0
        }

        fn r#move(&mut self, to: u8) -> u8 {
            to
        }
    }

    #[test]
    fn protocols_stand_anywhere_and_have_conditions_like_other_items() {
        #[protocol]
        trait Local {
            fn seven(&self) -> u8;
        }
        #[process]
        struct Odd;
        #[process(protocols(Local, inner::Switch))]
        impl Odd {
            #[entry]
            fn serve(&mut self) {}
        }
        #[process]
        impl Local for Odd {
            fn seven(&self) -> u8 {
                7
            }
        }
        #[process]
        impl inner::Switch for Odd {
            #[cfg(not(any()))]
            async fn on(&mut self) -> bool {
                false
            }

            #[cfg(any())]
            async fn never(&mut self, nothing: Nothing) -> Nothing {
                nothing
            }

            fn off(&mut self) -> u8 {
                1
            }

            fn r#move(&mut self, to: u8) -> u8 {
                to + 1
            }
        }
        super::soon(|| {
            let runtime = Runtime::new().unwrap();
            let (odd, plain) = (runtime.spawn(Odd).serve().unwrap(), runtime.spawn(Plain).serve().unwrap());
            assert_eq!(odd.narrow::<Address<dyn Local>>().seven().wait(), Ok(7));
            let both: [Address<dyn inner::Switch>; 2] = [plain.narrow(), odd.narrow()];
            assert_eq!(
                both.map(|switch| (switch.on().wait().unwrap(), switch.off().wait().unwrap())),
                [(true, 0), (false, 1)]
            );
            #[allow(deprecated)]
            let moved = both.map(|switch| switch.r#move(4).wait().unwrap());
            assert_eq!(moved, [4, 5]);
        });
    }
}
