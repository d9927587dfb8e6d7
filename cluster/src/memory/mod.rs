//! An engine within one program, for tests, simulations and examples without a server.
//!
//! A [`Broker`] has the store and the subscriptions; each [`Client`] is the [`Engine`] of one node. Unless the broker
//! is told to [run](Broker::run), **nothing happens by itself**: each call of [`Broker::step`] performs the oldest
//! request, and runs at most one callback, on the calling thread. So a test sees each state between two steps, and a
//! simulator decides when the next step comes. The broker's clock, by which leases expire, advances only with
//! [`Broker::advance`].
//!
//! When a connection breaks ([`Client::disconnect`]), the broker does what a real one does: everything in flight to the
//! client is lost, the client's messages are refused, its accesses fail, and other clients that probe it find no
//! subscriber. When the connection is back, so are its subscriptions, and its watches begin with a snapshot. The caller
//! has to add random loss and delay: it can drop what a callback receives, or hold it back. The store can be
//! [lost](Broker::lose_store), and can be [replaced](Broker::restore) by an older copy.
//!
//! A client that [has a name](Broker::connect_as) has the rights of a [node of that name](crate::rights), like the
//! permissions of a real broker, and the broker [counts](Engine::refused) what it refuses. A client without a name may
//! do anything, so a test can use it to forge messages.
//!
//! # Limits
//! Each client may have [`MAX_QUEUED`] unprocessed messages in each lane. A message and a value have at most
//! [`MAX_PAYLOAD`] bytes, as with NATS by default. A watch can resume if it has missed at most [`MAX_HISTORY`] changes.

#[cfg(any(test, feature = "test"))]
pub mod simulated;
mod state;
#[cfg(test)]
mod tests;

use crate::access::{Access, Answer};
use crate::clock::Moment;
use crate::engine::{Engine, Lane, Message, OnMessage, OnProbe, PublishError, SubscribeError, Subscription};
use crate::rights::Rights;
use crate::store::{Bucket, OnChange, OnRead, OnWrite, Revision};
use crate::subject::{is_pattern, is_subject, shortened};
use bytes::Bytes;
use postroom::__private::discard_panic;
use state::{BrokerJob, BrokerState, BrokerSubscriber, Connection, ConnectionState, Watcher};
pub use state::{MAX_HISTORY, MAX_PAYLOAD, StoreCopy};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::Waker;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// The maximum number of unprocessed messages for each client and lane.
pub const MAX_QUEUED: usize = 1_024;

/// A broker in memory. Clones refer to the same broker.
///
/// ```
/// use postroom_cluster::engine::{Engine, Lane};
/// use postroom_cluster::memory::Broker;
/// use std::sync::{Arc, Mutex};
///
/// let broker = Broker::new();
/// let (here, there) = (broker.connect(), broker.connect());
/// let heard = Arc::new(Mutex::new(Vec::new()));
/// let hears = Arc::clone(&heard);
/// let on_message = Box::new(move |message| hears.lock().unwrap().push(message));
/// let _subscription = there.subscribe(Lane::Data, "greetings.*", on_message)?;
///
/// here.publish(Lane::Data, "greetings.morning", "hello".into())?;
/// assert!(heard.lock().unwrap().is_empty()); // nothing happens by itself
/// while broker.step() {}
/// assert_eq!(heard.lock().unwrap()[0].payload, "hello");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Default)]
pub struct Broker {
    state: Arc<Mutex<BrokerState>>,
    /// Notified when there is a job.
    asked: Arc<Condvar>,
}

/// A broker that runs by itself, created by [`Broker::run`].
#[must_use = "the broker stops when this is dropped"]
pub struct RunningBroker {
    broker: Broker,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Drop for RunningBroker {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        self.broker.asked.notify_all();
        if let Some(thread) = self.thread.take() {
            // The thread never panics: panics of callbacks are caught.
            let _ = thread.join();
        }
    }
}

/// The engine of one node.
pub struct Client {
    broker: Broker,
    number: usize,
}

impl Broker {
    /// Returns a broker without clients, whose store is empty.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the engine of another node, without any restrictions.
    pub fn connect(&self) -> Client {
        self.add(None)
    }

