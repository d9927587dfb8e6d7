//! How many threads are awake at most: found by the watchdog, by trying. No thread and no clock: the caller passes
//! samples.
//!
//! # Why
//!
//! More threads are not always faster. Where many processes talk to one (a dictionary and its clients, an arbiter and
//! those that it serves, senders and their receiver), each message on the way to another core moves some lines of
//! memory there, and each of the threads takes processes from those that talk to them: measured four times slower on
//! two workers than on one, and six times on sixteen. But nothing in a queue tells these processes from pairs that talk
//! among themselves, which sixteen workers serve eleven times as fast as one.
//!
//! # The rule
//!
//! While events are short on average ([`SHORT`]):
//! * *try*: after a while only one thread is to be awake, the next time half of them, and so on in turn; while there is
//!   a limit, also twice as many.
//! * *compare*: after [`SETTLE`] ticks, the rate of events of [`MEASURED`] ticks, or of one if it is far from that
//!   before, is compared with that of as many ticks before the try. If it is clearly higher ([`GAIN`]) it stays so, and
//!   the next try follows, upwards from one thread. Otherwise it is as it was for [`PAUSE`] ticks, and for twice as
//!   many after each try in vain, up to [`LONGEST_PAUSE`].
//! * *end*: when the rate has halved or doubled, or events are not short any more, or a step has lasted for a whole
//!   tick, all threads may be awake.
//!
//! # What it costs
//!
//! A program that is fastest on all threads has a part of them for 5 to 10 ms in 160 ms at first, and in 10 s later.
//! What is queued while a thread is held back waits for short steps of others; behind a step that is not short, until
//! the second tick that finds it (*end*), which announces it: 5 ms at most, where another thread would take it at once.
//!
//! Source: hill climbing as in the thread pool of .NET, which however adds threads where tasks block; here that is not
//! needed (`handoff`), and the number of workers is the most.

use std::collections::VecDeque;
use std::time::Duration;

/// Events that take less than this on average, of the time of the threads that are awake. A message between two cores
/// takes 0.1 to 0.2 µs, with a theft, its search and a wake-up in between some microseconds, and a step may send many.
const SHORT: Duration = Duration::from_micros(10);

/// After how many ticks with short events the first try begins.
const FIRST: u32 = 4;

/// How many ticks of a try pass until processes have moved.
const SETTLE: u32 = 1;

/// How many ticks are compared: one tick on a busy machine is one tenth faster or slower than the next.
const MEASURED: usize = 3;

/// The number of ticks between two tries: 160 ms.
const PAUSE: u32 = 64;
/// 10 s: less than a thousandth of the time goes to tries then, also for what is measured at the slowest thousandth.
const LONGEST_PAUSE: u32 = 4096;

/// By which part the rate must be higher for a number of threads to stay.
const GAIN: f64 = 1.0 / 8.0;

/// Parts of the rate before: beyond these one tick of a try is enough.
const FAR_BELOW: f64 = 0.7;
const FAR_ABOVE: f64 = 1.5;

/// What all threads have done since the last tick.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Done {
    pub(crate) events: u64,
    pub(crate) took: Duration,
    /// How many threads are awake, with a permit.
    pub(crate) awake: usize,
    /// Whether a thread is in the step that it was in at the last tick.
    pub(crate) is_any_long: bool,
}

impl Done {
    fn is_short(self) -> bool {
        let took = self.took.as_nanos() * self.awake as u128;
        !self.is_any_long && took < u128::from(self.events) * SHORT.as_nanos()
    }

    fn rate(self) -> f64 {
        self.events as f64 / self.took.as_secs_f64().max(1e-9)
    }
}

/// What is tried.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Goal {
    One,
    Half,
    Double,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum LimitPhase {
    /// No try for so many ticks.
    Pause(u32),
    /// A try in its tick with that number, after a limit with that rate.
    Try { goal: Goal, limit_before: usize, rate_before: f64, tick: u32 },
}

