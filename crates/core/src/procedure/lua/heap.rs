//! The interpreter's memory: counted, limited, and never refused to Rust.
//!
//! Lua reports a refused allocation by unwinding, which must not pass through Rust frames. So an allocation is refused
//! only while Lua's own code runs; while ours runs the limit may be exceeded for a moment, and whoever lets much in
//! asks first ([`Heap::has_room`]).
//!
//! Small blocks come from an arena of a fixed size with a list of free blocks for each size: most scripts live and die
//! in there, in memory that the processor's cache still holds. Past the arena, and for larger blocks, the process's
//! allocator serves.

use std::alloc::{self, Layout};
use std::cell::Cell;
use std::ffi::c_void;
use std::ptr;

/// Alignment that LuaJIT relies on.
const ALIGN: usize = 8;
/// Sizes in the arena are multiples of this.
const GRAIN: usize = 16;
/// Largest block in the arena.
const SMALL_BYTES_MAX: usize = 256;
/// Size of the arena.
const ARENA_BYTES: usize = 512 << 10;

/// Memory of one interpreter.
pub struct Heap {
    used: Cell<usize>,
    limit: Cell<usize>,
    /// True while Lua's own code runs.
    strict: Cell<bool>,
    /// The arena; null until something small is allocated.
    arena: Cell<*mut u8>,
    /// Bytes handed out from its start.
    arena_used: Cell<usize>,
    /// Free blocks by size; each begins with the address of the next.
    free: [Cell<*mut u8>; SMALL_BYTES_MAX / GRAIN + 1],
}

impl Default for Heap {
    fn default() -> Self {
        Heap {
            used: Cell::new(0),
            limit: Cell::new(0),
            strict: Cell::new(false),
            arena: Cell::new(ptr::null_mut()),
            arena_used: Cell::new(0),
            free: [const { Cell::new(ptr::null_mut()) }; SMALL_BYTES_MAX / GRAIN + 1],
        }
    }
}

/// The layout of a block from the process's allocator.
fn layout(bytes: usize) -> Layout {
    // SAFETY: the alignment is a power of two, and sizes past isize::MAX are refused before this is called.
    unsafe { Layout::from_size_align_unchecked(bytes, ALIGN) }
}

impl Heap {
    /// Bytes allocated.
    pub fn used(&self) -> usize {
        self.used.get()
    }

    /// Sets the most bytes that Lua may allocate.
    #[inline]
    pub fn set_limit(&self, bytes: usize) {
        self.limit.set(bytes);
    }

    /// The most bytes that Lua may allocate.
    pub fn limit(&self) -> usize {
        self.limit.get()
    }

    /// True when `bytes` more stay within the limit.
    #[inline]
    pub fn has_room(&self, bytes: usize) -> bool {
        self.used.get().saturating_add(bytes) <= self.limit.get()
    }

    /// Notes whether Lua's code or ours runs from now on; gives what ran before.
    #[inline]
    pub fn set_strict(&self, strict: bool) -> bool {
        self.strict.replace(strict)
    }

    /// Lua's allocation function.
    ///
    /// # Safety
    /// As for C's `realloc`: `pointer` is null or came from this function with `old` bytes.
    #[inline]
    pub unsafe fn reallocate(&self, pointer: *mut c_void, old: usize, new: usize) -> *mut c_void {
        let pointer = pointer.cast::<u8>();
        let old = if pointer.is_null() { 0 } else { old };
        let used = self.used.get() - old + new;
        if new > old && (new > isize::MAX as usize || self.strict.get() && used > self.limit.get()) {
            return ptr::null_mut();
        }
        let moved = match (old, new) {
            (0, _) => self.allocate(new),
            // SAFETY: the caller's promise.
            (_, 0) => unsafe { self.release(pointer, old) },
            // SAFETY: the caller's promise.
            _ => unsafe { self.resize(pointer, old, new) },
        };
        if new == 0 || !moved.is_null() {
            self.used.set(used);
        } else if !self.strict.get() {
            alloc::handle_alloc_error(layout(new));
        }
        moved.cast()
    }

    /// A block of `bytes`; null for none, and when there is no memory.
    #[inline]
    fn allocate(&self, bytes: usize) -> *mut u8 {
        if bytes == 0 || bytes > SMALL_BYTES_MAX {
            return self.allocate_large(bytes);
        }
        let free = &self.free[bytes.div_ceil(GRAIN)];
        let block = free.get();
        if block.is_null() {
            return self.carve(bytes.next_multiple_of(GRAIN));
        }
        // SAFETY: a block in a list is ours, aligned, and begins with the address of the next.
        free.set(unsafe { block.cast::<*mut u8>().read() });
        block
    }

    #[cold]
    fn allocate_large(&self, bytes: usize) -> *mut u8 {
        // SAFETY: the size is not zero.
        if bytes == 0 { ptr::null_mut() } else { unsafe { alloc::alloc(layout(bytes)) } }
    }

    /// Takes a block from the untouched end of the arena, or, when that is used up, from the process's allocator.
    #[cold]
    fn carve(&self, bytes: usize) -> *mut u8 {
        if self.arena.get().is_null() {
            // SAFETY: the size is not zero.
            self.arena.set(unsafe { alloc::alloc(layout(ARENA_BYTES)) });
        }
        let at = self.arena_used.get();
        if self.arena.get().is_null() || at + bytes > ARENA_BYTES {
            return self.allocate_large(bytes);
        }
        self.arena_used.set(at + bytes);
        // SAFETY: the block ends within the arena.
        unsafe { self.arena.get().add(at) }
    }

