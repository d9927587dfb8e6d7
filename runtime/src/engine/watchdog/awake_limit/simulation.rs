//! The policy under simulated load: random loads from seeds, and some with the rates that are recorded in
//! `benches/NOTES.md`.

use super::*;

const TICK: Duration = Duration::from_micros(2_500);
const TICK_NS: f64 = 2_500_000.0;
/// Number of ticks in a second.
const SECOND: u32 = 400;
const WORKERS: [usize; 3] = [2, 4, 16];

/// Maximum number of ticks for which a limit that gains nothing may last on average (50 ms).
const MEAN: f64 = 20.0;
/// Maximum number of ticks for which a limit that gains nothing may last at worst (200 ms).
const WORST: u32 = 80;
/// Maximum fraction of the time for which there may be a limit that gains nothing.
const PART: f64 = 0.02;

fn unit(random: &mut Random) -> f64 {
    random.below(1 << 30) as f64 / f64::from(1 << 30)
}

fn between(random: &mut Random, low: f64, high: f64) -> f64 {
    low + unit(random) * (high - low)
}

/// Returns the factor by which a tick on a busy machine deviates: up to a tenth, or more if the thread was preempted.
fn noise(random: &mut Random) -> f64 {
    let preempted = if random.below(100) == 0 { between(random, 0.3, 1.0) } else { 1.0 };
    between(random, 0.9, 1.1) * preempted
}

/// Returns how many events arrive in a tick if they arrive at random, on average `mean`.
fn at_random(random: &mut Random, mean: f64) -> f64 {
    // The sum of twelve uniformly distributed numbers is nearly normally distributed, with a variance of one.
    let deviation = (0..12).map(|_| unit(random)).sum::<f64>() - 6.0;
    (mean + deviation * mean.sqrt()).max(0.0).round()
}

/// The outcome of a tick under a load, with some number of awake threads.
struct TickOfLoad {
    events: f64,
    awake: usize,
    have_all_slept: bool,
    has_any_waited: bool,
}

impl TickOfLoad {
    /// Makes a tick with work for all threads.
    fn busy(events: f64, awake: usize) -> Self {
        Self { events, awake, have_all_slept: false, has_any_waited: false }
    }

    fn done(self) -> Done {
        let Self { events, awake, have_all_slept, has_any_waited } = self;
        Done { events: events as u64, took: TICK, awake, is_any_long: false, have_all_slept, has_any_waited }
    }
}

type Load<'a> = Box<dyn FnMut(usize, &mut Random) -> TickOfLoad + 'a>;

/// A load of processes that talk so much that the rate depends on the number of threads. `measured` has the nanoseconds
/// per event for some numbers of threads; those for other numbers are interpolated.
fn talk(measured: &[(usize, f64)]) -> Load<'_> {
    Box::new(|awake, random| {
        let (above, below) = (
            measured.iter().find(|&&(threads, _)| threads >= awake).expect("all threads are measured"),
            measured.iter().rfind(|&&(threads, _)| threads <= awake).expect("one thread is measured"),
        );
        let log = |threads: usize| (threads as f64).ln();
        let part = if above.0 == below.0 { 0.0 } else { (log(awake) - log(below.0)) / (log(above.0) - log(below.0)) };
        let took = below.1 * (above.1 / below.1).powf(part);
        TickOfLoad::busy(TICK_NS / took * noise(random), awake)
    })
}

/// A load of independent processes that always have work: `events` per tick on one thread.
fn apart<'a>(events: f64, have_waited: bool) -> Load<'a> {
    Box::new(move |awake, random| TickOfLoad {
        has_any_waited: have_waited,
        ..TickOfLoad::busy(events * awake as f64 * noise(random), awake)
    })
}