#[derive(Debug)]
pub(crate) struct AwakeLimit {
    workers: usize,
    limit: usize,
    phase: LimitPhase,
    /// The rates of the last ticks with this limit.
    rates: VecDeque<f64>,
    /// The rate that was found with this limit.
    found: f64,
    next_pause: u32,
    next_goal: Goal,
}

impl AwakeLimit {
    pub(crate) fn new(workers: usize) -> Self {
        Self {
            workers,
            limit: workers,
            phase: LimitPhase::Pause(FIRST),
            rates: VecDeque::with_capacity(MEASURED),
            found: 0.0,
            next_pause: PAUSE,
            next_goal: Goal::One,
        }
    }

    /// Handles a tick. Returns how many threads are awake at most until the next one.
    pub(crate) fn look(&mut self, done: Done) -> usize {
        if !done.is_short() {
            let pause = match self.phase {
                LimitPhase::Pause(ticks) if self.limit == self.workers => ticks.saturating_sub(1).max(FIRST),
                _ => self.next_pause,
            };
            self.set(self.workers, LimitPhase::Pause(pause));
            self.next_goal = Goal::One;
            return self.limit;
        }
        match self.phase {
            LimitPhase::Try { goal, limit_before, rate_before, tick } => {
                self.phase = LimitPhase::Try { goal, limit_before, rate_before, tick: tick + 1 };
                if tick >= SETTLE {
                    self.note(done.rate());
                    self.judge(goal, limit_before, rate_before);
                }
            }
            LimitPhase::Pause(ticks) => {
                self.note(done.rate());
                self.phase = LimitPhase::Pause(ticks.saturating_sub(1));
                if self.rates.len() == MEASURED {
                    if self.has_changed() {
                        self.set(self.workers, LimitPhase::Pause(FIRST));
                        self.next_goal = Goal::One;
                    } else if ticks == 0 {
                        self.begin(self.next_goal);
                    }
                }
            }
        }
        self.limit
    }

    /// *compare*
    fn judge(&mut self, goal: Goal, limit_before: usize, rate_before: f64) {
        let rate = self.rate();
        let is_clear = rate < rate_before * FAR_BELOW || rate > rate_before * FAR_ABOVE;
        if self.rates.len() < MEASURED && !is_clear {
            return;
        }
        if rate > rate_before * (1.0 + GAIN) {
            (self.found, self.next_pause) = (rate, PAUSE);
            self.phase = LimitPhase::Pause(0);
            // From one thread on, upwards; and otherwise on in the same direction.
            self.next_goal = if goal == Goal::Half { Goal::Half } else { Goal::Double };
        } else {
            self.set(limit_before, LimitPhase::Pause(self.next_pause));
            self.found = rate_before;
            self.next_pause = (self.next_pause * 2).min(LONGEST_PAUSE);
            self.next_goal = match goal {
                Goal::One | Goal::Double => Goal::Half,
                Goal::Half if limit_before == self.workers => Goal::One,
                Goal::Half => Goal::Double,
            };
        }
    }

    fn begin(&mut self, goal: Goal) {
        let limit = match goal {
            Goal::One => 1,
            Goal::Half => (self.limit / 2).max(1),
            Goal::Double => (self.limit * 2).min(self.workers),
        };
        if limit == self.limit {
            self.next_goal = if self.limit == 1 { Goal::Double } else { Goal::Half };
            self.phase = LimitPhase::Pause(self.next_pause);
        } else {
            let phase = LimitPhase::Try { goal, limit_before: self.limit, rate_before: self.rate(), tick: 0 };
            self.set(limit, phase);
        }
    }

    fn set(&mut self, limit: usize, phase: LimitPhase) {
        (self.limit, self.phase) = (limit, phase);
        self.rates.clear();
    }

    fn note(&mut self, rate: f64) {
        if self.rates.len() == MEASURED {
            self.rates.pop_front();
        }
        self.rates.push_back(rate);
    }

    fn rate(&self) -> f64 {
        self.rates.iter().sum::<f64>() / self.rates.len().max(1) as f64
    }

