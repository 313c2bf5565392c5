//! Prints nanoseconds per operation and bytes per entry of the dict, at three sizes and for two widths of slots.
//!
//! `cargo run --release -p peryton-core --example dict_bench [entries ...]`

use peryton_core::ds::dict::{Dict, Slot};
use peryton_core::ds::hash;
use peryton_core::ds::prefetch::prefetch;
use peryton_core::env::Xoshiro;
use std::hint::black_box;
use std::time::Instant;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// A pointer to 64 bytes whose first 16 are the key.
#[derive(Clone, Copy, PartialEq)]
struct Pointer(u64);

impl Pointer {
    fn key(self) -> &'static [u8] {
        // SAFETY: every Pointer of this program comes from a leaked box of 64 bytes.
        let entry = unsafe { &*(self.0 as *const [u8; 64]) };
        &entry[..16]
    }
}

impl Slot for Pointer {
    const WIDTH: usize = 6;
    fn to_bits(self) -> u64 {
        self.0
    }
    fn from_bits(bits: u64) -> Self {
        Pointer(bits)
    }
    fn prefetch(self) {
        prefetch(self.0 as *const u8);
    }
}

/// A row id: an index into a column of numbers.
#[derive(Clone, Copy, PartialEq)]
struct Row(u32);

impl Slot for Row {
    const WIDTH: usize = 4;
    fn to_bits(self) -> u64 {
        self.0.into()
    }
    fn from_bits(bits: u64) -> Self {
        Row(bits as u32)
    }
}

fn key(i: usize) -> [u8; 16] {
    let mut key = *b"key:000000000000";
    let mut n = i;
    for digit in key[4..].iter_mut().rev() {
        *digit = b'0' + (n % 10) as u8;
        n /= 10;
    }
    key
}

/// Runs `work` for each of `n` random numbers below `bound` and prints the time of one.
fn measure(name: &str, n: usize, bound: usize, mut work: impl FnMut(usize)) {
    let mut random = Xoshiro::from_seed(1);
    let order: Vec<usize> = (0..n).map(|_| random.below(bound as u64) as usize).collect();
    let start = Instant::now();
    order.into_iter().for_each(&mut work);
    println!("  {name:<34} {:>8.1} ns", start.elapsed().as_nanos() as f64 / n as f64);
}

fn report<S: Slot>(dict: &Dict<S>, worst: f64) {
    let (primary, overflow, _) = dict.buckets();
    println!(
        "  {:.2} bytes per entry (worst {worst:.2}), {:.2} entries per bucket, {:.3} overflow buckets per bucket",
        dict.memory() as f64 / dict.len() as f64,
        dict.len() as f64 / primary as f64,
        overflow as f64 / primary as f64
    );
}

fn pointers(n: usize) {
    println!("pointers to 64-byte entries with 16-byte keys, {n}");
    let rehash = |p: Pointer| hash::bytes(p.key());
    let mut entries: Vec<Pointer> = Vec::with_capacity(n);
    let start = Instant::now();
    for i in 0..n {
        let mut bytes = Box::new([0u8; 64]);
        bytes[..16].copy_from_slice(&key(i));
        entries.push(Pointer(Box::into_raw(bytes) as u64));
    }
    println!("  {:<34} {:>8.1} ns", "(allocation alone)", start.elapsed().as_nanos() as f64 / n as f64);
    // Entries of an old server lie anywhere: the order of insertion is not that of addresses.
    let mut random = Xoshiro::from_seed(5);
    for i in (1..n).rev() {
        entries.swap(i, random.below(i as u64 + 1) as usize);
    }
    let mut dict: Dict<Pointer> = Dict::new();
    let (mut worst, mut slowest) = (0.0f64, 0);
    let start = Instant::now();
    for (i, entry) in entries.iter().enumerate() {
        dict.insert(hash::bytes(entry.key()), *entry, rehash);
        if i > n / 10 && i % 1024 == 0 {
            worst = worst.max(dict.memory() as f64 / dict.len() as f64);
        }
    }
    println!("  {:<34} {:>8.1} ns", "insert", start.elapsed().as_nanos() as f64 / n as f64);
    report(&dict, worst);
    let ops = n.clamp(1_000_000, 4_000_000);
    measure("find, hit", ops, n, |i| {
        let key = key(i);
        black_box(dict.find(hash::bytes(&key), |p| p.key() == key).unwrap());
    });
    measure("find, miss", ops, n, |i| {
        let key = key(i + n);
        black_box(dict.find(hash::bytes(&key), |p| p.key() == key));
    });
    let mut random = Xoshiro::from_seed(2);
    let batches: Vec<[[u8; 16]; 16]> =
        (0..ops / 16).map(|_| std::array::from_fn(|_| key(random.below(n as u64) as usize))).collect();
    let start = Instant::now();
    for batch in &batches {
        let hashes = batch.map(|key| hash::bytes(&key));
        hashes.iter().for_each(|h| dict.prefetch(*h));
        hashes.iter().filter_map(|h| dict.candidate(*h)).for_each(|p| p.prefetch());
        for (key, hash) in batch.iter().zip(hashes) {
            black_box(dict.find(hash, |p| p.key() == key).unwrap());
        }
    }
    println!("  {:<34} {:>8.1} ns", "find, hit, batches of 16", start.elapsed().as_nanos() as f64 / ops as f64);
    let mut random = Xoshiro::from_seed(3);
    measure("random", ops / 4, n, |_| {
        black_box(dict.random(&mut random));
    });
    let start = Instant::now();
    let sum = dict.iter().fold(0u64, |sum, p| sum.wrapping_add(p.0));
    println!("  {:<34} {:>8.1} ns", "iter", start.elapsed().as_nanos() as f64 / n as f64);
    black_box(sum);
    let start = Instant::now();
    for (i, entry) in entries.iter().enumerate() {
        dict.remove(hash::bytes(entry.key()), |p| p == *entry);
        if i % 1_000_000 == 999_999 && i + 1 < n {
            slowest = slowest.max(dict.memory() / dict.len());
        }
        // SAFETY: the entry was made by Box::into_raw, and nothing refers to it any more.
        drop(unsafe { Box::from_raw(entry.0 as *mut [u8; 64]) });
    }
    println!(
        "  {:<34} {:>8.1} ns (worst {slowest} bytes per entry)",
        "remove and free",
        start.elapsed().as_nanos() as f64 / n as f64
    );
}

