//! Statistics computed from samples of the threads: the processor time of each type and method, and how long messages
//! wait and take to handle.
//!
//! Shares and quantiles cover the last 30 to 60 seconds: there are two windows, and a new one replaces the older.
//! Totals, for metrics, only grow. Memory is bounded: the number of types and methods by the source of the program and
//! by [`MOST_NAMES`], the number of processes by [`MOST_PROCESSES`].

use super::histogram::{Buckets, Histogram};
use postroom::Pid;
use postroom::inspect::{RunningStep, ThreadState, TimedStep};
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::time::{Duration, Instant};

/// Duration of a window.
const WINDOW: Duration = Duration::from_secs(30);
/// Maximum number of types, and of methods, that are listed separately; the others are combined as [`OTHER`].
const MOST_NAMES: usize = 500;
const OTHER: &str = "other";
/// Maximum number of processes whose figures are kept in a window.
const MOST_PROCESSES: usize = 10_000;
/// Number of samples in a lane: one second of them, if none is late.
const LANE: usize = 100;

/// A process type and the message type of one of its methods.
type TypeAndMethod = (&'static str, &'static str);

#[derive(Default)]
struct Window {
    looks: u64,
    /// Number of times that each method was seen running. The method is empty for steps without a message.
    busy: BTreeMap<TypeAndMethod, u64>,
    busy_processes: HashMap<Pid, u32>,
    handling: BTreeMap<TypeAndMethod, Histogram>,
    waiting: BTreeMap<&'static str, Histogram>,
}

/// When the current step of a thread was first seen.
#[derive(Clone, Copy)]
struct Since {
    pid: Pid,
    steps: u64,
    first_seen: Instant,
}

/// Figures that only grow.
#[derive(Clone, Default)]
pub(crate) struct Totals {
    pub(crate) waiting: BTreeMap<&'static str, Buckets>,
    pub(crate) handling: BTreeMap<TypeAndMethod, Buckets>,
}

pub(crate) struct Profile {
    now: Window,
    before: Window,
    began: Option<Instant>,
    totals: Totals,
    /// Indexed by thread.
    since: BTreeMap<usize, Since>,
    /// Indexed by worker: what the worker ran in the most recent samples, oldest first.
    lanes: Vec<VecDeque<Option<&'static str>>>,
    /// How many seconds a message waited, according to the most recent measurement, and when that measurement was made.
    waits: HashMap<Pid, (f64, Instant)>,
    rates: HashMap<Pid, u64>,
    messages: HashMap<Pid, u64>,
    counted: Option<Instant>,
}

/// How long a measured wait is shown.
const WAIT_LASTS: Duration = Duration::from_secs(10);

/// What a worker has run recently.
pub(crate) struct Lane {
    /// Runs of equal samples, oldest first: their number and the type.
    pub(crate) runs: Vec<(usize, Option<&'static str>)>,
}

/// The figures of a process.
#[derive(Clone, Copy, Default)]
pub(crate) struct ProcessFigures {
    /// How many seconds a message waits.
    pub(crate) wait: Option<f64>,
    /// Share of one processor.
    pub(crate) cpu: f64,
    /// Messages per second.
    pub(crate) rate: u64,
}

/// The figures of a type.
#[derive(Default)]
pub(crate) struct TypeFigures {
    pub(crate) cpu: f64,
    /// The median and the 99th percentile of the waiting times, in seconds.
    pub(crate) wait: Option<(f64, f64)>,
    pub(crate) methods: Vec<MethodFigures>,
}

/// The figures of a method.
pub(crate) struct MethodFigures {
    pub(crate) method: &'static str,
    pub(crate) cpu: f64,
    /// Number of messages timed.
    pub(crate) timed: u64,
    pub(crate) handling: Option<(f64, f64)>,
}

impl Profile {
    pub(crate) fn new(workers: usize) -> Self {
        Self {
            now: Window::default(),
            before: Window::default(),
            began: None,
            totals: Totals::default(),
            since: BTreeMap::new(),
            lanes: vec![VecDeque::new(); workers],
            waits: HashMap::new(),
            rates: HashMap::new(),
            messages: HashMap::new(),
            counted: None,
        }
    }

    /// Clears everything except the totals, because no one is using the profile.
    pub(super) fn rest(&mut self) {
        let totals = std::mem::take(&mut self.totals);
        *self = Self { totals, ..Self::new(self.lanes.len()) };
    }

