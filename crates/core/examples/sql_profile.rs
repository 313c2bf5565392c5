//! One statement again and again, for a profiler that counts instructions: what each part of it costs.
//! `valgrind --tool=callgrind --collect-atstart=no --toggle-collect='*measured*' target/release/examples/sql_profile
//! CASE [rows] [sqlite]`; the number of repetitions is printed, so that counts can be divided by it.

use peryton_core::memory::{AlignedByEight, Counting};
use peryton_core::reply::Reply;
use peryton_core::session::{Door, NoWaker, SessionId};
use peryton_core::sql::sqlite::{Connection, Step};
use peryton_core::store::Store;
use peryton_core::table::datum::DatumRef;
use std::sync::Arc;

#[global_allocator]
static ALLOCATOR: Counting<AlignedByEight<mimalloc::MiMalloc>> =
    // SAFETY: mimalloc's blocks lie at multiples of eight.
    Counting(unsafe { AlignedByEight::new(mimalloc::MiMalloc) });

/// The tables of `peryton bench sql`, and one with an ordered key.
const TABLES: &[&str] = &[
    "CREATE TABLE t (id INTEGER PRIMARY KEY, a INTEGER, b TEXT, c REAL)",
    "CREATE TABLE g (id INTEGER PRIMARY KEY, k INTEGER, v REAL)",
    "CREATE TABLE o (id INTEGER PRIMARY KEY /* USING BTREE */, a INTEGER, b INTEGER)",
];
const FILL: &[&str] = &[
    "INSERT INTO t SELECT n, n * 7 % 1000, 'text number ' || n, n / 3.0 FROM \
     (WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c WHERE n < ROWS) SELECT n FROM c)",
    "INSERT INTO g SELECT id, a % 100, c FROM t",
];

enum Case {
    /// A statement over all rows.
    Whole(&'static str),
    /// One with a key as its parameter, twice if it has two.
    Keyed(&'static str, usize),
    /// One that inserts so many integers, the first of which is a new key, in one batch.
    Many(&'static str, usize),
}

fn case(name: &str) -> Case {
    match name {
        "group" => Case::Whole("SELECT k, count(*), sum(v) FROM g GROUP BY k"),
        "sum" => Case::Whole("SELECT sum(k), sum(v) FROM g"),
        "join" => Case::Whole("SELECT count(*), sum(g.v) FROM t JOIN g ON g.id = t.id"),
        "join-far" => Case::Whole("SELECT count(*), sum(g.v) FROM t JOIN g ON g.id = t.a"),
        "join-hash" => Case::Whole("SELECT count(*) FROM g JOIN t ON t.c = g.v"),
        "insert" => Case::Many("INSERT INTO t VALUES (?, ?, ?, ?)", 4),
        "insert-ordered" => Case::Many("INSERT INTO o VALUES (?, ?, ?)", 3),
        "point" => Case::Keyed("SELECT * FROM t WHERE id = ?", 1),
        "update" => Case::Keyed("UPDATE t SET a = ? WHERE id = ?", 2),
        other => panic!("no case {other}"),
    }
}

struct Ours {
    store: Store,
    session: SessionId,
}

impl Ours {
    fn open() -> Ours {
        let store = Store::open(Default::default()).unwrap();
        let session = store.enter().open_session(Door::Embedded, Arc::new(NoWaker));
        let ours = Ours { store, session };
        // Long reads stay in this thread.
        ours.run(&[b"CONFIG", b"SET", b"statement-slice", b"60000000"]);
        ours
    }

    fn run(&self, args: &[&[u8]]) -> Reply {
        let reply = self.store.enter().execute(self.session, args);
        assert!(!reply.is_error(), "{reply:?}");
        reply
    }
}

#[inline(never)]
fn measured(mut body: impl FnMut()) {
    let begun = std::time::Instant::now();
    body();
    println!("{} us", begun.elapsed().as_micros());
}

fn main() {
    let mut args = std::env::args().skip(1);
    let name = args.next().expect("a case");
    let rows: usize = args.next().map_or(20_000, |n| n.parse().expect("a number of rows"));
    let native = args.next().is_some_and(|who| who == "sqlite");
    let fill: Vec<String> = FILL.iter().map(|text| text.replace("ROWS", &rows.to_string())).collect();
    let texts = TABLES.iter().map(|text| text.to_string()).chain(fill);
    let keys = || (0..rows).map(|i| 1 + i * 7919 % rows);
    if native {
        let sqlite = Connection::open_native().unwrap();
        let run = |text: &str| {
            let mut statement = sqlite.prepare(text, false).unwrap();
            while statement.step() == Step::Row {}
        };
        texts.for_each(|text| run(&text));
        match case(&name) {
            Case::Whole(text) => {
                run(text);
                measured(|| run(text));
            }
            Case::Many(text, count) => {
                let mut statement = sqlite.prepare(text, true).unwrap();
                measured(|| {
                    run("BEGIN");
                    for key in rows + 1..=2 * rows {
                        (1..=count).for_each(|place| statement.bind(place, DatumRef::Int(key as i64)).unwrap());
                        statement.step();
                        statement.reset();
                    }
                    run("COMMIT");
                });
            }
            Case::Keyed(text, count) => {
                let mut statement = sqlite.prepare(text, true).unwrap();
                measured(|| {
                    for key in keys() {
                        (1..=count).for_each(|place| statement.bind(place, DatumRef::Int(key as i64)).unwrap());
                        while statement.step() == Step::Row {}
                        statement.reset();
                    }
                });
            }
        }
    } else {
        let ours = Ours::open();
        // SQLite knows no such words, and its own tables are ordered anyway.
        let texts = texts.map(|text| text.replace("/* USING BTREE */", "USING BTREE"));
        texts.for_each(|text| drop(ours.run(&[b"SQL", text.as_bytes()])));
        match case(&name) {
            Case::Whole(text) => {
                ours.run(&[b"SQL", text.as_bytes()]);
                measured(|| drop(ours.run(&[b"SQL", text.as_bytes()])));
            }
            Case::Many(text, count) => {
                let digits: Vec<String> = (rows + 1..=2 * rows).map(|key| key.to_string()).collect();
                let types = "i".repeat(count);
                let mut args: Vec<&[u8]> = vec![b"SQL.MANY", types.as_bytes(), text.as_bytes()];
                args.extend(digits.iter().flat_map(|key| std::iter::repeat_n(key.as_bytes(), count)));
                measured(|| drop(ours.run(&args)));
            }
            Case::Keyed(text, count) => {
                let texts: Vec<String> = keys().map(|key| key.to_string()).collect();
                ours.run(&[&[&b"SQL"[..], text.as_bytes()][..], &vec![texts[0].as_bytes(); count]].concat());
                measured(|| {
                    for key in &texts {
                        let args = [&b"SQL"[..], text.as_bytes(), key.as_bytes(), key.as_bytes()];
                        drop(ours.run(&args[..2 + count]));
                    }
                });
            }
        }
    }
    println!("{rows} rows");
}
