//! Measures tables and their structures: `table_bench [btree|table] [millions of rows]`.

use peryton_core::ds::btree::{BTree, Builder, Probe};
use peryton_core::env::Xoshiro;
use std::time::{Duration, Instant};

#[global_allocator]
static GLOBAL: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn resident() -> usize {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    text.split(' ').nth(1).and_then(|pages| pages.parse::<usize>().ok()).unwrap_or(0) * 4096
}

/// Processor time of this process, which other work on the machine disturbs less than the clock.
struct Watch(Duration);

impl Watch {
    fn start() -> Watch {
        Watch(Watch::used())
    }

    fn used() -> Duration {
        let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: the call only fills the structure it is given.
        unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &mut time) };
        Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
    }

    fn elapsed(&self) -> Duration {
        Watch::used() - self.0
    }
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let what = arguments.next().unwrap_or_else(|| "table".into());
    let millions: usize = arguments.next().and_then(|n| n.parse().ok()).unwrap_or(10);
    match what.as_str() {
        "btree" => btree(millions * 1_000_000),
        _ => {}
    }
}

fn btree(n: usize) {
    for (name, keys) in [("3-byte suffix over 1 M keys", 1_000_000u64), ("4-byte keys, nearly unique", 1 << 32)] {
        let mut random = Xoshiro::from_seed(1);
        let key = |k: u64| (k as u32).to_be_bytes();
        let before = resident();
        let mut tree = BTree::multimap();
        let start = Watch::start();
        for row in 0..n as u64 {
            tree.insert(&key(random.below(keys)), row);
        }
        let per = |start: Watch, n: usize| start.elapsed().as_nanos() as f64 / n as f64;
        println!(
            "{name}: insert {:.0} ns, {:.2} bytes an entry (resident {:.2})",
            per(start, n),
            tree.memory() as f64 / n as f64,
            (resident() - before) as f64 / n as f64
        );
        let start = Watch::start();
        let mut sum = 0;
        for _ in 0..1_000_000 {
            sum += tree.get(&key(random.below(keys))).unwrap_or(0);
        }
        println!("  look-up {:.0} ns", per(start, 1_000_000));
        let start = Watch::start();
        for _ in 0..1_000_000 {
            sum += tree.rank(&Probe::before(&key(random.below(keys))));
        }
        println!("  rank {:.0} ns", per(start, 1_000_000));
        let start = Watch::start();
        let mut cursor = tree.cursor(&Probe::START);
        while let Some(entry) = cursor.next() {
            sum += entry.value;
        }
        drop(cursor);
        println!("  scan {:.1} ns an entry", per(start, n));
        let start = Watch::start();
        tree.cursor(&Probe::START).walk(&Probe::END, usize::MAX, |entry| sum += entry.value);
        println!("  walk {:.1} ns an entry", per(start, n));
        let start = Watch::start();
        let mut builder = Builder::new(true);
        let mut buffer = Vec::new();
        tree.cursor(&Probe::START).walk(&Probe::END, usize::MAX, |entry| {
            buffer.clear();
            entry.key_into(&mut buffer);
            builder.push(&buffer, entry.value);
        });
        let built = builder.finish();
        println!("  bulk {:.0} ns, {:.2} bytes an entry", per(start, n), built.memory() as f64 / n as f64);
        drop(built);
        let view = tree.clone();
        let start = Watch::start();
        let (mut worst, mut count) = (0, 100_000);
        for row in 0..count as u64 {
            let start = Instant::now();
            tree.insert(&key(random.below(keys)), n as u64 + row);
            worst = worst.max(start.elapsed().as_micros());
        }
        println!(
            "  insert under a view {:.0} ns, worst {worst} us, copied {} MB",
            per(start, count),
            tree.copied() >> 20
        );
        drop(view);
        let mut random = Xoshiro::from_seed(1);
        let start = Watch::start();
        count = n / 10;
        for row in 0..count as u64 {
            assert!(tree.remove(&key(random.below(keys)), row).is_some());
        }
        println!("  remove {:.0} ns ({sum})", per(start, count));
    }
}
