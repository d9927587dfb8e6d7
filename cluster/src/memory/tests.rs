//! Tests of the engine in memory: it keeps the contract of engines, and its own promises.

use super::*;
use crate::conformance::{Rig, check};
use crate::engine::ProbeOutcome;
use crate::store::{Change, Entry, StoreError};
use std::sync::mpsc;

/// Returns a callback that sends everything that it receives to a channel.
fn channel<T: Send + 'static>() -> (Box<dyn FnMut(T) + Send>, mpsc::Receiver<T>) {
    let (sender, receiver) = mpsc::channel();
    (Box::new(move |value| drop(sender.send(value))), receiver)
}

fn all<T>(receiver: &mpsc::Receiver<T>) -> Vec<T> {
    receiver.try_iter().collect()
}

fn run(broker: &Broker) {
    while broker.step() {}
}

fn create(client: &Client, bucket: Bucket, key: &str) -> mpsc::Receiver<Result<Revision, StoreError>> {
    let (push, receiver) = channel();
    client.create(bucket, key, "value".into(), push);
    receiver
}

#[test]
fn it_keeps_the_contract_of_engines() {
    let broker = Broker::new();
    let engines = [broker.connect(), broker.connect()];
    check(&Rig {
        engines: [&engines[0], &engines[1]],
        wait: &|is_so| {
            while !is_so() {
                assert!(broker.step(), "nothing more happens, and it is not so");
            }
        },
    });
}

/// Catches: a request that owns the broker, which owns the request until it is performed.
#[test]
fn a_broker_without_clients_is_dropped_with_its_requests() {
    let broker = Broker::new();
    let answers = create(&broker.connect(), Bucket::Names, "acct-7");
    let state = Arc::downgrade(&broker.state);
    drop(broker);
    assert_eq!(state.strong_count(), 0);
    assert_eq!(answers.try_recv(), Err(mpsc::TryRecvError::Disconnected));
}

#[test]
fn a_step_does_one_thing() {
    let broker = Broker::new();
    let client = broker.connect();
    let (push, messages) = channel();
    let _subscription = client.subscribe(Lane::Data, "a", push).unwrap();
    client.publish(Lane::Data, "a", Bytes::new()).unwrap();
    client.publish(Lane::Data, "a", Bytes::new()).unwrap();
    let seen: Vec<_> = std::iter::from_fn(|| broker.step().then(|| all(&messages).len())).collect();
    assert_eq!(seen, [0, 0, 1, 1]);
}

#[test]
fn a_queue_that_is_full_is_busy_in_its_lane_only() {
    let broker = Broker::new();
    let client = broker.connect();
    for _ in 0..MAX_QUEUED {
        client.publish(Lane::Data, "a", Bytes::new()).unwrap();
    }
    assert_eq!(client.publish(Lane::Data, "a", Bytes::new()), Err(PublishError::Busy));
    assert_eq!(client.publish(Lane::Control, "a", Bytes::new()), Ok(()));
    broker.step();
    assert_eq!(client.publish(Lane::Data, "a", Bytes::new()), Ok(()));
}

#[test]
fn a_broken_connection_loses_what_is_on_its_way_and_comes_back_with_a_snapshot() {
    let broker = Broker::new();
    let (here, there) = (broker.connect(), broker.connect());
    let (push, messages) = channel();
    let _subscription = here.subscribe(Lane::Data, "a", push).unwrap();
    let (push, changes) = channel();
    let _watch = here.watch(Bucket::Nodes, None, push).unwrap();
    run(&broker);
    assert_eq!(all(&changes), [Change::Resync, Change::Synced { revision: Revision(0) }]);

    there.publish(Lane::Data, "a", "lost".into()).unwrap();
    create(&there, Bucket::Nodes, "n");
    broker.step();
    broker.step();
    here.disconnect();
    assert!(!here.is_connected());
    assert_eq!(here.publish(Lane::Data, "a", Bytes::new()), Err(PublishError::Disconnected));
    let refused = create(&here, Bucket::Nodes, "m");
    let (push, outcomes) = channel();
    there.probe("a", push);
    let (push, own) = channel();
    here.probe("a", push);
    // All five jobs are processed while the connection is down.
    let tries: Vec<_> = (0..6).map(|_| broker.step()).collect();
    assert_eq!(tries, [true, true, true, true, true, false]);
    assert_eq!(all(&refused), [Err(StoreError::Unavailable)]);
    assert_eq!((all(&outcomes), all(&own)), (vec![ProbeOutcome::NoResponders], vec![ProbeOutcome::Unknown]));

    there.publish(Lane::Data, "a", "lost too".into()).unwrap();
    run(&broker);
    here.reconnect();
    there.publish(Lane::Data, "a", "heard".into()).unwrap();
    run(&broker);
    assert_eq!(all(&messages).into_iter().map(|message| message.payload).collect::<Vec<_>>(), ["heard"]);
    let entry = Entry { key: "n".into(), value: "value".into(), revision: Revision(1) };
    assert_eq!(all(&changes), [Change::Resync, Change::Put(entry), Change::Synced { revision: Revision(1) }]);
}

