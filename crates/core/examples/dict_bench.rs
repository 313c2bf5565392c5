//! Prints nanoseconds per operation and bytes per entry of the dict, at three sizes and for two widths of slots.
//!
//! `cargo run --release -p peryton-core --example dict_bench [entries ...]`

use peryton_core::ds::dict::{Dict, Slot};
use peryton_core::ds::hash;
use peryton_core::ds::prefetch::prefetch;
use peryton_core::env::Xoshiro;
use peryton_core::keyspace::database::{Database, HashedKey};
use peryton_core::keyspace::entry::EntryValue;
use std::hint::black_box;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Processor time, which a busy machine disturbs less than the clock on the wall.
struct Instant(i64);

impl Instant {
    fn now() -> Instant {
        let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: the call fills in the timespec that it is given.
        unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut now) };
        Instant(now.tv_sec * 1_000_000_000 + now.tv_nsec)
    }

    fn elapsed_ns(&self) -> f64 {
        (Instant::now().0 - self.0) as f64
    }
}

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

/// Runs `work` three times over `inputs` and prints the best time of one: other programs disturb a shared machine.
fn measure<T>(name: &str, inputs: &[T], mut work: impl FnMut(&T)) {
    let best = (0..3).map(|_| {
        let start = Instant::now();
        inputs.iter().for_each(&mut work);
        start.elapsed_ns() / inputs.len() as f64
    });
    println!("  {name:<34} {:>8.1} ns", best.fold(f64::MAX, f64::min));
}

/// `count` numbers below `bound`.
fn numbers(seed: u64, count: usize, bound: usize) -> Vec<usize> {
    let mut random = Xoshiro::from_seed(seed);
    (0..count).map(|_| random.below(bound as u64) as usize).collect()
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
    println!("  {:<34} {:>8.1} ns", "(allocation alone)", start.elapsed_ns() / n as f64);
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
    println!("  {:<34} {:>8.1} ns", "insert", start.elapsed_ns() / n as f64);
    report(&dict, worst);
    let ops = n.clamp(500_000, 2_000_000);
    let hits: Vec<[u8; 16]> = numbers(1, ops, n).into_iter().map(key).collect();
    let misses: Vec<[u8; 16]> = numbers(2, ops, n).into_iter().map(|i| key(i + n)).collect();
    measure("find, hit", &hits, |key| {
        black_box(dict.find(hash::bytes(key), |p| p.key() == key).unwrap());
    });
    measure("find, miss", &misses, |key| {
        black_box(dict.find(hash::bytes(key), |p| p.key() == key));
    });
    let mut next = dict.find(hash::bytes(&hits[0]), |p| p.key() == hits[0]).unwrap().0 as usize;
    measure("find, hit, each after the other", &hits, |key| {
        // The key depends on the last result, so that look-ups can't overlap.
        let key = &[*key, hits[0]][next & 1];
        next = dict.find(hash::bytes(key), |p| p.key() == key).unwrap().0 as usize;
    });
    let batches: Vec<[[u8; 16]; 16]> = hits.as_chunks().0.to_vec();
    measure("16 finds, hits, as one batch", &batches, |batch| {
        let hashes = batch.map(|key| hash::bytes(&key));
        hashes.iter().for_each(|h| dict.prefetch(*h));
        hashes.iter().filter_map(|h| dict.candidate(*h)).for_each(|p| p.prefetch());
        for (key, hash) in batch.iter().zip(hashes) {
            black_box(dict.find(hash, |p| p.key() == key).unwrap());
        }
    });
    let mut random = Xoshiro::from_seed(3);
    measure("random", &hits, |_| {
        black_box(dict.random(&mut random));
    });
    let start = Instant::now();
    let sum = dict.iter().fold(0u64, |sum, p| sum.wrapping_add(p.0));
    println!("  {:<34} {:>8.1} ns", "iter", start.elapsed_ns() / n as f64);
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
    println!("  {:<34} {:>8.1} ns (worst {slowest} bytes per entry)", "remove and free", start.elapsed_ns() / n as f64);
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
    println!("  {:<34} {:>8.1} ns", "insert", start.elapsed_ns() / n as f64);
    report(&dict, worst);
    let mut made: Dict<Row> = Dict::with_capacity(n);
    let start = Instant::now();
    for (i, value) in column.iter().enumerate() {
        made.insert(hash::number(*value), Row(i as u32), rehash);
    }
    println!("  {:<34} {:>8.1} ns", "insert, made for the size", start.elapsed_ns() / n as f64);
    report(&made, 0.0);
    drop(made);
    let wanted = numbers(6, n.clamp(500_000, 2_000_000), n);
    measure("find, hit", &wanted, |i| {
        let value = column[*i];
        black_box(dict.find(hash::number(value), |row| column[row.0 as usize] == value).unwrap());
    });
    measure("find, miss", &wanted, |i| {
        let value = *i as u64;
        black_box(dict.find(hash::number(value), |row| column[row.0 as usize] == value));
    });
    let replace = |dict: &mut Dict<Row>, i: usize| {
        dict.replace(hash::number(column[i]), Row(i as u32), |row| row.0 as usize == i).unwrap();
    };
    measure("replace, no view", &wanted, |i| replace(&mut dict, *i));
    let start = Instant::now();
    let view = dict.view();
    println!("  {:<34} {:>8.1} ns", "taking a view", start.elapsed_ns());
    let start = Instant::now();
    replace(&mut dict, 0);
    println!("  {:<34} {:>8.1} ns", "first write under a view", start.elapsed_ns());
    let start = Instant::now();
    wanted.iter().for_each(|i| replace(&mut dict, *i));
    let each = start.elapsed_ns() / wanted.len() as f64;
    println!("  {:<34} {each:>8.1} ns", "replace, under a view");
    println!("  {:.1} MB copied of {:.1} MB", dict.copied() as f64 / 1e6, dict.memory() as f64 / 1e6);
    drop(view);
    measure("replace, after the view", &wanted, |i| replace(&mut dict, *i));
}

