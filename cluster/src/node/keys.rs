//! Starts with a key: a repetition returns the process of the first start.
//!
//! Each node has one table, for its own starts and those of its peers. A key belongs to the first start that uses it,
//! from the moment when that start begins: concurrent repetitions wait for its result (single flight). A start that
//! fails frees its key. The table remembers a process even if an answer is lost or a session ends.
//!
//! [`keyed`](crate::keyed) uses keys differently: there, a key has a live process. When that process ends, a successor
//! takes its place; when the members change, the key may move to another node. Here, a key identifies one request,
//! whatever its inputs, and the answer stays the same whether or not the process still runs. The two have only the list
//! of callers that wait for a start in common.
//!
//! # Limits
//! | limit | value | beyond it |
//! |---|---|---|
//! | keys | [`MAX_KEYS`] = 1,024 | the least recently used one is forgotten, and counted; refused if all are starting |
//! | time since the last use | [`KEPT_FOR`] = 5 min | the key is forgotten |
//! | a key | [`MAX_KEY`](crate::starts::MAX_KEY) = 1,024 B | refused |

use super::delivery::NodeCounters;
use super::peer::SharedClock;
use crate::clock::Moment;
use crate::starts::{NotStarted, Started};
use postroom::Pid;
use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Maximum number of keys that a node remembers.
pub(crate) const MAX_KEYS: usize = 1_024;
/// The time for which a key is remembered after its last use.
const KEPT_FOR: Duration = Duration::from_secs(5 * 60);

/// A callback that receives the result of a start.
type Then = Box<dyn FnOnce(Started) + Send>;

/// The keys of one node.
pub(crate) struct StartKeys {
    clock: SharedClock,
    counters: Arc<NodeCounters>,
    entries: Mutex<BTreeMap<String, StartRecord>>,
}

struct StartRecord {
    /// The name of the process type.
    process: String,
    state: StartProgress,
}

enum StartProgress {
    /// The start is running, and these repetitions wait for it.
    Starting(Vec<Then>),
    Started {
        pid: Pid,
        used: Moment,
    },
}

impl StartKeys {
    pub(crate) fn new(clock: SharedClock, counters: Arc<NodeCounters>) -> Self {
        Self { clock, counters, entries: Mutex::default() }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, StartRecord>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts a process with `start` unless its key was used. Calls `then` with the result, on the thread that obtains
    /// the result.
    pub(crate) fn start(
        &self,
        key: String,
        process: &str,
        then: impl FnOnce(Started) + Send + 'static,
        start: impl FnOnce() -> Started,
    ) {
        let Some(then) = self.begin(&key, process, Box::new(then)) else { return };
        // When dropped, this records the result and notifies the waiting repetitions. If the start panics, it frees the
        // key.
        let mut running = RunningStart { keys: self, key, then: Some(then), started: None };
        running.started = Some(start());
    }

    /// Claims the key. Returns `then` if the caller has to perform the start; otherwise `then` is called now, or when
    /// the start in progress ends.
    fn begin(&self, key: &str, process: &str, then: Then) -> Option<Then> {
        let now = (self.clock)();
        let mut entries = self.lock();
        entries.retain(|_, entry| match entry.state {
            StartProgress::Started { used, .. } => now.since(used) < KEPT_FOR,
            StartProgress::Starting(_) => true,
        });
        if !entries.contains_key(key) && (entries.len() < MAX_KEYS || self.forget_one(&mut entries)) {
            let state = StartProgress::Starting(Vec::new());
            entries.insert(key.to_owned(), StartRecord { process: process.to_owned(), state });
            return Some(then);
        }
        let answer = match entries.get_mut(key) {
            Some(entry) if entry.process != process => Err(NotStarted::KeyTaken { process: entry.process.clone() }),
            Some(StartRecord { state: StartProgress::Starting(waiting), .. }) => {
                waiting.push(then);
                return None;
            }
            Some(StartRecord { state: StartProgress::Started { pid, used }, .. }) => {
                *used = now;
                Ok(*pid)
            }
            None => Err(format!("it starts {MAX_KEYS} processes with keys already; try again").into()),
        };
        drop(entries);
        then(answer);
        None
    }

    /// Forgets the least recently used key. Returns false if all keys belong to starts that are in progress.
    fn forget_one(&self, entries: &mut BTreeMap<String, StartRecord>) -> bool {
        let used = |(key, entry): (&String, &StartRecord)| match entry.state {
            StartProgress::Started { used, .. } => Some((used, key.clone())),
            StartProgress::Starting(_) => None,
        };
        let Some((_, oldest)) = entries.iter().filter_map(used).min() else { return false };
        entries.remove(&oldest);
        self.counters.forgotten_keys.fetch_add(1, Ordering::Relaxed);
        true
    }

    fn end(&self, key: &str, started: &Started) -> Vec<Then> {
        let now = (self.clock)();
        let mut entries = self.lock();
        let state = match started {
            Ok(pid) => entries
                .get_mut(key)
                .map(|entry| std::mem::replace(&mut entry.state, StartProgress::Started { pid: *pid, used: now })),
            Err(_) => entries.remove(key).map(|entry| entry.state),
        };
        match state {
            Some(StartProgress::Starting(waiting)) => waiting,
            Some(StartProgress::Started { .. }) | None => Vec::new(),
        }
    }
}

/// A start in progress.
struct RunningStart<'a> {
    keys: &'a StartKeys,
    key: String,
    then: Option<Then>,
    started: Option<Started>,
}

