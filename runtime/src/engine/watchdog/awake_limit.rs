//! The limit of awake threads. The watchdog finds it by trial. This module uses no thread and no clock: the caller
//! passes in samples.
//!
//! # Why
//!
//! More threads are not always faster. Where many processes talk to one (a dictionary and its clients, an arbiter and
//! the processes that it serves, senders and their receiver), each message to another core moves several cache lines to
//! that core, and each thread takes processes away from those that they talk to. This was measured to be four times
//! slower on two workers than on one, and six times slower on sixteen. But nothing in a queue distinguishes these
//! processes from pairs of processes that talk to each other, and sixteen workers serve such pairs eleven times as fast
//! as one.
//!
//! # The rule
//!
//! A number of threads is judged by its *rate*, the events per second. A tick can be *measured* if its events were
//! short on average ([`SHORT`]), no step lasted for the whole tick, and there was no moment at which all threads slept:
//! if there was, the rate shows how much work arrived, not how fast it was done.
//!
//! 1. *Try.* After a pause, and [`MEASURED`] such ticks in a row with all threads, fewer threads are tried: one at
//!    first, in later tries half of all, a quarter, and so on down to one again. If the rate is clearly higher, all
//!    threads are tried once more; if the rate is then clearly lower again, the smaller number becomes the *limit*. So
//!    a load that changes by itself sets no limit, unless it rises and falls with the try.
//! 2. *Climb.* From a new limit, twice as many threads are tried, again and again while the rate becomes clearly
//!    higher.
//! 3. *Check.* After every [`CHECK`] ticks, and some more at random, all threads are tried again, and the limit ends
//!    unless the rate is then clearly lower. So a limit that has become useless ends even if nothing else shows that it
//!    is useless.
//! 4. *End.* A try, a check or a limit ends at once when events are not short, when a step lasts for a whole tick, or
//!    when a process has waited in a queue for a whole tick ([`queue_waits`](super::queue_waits)) while threads are
//!    held back. A try or a check also ends when all threads have slept. A limit also ends when all have slept in each
//!    of [`MEASURED`] ticks in a row, since no process lacks a thread then.
//! 5. *Pause.* After an end there is no limit for [`PAUSE`] ticks. Each further end doubles the pause, up to
//!    [`LONGEST_PAUSE`]; each check that a limit passes halves the next pause.
//! 6. *Renew.* After [`CHECKS`] checks a new limit is sought, without a pause: another limit may be better by then.
//!
//! *Clearly* means by a factor of 1 + [`GAIN`]: after a change, [`SETTLE`] ticks are skipped, and the next [`MEASURED`]
//! ticks are compared with as many before the change. A single tick is enough to return to the previous number if its
//! rate is far below ([`FAR_BELOW`]).
//!
//! # Costs
//!
//! A program that is fastest on all threads has fewer for a tick or two every 160 ms at first, and every 10 s later. A
//! program with a limit has all threads for a tick or two every 80 ms. A limit that gains nothing lasts for 5 ms if a
//! process waits or a step does not end, otherwise up to the next check: in simulations (`simulation`), 45 ms on
//! average and 110 ms at worst.
//!
//! Rejected: making no try while any thread sleeps. A dictionary leaves most of sixteen threads asleep at any moment,
//! and is twice as fast on one. Also rejected: ending the limit when the rate has halved or doubled. A program whose
//! work has changed may continue at the same rate; the checks find that too, and other changes just as soon.
//!
//! Source: hill climbing as in the thread pool of .NET. That pool, however, adds threads where tasks block; here this
//! is not needed (`handoff`), and the number of workers is the maximum.

use crate::env::chance::Random;
use std::collections::VecDeque;
use std::time::Duration;

/// Events are *short* if their average duration, over the time of all awake threads, is less than this. A message
/// between two cores takes 0.1 to 0.2 µs, or a few microseconds if a wake-up, a search and a theft are needed in
/// between, and a step may send many messages.
const SHORT: Duration = Duration::from_micros(10);

/// Number of ticks with short events before the first try.
const FIRST: u32 = 4;

/// Number of ticks after a change that are not compared, since processes still move between threads.
const SETTLE: u32 = 1;

/// Number of ticks that are compared: on a busy machine, one tick may be a tenth faster or slower than the next.
const MEASURED: usize = 3;

/// Minimum number of ticks from one check to the next: 60 ms. During a check, which takes a tick or two, a program may
/// be six times slower: this costs 3 to 5 % of the time.
const CHECK: u32 = 24;

/// Upper bound on the random number of ticks that are added before a check or a try, so that a load with a period of
/// its own does not fall into step with them. (With regular checks, a load that doubled every 30 ms was limited for 88
/// % of the time.)
const UNEVEN: usize = 16;