    /// Records one sample of what the threads run.
    pub(super) fn look(&mut self, at: Instant, steps: &[RunningStep]) {
        if self.began.is_none_or(|began| at.saturating_duration_since(began) >= WINDOW) {
            self.began = Some(at);
            self.before = std::mem::take(&mut self.now);
            self.waits.retain(|_, (_, taken)| at.saturating_duration_since(*taken) < WAIT_LASTS);
        }
        self.now.looks += 1;
        let mut by_worker = vec![None; self.lanes.len()];
        let before = std::mem::take(&mut self.since);
        for step in steps {
            let same = before.get(&step.thread).filter(|since| (since.pid, since.steps) == (step.pid, step.steps));
            let new = Since { pid: step.pid, steps: step.steps, first_seen: at };
            self.since.insert(step.thread, same.copied().unwrap_or(new));
            if let Some(place) = step.worker.and_then(|worker| by_worker.get_mut(worker)) {
                *place = Some(step.process);
            }
            // A blocked thread uses no processor.
            if matches!(step.state, ThreadState::Running | ThreadState::Detached | ThreadState::Pinned) {
                let method = named(&self.now.busy, (step.process, step.message.unwrap_or("")));
                *self.now.busy.entry(method).or_default() += 1;
                let processes = &mut self.now.busy_processes;
                if processes.len() < MOST_PROCESSES || processes.contains_key(&step.pid) {
                    *processes.entry(step.pid).or_default() += 1;
                }
            }
        }
        for (lane, runs) in self.lanes.iter_mut().zip(by_worker) {
            if lane.len() >= LANE {
                lane.pop_front();
            }
            lane.push_back(runs);
        }
    }

    pub(super) fn timed(&mut self, steps: &[TimedStep]) {
        for step in steps {
            let method = named(&self.now.handling, (step.process, step.message));
            self.now.handling.entry(method).or_default().add(step.took);
            let method = named(&self.totals.handling, (step.process, step.message));
            self.totals.handling.entry(method).or_default().add(step.took);
        }
    }

    /// Records how long a message to a process has waited, once the wait has ended.
    pub(super) fn waited(&mut self, at: Instant, process: &'static str, pid: Pid, waited: Duration) {
        let key = name_of(&self.now.waiting, process);
        self.now.waiting.entry(key).or_default().add(waited);
        let key = name_of(&self.totals.waiting, process);
        self.totals.waiting.entry(key).or_default().add(waited);
        self.still_waits(at, pid, waited);
    }

    /// Records how long a message to a process has waited so far.
    pub(super) fn still_waits(&mut self, at: Instant, pid: Pid, waited: Duration) {
        if self.waits.len() < MOST_PROCESSES || self.waits.contains_key(&pid) {
            self.waits.insert(pid, (waited.as_secs_f64(), at));
        }
    }

    /// Stores the message counts of all processes, and computes rates from the previous counts.
    pub(super) fn count(&mut self, at: Instant, messages: HashMap<Pid, u64>) {
        let seconds = self.counted.map(|counted| at.saturating_duration_since(counted).as_secs_f64());
        self.rates.clear();
        if let Some(seconds) = seconds.filter(|seconds| *seconds > 0.0) {
            let rate = |(pid, count): (&Pid, &u64)| {
                let more = count.saturating_sub(self.messages.get(pid).copied().unwrap_or(0));
                (more > 0).then_some((*pid, (more as f64 / seconds).round() as u64))
            };
            self.rates = messages.iter().filter_map(rate).collect();
        }
        (self.messages, self.counted) = (messages, Some(at));
    }

    #[cfg(test)]
    pub(super) fn has_looked(&self) -> bool {
        self.now.looks > 0
    }

    fn looks(&self) -> f64 {
        (self.now.looks + self.before.looks).max(1) as f64
    }

    pub(crate) fn process(&self, pid: Pid) -> ProcessFigures {
        let busy = [&self.now, &self.before].map(|window| window.busy_processes.get(&pid).copied().unwrap_or(0));
        ProcessFigures {
            wait: self.waits.get(&pid).map(|(seconds, _)| *seconds),
            cpu: f64::from(busy[0] + busy[1]) / self.looks(),
            rate: self.rates.get(&pid).copied().unwrap_or(0),
        }
    }

