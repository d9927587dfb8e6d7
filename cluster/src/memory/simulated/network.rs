//! The network of a simulated broker: everything in flight between the nodes and the store, and the faults.
//!
//! # Order
//! Everything that travels in one direction between two endpoints arrives in order, as on one connection, except for
//! messages that are reordered. The reports of a watch share one connection, which is lost as a whole: they are never
//! reordered, lost or duplicated individually. An answer from the store may be lost, but is not reordered or
//! duplicated.

use crate::clock::Moment;
use crate::memory::state::BrokerJob;
use postroom::test::Sim;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// The random faults of a simulated network; none by default.
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
    /// The probability that a message between nodes is lost, and that a request to the store or its answer is lost. The
    /// client that made the request then learns that the outcome is unknown.
    pub drop: f64,
    /// The probability that a message arrives twice.
    pub duplicate: f64,
    /// The probability that a message may overtake earlier ones.
    pub reorder: f64,
    /// The maximum delay of anything in flight.
    pub delay: Duration,
}

/// The source or the destination of a flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Endpoint {
    /// The broker's store, and its knowledge of subscriptions.
    Store,
    /// A node, by its client's number.
    Node(usize),
}

/// The content of a flight.
pub(super) enum Cargo {
    /// A message, a request or a report, which is performed on arrival.
    Job(BrokerJob),
    /// An answer.
    Answer {
        /// Delivers the answer.
        give: Box<dyn FnOnce() + Send>,
        /// Reports an unknown outcome instead; `None` if the answer already does so.
        lose: Option<Box<dyn FnOnce() + Send>>,
    },
}

pub(super) struct Flight {
    pub(super) from: Endpoint,
    pub(super) to: Endpoint,
    pub(super) cargo: Cargo,
}

impl Flight {
    /// Returns whether this is a change reported to the given watch.
    pub(super) fn reports_to(&self, watch: u64) -> bool {
        matches!(&self.cargo, Cargo::Job(BrokerJob::Report { watch: of, .. }) if *of == watch)
    }
}

#[derive(Default)]
pub(super) struct Network {
    pub(super) faults: Faults,
    /// Directions in which nothing arrives.
    cuts: BTreeSet<(Endpoint, Endpoint)>,
    /// Nodes that receive nothing until this time.
    paused: BTreeMap<Endpoint, Moment>,
    /// Sorted by arrival, then by departure.
    flights: BTreeMap<(Moment, u64), Flight>,
    /// When the last flight in each direction arrives.
    last: BTreeMap<(Endpoint, Endpoint), Moment>,
    count: u64,
}

impl Network {
    /// Sends a flight on its way. It arrives after earlier ones, unless it `may_overtake` them.
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

    /// Schedules an arrival at this time, independent of other flights.
    pub(super) fn put(&mut self, due: Moment, flight: Flight) {
        self.count += 1;
        self.flights.insert((due, self.count), flight);
    }

    /// Takes the next flight that has arrived by `now`. A flight to a paused node waits until the pause is over.
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

    /// Returns when the next flight arrives.
    pub(super) fn next(&self) -> Option<Moment> {
        self.flights.first_key_value().map(|((due, _), _)| *due)
    }

    /// Breaks the connections with the store: requests get an unknown outcome, and reports are lost.
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
                // The answer already reports an unknown outcome.
                Cargo::Answer { give, lose: None } => Some(Cargo::Answer { give, lose: None }),
            };
            if let Some(cargo) = lost {
                self.put(due.max(now), Flight { from: Endpoint::Store, to: node, cargo });
            }
        }
    }

    /// Removes the flights for which `is_so` returns true.
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

/// How long a client waits for an answer from the store before the outcome counts as unknown.
pub(super) const PATIENCE: Duration = Duration::from_secs(2);
