//! The trace of a run: a hash, by which two runs are compared, and optionally a list of turns.
//!
//! Processes are named by their types and the order in which they were spawned, never by PID or address, so that the
//! same run always has the same trace.

use crate::slots::Slot;
use std::collections::BTreeMap;
use std::fmt::{self, Write};
use std::time::Duration;

/// The number of the test itself among the actors.
pub(crate) const TEST: u32 = 0;

/// One turn, or one event between turns.
#[derive(Clone, Debug)]
pub(crate) struct Turn {
    /// The simulation time since the run began.
    pub(crate) at: Duration,
    pub(crate) actor: u32,
    pub(crate) kind: TurnKind,
    /// The types of the messages that were delivered.
    pub(crate) got: Vec<&'static str>,
    /// The actors to which something was sent.
    pub(crate) sent: Vec<u32>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum TurnKind {
    /// A process ran for a time slice.
    Slice,
    /// A waiting thread continued: that of the test, or that of a step.
    Resumed,
    /// A process was made to panic.
    Crashed,
    /// A process was not run for this time.
    Slowed(Duration),
}

impl TurnKind {
    /// Returns the name of the kind, by which turns of two runs are compared.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Slice => "runs",
            Self::Resumed => "goes on",
            Self::Crashed => "crashes",
            Self::Slowed(_) => "is not run",
        }
    }
}

/// The turns with which a replayed run is compared: the process and the kind of each turn.
#[derive(Clone, Debug, Default)]
pub(crate) struct ExpectedTurns(pub(crate) Vec<(String, String)>);

impl ExpectedTurns {
    fn has(&self, number: usize, process: &str, kind: &TurnKind) -> bool {
        self.0.get(number).is_none_or(|(expected, what)| expected == process && what == kind.name())
    }

    /// Returns the number of the first turn that differs, from 1, with the expected and the actual turn. Turns beyond
    /// the last expected one do not count as a difference.
    pub(crate) fn difference(&self, listed: &Listed) -> Option<(usize, String, String)> {
        let line = |(process, kind): &(String, String)| format!("{process} {kind}");
        let differs =
            |at: &usize| listed.turns.get(*at).is_none_or(|turn| !self.has(*at, listed.label(turn.actor), &turn.kind));
        let at = (0..self.0.len()).find(differs)?;
        let now = listed.turns.get(at).map_or("the end".to_string(), |turn| listed.line(turn).trim().to_string());
        Some((at + 1, line(&self.0[at]), now))
    }
}

/// The trace of a run.
pub(crate) struct Trace {
    /// The actor numbers of processes, by slot.
    actors: BTreeMap<u32, u32>,
    /// The slots of all processes so far.
    slots: Vec<u32>,
    /// The type of each actor, and its number among the actors of that type. The first is the test.
    labels: Vec<(&'static str, usize)>,
    counts: BTreeMap<&'static str, usize>,
    /// Number of turns of each actor.
    turns_of: Vec<u64>,
    hash: u64,
    /// The turns, if they are recorded.
    turns: Option<Vec<Turn>>,
    /// Whether the body of the test has ended, after which nothing is added.
    is_closed: bool,
    /// The turns of the run that this one replays.
    expected: ExpectedTurns,
    /// Whether a turn has differed from the expected ones.
    has_diverged: bool,
}

impl Trace {
    /// Returns an empty trace. With `expected`, the trace lists its turns, and compares them with those of another run.
    pub(crate) fn new(expected: Option<ExpectedTurns>) -> Self {
        Self {
            actors: BTreeMap::new(),
            slots: Vec::new(),
            labels: vec![("the test", 0)],
            counts: BTreeMap::new(),
            turns_of: vec![0],
            hash: 0xcbf2_9ce4_8422_2325,
            turns: expected.is_some().then(Vec::new),
            is_closed: false,
            expected: expected.unwrap_or_default(),
            has_diverged: false,
        }
    }

    /// Returns whether a turn has differed from the run that this one replays.
    pub(crate) fn has_diverged(&self) -> bool {
        self.has_diverged
    }

    /// Assigns a number to the process that is spawned in this slot.
    pub(crate) fn spawned(&mut self, slot: u32) {
        self.actors.insert(slot, self.turns_of.len() as u32);
        self.slots.push(slot);
        self.turns_of.push(0);
    }

    /// Returns the number of the process in this slot.
    pub(crate) fn actor(&self, slot: &Slot) -> u32 {
        self.actors.get(&slot.index()).copied().unwrap_or(TEST)
    }

    /// Returns the slot of the process with this number.
    pub(crate) fn slot_of(&self, actor: u32) -> Option<u32> {
        self.slots.get((actor as usize).checked_sub(1)?).copied()
    }

    /// Names the processes that have been spawned since the last call.
    pub(crate) fn name_spawned(&mut self, slot: impl Fn(u32) -> Option<&'static Slot>) {
        while let Some(index) = self.slots.get(self.labels.len() - 1) {
            let path = slot(*index).and_then(|slot| slot.metadata.names()).map_or("process", |(process, _)| process);
            let name = path.rsplit("::").next().unwrap_or(path);
            let count = self.counts.entry(name).or_insert(0);
            *count += 1;
            self.labels.push((name, *count));
        }
    }

    /// Returns the slots of all processes, in the order of their spawns.
    pub(crate) fn used_slots(&self) -> &[u32] {
        &self.slots
    }

    /// Closes the trace: nothing is added from now on.
    pub(crate) fn close(&mut self) {
        self.is_closed = true;
    }

