//! The threads that measure while someone uses the console: one samples the runtime's threads a hundred times per
//! second, the other inspects all processes once per second.
//!
//! The first thread does little work and keeps its normal priority: with a lower one it would sample only the moments
//! at which it gets a processor, and its shares would be biased. The second thread does much work, and lowers its
//! priority.

use super::profile::Profile;
use crate::priority::give_way;
use postroom::inspect::{ProcessInfo, WaitMeasurement, Waited};
use postroom::{Host, Pid};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// Interval between two samples.
const EVERY: Duration = Duration::from_millis(10);
/// Interval between two rounds, in which waits are measured and messages counted.
const ROUND: Duration = Duration::from_secs(1);
/// How long the threads continue after the last request for the profile.
const LASTS: Duration = Duration::from_secs(60);
/// Number of mailboxes, the longest ones, in which waits are measured first.
const LONGEST: usize = 100;
/// Number of other mailboxes of each type in which waits are measured.
const OF_EACH_TYPE: usize = 32;
/// Maximum number of simultaneous measurements.
const MOST: usize = 512;

struct Shared {
    state: Mutex<SamplerState>,
    changed: Condvar,
    profile: Mutex<Profile>,
    measurements: Mutex<Vec<Measurement>>,
}

struct SamplerState {
    looked: Option<Instant>,
    /// How long the threads continue after the last request: [`LASTS`], except in tests.
    lasts: Duration,
    is_over: bool,
}

/// The profile of a host, and the threads that maintain it.
pub(crate) struct Samples {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Samples {
    pub(crate) fn start(host: Host) -> std::io::Result<Self> {
        Self::start_for(host, LASTS)
    }

    fn start_for(host: Host, lasts: Duration) -> std::io::Result<Self> {
        let shared = Arc::new(Shared {
            state: Mutex::new(SamplerState { looked: None, lasts, is_over: false }),
            changed: Condvar::new(),
            profile: Mutex::new(Profile::new(host.workers())),
            measurements: Mutex::default(),
        });
        // If the second thread cannot be spawned, dropping this ends the first.
        let mut samples = Self { shared, threads: Vec::new() };
        samples.spawn("postroom-samples", move |shared| sample(host, shared))?;
        samples.spawn("postroom-rounds", move |shared| look_round(host, shared))?;
        Ok(samples)
    }

    fn spawn(&mut self, name: &str, run: impl FnOnce(&Shared) + Send + 'static) -> std::io::Result<()> {
        let shared = self.shared.clone();
        self.threads.push(thread::Builder::new().name(name.into()).spawn(move || run(&shared))?);
        Ok(())
    }

    /// Returns the profile, and keeps it up to date for the next minute.
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
        for thread in self.threads.drain(..) {
            if thread.join().is_err() {
                tracing::error!(
                    target: "postroom", "the console's sampling thread has panicked, and measured nothing since"
                );
            }
        }
    }
}

/// Waits until someone asks for the profile. Returns false when the console ends.
fn await_look(shared: &Shared) -> bool {
    let state = lock(&shared.state);
    let rests = |state: &mut SamplerState| !state.is_over && state.looked.is_none();
    !shared.changed.wait_while(state, rests).unwrap_or_else(PoisonError::into_inner).is_over
}

/// Waits until the next sample is due. Returns false if the profile has not been requested for too long, or if the
/// console ends.
fn go_on(shared: &Shared, every: Duration) -> bool {
    let state = lock(&shared.state);
    let goes_on = |state: &mut SamplerState| !state.is_over;
    let (mut state, _) =
        shared.changed.wait_timeout_while(state, every, goes_on).unwrap_or_else(PoisonError::into_inner);
    let is_wanted = state.looked.is_some_and(|looked| looked.elapsed() < state.lasts);
    if !is_wanted {
        state.looked = None;
    }
    is_wanted && !state.is_over
}

fn sample(host: Host, shared: &Shared) {
    while await_look(shared) {
        while go_on(shared, EVERY) {
            let (steps, timed, now) = (host.running_steps(), host.time_steps(), Instant::now());
            let mut profile = lock(&shared.profile);
            profile.look(now, &steps);
            profile.timed(&timed);
            lock(&shared.measurements).retain(|measurement| follow(&mut profile, now, measurement));
        }
        lock(&shared.measurements).clear();
        lock(&shared.profile).rest();
    }
}

fn look_round(host: Host, shared: &Shared) {
    give_way();
    let mut rounds = 0;
    while await_look(shared) {
        loop {
            rounds += 1;
            begin_round(host, shared, rounds);
            if !go_on(shared, ROUND) {
                break;
            }
        }
    }
}

struct Measurement {
    pid: Pid,
    process: &'static str,
    measurement: WaitMeasurement,
}

/// Checks a measurement. Returns whether it is still in progress.
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

/// Counts messages, and starts new measurements of waits.
fn begin_round(host: Host, shared: &Shared, round: usize) {
    let (processes, now) = (host.processes(), Instant::now());
    let messages: HashMap<Pid, u64> = processes.iter().map(|info| (info.pid, info.messages)).collect();
    lock(&shared.profile).count(now, messages);
    let measured: BTreeSet<Pid> = lock(&shared.measurements).iter().map(|measurement| measurement.pid).collect();
    let chosen = choose(&processes, round).into_iter().filter(|info| !measured.contains(&info.pid));
    let begin = |info: &ProcessInfo| {
        let measurement = info.pid.measure_wait()?;
        Some(Measurement { pid: info.pid, process: info.process, measurement })
    };
    let begun: Vec<_> = chosen.filter_map(begin).take(MOST.saturating_sub(measured.len())).collect();
    // The lock is taken only now, so that the sampling thread is not delayed.
    lock(&shared.measurements).extend(begun);
}

/// Chooses mailboxes that are not empty: the longest ones, and some for each type, which differ from round to round.
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

#[cfg(test)]
mod tests {
    use super::*;
    use postroom::Runtime;
    use postroom_tests::soon;

    fn until(mut is_so: impl FnMut() -> bool) {
        while !is_so() {
            thread::sleep(EVERY);
        }
    }

    #[test]
    fn while_no_one_looks_nothing_is_sampled() {
        soon(sample_while_someone_looks);
    }

    /// Sets how long the sampler continues after a request. The tests use forever and zero, so that no thread has to
    /// meet a deadline.
    fn set_lasts(samples: &Samples, lasts: Duration) {
        lock(&samples.shared.state).lasts = lasts;
        samples.shared.changed.notify_all();
    }

    fn sample_while_someone_looks() {
        let runtime = Runtime::builder().workers(1).build().expect("it is built");
        let samples = Samples::start_for(runtime.host(), Duration::MAX).expect("a thread");
        // These checks do not request the profile themselves. They cannot detect a sampler that starts late, but a
        // correct sampler never fails the test.
        let (is_wanted, has_sampled) =
            (|| lock(&samples.shared.state).looked.is_some(), || lock(&samples.shared.profile).has_looked());
        thread::sleep(5 * EVERY);
        assert!(!is_wanted() && !has_sampled());
        drop(samples.look());
        until(has_sampled);
        // After this, the sampler clears its state and goes to sleep.
        set_lasts(&samples, Duration::ZERO);
        until(|| !is_wanted() && !has_sampled());
        thread::sleep(5 * EVERY);
        assert!(!has_sampled());
        set_lasts(&samples, Duration::MAX);
        drop(samples.look());
        until(has_sampled);
    }
}
