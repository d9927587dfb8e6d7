//! A subscriber that panics, or sends to processes, in each of its methods. These tests have their own binary, since
//! the subscriber is global.

use postroom::prelude::*;
use std::cell::Cell;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::SeqCst};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};
use tracing_core::span::Current;
use tracing_subscriber::Registry;

/// The methods of a subscriber. The tests refer to them by index.
const METHODS: [&str; 8] =
    ["enabled", "new_span", "record_follows_from", "enter", "exit", "try_close", "clone_span", "current_span"];

/// The method that misbehaves: its index in `METHODS` plus one, or 0 if none does.
static MISBEHAVES: AtomicUsize = AtomicUsize::new(0);
/// How the method misbehaves: it panics if this is 1, and sends a message otherwise.
static PANICS: AtomicUsize = AtomicUsize::new(0);
static STRUCK: AtomicU64 = AtomicU64::new(0);
static SENT: AtomicU64 = AtomicU64::new(0);
static COUNTER: OnceLock<Address<Counter>> = OnceLock::new();

/// The maximum number of messages that the subscriber sends. There must be a limit, since each of these messages makes
/// it send again.
const MOST_SENT: u64 = 500;

#[derive(Default)]
struct Hostile {
    registry: Registry,
}

thread_local! {
    static INSIDE: Cell<bool> = const { Cell::new(false) };
}

fn strike(method: &str) {
    let chosen = MISBEHAVES.load(SeqCst);
    if chosen == 0 || METHODS[chosen - 1] != method || INSIDE.replace(true) {
        return;
    }
    STRUCK.fetch_add(1, SeqCst);
    if PANICS.load(SeqCst) == 1 {
        INSIDE.set(false);
        panic!("the subscriber panics in `{method}`");
    }
    if SENT.fetch_add(1, SeqCst) < MOST_SENT {
        COUNTER.get().unwrap().count().send().unwrap();
    } else {
        SENT.fetch_sub(1, SeqCst);
    }
    INSIDE.set(false);
}

impl Subscriber for Hostile {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        strike("enabled");
        metadata.target().starts_with("postroom") && self.registry.enabled(metadata)
    }

    // This makes `tracing` call `enabled` for each event and span.
    fn register_callsite(&self, _: &'static Metadata<'static>) -> tracing::subscriber::Interest {
        tracing::subscriber::Interest::sometimes()
    }

    fn new_span(&self, attributes: &Attributes<'_>) -> Id {
        strike("new_span");
        self.registry.new_span(attributes)
    }

    fn record(&self, id: &Id, record: &Record<'_>) {
        self.registry.record(id, record);
    }

    fn record_follows_from(&self, id: &Id, follows: &Id) {
        strike("record_follows_from");
        self.registry.record_follows_from(id, follows);
    }

    fn event(&self, _: &Event<'_>) {}

    fn enter(&self, id: &Id) {
        strike("enter");
        self.registry.enter(id);
    }

    fn exit(&self, id: &Id) {
        self.registry.exit(id);
        strike("exit");
    }

    fn clone_span(&self, id: &Id) -> Id {
        strike("clone_span");
        self.registry.clone_span(id)
    }

    fn try_close(&self, id: Id) -> bool {
        let is_closed = self.registry.try_close(id);
        strike("try_close");
        is_closed
    }

    fn current_span(&self) -> Current {
        strike("current_span");
        self.registry.current_span()
    }
}

#[process]
struct Counter {
    count: u64,
}

#[process]
impl Counter {
    #[entry]
    fn serve(&mut self) {}

    #[message]
    fn count(&mut self) {
        self.count += 1;
    }

    #[message]
    fn counted(&mut self) -> u64 {
        self.count
    }
}

#[process]
struct Node {
    next: Option<Address<Node>>,
    handled: u64,
}

#[process]
impl Node {
    #[entry]
    fn serve(&mut self) {}

    #[message]
    fn pass(&mut self) {
        self.handled += 1;
        if let Some(next) = &self.next {
            next.pass().send().unwrap();
        }
    }

    #[message]
    async fn ask(&mut self) -> u64 {
        let next = self.next.unwrap();
        next.handled().await.unwrap()
    }

    #[message]
    fn handled(&mut self) -> u64 {
        self.handled
    }

    #[message]
    fn panic(&mut self) {
        panic!("as told");
    }
}

/// Catches: a panic of the subscriber that loses a message, ends a process or unwinds from a send. Also catches a
/// subscriber that is called under a lock.
#[test]
fn a_subscriber_may_panic_or_send_in_each_of_its_methods() {
    const MESSAGES: u64 = 50;
    std::panic::set_hook(Box::new(|_| {}));
    tracing::subscriber::set_global_default(Hostile::default()).unwrap();
    let runtime = Runtime::builder().workers(2).build().unwrap();
    let counter = runtime.spawn(Counter { count: 0 }).serve().unwrap();
    COUNTER.set(counter).unwrap();
    for panics in [1, 0] {
        for (place, method) in METHODS.iter().enumerate() {
            let counted = counter.counted().wait().unwrap();
            STRUCK.store(0, SeqCst);
            SENT.store(0, SeqCst);
            PANICS.store(panics, SeqCst);
            MISBEHAVES.store(place + 1, SeqCst);
            let last = runtime.spawn(Node { next: None, handled: 0 }).serve().unwrap();
            let first = runtime.spawn(Node { next: Some(last), handled: 0 }).serve().unwrap();
            for _ in 0..MESSAGES {
                first.pass().send().unwrap();
            }
            runtime.until_idle().unwrap();
            assert_eq!(first.ask().wait(), Ok(MESSAGES), "{method}, panics: {panics}");
            let end = last.pid().join();
            last.panic().send().unwrap();
            assert!(matches!(end.wait(), ExitReason::Panic(panic) if panic.message == "as told"), "{method}");
            assert!(first.pid().stop());
            first.pid().join().wait();
            runtime.until_idle().unwrap();
            assert!(STRUCK.load(SeqCst) > 0, "`{method}` was never called");
            MISBEHAVES.store(0, SeqCst);
            runtime.until_idle().unwrap();
            let sent = SENT.load(SeqCst);
            assert_eq!(counter.counted().wait(), Ok(counted + sent), "{method}, panics: {panics}");
            assert_eq!(sent > 0, panics == 0, "{method}");
        }
    }
}
