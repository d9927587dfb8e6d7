//! The only source of time: every reading comes from here, so that a simulator can replace it.
//!
//! There are two kinds of time. The system's time, from [`instant_now`], limits the waits of threads. Processes see the
//! time of the host whose code the thread runs, from [`Moment::now`]. The two differ only if the host has a virtual
//! clock (see `time/virtual_clock`). That clock is [used](use_clock) by the threads of the host, and by any other
//! thread while it starts a process of the host or fires one of its timers.

#[cfg(all(target_arch = "x86_64", not(miri)))]
use super::cycles;
use crate::sync::{AtomicU64, Ordering};
use std::cell::Cell;
use std::num::NonZeroU64;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// A point in time: nanoseconds since shortly before the program first read the clock. It takes eight bytes, and so
/// does its `Option`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Moment(NonZeroU64);

impl Moment {
    /// Later than any other moment; never reached.
    pub(crate) const NEVER: Self = Self(NonZeroU64::MAX);
    /// The last moment that a clock can reach. It precedes [`NEVER`](Self::NEVER), because timers that are never due
    /// would fire at that moment.
    pub(crate) const LAST: Self = Self(NonZeroU64::new(u64::MAX - 1).expect("not zero"));

    /// Returns the moment `days` days after the origin.
    #[cfg(feature = "test")]
    pub(crate) const fn of_days(days: u64) -> Self {
        match NonZeroU64::new(days * 24 * 3600 * 1_000_000_000) {
            Some(nanoseconds) => Self(nanoseconds),
            None => Self(NonZeroU64::MIN),
        }
    }

    pub(crate) fn nanoseconds(self) -> u64 {
        self.0.get()
    }

    pub(crate) fn of_nanoseconds(nanoseconds: u64) -> Self {
        Self::from_nanoseconds(nanoseconds.into())
    }

    fn from_nanoseconds(nanoseconds: u128) -> Self {
        let nanoseconds = u64::try_from(nanoseconds).unwrap_or(u64::MAX).max(1);
        NonZeroU64::new(nanoseconds).map_or(Self::NEVER, Self)
    }

    /// Returns the current moment for the host whose code the thread runs. Without a virtual clock, this reads the
    /// system's clock: 23 ns on the machine that the book uses.
    pub(crate) fn now() -> Self {
        Self::now_by(CLOCK.get())
    }

    /// Returns the current moment according to the given clock, or to the system's if there is none.
    #[inline]
    pub(crate) fn now_by(clock_override: ClockOverride) -> Self {
        match clock_override {
            None => Self::from_instant(instant_now()),
            Some(clock_override) => clock_override.load(),
        }
    }

    /// Like [`about_now`](Self::about_now), for a thread that may have slept since it last read the clock.
    pub(crate) fn now_after_rest() -> Self {
        forget_now();
        Self::about_now()
    }

    pub(crate) fn instant(self) -> Instant {
        let since = Duration::from_nanos(self.0.get());
        // Never overflows: no system clock has a smaller range than a `Moment`.
        origin().checked_add(since).unwrap_or_else(instant_now)
    }

    /// Returns the current moment or one shortly before, for frequent use where it need not be exact. If the processor
    /// has a cycle counter, the cost is one read of that counter (7 ns). The system's clock is then read again only
    /// after [`FRESH_CYCLES`]. Until then, the counter's progress is added to the last reading, at a rate measured
    /// between reads of the clock. A thread that has slept discards its last read ([`forget_now`]) if the counter may
    /// have stood still meanwhile.
    #[inline]
    pub(crate) fn about_now() -> Self {
        #[cfg(all(target_arch = "x86_64", not(miri)))]
        {
            let cycles = cycles::read();
            READ.with(|last| {
                let read = last.get();
                let since = cycles.wrapping_sub(read.cycles);
                if since < FRESH_CYCLES { read.after(since) } else { Read::anew() }
            })
        }
        #[cfg(any(not(target_arch = "x86_64"), miri))]
        Self::now()
    }

    #[inline]
    pub(crate) fn from_instant(instant: Instant) -> Self {
        Self::from_nanoseconds(instant.saturating_duration_since(origin()).as_nanos())
    }

