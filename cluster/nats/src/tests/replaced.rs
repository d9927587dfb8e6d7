//! The server's store is lost, replaced by an older copy, or deleted by someone. `cluster/src/store/floor.rs` contains
//! the argument why that is safe.

use super::server::Server;
use super::{GUARD, channel, connect, create, delete, get, next, put, wait_until, wait_until_down, watch};
use crate::requests::{self, Failure};
use crate::store::prepare_tables;
use crate::table::StoreTable;
use crate::{NatsEngine, Problem};
use postroom_cluster::engine::{Engine, Lane};
use postroom_cluster::store::{Bucket, Change, Revision, StoreError};
use serde_json::{Value, json};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Receiver;
use std::time::{SystemTime, UNIX_EPOCH};

/// The state of the server's store after a restart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Back {
    Empty,
    OlderCopy,
}

fn reconnected(engine: &NatsEngine) {
    engine.wait(GUARD).unwrap();
}

/// Reads the reports of a watch up to the end of a snapshot.
fn snapshot(changes: &Receiver<Change>) -> (Vec<Change>, Revision) {
    while next(changes) != Change::Resync {}
    let mut entries = Vec::new();
    loop {
        match next(changes) {
            Change::Synced { revision } => return (entries, revision),
            // The watch was interrupted once more.
            Change::Resync => entries.clear(),
            change => entries.push(change),
        }
    }
}

/// Checks two things, whichever engine reconnects first. Writes have greater revisions than all earlier writes. And a
/// watch reports the current entries, and none of the earlier ones.
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
        // These writes make the copy older than the store.
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

/// If no engine is left that knows the old store, the clock ensures the order.
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

/// A restart with the stored data loses nothing, so no table is emptied.
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

/// Sends a request about the table of names to the server.
fn ask(engine: &NatsEngine, question: &str, payload: &str) -> Result<Value, Failure> {
    let connected = engine.shared.lane(Lane::Control).connected().unwrap();
    let subject = format!("$JS.API.STREAM.{question}.KV_postroom_names");
    engine.runtime.block_on(requests::request(&connected, subject, None, payload.to_owned().into(), GUARD))
}

/// Deletes the table of names, and replaces it with one that differs in one field.
fn replace_names(engine: &NatsEngine, field: &str, value: Value) {
    let mut configuration = StoreTable::new("postroom", Bucket::Names).configuration(&engine.shared.settings);
    configuration[field] = value;
    ask(engine, "DELETE", "").unwrap();
    ask(engine, "CREATE", &configuration.to_string()).unwrap();
}

/// Runs `work` while this engine and another one continually write leases.
fn while_leases_are_written(here: &NatsEngine, there: &NatsEngine, work: impl FnOnce()) {
    let (changes, _watch) = watch(here, Bucket::Leases);
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for (engine, key) in [(here, "eu-1.7f"), (there, "eu-2.21")] {
            let is_over = &is_over;
            scope.spawn(move || {
                let mut last = create(engine, Bucket::Leases, key, "value").unwrap();
                while !is_over.load(Ordering::Relaxed) {
                    let (push, answers) = channel();
                    engine.update(Bucket::Leases, key, "value".into(), last, push);
                    last = next(&answers).unwrap();
                }
            });
        }
        // Waits until both have begun.
        for _ in 0..10 {
            next(&changes);
        }
        let result = catch_unwind(AssertUnwindSafe(work));
        is_over.store(true, Ordering::Relaxed);
        result.unwrap_or_else(|panic| resume_unwind(panic));
    });
}

/// Catches: an answer compared with revisions that were seen after the question. A healthy store then looks like an
/// older one, and is emptied.
#[test]
fn a_store_that_is_written_to_while_it_is_prepared_is_kept() {
    let Some(server) = Server::start() else { return };
    let (here, there) = (connect(server.nats()), connect(server.nats()));
    let created = create(&here, Bucket::Names, "name", "value").unwrap();
    let connected = here.shared.store.borrow().clone().unwrap();
    while_leases_are_written(&here, &there, || {
        for round in 0..1_000 {
            here.runtime.block_on(prepare_tables(&here.shared, &connected)).unwrap();
            let there = get(&here, Bucket::Names, "name").unwrap().map(|entry| entry.revision);
            assert_eq!(there, Some(created), "after {round} preparations");
        }
    });
}

/// Catches: the same mistake when a watch begins.
#[test]
fn a_watch_that_begins_while_much_is_written_does_not_doubt_the_store() {
    let Some(server) = Server::start() else { return };
    let (here, there) = (connect(server.nats()), connect(server.nats()));
    let mut store = here.shared.store.subscribe();
    store.mark_unchanged();
    while_leases_are_written(&here, &there, || {
        for _ in 0..300 {
            let (_changes, _watch) = watch(&here, Bucket::Leases);
        }
    });
    assert!(!store.has_changed().unwrap());
}

/// Catches: a table that was replaced while the connection lasts, and assigns revisions from its own beginning.
#[test]
fn a_write_to_a_table_that_was_replaced_is_not_confirmed() {
    let Some(server) = Server::start() else { return };
    let engine = connect(server.nats());
    let last = create(&engine, Bucket::Names, "name", "value").unwrap();
    replace_names(&engine, "first_seq", json!(7));
    let first = create(&engine, Bucket::Names, "name", "value");
    assert_eq!(first, Err(StoreError::Unknown), "after {last}: what came of it is not known");
    let mut next = Revision(0);
    wait_until(|| {
        create(&engine, Bucket::Names, "name", "value").is_ok_and(|revision| {
            next = revision;
            true
        })
    });
    assert!(next > last, "{next} after {last}");
}

/// Catches: a preparation that was caused by a watch, and whose problem is not reported.
#[test]
fn a_table_that_was_replaced_by_one_that_differs_is_named() {
    let Some(server) = Server::start() else { return };
    let engine = connect(server.nats());
    let last = create(&engine, Bucket::Names, "name", "value").unwrap();
    let (changes, _watch) = watch(&engine, Bucket::Names);
    replace_names(&engine, "max_msgs", json!(5));
    wait_until(|| matches!(engine.problem(), Some(Problem::BucketDiffers { field: "max_msgs", .. })));
    assert!(engine.problem().unwrap().is_lasting());
    // An operator corrects the configuration.
    let configuration = StoreTable::new("postroom", Bucket::Names).configuration(&engine.shared.settings);
    ask(&engine, "UPDATE", &configuration.to_string()).unwrap();
    wait_until(|| engine.problem().is_none());
    let (entries, revision) = snapshot(&changes);
    assert!(entries.is_empty() && revision >= last, "{entries:?} until {revision}");
    assert!(create(&engine, Bucket::Names, "name", "value").unwrap() > last);
}

/// A table that is deleted while all engines are connected is created again by the engines that watch it.
#[test]
fn a_table_that_is_deleted_is_created_anew() {
    let Some(server) = Server::start() else { return };
    let engine = connect(server.nats());
    let last = create(&engine, Bucket::Names, "name", "value").unwrap();
    let (changes, _watch) = watch(&engine, Bucket::Names);
    ask(&engine, "DELETE", "").unwrap();
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
