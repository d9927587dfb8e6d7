//! What the threads of callers, and the tasks on the engine's own thread, know of each other.

use super::connection::{LaneConnection, LaneState, OutgoingMessage};
use super::problem::{Problem, Violation};
use super::settings::Nats;
use super::table::Tombstone;
use crate::engine::{Attempt, Lane};
use crate::floor::Floor;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::{Semaphore, mpsc, watch};

/// The longest message that a server takes by default; until a server has said what it takes, this counts.
const DEFAULT_MAX_PAYLOAD: usize = 1 << 20;

/// How many questions to the store and probes may be unanswered at a time.
pub const MAX_QUESTIONS: usize = 4_096;

/// What may have a problem of its own.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum ProblemSource {
    Lane(Lane),
    /// What this node may do in a lane.
    Rights(Lane),
    Store,
}

/// How often something has happened since the engine started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Connections that were made. Two are made at the start; more mean that some were lost.
    pub connections: u64,
    /// Messages that were accepted and could not be sent: the connection was lost first.
    pub unsent: u64,
    /// Messages that arrived and were lost, because callbacks were too slow for them. A lower bound: in a burst the
    /// client library reports some 128 at a time, and no more.
    pub dropped: u64,
    /// Callbacks that panicked.
    pub panics: u64,
    /// What this node has published or subscribed to, and the server has refused because the node has no right to it. A
    /// lower bound, for the same reason.
    pub refused: u64,
    /// Messages that the server delivered to a subscription which does not have their subject, and probes that asked
    /// for an answer elsewhere: another node has arranged that.
    pub misdelivered: u64,
}

#[derive(Default)]
pub(super) struct EngineCounters {
    pub(super) connections: AtomicU64,
    pub(super) unsent: AtomicU64,
    pub(super) dropped: AtomicU64,
    pub(super) panics: AtomicU64,
    pub(super) refused: AtomicU64,
    pub(super) misdelivered: AtomicU64,
}

pub(super) struct EngineShared {
    pub(super) settings: Nats,
    data: LaneState,
    control: LaneState,
    /// The connection in [`Lane::Control`], while the tables of the store are there and are prepared.
    pub(super) store: watch::Sender<Option<LaneConnection>>,
    pub(super) tombstones: mpsc::UnboundedSender<Tombstone>,
    pub(super) closed: watch::Sender<bool>,
    pub(super) max_payload: AtomicUsize,
    pub(super) questions: Arc<Semaphore>,
    /// What this engine has seen of each table.
    pub(super) floor: Floor,
    pub(super) counters: EngineCounters,
    /// What the server said of the last refusal.
    last_refusal: Mutex<Option<String>>,
    problems: Mutex<BTreeMap<ProblemSource, Problem>>,
    /// Why there is no connection with each server that was tried, by lane and in the order of the settings.
    failures: Mutex<BTreeMap<(Lane, usize), (String, Problem)>>,
    /// The server that the store is asked of, or was last.
    server: Mutex<Option<String>>,
    /// A problem has come or gone.
    changed: Condvar,
}

impl EngineShared {
    pub(super) fn new(
        settings: Nats,
        data: mpsc::Sender<OutgoingMessage>,
        control: mpsc::Sender<OutgoingMessage>,
        tombstones: mpsc::UnboundedSender<Tombstone>,
    ) -> Self {
        let problems = [ProblemSource::Lane(Lane::Data), ProblemSource::Lane(Lane::Control), ProblemSource::Store];
        Self {
            settings,
            data: LaneState::new(data),
            control: LaneState::new(control),
            store: watch::Sender::new(None),
            tombstones,
            closed: watch::Sender::new(false),
            max_payload: AtomicUsize::new(DEFAULT_MAX_PAYLOAD),
            questions: Arc::new(Semaphore::new(MAX_QUESTIONS)),
            floor: Floor::default(),
            counters: EngineCounters::default(),
            last_refusal: Mutex::default(),
            problems: Mutex::new(problems.map(|part| (part, Problem::NoAnswer)).into()),
            failures: Mutex::default(),
            server: Mutex::default(),
            changed: Condvar::new(),
        }
    }

    pub(super) fn lane(&self, lane: Lane) -> &LaneState {
        match lane {
            Lane::Data => &self.data,
            Lane::Control => &self.control,
        }
    }

    pub(super) fn is_closed(&self) -> bool {
        *self.closed.borrow()
    }

    pub(super) fn counts(&self) -> Counts {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Counts {
            connections: read(&self.counters.connections),
            unsent: read(&self.counters.unsent),
            dropped: read(&self.counters.dropped),
            panics: read(&self.counters.panics),
            refused: self.counters.refused.load(Ordering::Acquire),
            misdelivered: read(&self.counters.misdelivered),
        }
    }

