//! Watches that are interrupted, that lag, and that see leases expire.

use super::proxy::Proxy;
use super::server::Server;
use super::{channel, connect, create, delete, next, put, update, wait_until_down, watch};
use crate::Nats;
use postroom_cluster::engine::Engine;
use postroom_cluster::store::{Bucket, Change, Revision};

#[test]
fn an_interrupted_watch_goes_on_where_it_was() {
    let Some(server) = Server::start() else { return };
    let proxy = Proxy::to(server.port());
    let (here, there) = (connect(Nats::at(format!("127.0.0.1:{}", proxy.port()))), connect(server.nats()));
    // A watch recognizes the store by the last message.
    create(&there, Bucket::Names, "before", "one").unwrap();
    let (changes, _watch) = watch(&here, Bucket::Names);
    for _ in 0..3 {
        proxy.cut();
        wait_until_down(&here);
        let first = create(&there, Bucket::Names, "a", "one").unwrap();
        let second = update(&there, "a", "two", first).unwrap();
        let deleted = delete(&there, Bucket::Names, "a", second).unwrap();
        proxy.heal();
        assert_eq!(next(&changes), put("a", "one", first));
        assert_eq!(next(&changes), put("a", "two", second));
        assert_eq!(next(&changes), Change::Deleted { key: "a".into(), revision: deleted });
    }
}

#[test]
fn a_watch_that_has_missed_something_begins_anew() {
    let Some(server) = Server::start() else { return };
    let proxy = Proxy::to(server.port());
    let (here, there) = (connect(Nats::at(format!("127.0.0.1:{}", proxy.port()))), connect(server.nats()));
    let kept = create(&there, Bucket::Names, "kept", "one").unwrap();
    let gone = create(&there, Bucket::Names, "gone", "one").unwrap();
    let (changes, _watch) = watch(&here, Bucket::Names);
    proxy.cut();
    wait_until_down(&here);
    // Writes more revisions than the server keeps.
    let mut last = kept;
    for _ in 0..100 {
        last = update(&there, "kept", "two", last).unwrap();
    }
    let deleted = delete(&there, Bucket::Names, "gone", gone).unwrap();
    proxy.heal();
    assert_eq!(next(&changes), Change::Resync);
    assert_eq!(next(&changes), put("kept", "two", last));
    assert_eq!(next(&changes), Change::Synced { revision: deleted });
    let new = create(&there, Bucket::Names, "new", "one").unwrap();
    assert_eq!(next(&changes), put("new", "one", new));
}

#[test]
fn a_watch_begins_anew_with_a_server_that_has_forgotten_all() {
    let Some(mut server) = Server::start() else { return };
    let engine = connect(server.nats());
    let keys = ["n0", "n1", "n2"];
    let [.., last] = keys.map(|key| create(&engine, Bucket::Names, key, "value").unwrap());
    let (changes, _watch) = watch(&engine, Bucket::Names);
    server.kill();
    server.forget();
    server.restart();
    assert_eq!(next(&changes), Change::Resync);
    assert!(matches!(next(&changes), Change::Synced { revision } if revision > last));
    let revision = create(&engine, Bucket::Names, "n0", "again").unwrap();
    assert_eq!(next(&changes), put("n0", "again", revision));
}

#[test]
fn a_watch_after_what_is_gone_begins_with_a_snapshot() {
    let Some(server) = Server::start() else { return };
    let engine = connect(server.nats());
    let first = create(&engine, Bucket::Names, "a", "one").unwrap();
    let mut last = first;
    for _ in 0..100 {
        last = update(&engine, "a", "two", last).unwrap();
    }
    for after in [first, Revision(0), Revision(last.0 + 1), Revision(u64::MAX - 1), Revision(u64::MAX)] {
        let (push, changes) = channel();
        let _watch = engine.watch(Bucket::Names, Some(after), push).unwrap();
        assert_eq!(next(&changes), Change::Resync, "after {after}");
        assert_eq!(next(&changes), put("a", "two", last));
        assert_eq!(next(&changes), Change::Synced { revision: last });
    }
}

#[test]
fn a_long_snapshot_arrives_whole() {
    let Some(server) = Server::start() else { return };
    let engine = connect(server.nats());
    let (push, answers) = channel();
    let push = std::sync::Arc::new(std::sync::Mutex::new(push));
    for number in 0..3_000 {
        let push = std::sync::Arc::clone(&push);
        let then = Box::new(move |result| push.lock().unwrap()(result));
        engine.create(Bucket::Names, &format!("n{number}"), vec![0; 1_000].into(), then);
    }
    let mut revisions: Vec<Revision> = (0..3_000).map(|_| next(&answers).unwrap()).collect();
    revisions.sort();
    let (push, changes) = channel();
    let _watch = engine.watch(Bucket::Names, None, push).unwrap();
    assert_eq!(next(&changes), Change::Resync);
    for revision in &revisions {
        assert!(matches!(next(&changes), Change::Put(entry) if entry.revision == *revision));
    }
    assert_eq!(next(&changes), Change::Synced { revision: revisions[2_999] });
}

/// This takes as long as a lease lasts.
#[test]
fn watches_see_leases_expire_once() {
    let Some(server) = Server::start() else { return };
    let engine = connect(server.nats());
    let (changes, _watch) = watch(&engine, Bucket::Leases);
    let expires = create(&engine, Bucket::Leases, "expires", "value").unwrap();
    let deleted = create(&engine, Bucket::Leases, "deleted", "value").unwrap();
    let tombstone = delete(&engine, Bucket::Leases, "deleted", deleted).unwrap();
    create(&engine, Bucket::Nodes, "expires", "value").unwrap();
    let last = create(&engine, Bucket::Leases, "last", "value").unwrap();
    let mut seen: Vec<_> = (0..6).map(|_| next(&changes)).collect();
    let ends: Vec<_> = seen
        .iter()
        .filter_map(|change| match change {
            Change::Deleted { key, revision } => Some((key.as_str(), *revision)),
            _ => None,
        })
        .collect();
    assert_eq!(ends.iter().map(|(key, _)| *key).collect::<Vec<_>>(), ["deleted", "expires", "last"]);
    assert_eq!(ends[0].1, tombstone);
    assert!(ends[1].1 > last && ends[2].1 > ends[1].1);
    seen.retain(|change| !matches!(change, Change::Deleted { .. }));
    let puts = [("expires", expires), ("deleted", deleted), ("last", last)];
    assert_eq!(seen, puts.map(|(key, revision)| put(key, "value", revision)));
    // The key can be created again, over the marker. Only leases expire.
    create(&engine, Bucket::Leases, "expires", "value").unwrap();
    assert!(create(&engine, Bucket::Nodes, "expires", "value").is_err());
}
