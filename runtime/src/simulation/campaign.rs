//! The runs of a simulated test: one for each seed, on all cores.

use super::baton::Drivers;
use super::choices::Choices;
use super::explore::Explorer;
use super::report::{Coverage, Departure, FailedRun, SimulationError};
use super::run::{Aborted, Ran, SimRun, TestCase};
use super::shrink::shrink;
use super::sim::Sim;
use super::state::Abort;
use super::strategy::{Schedules, TurnOrder};
use super::trace::ExpectedTurns;
use super::trace_file::{self, Recorded};
use crate::api::builder::Builder;
use crate::api::runtime::Host;
use crate::env::clock::Moment;
use crate::env::world::World;
use crate::exit::Panic;
use crate::sync::{Arc, AtomicU64, Mutex, Ordering, SegQueue, ThreadKind, cores, lock, spawn_thread};
use crate::time::virtual_clock::Clock;
use crate::util::block_on::block_on;
use crate::util::panics::{catch, install_hook, silence};
use std::any::TypeId;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::future::Future;
use std::path::PathBuf;
use std::time::Duration;

/// Default number of seeds per test.
const SEEDS: u64 = 100;

/// Maximum number of schedules per exhaustive test.
const MOST_SCHEDULES: u64 = 1_000_000;

/// Runs a test under many seeded schedules. [`postroom::test`](macro@crate::test) expands to this; use it directly for
/// tests that need a runtime with other options, and for custom loops.
///
/// ```
/// use postroom::prelude::*;
/// use postroom::test::Simulation;
///
/// #[process]
/// struct Counter { count: u32 }
///
/// #[process]
/// impl Counter {
///     #[entry]
///     fn serve(&mut self) {}
///     #[message]
///     fn add(&mut self) { self.count += 1; }
///     #[message]
///     fn count(&mut self) -> u32 { self.count }
/// }
///
/// let covered = Simulation::new("adds").seeds(10).check(|sim| {
///     let counter = sim.spawn(Counter { count: 0 }).serve().unwrap();
///     counter.add().send().unwrap();
///     assert_eq!(counter.count().wait(), Ok(1));
/// })?;
/// assert_eq!(covered.runs, 10);
/// # Ok::<(), postroom::test::SimulationError>(())
/// ```
#[must_use = "nothing runs until `run` or `check`"]
pub struct Simulation {
    case: TestCase,
    seeds: u64,
    first: u64,
    only: Option<u64>,
    replay: Option<PathBuf>,
}

/// What the body of a test returns: nothing, or a `Result` whose error fails the test.
pub trait TestResult {
    /// Panics if the test has failed.
    fn expect_passed(self);
}

impl TestResult for () {
    fn expect_passed(self) {}
}

impl<E: fmt::Debug> TestResult for Result<(), E> {
    #[track_caller]
    fn expect_passed(self) {
        if let Err(error) = self {
            panic!("the test returned the error {error:?}");
        }
    }
}

impl Simulation {
    /// Prepares 100 runs of a test with this name, with seeds from zero. The environment variables `POSTROOM_SEEDS` and
    /// `POSTROOM_FIRST_SEED` set another number of runs and another first seed; `POSTROOM_SEED` sets the seed of a
    /// single run.
    pub fn new(name: impl Into<String>) -> Self {
        let case = TestCase {
            name: name.into(),
            schedules: Schedules::default(),
            max_turns: 1_000_000,
            max_time: Duration::from_secs(24 * 3600),
            has_faults: true,
            build: Arc::new(|builder| builder),
        };
        Self { case, seeds: SEEDS, first: 0, only: None, replay: None }
    }

    /// Sets the number of runs, each with its own seed. The first run takes place even if `seeds` is zero.
    pub fn seeds(mut self, seeds: u64) -> Self {
        self.seeds = seeds;
        self
    }

    /// Sets the first seed, which is zero by default. The other seeds are the numbers after it.
    pub fn first_seed(mut self, seed: u64) -> Self {
        self.first = seed;
        self
    }