fn rows(n: usize) {
    println!("row ids, {n}");
    let mut random = Xoshiro::from_seed(4);
    let column: Vec<u64> = (0..n).map(|_| random.next()).collect();
    let rehash = |row: Row| hash::number(column[row.0 as usize]);
    let mut dict: Dict<Row> = Dict::new();
    let mut worst = 0.0f64;
    let start = Instant::now();
    for (i, value) in column.iter().enumerate() {
        dict.insert(hash::number(*value), Row(i as u32), rehash);
        if i > n / 10 && i % 1024 == 0 {
            worst = worst.max(dict.memory() as f64 / dict.len() as f64);
        }
    }
    println!("  {:<34} {:>8.1} ns", "insert", start.elapsed().as_nanos() as f64 / n as f64);
    report(&dict, worst);
    let mut made: Dict<Row> = Dict::with_capacity(n);
    let start = Instant::now();
    for (i, value) in column.iter().enumerate() {
        made.insert(hash::number(*value), Row(i as u32), rehash);
    }
    println!("  {:<34} {:>8.1} ns", "insert, made for the size", start.elapsed().as_nanos() as f64 / n as f64);
    report(&made, 0.0);
    drop(made);
    let ops = n.clamp(1_000_000, 4_000_000);
    measure("find, hit", ops, n, |i| {
        let value = column[i];
        black_box(dict.find(hash::number(value), |row| column[row.0 as usize] == value).unwrap());
    });
    measure("find, miss", ops, n, |i| {
        black_box(dict.find(hash::number(i as u64), |row| column[row.0 as usize] == i as u64));
    });
    let replace = |dict: &mut Dict<Row>, i: usize| {
        dict.replace(hash::number(column[i]), Row(i as u32), |row| row.0 as usize == i).unwrap();
    };
    measure("replace, no view", ops, n, |i| replace(&mut dict, i));
    let start = Instant::now();
    let view = dict.view();
    println!("  {:<34} {:>8.1} ns", "taking a view", start.elapsed().as_nanos() as f64);
    let start = Instant::now();
    replace(&mut dict, 0);
    println!("  {:<34} {:>8.1} ns", "first write under a view", start.elapsed().as_nanos() as f64);
    measure("replace, under a view", ops, n, |i| replace(&mut dict, i));
    println!("  {:.1} MB copied of {:.1} MB", dict.copied() as f64 / 1e6, dict.memory() as f64 / 1e6);
    drop(view);
    measure("replace, after the view", ops, n, |i| replace(&mut dict, i));
}

fn main() {
    let sizes: Vec<usize> = std::env::args().skip(1).filter_map(|arg| arg.parse().ok()).collect();
    let sizes = if sizes.is_empty() { vec![100_000, 1_000_000, 10_000_000] } else { sizes };
    let keys: Vec<[u8; 16]> = (0..1000).map(key).collect();
    measure("hash of 16 bytes", 10_000_000, 1000, |i| {
        black_box(hash::bytes(black_box(&keys[i])));
    });
    for n in sizes {
        pointers(n);
        rows(n);
    }
}