    /// Returns when a thread's current step was first seen, if it is a step of this process.
    pub(crate) fn since(&self, thread: usize, pid: Pid) -> Option<Instant> {
        self.since.get(&thread).filter(|since| since.pid == pid).map(|since| since.first_seen)
    }

    pub(crate) fn lanes(&self) -> Vec<Lane> {
        let lane = |looks: &VecDeque<Option<&'static str>>| {
            let mut runs: Vec<(usize, Option<&'static str>)> = Vec::new();
            for &look in looks {
                match runs.last_mut() {
                    Some((count, last)) if *last == look => *count += 1,
                    _ => runs.push((1, look)),
                }
            }
            Lane { runs }
        };
        self.lanes.iter().map(lane).collect()
    }

    /// Returns the figures by type.
    pub(crate) fn types(&self) -> BTreeMap<&'static str, TypeFigures> {
        let mut types: BTreeMap<&'static str, TypeFigures> = BTreeMap::new();
        let mut busy: BTreeMap<TypeAndMethod, u64> = BTreeMap::new();
        let mut handling: BTreeMap<TypeAndMethod, Histogram> = BTreeMap::new();
        let mut waiting: BTreeMap<&'static str, Histogram> = BTreeMap::new();
        for window in [&self.now, &self.before] {
            window.busy.iter().for_each(|(method, count)| *busy.entry(*method).or_default() += count);
            window.handling.iter().for_each(|(method, times)| handling.entry(*method).or_default().merge(times));
            window.waiting.iter().for_each(|(process, times)| waiting.entry(*process).or_default().merge(times));
            for method in window.handling.keys() {
                busy.entry(*method).or_default();
            }
        }
        for (process, times) in waiting {
            types.entry(process).or_default().wait = both(&times);
        }
        for ((process, method), count) in busy {
            let (cpu, times) = (count as f64 / self.looks(), handling.get(&(process, method)));
            let figures = types.entry(process).or_default();
            figures.cpu += cpu;
            figures.methods.push(MethodFigures {
                method,
                cpu,
                timed: times.map_or(0, Histogram::total),
                handling: times.and_then(both),
            });
        }
        types
    }

    pub(crate) fn totals(&self) -> &Totals {
        &self.totals
    }
}

/// Returns the median and the 99th percentile.
fn both(times: &Histogram) -> Option<(f64, f64)> {
    Some((times.quantile(0.5)?, times.quantile(0.99)?))
}

fn name_of<T>(names: &BTreeMap<&'static str, T>, name: &'static str) -> &'static str {
    if names.len() < MOST_NAMES || names.contains_key(name) { name } else { OTHER }
}

fn named<T>(methods: &BTreeMap<TypeAndMethod, T>, method: TypeAndMethod) -> TypeAndMethod {
    if methods.len() < MOST_NAMES || methods.contains_key(&method) { method } else { (OTHER, OTHER) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::LazyLock;

    #[test]
    fn names_beyond_the_most_are_one() {
        let mut methods: BTreeMap<TypeAndMethod, u64> = BTreeMap::new();
        static NAMES: LazyLock<Vec<String>> =
            LazyLock::new(|| (0..MOST_NAMES + 10).map(|number| number.to_string()).collect());
        for name in &*NAMES {
            *methods.entry(named(&methods, (name, "method"))).or_default() += 1;
        }
        assert_eq!((methods.len(), methods[&(OTHER, OTHER)]), (MOST_NAMES + 1, 10));
        assert_eq!(named(&methods, (&NAMES[0], "method")), (&*NAMES[0], "method"));
    }

    #[test]
    fn waits_and_rates_are_of_the_last_round() {
        let (mut profile, at) = (Profile::new(1), Instant::now());
        let pid: Pid = "<000000000001.0.1.1>".parse().expect("a PID");
        profile.waited(at, "Clerk", pid, Duration::from_millis(3));
        profile.count(at, HashMap::from([(pid, 100)]));
        assert_eq!(profile.process(pid).rate, 0, "nothing to compare with");
        profile.count(at + Duration::from_secs(2), HashMap::from([(pid, 300)]));
        let figures = profile.process(pid);
        assert_eq!((figures.rate, figures.wait), (100, Some(0.003)));
        profile.rest();
        assert_eq!((profile.process(pid).wait, profile.totals().waiting["Clerk"].count), (None, 1));
    }
}
