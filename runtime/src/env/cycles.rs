//! The cycle counter of the processor.

use crate::sync::OnceLock;

/// Returns the value of the counter. Costs 7 ns.
#[inline(always)]
pub(crate) fn read() -> u64 {
    // SAFETY: reads a counter that every processor of this architecture has.
    unsafe { std::arch::x86_64::_rdtsc() }
}

/// Returns whether the counter runs at the same rate whatever the frequency and the sleep state of a core, and so is
/// comparable between cores.
#[inline]
pub(crate) fn are_invariant() -> bool {
    // Asked once: on a virtual machine, the question takes microseconds.
    static INVARIANT: OnceLock<bool> = OnceLock::new();
    *INVARIANT.get_or_init(|| {
        const HIGHEST: u32 = 0x8000_0000;
        const POWER: u32 = 0x8000_0007;
        const IS_INVARIANT: u32 = 1 << 8;
        let cpuid = |leaf| {
            // SAFETY: every processor of this architecture has the instruction.
            #[allow(unused_unsafe, reason = "unsafe until Rust 1.94")]
            unsafe {
                std::arch::x86_64::__cpuid(leaf)
            }
        };
        cpuid(HIGHEST).eax >= POWER && cpuid(POWER).edx & IS_INVARIANT != 0
    })
}
