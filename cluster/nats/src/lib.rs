//! The engine of [`postroom_cluster`] on [NATS](https://nats.io): messages over its subjects, and a store in its
//! JetStream. The guide says [how to run the server] and how to [secure a cluster].
//!
//! ```no_run
//! use postroom_cluster::Cluster;
//! use postroom_nats::Nats;
//!
//! let runtime = postroom::Runtime::new()?;
//! let nats = Nats::at("nats://127.0.0.1:4222");
//! let cluster = Cluster::builder("bank").node("eu-1").join(&runtime, nats)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! [`Nats`] contains the addresses of the servers and other settings; [`Nats::start`] returns the [`NatsEngine`]. It
//! needs `nats-server` 2.12 or newer with JetStream (`nats-server -js`), and creates its tables there itself. It
//! connects when it can, and reconnects while it is open; [`NatsEngine::problem`] returns why it is not connected.
//!
//! ```text
//!  callers ──► queue of each lane ──► connection Data    ──┐
//!          ──► questions ───────────► connection Control ──┴─► servers
//!  callbacks ◄── subscriptions, watches, answers ◄────────────┘
//! └─ any thread ─┘ └──────── thread "postroom-nats" ────────┘
//! ```
//!
//! All callbacks run on the engine's own thread. A callback that blocks stops the engine, including leases and
//! keepalives.
//!
//! | module | responsibility |
//! |---|---|
//! | `completion` | contains panics of callbacks, and answers each question exactly once |
//! | `connection` | the state of a lane that all threads see: its connection, and its queue of outgoing messages |
//! | `lane` | connects, and reconnects when a connection breaks |
//! | `problem`, `settings` | the user's view: the addresses of the servers, and why there is no connection |
//! | `replay`, `watch` | watches that never miss a change without reporting it |
//! | `requests`, `store` | the store, and its compare and set |
//! | `table`, `tombstones` | the tables of the store, and the removal of old deletions |
//! | `subscriptions` | subscriptions and probes |
//!
//! # A silent network
//! A node whose network silently drops everything is considered lost by the other nodes within 6 s:
//!
//! ```text
//!  server gives up the connection 4.0  +  probe 0.5  +  until the next 0.2  +  grace 1.0  =  5.7
//! ```
//!
//! The first term is that of a server with `ping_interval: "1s"` and `ping_max: 2`, which checks once a second and
//! gives up after two missing answers. If only the node hears nothing, the server does not notice, and the node gives
//! up the connection after 3.75 s. The sessions do not add to this time, since a neighbour is probed continually,
//! whether or not it is suspected.
//!
//! # The server
//! NATS confirms a write before it is on the disk, so a power failure can lose some of the writes of the last two
//! minutes. The parts of a cluster store nothing that a living node could not write again; data that must never be lost
//! needs `sync_interval: always` in the section `jetstream` of the server's configuration.
//!
//! # Additions to the contract
//! * A queue has at most [`MAX_QUEUED`] messages and [`MAX_QUEUED_BYTES`]; further messages are refused with
//!   [`PublishError::Busy`]. Messages that wait when the connection breaks are lost, and [counted](Counts::unsent).
//! * A silent server counts as lost after 3.75 s. An access to the store takes 5 s at most, a probe 0.5 s.
//! * [`StoreError::Unavailable`] is also the answer if [`MAX_QUESTIONS`] questions are unanswered already.
//! * **A read that is answered by a leader that was cut off from the other servers** may be older than the last write,
//!   until that leader notices. This is a limit of NATS itself. Compare and set is not affected.
//! * A watch of [`Bucket::Leases`] that began after a given revision may report a deletion twice.
//!
#![doc = concat!("[how to run the server]: ", env!("CARGO_PKG_HOMEPAGE"), "/cluster-nats.html")]
#![doc = concat!("[secure a cluster]: ", env!("CARGO_PKG_HOMEPAGE"), "/cluster-security.html")]
#![forbid(unsafe_code)]

mod completion;
mod connection;
pub mod keys;
mod lane;
mod problem;
mod replay;
mod requests;
mod settings;
mod shared;
mod store;
mod subscriptions;
mod table;
#[cfg(test)]
mod tests;
mod tls;
mod tombstones;
mod watch;

/// The crate of the cluster, in the version that this engine is made for.
pub use postroom_cluster;

pub use connection::{MAX_QUEUED, MAX_QUEUED_BYTES};
pub use problem::Problem;
pub use settings::{Nats, NatsError};
pub use shared::{Counts, MAX_QUESTIONS};

use bytes::Bytes;
use completion::Completion;
use postroom_cluster::__private::{is_pattern, is_subject, shortened};
use postroom_cluster::access::Access;
use postroom_cluster::engine::{
    Attempt, Engine, Lane, OnMessage, OnProbe, ProbeOutcome, PublishError, SubscribeError, Subscription,
};
use postroom_cluster::store::{Bucket, OnChange, OnRead, OnWrite, Revision, StoreError};
use shared::EngineShared;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use subscriptions::LaneSubscriber;
use tokio::runtime::{Builder, Handle};
use tokio::sync::{mpsc, oneshot};
use tokio::task::unconstrained;
use watch::Watch;