/// A load of events that arrive from outside and queue until there is a thread for them. `mean` returns the average
/// number of events in a tick, given the number of the tick.
fn offered<'a>(took_ns: f64, mut mean: impl FnMut(u32, &mut Random) -> f64 + 'a) -> Load<'a> {
    let (mut tick, mut queued) = (0, 0.0);
    Box::new(move |awake, random| {
        tick += 1;
        let came = mean(tick, random);
        let came = at_random(random, came);
        let most = (TICK_NS / took_ns * awake as f64 * noise(random)).floor();
        let events = (queued + came).min(most);
        let has_any_waited = queued > events;
        queued += came - events;
        TickOfLoad {
            events,
            awake: usize::from(unit(random) < events / most).max((events / most * awake as f64) as usize),
            have_all_slept: events < most * 0.9,
            has_any_waited,
        }
    })
}

/// A load whose rate changes by itself, and that never leaves all threads asleep.
fn given<'a>(mut rate: impl FnMut(u32, &mut Random) -> f64 + 'a) -> Load<'a> {
    let mut tick = 0;
    Box::new(move |_, random| {
        tick += 1;
        TickOfLoad::busy(rate(tick, random), 1)
    })
}

#[derive(Default)]
struct LimitedTicks {
    ticks: u32,
    events: f64,
    /// Number of ticks in which there was a limit, or a try.
    limited: u32,
    /// The lengths of uninterrupted runs of such ticks.
    spells: Vec<u32>,
}

impl LimitedTicks {
    fn part(&self) -> f64 {
        f64::from(self.limited) / f64::from(self.ticks)
    }

    fn add(&mut self, other: Self) {
        self.ticks += other.ticks;
        self.events += other.events;
        self.limited += other.limited;
        self.spells.extend(other.spells);
    }
}

struct Program {
    policy: AwakeLimit,
    random: Random,
    awake: usize,
}

impl Program {
    fn new(workers: usize, seed: u64) -> Self {
        Self { policy: AwakeLimit::new(workers), random: Random::new(seed, workers as u64), awake: workers }
    }

    fn is_limited(&self) -> bool {
        self.awake < self.policy.workers
    }

    fn tick(&mut self, load: &mut Load<'_>) -> f64 {
        let work = load(self.awake, &mut self.random);
        let events = work.events;
        self.awake = self.policy.look(work.done());
        events
    }

    fn run(&mut self, load: &mut Load<'_>, ticks: u32) -> LimitedTicks {
        let mut seen = LimitedTicks { ticks, ..LimitedTicks::default() };
        let mut spell = 0;
        for _ in 0..ticks {
            spell = if self.is_limited() { spell + 1 } else { 0 };
            match seen.spells.last_mut() {
                Some(last) if spell > 1 => *last = spell,
                _ if spell > 0 => seen.spells.push(spell),
                _ => {}
            }
            seen.limited += u32::from(spell > 0);
            seen.events += self.tick(load);
        }
        seen
    }

    /// Returns the number of ticks until there is no limit.
    fn until_lifted(&mut self, load: &mut Load<'_>) -> u32 {
        (0..100 * SECOND).take_while(|_| self.is_limited() && self.tick(load) >= 0.0).count() as u32
    }
}

/// Returns measurements, as for [`talk`], of a dictionary that is fastest on one thread.
fn chat(workers: usize) -> [(usize, f64); 2] {
    [(1, 100.0), (workers, if workers > 4 { 500.0 } else { 100.0 * workers as f64 })]
}

/// A load whose rate is `factor` times as high in the second half of each period as in the first. A half is `half`
/// ticks long.
fn alternating(half: u32, factor: f64, phase: u32) -> Load<'static> {
    given(move |tick, random| {
        2_000.0 * noise(random) * if ((tick + phase) / half).is_multiple_of(2) { 1.0 } else { factor }
    })
}

type NamedLoad<'a, P> = (&'a str, &'a dyn Fn(P) -> Load<'static>);