    /// Runs with this seed only.
    pub fn seed(mut self, seed: u64) -> Self {
        self.only = Some(seed);
        self
    }

    /// Sets how schedules are chosen.
    pub fn schedules(mut self, schedules: Schedules) -> Self {
        self.case.schedules = schedules;
        self
    }

    /// Sets how many turns a run may take, and how many timers may fire without a turn. Both limits are a million by
    /// default.
    pub fn max_turns(mut self, turns: u64) -> Self {
        self.case.max_turns = turns;
        self
    }

    /// Sets how much simulation time a run may take. The default is a day.
    pub fn max_time(mut self, time: Duration) -> Self {
        self.case.max_time = time;
        self
    }

    /// Leaves out all faults that the test requests.
    pub fn without_faults(mut self) -> Self {
        self.case.has_faults = false;
        self
    }

    /// Replays the smallest failing schedule in a trace file, and runs nothing else. [`FailedRun::trace`] has the path
    /// of the file. The environment variable `POSTROOM_REPLAY` does the same for the test that wrote the file. If the
    /// program has changed, the replay follows the schedule as long as the same processes take the same turns, and
    /// reports where it departed from the schedule.
    pub fn replay(mut self, trace: impl Into<PathBuf>) -> Self {
        self.replay = Some(trace.into());
        self
    }

    /// Sets options of the runtime: handlers, hooks, mailboxes, limits. The simulation sets its clock, its seed and its
    /// workers.
    pub fn builder(mut self, build: impl Fn(Builder) -> Builder + Send + Sync + 'static) -> Self {
        self.case.build = Arc::new(build);
        self
    }

    /// Runs the test.
    ///
    /// # Panics
    /// Panics with the text of the [`SimulationError`] if the test fails.
    #[track_caller]
    pub fn run<R: TestResult>(self, body: impl Fn(Sim) -> R + Send + Sync + 'static) {
        if let Err(error) = self.check(body) {
            panic!("{error}");
        }
    }

    /// Runs an async test, like [`run`](Self::run).
    ///
    /// # Panics
    /// Panics if the test fails, like [`run`](Self::run).
    #[track_caller]
    pub fn run_async<F: Future<Output: TestResult>>(self, body: impl Fn(Sim) -> F + Send + Sync + 'static) {
        self.run(move |sim| block_on(body(sim)));
    }

    /// Runs the test. Returns its coverage.
    ///
    /// # Errors
    /// Returns a [`SimulationError`] for the first seed that fails, with the smallest failing schedule that was found;
    /// for a test that is not deterministic; for a condition of `sometimes!` that never held; and for a replay that
    /// does not follow its schedule.
    pub fn check<R: TestResult>(
        mut self,
        body: impl Fn(Sim) -> R + Send + Sync + 'static,
    ) -> Result<Coverage, SimulationError> {
        install_hook();
        self.read_environment()?;
        let body: TestBody = Arc::new(move |sim| body(sim).expect_passed());
        if let Some((path, recorded)) = self.recorded()? {
            return self.check_replay(&body, path, recorded);
        }
        if self.case.schedules == Schedules::Exhaustive {
            return self.check_all(&body);
        }
        let first = self.only.unwrap_or(self.first);
        let seeds = if self.only.is_some() { 1 } else { self.seeds };
        let mut runner = Runner::new(&self.case, body.clone());
        let ran = self.check_determinism(&mut runner, first)?;
        let mut covered = Covered::default();
        covered.add(&ran);
        let campaign = Arc::new(Campaign {
            next: AtomicU64::new(1),
            failed: AtomicU64::new(if ran.failure.is_some() { 0 } else { u64::MAX }),
            seeds,
            first,
            covered: Mutex::new(covered),
            broken: Mutex::new(None),
        });
        let helpers = (cores() as u64).min(seeds).saturating_sub(1);
        let helpers: Vec<_> = (0..helpers)
            .filter_map(|_| {
                let (campaign, mut runner) = (campaign.clone(), Runner::new(&self.case, body.clone()));
                spawn_thread(ThreadKind::Outside, "postroom-test".to_string(), move || campaign.work(&mut runner)).ok()
            })
            .collect();
        campaign.work(&mut runner);
        for helper in helpers {
            if let Err(panic) = helper.join() {
                std::panic::resume_unwind(panic);
            }
        }
        if let Some(error) = lock(&campaign.broken).take() {
            return Err(error);
        }
        match campaign.failed.load(Ordering::SeqCst) {
            u64::MAX => self.covered(std::mem::take(&mut *lock(&campaign.covered))),
            failed => Err(self.explain(&mut runner, first.wrapping_add(failed), (failed + 1, seeds))),
        }
    }