    /// Returns the engine of the node `node` of `cluster`, with the rights of that node.
    pub fn connect_as(&self, cluster: &str, node: &str) -> Client {
        self.add(Some(Rights::of(cluster, node)))
    }

    fn add(&self, rights: Option<Rights>) -> Client {
        let mut state = self.lock();
        let number = state.clients.len();
        state.clients.push(Connection::new(rights));
        // The client may be the first to connect to a store that was lost.
        state.prepare(number);
        Client { broker: self.clone(), number }
    }

    /// Performs the next request. Returns false if there is none.
    ///
    /// If it is called by a callback, or while another thread is in a step, it does nothing and returns false.
    pub fn step(&self) -> bool {
        let mut state = self.lock();
        if state.in_step {
            return false;
        }
        let Some(job) = state.jobs.pop_front() else { return false };
        state.in_step = true;
        // A panic of the callback costs only the value that it was called with.
        self.perform(state, job);
        self.lock().in_step = false;
        true
    }

    /// Returns a copy of the store, for [`restore`](Self::restore).
    pub fn copy_store(&self) -> StoreCopy {
        self.lock().copy()
    }

    /// Loses the store, as if its server had been restarted without its files. All connections break, and everything in
    /// flight is lost; the first client that [reconnects](Client::reconnect) creates the tables anew.
    pub fn lose_store(&self) {
        self.lock().replace(None);
    }

    /// Replaces the store by an older copy, as if its server had been restarted with the files of that time. All
    /// connections break, and everything in flight is lost.
    pub fn restore(&self, copy: StoreCopy) {
        self.lock().replace(Some(copy));
    }

    /// Advances the clock. Leases that become too old are deleted. Watches report these deletions in later steps.
    pub fn advance(&self, time: Duration) {
        let mut state = self.lock();
        state.now = state.now + time;
        let now = state.now;
        let Some(records) = state.buckets.get(&Bucket::Leases) else { return };
        let is_over = |written: Moment| written + Bucket::LEASE_TTL <= now;
        let keys = records.entries.iter().filter(|(_, (.., written))| is_over(*written)).map(|(key, _)| key.clone());
        for key in keys.collect::<Vec<_>>() {
            state.delete(Bucket::Leases, key);
        }
    }

    /// Starts a thread that performs requests at once and follows the system's clock, for programs and examples. The
    /// thread ends when the returned value is dropped.
    ///
    /// # Panics
    /// If the operating system does not provide a thread.
    pub fn run(&self) -> RunningBroker {
        let (broker, stop) = (self.clone(), Arc::new(AtomicBool::new(false)));
        let stops = Arc::clone(&stop);
        let run = move || {
            let mut last = Instant::now();
            while !stops.load(Ordering::Relaxed) {
                // The loop is bounded, since time must pass under load too.
                for _ in 0..MAX_QUEUED {
                    if !broker.step() {
                        break;
                    }
                }
                let now = Instant::now();
                broker.advance(now - last);
                last = now;
                broker.wait(Duration::from_millis(100));
            }
        };
        let thread = crate::threads::spawn("postroom-broker", run);
        RunningBroker { broker: self.clone(), stop, thread: Some(thread.expect("a thread for the broker")) }
    }

    /// Waits until there is a request, for at most `time`.
    fn wait(&self, time: Duration) {
        let is_idle = |state: &mut BrokerState| state.jobs.is_empty();
        let waited = self.asked.wait_timeout_while(self.lock(), time, is_idle);
        drop(waited.unwrap_or_else(PoisonError::into_inner));
    }

    fn ask(&self, job: BrokerJob) {
        let mut state = self.lock();
        state.jobs.push_back(job);
        self.notify(state);
    }

    /// Wakes the thread or process that runs the broker.
    fn notify(&self, mut state: MutexGuard<'_, BrokerState>) {
        let waker = state.waker.take();
        drop(state);
        self.asked.notify_one();
        waker.into_iter().for_each(Waker::wake);
    }

