//! The server's store is lost, replaced by an older copy, or deleted by someone: [`floor`](crate::floor) has the
//! argument.

use super::server::Server;
use super::{GUARD, channel, connect, create, delete, get, next, put, wait_until, wait_until_down, watch};
use crate::engine::{Bucket, Change, Engine, Revision, StoreError};
use crate::nats::NatsEngine;
use crate::nats::requests::{self, Failure};
use std::sync::mpsc::Receiver;
use std::time::{SystemTime, UNIX_EPOCH};

/// What a server comes back with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Back {
    Empty,
    OlderCopy,
}

fn reconnected(engine: &NatsEngine) {
    engine.wait(GUARD).unwrap();
}

/// Reads what a watch reports until it has taken a snapshot.
fn snapshot(changes: &Receiver<Change>) -> (Vec<Change>, Revision) {
    while next(changes) != Change::Resync {}
    let mut entries = Vec::new();
    loop {
        match next(changes) {
            Change::Synced { revision } => return (entries, revision),
            // It has been interrupted once more.
            Change::Resync => entries.clear(),
            change => entries.push(change),
        }
    }
}

/// Whichever engine comes back first, what is written then has a greater revision than all that was, and the watches of
/// all report what there is: nothing of what was.
pub(super) fn check_that_revisions_grow(rounds: usize) {
    let Some(mut server) = Server::start() else { return };
    let (here, there) = (connect(server.nats()), connect(server.nats()));
    let (changes, _watch) = watch(&there, Bucket::Names);
    let mut last = Revision(0);
    for round in 0..rounds {
        let back = if round % 2 == 0 { Back::Empty } else { Back::OlderCopy };
        for key in ["kept", "gone"] {
            let revision = create(&here, Bucket::Names, key, "value").unwrap();
            assert!(revision > last, "{revision} after {last}, before {back:?}");
            last = revision;
        }
        server.kill();
        [&here, &there].into_iter().for_each(wait_until_down);
        server.back_up();
        server.restart();
        [&here, &there].into_iter().for_each(reconnected);
        // So that the copy is an older one.
        for key in ["new", "newer"] {
            let revision = create(&here, Bucket::Names, key, "value").unwrap();
            assert!(revision > last, "{revision} after {last}");
            last = revision;
        }
        let newest = put("newer", "value", last);
        while next(&changes) != newest {}

        server.kill();
        [&here, &there].into_iter().for_each(wait_until_down);
        match back {
            Back::Empty => server.forget(),
            Back::OlderCopy => server.restore(),
        }
        server.restart();
        [&here, &there].into_iter().for_each(reconnected);
        let (entries, revision) = snapshot(&changes);
        assert!(entries.is_empty(), "{back:?} has {entries:?}");
        assert!(revision >= last, "{back:?}: {revision} after {last}");
        assert_eq!(get(&here, Bucket::Names, "kept"), Ok(None), "{back:?}");
        last = last.max(revision);
    }
    let revision = create(&there, Bucket::Names, "kept", "value").unwrap();
    assert!(revision > last);
}

#[test]
fn revisions_grow_from_one_store_to_the_next() {
    check_that_revisions_grow(2);
}

/// If no engine is left that knows the old store, the clock does.
#[test]
fn an_empty_store_begins_at_the_clock() {
    let Some(mut server) = Server::start() else { return };
    let clock = || SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_micros() as u64;
    let began = clock();
    let engine = connect(server.nats());
    let last = create(&engine, Bucket::Names, "name", "value").unwrap();
    assert!(last >= Revision(began) && last <= Revision(clock()));
    drop(engine);
    server.kill();
    server.forget();
    server.restart();
    assert!(create(&connect(server.nats()), Bucket::Names, "name", "value").unwrap() > last);
}

/// A restart with what was stored is no loss: nothing is emptied.
#[test]
fn a_store_that_comes_back_as_it_was_is_kept() {
    let Some(mut server) = Server::start() else { return };
    let engine = connect(server.nats());
    let created = create(&engine, Bucket::Names, "name", "value").unwrap();
    for bucket in [Bucket::Nodes, Bucket::Leases, Bucket::Groups] {
        create(&engine, bucket, "eu-1.7f", "value").unwrap();
    }
    server.kill();
    wait_until_down(&engine);
    server.back_up();
    server.restore();
    server.restart();
    reconnected(&engine);
    assert_eq!(get(&engine, Bucket::Names, "name").unwrap().unwrap().revision, created);
    delete(&engine, Bucket::Names, "name", created).unwrap();
}

/// A table that is deleted while all are connected is created anew by those that watch it.
#[test]
fn a_table_that_is_deleted_is_created_anew() {
    let Some(server) = Server::start() else { return };
    let engine = connect(server.nats());
    let last = create(&engine, Bucket::Names, "name", "value").unwrap();
    let (changes, _watch) = watch(&engine, Bucket::Names);
    let connected = engine.shared.store.borrow().clone().unwrap();
    let deletion = "$JS.API.STREAM.DELETE.KV_postroom_names".to_owned();
    let deleted: Result<_, Failure> =
        engine.runtime.block_on(requests::request(&connected, deletion, None, Default::default(), GUARD));
    assert!(deleted.is_ok(), "{deleted:?}");
    let (entries, revision) = snapshot(&changes);
    assert!(entries.is_empty() && revision >= last, "{entries:?} until {revision}");
    wait_until(|| match create(&engine, Bucket::Names, "name", "value") {
        Ok(revision) => revision > last,
        Err(error) => {
            assert_eq!(error, StoreError::Unavailable);
            false
        }
    });
    let (push, again) = channel();
    let _watch = engine.watch(Bucket::Names, None, push).unwrap();
    assert_eq!(snapshot(&again).0.len(), 1);
}
