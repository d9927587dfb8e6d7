//! The broker in memory as part of a simulated test. It takes turns with the processes of the test, in virtual time,
//! and delays, loses, duplicates or cuts off messages as the test asks, at random as determined by the seed. It also
//! checks the rules that hold for every cluster: see [`SimulatedBroker`].

mod network;

use super::state::{BrokerJob, BrokerState};
use super::{Broker, Client, StoreCopy};
use crate::access::{Access, Answer};
use crate::clock::Moment;
use crate::engine::{Lane, Message, ProbeOutcome};
use crate::store::{Bucket, StoreError};
pub use network::Faults;
use network::{Cargo, Endpoint, Flight, Network, PATIENCE};
use postroom::prelude::*;
use postroom::test::Sim;
use std::collections::{BTreeMap, VecDeque};
use std::future::poll_fn;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Poll;
use std::time::Duration;

/// A broker in a simulation, created by [`Broker::simulated`]. Clones refer to the same broker.
///
/// # What it checks
/// * A node publishes nothing while it has no lease, whether it was paused, was cut off, or has left. A lease in a lost
///   store counts for as long as it would have lasted.
/// * A name changes its holder only after the last holder has ended, its own node has given the name up (the check
///   takes the node's word for that), or its node is paused; and only with a larger token. This is no longer checked
///   once the store is lost or replaced, since the store then differs from what was reported to holders.
/// * No callback panics.
///
/// If a check has failed, the test panics when it next calls the broker, or at its end.
#[derive(Clone)]
pub struct SimulatedBroker {
    pub(crate) shared: Arc<SimulatedShared>,
}

pub(crate) struct SimulatedShared {
    broker: Broker,
    sim: Sim,
    state: Mutex<SimulatedState>,
}

#[derive(Default)]
struct SimulatedState {
    network: Network,
    /// The key of the lease that each client has acquired.
    leases: BTreeMap<usize, String>,
    /// When all leases of a lost store are over. Until then, a node may rely on one of these leases.
    lost_leases_end: Moment,
    /// Clients that are paused, and until when.
    paused: BTreeMap<usize, Moment>,
    traffic: BTreeMap<usize, Traffic>,
    objections: Vec<String>,
    observers: Vec<Observer>,
}

/// Counters of what one node has published and requested.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Traffic {
    /// Messages to other nodes.
    pub messages: u64,
    /// Bytes of these messages.
    pub bytes: u64,
    /// Requests to the store, and probes.
    pub requests: u64,
    /// Changes of the store that were reported to the node.
    pub reports: u64,
}

/// A write that the store has performed.
pub(crate) struct Written<'a> {
    pub(crate) bucket: Bucket,
    pub(crate) key: &'a str,
    pub(crate) access: &'a Access,
    pub(crate) revision: u64,
    /// The key of the writer's lease, if it has one.
    pub(crate) writer: Option<&'a str>,
    /// The keys of the leases of paused nodes.
    pub(crate) paused: &'a [String],
}

/// An event that an observer sees.
pub(crate) enum Seen<'a> {
    /// A write.
    Written(Written<'a>),
    /// The store has been replaced by a different one.
    Replaced,
}