    fn covered(&self, covered: Covered) -> Result<Coverage, SimulationError> {
        let never: Vec<_> = covered.sometimes.iter().filter(|(_, held)| **held == 0).map(|(what, _)| *what).collect();
        if !never.is_empty() && self.only.is_none() {
            return Err(SimulationError::Never { test: self.case.name.clone(), runs: covered.runs, what: never });
        }
        Ok(covered.coverage())
    }

    fn read_environment(&mut self) -> Result<(), SimulationError> {
        let number = |variable: &'static str| match std::env::var(variable) {
            Ok(text) => match text.trim().parse::<u64>() {
                Ok(number) => Ok(Some(number)),
                Err(_) => Err(SimulationError::Variable { variable, came: text, expected: "a number" }),
            },
            Err(_) => Ok(None),
        };
        if let Some(seeds) = number("POSTROOM_SEEDS")? {
            self.seeds = seeds;
        }
        if let Some(seed) = number("POSTROOM_FIRST_SEED")? {
            self.first = seed;
        }
        if let Some(seed) = number("POSTROOM_SEED")? {
            self.only = Some(seed);
        }
        if let Ok(text) = std::env::var("POSTROOM_STRATEGY") {
            let known = Schedules::of_name(&text);
            let expected = Schedules::EXPECTED;
            let unknown = || SimulationError::Variable { variable: "POSTROOM_STRATEGY", came: text, expected };
            self.case.schedules = known.ok_or_else(unknown)?;
        }
        Ok(())
    }

    /// Runs the first seed twice, and returns the outcome. Both runs list their turns, since a difference might not
    /// occur again in further runs.
    fn check_determinism(&self, runner: &mut Runner, seed: u64) -> Result<Ran, SimulationError> {
        let (one, two) = (runner.run(runner.drawn(seed), seed, true)?, runner.run(runner.drawn(seed), seed, true)?);
        if one.hash == two.hash {
            return Ok(if one.failure.is_some() { one } else { two });
        }
        let unlisted = || (0, "not listed".to_string(), "not listed".to_string());
        let (turn, first, second) = one.listed.difference(&two.listed).unwrap_or_else(unlisted);
        Err(SimulationError::Differs { test: self.case.name.clone(), seed, turn, first, second })
    }

    /// Reads the recorded run that is to be replayed, if any.
    fn recorded(&self) -> Result<Option<(PathBuf, Recorded)>, SimulationError> {
        let asked = || std::env::var_os("POSTROOM_REPLAY").map(PathBuf::from);
        let Some(path) = self.replay.clone().or_else(asked) else { return Ok(None) };
        let recorded =
            Recorded::read(&path).map_err(|reason| SimulationError::Unreadable { path: path.clone(), reason })?;
        let is_meant = self.replay.is_some() || recorded.test == self.case.name;
        Ok(is_meant.then_some((path, recorded)))
    }

    /// Replays a schedule.
    fn check_replay(
        &mut self,
        body: &TestBody,
        path: PathBuf,
        Recorded { seed, schedules, choices, turns, .. }: Recorded,
    ) -> Result<Coverage, SimulationError> {
        self.case.schedules = schedules;
        let is_exhaustive = schedules == Schedules::Exhaustive;
        let choices = if is_exhaustive { Choices::exhaustive(choices) } else { Choices::replayed(choices) };
        let mut ran = Runner::new(&self.case, body.clone()).make(choices, seed, Some(turns.clone()))?;
        let departure = turns.difference(&ran.listed);
        let departure = departure.map(|(turn, was, is)| Departure { turn, was, is, trace: path.clone() });
        let Some(failure) = ran.failure.take() else {
            let mut covered = Covered::default();
            covered.add(&ran);
            return match departure {
                Some(departure) => Err(SimulationError::Departed { test: self.case.name.clone(), departure }),
                None => Ok(covered.coverage()),
            };
        };
        let replay = format!("POSTROOM_REPLAY={} cargo test {}", path.display(), self.short_name());
        let mut failed = self.failed(seed, (1, 1), failure, ran, replay);
        (failed.trace, failed.departure) = (Ok(path), departure);
        Err(SimulationError::Failed(failed))
    }

    /// Returns the name of the test without its module.
    fn short_name(&self) -> &str {
        self.case.name.rsplit_once("::").map_or(&*self.case.name, |(_, test)| test)
    }

    /// Runs all schedules, one after the other.
    fn check_all(&self, body: &TestBody) -> Result<Coverage, SimulationError> {
        let seed = self.only.unwrap_or(self.first);
        let mut runner = Runner::new(&self.case, body.clone());
        let (mut covered, mut explorer) = (Covered::default(), Explorer::default());
        loop {
            let mut ran = runner.run(Choices::explored(explorer), seed, false)?;
            covered.add(&ran);
            if ran.failure.is_some() {
                let (run, made) = (covered.runs, ran.made);
                return Err(self.report(&mut runner, seed, (run, run), Choices::exhaustive, made));
            }
            match ran.explorer.take() {
                Some(next) => explorer = next,
                None => {
                    covered.is_exhaustive = true;
                    return self.covered(covered);
                }
            }
            if covered.runs == MOST_SCHEDULES {
                let reason = format!(
                    "it has more than {MOST_SCHEDULES} schedules: make it smaller, or let seeds choose some of them \
                     (`strategy`)"
                );
                return Err(SimulationError::Unsupported { test: self.case.name.clone(), reason });
            }
        }
    }

    /// Runs a failing seed again, and shrinks its schedule.
    fn explain(&self, runner: &mut Runner, seed: u64, run: (u64, u64)) -> SimulationError {
        match runner.run(runner.drawn(seed), seed, false) {
            Ok(ran) => self.report(runner, seed, run, Choices::replayed, ran.made),
            Err(error) => error,
        }
    }

    fn report(
        &self,
        runner: &mut Runner,
        seed: u64,
        run: (u64, u64),
        replay: impl Fn(Vec<u16>) -> Choices,
        made: Vec<u16>,
    ) -> SimulationError {
        let mut again = |list: &[u16], is_listed| runner.run(replay(list.to_vec()), seed, is_listed);
        let mut original = match again(&made, true) {
            Ok(ran) => ran,
            Err(error) => return error,
        };
        let Some(failure) = original.failure.take() else {
            let second = "which did not fail when it was run again".to_string();
            let (test, first) = (self.case.name.clone(), "a failure".to_string());
            return SimulationError::Differs { test, seed, turn: original.listed.len(), first, second };
        };
        let shrunk = shrink(made, |list| match again(list, false) {
            Ok(ran) => (ran.failure.is_some_and(|other| are_alike(&other, &failure)), ran.turns + ran.timers),
            Err(_) => (false, 0),
        });
        let (test, schedules) = (self.short_name(), self.case.schedules);
        let is_needed = schedules == Schedules::Exhaustive || std::env::var_os("POSTROOM_STRATEGY").is_some();
        let strategy = if is_needed { format!("POSTROOM_STRATEGY={} ", schedules.name()) } else { String::new() };
        let replay = format!("{strategy}POSTROOM_SEED={seed} cargo test {test}");
        let mut failed = self.failed(seed, run, failure, original, replay);
        failed.choices = (failed.choices.0, needed(&shrunk.choices), shrunk.tries);
        if let Ok(smallest) = again(&shrunk.choices, true) {
            failed.smallest = smallest.listed;
        }
        failed.trace = trace_file::write(&failed, schedules, &shrunk.choices).map_err(|error| error.to_string());
        SimulationError::Failed(failed)
    }

    /// Describes a failed run, without a trace. The smallest failing schedule in the description is that of the run
    /// itself.
    fn failed(&self, seed: u64, run: (u64, u64), failure: Panic, ran: Ran, replay: String) -> Box<FailedRun> {
        Box::new(FailedRun {
            test: self.case.name.clone(),
            seed,
            run,
            message: failure.message,
            place: failure.place,
            time: ran.time,
            turns: ran.turns,
            trace: Err(String::new()),
            departure: None,
            choices: (ran.made.len(), needed(&ran.made), 0),
            smallest: ran.listed,
            replay,
        })
    }
}