/// Resident memory of this process.
fn resident() -> usize {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    statm.split(' ').nth(1).and_then(|pages| pages.parse::<usize>().ok()).unwrap_or(0) * 4096
}

fn database(n: usize) {
    println!("database: 16-byte keys, 32-byte values, {n}");
    let before = resident();
    let mut database = Database::new();
    let start = Instant::now();
    for i in 0..n {
        database.set(&key(i)[..], EntryValue::Bytes(&[b'v'; 32]), None, 0);
    }
    println!("  {:<34} {:>8.1} ns", "SET, new", start.elapsed_ns() / n as f64);
    println!(
        "  {:.1} bytes per key, {:.1} by the system's count",
        database.memory() as f64 / n as f64,
        (resident() - before) as f64 / n as f64
    );
    let keys: Vec<[u8; 16]> = numbers(1, n.clamp(500_000, 2_000_000), n).into_iter().map(key).collect();
    measure("SET, again", &keys, |key| {
        database.set(&key[..], EntryValue::Bytes(&[b'w'; 32]), None, 0);
    });
    measure("GET", &keys, |key| {
        black_box(database.get(&key[..]).unwrap().value());
    });
    let batches: Vec<[[u8; 16]; 16]> = keys.as_chunks().0.to_vec();
    measure("16 GETs as one batch", &batches, |batch| {
        let hashed = batch.each_ref().map(|key| HashedKey::from(&key[..]));
        hashed.iter().for_each(|key| database.prefetch(key.hash));
        hashed.iter().for_each(|key| database.prefetch_entry(key.hash));
        hashed.iter().for_each(|key| {
            black_box(database.get(*key).unwrap().value());
        });
    });
    measure("16 SETs as one batch", &batches, |batch| {
        let hashed = batch.each_ref().map(|key| HashedKey::from(&key[..]));
        hashed.iter().for_each(|key| database.prefetch(key.hash));
        hashed.iter().for_each(|key| database.prefetch_entry(key.hash));
        hashed.iter().for_each(|key| {
            database.set(*key, EntryValue::Bytes(&[b'w'; 32]), None, 0);
        });
    });
    let start = Instant::now();
    for i in 0..n {
        database.set_expire(&key(i)[..], Some(3_600_000 + i as i64));
    }
    println!("  {:<34} {:>8.1} ns", "EXPIRE of all", start.elapsed_ns() / n as f64);
    println!("  {:.1} bytes per key", database.memory() as f64 / n as f64);
    measure("SET EX, again", &keys, |key| {
        database.set(&key[..], EntryValue::Bytes(&[b'w'; 32]), Some(7_200_000), 0);
    });
    let start = Instant::now();
    database.expire_due(1000, usize::MAX);
    println!("  {:<34} {:>8.2} ms", "a sweep with nothing due", start.elapsed_ns() / 1e6);
    let start = Instant::now();
    for i in 0..n {
        drop(database.take(&key(i)[..]));
    }
    println!("  {:<34} {:>8.1} ns", "DEL of all", start.elapsed_ns() / n as f64);
}

fn main() {
    let sizes: Vec<usize> = std::env::args().skip(1).filter_map(|arg| arg.parse().ok()).collect();
    let sizes = if sizes.is_empty() { vec![100_000, 1_000_000, 10_000_000] } else { sizes };
    let keys: Vec<[u8; 16]> = (0..100_000).map(key).collect();
    measure("hash of 16 bytes", &keys, |key| {
        black_box(hash::bytes(black_box(key)));
    });
    for n in sizes {
        database(n);
        pointers(n);
        rows(n);
    }
}
