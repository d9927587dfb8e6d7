//! The engine on a real server: the contract of engines, and failures of the server, the network or a callback.
//!
//! Each test starts its own server ([`server`]). No test depends on speed: each waits until something has happened, for
//! a minute at most. `nightly` contains the tests with several servers and with stopped servers; `.ci/run` leaves them
//! out.

mod attacks;
mod certificates;
mod connections;
mod contract;
mod nightly;
mod nodes;
mod proxy;
mod refusals;
mod replaced;
mod secured;
mod server;
mod tls;
mod watches;

use super::table::StoreTable;
use super::{Nats, NatsEngine, requests};
use bytes::Bytes;
use postroom_cluster::engine::{Engine, Lane, Message, Subscription};
use postroom_cluster::store::{Bucket, Change, Entry, Revision, StoreError};
use std::sync::mpsc;
use std::time::{Duration, Instant};

/// The longest wait for events that should take milliseconds. The test fails if that is not enough.
const GUARD: Duration = Duration::from_secs(60);

/// Waits until the condition holds.
fn wait_until(mut is_so: impl FnMut() -> bool) {
    let began = Instant::now();
    while !is_so() {
        assert!(began.elapsed() < GUARD, "it is not so after {GUARD:?}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Returns a callback that sends its arguments to a channel, and the channel.
fn channel<T: Send + 'static>() -> (Box<dyn FnMut(T) + Send>, mpsc::Receiver<T>) {
    let (sender, receiver) = mpsc::channel();
    (Box::new(move |value| drop(sender.send(value))), receiver)
}

fn next<T>(receiver: &mpsc::Receiver<T>) -> T {
    receiver.recv_timeout(GUARD).expect("nothing has come")
}

/// Waits until the engine has noticed that both connections are broken.
fn wait_until_down(engine: &NatsEngine) {
    wait_until(|| Lane::ALL.iter().all(|&lane| !engine.shared.lane(lane).is_connected()));
}

fn connect(nats: Nats) -> NatsEngine {
    let engine = nats.start().unwrap();
    engine.wait(GUARD).unwrap();
    engine
}

fn create(engine: &dyn Engine, bucket: Bucket, key: &str, value: &'static str) -> Result<Revision, StoreError> {
    let (push, answers) = channel();
    engine.create(bucket, key, value.into(), push);
    next(&answers)
}

fn update(engine: &dyn Engine, key: &str, value: &'static str, expected: Revision) -> Result<Revision, StoreError> {
    let (push, answers) = channel();
    engine.update(Bucket::Names, key, value.into(), expected, push);
    next(&answers)
}

fn delete(engine: &dyn Engine, bucket: Bucket, key: &str, expected: Revision) -> Result<Revision, StoreError> {
    let (push, answers) = channel();
    engine.delete(bucket, key, expected, push);
    next(&answers)
}

fn get(engine: &dyn Engine, bucket: Bucket, key: &str) -> Result<Option<Entry>, StoreError> {
    let (push, answers) = channel();
    engine.get(bucket, key, push);
    next(&answers)
}

fn put(key: &str, value: &'static str, revision: Revision) -> Change {
    Change::Put(Entry { key: key.into(), value: value.into(), revision })
}

/// Subscribes, and waits until messages arrive.
fn subscribe(engine: &dyn Engine, lane: Lane, subject: &str) -> (mpsc::Receiver<Message>, Subscription) {
    let (push, messages) = channel();
    let subscription = engine.subscribe(lane, subject, push).unwrap();
    reaches(engine, subject, &messages);
    (messages, subscription)
}

/// Publishes until a message arrives, and takes all messages that have arrived.
fn reaches(from: &dyn Engine, subject: &str, messages: &mpsc::Receiver<Message>) {
    wait_until(|| {
        let _ = from.publish(Lane::Data, subject, Bytes::from_static(b"try"));
        messages.try_recv().is_ok()
    });
    wait_until(|| from.publish(Lane::Data, subject, Bytes::from_static(b"last try")).is_ok());
    while next(messages).payload != "last try" {}
}

/// Begins a watch, and reads its snapshot.
fn watch(engine: &dyn Engine, bucket: Bucket) -> (mpsc::Receiver<Change>, Subscription) {
    let (push, changes) = channel();
    let watch = engine.watch(bucket, None, push).unwrap();
    assert_eq!(next(&changes), Change::Resync);
    while !matches!(next(&changes), Change::Synced { .. }) {}
    (changes, watch)
}

/// Blocks the engine's thread until the returned value is dropped.
fn block(engine: &dyn Engine) -> mpsc::Sender<()> {
    let (sender, is_blocked) = mpsc::channel();
    let (go, wait) = mpsc::channel::<()>();
    let then = move |_| {
        sender.send(()).unwrap();
        let _ = wait.recv();
    };
    engine.get(Bucket::Names, "name", Box::new(then));
    next(&is_blocked);
    go
}

/// Returns the number of messages that the server stores for a table.
fn kept(engine: &NatsEngine, bucket: Bucket) -> u64 {
    let table = StoreTable::new("postroom", bucket);
    let subject = format!("$JS.API.STREAM.INFO.{}", table.stream);
    let connected = engine.shared.store.borrow().clone().unwrap();
    let info = requests::request(&connected, subject, None, Bytes::new(), GUARD);
    engine.runtime.block_on(info).unwrap()["state"]["messages"].as_u64().unwrap()
}