    fn lock(&self) -> MutexGuard<'_, BrokerState> {
        // No code panics while it holds the lock.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Performs a job. Callbacks run without the lock. Returns false if one has panicked.
    fn perform(&self, mut state: MutexGuard<'_, BrokerState>, job: BrokerJob) -> bool {
        match job {
            BrokerJob::Publish { client, lane, message } => state.publish(client, lane, &message),
            BrokerJob::Deliver { subscription, breaks, message } => {
                let Some(mut on_message) = state.take_subscriber(subscription, breaks) else { return true };
                drop(state);
                let is_fine = run(|| on_message(message));
                if let Some(subscriber) = self.lock().subscriptions.get_mut(&subscription) {
                    subscriber.on_message = Some(on_message);
                }
                return is_fine;
            }
            BrokerJob::Probe { client, subject, then } => {
                let outcome = state.probe(client, &subject);
                drop(state);
                return run(|| then(outcome));
            }
            BrokerJob::Access { client, bucket, key, access, then } => {
                let answer = state.access(client, bucket, key, access);
                drop(state);
                return run(|| then(answer));
            }
            BrokerJob::Watch { watch, breaks, after } => state.begin_watch(watch, breaks, after),
            BrokerJob::Report { watch, breaks, change } => {
                let Some((client, bucket)) = state.watches.get(&watch).map(|watcher| (watcher.client, watcher.bucket))
                else {
                    return true;
                };
                let Some(mut on_change) = state.take_watcher(watch, breaks) else { return true };
                state.clients[client].was_told(bucket, &change);
                drop(state);
                let is_fine = run(|| on_change(change));
                if let Some(watcher) = self.lock().watches.get_mut(&watch) {
                    watcher.on_change = Some(on_change);
                }
                return is_fine;
            }
        }
        true
    }
}

/// Runs a callback and catches its panic, so that the panic costs only the value passed to it. Returns false if it
/// panicked.
fn run(callback: impl FnOnce()) -> bool {
    catch_unwind(AssertUnwindSafe(callback)).map_err(discard_panic).is_ok()
}

impl std::fmt::Debug for Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Client").field("number", &self.number).finish_non_exhaustive()
    }
}

impl Client {
    #[cfg(any(test, feature = "test"))]
    pub(crate) fn number(&self) -> usize {
        self.number
    }

    /// Sets the client's rights; `None` removes all restrictions.
    #[cfg(test)]
    pub(crate) fn set_rights(&self, rights: Option<Rights>) {
        self.broker.lock().clients[self.number].rights = rights;
    }

    /// Breaks the connection.
    pub fn disconnect(&self) {
        self.broker.lock().clients[self.number].disconnect();
    }

    /// Restores the connection.
    pub fn reconnect(&self) {
        let mut state = self.broker.lock();
        if state.clients[self.number].state == ConnectionState::Down {
            state.clients[self.number].state = ConnectionState::Up;
            state.prepare(self.number);
            state.resync(self.number);
            self.broker.notify(state);
        }
    }

    /// Closes the engine permanently. Requests that have not been performed are answered with an error.
    pub fn close(&self) {
        let mut state = self.broker.lock();
        state.clients[self.number].state = ConnectionState::Closed;
        state.clients[self.number].breaks += 1;
    }

    fn access(&self, bucket: Bucket, key: &str, access: Access, then: Box<dyn FnOnce(Answer) + Send>) {
        // Weak, since the broker owns the request until it is answered.
        let (broker, number) = (Arc::downgrade(&self.broker.state), self.number);
        let then = Box::new(move |answer| {
            if let Some(state) = broker.upgrade() {
                state.lock().unwrap_or_else(PoisonError::into_inner).clients[number].was_answered(bucket, &answer);
            }
            then(answer);
        });
        let job = BrokerJob::Access { client: self.number, bucket, key: key.into(), access, then };
        self.broker.ask(job);
    }
}

/// Adapts an [`OnWrite`] to accept any answer.
fn written(then: OnWrite) -> Box<dyn FnOnce(Answer) + Send> {
    Box::new(|answer| match answer {
        Answer::Written(written) => then(written),
        Answer::Read(_) => unreachable!("a write is answered as one"),
    })
}

