//! The contract of engines, and further guarantees of the engine on NATS.

use super::server::Server;
use super::{GUARD, block, channel, connect, create, delete, get, kept, next, subscribe, wait_until, watch};
use crate::{MAX_QUESTIONS, NatsEngine};
use bytes::Bytes;
use postroom_cluster::__private::{Rig, check};
use postroom_cluster::engine::{Engine, Lane, ProbeOutcome, PublishError, SubscribeError};
use postroom_cluster::store::{Bucket, Change, StoreError};
use std::sync::mpsc::RecvTimeoutError;
use std::sync::{Arc, Mutex, mpsc};

#[test]
fn it_keeps_the_contract_of_engines() {
    let Some(server) = Server::start() else { return };
    let engines = [connect(server.nats()), connect(server.nats())];
    check(&Rig { engines: [&engines[0], &engines[1]], wait: &|is_so| wait_until(is_so) });
    assert_eq!(engines[0].counts(), super::super::Counts { connections: 2, ..Default::default() });
}

#[test]
fn clusters_have_stores_of_their_own() {
    let Some(server) = Server::start() else { return };
    let [one, other] = ["one", "other"].map(|name| connect(server.nats().cluster(name)));
    create(&one, Bucket::Names, "name", "value").unwrap();
    assert_eq!(get(&other, Bucket::Names, "name"), Ok(None));
    create(&other, Bucket::Names, "name", "value").unwrap();
}

#[test]
fn callbacks_may_panic_and_drop_their_own_subscription() {
    let Some(server) = Server::start() else { return };
    let engine = connect(server.nats());
    let own: Arc<Mutex<Option<_>>> = Arc::default();
    let held = Arc::clone(&own);
    let (mut push, calls) = channel();
    let mut count = 0;
    let on_message = Box::new(move |message: postroom_cluster::engine::Message| {
        if message.payload == "ready" {
            return push(0);
        }
        count += 1;
        push(count);
        match count {
            1 => panic!("as users' code may"),
            2 => drop(held.lock().unwrap().take()),
            _ => {}
        }
    });
    let mut subscription = own.lock().unwrap();
    *subscription = Some(engine.subscribe(Lane::Data, "calls", on_message).unwrap());
    drop(subscription);
    wait_until(|| {
        engine.publish(Lane::Data, "calls", "ready".into()).unwrap();
        calls.try_recv().is_ok()
    });
    for _ in 0..4 {
        engine.publish(Lane::Data, "calls", Bytes::new()).unwrap();
    }
    // The channel ends because the callback was dropped.
    let mut called: Vec<_> = calls.iter().collect();
    called.retain(|count| *count > 0);
    assert_eq!(called, [1, 2]);
    assert_eq!(engine.counts().panics, 1);

    engine.get(Bucket::Names, "name", Box::new(|_| panic!("as users' code may")));
    engine.probe("nobody", Box::new(|_| panic!("as users' code may")));
    let mut is_first = true;
    let (mut push, changes) = channel();
    let on_change = Box::new(move |change| match std::mem::take(&mut is_first) {
        true => panic!("as users' code may"),
        false => push(change),
    });
    let _watch = engine.watch(Bucket::Names, None, on_change).unwrap();
    assert!(matches!(next(&changes), Change::Synced { .. }));
    wait_until(|| engine.counts().panics == 4);
}

