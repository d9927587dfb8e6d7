//! Strategies, which decide which process goes next.

use crate::env::chance::Random;
use std::collections::BTreeMap;

/// How the schedules of a test are chosen. With [`Portfolio`](Schedules::Portfolio), the default, each seed determines
/// its strategy, so the author of a test need not guess one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Schedules {
    /// A third of the seeds each: [`Random`](Self::Random), [`Pct`](Self::Pct) and [`Rare`](Self::Rare).
    #[default]
    Portfolio,
    /// Each ready process is equally likely to go next.
    Random,
    /// Random priorities, changed at a few random moments: probabilistic concurrency testing (Burckhardt et al., 2010).
    /// Finds failures that need few, exact preemptions. The number of changes cycles with the seed from 1 to 4.
    Pct,
    /// The schedules of production. The seed chooses which of several workers goes next. The scheduler chooses what
    /// that worker runs, from its own queues or stolen, in time slices of the usual length.
    Production,
    /// Random with rare preemption: most of the time, the process that ran last continues, or the one that it has
    /// woken. Finds failures that need one process to get far ahead of another.
    Rare,
    /// All schedules, one after the other. Meant for small tests. Each time slice takes one event.
    Exhaustive,
}

/// The strategy of one run.
pub(crate) enum TurnOrder {
    /// Each ready actor is equally likely.
    Uniform,
    /// The actor that ran last continues while it can. After it comes the actor that became ready last, such as one to
    /// which it has sent. One turn in [`RARE`] is drawn at random instead. So a conversation continues while others
    /// wait.
    Rare {
        last: u32,
    },
    Pct(Priorities),
}

/// One turn in this many is drawn at random.
const RARE: usize = 16;

/// The lengths of runs that [`Schedules::Pct`] assumes, as powers of two. (The length of a run is not known in
/// advance.)
const LENGTHS: std::ops::Range<usize> = 4..13;

/// Number of turns after which the strategy becomes fair, so that a process does not wait forever for one of lower
/// priority.
const FAIR: u64 = 20_000;

/// The state of [`Schedules::Pct`].
pub(crate) struct Priorities {
    of: BTreeMap<u32, u64>,
    /// The turns at which the process that would otherwise run next gets the lowest priority.
    changes: Vec<u64>,
    lowest: u64,
}

impl Schedules {
    const NAMES: [(&str, Self); 6] = [
        ("portfolio", Self::Portfolio),
        ("random", Self::Random),
        ("pct", Self::Pct),
        ("rare", Self::Rare),
        ("production", Self::Production),
        ("exhaustive", Self::Exhaustive),
    ];

    /// The names of all schedules, for an error.
    pub(crate) const EXPECTED: &str = "`portfolio`, `random`, `pct`, `rare`, `production` or `exhaustive`";

    /// Returns the schedules that have this name in attributes and environment variables.
    pub(crate) fn of_name(name: &str) -> Option<Self> {
        Self::NAMES.iter().find(|(known, _)| *known == name).map(|(_, schedules)| *schedules)
    }

    pub(crate) fn name(self) -> &'static str {
        Self::NAMES.iter().find(|(_, schedules)| *schedules == self).map_or("portfolio", |(name, _)| name)
    }

    /// Returns the number of workers that a run simulates.
    pub(crate) fn workers(self, seed: u64) -> usize {
        match self {
            Self::Production => WORKERS.start + Random::new(seed, STRATEGY).below(WORKERS.len()),
            _ => 1,
        }
    }
}

/// Number of workers that [`Schedules::Production`] simulates.
const WORKERS: std::ops::Range<usize> = 2..5;

impl TurnOrder {
    /// Returns the strategy for a seed.
    pub(crate) fn of(schedules: Schedules, seed: u64) -> Self {
        let mut random = Random::new(seed, STRATEGY);
        let kind = match schedules {
            Schedules::Portfolio => seed % 3,
            Schedules::Random | Schedules::Production | Schedules::Exhaustive => 0,
            Schedules::Pct => 1,
            Schedules::Rare => 2,
        };
        match kind {
            0 => Self::Uniform,
            1 => {
                let length = 1 << (LENGTHS.start + random.below(LENGTHS.len()));
                let changes = 1 + (seed / 3) % 4;
                let changes = (0..changes).map(|_| random.below(length) as u64).collect();
                Self::Pct(Priorities { of: BTreeMap::new(), changes, lowest: 1 << 32 })
            }
            _ => Self::Rare { last: u32::MAX },
        }
    }

    /// Chooses one of at least two `actors`.
    pub(crate) fn choose(&mut self, actors: &[u32], turn: u64, random: &mut Random) -> usize {
        match self {
            Self::Pct(priorities) if turn < FAIR => priorities.choose(actors, turn, random),
            Self::Uniform | Self::Pct(_) => random.below(actors.len()),
            Self::Rare { last } => {
                let newest = actors.len() - 1;
                let chosen = match random.below(RARE) {
                    0 => random.below(actors.len()),
                    _ => actors.iter().position(|actor| actor == last).unwrap_or(newest),
                };
                *last = actors[chosen];
                chosen
            }
        }
    }

    /// Chooses one of `count` budgets, of which the first is the usual one and the second a single event.
    pub(crate) fn budget(&mut self, count: usize, random: &mut Random) -> usize {
        match random.below(8) {
            0 => random.below(count),
            _ => 1,
        }
    }
}

impl Priorities {
    fn choose(&mut self, actors: &[u32], turn: u64, random: &mut Random) -> usize {
        for &actor in actors {
            // This is above the priorities of all actors that were given the lowest one.
            self.of.entry(actor).or_insert_with(|| (1 << 33) + random.next() % (1 << 32));
        }
        let highest = |this: &Self| (0..actors.len()).max_by_key(|&at| this.of[&actors[at]]).unwrap_or(0);
        if let Some(due) = self.changes.iter().position(|&change| change <= turn) {
            self.changes.swap_remove(due);
            let at = highest(self);
            self.lowest -= 1;
            self.of.insert(actors[at], self.lowest);
        }
        highest(self)
    }
}

/// The random stream of a seed from which strategies are drawn.
const STRATEGY: u64 = (1 << 40) + 1;