    /// *end*: the program is not the one for which the limit was found.
    fn has_changed(&self) -> bool {
        self.limit < self.workers && (self.rate() < self.found / 2.0 || self.rate() > self.found * 2.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TICK: Duration = Duration::from_micros(2_500);

    fn busy(events: u64, awake: usize) -> Done {
        Done { events, took: TICK, awake, is_any_long: false }
    }

    /// Lets a program run whose speed depends on the number of threads. Returns the limits that there were, in order.
    fn run(policy: &mut AwakeLimit, ticks: u32, events: impl Fn(usize) -> u64) -> Vec<usize> {
        let mut limits = vec![policy.limit];
        for _ in 0..ticks {
            let limit = policy.look(busy(events(policy.limit), policy.limit));
            if limits.last() != Some(&limit) {
                limits.push(limit);
            }
        }
        limits
    }

    #[test]
    fn a_program_that_is_faster_on_one_thread_gets_one() {
        let mut policy = AwakeLimit::new(16);
        let limits = run(&mut policy, 40, |awake| 160_000 / awake as u64);
        assert_eq!(limits, [16, 1, 2, 1], "two are tried from there on");
        assert_eq!(run(&mut policy, 60, |awake| 160_000 / awake as u64), [1]);
    }

    #[test]
    fn a_program_that_is_fastest_on_four_threads_gets_four() {
        let mut policy = AwakeLimit::new(16);
        let events = |awake: usize| 10_000 * if awake <= 4 { awake as u64 } else { 1 } / awake.div_ceil(8) as u64;
        assert_eq!(run(&mut policy, 60, events), [16, 1, 2, 4, 8, 4]);
    }

    #[test]
    fn a_program_that_uses_all_threads_keeps_them_and_is_tried_ever_more_rarely() {
        let mut policy = AwakeLimit::new(16);
        let limits = run(&mut policy, 4_000, |awake| 10_000 * awake as u64);
        assert!(limits.iter().all(|limit| [16, 1, 8].contains(limit)), "{limits:?}");
        assert!((5..16).contains(&limits.len()), "{limits:?}");
        assert_eq!(policy.limit, 16);
        let mut same = AwakeLimit::new(16);
        run(&mut same, 4_000, |_| 10_000);
        assert_eq!(same.limit, 16, "threads are not taken away without a gain");
    }

    #[test]
    fn it_ends_with_long_events_and_with_long_steps() {
        for other in [busy(200, 1), Done { is_any_long: true, ..busy(160_000, 1) }] {
            let mut policy = AwakeLimit::new(16);
            run(&mut policy, 40, |awake| 160_000 / awake as u64);
            assert_eq!(policy.limit, 1);
            assert_eq!(policy.look(other), 16);
        }
        let mut long = AwakeLimit::new(16);
        assert!((0..1_000).all(|_| long.look(busy(1_000, 16)) == 16), "40 µs for each event");
    }

    #[test]
    fn a_long_step_now_and_then_does_not_hasten_the_next_try() {
        let mut policy = AwakeLimit::new(16);
        let mut tries = 0;
        for tick in 0..4_000 {
            let done = busy(10_000 * policy.limit as u64, policy.limit);
            let before = policy.limit;
            policy.look(Done { is_any_long: tick % 20 == 0, ..done });
            tries += u32::from(before == 16 && policy.limit < 16);
        }
        assert!((1..=8).contains(&tries), "{tries}");
    }

    #[test]
    fn it_ends_when_the_program_changes() {
        for other in [60_000, 400_000] {
            let mut policy = AwakeLimit::new(16);
            run(&mut policy, 40, |awake| 160_000 / awake as u64);
            assert_eq!(run(&mut policy, 4, |_| other), [1, 16]);
        }
    }

    #[test]
    fn a_single_worker_is_left_as_it_is() {
        let mut policy = AwakeLimit::new(1);
        assert_eq!(run(&mut policy, 4_000, |_| 10_000), [1]);
    }
}
