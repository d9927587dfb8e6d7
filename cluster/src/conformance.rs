//! The contract of [`engine`](crate::engine) as a set of checks. The tests of each engine run them.
//!
//! A check must not depend on the speed of an engine. It waits until something has happened; to check that an event
//! does *not* happen, it waits for a later event that would have followed it.

use crate::engine::{Engine, Lane, ProbeOutcome, PublishError, SubscribeError, Subscription};
use crate::store::{Bucket, Change, Entry, Revision, StoreError};
use bytes::Bytes;
use std::sync::{Arc, Mutex};

/// The engines of two nodes, and a way to wait.
pub struct Rig<'a> {
    /// The engines of two nodes on one broker. The broker's store must be empty.
    pub engines: [&'a dyn Engine; 2],
    /// Waits until the function returns true; panics if it never does.
    pub wait: &'a dyn Fn(&mut dyn FnMut() -> bool),
}

/// Runs all checks.
pub fn check(rig: &Rig) {
    rig.messages_keep_their_order_and_find_their_subscribers();
    rig.an_engine_hears_what_it_publishes_itself();
    rig.dropped_subscriptions_are_silent();
    rig.probes_tell_whether_there_is_a_subscriber();
    rig.the_store_compares_and_sets();
    rig.one_of_many_creations_succeeds();
    rig.watches_report_all_changes_in_order();
    rig.watches_go_on_after_a_revision();
    rig.each_bucket_has_its_own_keys_revisions_and_watches();
    rig.what_is_malformed_is_refused();
    assert!(rig.engines.iter().all(|engine| engine.is_connected()));
}

/// The values that callbacks have received.
struct Received<T>(Arc<Mutex<Vec<T>>>);

impl<T: Send + 'static> Received<T> {
    fn new() -> Self {
        Self(Arc::default())
    }

    fn push(&self) -> impl FnMut(T) + Send + 'static {
        let list = Arc::clone(&self.0);
        move |value| list.lock().unwrap().push(value)
    }

    fn len(&self) -> usize {
        self.0.lock().unwrap().len()
    }

    fn take(&self) -> Vec<T> {
        std::mem::take(&mut self.0.lock().unwrap())
    }
}

