//! The public API of cluster topics.

use super::Cluster;
use crate::codec::shape::shape_of;
use crate::codec::{decode_value, encode_value};
use crate::directory::is_name;
use crate::engine::{Lane, Message, Subscription};
use crate::node::directory::{Channel, Directory};
use crate::topics::{Backlog, EncodedEvent, TopicPublishError, TopicSubscribeError, subject};
use postroom::__private::discard_panic;
use postroom::Pid;
use postroom::error::SendFailure;
use postroom::generic::SendTo;
use postroom::remote::RemoteValue;
use std::any::{TypeId, type_name};
use std::collections::BTreeSet;
use std::fmt;
use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The maximum number of events that are handed out before other work gets a turn.
const BATCH: usize = 64;

impl Cluster {
    /// Returns a handle to the topic with this name for events of type `E`. Handles are cheap to clone. **Events may be
    /// lost** without notice; each subscriber gets an event at most once. For messages that must arrive, use a
    /// [group](Self::group).
    ///
    /// ```
    /// # use postroom_cluster::Cluster;
    /// # use postroom_cluster::memory::Broker;
    /// use postroom::prelude::*;
    /// use postroom::Mailbox;
    /// use serde::{Deserialize, Serialize};
    ///
    /// #[derive(Serialize, Deserialize)]
    /// struct Price { of: String, cents: u64 }
    ///
    /// # let runtime = Runtime::new()?;
    /// # let broker = Broker::new();
    /// # let _running = broker.run();
    /// let cluster = Cluster::builder("bank").join(&runtime, broker.connect())?;
    /// let prices = cluster.topic::<Price>("prices");
    /// let mut mailbox = Mailbox::new()?; // a process can subscribe too
    /// prices.subscribe(mailbox.pid())?;
    /// prices.publish(Price { of: "gold".into(), cents: 9_950 })?;
    /// let price = mailbox.receive().take::<Price>().ok().map(|price| price.cents);
    /// assert_eq!(price, Some(9_950));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn topic<E: RemoteValue>(&self, name: impl Into<Arc<str>>) -> ClusterTopic<E> {
        ClusterTopic {
            directory: Arc::clone(&self.shared.directory),
            name: name.into(),
            shape: shape_of::<E>(),
            event: PhantomData,
        }
    }
}

/// A topic for events of type `E` on all nodes of a cluster, from [`Cluster::topic`].
///
/// An event is one plain message of the broker. It is lost if the broker loses it, if the subscriber's node is cut off,
/// or if there is no room: up to 1,024 events per topic wait on a node, and a subscriber with a full mailbox misses the
/// event. Events for which there is no room are counted in [`Statistics::missed`](crate::Statistics::missed). An event
/// of a type with other fields is not decoded: it is counted in
/// [`Statistics::mismatched`](crate::Statistics::mismatched), and logged once.
pub struct ClusterTopic<E> {
    directory: Arc<Directory>,
    name: Arc<str>,
    shape: u64,
    event: PhantomData<fn(E)>,
}

impl<E: RemoteValue> ClusterTopic<E> {
    /// Returns the topic's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Publishes an event to the subscribers on all nodes, including this one. Never waits. `Ok` means that the engine
    /// has accepted the event.
    ///
    /// # Errors
    /// A [`TopicPublishError`] if the event was certainly not published.
    pub fn publish(&self, event: E) -> Result<(), TopicPublishError> {
        if !is_name(&self.name) {
            return Err(TopicPublishError::Length { bytes: self.name.len() });
        }
        let value = encode_value(&event)?;
        let event = EncodedEvent { shape: self.shape, type_name: type_name::<E>().to_owned(), value };
        if !self.directory.gate.may_send(self.directory.now()) {
            return Err(TopicPublishError::NotAMember);
        }
        let subject = subject(&self.directory.cluster, &self.name);
        let engine = self.directory.engine.upgrade().ok_or(TopicPublishError::NotAMember)?;
        Ok(engine.publish(Lane::Data, &subject, event.encode())?)
    }

    fn channel(&self) -> (String, TypeId) {
        (self.name.to_string(), TypeId::of::<E>())
    }

    /// Subscribes a process of this node, or a [`Mailbox`](postroom::Mailbox): each event arrives as a message of type
    /// `E`. The subscription reaches the broker some time later. Returns true if the subscriber was not subscribed
    /// before.
    ///
    /// # Errors
    /// A [`TopicSubscribeError`] if the process has ended or runs on another node, or the name is not valid.
    pub fn subscribe(&self, subscriber: impl SendTo<E>) -> Result<bool, TopicSubscribeError> {
        let (pid, directory) = (super::held_by(subscriber.target()), &self.directory);
        match () {
            () if !is_name(&self.name) => return Err(TopicSubscribeError::Length { bytes: self.name.len() }),
            () if pid.node() != directory.node => return Err(TopicSubscribeError::Elsewhere { pid }),
            () if !pid.is_alive() => return Err(TopicSubscribeError::Ended { pid }),
            () => {}
        }
        let mut topics = directory.topics();
        // Checked under the lock of the topics: a subscription that is added after the node has left would never be
        // removed.
        if directory.lock().is_over {
            return Err(TopicSubscribeError::Left);
        }
        let is_new = match topics.get(&self.channel()) {
            Some(channel) => lock(channel.subscribers()).insert(pid),
            None => {
                let channel = self.open(pid)?;
                topics.insert(self.channel(), channel);
                true
            }
        };
        drop(topics);
        // If the process has ended in the meantime, `watch` still reports its end.
        if directory.watch(pid) { Ok(is_new) } else { Err(TopicSubscribeError::Left) }
    }

