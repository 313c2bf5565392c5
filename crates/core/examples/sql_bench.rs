//! What statements cost in this process: the fast path, SQLite over our tables, and SQLite's own tables beside them.
//! `cargo run --release --example sql_bench [rows] [part of a query's name: only the whole queries so named]`

use peryton_core::env::Xoshiro;
use peryton_core::memory::{AlignedByEight, Counting};
use peryton_core::reply::Reply;
use peryton_core::session::{Door, NoWaker, SessionId};
use peryton_core::sql::sqlite::{Connection, Step};
use peryton_core::store::Store;
use peryton_core::table::datum::DatumRef;
use std::sync::Arc;
use std::time::Instant;

#[global_allocator]
static ALLOCATOR: Counting<AlignedByEight<mimalloc::MiMalloc>> =
    // SAFETY: mimalloc's blocks lie at multiples of eight.
    Counting(unsafe { AlignedByEight::new(mimalloc::MiMalloc) });

struct Ours {
    store: Store,
    session: SessionId,
}

impl Ours {
    fn sql(&self, args: &[&[u8]]) -> Reply {
        let mut all: Vec<&[u8]> = vec![b"SQL"];
        all.extend(args);
        let reply = self.store.enter().execute(self.session, &all);
        assert!(!reply.is_error(), "{reply:?}");
        reply
    }
}

/// Runs `body` for each of `count` numbers; prints and gives nanoseconds for one, the best of three rounds.
fn time(what: &str, count: usize, mut body: impl FnMut(usize)) -> f64 {
    let mut best = f64::MAX;
    for _ in 0..3 {
        let start = Instant::now();
        (0..count).for_each(&mut body);
        best = best.min(start.elapsed().as_nanos() as f64 / count as f64);
    }
    println!("{what:58} {best:9.0} ns");
    best
}

fn main() {
    let rows: usize = std::env::args().nth(1).and_then(|n| n.parse().ok()).unwrap_or(1_000_000);
    let store = Store::open(Default::default()).unwrap();
    let session = store.enter().open_session(Door::Embedded, Arc::new(NoWaker));
    let ours = Ours { store, session };
    // Long reads stay in this thread, so that they can be timed and profiled here.
    assert!(!ours.store.enter().execute(session, &[b"CONFIG", b"SET", b"statement-slice", b"60000000"]).is_error());
    ours.sql(&[b"CREATE TABLE t (id INT PRIMARY KEY, a INT, b INT, name TEXT)"]);
    let start = Instant::now();
    let mut baton = ours.store.enter();
    let mut active = baton.activate(session).unwrap();
    for id in 0..rows {
        let (id_text, a, b) = (id.to_string(), (id % 100).to_string(), (id * 7).to_string());
        let name = format!("name-{id:08}-padding");
        let args: [&[u8]; 6] = [
            b"SQL",
            b"INSERT INTO t VALUES (?, ?, ?, ?)",
            id_text.as_bytes(),
            a.as_bytes(),
            b.as_bytes(),
            name.as_bytes(),
        ];
        assert!(!active.execute(&args).is_error());
    }
    drop(active);
    drop(baton);
    println!("{:58} {:9.0} ns", "INSERT, fast path", start.elapsed().as_nanos() as f64 / rows as f64);
    let start = Instant::now();
    ours.sql(&[b"CREATE INDEX i ON t (a)"]);
    println!("{:58} {:9.1} ms", "CREATE INDEX ordered", start.elapsed().as_secs_f64() * 1e3);

    let theirs = Connection::open_native().unwrap();
    let run = |text: &str| {
        let mut statement = theirs.prepare(text, false).unwrap();
        while statement.step() == Step::Row {}
    };
    run("CREATE TABLE t (id INTEGER PRIMARY KEY, a INT, b INT, name TEXT)");
    run("BEGIN");
    let mut insert = theirs.prepare("INSERT INTO t VALUES (?, ?, ?, ?)", true).unwrap();
    let start = Instant::now();
    for id in 0..rows as i64 {
        let name = format!("name-{id:08}-padding");
        for (i, value) in [DatumRef::Int(id), DatumRef::Int(id % 100), DatumRef::Int(id * 7)].iter().enumerate() {
            insert.bind(i + 1, *value).unwrap();
        }
        insert.bind(4, DatumRef::Text(name.as_bytes())).unwrap();
        assert_eq!(Step::Done, insert.step());
        insert.reset();
    }
    println!(
        "{:58} {:9.0} ns",
        "  SQLite's own table, in one transaction",
        start.elapsed().as_nanos() as f64 / rows as f64
    );
    run("COMMIT");
    run("CREATE INDEX i ON t (a)");

    let only = std::env::args().nth(2);
    if only.is_none() {
        by_key(&ours, &theirs, rows);
    }
    for text in [
        "CREATE TABLE g (id INTEGER PRIMARY KEY, k INTEGER, v REAL)",
        "INSERT INTO g SELECT id, a, id / 3.0 FROM t",
        "CREATE TABLE h (id INTEGER PRIMARY KEY, b TEXT)",
        "INSERT INTO h SELECT id, name FROM t",
    ] {
        ours.sql(&[text.as_bytes()]);
        run(text);
    }
    for (what, text) in [
        ("sum of one column, a row", "SELECT sum(b) FROM t"),
        ("four columns, a row", "SELECT max(id + a + b), max(name) FROM t"),
        ("GROUP BY 100 groups, a row", "SELECT a, count(*), sum(b) FROM t GROUP BY a + 0"),
        ("GROUP BY a plain column, a row", "SELECT k, count(*), sum(v) FROM g GROUP BY k"),
        ("join by equal keys, an outer row", "SELECT count(*), sum(g.v) FROM h JOIN g ON g.id = h.id"),
        ("join without index, an outer row", "SELECT count(*) FROM g JOIN t ON t.b = g.v"),
        ("join by key, an outer row", "SELECT count(*) FROM t x JOIN t y ON y.id = x.b % 1000"),
        (
            "unindexed join, an outer row",
            "SELECT count(*) FROM t x JOIN (SELECT * FROM t WHERE id < 1000) y ON y.b = x.b",
        ),
    ] {
        if only.as_ref().is_some_and(|only| !what.contains(only.as_str())) {
            continue;
        }
        let (mut mine, mut its) = (f64::MAX, f64::MAX);
        for _ in 0..5 {
            let start = Instant::now();
            ours.sql(&[text.as_bytes()]);
            mine = mine.min(start.elapsed().as_nanos() as f64 / rows as f64);
            let start = Instant::now();
            run(text);
            its = its.min(start.elapsed().as_nanos() as f64 / rows as f64);
        }
        println!("{what:58} {mine:9.1} ns, SQLite {its:.1} ns: {:.2}x", its / mine);
    }
}

