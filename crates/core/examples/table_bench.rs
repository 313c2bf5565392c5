//! Measures tables and their structures: `table_bench [btree|table] [millions of rows]`.

use peryton_core::ds::btree::{BTree, Builder, Probe};
use peryton_core::engine::{Access, Cursor, Edge, Engine, Memory, Source, Untold};
use peryton_core::env::Xoshiro;
use peryton_core::table::batch::Batch;
use peryton_core::table::catalog::{IndexColumn, IndexDef, IndexId, Method, Origin, TableDef, TableId};
use peryton_core::table::datum::DatumRef;
use peryton_core::table::key::put_key;
use peryton_core::table::row_id::RowId;
use peryton_core::table::types::Collation;
use std::sync::Arc;
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
    if what == "btree" {
        btree(millions * 1_000_000);
    } else {
        table(millions * 1_000_000);
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

const TABLE: TableId = TableId(1);
const PRIMARY: IndexId = IndexId(1);
const BY_A: IndexId = IndexId(2);

/// t (id INT PRIMARY KEY USING HASH, a INT, b INT), with or without an ordered index on a.
fn definition(with_index: bool) -> Arc<TableDef> {
    let mut def = TableDef::new("t");
    def.id = TABLE;
    for name in ["id", "a", "b"] {
        def.add_column(name, "INT").expect("a fresh name");
    }
    let index = |id, position, unique, method| IndexDef {
        id,
        name: format!("i{position}"),
        columns: vec![IndexColumn { position, desc: false, collation: Collation::Binary }],
        unique,
        method,
        origin: Origin::Created,
        filter: None,
    };
    def.indexes.push(index(PRIMARY, 0, true, Method::Hash));
    if with_index {
        def.indexes.push(index(BY_A, 1, false, Method::Ordered));
    }
    Arc::new(def)
}

/// Fills a table with rows (sequential id, two random integers below a million), `batch` rows a call.
fn fill(engine: &mut Memory, n: usize, batch: usize) {
    let mut random = Xoshiro::from_seed(1);
    let mut rows = Batch::new();
    let mut ids = Vec::new();
    let layout = engine.layout(TABLE).expect("the table").clone();
    let (before, watch, clock) = (resident(), Watch::start(), Instant::now());
    let mut worst = (Duration::ZERO, 0);
    for first in (0..n).step_by(batch) {
        rows.clear();
        for id in first..n.min(first + batch) {
            let values = [id as i64, random.below(1_000_000) as i64, random.below(1_000_000) as i64].map(DatumRef::Int);
            rows.write(|out| layout.encode(&values, out)).expect("a short row");
        }
        ids.clear();
        let one = Instant::now();
        engine.insert(TABLE, &rows, &mut ids, &mut Untold).expect("new keys");
        if one.elapsed() > worst.0 {
            worst = (one.elapsed(), first);
        }
    }
    let (used, real) = (watch.elapsed().as_nanos() as f64 / n as f64, clock.elapsed().as_nanos() as f64 / n as f64);
    println!(
        "insert, {batch} a call: {used:.0} ns of processor ({real:.0} ns of clock) a row, longest call {:.2} ms at row {}",
        worst.0.as_secs_f64() * 1e3,
        worst.1
    );
    let memory = engine.memory(TABLE).expect("the table");
    let per = |bytes: usize| bytes as f64 / n as f64;
    println!(
        "  bytes a row: rows {:.2}, indexes {:.2?}, together {:.2}; resident {:.2}",
        per(memory.rows),
        memory.indexes.iter().map(|(_, bytes)| per(*bytes)).collect::<Vec<_>>(),
        per(memory.total()),
        per(resident() - before)
    );
}

fn table(n: usize) {
    {
        let mut engine = Memory::new();
        engine.create_table(&definition(true)).expect("a new table");
        fill(&mut engine, n, 1);
        read(&engine, n);
        let view = engine.view(&[TABLE]).expect("a view");
        let (clock, mut worst, mut random) = (Instant::now(), Duration::ZERO, Xoshiro::from_seed(9));
        let layout = engine.layout(TABLE).expect("the table").clone();
        let count = 100_000;
        for _ in 0..count {
            let id = random.below(n as u64);
            let key = key(&[id as i64], 0);
            let mut found = RowId(0);
            engine.get_many(TABLE, PRIMARY, &Batch::of(&key), &mut |_, row, _| found = row).expect("a read");
            let values = [id as i64, random.below(1_000_000) as i64, 1].map(DatumRef::Int);
            let mut row = Batch::new();
            row.write(|out| layout.encode(&values, out)).expect("a short row");
            let one = Instant::now();
            engine.update(TABLE, &[found], &row, &mut Untold).expect("an update");
            worst = worst.max(one.elapsed());
        }
        println!(
            "update of key a under a view: {:.0} ns a row, longest {:.2} ms, copied {} MB",
            clock.elapsed().as_nanos() as f64 / f64::from(count),
            worst.as_secs_f64() * 1e3,
            engine.copied_bytes() >> 20
        );
        drop(view);
    }
    let mut engine = Memory::new();
    engine.create_table(&definition(false)).expect("a new table");
    fill(&mut engine, n, 100);
    let def = definition(true);
    let (clock, watch) = (Instant::now(), Watch::start());
    let mut build = engine.begin_index(TABLE, &def.indexes[1]).expect("a build");
    while !build.run(1_000_000).expect("a build") {}
    engine.finish_index(build, &def).expect("a build");
    println!(
        "build of the index on a: {:.2} s ({:.2} s of processor)",
        clock.elapsed().as_secs_f64(),
        watch.elapsed().as_secs_f64()
    );
    let memory = engine.memory(TABLE).expect("the table");
    println!("  bytes a row: {:.2}", memory.total() as f64 / n as f64);
}

fn key(values: &[i64], position: u16) -> Vec<u8> {
    let values: Vec<DatumRef<'_>> = values.iter().map(|v| DatumRef::Int(*v)).collect();
    let mut key = Vec::new();
    put_key(&values, &[IndexColumn { position, desc: false, collation: Collation::Binary }], &mut key);
    key
}

fn read(engine: &Memory, n: usize) {
    let mut random = Xoshiro::from_seed(2);
    let count = 1_000_000;
    let per = |watch: &Watch, n: usize| watch.elapsed().as_nanos() as f64 / n as f64;
    let mut sum = 0;
    let mut cursor = Cursor::new();
    let watch = Watch::start();
    let mut keys = Batch::new();
    for _ in 0..count {
        keys.clear();
        keys.push(&key(&[random.below(n as u64) as i64], 0));
        assert!(engine.seek(&mut cursor, TABLE, &Access::Keys { index: PRIMARY, keys: &keys }).expect("a read"));
        sum += match engine.row(&cursor).get(1) {
            DatumRef::Int(a) => a,
            _ => 0,
        };
        cursor.close();
    }
    println!("point look-up by cursor {:.0} ns", per(&watch, count));
    for batch in [16, 256] {
        let watch = Watch::start();
        for _ in 0..count / batch {
            keys.clear();
            (0..batch).for_each(|_| keys.push(&key(&[random.below(n as u64) as i64], 0)));
            engine
                .get_many(TABLE, PRIMARY, &keys, &mut |_, _, row| {
                    if let DatumRef::Int(a) = row.get(1) {
                        sum += a;
                    }
                })
                .expect("a read");
        }
        println!("look-up of {batch} keys at once {:.0} ns a key", per(&watch, count));
    }
    let watch = Watch::start();
    let mut rows = 0;
    let mut more = engine.seek(&mut cursor, TABLE, &Access::All).expect("a read");
    while more {
        if let DatumRef::Int(a) = engine.row(&cursor).get(1) {
            sum += a;
        }
        rows += 1;
        more = engine.next(&mut cursor).expect("a read");
    }
    println!("full scan, one column: {:.1} ns a row", per(&watch, rows));
    let (from, to) = (key(&[100_000], 1), key(&[150_000], 1));
    for keys_only in [false, true] {
        let access =
            Access::Range { index: BY_A, from: Edge::Before(&from), to: Edge::Before(&to), reverse: false, keys_only };
        let watch = Watch::start();
        let mut rows = 0;
        let mut more = engine.seek(&mut cursor, TABLE, &access).expect("a read");
        while more {
            if !keys_only && let DatumRef::Int(b) = engine.row(&cursor).get(2) {
                sum += b;
            }
            rows += 1;
            more = engine.next(&mut cursor).expect("a read");
        }
        println!("range by index, keys only {keys_only}: {:.1} ns a row", per(&watch, rows));
    }
    let watch = Watch::start();
    let count = 100_000;
    for _ in 0..count {
        let from = key(&[random.below(1_000_000) as i64], 1);
        sum += engine.count(TABLE, BY_A, Edge::Before(&from), Edge::Open).expect("a read") as i64;
    }
    println!("count of a range {:.0} ns", per(&watch, count));
    let watch = Watch::start();
    let statistics = engine.statistics(TABLE).expect("a read");
    println!("statistics {:.0} us: {statistics:?} ({sum})", watch.elapsed().as_secs_f64() * 1e6);
}