    fn open(&self, pid: Pid) -> Result<Arc<dyn Channel>, TopicSubscribeError> {
        let channel = Arc::new(Subscribed::<E> {
            name: Arc::clone(&self.name),
            shape: self.shape,
            backlog: Mutex::default(),
            subscribers: Mutex::new(BTreeSet::from([pid])),
            subscription: Mutex::new(None),
            is_logged: AtomicBool::new(false),
            event: PhantomData,
        });
        let (directory, weak) = (Arc::clone(&self.directory), Arc::downgrade(&channel));
        let on_message = Box::new(move |message: Message| {
            let Some(channel) = weak.upgrade() else { return };
            let mut backlog = lock(&channel.backlog);
            let before = backlog.dropped();
            let (begins, is_dropped) = (backlog.push(message.payload), backlog.dropped() > before);
            drop(backlog);
            if is_dropped {
                directory.counters.missed.fetch_add(1, Ordering::Relaxed);
            }
            if begins {
                hand_out(&directory, channel);
            }
        });
        let subject = subject(&self.directory.cluster, &self.name);
        let engine = self.directory.engine.upgrade().ok_or(TopicSubscribeError::Left)?;
        let subscription = engine.subscribe(Lane::Data, &subject, on_message)?;
        *lock(&channel.subscription) = Some(subscription);
        Ok(channel)
    }

    /// Ends a subscription. Events that are already in the mailbox stay. Returns whether the process was subscribed.
    pub fn unsubscribe(&self, subscriber: impl SendTo<E>) -> bool {
        self.directory.unsubscribe(&self.channel(), super::held_by(subscriber.target()))
    }
}

/// Has a porter hand out the waiting events, a batch at a time.
fn hand_out(directory: &Arc<Directory>, channel: Arc<dyn Channel>) {
    let again = Arc::clone(directory);
    directory.run(Box::new(move || {
        if channel.hand_out(&again) {
            hand_out(&again, channel);
        }
    }));
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The subscribers on this node to the events of one topic and type.
struct Subscribed<E> {
    name: Arc<str>,
    shape: u64,
    backlog: Mutex<Backlog>,
    subscribers: Mutex<BTreeSet<Pid>>,
    subscription: Mutex<Option<Subscription>>,
    is_logged: AtomicBool,
    event: PhantomData<fn(E)>,
}

impl<E: RemoteValue> Channel for Subscribed<E> {
    fn subscribers(&self) -> &Mutex<BTreeSet<Pid>> {
        &self.subscribers
    }

    fn hand_out(&self, directory: &Directory) -> bool {
        for _ in 0..BATCH {
            let event = lock(&self.backlog).pop();
            let Some(event) = event else { return false };
            let Some(event) = EncodedEvent::decode(event) else {
                directory.counters.undecodable.fetch_add(1, Ordering::Relaxed);
                continue;
            };
            // A panic in the code of the event's type costs only this event.
            let handed_out = catch_unwind(AssertUnwindSafe(|| self.hand_out_one(directory, &event)));
            if let Err(panic) = handed_out {
                discard_panic(panic);
                directory.counters.undecodable.fetch_add(1, Ordering::Relaxed);
            }
        }
        true
    }
}

impl<E: RemoteValue> Subscribed<E> {
    fn hand_out_one(&self, directory: &Directory, event: &EncodedEvent) {
        if event.shape != self.shape {
            directory.counters.mismatched.fetch_add(1, Ordering::Relaxed);
            if !self.is_logged.swap(true, Ordering::Relaxed) {
                tracing::warn!(
                    target: "postroom",
                    topic = &*self.name,
                    expected = type_name::<E>(),
                    found = event.type_name,
                    "events of a topic have another shape than this node expects; they are counted and dropped"
                );
            }
            return;
        }
        let subscribers: Vec<_> = lock(&self.subscribers).iter().copied().collect();
        for pid in subscribers {
            // The event is decoded for each subscriber, so that it need not be `Clone`. The messages that the macro
            // generates are not.
            let Ok(value) = decode_value::<E>(&event.value) else {
                directory.counters.undecodable.fetch_add(1, Ordering::Relaxed);
                return;
            };
            let sent = directory.host.try_send(pid, value);
            // A subscriber that has ended is removed when its end is reported.
            if sent.is_err_and(|refused| matches!(refused.reason, SendFailure::Full(_))) {
                directory.counters.missed.fetch_add(1, Ordering::Relaxed);
            }
        }
    }
}

impl<E> Clone for ClusterTopic<E> {
    fn clone(&self) -> Self {
        Self {
            directory: Arc::clone(&self.directory),
            name: Arc::clone(&self.name),
            shape: self.shape,
            event: PhantomData,
        }
    }
}

impl<E> fmt::Debug for ClusterTopic<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClusterTopic").field("name", &self.name).field("event", &type_name::<E>()).finish()
    }
}
