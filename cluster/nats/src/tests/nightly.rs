//! Tests with several servers, and with stopped servers: these take longer.

mod bank;
mod leaders;
mod twenty;

use super::server::{Server, cluster, directory};
use super::{
    GUARD, channel, connect, create, delete, get, kept, next, put, reaches, subscribe, update, wait_until,
    wait_until_down, watch,
};
use crate::Nats;
use crate::table::KEPT;
use postroom_cluster::engine::{Engine, Lane, ProbeOutcome};
use postroom_cluster::store::{Bucket, Change, Revision, StoreError};
use std::fs::File;
use std::io::Write;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

/// Repeats until the server has stopped twice while a write was in flight. On a machine that stalls for seconds, the
/// connection may be given up before the write is sent; such a round does not count.
#[test]
fn a_server_that_stops_is_given_up_and_found_again() {
    let Some(server) = Server::start() else { return };
    let engine = connect(server.nats());
    let (messages, _subscription) = subscribe(&engine, Lane::Data, "again");
    let (changes, _watch) = watch(&engine, Bucket::Names);
    let (began, mut on_their_way) = (Instant::now(), 0);
    for round in 0.. {
        assert!(began.elapsed() < GUARD, "{on_their_way} of {round} writes were on their way");
        let key = format!("n{round}");
        server.pause();
        let (push, written) = channel();
        engine.create(Bucket::Names, &key, "value".into(), push);
        let (push, read) = channel();
        engine.get(Bucket::Names, &key, push);
        let (push, probed) = channel();
        engine.probe("again", push);
        // The write is reported as unknown if it was sent, and as unavailable if it was not. A read changes nothing, so
        // it is always reported as unavailable.
        let written = next(&written).unwrap_err();
        assert!(matches!(written, StoreError::Unknown | StoreError::Unavailable), "{written}");
        assert_eq!(next(&read), Err(StoreError::Unavailable));
        assert_eq!(next(&probed), ProbeOutcome::Unknown);
        wait_until_down(&engine);
        assert_eq!(get(&engine, Bucket::Names, &key), Err(StoreError::Unavailable));
        server.resume();
        engine.wait(GUARD).unwrap();
        reaches(&engine, "again", &messages);
        if written == StoreError::Unavailable {
            let mut there = None;
            wait_until(|| {
                there = get(&engine, Bucket::Names, &key).ok();
                there.is_some()
            });
            assert_eq!(there, Some(None));
        }
        let there = wait_for_create(&engine, &key);
        wait_until(|| next(&changes) == put(&key, "value", there));
        on_their_way += u32::from(written == StoreError::Unknown);
        if on_their_way == 2 {
            break;
        }
    }
}

/// Creates an entry that an earlier attempt may already have created.
fn wait_for_create(engine: &dyn Engine, key: &str) -> Revision {
    let mut revision = None;
    wait_until(|| {
        revision = match create(engine, Bucket::Names, key, "value") {
            Ok(revision) => Some(revision),
            Err(_) => get(engine, Bucket::Names, key).ok().flatten().map(|entry| entry.revision),
        };
        revision.is_some()
    });
    revision.unwrap()
}

/// The store continues with two of three servers, whichever was the leader, and loses no confirmed write.
#[test]
fn the_store_survives_the_loss_of_its_leaders() {
    let Some(mut servers) = cluster(3) else { return };
    let addresses: Vec<_> = servers.iter().map(|server| format!("127.0.0.1:{}", server.port())).collect();
    let nats = || Nats::at(addresses.join(",")).replicas(3);
    let (here, there) = (connect(nats()), connect(nats()));
    let (messages, _subscription) = subscribe(&here, Lane::Data, "again");
    let (changes, _watch) = watch(&here, Bucket::Names);
    let mut last = wait_for_create(&there, "kept");
    let mut confirmed = vec![last];
    for (killed, server) in servers.iter_mut().enumerate() {
        server.kill();
        // Some of these writes find a store without a leader.
        for _ in 0..20 {
            let key = format!("k{killed}-{}", confirmed.len());
            wait_for_create(&there, &key);
            wait_until(|| match update(&there, "kept", "value", last) {
                Ok(revision) => {
                    assert!(revision > last);
                    last = revision;
                    confirmed.push(revision);
                    true
                }
                Err(StoreError::Unavailable) => false,
                // The answer to an earlier attempt was lost.
                Err(_) => {
                    if let Ok(Some(entry)) = get(&there, Bucket::Names, "kept") {
                        assert!(entry.revision >= last, "what was confirmed is gone");
                        last = entry.revision;
                    }
                    false
                }
            });
        }
        let mut kept = None;
        wait_until(|| {
            kept = get(&there, Bucket::Names, "kept").ok();
            kept.is_some()
        });
        assert_eq!(kept.flatten().map(|entry| entry.revision), Some(last));
        server.restart();
        here.wait(GUARD).unwrap();
        there.wait(GUARD).unwrap();
        reaches(&there, "again", &messages);
    }
    // Unless there is a resync between them, the changes arrive in order. Either way, the last change arrives.
    let mut seen = None;
    while seen != Some(last) {
        match next(&changes) {
            Change::Put(entry) => {
                assert!(seen.is_none_or(|seen| entry.revision > seen), "{:?} after {seen:?}", entry.revision);
                seen = Some(entry.revision);
            }
            Change::Synced { revision } => assert!(seen.is_none_or(|seen| revision >= seen)),
            Change::Resync => seen = None,
            change @ Change::Deleted { .. } => panic!("{change:?}"),
        }
    }
}