    /// Adds a turn.
    pub(crate) fn add(&mut self, at: Duration, actor: u32, kind: TurnKind) {
        if self.is_closed {
            return;
        }
        let what = match &kind {
            TurnKind::Slice => 0,
            TurnKind::Resumed => 1,
            TurnKind::Crashed => 2,
            TurnKind::Slowed(_) => 3,
        };
        for part in [u64::from(actor), what, at.as_nanos() as u64] {
            // FNV-1a (Fowler, Noll, Vo), on words instead of bytes.
            self.hash = (self.hash ^ part).wrapping_mul(0x0000_0100_0000_01b3);
        }
        self.turns_of[actor as usize] += 1;
        if let Some(turns) = self.turns.as_ref().filter(|turns| turns.len() < self.expected.0.len()) {
            self.has_diverged |= !self.expected.has(turns.len(), &self.label(actor), &kind);
        }
        if let Some(turns) = &mut self.turns {
            turns.push(Turn { at, actor, kind, got: Vec::new(), sent: Vec::new() });
        }
    }

    /// Records in the last turn that a message was delivered.
    pub(crate) fn delivered(&mut self, message: &'static str) {
        if self.is_closed {
            return;
        }
        if let Some(turn) = self.turns.as_mut().and_then(|turns| turns.last_mut()) {
            turn.got.push(message);
        }
    }

    /// Records in the last turn that something was sent to this process.
    pub(crate) fn sent(&mut self, to: u32) {
        if let Some(turn) = self.turns.as_mut().filter(|_| !self.is_closed).and_then(|turns| turns.last_mut()) {
            turn.sent.push(to);
        }
    }

    pub(crate) fn hash(&self) -> u64 {
        self.hash
    }

    /// Returns the processes with the most turns.
    pub(crate) fn busiest(&self, most: usize) -> Vec<(String, u64)> {
        let labels = (0..self.labels.len() as u32).map(|actor| self.label(actor));
        let mut all: Vec<_> = labels.zip(self.turns_of.iter().copied()).skip(1).collect();
        all.sort_by_key(|&(_, turns)| std::cmp::Reverse(turns));
        all.truncate(most);
        all
    }

    pub(crate) fn label(&self, actor: u32) -> String {
        match self.labels.get(actor as usize) {
            Some((name, 0)) => (*name).to_string(),
            Some((name, number)) => format!("{name}#{number}"),
            None => "process".to_string(),
        }
    }

    /// Returns the recorded turns.
    pub(crate) fn listed(&self) -> Listed {
        let turns = self.turns.clone().unwrap_or_default();
        Listed { turns, labels: (0..self.labels.len() as u32).map(|actor| self.label(actor)).collect() }
    }
}

/// A readable list of turns.
#[derive(Clone, Debug, Default)]
pub(crate) struct Listed {
    turns: Vec<Turn>,
    labels: Vec<String>,
}

/// Maximum number of turns in a report. Of a longer run, it shows the last turns.
const SHOWN: usize = 60;

impl Listed {
    pub(crate) fn len(&self) -> usize {
        self.turns.len()
    }

    /// Returns the first turn in which two runs differ.
    pub(crate) fn difference(&self, other: &Self) -> Option<(usize, String, String)> {
        let line =
            |listed: &Self, at: usize| listed.turns.get(at).map_or("nothing".to_string(), |turn| listed.line(turn));
        let longest = self.turns.len().max(other.turns.len());
        (0..longest).find_map(|at| {
            let (one, two) = (line(self, at), line(other, at));
            (one != two).then_some((at + 1, one, two))
        })
    }

    pub(crate) fn turns(&self) -> &[Turn] {
        &self.turns
    }

    /// Returns the names of the processes, by their numbers.
    pub(crate) fn labels(&self) -> &[String] {
        &self.labels
    }

    pub(crate) fn label(&self, actor: u32) -> &str {
        self.labels.get(actor as usize).map_or("?", String::as_str)
    }

    fn line(&self, turn: &Turn) -> String {
        format!("{:>12}  {:<20}{}", format!("{:?}", turn.at), self.label(turn.actor), self.what(turn))
    }

    /// Describes what happened in a turn, beginning with a space.
    pub(crate) fn what(&self, turn: &Turn) -> String {
        let mut line = String::new();
        match &turn.kind {
            TurnKind::Slice if turn.got.is_empty() => line.push_str(" runs"),
            TurnKind::Slice => {
                let short = |name: &&'static str| short(name);
                let got: Vec<_> = turn.got.iter().map(short).collect();
                let _infallible = write!(line, " gets {}", got.join(", "));
            }
            TurnKind::Resumed => line.push_str(" goes on"),
            TurnKind::Crashed => line.push_str(" CRASHES (injected)"),
            TurnKind::Slowed(time) => {
                let _infallible = write!(line, " is not run for {time:?} (injected)");
            }
        }
        if !turn.sent.is_empty() {
            let mut to: Vec<_> = turn.sent.iter().map(|&to| self.label(to)).collect();
            to.dedup();
            let _infallible = write!(line, "; sends to {}", to.join(", "));
        }
        line
    }
}

/// Returns a type's name without its path.
fn short(name: &str) -> &str {
    let end = name.find('<').unwrap_or(name.len());
    let start = name[..end].rfind("::").map_or(0, |at| at + 2);
    &name[start..]
}

impl fmt::Display for Listed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let skipped = self.turns.len().saturating_sub(SHOWN);
        if skipped > 0 {
            writeln!(f, "    … {skipped} turns before")?;
        }
        for (number, turn) in self.turns.iter().enumerate().skip(skipped) {
            writeln!(f, "{:>5} {}", number + 1, self.line(turn))?;
        }
        Ok(())
    }
}
