//! Asks the processor to load a cache line ahead of its use.

/// Starts loading the line at `p` into the nearest cache. Any address will do: a prefetch never faults.
#[inline(always)]
pub fn prefetch<T>(p: *const T) {
    // SAFETY: a prefetch is a hint; it neither reads a value nor faults, whatever the address.
    #[cfg(target_arch = "x86_64")]
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(p.cast());
    }
    // SAFETY: as above.
    #[cfg(target_arch = "aarch64")]
    unsafe {
        std::arch::asm!("prfm pldl1keep, [{0}]", in(reg) p, options(nostack, readonly, preserves_flags));
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    let _ = p;
}