/// The engine of one node, on NATS. The head of the [crate](self) describes it.
///
/// Dropping the engine closes it.
pub struct NatsEngine {
    shared: Arc<EngineShared>,
    runtime: Handle,
    /// Dropping this sender tells the thread that no more questions will follow.
    _dropped: oneshot::Sender<()>,
}

impl Nats {
    /// Starts the engine. It connects as soon as it can, and again whenever it loses the connection. The call does not
    /// wait for the connection; [`NatsEngine::wait`] does.
    ///
    /// # Errors
    /// If the settings contradict each other or are not safe, or if the thread cannot be started.
    pub fn start(self) -> Result<NatsEngine, NatsError> {
        self.check()?;
        NatsEngine::start(self)
    }
}

/// Starts the engine with the name of the cluster that the node joins.
impl postroom_cluster::engine::Connect for Nats {
    type Engine = NatsEngine;

    fn connect(self, cluster: &str, node: &str) -> Result<NatsEngine, Box<dyn std::error::Error + Send + Sync>> {
        Ok(self.cluster(cluster).node(node).start()?)
    }
}

impl NatsEngine {
    fn start(settings: Nats) -> Result<Self, NatsError> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let (data, data_queue) = mpsc::channel(MAX_QUEUED);
        let (control, control_queue) = mpsc::channel(MAX_QUEUED);
        let (tombstones, tombstone_queue) = mpsc::unbounded_channel();
        let shared = Arc::new(EngineShared::new(settings, data, control, tombstones));
        let handle = runtime.handle().clone();
        for lane in Lane::ALL {
            spawn_until_closed(&handle, &shared, lane::keep_connected(Arc::clone(&shared), lane));
        }
        let last = [
            handle.spawn(lane::forward(Arc::clone(&shared), Lane::Data, data_queue)),
            handle.spawn(lane::forward(Arc::clone(&shared), Lane::Control, control_queue)),
            handle.spawn(tombstones::sweep(Arc::clone(&shared), tombstone_queue)),
        ];
        let ended = Arc::clone(&shared);
        let closing = handle.spawn(async move {
            for task in last {
                let _ = task.await;
            }
            ended.disconnect();
        });
        let (dropped, is_dropped) = oneshot::channel::<()>();
        postroom_cluster::__private::spawn("postroom-nats", move || {
            runtime.block_on(async {
                let _ = is_dropped.await;
                let _ = closing.await;
            });
            // Remaining tasks are dropped here, which answers their questions.
            drop(runtime);
        })?;
        Ok(Self { shared, runtime: handle, _dropped: dropped })
    }

    /// Waits until the engine is connected and its store is ready. Must not be called by a callback.
    ///
    /// # Errors
    /// If that takes longer than `at_most`, or earlier if there is a problem that [lasts](Problem::is_lasting). The
    /// engine keeps trying.
    pub fn wait(&self, at_most: Duration) -> Result<(), Problem> {
        self.shared.wait(at_most)
    }

    /// Returns why the engine is not connected, or has no store.
    pub fn problem(&self) -> Option<Problem> {
        self.shared.problem()
    }

    /// Returns the engine's counters, such as the number of lost messages.
    pub fn counts(&self) -> Counts {
        self.shared.counts()
    }

    /// Returns the server's last refusal for lack of permission. [`Counts::refused`] counts all refusals.
    pub fn last_refusal(&self) -> Option<String> {
        self.shared.last_refusal()
    }

    /// Closes the engine for good. Waiting messages are still sent if that takes no longer than a second; unanswered
    /// questions are answered with an error. The call waits for neither.
    pub fn close(&self) {
        self.shared.closed.send_replace(true);
    }

    /// Answers a question with the result of `work`, or with `otherwise` when the engine closes.
    fn ask<T: Send + 'static>(
        &self,
        then: Box<dyn FnOnce(T) + Send>,
        otherwise: fn() -> T,
        too_many: fn() -> T,
        work: impl Future<Output = T> + Send + 'static,
    ) {
        let completion = Completion::new(then, otherwise);
        let permit = Arc::clone(&self.shared.questions).try_acquire_owned();
        let shared = Arc::clone(&self.shared);
        self.runtime.spawn(async move {
            let mut closed = shared.closed.subscribe();
            let work = async {
                match permit {
                    Ok(_permit) => work.await,
                    Err(_) => too_many(),
                }
            };
            let answer = tokio::select! {
                biased;
                _ = closed.wait_for(|closed| *closed) => otherwise(),
                answer = work => answer,
            };
            if !completion.complete(answer) {
                shared.counters.panics.fetch_add(1, Ordering::Relaxed);
            }
        });
    }

    fn write(&self, bucket: Bucket, key: &str, access: Access, then: OnWrite) {
        let (shared, key) = (Arc::clone(&self.shared), key.to_owned());
        let work = async move { store::write(&shared, bucket, &key, access).await };
        self.ask(then, || Err(StoreError::Closed), || Err(StoreError::Unavailable), work);
    }

    /// Runs a subscription or a watch until the returned value is dropped.
    fn subscription(
        &self,
        is_wanted: Arc<AtomicBool>,
        work: impl Future<Output = ()> + Send + 'static,
    ) -> Subscription {
        // The task is unconstrained, since the client takes many messages from the connection at a time and the
        // receiver has to keep up.
        let task = spawn_until_closed(&self.runtime, &self.shared, unconstrained(work));
        Subscription::new(move || {
            is_wanted.store(false, Ordering::Release);
            task.abort();
        })
    }
}

