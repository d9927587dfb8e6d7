//! The one clock: every time that the runtime reads comes from here, so that a simulator can stand in.
//!
//! Two times are told. That of the system, which [`instant_now`] gives, is for waiting on a thread's stack, whatever
//! code waits. That of the host whose code the thread runs, which [`Moment::now`] gives, is for all that processes see
//! of time. They are one but where a host goes by a time that a test moves (see `manual`): its threads, and the thread
//! that starts a process or fires a timer there, [go by](go_by) that one.

use crate::sync::{AtomicU64, Ordering};
use std::cell::Cell;
use std::num::NonZeroU64;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// A point in time: nanoseconds since shortly before the program first asked. Eight bytes, as its `Option`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Moment(NonZeroU64);

impl Moment {
    /// Later than any other: what is due then never comes.
    pub(crate) const NEVER: Self = Self(NonZeroU64::MAX);
    /// The last that a clock comes to: at [`NEVER`](Self::NEVER) all that is due never would be due.
    pub(crate) const LAST: Self = Self(NonZeroU64::new(u64::MAX - 1).expect("not zero"));

    /// Since shortly before the program first asked.
    pub(crate) fn nanoseconds(self) -> u64 {
        self.0.get()
    }

    /// The opposite.
    pub(crate) fn of_nanoseconds(nanoseconds: u64) -> Self {
        Self::from_nanoseconds(nanoseconds.into())
    }

    fn from_nanoseconds(nanoseconds: u128) -> Self {
        let nanoseconds = u64::try_from(nanoseconds).unwrap_or(u64::MAX).max(1);
        NonZeroU64::new(nanoseconds).map_or(Self::NEVER, Self)
    }

    /// Now, for the host whose code the thread runs. Costs a read of the system's clock, 23 ns on the machine of the
    /// book.
    pub(crate) fn now() -> Self {
        Self::now_by(TOLD.get())
    }

    /// Now by the time that is `told`, or by the system's.
    #[inline]
    pub(crate) fn now_by(told: ClockOverride) -> Self {
        match told {
            None => Self::from_instant(instant_now()),
            Some(told) => told.load(),
        }
    }

    /// In the form that users know.
    pub(crate) fn instant(self) -> Instant {
        let since = Duration::from_nanos(self.0.get());
        // No clock of a system counts fewer years than that.
        origin().checked_add(since).unwrap_or_else(instant_now)
    }

    /// Now, or shortly before: for what is asked often and need not be exact. It costs a read of the processor's
    /// counter of cycles (7 ns) where there is one, since the system's clock is read anew only when that has gone on by
    /// [`FRESH_CYCLES`]; until then the time is the last one read, and what the counter has gone on by since, at the
    /// pace that it had between two reads of the clock. A thread that has slept forgets what it read ([`forget_now`]),
    /// because the counter of some processors sleeps too.
    #[inline]
    pub(crate) fn about_now() -> Self {
        #[cfg(target_arch = "x86_64")]
        {
            // SAFETY: reads a counter that every processor of this architecture has.
            let cycles = unsafe { std::arch::x86_64::_rdtsc() };
            let read = READ.get();
            let since = cycles.wrapping_sub(read.cycles);
            if since < FRESH_CYCLES { read.after(since) } else { Read::anew(read).moment }
        }
        #[cfg(not(target_arch = "x86_64"))]
        Self::now()
    }

    #[inline]
    pub(crate) fn from_instant(instant: Instant) -> Self {
        Self::from_nanoseconds(instant.saturating_duration_since(origin()).as_nanos())
    }

    /// That much later; [`Moment::NEVER`] if it is beyond what can be told (584 years).
    pub(crate) fn after(self, duration: Duration) -> Self {
        Self::from_nanoseconds(u128::from(self.0.get()).saturating_add(duration.as_nanos()))
    }

    /// The first moment not before this that is some whole periods after `start`; no period is zero.
    pub(crate) fn next_of(self, start: Self, period: Duration) -> Self {
        let period = period.as_nanos().max(1);
        let periods = self.since(start).as_nanos().div_ceil(period);
        Self::from_nanoseconds(u128::from(start.0.get()).saturating_add(periods.saturating_mul(period)))
    }

    /// Returns how long from `earlier` to this; zero if it is not later.
    pub(crate) fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.get().saturating_sub(earlier.0.get()))
    }
}

/// How far the processor's counter may go on until the clock is read anew: 52 to 262 µs at 1 to 5 GHz.
#[cfg(target_arch = "x86_64")]
const FRESH_CYCLES: u64 = 1 << 18;

/// What a thread read last: the counter, the clock, and how many nanoseconds 2^20 cycles take at least (zero: not
/// known).
#[cfg(target_arch = "x86_64")]
#[derive(Clone, Copy)]
struct Read {
    cycles: u64,
    moment: Moment,
    pace: u64,
}

#[cfg(target_arch = "x86_64")]
thread_local! {
    static READ: Cell<Read> = const { Cell::new(Read::NOTHING) };
}

#[cfg(target_arch = "x86_64")]
impl Read {
    const NOTHING: Self = Self { cycles: 0, moment: Moment::NEVER, pace: 0 };

