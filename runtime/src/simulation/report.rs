//! What a simulation says in the end.

use super::run::Abort;
use super::trace::Listed;
use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

/// What the runs of a simulation have covered.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Coverage {
    /// How many runs there were.
    pub runs: u64,
    /// How many turns they took in all.
    pub turns: u64,
    /// How many different schedules they were.
    pub schedules: u64,
    /// Whether these stand for all there are: the test is proved for every order of its processes' turns. (Orders that
    /// differ only in turns that commute are one schedule. Runs that turned out to be such are among `runs`.)
    pub is_exhaustive: bool,
    /// In how many runs each condition of [`sometimes!`](crate::test::sometimes) held.
    pub sometimes: BTreeMap<&'static str, u64>,
}

/// Why a simulated test failed. Its text is the report.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SimulationError {
    /// A run failed.
    #[error("{0}")]
    Failed(Box<FailedRun>),
    /// Two runs of one seed differed.
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
        /// The first turn that differed, from 1.
        turn: usize,
        /// What it was first.
        first: String,
        /// What it was then.
        second: String,
    },
    /// A condition of [`sometimes!`](crate::test::sometimes) never held.
    #[error(
        "`{test}`: in {runs} runs it never happened that {}. Use more seeds, or faults that lead there",
        list(.what)
    )]
    Never {
        /// The name of the test.
        test: String,
        /// How many runs there were.
        runs: u64,
        /// What never happened.
        what: Vec<&'static str>,
    },
    /// A replay ended otherwise than the run that it replays.
    #[error(
        "`{test}` passed, but its replay proves nothing: it departed from the schedule in {}. Replay it with the \
         program that wrote the file, or run the test with other seeds",
        .departure
    )]
    Departed {
        /// The name of the test.
        test: String,
        /// Where.
        departure: Departure,
    },
    /// A trace cannot be replayed.
    #[error("the trace {} cannot be replayed: {reason}", .path.display())]
    Unreadable {
        /// Its path.
        path: PathBuf,
        /// Why.
        reason: String,
    },
    /// The runtime cannot be simulated.
    #[error("`{test}` cannot be simulated: {reason}")]
    Unsupported {
        /// The name of the test.
        test: String,
        /// Why, and what to do instead.
        reason: String,
    },
    /// An environment variable is not understood.
    #[error("{variable} is `{came}`; expected {expected}")]
    Variable {
        /// Its name.
        variable: &'static str,
        /// Its value.
        came: String,
        /// What it may be.
        expected: &'static str,
    },
}

fn list(what: &[&str]) -> String {
    what.iter().map(|what| format!("\"{what}\"")).collect::<Vec<_>>().join(", nor that ")
}

/// Where a replay departed from the run that it replays: the program has changed.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Departure {
    /// The first turn that differed, from 1.
    pub turn: usize,
    /// What it was.
    pub was: String,
    /// What it is now.
    pub is: String,
    /// The trace that is replayed.
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
    /// The seed; with the same build it fails again.
    pub seed: u64,
    /// The number of the run, from 1, and how many there were to be.
    pub run: (u64, u64),
    /// The message of the panic, or why the run was cut short.
    pub message: String,
    /// The place of the panic: file, line and column.
    pub place: String,
    /// How much of the simulation's time had passed.
    pub time: Duration,
    /// How many turns the run had taken.
    pub turns: u64,
    /// The file with the smallest failing schedule, for Perfetto and for a replay; or why it was not written.
    pub trace: Result<PathBuf, String>,
    /// Where the run departed from the one that it replays, if it does.
    pub departure: Option<Departure>,
    /// How many choices the run made, how many of them the smallest failing schedule needs, and how many runs it took
    /// to find that.
    pub(crate) choices: (usize, usize, usize),
    pub(crate) smallest: Listed,
    pub(crate) replay: String,
}

impl FailedRun {
    /// Returns the smallest failing schedule that was found, a turn each line.
    pub fn schedule(&self) -> String {
        self.smallest.to_string()
    }

    /// Returns the command that makes the run again.
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
