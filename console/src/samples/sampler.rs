//! The thread that looks at the runtime's threads a hundred times a second, while someone looks at the console.

use super::profile::Profile;
use postroom::inspect::{ProcessInfo, WaitMeasurement, Waited};
use postroom::{Host, Pid};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// Between two looks.
const EVERY: Duration = Duration::from_millis(10);
/// Between two rounds in which waits are measured and messages counted.
const ROUND: Duration = Duration::from_secs(1);
/// How long the thread goes on after the last look at the console.
const LASTS: Duration = Duration::from_secs(60);
/// The longest mailboxes, in which waits are measured first.
const LONGEST: usize = 100;
/// In how many more mailboxes of each type.
const OF_EACH_TYPE: usize = 32;
/// The most measurements at a time.
const MOST: usize = 512;

struct Shared {
    state: Mutex<State>,
    changed: Condvar,
    profile: Mutex<Profile>,
}

struct State {
    looked: Option<Instant>,
    is_over: bool,
}

/// The profile of a host, and the thread that makes it.
pub(crate) struct Samples {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Samples {
    pub(crate) fn start(host: Host) -> std::io::Result<Self> {
        let shared = Arc::new(Shared {
            state: Mutex::new(State { looked: None, is_over: false }),
            changed: Condvar::new(),
            profile: Mutex::new(Profile::new(host.workers())),
        });
        let own = shared.clone();
        let thread = thread::Builder::new().name("postroom-samples".into()).spawn(move || run(host, &own))?;
        Ok(Self { shared, thread: Some(thread) })
    }

    /// Returns the profile: from now on, and for a minute, it is kept up to date.
    pub(crate) fn look(&self) -> MutexGuard<'_, Profile> {
        let mut state = lock(&self.shared.state);
        let rested = state.looked.replace(Instant::now()).is_none();
        drop(state);
        if rested {
            self.shared.changed.notify_all();
        }
        lock(&self.shared.profile)
    }
}

impl Drop for Samples {
    fn drop(&mut self) {
        lock(&self.shared.state).is_over = true;
        self.shared.changed.notify_all();
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!(
                target: "postroom", "the console's sampling thread has panicked, and measured nothing since"
            );
        }
    }
}

/// Waits until someone looks. Returns false when the console ends.
fn await_look(shared: &Shared) -> bool {
    let state = lock(&shared.state);
    let rests = |state: &mut State| !state.is_over && state.looked.is_none();
    !shared.changed.wait_while(state, rests).unwrap_or_else(PoisonError::into_inner).is_over
}

/// Waits until the next look at the threads is due. Returns false when nobody has looked at the console for long.
fn go_on(shared: &Shared) -> bool {
    let state = lock(&shared.state);
    let goes_on = |state: &mut State| !state.is_over;
    let (mut state, _) =
        shared.changed.wait_timeout_while(state, EVERY, goes_on).unwrap_or_else(PoisonError::into_inner);
    let is_wanted = state.looked.is_some_and(|looked| looked.elapsed() < LASTS);
    if !is_wanted {
        state.looked = None;
    }
    is_wanted && !state.is_over
}

fn run(host: Host, shared: &Shared) {
    while await_look(shared) {
        let (mut measurements, mut round, mut rounds) = (Vec::new(), None::<Instant>, 0);
        while go_on(shared) {
            let (steps, timed, now) = (host.running_steps(), host.time_steps(), Instant::now());
            let mut profile = lock(&shared.profile);
            profile.look(now, &steps);
            profile.timed(&timed);
            measurements.retain(|measurement| follow(&mut profile, now, measurement));
            drop(profile);
            if round.is_none_or(|round| now.duration_since(round) >= ROUND) {
                (round, rounds) = (Some(now), rounds + 1);
                begin_round(host, shared, &mut measurements, rounds);
            }
        }
        lock(&shared.profile).rest();
    }
}

struct Measurement {
    pid: Pid,
    process: &'static str,
    measurement: WaitMeasurement,
}

/// Looks at a measurement. Returns whether it goes on.
fn follow(profile: &mut Profile, now: Instant, measurement: &Measurement) -> bool {
    let Measurement { pid, process, measurement } = measurement;
    match measurement.look() {
        Waited::SoFar(waited) => {
            profile.still_waits(now, *pid, waited);
            true
        }
        Waited::For(waited) => {
            profile.waited(now, process, *pid, waited);
            false
        }
        _ => false,
    }
}

/// Counts messages, and begins to measure waits.
fn begin_round(host: Host, shared: &Shared, measurements: &mut Vec<Measurement>, round: usize) {
    let (processes, now) = (host.processes(), Instant::now());
    let messages: HashMap<Pid, u64> = processes.iter().map(|info| (info.pid, info.messages)).collect();
    lock(&shared.profile).count(now, messages);
    let measured: BTreeSet<Pid> = measurements.iter().map(|measurement| measurement.pid).collect();
    for info in choose(&processes, round) {
        if measurements.len() >= MOST {
            break;
        }
        if measured.contains(&info.pid) {
            continue;
        }
        if let Some(measurement) = info.pid.measure_wait() {
            measurements.push(Measurement { pid: info.pid, process: info.process, measurement });
        }
    }
}

/// Chooses mailboxes that are not empty: the longest, and some of each type, others in each round.
fn choose(processes: &[ProcessInfo], round: usize) -> Vec<&ProcessInfo> {
    let mut by_type: BTreeMap<&str, Vec<&ProcessInfo>> = BTreeMap::new();
    let mut filled: Vec<_> = processes.iter().filter(|info| info.mailbox > 0).collect();
    filled.iter().for_each(|info| by_type.entry(info.process).or_default().push(info));
    if filled.len() > LONGEST {
        filled.select_nth_unstable_by_key(LONGEST, |info| std::cmp::Reverse(info.mailbox));
        filled.truncate(LONGEST);
    }
    let mut chosen: BTreeMap<Pid, &ProcessInfo> = BTreeMap::new();
    for of_type in by_type.into_values() {
        let stride = of_type.len().div_ceil(OF_EACH_TYPE);
        chosen.extend(of_type.into_iter().skip(round % stride).step_by(stride).map(|info| (info.pid, info)));
    }
    let is_longest: BTreeSet<Pid> = filled.iter().map(|info| info.pid).collect();
    filled.extend(chosen.into_values().filter(|info| !is_longest.contains(&info.pid)));
    filled
}