    /// So many cycles later, fewer than [`FRESH_CYCLES`].
    fn after(self, cycles: u64) -> Moment {
        Moment(self.moment.0.saturating_add((cycles * self.pace) >> 20))
    }

    #[cold]
    fn anew(last: Self) -> Self {
        if let Some(told) = TOLD.get() {
            // Not kept, so that it is asked again each time.
            return Self { moment: told.load(), ..Self::NOTHING };
        }
        // In this order: a thread that is put aside between the two has an old time, not one that is still to come.
        let moment = Moment::now();
        // SAFETY: as in `about_now`.
        let cycles = unsafe { std::arch::x86_64::_rdtsc() };
        let (went_on, took) = (cycles.wrapping_sub(last.cycles), moment.since(last.moment).as_nanos() as u64);
        // Over a second at most: what the counter did in a longer time says less of its pace now. Rounded down by a
        // thousandth, and the slowest that was seen, so that a time is not told before it has come.
        let pace = match (took << 20).checked_div(went_on) {
            Some(pace) if took > 0 && took < 1_000_000_000 && went_on < 1 << 34 => {
                let pace = pace - pace.div_ceil(1_000);
                if last.pace == 0 { pace } else { pace.min(last.pace) }
            }
            _ => last.pace,
        };
        let read = Self { cycles, moment, pace };
        READ.set(read);
        read
    }
}

/// The calling thread has slept.
#[inline]
pub(crate) fn forget_now() {
    #[cfg(target_arch = "x86_64")]
    READ.set(Read { pace: READ.get().pace, ..Read::NOTHING });
}

/// The time that the system tells.
#[inline]
pub(crate) fn instant_now() -> Instant {
    Instant::now()
}

/// A time that is told in the place of the system's, if one is. Never freed, as the hosts that go by it.
pub(crate) type ClockOverride = Option<&'static SharedMoment>;

thread_local! {
    static TOLD: Cell<ClockOverride> = const { Cell::new(None) };
}

/// From here on the calling thread goes by that time. Returns the one before.
#[inline]
pub(crate) fn go_by(told: ClockOverride) -> ClockOverride {
    let before = TOLD.replace(told);
    if told.is_some() != before.is_some() {
        // What was read last is of the other time.
        forget_now();
    }
    before
}

/// Returns whether the calling thread goes by another time than the system's.
pub(crate) fn is_told() -> bool {
    TOLD.get().is_some()
}

/// Runs `body` by that time.
pub(crate) fn while_going_by<R>(told: ClockOverride, body: impl FnOnce() -> R) -> R {
    struct RestoreClock(ClockOverride);
    impl Drop for RestoreClock {
        fn drop(&mut self) {
            go_by(self.0);
        }
    }
    let _restore = RestoreClock(go_by(told));
    body()
}

fn origin() -> Instant {
    static ORIGIN: OnceLock<Instant> = OnceLock::new();
    *ORIGIN.get_or_init(Instant::now)
}

/// A moment that threads share, such as the next one that a timer is due at.
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

    /// Makes it `moment` if that is earlier. Returns whether it was.
    pub(crate) fn lower(&self, moment: Moment) -> bool {
        self.0.fetch_min(moment.0.get(), Ordering::SeqCst) > moment.0.get()
    }

    /// Makes it `new` if it is `old`. Returns whether it was.
    pub(crate) fn exchange(&self, old: Moment, new: Moment) -> bool {
        self.0.compare_exchange(old.0.get(), new.0.get(), Ordering::SeqCst, Ordering::SeqCst).is_ok()
    }
}

/// Names a timer that was set. Never used again for another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TimerKey {
    pub(crate) place: usize,
    pub(crate) serial: u64,
}

/// Something that does things later: a host, or the program's timekeeper.
pub(crate) trait TimeKeeper: Send + Sync {
    /// Does `action` when `due`. `None` if no thread keeps the time here.
    fn later(&'static self, due: Moment, action: Box<dyn FnOnce() + Send>) -> Option<TimerKey>;

    /// Does not do it, if it has not been done: gives whether that is so.
    fn forget(&'static self, key: TimerKey) -> bool;

    /// Does it at `due` instead, if it has not been done: gives whether that is so.
    fn reset(&'static self, key: TimerKey, due: Moment) -> bool;

    /// Returns whether it is still to be done.
    fn is_pending(&'static self, key: TimerKey) -> bool;

    /// The time that is told there, if it is not the system's.
    fn told(&self) -> ClockOverride {
        None
    }
}

#[cfg(test)]
mod about_now_tests {
    use super::*;

    #[test]
    fn about_now_is_within_a_millisecond_of_now() {
        forget_now();
        for round in 0..200_000 {
            let (about, now) = (Moment::about_now(), Moment::now());
            // By a thread that was put aside while it read the first time it may be told a little early.
            assert!(about.since(now) < Duration::from_millis(1), "{about:?} is after {now:?}");
            // A thread that is put aside between the two reads sees more, which happens seldom.
            if now.since(about) > Duration::from_millis(1) {
                assert!(Moment::now().since(Moment::about_now()) < Duration::from_secs(1), "in round {round}");
            }
            if round % 1_000 == 0 {
                forget_now();
            }
        }
    }
}