impl fmt::Debug for Simulation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Simulation").field("name", &self.case.name).field("seeds", &self.seeds).finish_non_exhaustive()
    }
}

/// Returns the number of choices that are not the dullest alternative.
fn needed(choices: &[u16]) -> usize {
    choices.iter().filter(|choice| **choice > 0).count()
}

type TestBody = Arc<dyn Fn(Sim) + Send + Sync>;

/// The runs of a test, which several threads share.
struct Campaign {
    next: AtomicU64,
    /// The number of the first run that failed.
    failed: AtomicU64,
    seeds: u64,
    first: u64,
    covered: Mutex<Covered>,
    broken: Mutex<Option<SimulationError>>,
}

impl Campaign {
    fn work(&self, runner: &mut Runner) {
        loop {
            let number = self.next.fetch_add(1, Ordering::SeqCst);
            if number >= self.seeds || number > self.failed.load(Ordering::SeqCst) {
                return;
            }
            let seed = self.first.wrapping_add(number);
            match runner.run(runner.drawn(seed), seed, false) {
                Ok(ran) => {
                    lock(&self.covered).add(&ran);
                    if ran.failure.is_some() {
                        self.failed.fetch_min(number, Ordering::SeqCst);
                    }
                }
                Err(error) => {
                    *lock(&self.broken) = Some(error);
                    self.failed.store(0, Ordering::SeqCst);
                    return;
                }
            }
        }
    }
}