impl Drop for RunningStart<'_> {
    fn drop(&mut self) {
        let panicked = || Err("the start has panicked".into());
        let started = self.started.take().unwrap_or_else(panicked);
        let waiting = self.keys.end(&self.key, &started);
        // Called outside the lock, since these may wake user code.
        self.then.take().into_iter().chain(waiting).for_each(|then| then(started.clone()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicU64;
    use std::sync::mpsc::{Receiver, channel};

    struct Node {
        keys: Arc<StartKeys>,
        seconds: Arc<AtomicU64>,
        starts: AtomicU64,
    }

    fn node() -> Node {
        let seconds = Arc::<AtomicU64>::default();
        let clock = Arc::clone(&seconds);
        let clock = Arc::new(move || Moment::after_start(Duration::from_secs(clock.load(Ordering::Relaxed))));
        Node { keys: Arc::new(StartKeys::new(clock, Arc::default())), seconds, starts: AtomicU64::new(0) }
    }

    fn pid(number: u64) -> Pid {
        format!("<7f.1.{number}.3>").parse().unwrap()
    }

    impl Node {
        fn start(&self, key: &str, process: &str) -> Started {
            let (tell, told) = channel();
            let start = || Ok(pid(1 + self.starts.fetch_add(1, Ordering::Relaxed)));
            self.keys.start(key.into(), process, move |started| tell.send(started).unwrap(), start);
            told.try_recv().expect("told at once")
        }

        fn pass(&self, seconds: u64) {
            self.seconds.fetch_add(seconds, Ordering::Relaxed);
        }

        fn forgotten(&self) -> u64 {
            self.keys.counters.forgotten_keys.load(Ordering::Relaxed)
        }
    }

    #[test]
    fn a_key_has_one_process_for_five_minutes_after_its_last_use() {
        let node = node();
        assert_eq!(node.start("a", "Account"), Ok(pid(1)));
        assert_eq!(node.start("b", "Account"), Ok(pid(2)));
        node.pass(299);
        assert_eq!(node.start("a", "Account"), Ok(pid(1)));
        assert_eq!(node.start("a", "Stock"), Err(NotStarted::KeyTaken { process: "Account".into() }));
        node.pass(299);
        assert_eq!(node.start("a", "Account"), Ok(pid(1)), "it was used");
        assert_eq!(node.start("b", "Stock"), Ok(pid(3)), "it is forgotten");
        assert_eq!(node.forgotten(), 0, "as promised");
    }

    #[test]
    fn of_too_many_keys_the_one_used_longest_ago_is_forgotten_and_counted() {
        let node = node();
        for number in 0..MAX_KEYS {
            node.start(&number.to_string(), "Account").unwrap();
        }
        node.pass(1);
        assert_eq!(node.start("0", "Account"), Ok(pid(1)));
        node.start("more", "Account").unwrap();
        assert_eq!((node.keys.lock().len(), node.forgotten()), (MAX_KEYS, 1));
        assert_eq!(node.start("0", "Account"), Ok(pid(1)), "it was used later than others");
    }

    fn begin(node: &Node, key: &str) -> (Option<Then>, Receiver<Started>) {
        let (tell, told) = channel();
        (node.keys.begin(key, "Account", Box::new(move |started| tell.send(started).unwrap())), told)
    }

    #[test]
    fn a_repetition_waits_for_a_start_that_runs_and_hears_its_failure() {
        for outcome in [Ok(pid(5)), Err(NotStarted::from("no money"))] {
            let node = node();
            let (first, told) = begin(&node, "a");
            let (second, second_told) = begin(&node, "a");
            assert!(first.is_some() && second.is_none() && second_told.try_recv().is_err());
            let running =
                RunningStart { keys: &node.keys, key: "a".into(), then: first, started: Some(outcome.clone()) };
            drop(running);
            assert_eq!([told, second_told].map(|told| told.try_recv()), [Ok(outcome.clone()), Ok(outcome.clone())]);
            assert_eq!(node.start("a", "Account"), Ok(if outcome.is_ok() { pid(5) } else { pid(1) }));
        }
    }

    #[test]
    fn a_start_that_panics_frees_its_key() {
        let node = node();
        let keys = Arc::clone(&node.keys);
        let (tell, told) = channel();
        let panicked = std::thread::spawn(move || {
            keys.start("a".into(), "Account", move |started| tell.send(started).unwrap(), || panic!("no money"))
        });
        assert!(panicked.join().is_err());
        assert_eq!(told.try_recv(), Ok(Err("the start has panicked".into())));
        assert_eq!(node.start("a", "Account"), Ok(pid(1)));
    }

    #[test]
    fn while_all_starts_run_more_are_refused() {
        let node = node();
        let running: Vec<_> = (0..MAX_KEYS).map(|number| begin(&node, &number.to_string())).collect();
        assert!(running.iter().all(|(then, _)| then.is_some()));
        let (then, told) = begin(&node, "more");
        assert!(then.is_none() && matches!(told.try_recv(), Ok(Err(NotStarted::Said(_)))));
    }
}
