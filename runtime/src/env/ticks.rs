//! A clock for the recorder, which reads it several times per message: the processor's cycle counter where it runs at
//! one rate on all cores, and the system's clock elsewhere.
//!
//! A recording reads both clocks at its beginning and at its end, and converts the ticks in between proportionally.

use super::clock::instant_now;
use std::time::Instant;

/// The clock that ticks are read from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TickSource {
    /// The cycle counter.
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    Cycles,
    /// Nanoseconds of the system's clock since this moment.
    System(Instant),
}

impl TickSource {
    /// Returns the cheapest source that gives comparable readings on all cores.
    pub(crate) fn choose() -> Self {
        #[cfg(all(target_arch = "x86_64", not(miri)))]
        if has_invariant_counter() {
            return Self::Cycles;
        }
        Self::System(instant_now())
    }

    #[inline(always)]
    pub(crate) fn read(self) -> u64 {
        match self {
            // SAFETY: reads a counter that every processor of this architecture has.
            #[cfg(all(target_arch = "x86_64", not(miri)))]
            Self::Cycles => unsafe { std::arch::x86_64::_rdtsc() },
            Self::System(origin) => instant_now().saturating_duration_since(origin).as_nanos() as u64,
        }
    }
}

/// Returns whether the counter runs at the same rate whatever the frequency and the sleep state of a core.
#[cfg(all(target_arch = "x86_64", not(miri)))]
fn has_invariant_counter() -> bool {
    const HIGHEST: u32 = 0x8000_0000;
    const POWER: u32 = 0x8000_0007;
    const INVARIANT: u32 = 1 << 8;
    let cpuid = |leaf| {
        // SAFETY: every processor of this architecture has the instruction.
        #[allow(unused_unsafe, reason = "unsafe until Rust 1.94")]
        unsafe {
            std::arch::x86_64::__cpuid(leaf)
        }
    };
    cpuid(HIGHEST).eax >= POWER && cpuid(POWER).edx & INVARIANT != 0
}

/// One reading of both clocks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TickMark {
    pub(crate) ticks: u64,
    pub(crate) instant: Instant,
}

impl TickMark {
    pub(crate) fn now(source: TickSource) -> Self {
        Self { ticks: source.read(), instant: instant_now() }
    }

    /// Converts the reading `ticks` to the number of nanoseconds since this mark, at the rate between this mark and
    /// `end`. Returns zero if the reading was made before this mark.
    pub(crate) fn nanoseconds(&self, end: &Self, ticks: u64) -> u64 {
        let (run, since) = (end.ticks.saturating_sub(self.ticks), ticks.saturating_sub(self.ticks));
        let took = end.instant.saturating_duration_since(self.instant).as_nanos();
        u128::from(since).saturating_mul(took).checked_div(run.into()).map_or(0, |result| result as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn ticks_are_converted_in_proportion_and_never_below_zero() {
        let instant = instant_now();
        let begin = TickMark { ticks: 1_000, instant };
        let end = TickMark { ticks: 4_000, instant: instant + Duration::from_nanos(1_000) };
        assert_eq!(
            [500, 1_000, 2_500, 4_000, 7_000].map(|ticks| begin.nanoseconds(&end, ticks)),
            [0, 0, 500, 1_000, 2_000]
        );
        assert_eq!(begin.nanoseconds(&begin, 5_000), 0, "no time has passed by which to convert");
    }
}