#[derive(Default)]
struct Covered {
    runs: u64,
    turns: u64,
    hashes: BTreeSet<u64>,
    sometimes: BTreeMap<&'static str, u64>,
    is_exhaustive: bool,
}

impl Covered {
    fn coverage(self) -> Coverage {
        let Self { runs, turns, hashes, sometimes, is_exhaustive } = self;
        Coverage { runs, turns, schedules: hashes.len() as u64, is_exhaustive, sometimes }
    }

    fn add(&mut self, ran: &Ran) {
        self.runs += 1;
        self.turns += ran.turns;
        if !ran.is_redundant {
            self.hashes.insert(ran.hash);
        }
        for (what, held) in &ran.sometimes {
            *self.sometimes.entry(what).or_insert(0) += u64::from(*held > 0);
        }
    }
}

/// Runs the body of a test, one seed after the other, on one thread and its drivers.
struct Runner {
    case: Arc<TestCase>,
    body: TestBody,
    drivers: Arc<Drivers>,
    slots: Vec<u32>,
}

/// Returns whether two failures are the same; the values in their messages may differ.
fn are_alike(one: &Panic, other: &Panic) -> bool {
    let kind = |panic: &Panic| panic.message.split([':', '\n']).next().map(str::to_string);
    one.place == other.place && kind(one) == kind(other)
}

/// The message of a failure that is not the test's fault.
const BROKEN: &str = "the runtime contradicts itself, which is its fault and not the test's";

/// The moment at which each run begins. It is always the same, since a program may print times.
const BEGINNING: Moment = Moment::of_days(36_500);