/// A callback may own values that panic when they are dropped, or that use the engine again.
#[test]
fn callbacks_may_panic_when_they_are_dropped() {
    struct Bomb(mpsc::Sender<&'static str>);
    impl Drop for Bomb {
        fn drop(&mut self) {
            let _ = self.0.send("dropped");
            panic!("as users' code may");
        }
    }
    let Some(server) = Server::start() else { return };
    let engine = connect(server.nats());
    let (sender, dropped) = mpsc::channel();
    let bombs = [Bomb(sender.clone()), Bomb(sender.clone()), Bomb(sender)];
    let [subscribed, watching, asking] = bombs.map(|bomb| Mutex::new(Some(bomb)));
    drop(engine.subscribe(Lane::Data, "bomb", Box::new(move |_| drop(subscribed.lock()))).unwrap());
    drop(engine.watch(Bucket::Names, None, Box::new(move |_| drop(watching.lock()))).unwrap());
    engine.get(Bucket::Names, "name", Box::new(move |_| drop(asking)));
    for _ in 0..3 {
        assert_eq!(next(&dropped), "dropped");
    }
    create(&engine, Bucket::Names, "name", "value").unwrap();
    assert_eq!(engine.counts().panics, 1);
}

/// Asks every kind of question, and returns the answers.
fn ask_all(engine: &NatsEngine) -> mpsc::Receiver<(&'static str, bool)> {
    let (sender, answers) = mpsc::channel();
    let then = |what: &'static str| {
        let sender = sender.clone();
        move |is_closed| sender.send((what, is_closed)).unwrap()
    };
    let written = |what| {
        let then = then(what);
        Box::new(move |result| then(result == Err(StoreError::Closed)))
    };
    let revision = postroom_cluster::store::Revision(1);
    engine.create(Bucket::Names, "a", Bytes::new(), written("create"));
    engine.update(Bucket::Names, "a", Bytes::new(), revision, written("update"));
    engine.delete(Bucket::Names, "a", revision, written("delete"));
    let read = then("get");
    engine.get(Bucket::Names, "a", Box::new(move |result| read(result == Err(StoreError::Closed))));
    let probed = then("probe");
    engine.probe("a", Box::new(move |outcome| probed(outcome == ProbeOutcome::Unknown)));
    answers
}