/// A callback that sees what the store has done. It returns an objection, if it has one.
pub(crate) type Observer = Box<dyn FnMut(&Seen<'_>) -> Option<String> + Send>;

/// A weak reference to anything that a run creates.
#[cfg(test)]
pub(crate) type Part = std::sync::Weak<dyn std::any::Any + Send + Sync>;

/// The maximum downtime of a server whose store is lost or replaced.
const COMES_BACK: Duration = Duration::from_secs(14);

impl Broker {
    /// Returns a new broker that runs in a simulated test. The guide's page "Test a cluster" shows how.
    pub fn simulated(sim: &Sim) -> SimulatedBroker {
        let shared = Arc::new(SimulatedShared { broker: Self::new(), sim: sim.clone(), state: Mutex::default() });
        let turns = BrokerTurns { shared: Arc::clone(&shared), passed: Duration::ZERO };
        // The host of a simulation refuses no process while the test runs.
        let _running = sim.spawn(turns).run().unwrap_or_else(|error| panic!("the simulated broker: {error}"));
        SimulatedBroker { shared }
    }
}

impl SimulatedBroker {
    /// Returns the engine of another node.
    pub fn connect(&self) -> Client {
        self.shared.broker.connect()
    }

    /// Sets the faults from now on. A failing schedule is made smaller by leaving out such faults.
    pub fn faults(&self, faults: Faults) {
        self.shared.lock().network.faults = faults;
        self.check();
    }

    /// Returns what a client has published and requested.
    pub fn traffic(&self, client: &Client) -> Traffic {
        self.shared.lock().traffic.get(&client.number).copied().unwrap_or_default()
    }

    /// Registers the observer that `make` returns, unless there already is an observer. The observer sees all writes to
    /// the store.
    pub(crate) fn observe(&self, make: impl FnOnce() -> Observer) {
        let mut state = self.shared.lock();
        if state.observers.is_empty() {
            state.observers.push(make());
        }
    }

    /// Returns the simulation.
    pub(crate) fn sim(&self) -> &Sim {
        &self.shared.sim
    }

    /// Cuts the direction from some clients to others. The store counts as part of the side `store_is_with`, so the
    /// same direction between the store and the other side is cut, too.
    pub(crate) fn cut(&self, from: &[usize], to: &[usize], store_is_with: Side) {
        self.check();
        let mut state = self.shared.lock();
        for from in from {
            for to in to {
                state.network.cut(Endpoint::Node(*from), Endpoint::Node(*to));
            }
        }
        match store_is_with {
            Side::From => to.iter().for_each(|to| state.network.cut(Endpoint::Store, Endpoint::Node(*to))),
            Side::To => from.iter().for_each(|from| state.network.cut(Endpoint::Node(*from), Endpoint::Store)),
        }
    }

    pub(crate) fn heal_all(&self) {
        self.check();
        let nodes = self.shared.lock().network.heal();
        for node in nodes {
            // The client may have been unable to reconnect when the store came back.
            Client { broker: self.shared.broker.clone(), number: node }.reconnect();
            let mut broker = self.shared.broker.lock();
            broker.resync(node);
            self.shared.broker.notify(broker);
        }
    }

    /// Stops the server of the store, and loses everything that was stored. The server comes back within 14 seconds,
    /// and the nodes reconnect one after the other. In half of the cases, the clock at which the first of them begins
    /// the tables is right; in the others, it stands at zero.
    pub fn lose_store(&self) {
        self.replace_store(None);
    }

    /// Returns a copy of the store, for [`restore_store`](Self::restore_store).
    pub fn copy_store(&self) -> StoreCopy {
        self.shared.broker.copy_store()
    }

    /// Restarts the store's server with an older copy of its data; otherwise like [`lose_store`](Self::lose_store).
    pub fn restore_store(&self, copy: StoreCopy) {
        self.replace_store(Some(copy));
    }

    fn replace_store(&self, by: Option<StoreCopy>) {
        self.check();
        let (shared, now) = (&self.shared, self.shared.now());
        let mut broker = shared.broker.lock();
        let mut state = shared.lock();
        broker.has_no_clock = shared.sim.chance(0.5);
        state.lost_leases_end = now + Bucket::LEASE_TTL;
        broker.replace(by);
        // Messages that the nodes have published stay queued. They are dropped when they are taken from the queue.
        let (asked, others): (VecDeque<_>, _) =
            std::mem::take(&mut broker.jobs).into_iter().partition(|job| asks(job).is_some());
        broker.jobs = others;
        state.network.break_store(now, |job| asks(&job).map(|_| unanswered(job)));
        for (client, _) in broker.clients.iter().enumerate() {
            let (store, node) = (Endpoint::Store, Endpoint::Node(client));
            let back = now + shared.sim.delay(COMES_BACK);
            // Weak, since the network is part of what this refers to.
            let again = Arc::downgrade(shared);
            let give = Box::new(move || again.upgrade().into_iter().for_each(|shared| shared.reconnect(client)));
            state.network.put(back, Flight { from: store, to: node, cargo: Cargo::Answer { give, lose: None } });
        }
        for job in asked {
            let to = Endpoint::Node(asks(&job).unwrap_or_default());
            state.network.put(now, Flight { from: Endpoint::Store, to, cargo: unanswered(job) });
        }
        state.observers.iter_mut().for_each(|observer| _ = observer(&Seen::Replaced));
        drop(state);
        shared.broker.notify(broker);
    }

    /// Delivers nothing to a client for `time`.
    pub(crate) fn pause_client(&self, client: usize, time: Duration) {
        self.check();
        let until = self.shared.now() + time;
        let mut state = self.shared.lock();
        state.network.pause(Endpoint::Node(client), until);
        state.paused.insert(client, until);
    }

    /// Returns weak references to the broker and its simulation.
    #[cfg(test)]
    pub(crate) fn parts(&self) -> [Part; 2] {
        [Arc::downgrade(&self.shared) as _, Arc::downgrade(&self.shared.broker.state) as _]
    }

    /// Checks that there was no objection.
    ///
    /// # Panics
    /// If there was one.
    pub(crate) fn check(&self) {
        let objections = std::mem::take(&mut self.shared.lock().objections);
        assert!(objections.is_empty(), "the simulated cluster has broken its promises: {}", objections.join("; "));
    }
}

impl Drop for SimulatedBroker {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            self.check();
        }
    }
}