/// The slots of former runners, for later ones. Each list stays in one piece, because PIDs are ordered by slot, and
/// slots that were leased later have higher indices.
static UNUSED_SLOTS: World<SegQueue<Vec<u32>>> = World::new(SegQueue::new());

impl Drop for Runner {
    fn drop(&mut self) {
        if !self.slots.is_empty() {
            UNUSED_SLOTS.push(std::mem::take(&mut self.slots));
        }
    }
}

impl Runner {
    fn new(case: &TestCase, body: TestBody) -> Self {
        let slots = UNUSED_SLOTS.pop().unwrap_or_default();
        Self { case: Arc::new(case.clone()), body, drivers: Arc::default(), slots }
    }

    fn drawn(&self, seed: u64) -> Choices {
        Choices::drawn(TurnOrder::of(self.case.schedules, seed), seed)
    }

    fn run(&mut self, choices: Choices, seed: u64, is_listed: bool) -> Result<Ran, SimulationError> {
        self.make(choices, seed, is_listed.then(ExpectedTurns::default))
    }

    /// Performs one run. With `listed`, the run lists its turns and compares them with those of `listed`, and it stops
    /// replaying at the first mismatch.
    fn make(&mut self, choices: Choices, seed: u64, listed: Option<ExpectedTurns>) -> Result<Ran, SimulationError> {
        let unsupported = |reason: String| SimulationError::Unsupported { test: self.case.name.clone(), reason };
        let clock = Clock::starting_at(BEGINNING);
        let builder = self.case.builder(seed, self.case.schedules.workers(seed), &clock);
        let runtime = builder.build().map_err(|error| unsupported(error.to_string()))?;
        let scheduler = runtime.host().scheduler();
        if scheduler.has_reactor {
            let reason = "it has sockets and timers of Tokio, whose time and order are the system's; test the part \
                          behind them, with a probe or a process in their place";
            return Err(unsupported(reason.to_string()));
        }
        let slots = std::mem::take(&mut self.slots);
        let (case, drivers) = (self.case.clone(), self.drivers.clone());
        let run = SimRun::new((scheduler, clock), case, drivers, slots, (seed, choices, listed));
        let loud = silence(true);
        let body = || (self.body)(Sim::new(run.clone(), runtime.host()));
        let outcome = run.within(|| catch(body));
        let time = run.elapsed();
        let abort = run.abort();
        let broken = if outcome.is_ok() { run.within(|| run.broken_between_turns(runtime.host())) } else { None };
        let is_clean = match broken {
            None => run.within(|| run.end()),
            Some(_) => {
                run.within(|| run.abandon());
                false
            }
        };
        let broken = broken.or_else(|| run.within(|| run.broken_at_the_end()).filter(|_| is_clean));
        silence(loud);
        let failure = failure_of(abort, outcome, broken.as_deref(), is_clean);
        self.slots = run.take_slots();
        let runtimes = run.take_nodes().into_iter().chain([runtime]);
        if is_clean && broken.is_none() {
            runtimes.for_each(drop);
        } else {
            // A step waits for something that no process can provide, or the runtime can no longer be relied on. The
            // hosts are abandoned, and so is the thread of such a step.
            self.slots.clear();
            runtimes.for_each(Host::leave_behind);
        }
        Ok(run.outcome(failure, time))
    }
}

/// Returns why a run has failed, if it has.
fn failure_of(
    abort: Option<Abort>,
    outcome: Result<(), (TypeId, Panic)>,
    broken: Option<&str>,
    is_clean: bool,
) -> Option<Panic> {
    let message = match (abort, outcome) {
        (Some(Abort::Explored), _) => return None,
        (Some(abort), _) => abort.to_string(),
        (None, Err((kind, _))) if kind == TypeId::of::<Aborted>() => "the run was cut short".into(),
        (None, Err((_, panic))) => return Some(panic),
        (None, Ok(())) => match broken {
            Some(what) => format!("{BROKEN}: {what}"),
            None if is_clean => return None,
            None => "processes did not end after the test: they continue although they were killed".into(),
        },
    };
    Some(Panic { message, place: String::new() })
}