/// Loads that may follow a chat, given the number of events in a tick of one thread.
const AFTER_CHAT: [NamedLoad<'_, f64>; 5] = [
    ("independent processes", &|events| apart(events, false)),
    ("independent processes that wait", &|events| apart(events, true)),
    ("the same rate with any number of threads", &|events| given(move |_, random| events * noise(random))),
    ("little", &|_| offered(1_000.0, |_, _| 100.0)),
    ("more than one thread can do", &|events| offered(TICK_NS / events, move |_, _| events * 1.2)),
];

/// Catches: a limit that persists when the load has changed. (Such a limit once left a thread idle for up to 20 s.)
#[test]
fn a_limit_that_has_become_wrong_is_lifted_soon() {
    for workers in WORKERS {
        for (name, next) in AFTER_CHAT {
            let (mut sum, mut worst, mut count) = (0, 0, 0);
            for seed in 0..200 {
                let mut program = Program::new(workers, seed);
                let ticks = 60 + program.random.below(4_000) as u32;
                program.run(&mut talk(&chat(workers)), ticks);
                let events = 10_000.0 * between(&mut program.random, 0.6, 1.8);
                if program.is_limited() {
                    let took = program.until_lifted(&mut next(events));
                    (sum, worst, count) = (sum + took, worst.max(took), count + 1);
                }
            }
            let mean = f64::from(sum) / f64::from(count);
            let seen = format!("{name}, {workers} workers: {mean:.1} ticks on average, {worst} at worst, of {count}");
            assert!(count > 150, "{seen}");
            assert!(mean < MEAN && worst < WORST, "{seen}");
        }
    }
}

/// Loads for which a limit gains nothing, given a seed.
const NOTHING_TO_GAIN: [NamedLoad<'_, u64>; 11] = [
    ("40 events a tick", &|_| offered(1_000.0, |_, _| 40.0)),
    ("200 events a tick", &|_| offered(1_000.0, |_, _| 200.0)),
    ("200 events that are not quite short", &|_| offered(9_000.0, |_, _| 200.0)),
    ("40 events a tick, and bursts", &|_| {
        offered(1_000.0, |_, random| if random.below(40) == 0 { 20_000.0 } else { 40.0 })
    }),
    ("2,000 and 3,000 events a tick in turn, of others", &|_| {
        offered(1_000.0, |tick, _| if tick / 20 % 2 == 0 { 2_000.0 } else { 3_000.0 })
    }),
    ("2,000 and 3,000 events a tick in turn", &|_| {
        given(|tick, random| at_random(random, if tick / 20 % 2 == 0 { 2_000.0 } else { 3_000.0 }))
    }),
    ("two rates in turn", &|seed| alternating(1 + 13 * seed as u32 % 200, 1.2 + (seed % 8) as f64 / 4.0, 0)),
    ("a rate that differs much from tick to tick", &|_| given(|_, random| between(random, 1_000.0, 4_000.0))),
    ("a rate with peaks", &|_| {
        let mut peak = 1.0;
        given(move |_, random| {
            peak = if random.below(20) == 0 { between(random, 2.0, 10.0) } else { f64::max(peak * 0.7, 1.0) };
            2_000.0 * peak
        })
    }),
    ("a rate that drifts", &|_| {
        let mut rate = 4_000.0;
        given(move |_, random| {
            rate = f64::clamp(rate * between(random, 0.85, 1.0 / 0.85), 1_000.0, 12_000.0);
            rate
        })
    }),
    ("independent processes", &|_| apart(10_000.0, false)),
];

/// Catches: a limit that is set by chance, or by a load that changes by itself.
#[test]
fn a_load_for_which_a_limit_gains_nothing_has_none() {
    for workers in WORKERS {
        for (name, load) in NOTHING_TO_GAIN {
            let mut seen = LimitedTicks::default();
            for seed in 0..8 {
                seen.add(Program::new(workers, seed).run(&mut load(seed), 60 * SECOND));
            }
            let (part, worst) = (seen.part(), seen.spells.iter().max().copied().unwrap_or(0));
            let mean = f64::from(seen.spells.iter().sum::<u32>()) / seen.spells.len().max(1) as f64;
            let seen = format!("{name}, {workers} workers: {part:.4} of the time, {mean:.1} ticks, at worst {worst}");
            assert!(part < PART, "{seen}");
            assert!(mean < MEAN && worst < WORST, "{seen}");
        }
    }
}