impl Engine for Client {
    fn publish(&self, lane: Lane, subject: &str, payload: Bytes) -> Result<(), PublishError> {
        if !is_subject(subject) {
            return Err(PublishError::BadSubject { subject: shortened(subject) });
        }
        if payload.len() > MAX_PAYLOAD {
            return Err(PublishError::TooLarge { bytes: payload.len(), limit: MAX_PAYLOAD });
        }
        let mut state = self.broker.lock();
        let connection = &mut state.clients[self.number];
        match connection.state {
            ConnectionState::Up => {}
            ConnectionState::Down => return Err(PublishError::Disconnected),
            ConnectionState::Closed => return Err(PublishError::Closed),
        }
        let queued = connection.queued.entry(lane).or_default();
        if *queued == MAX_QUEUED {
            return Err(PublishError::Busy);
        }
        *queued += 1;
        let message = Message { subject: subject.into(), payload };
        state.jobs.push_back(BrokerJob::Publish { client: self.number, lane, message });
        self.broker.notify(state);
        Ok(())
    }

    fn subscribe(&self, _: Lane, pattern: &str, on_message: OnMessage) -> Result<Subscription, SubscribeError> {
        if !is_pattern(pattern) {
            return Err(SubscribeError::BadPattern { pattern: shortened(pattern) });
        }
        let mut state = self.broker.lock();
        if state.clients[self.number].state == ConnectionState::Closed {
            return Err(SubscribeError::Closed);
        }
        if state.refuses(self.number, |rights| rights.may_subscribe(pattern)) {
            // A real broker does not report the refusal either: the subscription exists, but receives nothing.
            return Ok(Subscription::new(|| {}));
        }
        let number = state.number();
        let subscriber =
            BrokerSubscriber { client: self.number, pattern: pattern.into(), on_message: Some(on_message) };
        state.subscriptions.insert(number, subscriber);
        let broker = self.broker.clone();
        Ok(Subscription::new(move || {
            // Dropped outside the lock, since a callback may own anything.
            let removed = broker.lock().subscriptions.remove(&number);
            drop(removed);
        }))
    }

    fn probe(&self, subject: &str, then: OnProbe) {
        let job = BrokerJob::Probe { client: self.number, subject: subject.into(), then };
        self.broker.ask(job);
    }

    fn create(&self, bucket: Bucket, key: &str, value: Bytes, then: OnWrite) {
        self.access(bucket, key, Access::Create(value), written(then));
    }

    fn update(&self, bucket: Bucket, key: &str, value: Bytes, expected: Revision, then: OnWrite) {
        self.access(bucket, key, Access::Update(value, expected), written(then));
    }

    fn delete(&self, bucket: Bucket, key: &str, expected: Revision, then: OnWrite) {
        self.access(bucket, key, Access::Delete(expected), written(then));
    }

    fn get(&self, bucket: Bucket, key: &str, then: OnRead) {
        let then = Box::new(|answer| match answer {
            Answer::Read(read) => then(read),
            Answer::Written(_) => unreachable!("a read is answered as one"),
        });
        self.access(bucket, key, Access::Get, then);
    }

    fn watch(
        &self,
        bucket: Bucket,
        after: Option<Revision>,
        on_change: OnChange,
    ) -> Result<Subscription, SubscribeError> {
        let mut state = self.broker.lock();
        if state.clients[self.number].state == ConnectionState::Closed {
            return Err(SubscribeError::Closed);
        }
        let watch = state.number();
        let breaks = state.clients[self.number].breaks;
        state.watches.insert(watch, Watcher { client: self.number, bucket, on_change: Some(on_change) });
        state.jobs.push_back(BrokerJob::Watch { watch, breaks, after });
        self.broker.notify(state);
        let broker = self.broker.clone();
        Ok(Subscription::new(move || {
            let removed = broker.lock().watches.remove(&watch);
            drop(removed);
        }))
    }

    fn is_connected(&self) -> bool {
        self.broker.lock().is_up(self.number)
    }

    fn refused(&self) -> u64 {
        self.broker.lock().clients[self.number].refused
    }
}