/// Number of checks after which a new limit is sought, about every 10 s.
const CHECKS: u32 = 128;

/// Number of ticks between two tries: 160 ms.
const PAUSE: u32 = 64;
/// The longest pause: 10 s. Tries then take less than a thousandth of the time, so even a 99.9th percentile does not
/// show them.
const LONGEST_PAUSE: u32 = 4096;

/// Fraction by which the rate must differ for a number of threads to count as better.
const GAIN: f64 = 1.0 / 8.0;

/// If the rate of a single tick is below this fraction of the previous rate, that tick is enough to decide.
const FAR_BELOW: f64 = 0.7;

/// The work of all threads since the previous tick.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Done {
    pub(crate) events: u64,
    pub(crate) took: Duration,
    /// Number of threads that are awake, with a permit.
    pub(crate) awake: usize,
    /// Whether a thread is still in the step that it was in at the last tick.
    pub(crate) is_any_long: bool,
    /// Whether all threads slept at some moment since the last tick.
    pub(crate) have_all_slept: bool,
    /// Whether a process has waited in a queue for the whole tick.
    pub(crate) has_any_waited: bool,
}

impl Done {
    fn is_short(self) -> bool {
        let took = self.took.as_nanos() * self.awake.max(1) as u128;
        !self.is_any_long && took < u128::from(self.events) * SHORT.as_nanos()
    }

    fn rate(self) -> f64 {
        self.events as f64 / self.took.as_secs_f64().max(1e-9)
    }
}

#[derive(Clone, Copy, Debug)]
enum LimitPhase {
    /// All threads may be awake. There is no try for this many ticks.
    Pause(u32),
    /// The limit applies. There is no check for this many ticks.
    Limit(u32),
    /// A change, with the number of ticks since it began, and the rate before it.
    Trial { change: Change, rate_before: f64, tick: u32 },
}

#[derive(Clone, Copy, Debug)]
enum Change {
    /// From all threads to fewer.
    Fewer,
    /// Back to all, after a higher rate with fewer.
    Back,
    /// From the limit to twice as many.
    Twice,
    /// From the limit to all.
    Check,
}

#[derive(Clone, Copy, Debug)]
enum Verdict {
    Higher,
    Same,
    Lower,
}

#[derive(Debug)]
pub(crate) struct AwakeLimit {
    workers: usize,
    /// The limit, or the number of threads that is or will be tried as the limit.
    fewer: usize,
    phase: LimitPhase,
    /// The rates of the most recent measured ticks in a row, all with the same number of threads.
    rates: VecDeque<f64>,
    next_pause: u32,
    /// Number of checks that the limit has passed.
    passed: u32,
    /// Number of ticks in a row in which all threads have slept.
    slept: usize,
    random: Random,
}

impl AwakeLimit {
    pub(crate) fn new(workers: usize) -> Self {
        Self {
            workers,
            fewer: 1,
            phase: LimitPhase::Pause(FIRST),
            rates: VecDeque::with_capacity(MEASURED),
            next_pause: PAUSE,
            passed: 0,
            slept: 0,
            random: Random::new(0, 0),
        }
    }

    /// Returns how many threads may be awake.
    fn limit(&self) -> usize {
        match self.phase {
            LimitPhase::Pause(_) => self.workers,
            LimitPhase::Limit(_) => self.fewer,
            LimitPhase::Trial { change, .. } => match change {
                Change::Fewer => self.fewer,
                Change::Twice => self.twice(),
                Change::Back | Change::Check => self.workers,
            },
        }
    }

    fn twice(&self) -> usize {
        (2 * self.fewer).min(self.workers)
    }

    /// Handles a tick. Returns how many threads may be awake until the next one.
    pub(crate) fn look(&mut self, done: Done) -> usize {
        self.slept = if done.have_all_slept { self.slept + 1 } else { 0 };
        let has_waited = done.has_any_waited && self.limit() < self.workers;
        if has_waited || !done.is_short() {
            self.end();
        } else if done.have_all_slept {
            self.pass_unmeasured();
        } else {
            self.measure(done.rate());
        }
        self.limit()
    }

    /// Handles a tick in which all threads have slept.
    fn pass_unmeasured(&mut self) {
        self.rates.clear();
        match &mut self.phase {
            LimitPhase::Pause(ticks) => *ticks = ticks.saturating_sub(1),
            LimitPhase::Limit(ticks) if self.slept < MEASURED => *ticks = ticks.saturating_sub(1),
            _ => self.end(),
        }
    }

