//! The state shared between the threads of callers and the tasks on the engine's own thread.

use crate::connection::{LaneConnection, LaneState, OutgoingMessage};
use crate::problem::{Problem, Violation};
use crate::settings::Nats;
use crate::table::Tombstone;
use postroom_cluster::__private::Floor;
use postroom_cluster::engine::{Attempt, Lane};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::{Semaphore, mpsc, watch};

/// The longest message that a server accepts by default. It applies until a server has announced its own limit.
const DEFAULT_MAX_PAYLOAD: usize = 1 << 20;

/// Maximum number of unanswered questions: requests to the store, and probes.
pub const MAX_QUESTIONS: usize = 4_096;

/// A part of the engine that can have a problem of its own.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum ProblemSource {
    Lane(Lane),
    /// The permissions of this node in a lane.
    Rights(Lane),
    Store,
}

/// Counters of the engine since its start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Connections established. Two are established at the start; more mean that some were lost.
    pub connections: u64,
    /// Messages that were accepted but not sent, because the connection was lost.
    pub unsent: u64,
    /// Messages that arrived and were lost because callbacks were too slow. This is a lower bound: in a burst the
    /// client library reports only about 128 at a time.
    pub dropped: u64,
    /// Callbacks that panicked.
    pub panics: u64,
    /// Publications and subscriptions that the server has refused for lack of permission. This is a lower bound, for
    /// the same reason as with [`dropped`](Self::dropped).
    pub refused: u64,
    /// Messages that the server delivered to a subscription although it does not match their subject, and probes that
    /// asked for an answer on a subject that is not reserved for it. Both are caused by another node.
    pub misdelivered: u64,
}

#[derive(Default)]
pub(crate) struct EngineCounters {
    pub(crate) connections: AtomicU64,
    pub(crate) unsent: AtomicU64,
    pub(crate) dropped: AtomicU64,
    pub(crate) panics: AtomicU64,
    pub(crate) refused: AtomicU64,
    pub(crate) misdelivered: AtomicU64,
}

pub(crate) struct EngineShared {
    pub(crate) settings: Nats,
    data: LaneState,
    control: LaneState,
    /// The connection of [`Lane::Control`] on which the tables of the store have been prepared; `None` until they are.
    pub(crate) store: watch::Sender<Option<LaneConnection>>,
    pub(crate) tombstones: mpsc::UnboundedSender<Tombstone>,
    pub(crate) closed: watch::Sender<bool>,
    pub(crate) max_payload: AtomicUsize,
    pub(crate) questions: Arc<Semaphore>,
    /// The largest revisions that this engine has seen of each table.
    pub(crate) floor: Floor,
    pub(crate) counters: EngineCounters,
    /// The text of the server's last refusal.
    last_refusal: Mutex<Option<String>>,
    problems: Mutex<BTreeMap<ProblemSource, Problem>>,
    /// The servers that were tried without success, and why each connection failed, by lane and place in the settings.
    failures: Mutex<BTreeMap<(Lane, usize), (String, Problem)>>,
    /// The server that the store's requests go to, or went to most recently.
    server: Mutex<Option<String>>,
    /// Notified when a problem appears or disappears.
    changed: Condvar,
}

impl EngineShared {
    pub(crate) fn new(
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

    pub(crate) fn lane(&self, lane: Lane) -> &LaneState {
        match lane {
            Lane::Data => &self.data,
            Lane::Control => &self.control,
        }
    }

    pub(crate) fn is_closed(&self) -> bool {
        *self.closed.borrow()
    }

    pub(crate) fn counts(&self) -> Counts {
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

    /// Marks the store as doubtful: it may no longer be the one that was prepared on this connection. It is prepared
    /// again, and accesses and watches wait until then.
    pub(crate) fn doubt_store(&self, connected: &LaneConnection) {
        self.store.send_if_modified(|store| {
            let is_doubted = store.as_ref().is_some_and(|in_use| in_use.number == connected.number);
            if is_doubted {
                *store = None;
            }
            is_doubted
        });
    }

    /// Schedules the purge of a tombstone.
    pub(crate) fn bury(&self, tombstone: Tombstone) {
        let _ = self.tombstones.send(tombstone);
    }

    /// Records a refusal of the server. The refusal is a problem if the node cannot work without that permission.
    pub(crate) fn refused(&self, lane: Lane, refusal: &Violation) {
        let text = refusal.to_string();
        *self.last_refusal.lock().unwrap_or_else(PoisonError::into_inner) = Some(text);
        // Released after the text is stored, so that a reader of the count finds this text, or a later one.
        self.counters.refused.fetch_add(1, Ordering::Release);
        if refusal.is_of_need(&self.settings) {
            self.set_problem(ProblemSource::Rights(lane), Some(Problem::forbidden(&self.settings, &refusal.subject)));
        }
    }

    pub(crate) fn last_refusal(&self) -> Option<String> {
        self.last_refusal.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Drops the connections. The client ends with its last clone.
    pub(crate) fn disconnect(&self) {
        self.store.send_replace(None);
        for lane in Lane::ALL {
            self.lane(lane).connection.send_replace(None);
        }
    }

    fn problems(&self) -> MutexGuard<'_, BTreeMap<ProblemSource, Problem>> {
        // No code panics while the lock is held.
        self.problems.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn set_problem(&self, part: ProblemSource, problem: Option<Problem>) {
        let mut problems = self.problems();
        match problem {
            Some(problem) => problems.insert(part, problem),
            None => problems.remove(&part),
        };
        drop(problems);
        self.changed.notify_all();
    }

    /// Records the result of an attempt to connect to the server at this place in the settings.
    pub(crate) fn tried(&self, lane: Lane, place: usize, server: &str, problem: Option<&Problem>) {
        let mut failures = self.failures.lock().unwrap_or_else(PoisonError::into_inner);
        match problem {
            Some(problem) => _ = failures.insert((lane, place), (server.to_owned(), problem.clone())),
            // A connected lane needs no other server.
            None => {
                failures.retain(|(of, _), _| *of != lane);
                if lane == Lane::Control {
                    *self.server.lock().unwrap_or_else(PoisonError::into_inner) = Some(server.to_owned());
                }
            }
        }
    }

    /// Returns the servers that were tried without success, each only once even if both lanes have tried it. If there
    /// is none, returns the connected server whose store is not ready.
    pub(crate) fn attempts(&self) -> Vec<Attempt> {
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

    /// Returns a problem that an operator has to solve, or else one that is more specific than a missing answer, or
    /// else any.
    pub(crate) fn problem(&self) -> Option<Problem> {
        worst(&self.problems()).cloned()
    }

    /// Waits until there is no problem, or until there is a lasting one.
    pub(crate) fn wait(&self, at_most: Duration) -> Result<(), Problem> {
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
    // A specific problem is preferred to a missing answer.
    let telling = || problems.values().find(|problem| **problem != Problem::NoAnswer);
    lasting.or_else(telling).or_else(|| problems.values().next())
}
