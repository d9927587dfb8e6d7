//! The result of a simulation.

use super::state::Abort;
use super::trace::Listed;
use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

/// The coverage of the runs of a simulation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Coverage {
    /// Number of runs.
    pub runs: u64,
    /// Number of turns in all runs.
    pub turns: u64,
    /// Number of different schedules.
    pub schedules: u64,
    /// Whether these schedules represent all possible schedules, so that the test is proved for every order of its
    /// processes' turns. (Orders that differ only in turns that commute are one schedule. `runs` includes the runs that
    /// turned out to repeat a schedule in this sense.)
    pub is_exhaustive: bool,
    /// For each condition of [`sometimes!`](crate::test::sometimes), the number of runs in which it held.
    pub sometimes: BTreeMap<&'static str, u64>,
}

/// The reason why a simulated test failed. Its text is the report.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SimulationError {
    /// A run failed.
    #[error("{0}")]
    Failed(Box<FailedRun>),
    /// Two runs with the same seed differed.
    #[error(
        "`{test}` is not deterministic: with seed {seed}, turn {turn} of its first run was\n    {first}\nand of its \
         second run\n    {second}\nThe usual reasons: a `HashMap` that is iterated, `Instant::now()` or `SystemTime` \
         (use `ctx.now()`), `rand` (use `sim.random()`), a thread, a static that a run leaves changed"
    )]
    Differs {
        /// The name of the test.
        test: String,
        /// The seed.
        seed: u64,
        /// The number of the first turn that differed, from 1.
        turn: usize,
        /// The turn in the first run.
        first: String,
        /// The turn in the second run.
        second: String,
    },
    /// A condition of [`sometimes!`](crate::test::sometimes) never held.
    #[error(
        "`{test}`: its {runs} runs passed, but none of them met {}, which at least one has to. Use more seeds, or \
         faults that lead there",
        list(.what)
    )]
    Never {
        /// The name of the test.
        test: String,
        /// Number of runs.
        runs: u64,
        /// The conditions that never held.
        what: Vec<&'static str>,
    },
    /// A replay passed, but departed from the run that it replays.
    #[error(
        "`{test}` passed, but its replay proves nothing: it departed from the schedule in {}. Replay it with the \
         program that wrote the file, or run the test with other seeds",
        .departure
    )]
    Departed {
        /// The name of the test.
        test: String,
        /// Where the replay departed.
        departure: Departure,
    },
    /// A trace cannot be replayed.
    #[error("the trace {} cannot be replayed: {reason}", .path.display())]
    Unreadable {
        /// The path of the trace.
        path: PathBuf,
        /// The reason.
        reason: String,
    },
    /// The runtime cannot be simulated.
    #[error("`{test}` cannot be simulated: {reason}")]
    Unsupported {
        /// The name of the test.
        test: String,
        /// The reason, and what to do instead.
        reason: String,
    },
    /// An environment variable has an invalid value.
    #[error("{variable} is `{came}`; expected {expected}")]
    Variable {
        /// The name of the variable.
        variable: &'static str,
        /// The value of the variable.
        came: String,
        /// The expected values.
        expected: &'static str,
    },
}

fn list(what: &[&str]) -> String {
    what.iter().map(|what| format!("`sometimes!(…, {what:?})`")).collect::<Vec<_>>().join(" or ")
}

/// The point where a replay departed from the run that it replays, because the program has changed.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Departure {
    /// The number of the first turn that differed, from 1.
    pub turn: usize,
    /// The turn in the recorded run.
    pub was: String,
    /// The turn in the replay.
    pub is: String,
    /// The path of the trace that is replayed.
    pub trace: PathBuf,
}

impl fmt::Display for Departure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { turn, was, is, trace } = self;
        write!(f, "turn {turn} of {}, which was `{was}` and is `{is}`", trace.display())
    }
}

/// A run that failed.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct FailedRun {
    /// The name of the test.
    pub test: String,
    /// The seed. In the same build, a run with this seed fails again.
    pub seed: u64,
    /// The number of the run, from 1, and the planned number of runs.
    pub run: (u64, u64),
    /// The message of the panic, or why the run was cut short.
    pub message: String,
    /// The place of the panic: file, line and column.
    pub place: String,
    /// The simulation time that had passed.
    pub time: Duration,
    /// The number of turns that the run had taken.
    pub turns: u64,
    /// The file with the smallest failing schedule, for Perfetto and for a replay; or why it was not written.
    pub trace: Result<PathBuf, String>,
    /// Where the run departed from the one that it replays, if it did.
    pub departure: Option<Departure>,
    /// The number of choices that the run made, the number of choices that the smallest failing schedule needs, and the
    /// number of runs that it took to find that schedule.
    pub(crate) choices: (usize, usize, usize),
    pub(crate) smallest: Listed,
    pub(crate) replay: String,
}

impl FailedRun {
    /// Returns the smallest failing schedule that was found, one turn per line.
    pub fn schedule(&self) -> String {
        self.smallest.to_string()
    }

    /// Returns the command that repeats the run.
    pub fn replay_command(&self) -> &str {
        &self.replay
    }
}

impl fmt::Display for FailedRun {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { test, seed, run: (run, of), message, place, time, turns, .. } = self;
        writeln!(f, "`{test}` failed with seed {seed} (run {run} of {of}), after {time:?} and {turns} turns")?;
        writeln!(f, "  {}", message.replace('\n', "\n  "))?;
        if !place.is_empty() {
            writeln!(f, "  at {place}")?;
        }
        let (made, needed, tries) = self.choices;
        writeln!(
            f,
            "  smallest schedule found: {needed} choices of {made} ({tries} tries), {} turns",
            self.smallest.len()
        )?;
        write!(f, "{}", self.smallest)?;
        if let Some(departure) = &self.departure {
            writeln!(f, "  a replay that departed in {departure}")?;
        }
        match &self.trace {
            Ok(path) => writeln!(f, "  trace:  {}", path.display())?,
            Err(reason) => writeln!(f, "  trace:  not written, {reason}")?,
        }
        write!(f, "  again:  {}", self.replay)
    }
}

impl fmt::Display for Abort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stuck(waits) => {
                write!(f, "stuck: nothing can go on, and no timer is set")?;
                waits.iter().try_for_each(|line| write!(f, "\n  {line}"))
            }
            Self::Explored => write!(f, "explored"),
            Self::Endless { turns, time, busiest } => {
                write!(
                    f,
                    "endless: {turns} turns and {time:?} were not enough (`max_turns`, `max_time`); most turns took"
                )?;
                busiest.iter().try_for_each(|(process, turns)| write!(f, "\n  {process}: {turns}"))
            }
            Self::Livelock { timers, time, busiest } => {
                write!(
                    f,
                    "livelock: {timers} timers fired without a turn of any process (`max_turns`), the last after \
                     {time:?}; they were for"
                )?;
                busiest.iter().try_for_each(|(process, timers)| write!(f, "\n  {process}: {timers}"))
            }
        }
    }
}