impl Rig<'_> {
    fn wait(&self, mut is_so: impl FnMut() -> bool) {
        (self.wait)(&mut is_so);
    }

    /// Runs `call`, which registers a callback, and waits for the callback. Checks that the callback does not run
    /// inside `call`, and that it runs once.
    fn completed<T: Send + 'static>(&self, call: impl FnOnce(Box<dyn FnOnce(T) + Send>)) -> T {
        let received = Received::new();
        let mut push = received.push();
        let calling = Arc::new(Mutex::new(()));
        let lock = Arc::clone(&calling);
        let guard = calling.lock().unwrap();
        // If the callback runs on another thread, the lock below waits until `call` has returned. On this thread the
        // lock would deadlock, so the check comes first.
        let here = std::thread::current().id();
        call(Box::new(move |value| {
            assert!(std::thread::current().id() != here || lock.try_lock().is_ok(), "it ran inside the call");
            drop(lock.lock().unwrap());
            push(value);
        }));
        drop(guard);
        self.wait(|| received.len() > 0);
        let mut values = received.take();
        assert_eq!(values.len(), 1, "a completion runs once");
        values.remove(0)
    }

    fn create(&self, at: usize, key: &str, value: &'static str) -> Result<Revision, StoreError> {
        self.completed(|then| self.engines[at].create(Bucket::Names, key, value.into(), then))
    }

    fn update(&self, key: &str, value: &'static str, expected: Revision) -> Result<Revision, StoreError> {
        self.completed(|then| self.engines[1].update(Bucket::Names, key, value.into(), expected, then))
    }

    fn delete(&self, key: &str, expected: Revision) -> Result<Revision, StoreError> {
        self.completed(|then| self.engines[1].delete(Bucket::Names, key, expected, then))
    }

    fn get(&self, at: usize, key: &str) -> Option<Entry> {
        self.completed(|then| self.engines[at].get(Bucket::Names, key, then)).unwrap()
    }

    fn subscribe(&self, at: usize, pattern: &str) -> (Received<(String, Bytes)>, Subscription) {
        let received = Received::new();
        let mut push = received.push();
        let on_message = Box::new(move |message: crate::engine::Message| push((message.subject, message.payload)));
        let subscription = self.engines[at].subscribe(Lane::Data, pattern, on_message).unwrap();
        // The subscription may take a while to reach the broker.
        let subject = pattern.replace(['*', '>'], "ready");
        self.wait(|| {
            // Messages published before the subscription has reached it are lost, so publish again and again.
            self.engines[1 - at].publish(Lane::Data, &subject, Bytes::from_static(b"ready")).unwrap();
            received.len() > 0
        });
        let last = Bytes::from_static(b"last");
        self.engines[1 - at].publish(Lane::Data, &subject, last.clone()).unwrap();
        self.wait(|| received.0.lock().unwrap().last().is_some_and(|(_, payload)| *payload == last));
        received.take();
        (received, subscription)
    }

    fn messages_keep_their_order_and_find_their_subscribers(&self) {
        let (one, _one) = self.subscribe(1, "order.one.*");
        let (all, _all) = self.subscribe(1, "order.>");
        for number in 0..100 {
            let subject = if number % 2 == 0 { "order.one.x" } else { "order.two.x" };
            self.engines[0].publish(Lane::Data, subject, vec![number].into()).unwrap();
        }
        self.engines[0].publish(Lane::Data, "other.one.x", Bytes::new()).unwrap();
        self.engines[0].publish(Lane::Data, "order.one.x.deeper", Bytes::new()).unwrap();
        self.engines[0].publish(Lane::Data, "order.one.end", vec![200].into()).unwrap();
        self.wait(|| one.len() == 51 && all.len() == 102);
        let numbers = |received: Received<(String, Bytes)>| -> Vec<_> {
            received.take().into_iter().filter_map(|(_, payload)| payload.first().copied()).collect()
        };
        assert_eq!(numbers(one), (0..100).step_by(2).chain([200]).collect::<Vec<_>>());
        assert_eq!(numbers(all), (0..100).chain([200]).collect::<Vec<_>>());
    }

    /// Topics need this: a publisher's own subscription is treated like any other.
    fn an_engine_hears_what_it_publishes_itself(&self) {
        let (received, _subscription) = self.subscribe(1, "own.*");
        for number in 0..10 {
            self.engines[1].publish(Lane::Data, "own.x", vec![number].into()).unwrap();
        }
        self.wait(|| received.len() == 10);
        let numbers: Vec<_> = received.take().into_iter().map(|(_, payload)| payload[0]).collect();
        assert_eq!(numbers, (0..10).collect::<Vec<_>>());
    }

    fn dropped_subscriptions_are_silent(&self) {
        let (dropped, subscription) = self.subscribe(1, "dropped.*");
        let (other, _other) = self.subscribe(1, "dropped.>");
        drop(subscription);
        self.engines[0].publish(Lane::Data, "dropped.x", Bytes::from_static(b"after")).unwrap();
        self.wait(|| other.len() == 1);
        // The dropped subscription also received the messages that made the other one ready.
        assert!(dropped.take().iter().all(|(_, payload)| payload != "after"));
    }

    fn probes_tell_whether_there_is_a_subscriber(&self) {
        let probe = |subject: &str| self.completed(|then| self.engines[0].probe(subject, then));
        assert_eq!(probe("probed.x"), ProbeOutcome::NoResponders);
        let (received, subscription) = self.subscribe(1, "probed.*");
        assert_eq!(probe("probed.x"), ProbeOutcome::Responders);
        assert_eq!(received.len(), 0, "the engine answers, and not the callback");
        drop(subscription);
        self.wait(|| probe("probed.x") == ProbeOutcome::NoResponders);
    }

    fn the_store_compares_and_sets(&self) {
        let conflict = Err(StoreError::Conflict { key: "cas".into() });
        assert_eq!(self.get(0, "cas"), None);
        let first = self.create(0, "cas", "one").unwrap();
        assert_eq!(self.create(1, "cas", "two"), conflict);
        let second = self.update("cas", "two", first).unwrap();
        assert!(second > first);
        assert_eq!(self.update("cas", "three", first), conflict);
        assert_eq!(self.delete("cas", first), conflict);
        let entry = Entry { key: "cas".into(), value: "two".into(), revision: second };
        assert_eq!(self.get(0, "cas"), Some(entry));
        let third = self.delete("cas", second).unwrap();
        assert!(third > second);
        assert_eq!(self.get(0, "cas"), None);
        assert_eq!(self.update("cas", "four", second), conflict);
        assert_eq!(self.delete("cas", third), conflict);
        assert!(self.create(1, "cas", "five").unwrap() > third);
        // Each bucket has its own keys.
        let groups: Result<Option<Entry>, _> = self.completed(|then| self.engines[0].get(Bucket::Groups, "cas", then));
        assert_eq!(groups, Ok(None));
    }

    fn one_of_many_creations_succeeds(&self) {
        let received = Received::new();
        for racer in 0..64 {
            let mut push = received.push();
            let then = Box::new(move |result: Result<Revision, StoreError>| push((racer, result)));
            self.engines[racer % 2].create(Bucket::Names, "race", racer.to_string().into(), then);
        }
        self.wait(|| received.len() == 64);
        let (winners, losers): (Vec<_>, Vec<_>) = received.take().into_iter().partition(|(_, result)| result.is_ok());
        assert!(losers.iter().all(|(_, result)| matches!(result, Err(StoreError::Conflict { .. }))));
        let [(winner, Ok(revision))] = &winners[..] else { panic!("{winners:?}") };
        let entry = Entry { key: "race".into(), value: winner.to_string().into(), revision: *revision };
        assert_eq!(self.get(1, "race"), Some(entry));
    }

    fn watch(&self, after: Option<Revision>) -> (Received<Change>, Subscription) {
        let changes = Received::new();
        let watch = self.engines[0].watch(Bucket::Names, after, Box::new(changes.push())).unwrap();
        (changes, watch)
    }

    fn watches_report_all_changes_in_order(&self) {
        let put = |key: &str, value: &'static str, revision| {
            Change::Put(Entry { key: key.into(), value: value.into(), revision })
        };
        let before = self.create(1, "watch-a", "one").unwrap();
        let (changes, watch) = self.watch(None);
        self.wait(|| changes.0.lock().unwrap().iter().any(|change| matches!(change, Change::Synced { .. })));
        let snapshot = changes.take();
        assert_eq!(snapshot.first(), Some(&Change::Resync));
        assert!(snapshot.contains(&put("watch-a", "one", before)));
        assert!(matches!(snapshot.last(), Some(Change::Synced { revision }) if *revision >= before));
        let mut expected = Vec::new();
        let mut last = before;
        for _ in 0..10 {
            last = self.update("watch-a", "two", last).unwrap();
            expected.push(put("watch-a", "two", last));
        }
        let deleted = self.delete("watch-a", last).unwrap();
        expected.push(Change::Deleted { key: "watch-a".into(), revision: deleted });
        self.wait(|| changes.len() >= 11);
        assert_eq!(changes.take(), expected);
        drop(watch);
        let (fence, _fence) = self.watch(Some(deleted));
        self.create(1, "watch-b", "one").unwrap();
        self.wait(|| fence.len() == 1);
        assert_eq!(changes.len(), 0, "it was dropped");
    }

    fn watches_go_on_after_a_revision(&self) {
        let first = self.create(1, "after-a", "one").unwrap();
        let second = self.create(1, "after-b", "two").unwrap();
        let (changes, _watch) = self.watch(Some(first));
        self.wait(|| changes.len() == 1);
        let entry = Entry { key: "after-b".into(), value: "two".into(), revision: second };
        assert_eq!(changes.take(), [Change::Put(entry)]);
    }

    fn each_bucket_has_its_own_keys_revisions_and_watches(&self) {
        // The key has the form of those of group counts: a node, a dot, and the key of a name.
        let key = "7f3a.tellers=2eeu";
        // Leases have keys of another form, and expire.
        let buckets: Vec<_> = Bucket::ALL.into_iter().filter(|bucket| *bucket != Bucket::Leases).collect();
        let watch = |&bucket: &Bucket| {
            let changes = Received::new();
            let watch = self.engines[0].watch(bucket, None, Box::new(changes.push())).unwrap();
            self.wait(|| changes.0.lock().unwrap().iter().any(|change| matches!(change, Change::Synced { .. })));
            changes.take();
            (changes, watch)
        };
        let watches: Vec<_> = buckets.iter().map(watch).collect();
        for (bucket, (changes, _watch)) in buckets.iter().copied().zip(&watches) {
            let value = Bytes::from(format!("{bucket:?}"));
            let create = |then| self.engines[1].create(bucket, key, value.clone(), then);
            let revision = self.completed::<Result<Revision, StoreError>>(create).unwrap();
            let entry = Entry { key: key.into(), value: value.clone(), revision };
            let read = self.completed(|then| self.engines[0].get(bucket, key, then));
            assert_eq!(read, Ok(Some(entry.clone())));
            self.wait(|| changes.len() == 1);
            assert_eq!(changes.take(), [Change::Put(entry)]);
        }
        for (bucket, (changes, _watch)) in buckets.iter().copied().zip(&watches) {
            assert_eq!(changes.len(), 0, "the entries of the other buckets are not of {bucket:?}");
            let entry: Result<Option<Entry>, _> = self.completed(|then| self.engines[1].get(bucket, key, then));
            let revision = entry.unwrap().unwrap().revision;
            let deleted: Result<Revision, _> =
                self.completed(|then| self.engines[1].delete(bucket, key, revision, then));
            self.wait(|| changes.len() == 1);
            assert_eq!(changes.take(), [Change::Deleted { key: key.into(), revision: deleted.unwrap() }]);
        }
    }

    fn what_is_malformed_is_refused(&self) {
        for subject in ["", "a b", "a.*", "a.>", "a..b"] {
            let result = self.engines[0].publish(Lane::Control, subject, Bytes::new());
            assert!(matches!(result, Err(PublishError::BadSubject { .. })), "{subject}");
        }
        for pattern in ["", "a..b", "a.>.b"] {
            let result = self.engines[0].subscribe(Lane::Control, pattern, Box::new(|_| {}));
            assert!(matches!(result, Err(SubscribeError::BadPattern { .. })), "{pattern}");
        }
        for key in ["", "a b", ".a", "a*"] {
            let result: Result<_, _> = self.completed(|then| self.engines[0].get(Bucket::Names, key, then));
            assert_eq!(result, Err(StoreError::BadKey { key: key.into() }));
        }
        let long = Bytes::from(vec![0; 65 << 20]);
        let result = self.engines[0].publish(Lane::Data, "long", long.clone());
        assert!(matches!(result, Err(PublishError::TooLarge { .. })));
        let result: Result<_, _> = self.completed(|then| self.engines[0].create(Bucket::Names, "long", long, then));
        assert!(matches!(result, Err(StoreError::TooLarge { .. })));
    }
}