/// Returns the client that waits for the answer to a job.
fn asks(job: &BrokerJob) -> Option<usize> {
    match job {
        BrokerJob::Probe { client, .. } | BrokerJob::Access { client, .. } => Some(*client),
        _ => None,
    }
}

/// The side of a cut that the store is on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    From,
    To,
}

impl std::fmt::Debug for SimulatedBroker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SimulatedBroker").finish_non_exhaustive()
    }
}

impl SimulatedShared {
    /// Reconnects a client. A client that is cut off from the store reconnects only when the cut has healed.
    fn reconnect(&self, client: usize) {
        let (store, node) = (Endpoint::Store, Endpoint::Node(client));
        let state = self.lock();
        if !state.network.is_cut(store, node) && !state.network.is_cut(node, store) {
            drop(state);
            Client { broker: self.broker.clone(), number: client }.reconnect();
        }
    }

    fn lock(&self) -> MutexGuard<'_, SimulatedState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now(&self) -> Moment {
        Moment::after_start(self.sim.elapsed())
    }

    /// Takes all pending jobs of the broker: begins watches at once, and puts everything else on the simulated network.
    fn take_all(&self, now: Moment) {
        loop {
            let mut broker = self.broker.lock();
            let Some(job) = broker.jobs.pop_front() else { return };
            let mut state = self.lock();
            let SimulatedState { network, traffic, .. } = &mut *state;
            match job {
                BrokerJob::Publish { client, lane, message } => {
                    self.publish(now, &mut broker, &mut state, (client, lane, message));
                }
                job @ (BrokerJob::Probe { client, .. } | BrokerJob::Access { client, .. }) => {
                    traffic.entry(client).or_default().requests += 1;
                    let (from, to) = (Endpoint::Node(client), Endpoint::Store);
                    if network.is_cut(from, to) || self.sim.chance(network.faults.drop) {
                        let lost = Flight { from: to, to: from, cargo: unanswered(job) };
                        network.put(now + PATIENCE, lost);
                    } else {
                        network.send(&self.sim, now, Flight { from, to, cargo: Cargo::Job(job) }, false);
                    }
                }
                BrokerJob::Watch { watch, breaks, after } => {
                    let Some(client) = broker.watches.get(&watch).map(|watch| watch.client) else { continue };
                    let end = Endpoint::Node(client);
                    if network.is_cut(end, Endpoint::Store) || network.is_cut(Endpoint::Store, end) {
                        // The watch begins when the cut has healed.
                        continue;
                    }
                    // These reports are older than what the watch begins with.
                    network.remove(|flight| flight.reports_to(watch));
                    broker.begin_watch(watch, breaks, after);
                }
                job @ BrokerJob::Report { watch, .. } => {
                    let Some(client) = broker.watches.get(&watch).map(|watch| watch.client) else { continue };
                    traffic.entry(client).or_default().reports += 1;
                    let (from, to) = (Endpoint::Store, Endpoint::Node(client));
                    if !network.is_cut(from, to) {
                        network.send(&self.sim, now, Flight { from, to, cargo: Cargo::Job(job) }, false);
                    }
                }
                BrokerJob::Deliver { .. } => unreachable!("it is sent on its way when it is published"),
            }
        }
    }

    /// Publishes a message, and puts a copy for each subscriber on the simulated network.
    fn publish(
        &self,
        now: Moment,
        broker: &mut BrokerState,
        state: &mut SimulatedState,
        (client, lane, message): (usize, Lane, Message),
    ) {
        let SimulatedState { network, leases, traffic, objections, lost_leases_end, .. } = state;
        let traffic = traffic.entry(client).or_default();
        traffic.messages += 1;
        traffic.bytes += message.payload.len() as u64;
        let lease = leases.get(&client).filter(|key| broker.has(Bucket::Leases, key));
        if lease.is_none() && broker.is_up(client) && *lost_leases_end <= now {
            objections.push(format!("{} was published by a node without a lease", message.subject));
        }
        let others = broker.jobs.len();
        broker.publish(client, lane, &message);
        for job in broker.jobs.split_off(others) {
            let BrokerJob::Deliver { subscription, breaks, message } = job else { continue };
            let Some(to) = broker.subscriptions.get(&subscription).map(|to| to.client) else { continue };
            let (from, to) = (Endpoint::Node(client), Endpoint::Node(to));
            if network.is_cut(from, to) || self.sim.chance(network.faults.drop) {
                continue;
            }
            let copies = 1 + usize::from(self.sim.chance(network.faults.duplicate));
            for _ in 0..copies {
                let cargo = Cargo::Job(BrokerJob::Deliver { subscription, breaks, message: message.clone() });
                network.send(&self.sim, now, Flight { from, to, cargo }, true);
            }
        }
    }

    /// Handles one flight that has arrived by `now`. Returns false if there is none.
    fn arrive(&self, now: Moment) -> bool {
        let (flight, is_cut) = {
            let mut state = self.lock();
            let Some(flight) = state.network.arrived(now) else { return false };
            let is_cut = state.network.is_cut(flight.from, flight.to);
            (flight, is_cut)
        };
        let Flight { from, to, cargo } = flight;
        match cargo {
            Cargo::Answer { give, lose } => {
                let answer = match lose {
                    Some(lose) if is_cut => {
                        let late = Cargo::Answer { give: lose, lose: None };
                        self.lock().network.put(now + PATIENCE, Flight { from, to, cargo: late });
                        return true;
                    }
                    _ => give,
                };
                self.call(answer);
            }
            Cargo::Job(job @ (BrokerJob::Probe { .. } | BrokerJob::Access { .. })) if is_cut => {
                let lost = Flight { from: to, to: from, cargo: unanswered(job) };
                self.lock().network.put(now + PATIENCE, lost);
            }
            Cargo::Job(BrokerJob::Probe { client, subject, then }) => {
                let outcome = self.probe(client, &subject);
                self.answer(now, client, outcome, ProbeOutcome::Unknown, then);
            }
            Cargo::Job(BrokerJob::Access { client, bucket, key, access, then }) => {
                let answer = self.broker.lock().access(client, bucket, key.clone(), access.clone());
                if let Answer::Written(Ok(revision)) = &answer {
                    self.written(now, client, (bucket, &key, &access, revision.0));
                }
                let lost = unknown(access == Access::Get);
                self.answer(now, client, answer, lost, then);
            }
            Cargo::Job(_) if is_cut => {}
            Cargo::Job(job) => {
                let is_fine = self.broker.perform(self.broker.lock(), job);
                if !is_fine {
                    self.lock().objections.push("a callback of the engine has panicked".into());
                }
            }
        }
        true
    }

    fn answer<T: Send + 'static>(
        &self,
        now: Moment,
        client: usize,
        answer: T,
        lost: T,
        then: Box<dyn FnOnce(T) + Send>,
    ) {
        let then = Arc::new(Mutex::new(Some(then)));
        let give = |answer: T| {
            let then = Arc::clone(&then);
            Box::new(move || {
                let then = then.lock().unwrap_or_else(PoisonError::into_inner).take();
                if let Some(then) = then {
                    then(answer);
                }
            }) as Box<dyn FnOnce() + Send>
        };
        let (from, to) = (Endpoint::Store, Endpoint::Node(client));
        let mut state = self.lock();
        let is_lost = self.sim.chance(state.network.faults.drop);
        let (give, lose) = (give(answer), give(lost));
        if is_lost {
            let cargo = Cargo::Answer { give: lose, lose: None };
            state.network.put(now + PATIENCE, Flight { from, to, cargo });
        } else {
            let cargo = Cargo::Answer { give, lose: Some(lose) };
            state.network.send(&self.sim, now, Flight { from, to, cargo }, false);
        }
    }

    /// Probes a subject for a client. A subscriber that is cut off in both directions from the client counts as absent.
    fn probe(&self, client: usize, subject: &str) -> ProbeOutcome {
        let broker = self.broker.lock();
        if !broker.is_up(client) {
            return ProbeOutcome::Unknown;
        }
        let state = self.lock();
        let mut outcome = ProbeOutcome::NoResponders;
        for (_, subscriber) in broker.subscribers(subject) {
            let (here, there) = (Endpoint::Node(client), Endpoint::Node(subscriber.client));
            match (state.network.is_cut(here, there), state.network.is_cut(there, here)) {
                (false, false) => return ProbeOutcome::Responders,
                (true, true) => {}
                _ => outcome = ProbeOutcome::Unknown,
            }
        }
        outcome
    }

    fn written(&self, now: Moment, client: usize, (bucket, key, access, revision): (Bucket, &str, &Access, u64)) {
        let mut state = self.lock();
        if bucket == Bucket::Leases && matches!(access, Access::Create(_)) {
            state.leases.insert(client, key.to_owned());
        }
        // A node whose pause ends at this moment may not have had a turn yet.
        let is_paused = |client: &usize| state.paused.get(client).is_some_and(|until| now <= *until);
        let paused: Vec<_> =
            state.leases.iter().filter(|(client, _)| is_paused(client)).map(|(_, key)| key.clone()).collect();
        let writer = state.leases.get(&client).cloned();
        let mut observers = std::mem::take(&mut state.observers);
        drop(state);
        let writer = writer.as_deref();
        let written = Seen::Written(Written { bucket, key, access, revision, writer, paused: &paused });
        let objections: Vec<_> = observers.iter_mut().filter_map(|observer| observer(&written)).collect();
        let mut state = self.lock();
        state.observers.append(&mut observers);
        state.objections.extend(objections);
    }

    fn call(&self, callback: Box<dyn FnOnce() + Send>) {
        if !super::run(callback) {
            self.lock().objections.push("a callback of the engine has panicked".into());
        }
    }

    /// Returns when the next flight or expiry is due.
    fn next(&self) -> Option<Moment> {
        let expiry = self.broker.lock().next_expiry();
        self.lock().network.next().into_iter().chain(expiry).min()
    }
}