    /// Gives a block of `bytes` back; returns null, as Lua expects.
    ///
    /// # Safety
    /// The block came from [`Heap::allocate`] with that size.
    #[inline]
    unsafe fn release(&self, block: *mut u8, bytes: usize) -> *mut u8 {
        if bytes <= SMALL_BYTES_MAX && self.is_in_arena(block) {
            let free = &self.free[bytes.div_ceil(GRAIN)];
            // SAFETY: the block is ours again and has room for an address.
            unsafe { block.cast::<*mut u8>().write(free.get()) };
            free.set(block);
        } else {
            // SAFETY: the block came from the process's allocator.
            unsafe { alloc::dealloc(block, layout(self.rounded(bytes))) };
        }
        ptr::null_mut()
    }

    /// The size by which the process's allocator knows a block.
    fn rounded(&self, bytes: usize) -> usize {
        if bytes <= SMALL_BYTES_MAX { bytes.next_multiple_of(GRAIN) } else { bytes }
    }

    fn is_in_arena(&self, block: *mut u8) -> bool {
        (block as usize).wrapping_sub(self.arena.get() as usize) < ARENA_BYTES
    }

    /// Changes a block's size; null, leaving it as it was, when there is no memory.
    ///
    /// # Safety
    /// As for [`Heap::release`]; neither size is zero.
    #[cold]
    unsafe fn resize(&self, block: *mut u8, old: usize, new: usize) -> *mut u8 {
        if old > SMALL_BYTES_MAX && new > SMALL_BYTES_MAX {
            // SAFETY: the block came from the process's allocator with this layout.
            return unsafe { alloc::realloc(block, layout(old), new) };
        }
        let moved = self.allocate(new);
        if !moved.is_null() {
            // SAFETY: both blocks have room for the smaller size and are apart; the old one is done with.
            unsafe {
                ptr::copy_nonoverlapping(block, moved, old.min(new));
                self.release(block, old);
            }
        }
        moved
    }
}

impl Drop for Heap {
    fn drop(&mut self) {
        if !self.arena.get().is_null() {
            // SAFETY: it came from there with this layout, and the interpreter that used it is gone.
            unsafe { alloc::dealloc(self.arena.get(), layout(ARENA_BYTES)) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::env::Xoshiro;

    #[test]
    fn blocks_keep_their_bytes() {
        let (heap, mut random) = (Heap::default(), Xoshiro::from_seed(7));
        heap.set_limit(usize::MAX);
        let mut blocks: Vec<(*mut c_void, usize, u8)> = Vec::new();
        for round in 0..200_000u32 {
            let size = if random.below(10) == 0 { random.below(5000) } else { random.below(300) } as usize + 1;
            let mark = round as u8;
            // SAFETY: sizes are remembered with their blocks, and only those bytes are touched.
            unsafe {
                let fill = |block: *mut c_void, from: usize, to: usize, mark: u8| {
                    (from..to).for_each(|i| block.cast::<u8>().add(i).write(mark));
                };
                let check = |block: *mut c_void, size: usize, mark: u8| {
                    assert!((0..size).all(|i| block.cast::<u8>().add(i).read() == mark));
                };
                match random.below(if blocks.len() > 3000 { 2 } else { 5 }) {
                    0 if !blocks.is_empty() => {
                        let (block, old, mark) = blocks.swap_remove(random.below(blocks.len() as u64) as usize);
                        check(block, old, mark);
                        heap.reallocate(block, old, 0);
                    }
                    1 if !blocks.is_empty() => {
                        let index = random.below(blocks.len() as u64) as usize;
                        let (block, old, mark) = blocks[index];
                        let moved = heap.reallocate(block, old, size);
                        check(moved, old.min(size), mark);
                        fill(moved, old.min(size), size, mark);
                        blocks[index] = (moved, size, mark);
                    }
                    _ => {
                        let block = heap.reallocate(ptr::null_mut(), 0, size);
                        assert_eq!(0, block as usize % ALIGN);
                        fill(block, 0, size, mark);
                        blocks.push((block, size, mark));
                    }
                }
            }
        }
        assert_eq!(blocks.iter().map(|(_, size, _)| size).sum::<usize>(), heap.used());
        for (block, size, _) in blocks {
            // SAFETY: as above.
            unsafe { heap.reallocate(block, size, 0) };
        }
        assert_eq!(0, heap.used());
    }

    #[test]
    fn only_lua_is_refused() {
        let heap = Heap::default();
        heap.set_limit(1000);
        // SAFETY: nothing was allocated before; what is allocated is freed with its size.
        unsafe {
            heap.set_strict(true);
            assert!(heap.reallocate(ptr::null_mut(), 0, 1001).is_null());
            heap.set_strict(false);
            let block = heap.reallocate(ptr::null_mut(), 0, 1001);
            assert!(!block.is_null());
            assert!(!heap.has_room(0));
            heap.set_strict(true);
            assert!(heap.reallocate(block, 1001, 2000).is_null());
            heap.reallocate(block, 1001, 0);
        }
        assert_eq!(0, heap.used());
    }
}
