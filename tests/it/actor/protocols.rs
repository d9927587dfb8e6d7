//! Protocols that several process types implement. Code that must not compile is in `ui`.

mod generic;
mod of_another_crate;
mod places;

use postroom::Package;
use postroom::error::AddressError;
use postroom::generic::Protocol;
use postroom::inspect::ProtocolInfo;
use postroom::manual::{Event, Events, InitContext, Machine, Process, StepOutput};
use postroom::prelude::*;
use postroom_tests::soon;
use std::collections::BTreeMap;
use std::fmt::Debug;

/// The error of a [`Storage`] that is full.
#[derive(Debug, PartialEq, Eq)]
pub struct Full;

/// A message that several process types handle.
#[derive(Debug, Clone, PartialEq)]
pub struct Tick(u32);

/// Stores texts under keys.
#[protocol]
pub trait Storage {
    /// Returns the text under `key`.
    fn get(&self, key: String) -> Option<String>;
    /// Stores `value`.
    #[message]
    #[derive(Clone, Debug, PartialEq)]
    fn put(&mut self, key: String, value: String) -> Result<usize, Full>;
    /// Sends all keys, one by one.
    fn keys(&mut self, replies: Replies<String>);
    #[message(Tick)]
    fn tick(&mut self, tick: Tick) -> u32;
    fn clear(&mut self);
}

/// A protocol that processes implement in addition to another one.
#[protocol]
pub trait Audit {
    fn count(&self) -> usize;
}

/// A [`Storage`] in memory.
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

    /// A message that belongs to no protocol.
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

/// A `Storage` that forwards to another `Storage`, with async methods and deferred replies.
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

/// Fills any storage, and checks it.
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
    // Protocols do not enlarge a process's own address, either.
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
        assert_eq!(error.to_string(), format!("{pid} has type `Lamp`, which does not answer the protocol `Storage`"));
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
        // Calls a method of the process itself, and one of each protocol.
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
            assert_eq!(storage.keys().open().unwrap().into_iter().collect::<Vec<_>>(), keys);
        }
        assert_eq!(cache.tick(Tick(1)).wait(), Ok(101));
        // A message that is sent rather than called reaches an async method, too.
        runtime.send(cache.pid(), StorageGet { key: "x".into() }).unwrap();
        assert_eq!(cache.count().wait(), Ok(1));
    });
}

#[test]
fn a_process_with_the_protocols_methods_is_an_ordinary_implementation() {
    /// A type that is not a process.
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
fn an_unknown_message_to_a_process_with_protocols_is_a_dead_letter() {
    soon(|| {
        let runtime = Runtime::new().unwrap();
        let (memory, lamp) = (memory(&runtime), runtime.spawn(Lamp).serve().unwrap());
        runtime.send(memory.pid(), "what?").unwrap();
        assert_eq!(memory.room().wait(), Ok(2));
        assert_eq!(runtime.statistics().dead_letters.unhandled, 1);
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
    let names =
        <Memory as postroom::generic::Actor>::PROTOCOLS.iter().map(|protocol| protocol.name).collect::<Vec<_>>();
    assert_eq!(names, ["Storage", "Audit"]);
}