/// Catches: tries and checks at regular times. A load with the right period would fall into step with them.
#[test]
fn no_period_falls_into_step_with_the_tries() {
    for workers in WORKERS {
        let mut all = LimitedTicks::default();
        for half in 1..=20 {
            for factor in [1.3, 2.0, 3.0] {
                let mut program = Program::new(workers, u64::from(half));
                let phase = program.random.below(200) as u32;
                let seen = program.run(&mut alternating(half, factor, phase), 60 * SECOND);
                assert!(seen.part() < 5.0 * PART, "{half} ticks, {factor}, {workers} workers: {}", seen.part());
                all.add(seen);
            }
        }
        assert!(all.part() < PART, "{workers} workers: {}", all.part());
    }
}

/// Numbers of threads, each with the nanoseconds per operation.
type Measured = [(usize, f64); 3];

/// From `benches/NOTES.md`, *How many threads are awake*: the number of events in an operation, and its nanoseconds
/// with one thread, with four (or the limit that was found, if that was better), and with sixteen.
const RECORDED: [(&str, f64, Measured); 5] = [
    ("dictionary", 2.0, [(1, 340.0), (4, 304.0), (16, 563.0)]),
    ("philosophers", 4.0, [(1, 201.0), (4, 221.0), (16, 1_004.0)]),
    ("chameneos", 4.0, [(1, 384.0), (4, 216.0), (16, 549.0)]),
    ("fan_in", 1.0, [(1, 26.0), (4, 38.0), (16, 61.0)]),
    ("fan_out", 1.0, [(1, 62.0), (4, 63.0), (16, 209.0)]),
];

/// Catches: a limit that is not found, or not kept, where measurements show a gain.
#[test]
fn programs_that_gain_by_a_limit_have_one() {
    for (name, events_each, mut measured) in RECORDED {
        measured.iter_mut().for_each(|(_, took)| *took /= events_each);
        let mut seen = LimitedTicks::default();
        for seed in 0..20 {
            seen.add(Program::new(16, seed).run(&mut talk(&measured), 10 * SECOND));
        }
        let best = measured.iter().map(|&(_, took)| took).fold(f64::MAX, f64::min);
        let gain = (measured[2].1 - TICK_NS * f64::from(seen.ticks) / seen.events) / (measured[2].1 - best);
        let part = seen.part();
        assert!(part > 0.9 && gain > 0.8, "{name}: {gain:.3} of the gain, limited for {part:.3} of the time");
    }
    for workers in WORKERS {
        let seen = Program::new(workers, 1).run(&mut talk(&chat(workers)), 60 * SECOND);
        assert!(seen.part() > 0.9, "{workers} workers: limited for {:.3} of the time", seen.part());
    }
}

/// Catches: a limit that takes too long to be found again, so a changing program has it only when it is of no use.
#[test]
fn a_program_that_changes_has_a_limit_while_it_gains() {
    for workers in WORKERS {
        let (mut chats, mut others) = (LimitedTicks::default(), LimitedTicks::default());
        for seed in 0..8 {
            let mut program = Program::new(workers, seed);
            for _ in 0..20 {
                let ticks = SECOND + program.random.below(4 * SECOND as usize) as u32;
                chats.add(program.run(&mut talk(&chat(workers)), ticks));
                others.add(program.run(&mut apart(12_000.0, false), ticks));
            }
        }
        let (chats, others) = (chats.part(), others.part());
        assert!(chats > 0.45 && others < PART, "{workers} workers: {chats:.3} of the chat, {others:.3} of the rest");
    }
}