    fn measure(&mut self, rate: f64) {
        match self.phase {
            LimitPhase::Trial { change, rate_before, tick } => {
                self.phase = LimitPhase::Trial { change, rate_before, tick: tick + 1 };
                if let Some(verdict) = self.verdict(change, rate, rate_before, tick) {
                    self.conclude(change, rate_before, verdict);
                }
            }
            LimitPhase::Pause(ticks) => {
                self.note(rate);
                if ticks == 0 && self.is_measured() && self.workers > 1 {
                    self.begin(Change::Fewer, self.rate());
                } else {
                    self.phase = LimitPhase::Pause(ticks.saturating_sub(1));
                }
            }
            LimitPhase::Limit(ticks) => {
                self.note(rate);
                match ticks {
                    1.. => self.phase = LimitPhase::Limit(ticks - 1),
                    0 if !self.is_measured() => self.end(),
                    0 if self.passed == CHECKS => self.renew(),
                    0 => self.begin(Change::Check, self.rate()),
                }
            }
        }
    }

    /// Compares the measured rates of a change with the rate before. Returns `None` if more ticks are needed for that.
    fn verdict(&mut self, change: Change, rate: f64, rate_before: f64, tick: u32) -> Option<Verdict> {
        let returns_if_lower = !matches!(change, Change::Back);
        if returns_if_lower && rate < rate_before * FAR_BELOW {
            return Some(Verdict::Lower);
        }
        if tick >= SETTLE {
            self.note(rate);
        }
        self.is_measured().then(|| match self.rate() {
            rate if rate > rate_before * (1.0 + GAIN) => Verdict::Higher,
            rate if rate * (1.0 + GAIN) < rate_before => Verdict::Lower,
            _ => Verdict::Same,
        })
    }

    fn conclude(&mut self, change: Change, rate_before: f64, verdict: Verdict) {
        match (change, verdict) {
            (Change::Fewer, Verdict::Higher) => self.begin(Change::Back, self.rate()),
            (Change::Back, Verdict::Lower) => {
                self.passed = 0;
                self.climb(rate_before);
            }
            (Change::Twice, Verdict::Higher) => {
                self.fewer = self.twice();
                self.climb(self.rate());
            }
            (Change::Twice, _) => self.keep(),
            (Change::Check, Verdict::Lower) => {
                self.passed += 1;
                self.next_pause = (self.next_pause / 2).max(PAUSE);
                self.keep();
            }
            (Change::Fewer | Change::Back | Change::Check, _) => self.end(),
        }
    }

    fn begin(&mut self, change: Change, rate_before: f64) {
        self.phase = LimitPhase::Trial { change, rate_before, tick: 0 };
        self.rates.clear();
    }

    /// Performs *Climb* from a limit with this rate.
    fn climb(&mut self, rate: f64) {
        if self.twice() < self.workers {
            self.begin(Change::Twice, rate);
        } else {
            self.keep();
        }
    }

    fn keep(&mut self) {
        self.phase = LimitPhase::Limit(self.at_least(CHECK));
        self.rates.clear();
    }

    /// Performs *End* and *Pause*. During a pause, puts the next try off for at least [`FIRST`] ticks.
    fn end(&mut self) {
        self.rates.clear();
        if let LimitPhase::Pause(ticks) = &mut self.phase {
            *ticks = ticks.saturating_sub(1).max(FIRST);
            return;
        }
        let was_in_vain = matches!(self.phase, LimitPhase::Trial { change: Change::Fewer | Change::Back, .. });
        self.fewer = match self.fewer {
            2.. if was_in_vain => self.fewer / 2,
            _ if was_in_vain => (self.workers / 2).max(1),
            _ => 1,
        };
        self.phase = LimitPhase::Pause(self.at_least(self.next_pause));
        self.next_pause = (2 * self.next_pause).min(LONGEST_PAUSE);
    }

    /// Performs *Renew*: starts from half of the limit, and climbs from there.
    fn renew(&mut self) {
        self.fewer = (self.fewer / 2).max(1);
        self.phase = LimitPhase::Pause(0);
        self.rates.clear();
    }

    /// Returns `ticks` and some more at random: see [`UNEVEN`].
    fn at_least(&mut self, ticks: u32) -> u32 {
        ticks + self.random.below(UNEVEN) as u32
    }

    fn note(&mut self, rate: f64) {
        if self.is_measured() {
            self.rates.pop_front();
        }
        self.rates.push_back(rate);
    }

    fn is_measured(&self) -> bool {
        self.rates.len() == MEASURED
    }

    fn rate(&self) -> f64 {
        self.rates.iter().sum::<f64>() / self.rates.len().max(1) as f64
    }
}

#[cfg(test)]
mod simulation;
#[cfg(test)]
mod tests;