    /// The store may be another than the one that was prepared on this connection: it is prepared again, and accesses
    /// and watches wait for that.
    pub(super) fn doubt_store(&self, connected: &LaneConnection) {
        self.store.send_if_modified(|store| {
            let is_doubted = store.as_ref().is_some_and(|in_use| in_use.number == connected.number);
            if is_doubted {
                *store = None;
            }
            is_doubted
        });
    }

    /// Has a tombstone purged when its time has come.
    pub(super) fn bury(&self, tombstone: Tombstone) {
        let _ = self.tombstones.send(tombstone);
    }

    /// Notes what the server refuses. It is a problem if the node cannot do without it.
    pub(super) fn refused(&self, lane: Lane, refusal: &Violation) {
        let text = refusal.to_string();
        *self.last_refusal.lock().unwrap_or_else(PoisonError::into_inner) = Some(text);
        // After the text: who sees it counted finds that, or a later one.
        self.counters.refused.fetch_add(1, Ordering::Release);
        if refusal.is_of_need(&self.settings) {
            self.set_problem(ProblemSource::Rights(lane), Some(Problem::forbidden(&self.settings, &refusal.subject)));
        }
    }

    pub(super) fn last_refusal(&self) -> Option<String> {
        self.last_refusal.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Lets go of the connections. The client ends with the last that holds it.
    pub(super) fn disconnect(&self) {
        self.store.send_replace(None);
        for lane in Lane::ALL {
            self.lane(lane).connection.send_replace(None);
        }
    }

    fn problems(&self) -> MutexGuard<'_, BTreeMap<ProblemSource, Problem>> {
        // Nothing panics while it is locked.
        self.problems.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn set_problem(&self, part: ProblemSource, problem: Option<Problem>) {
        let mut problems = self.problems();
        match problem {
            Some(problem) => problems.insert(part, problem),
            None => problems.remove(&part),
        };
        drop(problems);
        self.changed.notify_all();
    }

    /// Notes what came of an attempt to connect with a server, which has this place in the settings.
    pub(super) fn tried(&self, lane: Lane, place: usize, server: &str, problem: Option<&Problem>) {
        let mut failures = self.failures.lock().unwrap_or_else(PoisonError::into_inner);
        match problem {
            Some(problem) => _ = failures.insert((lane, place), (server.to_owned(), problem.clone())),
            // A lane that is connected needs no other server.
            None => {
                failures.retain(|(of, _), _| *of != lane);
                if lane == Lane::Control {
                    *self.server.lock().unwrap_or_else(PoisonError::into_inner) = Some(server.to_owned());
                }
            }
        }
    }

    /// Returns the servers that were tried in vain: each once, though both lanes have tried it. If there is none, the
    /// one that is connected and has no store yet.
    pub(super) fn attempts(&self) -> Vec<Attempt> {
        let failures = self.failures.lock().unwrap_or_else(PoisonError::into_inner);
        let by_place: BTreeMap<_, _> = failures.iter().map(|((_, place), failure)| (*place, failure)).collect();
        let attempt =
            |(server, problem): &(String, Problem)| Attempt { server: server.clone(), problem: problem.to_string() };
        let attempts: Vec<_> = by_place.into_values().map(attempt).collect();
        if !attempts.is_empty() {
            return attempts;
        }
        let server = self.server.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let missing = self.problem().map(|problem| match problem {
            Problem::NoAnswer => "it is connected, and its store has not answered yet".to_owned(),
            problem => problem.to_string(),
        });
        server.zip(missing).map(|(server, problem)| Attempt { server, problem }).into_iter().collect()
    }

    /// Returns the problem that an operator has to do something about, or else the first.
    pub(super) fn problem(&self) -> Option<Problem> {
        worst(&self.problems()).cloned()
    }

    /// Waits until there is no problem, or a lasting one.
    pub(super) fn wait(&self, at_most: Duration) -> Result<(), Problem> {
        let began = Instant::now();
        let mut problems = self.problems();
        while let Some(problem) = worst(&problems) {
            let left = at_most.saturating_sub(began.elapsed());
            if left.is_zero() || problem.is_lasting() {
                return Err(problem.clone());
            }
            problems = self.changed.wait_timeout(problems, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        Ok(())
    }
}

fn worst(problems: &BTreeMap<ProblemSource, Problem>) -> Option<&Problem> {
    let lasting = problems.values().find(|problem| problem.is_lasting());
    // One that says something rather than that there was no answer.
    let telling = || problems.values().find(|problem| **problem != Problem::NoAnswer);
    lasting.or_else(telling).or_else(|| problems.values().next())
}