    /// Adds a duration. Returns [`Moment::NEVER`] if the result cannot be represented (584 years).
    #[inline]
    pub(crate) fn after(self, duration: Duration) -> Self {
        let seconds = duration.as_secs().checked_mul(1_000_000_000);
        let nanoseconds = seconds.and_then(|seconds| seconds.checked_add(duration.subsec_nanos().into()));
        nanoseconds.and_then(|nanoseconds| self.0.checked_add(nanoseconds)).map_or(Self::NEVER, Self)
    }

    /// Returns the first moment that is not before `self` and is a multiple of `period` after `start`; `period` is not
    /// zero.
    pub(crate) fn next_of(self, start: Self, period: Duration) -> Self {
        let period = period.as_nanos().max(1);
        let periods = self.since(start).as_nanos().div_ceil(period);
        Self::from_nanoseconds(u128::from(start.0.get()).saturating_add(periods.saturating_mul(period)))
    }

    /// Returns the time since `earlier`, or zero if that moment is not earlier.
    pub(crate) fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.get().saturating_sub(earlier.0.get()))
    }
}

/// Number of cycles after which the clock is read again: 52 to 262 µs at 1 to 5 GHz.
#[cfg(all(target_arch = "x86_64", not(miri)))]
const FRESH_CYCLES: u64 = 1 << 18;

/// A thread's last read: the counter, the clock, and the nanoseconds per 2^20 cycles, rounded down (zero if unknown).
#[cfg(all(target_arch = "x86_64", not(miri)))]
#[derive(Clone, Copy)]
struct Read {
    cycles: u64,
    moment: Moment,
    pace: u64,
}

#[cfg(all(target_arch = "x86_64", not(miri)))]
thread_local! {
    static READ: Cell<Read> = const { Cell::new(Read::NOTHING) };
}

#[cfg(all(target_arch = "x86_64", not(miri)))]
impl Read {
    const NOTHING: Self = Self { cycles: 0, moment: Moment::NEVER, pace: 0 };

    /// Returns the moment `cycles` cycles later; `cycles` is below [`FRESH_CYCLES`].
    fn after(self, cycles: u64) -> Moment {
        Moment(self.moment.0.saturating_add((cycles * self.pace) >> 20))
    }

    /// Reads the clock, and stores the reading.
    #[cold]
    #[inline(never)]
    fn anew() -> Moment {
        if let Some(clock_override) = CLOCK.get() {
            // The reading is not stored, because a virtual clock must be read each time.
            return clock_override.load();
        }
        let last = READ.get();
        // The clock is read before the counter: a thread that is preempted between the two reads then gets a moment in
        // the past, not one in the future.
        let moment = Moment::now();
        let cycles = cycles::read();
        let (went_on, took) = (cycles.wrapping_sub(last.cycles), moment.since(last.moment).as_nanos() as u64);
        // The rate is measured over at most one second, since a longer interval says less about the current one. It is
        // rounded down by a thousandth, and never exceeds the lowest rate seen, so that the result is never in the
        // future.
        let pace = match (took << 20).checked_div(went_on) {
            Some(pace) if took > 0 && took < 1_000_000_000 && went_on < 1 << 34 => {
                let pace = pace - pace.div_ceil(1_000);
                if last.pace == 0 { pace } else { pace.min(last.pace) }
            }
            _ => last.pace,
        };
        READ.set(Self { cycles, moment, pace });
        moment
    }
}

/// Discards the calling thread's last read, for a thread that has slept, unless the counter runs during sleep as the
/// clock does.
#[inline]
pub(crate) fn forget_now() {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    if !cycles::are_invariant() || crate::sync::simulated::here().is_some() {
        discard_read();
    }
}

#[inline]
fn discard_read() {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    READ.set(Read { pace: READ.get().pace, ..Read::NOTHING });
}

/// Returns the system's time or, in a simulation, that of the simulation.
#[inline]
pub(crate) fn instant_now() -> Instant {
    if let Some(simulator) = crate::sync::simulated::here() {
        return simulator.now();
    }
    Instant::now()
}

/// The time of a virtual clock, if there is one. Never freed, like the hosts that use it.
pub(crate) type ClockOverride = Option<&'static SharedMoment>;