/// Returns the answer to a request whose outcome is unknown.
fn unanswered(job: BrokerJob) -> Cargo {
    let give: Box<dyn FnOnce() + Send> = match job {
        BrokerJob::Probe { then, .. } => Box::new(move || then(ProbeOutcome::Unknown)),
        BrokerJob::Access { access, then, .. } => Box::new(move || then(unknown(access == Access::Get))),
        other => Box::new(move || drop(other)),
    };
    Cargo::Answer { give, lose: None }
}

fn unknown(is_read: bool) -> Answer {
    if is_read { Answer::Read(Err(StoreError::Unavailable)) } else { Answer::Written(Err(StoreError::Unknown)) }
}

/// The broker as a process.
#[process]
struct BrokerTurns {
    shared: Arc<SimulatedShared>,
    /// The time to which the broker's clock has been advanced.
    passed: Duration,
}

#[process]
impl BrokerTurns {
    #[entry]
    async fn run(&mut self, ctx: &mut Context<Self>) {
        loop {
            let now = self.shared.sim.elapsed();
            self.shared.broker.advance(now - self.passed);
            self.passed = now;
            let now = Moment::after_start(now);
            self.shared.take_all(now);
            if self.shared.arrive(now) {
                // Lets others have their turns between two arrivals.
                let mut has_waited = false;
                poll_fn(|context| {
                    context.waker().wake_by_ref();
                    if std::mem::replace(&mut has_waited, true) { Poll::Ready(()) } else { Poll::Pending }
                })
                .await;
                continue;
            }
            let wait = self.shared.next().map_or(Duration::MAX, |next| next.since(now));
            let mut sleep = pin!(ctx.sleep(wait));
            poll_fn(|context| {
                let mut broker = self.shared.broker.lock();
                if !broker.jobs.is_empty() {
                    return Poll::Ready(());
                }
                broker.waker = Some(context.waker().clone());
                drop(broker);
                sleep.as_mut().poll(context)
            })
            .await;
        }
    }
}
