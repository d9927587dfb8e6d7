//! What is on its way between the nodes and the store of a simulated broker, and what is lost.
//!
//! # Order
//! What goes one way between two ends arrives in its order, as on one connection, unless it is a message that is
//! reordered. A watch and the answers of the store are never reordered, lost or repeated one by one: they share one
//! connection, which is lost as a whole.

use crate::clock::Moment;
use crate::memory::state::BrokerJob;
use postroom::test::Sim;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// What goes wrong on the way, by chance. Nothing, by default.
///
/// ```
/// use postroom_cluster::testing::Faults;
/// use std::time::Duration;
///
/// let faults = Faults { drop: 0.01, delay: Duration::from_millis(50), ..Faults::default() };
/// assert_eq!(faults.duplicate, 0.0);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Faults {
    /// The probability with which a message between nodes is lost, and with which a request to the store, or its
    /// answer, is: who asks then hears that nothing is known.
    pub drop: f64,
    /// The probability with which a message arrives twice.
    pub duplicate: f64,
    /// The probability with which a message may overtake earlier ones.
    pub reorder: f64,
    /// Everything takes up to that long.
    pub delay: Duration,
}

/// Where something goes, or comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Endpoint {
    /// The broker's store, and what it knows of subscriptions.
    Store,
    /// A node, by its client's number.
    Node(usize),
}

/// What is on its way.
pub(super) enum Cargo {
    /// A message or a report, to be performed when it arrives.
    Job(BrokerJob),
    /// An answer.
    Answer {
        /// Gives it.
        give: Box<dyn FnOnce() + Send>,
        /// Says instead that nothing is known; `None` for an answer that says so.
        lose: Option<Box<dyn FnOnce() + Send>>,
    },
}

pub(super) struct Flight {
    pub(super) from: Endpoint,
    pub(super) to: Endpoint,
    pub(super) cargo: Cargo,
}

impl Flight {
    /// Returns whether it is a change that this watch is told of.
    pub(super) fn reports_to(&self, watch: u64) -> bool {
        matches!(&self.cargo, Cargo::Job(BrokerJob::Report { watch: of, .. }) if *of == watch)
    }
}

#[derive(Default)]
pub(super) struct Network {
    pub(super) faults: Faults,
    /// From where nothing gets to where.
    cuts: BTreeSet<(Endpoint, Endpoint)>,
    /// Nodes that take nothing until then.
    paused: BTreeMap<Endpoint, Moment>,
    /// By arrival, and in the order of departure.
    flights: BTreeMap<(Moment, u64), Flight>,
    /// When the last thing arrives that goes that way.
    last: BTreeMap<(Endpoint, Endpoint), Moment>,
    count: u64,
}

impl Network {
    /// Sends something on its way. It arrives behind what was sent before, unless it `may_overtake`.
    pub(super) fn send(&mut self, sim: &Sim, now: Moment, flight: Flight, may_overtake: bool) {
        let due = now + sim.delay(self.faults.delay);
        let way = (flight.from, flight.to);
        let due = match may_overtake && sim.chance(self.faults.reorder) {
            true => due,
            false => {
                let last = self.last.entry(way).or_default();
                *last = due.max(*last);
                *last
            }
        };
        self.put(due, flight);
    }

    /// Has something happen at that time, whatever else is on its way.
    pub(super) fn put(&mut self, due: Moment, flight: Flight) {
        self.count += 1;
        self.flights.insert((due, self.count), flight);
    }

    /// Takes the next thing that has arrived by `now`. What arrives at a paused node waits until that goes on.
    pub(super) fn arrived(&mut self, now: Moment) -> Option<Flight> {
        self.paused.retain(|_, until| *until > now);
        loop {
            let entry = self.flights.first_entry().filter(|entry| entry.key().0 <= now)?;
            let number = entry.key().1;
            let flight = entry.remove();
            match self.paused.get(&flight.to) {
                Some(until) => _ = self.flights.insert((*until, number), flight),
                None => return Some(flight),
            }
        }
    }

    /// Returns when the next thing arrives.
    pub(super) fn next(&self) -> Option<Moment> {
        self.flights.first_key_value().map(|((due, _), _)| *due)
    }

    /// Breaks the connections with the store: what was asked there has no answer, and what it reports is lost.
    pub(super) fn break_store(&mut self, now: Moment, unanswered: impl Fn(BrokerJob) -> Option<Cargo>) {
        let (broken, others) =
            std::mem::take(&mut self.flights).into_iter().partition::<BTreeMap<_, _>, _>(|(_, flight)| {
                flight.from == Endpoint::Store || flight.to == Endpoint::Store
            });
        self.flights = others;
        for ((due, _), Flight { from, to, cargo }) in broken {
            let node = if from == Endpoint::Store { to } else { from };
            let lost = match cargo {
                Cargo::Job(job) => unanswered(job),
                Cargo::Answer { lose: Some(lose), .. } => Some(Cargo::Answer { give: lose, lose: None }),
                // It says already that nothing is known.
                Cargo::Answer { give, lose: None } => Some(Cargo::Answer { give, lose: None }),
            };
            if let Some(cargo) = lost {
                self.put(due.max(now), Flight { from: Endpoint::Store, to: node, cargo });
            }
        }
    }

    /// Removes what is on its way and `is_so`.
    pub(super) fn remove(&mut self, is_so: impl Fn(&Flight) -> bool) {
        self.flights.retain(|_, flight| !is_so(flight));
    }

    pub(super) fn pause(&mut self, node: Endpoint, until: Moment) {
        let paused = self.paused.entry(node).or_insert(until);
        *paused = until.max(*paused);
    }

    pub(super) fn cut(&mut self, from: Endpoint, to: Endpoint) {
        self.cuts.insert((from, to));
    }

    pub(super) fn is_cut(&self, from: Endpoint, to: Endpoint) -> bool {
        self.cuts.contains(&(from, to))
    }

    /// Ends all cuts. Returns the nodes that were cut off from the store.
    pub(super) fn heal(&mut self) -> BTreeSet<usize> {
        let cuts = std::mem::take(&mut self.cuts);
        let nodes = cuts.into_iter().filter_map(|way| match way {
            (Endpoint::Node(node), Endpoint::Store) | (Endpoint::Store, Endpoint::Node(node)) => Some(node),
            _ => None,
        });
        nodes.collect()
    }
}

/// How long a client waits for an answer of the store, before it says that nothing is known.
pub(super) const PATIENCE: Duration = Duration::from_secs(2);