fn spawn_until_closed(
    runtime: &Handle,
    shared: &Arc<EngineShared>,
    work: impl Future<Output = ()> + Send + 'static,
) -> tokio::task::JoinHandle<()> {
    let mut closed = shared.closed.subscribe();
    runtime.spawn(async move {
        tokio::select! {
            biased;
            _ = closed.wait_for(|closed| *closed) => {}
            () = work => {}
        }
    })
}

impl Drop for NatsEngine {
    fn drop(&mut self) {
        self.close();
    }
}

impl fmt::Debug for NatsEngine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NatsEngine").field("settings", &self.shared.settings).finish_non_exhaustive()
    }
}

impl Engine for NatsEngine {
    fn publish(&self, lane: Lane, subject: &str, payload: Bytes) -> Result<(), PublishError> {
        if !is_subject(subject) {
            return Err(PublishError::BadSubject { subject: shortened(subject) });
        }
        let limit = self.shared.max_payload.load(Ordering::Relaxed);
        if payload.len() > limit {
            return Err(PublishError::TooLarge { bytes: payload.len(), limit });
        }
        if self.shared.is_closed() {
            return Err(PublishError::Closed);
        }
        let lane = self.shared.lane(lane);
        if !lane.is_connected() {
            return Err(PublishError::Disconnected);
        }
        match lane.enqueue(subject, payload) {
            true => Ok(()),
            // The queue is closed together with the engine.
            false if self.shared.is_closed() => Err(PublishError::Closed),
            false => Err(PublishError::Busy),
        }
    }

    fn subscribe(&self, lane: Lane, pattern: &str, on_message: OnMessage) -> Result<Subscription, SubscribeError> {
        if !is_pattern(pattern) {
            return Err(SubscribeError::BadPattern { pattern: shortened(pattern) });
        }
        if self.shared.is_closed() {
            return Err(SubscribeError::Closed);
        }
        let is_wanted = Arc::new(AtomicBool::new(true));
        let (shared, pattern) = (Arc::clone(&self.shared), pattern.to_owned());
        let subscriber = LaneSubscriber { shared, lane, pattern, on_message, is_wanted: Arc::clone(&is_wanted) };
        Ok(self.subscription(is_wanted, subscriber.run()))
    }

    fn probe(&self, subject: &str, then: OnProbe) {
        let (shared, subject) = (Arc::clone(&self.shared), subject.to_owned());
        let work = async move { subscriptions::probe(&shared, subject).await };
        self.ask(then, || ProbeOutcome::Unknown, || ProbeOutcome::Unknown, work);
    }

    fn create(&self, bucket: Bucket, key: &str, value: Bytes, then: OnWrite) {
        self.write(bucket, key, Access::Create(value), then);
    }

    fn update(&self, bucket: Bucket, key: &str, value: Bytes, expected: Revision, then: OnWrite) {
        self.write(bucket, key, Access::Update(value, expected), then);
    }

    fn delete(&self, bucket: Bucket, key: &str, expected: Revision, then: OnWrite) {
        self.write(bucket, key, Access::Delete(expected), then);
    }

    fn get(&self, bucket: Bucket, key: &str, then: OnRead) {
        let (shared, key) = (Arc::clone(&self.shared), key.to_owned());
        let work = async move { store::read(&shared, bucket, &key).await };
        self.ask(then, || Err(StoreError::Closed), || Err(StoreError::Unavailable), work);
    }

    fn watch(
        &self,
        bucket: Bucket,
        after: Option<Revision>,
        on_change: OnChange,
    ) -> Result<Subscription, SubscribeError> {
        if self.shared.is_closed() {
            return Err(SubscribeError::Closed);
        }
        let is_wanted = Arc::new(AtomicBool::new(true));
        let shared = Arc::clone(&self.shared);
        let watch = Watch { shared, bucket, on_change, is_wanted: Arc::clone(&is_wanted) };
        Ok(self.subscription(is_wanted, watch.run(after)))
    }

    fn obstacle(&self) -> Option<String> {
        self.problem().filter(Problem::is_obstacle).map(|problem| problem.to_string())
    }

    fn attempts(&self) -> Vec<Attempt> {
        self.shared.attempts()
    }

    fn refused(&self) -> u64 {
        self.counts().refused
    }

    fn is_connected(&self) -> bool {
        !self.shared.is_closed() && Lane::ALL.iter().all(|&lane| self.shared.lane(lane).is_connected())
    }
}