thread_local! {
    static CLOCK: Cell<ClockOverride> = const { Cell::new(None) };
}

/// Sets the clock of the calling thread. Returns the previous one.
#[inline]
pub(crate) fn use_clock(clock_override: ClockOverride) -> ClockOverride {
    let before = CLOCK.replace(clock_override);
    if clock_override.is_some() != before.is_some() {
        // The last reading is from another clock.
        discard_read();
    }
    before
}

pub(crate) fn has_virtual_clock() -> bool {
    CLOCK.get().is_some()
}

pub(crate) fn with_clock<R>(clock_override: ClockOverride, body: impl FnOnce() -> R) -> R {
    struct RestoreClock(ClockOverride);
    impl Drop for RestoreClock {
        fn drop(&mut self) {
            use_clock(self.0);
        }
    }
    let _restore = RestoreClock(use_clock(clock_override));
    body()
}

fn origin() -> Instant {
    static ORIGIN: OnceLock<Instant> = OnceLock::new();
    *ORIGIN.get_or_init(Instant::now)
}

/// A moment shared between threads, such as the next due time of timers.
#[derive(Debug)]
pub(crate) struct SharedMoment(AtomicU64);

impl SharedMoment {
    pub(crate) const fn new(moment: Moment) -> Self {
        Self(AtomicU64::new(moment.0.get()))
    }

    pub(crate) fn load(&self) -> Moment {
        Moment(NonZeroU64::new(self.0.load(Ordering::SeqCst)).unwrap_or(NonZeroU64::MIN))
    }

    pub(crate) fn store(&self, moment: Moment) {
        self.0.store(moment.0.get(), Ordering::SeqCst);
    }

    /// Lowers the shared moment to `moment` if that is earlier. Returns whether it was.
    pub(crate) fn lower(&self, moment: Moment) -> bool {
        self.0.fetch_min(moment.0.get(), Ordering::SeqCst) > moment.0.get()
    }

    pub(crate) fn exchange(&self, old: Moment, new: Moment) -> bool {
        self.0.compare_exchange(old.0.get(), new.0.get(), Ordering::SeqCst, Ordering::SeqCst).is_ok()
    }
}

/// Identifies a timer. Never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TimerKey {
    pub(crate) place: usize,
    pub(crate) serial: u64,
}

/// A keeper of timers: a host, or the program's timekeeper.
pub(crate) trait TimeKeeper: Send + Sync {
    /// Performs `action` at `due`. Returns `None` if this keeper has no thread for timers.
    fn later(&'static self, due: Moment, action: Box<dyn FnOnce() + Send>) -> Option<TimerKey>;

    /// Like [`later`](Self::later), for an action that must follow the actions of the same `line` that are due earlier,
    /// as a message must follow earlier ones to its receiver.
    fn later_in_line(&'static self, line: u64, due: Moment, action: Box<dyn FnOnce() + Send>) -> Option<TimerKey> {
        let _ = line;
        self.later(due, action)
    }

    /// Cancels a timer. Returns whether it was pending.
    fn forget(&'static self, key: TimerKey) -> bool;

    /// Moves a timer to `due`. Returns whether it was pending.
    fn reset(&'static self, key: TimerKey, due: Moment) -> bool;

    fn is_pending(&'static self, key: TimerKey) -> bool;

    /// Returns the virtual clock of this keeper, if it has one.
    fn clock_override(&self) -> ClockOverride {
        None
    }
}

#[cfg(test)]
mod about_now_tests {
    use super::*;

    #[test]
    fn about_now_is_within_a_millisecond_of_now() {
        discard_read();
        for round in 0..200_000 {
            let (about, now) = (Moment::about_now(), Moment::now());
            // If the thread is preempted during its first read, the result may be slightly in the future.
            assert!(about.since(now) < Duration::from_millis(1), "{about:?} is after {now:?}");
            // If the thread is preempted between the two reads, the difference is larger. This is rare.
            if now.since(about) > Duration::from_millis(1) {
                assert!(Moment::now().since(Moment::about_now()) < Duration::from_secs(1), "in round {round}");
            }
            if round % 1_000 == 0 {
                discard_read();
            }
        }
    }
}