#[test]
fn what_was_on_its_way_at_a_break_is_not_delivered_after_it() {
    let broker = Broker::new();
    let (here, there) = (broker.connect(), broker.connect());
    let (push, messages) = channel();
    let _subscription = here.subscribe(Lane::Data, "a", push).unwrap();
    there.publish(Lane::Data, "a", Bytes::new()).unwrap();
    broker.step();
    here.disconnect();
    here.reconnect();
    run(&broker);
    assert_eq!(all(&messages), []);
}

#[test]
fn leases_expire_by_the_brokers_clock_and_nothing_else_does() {
    let broker = Broker::new();
    let client = broker.connect();
    let (push, changes) = channel();
    let _watch = client.watch(Bucket::Leases, None, push).unwrap();
    create(&client, Bucket::Leases, "l");
    create(&client, Bucket::Nodes, "l");
    run(&broker);
    broker.advance(Bucket::LEASE_TTL - Duration::from_secs(1));
    client.update(Bucket::Leases, "l", "again".into(), Revision(1), Box::new(|_| {}));
    run(&broker);
    broker.advance(Bucket::LEASE_TTL - Duration::from_millis(1));
    run(&broker);
    assert_eq!(all(&changes).len(), 4);
    broker.advance(Duration::from_millis(1));
    run(&broker);
    assert_eq!(all(&changes), [Change::Deleted { key: "l".into(), revision: Revision(3) }]);
    assert_eq!(all(&create(&client, Bucket::Leases, "l")), []);
    let conflict = create(&client, Bucket::Nodes, "l");
    run(&broker);
    assert!(matches!(all(&conflict)[..], [Err(StoreError::Conflict { .. })]));
}

#[test]
fn a_change_before_the_snapshot_is_reported_in_it_only() {
    let broker = Broker::new();
    let client = broker.connect();
    create(&client, Bucket::Names, "a");
    let (push, changes) = channel();
    let _watch = client.watch(Bucket::Names, None, push).unwrap();
    run(&broker);
    let entry = Entry { key: "a".into(), value: "value".into(), revision: Revision(1) };
    assert_eq!(all(&changes), [Change::Resync, Change::Put(entry), Change::Synced { revision: Revision(1) }]);
}

#[test]
fn a_watch_of_what_is_no_longer_known_begins_with_a_snapshot() {
    let broker = Broker::new();
    let client = broker.connect();
    let before = create(&client, Bucket::Names, "a");
    run(&broker);
    let mut last = all(&before)[0].clone().unwrap();
    for _ in 0..MAX_HISTORY {
        client.update(Bucket::Names, "a", Bytes::new(), last, Box::new(|_| {}));
        last = Revision(last.0 + 1);
    }
    run(&broker);
    for (after, count) in [(0, 3), (1, MAX_HISTORY), (MAX_HISTORY as u64 + 1, 0), (u64::MAX, 3)] {
        let (push, changes) = channel();
        let _watch = client.watch(Bucket::Names, Some(Revision(after)), push).unwrap();
        run(&broker);
        assert_eq!(all(&changes).len(), count, "after {after}");
    }
}

