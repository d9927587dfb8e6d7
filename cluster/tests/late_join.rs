//! The log of a node that waits to become a member. This is a single test in a program of its own, because the
//! subscriber of the log has to be global: the node logs on its own thread.

use bytes::Bytes;
use postroom::{NodeId, Runtime};
use postroom_cluster::Cluster;
use postroom_cluster::engine::{Attempt, Engine, Lane, OnMessage, OnProbe, PublishError, SubscribeError, Subscription};
use postroom_cluster::memory::{Broker, Client};
use postroom_cluster::store::{Bucket, OnChange, OnRead, OnWrite, Revision};
use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

/// An engine that reports the servers that it has tried without success, like the engine on NATS.
struct Tried(Client);

impl Engine for Tried {
    fn publish(&self, lane: Lane, subject: &str, payload: Bytes) -> Result<(), PublishError> {
        self.0.publish(lane, subject, payload)
    }
    fn subscribe(&self, lane: Lane, pattern: &str, on_message: OnMessage) -> Result<Subscription, SubscribeError> {
        self.0.subscribe(lane, pattern, on_message)
    }
    fn probe(&self, subject: &str, then: OnProbe) {
        self.0.probe(subject, then);
    }
    fn create(&self, bucket: Bucket, key: &str, value: Bytes, then: OnWrite) {
        self.0.create(bucket, key, value, then);
    }
    fn update(&self, bucket: Bucket, key: &str, value: Bytes, expected: Revision, then: OnWrite) {
        self.0.update(bucket, key, value, expected, then);
    }
    fn delete(&self, bucket: Bucket, key: &str, expected: Revision, then: OnWrite) {
        self.0.delete(bucket, key, expected, then);
    }
    fn get(&self, bucket: Bucket, key: &str, then: OnRead) {
        self.0.get(bucket, key, then);
    }
    fn watch(
        &self,
        bucket: Bucket,
        after: Option<Revision>,
        on_change: OnChange,
    ) -> Result<Subscription, SubscribeError> {
        self.0.watch(bucket, after, on_change)
    }
    fn is_connected(&self) -> bool {
        self.0.is_connected()
    }
    fn attempts(&self) -> Vec<Attempt> {
        let attempt = |server: &str, problem: &str| Attempt { server: server.into(), problem: problem.into() };
        vec![attempt("nats://one:4222", "nothing listens there"), attempt("nats://two:4222", "it is too old")]
    }
}

type Fields = BTreeMap<&'static str, String>;

/// Stores the events that name a cluster, with their levels.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<(Level, Fields)>>>);

impl Log {
    fn of(&self, cluster: &str) -> Vec<(Level, Fields)> {
        let is_its = |event: &&(Level, Fields)| event.1.get("cluster").is_some_and(|name| name == cluster);
        self.0.lock().unwrap().iter().filter(is_its).cloned().collect()
    }
}

struct Texts(Fields);

impl Visit for Texts {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.0.insert(field.name(), format!("{value:?}"));
    }
    fn record_str(&mut self, field: &Field, value: &str) {
        self.0.insert(field.name(), value.into());
    }
}

impl Subscriber for Log {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }
    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }
    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn event(&self, event: &Event<'_>) {
        let mut texts = Texts(Fields::new());
        event.record(&mut texts);
        let is_of_the_test = texts.0.contains_key("cluster");
        self.0.lock().unwrap().push((*event.metadata().level(), texts.0));
        // A subscriber is user code, which may panic.
        assert!(!is_of_the_test, "a subscriber of the log panics");
    }
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

/// A node that is not a member after a second logs that once, with the servers that it has tried. Even if the
/// subscriber of the log panics, the node joins when it can.
///
/// Mutation: do not push `log` in `await_membership`; or do not catch the panic in `log_if_late`, which ends the
/// driver.
#[test]
fn a_node_that_waits_for_a_server_says_so_once() {
    let log = Log::default();
    tracing::subscriber::set_global_default(log.clone()).unwrap();
    let broker = Broker::new();
    let runtime = Runtime::builder().workers(1).logical_node(NodeId::random()).build().unwrap();
    let builder = Cluster::builder("late").node("eu-1").join_within(Duration::from_secs(3_600));
    let joining = builder.join_async(&runtime, Tried(broker.connect()));
    let begun = Instant::now();
    while log.of("late").is_empty() {
        assert!(begun.elapsed() < Duration::from_secs(60), "the log says nothing");
        thread::sleep(Duration::from_millis(10));
    }

    let _running = broker.run();
    let cluster = joining.wait().unwrap();
    assert!(cluster.is_member());
    // All its events have been logged once it has left.
    cluster.leave().wait();

    let events = log.of("late");
    let [(Level::WARN, fields)] = &events[..] else { panic!("{events:?}") };
    let expected = [
        ("cluster", "late"),
        ("node", "eu-1"),
        ("servers", "nats://one:4222, nats://two:4222"),
        ("reason", "tried `nats://one:4222`: nothing listens there; tried `nats://two:4222`: it is too old"),
        ("message", "the node is not a member of its cluster yet; it keeps trying"),
    ];
    assert_eq!(*fields, expected.map(|(name, text)| (name, text.to_owned())).into());
}
