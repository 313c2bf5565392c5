//! The outside world as the engine sees it: clock, randomness and the files of a data directory.
//!
//! Nothing below the server asks the operating system directly, so a test can replace the world and a seed replays a
//! run (principle 6).

pub mod directory_files;
pub mod files;
#[cfg(test)]
pub mod simulated;

pub use directory_files::DirectoryFiles;
pub use files::{FileReader, FileWriter, Files, whereabouts};

use std::time::{SystemTime, UNIX_EPOCH};

/// Clock and randomness of a store.
pub trait Env: Send {
    /// Wall clock, microseconds since 1970-01-01 UTC.
    fn now_us(&mut self) -> i64;
    /// A clock that never goes back, nanoseconds since some start.
    fn monotonic_ns(&mut self) -> u64;
    /// 64 random bits.
    fn random_u64(&mut self) -> u64;
    /// Notes a line for whoever runs the store; `level` is from 0 (debug) to 3 (warning).
    fn log(&mut self, level: u8, message: &str) {
        let _ = (level, message);
    }
}

/// The real world.
pub struct SystemEnv {
    start_ns: u64,
    random: Xoshiro,
}

impl SystemEnv {
    /// An environment seeded by the operating system.
    pub fn new() -> Self {
        SystemEnv { start_ns: monotonic_ns(), random: Xoshiro::from_seed(os_random()) }
    }
}

/// What the system's steady clock shows. `Instant` reads the same one, but four times as many instructions go into
/// taking two of its times apart and from each other, and every request reads it.
#[inline]
fn monotonic_ns() -> u64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `now` is a timespec that may be written. The call fails only for an unknown clock, and this one exists on
    // every Linux; were it to, zero would be shown.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut now) };
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// Lets all other threads go before the calling one. Not for one that ever holds the baton: who waits for it would have to
/// wait for all of them, too.
pub fn go_last() {
    // SAFETY: no memory is passed. On Linux the value is the calling thread's own; a refusal changes nothing.
    unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, 19) };
}

impl Default for SystemEnv {
    fn default() -> Self {
        Self::new()
    }
}

impl Env for SystemEnv {
    fn now_us(&mut self) -> i64 {
        // A clock before 1970 reads as zero: no key can expire then, and nothing else depends on it.
        SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_micros() as i64)
    }
    fn monotonic_ns(&mut self) -> u64 {
        monotonic_ns() - self.start_ns
    }
    fn random_u64(&mut self) -> u64 {
        self.random.next()
    }
    fn log(&mut self, level: u8, message: &str) {
        // Notices and warnings, as Redis shows by default.
        if level >= 2 {
            eprintln!("peryton: {message}");
        }
    }
}

/// A world for tests: time stands still until it is moved, and a seed fixes all randomness.
pub struct TestEnv {
    /// Wall clock, microseconds.
    pub now_us: i64,
    random: Xoshiro,
}

impl TestEnv {
    /// A world at 2026-01-01 whose randomness follows `seed`.
    pub fn new(seed: u64) -> Self {
        TestEnv { now_us: 1_767_225_600_000_000, random: Xoshiro::from_seed(seed) }
    }
}

impl Env for TestEnv {
    fn now_us(&mut self) -> i64 {
        self.now_us
    }
    fn monotonic_ns(&mut self) -> u64 {
        (self.now_us as u64).wrapping_mul(1000)
    }
    fn random_u64(&mut self) -> u64 {
        self.random.next()
    }
}

/// xoshiro256**: small, fast and good enough for sampling; not for secrets.
#[derive(Clone, Debug)]
pub struct Xoshiro {
    state: [u64; 4],
}

impl Xoshiro {
    /// A generator whose sequence `seed` fixes.
    pub fn from_seed(seed: u64) -> Self {
        // splitmix64 spreads a poor seed over the state, which must not be all zero.
        let mut z = seed;
        let state = std::array::from_fn(|_| {
            z = z.wrapping_add(0x9E37_79B9_7F4A_7C15);
            let mut x = z;
            x = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
            x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
            x ^ (x >> 31)
        });
        Xoshiro { state }
    }

    /// The next 64 bits.
    #[allow(clippy::should_implement_trait)] // an endless source, not an iterator
    pub fn next(&mut self) -> u64 {
        let s = &mut self.state;
        let result = s[1].wrapping_mul(5).rotate_left(7).wrapping_mul(9);
        let t = s[1] << 17;
        s[2] ^= s[0];
        s[3] ^= s[1];
        s[1] ^= s[2];
        s[0] ^= s[3];
        s[2] ^= t;
        s[3] = s[3].rotate_left(45);
        result
    }

    /// A number below `bound` (which must not be 0), with a bias too small to matter for sampling.
    pub fn below(&mut self, bound: u64) -> u64 {
        ((self.next() as u128 * bound as u128) >> 64) as u64
    }
}

/// 64 random bits from the operating system.
pub fn os_random() -> u64 {
    use std::hash::{BuildHasher, Hasher};
    // RandomState is seeded by the operating system once per thread and stepped at each call.
    std::collections::hash_map::RandomState::new().build_hasher().finish()
}