fn all_are_closed(answers: mpsc::Receiver<(&'static str, bool)>) {
    let mut all: Vec<_> = (0..5).map(|_| next(&answers)).collect();
    all.sort();
    let expected = ["create", "delete", "get", "probe", "update"].map(|what| (what, true));
    assert_eq!(all, expected);
    // The callbacks have been dropped, so none can run again.
    assert_eq!(answers.recv_timeout(GUARD), Err(RecvTimeoutError::Disconnected));
}

#[test]
fn what_is_asked_of_a_closed_engine_is_answered_once() {
    let Some(server) = Server::start() else { return };
    let engine = connect(server.nats());
    let (messages, _subscription) = subscribe(&engine, Lane::Data, "a");
    let (changes, _watch) = watch(&engine, Bucket::Names);
    // Pauses the server, so that no question can be answered before the engine is closed.
    server.pause();
    let pending = ask_all(&engine);
    engine.close();
    all_are_closed(pending);
    all_are_closed(ask_all(&engine));
    assert_eq!(engine.publish(Lane::Data, "a", Bytes::new()), Err(PublishError::Closed));
    assert!(matches!(engine.subscribe(Lane::Data, "a", Box::new(|_| {})), Err(SubscribeError::Closed)));
    assert!(matches!(engine.watch(Bucket::Names, None, Box::new(|_| {})), Err(SubscribeError::Closed)));
    // The callbacks of subscriptions have been dropped too.
    assert_eq!(messages.recv_timeout(GUARD), Err(RecvTimeoutError::Disconnected));
    assert_eq!(changes.recv_timeout(GUARD), Err(RecvTimeoutError::Disconnected));
    assert!(!engine.is_connected());
}

#[test]
fn what_was_asked_of_a_dropped_engine_is_answered_once() {
    let Some(server) = Server::start() else { return };
    let engine = connect(server.nats());
    server.pause();
    let pending = ask_all(&engine);
    drop(engine);
    all_are_closed(pending);
}

/// A callback may own the last reference to the engine. In that case the engine is dropped on its own thread.
#[test]
fn an_engine_may_be_dropped_by_its_own_callback() {
    let Some(server) = Server::start() else { return };
    let engine = Arc::new(connect(server.nats()));
    let (go, wait) = mpsc::channel();
    let (sender, done) = mpsc::channel();
    let held = Arc::clone(&engine);
    engine.get(
        Bucket::Names,
        "a",
        Box::new(move |_| {
            wait.recv().unwrap();
            held.get(Bucket::Names, "a", Box::new(move |result| drop(sender.send(result))));
            drop(held);
        }),
    );
    drop(engine);
    go.send(()).unwrap();
    assert_eq!(next(&done), Err(StoreError::Closed));
}

#[test]
fn what_was_published_before_the_engine_was_dropped_is_sent() {
    let Some(server) = Server::start() else { return };
    let here = connect(server.nats());
    let (messages, _subscription) = subscribe(&here, Lane::Data, "goodbye");
    // First many messages, and then more bytes than are written at once.
    for (count, length) in [(1_000_u32, 4), (15, 1 << 20)] {
        let there = connect(server.nats());
        // Blocks the engine, so that all messages are still queued when it is dropped.
        let blocked = block(&there);
        for number in 0..count {
            let mut payload = number.to_be_bytes().to_vec();
            payload.resize(length, 0);
            there.publish(Lane::Data, "goodbye", payload.into()).unwrap();
        }
        drop(there);
        drop(blocked);
        for number in 0..count {
            assert_eq!(next(&messages).payload[..4], number.to_be_bytes());
        }
    }
}

#[test]
fn an_engine_is_connected_when_both_lanes_are() {
    let Some(server) = Server::start() else { return };
    for lane in Lane::ALL {
        let engine = connect(server.nats());
        assert!(engine.is_connected());
        engine.shared.lane(lane).connection.send_replace(None);
        assert!(!engine.is_connected());
        assert_eq!(engine.publish(lane, "a", Bytes::new()), Err(PublishError::Disconnected));
    }
}

#[test]
fn questions_are_bounded() {
    let Some(server) = Server::start() else { return };
    let engine = connect(server.nats());
    let (sender, answers) = mpsc::channel();
    let ask = |number| {
        let sender = sender.clone();
        engine.get(Bucket::Names, "a", Box::new(move |result| sender.send((number, result)).unwrap()));
    };
    let blocked = block(&engine);
    (0..=MAX_QUESTIONS).for_each(ask);
    drop(blocked);
    let mut refused: Vec<_> = (0..=MAX_QUESTIONS).map(|_| next(&answers)).collect();
    refused.retain(|(_, result)| *result != Ok(None));
    assert_eq!(refused, [(MAX_QUESTIONS, Err(StoreError::Unavailable))]);
    ask(0);
    assert_eq!(next(&answers), (0, Ok(None)));
}

#[test]
fn a_name_is_created_again_over_its_tombstone() {
    let Some(server) = Server::start() else { return };
    let engine = connect(server.nats());
    let mut last = postroom_cluster::store::Revision(0);
    for _ in 0..3 {
        let created = create(&engine, Bucket::Names, "name", "value").unwrap();
        assert!(created > last);
        assert!(matches!(create(&engine, Bucket::Names, "name", "value"), Err(StoreError::Conflict { .. })));
        last = delete(&engine, Bucket::Names, "name", created).unwrap();
        assert!(last > created);
        assert_eq!(get(&engine, Bucket::Names, "name"), Ok(None));
    }
}

#[test]
fn a_closed_engine_leaves_no_tombstones() {
    let Some(server) = Server::start() else { return };
    let (here, there) = (connect(server.nats()), connect(server.nats()));
    for number in 0..10 {
        let key = format!("n{number}");
        let created = create(&here, Bucket::Nodes, &key, "value").unwrap();
        delete(&here, Bucket::Nodes, &key, created).unwrap();
    }
    // This key has been created again, and must not be purged.
    let again = create(&there, Bucket::Nodes, "n7", "again").unwrap();
    assert_eq!(kept(&there, Bucket::Nodes), 21);
    drop(here);
    wait_until(|| kept(&there, Bucket::Nodes) == 1);
    assert_eq!(get(&there, Bucket::Nodes, "n7").unwrap().unwrap().revision, again);
}