/// Like the test that `.ci/run` runs, but with so many rounds that each engine is the first to reconnect in some of
/// them.
#[test]
fn revisions_grow_from_one_store_to_the_next_each_time() {
    super::replaced::check_that_revisions_grow(10);
}

/// This takes a minute, since tombstones are kept for that long.
#[test]
fn tombstones_are_purged_in_time() {
    let Some(server) = Server::start() else { return };
    let engine = connect(server.nats());
    for key in ["one", "two"] {
        let created = create(&engine, Bucket::Names, key, "value").unwrap();
        delete(&engine, Bucket::Names, key, created).unwrap();
    }
    let (changes, _watch) = watch(&engine, Bucket::Names);
    assert_eq!(kept(&engine, Bucket::Names), 4);
    let began = Instant::now();
    while kept(&engine, Bucket::Names) > 0 {
        assert!(began.elapsed() < KEPT + GUARD, "they are still there");
        std::thread::sleep(Duration::from_millis(100));
    }
    // The purge has not made the watch miss anything.
    let revision = create(&engine, Bucket::Names, "one", "again").unwrap();
    assert_eq!(next(&changes), put("one", "again", revision));
}

/// A separate file system of a few megabytes.
struct SmallDisk(PathBuf);

impl SmallDisk {
    /// Mounts the file system. Prints a message and returns `None` if this program is not allowed to mount one.
    fn mount() -> Option<Self> {
        let place = directory();
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", "size=8m", "tmpfs"]).arg(&place);
        if mount.status().is_ok_and(|status| status.success()) {
            return Some(Self(place));
        }
        // Bypasses the capture of the test's output.
        let _ = writeln!(std::io::stderr(), "SKIPPED, since it must mount a file system, as root: a full disk");
        None
    }

    /// Fills the disk to the last byte.
    fn fill(&self) {
        let mut file = File::create(self.0.join("filler")).unwrap();
        while file.write_all(&[0; 4_096]).is_ok() {}
        while file.write_all(&[0]).is_ok() {}
    }

    fn make_room(&self) {
        std::fs::remove_file(self.0.join("filler")).unwrap();
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("--lazy").arg(&self.0).status();
    }
}

/// Every write gets an answer, even if only a refusal; all confirmed writes are still there when the disk has room
/// again.
#[test]
fn a_server_whose_disk_is_full_loses_nothing_that_it_has_confirmed() {
    let Some(disk) = SmallDisk::mount() else { return };
    let configuration = format!("jetstream {{ store_dir: {:?} }}\n", disk.0);
    let Some(mut server) = Server::with(&[], &configuration) else { return };
    let engine = connect(server.nats());
    let mut confirmed = vec![("first".to_owned(), create(&engine, Bucket::Names, "first", "value").unwrap())];
    disk.fill();
    let mut refused = 0;
    for number in 0.. {
        let key = format!("n{number}");
        match create(&engine, Bucket::Names, &key, "value") {
            // The file system may have had room within an existing block.
            Ok(revision) => confirmed.push((key, revision)),
            Err(StoreError::Full { .. } | StoreError::Unavailable | StoreError::Unknown) => refused += 1,
            Err(other) => panic!("{other:?} of a full disk"),
        }
        if refused == 5 {
            break;
        }
    }
    disk.make_room();
    server.restart();
    for (key, revision) in &confirmed {
        wait_until(|| get(&engine, Bucket::Names, key).is_ok());
        let entry = get(&engine, Bucket::Names, key).unwrap();
        assert_eq!(entry.map(|entry| entry.revision), Some(*revision), "{key} of {}", confirmed.len());
    }
    wait_for_create(&engine, "new");
}