#[test]
fn what_is_asked_of_a_closed_engine_is_answered() {
    let broker = Broker::new();
    let client = broker.connect();
    let pending = create(&client, Bucket::Names, "a");
    client.close();
    let later = create(&client, Bucket::Names, "b");
    run(&broker);
    assert_eq!((all(&pending), all(&later)), (vec![Err(StoreError::Closed)], vec![Err(StoreError::Closed)]));
    assert_eq!(client.publish(Lane::Data, "a", Bytes::new()), Err(PublishError::Closed));
    assert!(matches!(client.subscribe(Lane::Data, "a", Box::new(|_| {})), Err(SubscribeError::Closed)));
    assert!(matches!(client.watch(Bucket::Names, None, Box::new(|_| {})), Err(SubscribeError::Closed)));
    client.reconnect();
    assert!(!client.is_connected());
}

/// Panics when it is dropped.
struct Bomb;

impl Drop for Bomb {
    fn drop(&mut self) {
        panic!("as users' code may");
    }
}

#[test]
fn callbacks_may_panic_step_and_drop_their_own_subscription() {
    let broker = Broker::new();
    let client = Arc::new(broker.connect());
    let own: Arc<Mutex<Option<Subscription>>> = Arc::default();
    let (mut push, calls) = channel();
    let (inner, held) = (broker.clone(), Arc::clone(&own));
    let mut count = 0;
    let on_message = Box::new(move |_| {
        count += 1;
        push((count, inner.step()));
        match count {
            1 => std::panic::panic_any(Bomb),
            2 => drop(held.lock().unwrap().take()),
            _ => {}
        }
    });
    *own.lock().unwrap() = Some(client.subscribe(Lane::Data, "a", on_message).unwrap());
    for _ in 0..4 {
        client.publish(Lane::Data, "a", Bytes::new()).unwrap();
    }
    run(&broker);
    assert_eq!(all(&calls), [(1, false), (2, false)]);
}

fn written(broker: &Broker, client: &Client, bucket: Bucket, key: &str) -> Revision {
    let answers = create(client, bucket, key);
    run(broker);
    answers.try_recv().unwrap().unwrap()
}

/// Whatever happens to the store, its revisions grow, and watches report its new state, even without a clock.
#[test]
fn revisions_grow_from_one_store_to_the_next() {
    for has_no_clock in [false, true] {
        let broker = Broker::new();
        broker.lock().has_no_clock = has_no_clock;
        let (here, there) = (broker.connect(), broker.connect());
        let (push, changes) = channel();
        let _watch = there.watch(Bucket::Names, None, push).unwrap();
        let mut last = written(&broker, &here, Bucket::Names, "a");
        for round in 0..3 {
            broker.advance(Duration::from_secs(60));
            let copy = broker.copy_store();
            written(&broker, &here, Bucket::Leases, &format!("eu-1.{round}"));
            let lost = written(&broker, &here, Bucket::Names, &format!("b{round}"));
            assert!(lost > last);
            all(&changes);
            match round {
                1 => broker.restore(copy),
                _ => broker.lose_store(),
            }
            // The client to which the revision was only reported reconnects first, then the one that wrote it.
            there.reconnect();
            here.reconnect();
            run(&broker);
            let heard = all(&changes);
            assert_eq!(heard.first(), Some(&Change::Resync));
            let Some(Change::Synced { revision }) = heard.last() else { panic!("{heard:?}") };
            assert!(heard.len() == 2 && *revision >= lost, "{heard:?}");
            last = written(&broker, &there, Bucket::Names, "a");
            assert!(last > lost, "{last} after {lost}");
            assert!(matches!(&all(&changes)[..], [Change::Put(entry)] if entry.revision == last));
        }
    }
}

/// A copy of the store's current state is not an older store: nothing is lost.
#[test]
fn a_copy_of_what_is_there_loses_nothing() {
    let broker = Broker::new();
    let client = broker.connect();
    let before = written(&broker, &client, Bucket::Names, "a");
    broker.restore(broker.copy_store());
    client.reconnect();
    assert_eq!(written(&broker, &client, Bucket::Names, "b"), Revision(before.0 + 1));
}