/// Statements by key, each beside SQLite's own.
fn by_key(ours: &Ours, theirs: &Connection, rows: usize) {
    let session = ours.session;
    let mut random = Xoshiro::from_seed(1);
    let ids: Vec<String> = (0..rows).map(|_| random.below(rows as u64).to_string()).collect();
    let n = rows.min(300_000);
    let keyed = |what: &str, text: &str| {
        let mut baton = ours.store.enter();
        let mut active = baton.activate(session).unwrap();
        time(what, n, |i| {
            let reply = active.execute(&[b"SQL", text.as_bytes(), ids[i].as_bytes()]);
            assert!(!reply.is_error());
        });
    };
    let native = |text: &str, columns: usize| {
        let mut statement = theirs.prepare(text, true).unwrap();
        let mut read = 0;
        time("  SQLite's own table", n, |i| {
            statement.bind(1, DatumRef::Int(ids[i].parse().unwrap())).unwrap();
            while statement.step() == Step::Row {
                for column in 0..columns {
                    if let DatumRef::Text(bytes) = statement.column(column) {
                        read += bytes.len();
                    }
                }
            }
            statement.reset();
        });
        std::hint::black_box(read);
    };
    keyed("SELECT * by key, fast path", "SELECT * FROM t WHERE id = ?");
    keyed("SELECT * by key, SQLite over our tables", "SELECT * FROM t WHERE id = ? AND 1");
    native("SELECT * FROM t WHERE id = ?", 4);
    keyed("UPDATE by key, fast path", "UPDATE t SET b = 5 WHERE id = ?");
    keyed("UPDATE by key, SQLite over our tables", "UPDATE t SET b = b + 1 WHERE id = ?");
    native("UPDATE t SET b = b + 1 WHERE id = ?", 0);
    keyed("range LIMIT 10, fast path", "SELECT * FROM t WHERE a > ? % 50 LIMIT 10");

    let list: Vec<&str> = ids[..16].iter().map(|id| id.as_str()).collect();
    let text = format!("SELECT * FROM t WHERE id IN ({})", vec!["?"; 16].join(", "));
    {
        let mut baton = ours.store.enter();
        let mut active = baton.activate(session).unwrap();
        time("IN of 16 keys, fast path (a row)", n / 16, |i| {
            let at = i * 16 % (rows - 16);
            let mut args: Vec<&[u8]> = vec![b"SQL", text.as_bytes()];
            args.extend(ids[at..at + 16].iter().map(|id| id.as_bytes()));
            assert!(!active.execute(&args).is_error());
        });
    }
    println!("    (divide by 16 for a row; the first list: {})", list.len());
}
