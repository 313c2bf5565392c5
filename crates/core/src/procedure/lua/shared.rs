//! What the functions of one interpreter share: its memory, its host while a script runs, the state of `math.random`.

use super::heap::Heap;
use super::library::Loading;
use super::random::Random;
use crate::limits;
use crate::procedure::{Host, Watch};
use mlua_sys::lua_State;
use std::cell::Cell;
use std::ptr::NonNull;
use std::sync::Arc;

/// Shared by all functions of an interpreter, which find it through their thread's allocator.
pub struct Shared {
    /// Its memory.
    pub heap: Heap,
    /// The running script as others see it.
    pub watch: Arc<Watch>,
    /// RESP version of the replies that the running script gets.
    pub protocol: Cell<u8>,
    /// The state of `math.random`, which goes on from script to script as in Redis.
    pub random: Cell<Random>,
    /// Source and line where the error that ends the script was raised.
    pub error_place: Cell<Option<(String, i32)>>,
    /// Depth of Lua functions called back from Rust.
    pub callbacks: Cell<usize>,
    /// What the library that is being loaded has registered.
    pub loading: Cell<Option<Loading>>,
    /// When a library that is being loaded must be done, on the monotonic clock; 0: there is no such time.
    pub deadline_ns: Cell<u64>,
    /// The thread whose code has called out to the engine, which may call back a function.
    pub thread: Cell<Option<NonNull<lua_State>>>,
    /// Where on the machine's stack the outermost function runs, and how many run inside each other.
    ground: Cell<(usize, usize)>,
    host: Cell<Option<NonNull<dyn Host>>>,
}

/// About where on the machine's stack its caller is. Stacks grow down.
#[inline(always)]
fn here() -> usize {
    let mark = 0u8;
    std::hint::black_box(&raw const mark) as usize
}

impl Shared {
    /// For an interpreter whose runs `watch` shows.
    pub fn new(watch: Arc<Watch>) -> Self {
        Shared {
            heap: Heap::default(),
            watch,
            protocol: Cell::new(2),
            random: Cell::new(Random::default()),
            error_place: Cell::new(None),
            callbacks: Cell::new(0),
            loading: Cell::new(None),
            deadline_ns: Cell::new(0),
            thread: Cell::new(None),
            ground: Cell::new((0, 0)),
            host: Cell::new(None),
        }
    }

    /// Lends the host to the functions that are called while `run` runs.
    pub fn lend<R>(&self, host: &mut dyn Host, run: impl FnOnce() -> R) -> R {
        /// Takes the host back, whatever happens.
        struct Back<'a>(&'a Shared, (usize, usize));
        impl Drop for Back<'_> {
            fn drop(&mut self) {
                self.0.host.set(None);
                self.0.ground.set(self.1);
            }
        }
        let host = NonNull::from(host);
        // SAFETY: this changes the lifetime only. The pointer is gone from the cell before the borrow ends (`Back`).
        let host = unsafe { std::mem::transmute::<NonNull<dyn Host + '_>, NonNull<dyn Host + 'static>>(host) };
        self.host.set(Some(host));
        let (ground, level) = self.ground.get();
        let _back = Back(self, (ground, level));
        self.ground.set((if level == 0 { here() } else { ground }, level + 1));
        run()
    }

    /// Has the running function taken more of the machine's stack than it may? Lua's own code takes none; what calls back
    /// Lua code from other code does, and coroutines do that are resumed inside each other.
    #[inline(never)]
    pub fn is_deep(&self) -> bool {
        let (ground, level) = self.ground.get();
        ground.saturating_sub(here()) > limits::SCRIPT_STACK_BYTES_MAX * level
    }

    /// Must what runs end, because somebody killed it or its time is over?
    #[inline]
    pub fn must_end(&self) -> bool {
        self.watch.is_killed() || self.deadline_ns.get() != 0 && self.is_late()
    }

    #[cold]
    fn is_late(&self) -> bool {
        self.with_host(|host| host.monotonic_ns()).is_some_and(|now_ns| now_ns > self.deadline_ns.get())
    }

    /// Gives the host to a function that calls back no Lua code; see [`super::stack::Stack::with_host`].
    #[inline]
    pub fn with_host<R>(&self, use_it: impl FnOnce(&mut dyn Host) -> R) -> Option<R> {
        let mut host = self.host.take()?;
        // SAFETY: `lend` holds the unique borrow for as long as the pointer is in the cell, and as it is taken out nobody
        // else can reach the host meanwhile.
        let result = use_it(unsafe { host.as_mut() });
        self.host.set(Some(host));
        Some(result)
    }
}
