//! `maxmemory` on a whole store: what counts, what is refused, what is evicted, and that it is kept to.
//!
//! These tests have a process and an allocator of their own, and run one after another.

use peryton_core::keyspace::{Keyspace, Wants};
use peryton_core::memory::{self, Counting};
use peryton_core::reply::Reply;
use peryton_core::session::{Door, NoWaker, SessionId};
use peryton_core::store::Store;
use peryton_core::txn::{TableChange, Tables, redo};
use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

/// Remembers the most that was in use at any instant.
struct Watching(Counting<System>);

static PEAK: AtomicU64 = AtomicU64::new(0);

// SAFETY: every call is passed on unchanged to an allocator that keeps the contract.
unsafe impl GlobalAlloc for Watching {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promise, passed on.
        let block = unsafe { self.0.alloc(layout) };
        PEAK.fetch_max(memory::used(), Ordering::Relaxed);
        block
    }
    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise, passed on.
        unsafe { self.0.dealloc(pointer, layout) }
    }
    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        // SAFETY: the caller's promise, passed on.
        let block = unsafe { self.0.realloc(pointer, layout, new_size) };
        PEAK.fetch_max(memory::used(), Ordering::Relaxed);
        block
    }
}

#[global_allocator]
static ALLOCATOR: Watching = Watching(Counting(System));

/// One test at a time: what is used is the whole process's.
static ALONE: Mutex<()> = Mutex::new(());

const KB: u64 = 1 << 10;
const MB: u64 = 1 << 20;
const OOM: &str = "command not allowed when used memory > 'maxmemory'.";

struct Client {
    store: Store,
    session: SessionId,
    _alone: MutexGuard<'static, ()>,
}

impl Client {
    fn new() -> Client {
        let alone = ALONE.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let store = Store::open(Default::default()).unwrap();
        let session = store.enter().open_session(Door::Embedded, Arc::new(NoWaker));
        let client = Client { store, session, _alone: alone };
        // What is allocated once is there before anything is measured.
        client.says("EVAL return(1) 0");
        client.sql("SELECT 1");
        client.says("CONFIG SET statement-slice 60000000");
        client
    }

    fn call(&self, args: &[&[u8]]) -> Reply {
        self.store.enter().execute(self.session, args)
    }

    fn says(&self, line: &str) -> Reply {
        self.call(&line.split(' ').map(str::as_bytes).collect::<Vec<_>>())
    }

    fn sql(&self, text: &str) -> Reply {
        self.call(&[b"SQL", text.as_bytes()])
    }

    fn count(&self, query: &str) -> i64 {
        let Reply::Array(rows) = self.sql(query) else { panic!("{query}") };
        let Some(Reply::Array(row)) = rows.get(1) else { panic!("{query}") };
        let Reply::Int(count) = row[0] else { panic!("{query}") };
        count
    }

    /// Lets so many bytes more be used than are now.
    fn leave(&self, bytes: u64) -> u64 {
        let limit = memory::used() + bytes;
        assert!(!self.says(&format!("CONFIG SET maxmemory {limit}")).is_error());
        PEAK.store(memory::used(), Ordering::Relaxed);
        limit
    }

    fn policy(&self, name: &str) {
        assert!(!self.says(&format!("CONFIG SET maxmemory-policy {name} maxmemory-eviction-tenacity 100")).is_error());
    }

    /// Waits until nothing is being freed in another thread.
    fn settle(&self) {
        while self.store.enter().state().keyspace.shared.reaper.counts().0 > 0 {
            std::thread::yield_now();
        }
    }

    /// Bytes that `body` leaves in use.
    fn taken(&self, body: impl FnOnce()) -> u64 {
        self.settle();
        let before = memory::used();
        body();
        memory::used().saturating_sub(before)
    }

    fn evicted(&self) -> u64 {
        self.store.enter().state().keyspace.shared.stats.evicted
    }

    fn keys(&self) -> usize {
        self.store.enter().state().keyspace.databases[0].len()
    }

    /// A table with short rows; gives its bytes.
    fn fill(&self, table: &str, rows: u64) -> u64 {
        let before = memory::used();
        self.sql(&format!("CREATE TABLE {table} (id INTEGER PRIMARY KEY, a INTEGER, b TEXT)"));
        let series = format!(
            "INSERT INTO {table} WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {rows})
             SELECT i, i * 7, 'row number ' || i FROM n"
        );
        assert_eq!(Reply::Int(rows as i64), self.sql(&series));
        memory::used() - before
    }
}

/// What may be taken past the limit at once: a list of changes that doubles, and a thousand rows between two looks.
fn step(rows: u64) -> u64 {
    size_of::<TableChange>() as u64 * rows.next_power_of_two() / 2 + MB
}

fn assert_oom(reply: &Reply) {
    let Reply::Error(error) = reply else { panic!("{reply:?}") };
    assert_eq!(OOM, error.message);
}

fn assert_ok(reply: &Reply) {
    assert!(!reply.is_error(), "{reply:?}");
}

impl Drop for Client {
    fn drop(&mut self) {
        self.settle();
        // With its threads gone, what the store holds is freed here, before the next test begins.
        self.store.close();
    }
}

#[test]
fn everything_counts() {
    let client = Client::new();
    let value = vec![b'x'; MB as usize];
    assert!(client.taken(|| drop(client.call(&[b"SET", b"k", &value]))) >= MB, "a string");
    let keys = client.taken(|| (0..10_000).for_each(|i| drop(client.says(&format!("SET key:{i} value")))));
    assert!(keys >= 10_000 * 24, "many keys: {keys}");
    let hash = client.taken(|| {
        (0..1000).for_each(|i| drop(client.call(&[b"HSET", b"h", &[i as u8, (i >> 8) as u8], &value[..900]])))
    });
    assert!(hash >= 1000 * 900, "a hash: {hash}");
    assert!(client.fill("t", 20_000) >= 20_000 * 16, "a table");
    let index = client.taken(|| drop(client.sql("CREATE INDEX t_a ON t (a, b)")));
    assert!(index >= 20_000 * 8, "an index: {index}");
    // Each text is compiled and kept, by SQLite and by the interpreter of scripts.
    let statements = client.taken(|| {
        for i in 0..100 {
            assert_ok(&client.call(&[
                b"SQL",
                format!("SELECT count(*), sum(a + {i}) FROM t WHERE a > ? GROUP BY b").as_bytes(),
                b"1",
            ]));
        }
    });
    assert!(statements >= 100 * 2 * KB, "statements in SQLite: {statements}");
    let scripts = client.taken(|| {
        for i in 0..200 {
            let lines: String = (0..50).map(|n| format!("local a{n} = redis.sha1hex('{i} {n}') ")).collect();
            let script = format!("if KEYS[1] then {lines} end return {i}");
            assert_eq!(Reply::Int(i), client.call(&[b"EVAL", script.as_bytes(), b"0"]));
        }
    });
    // Twice the text: one copy to be found by, and what was compiled.
    assert!(scripts >= 200 * 2 * 2 * KB, "scripts: {scripts}");
    // A view keeps what is changed since.
    let other = client.store.enter().open_session(Door::Embedded, Arc::new(NoWaker));
    let on_other = |line: &str| client.store.enter().execute(other, &[b"SQL", line.as_bytes()]);
    assert_ok(&on_other("BEGIN"));
    let copies = client.taken(|| assert_ok(&client.sql("UPDATE t SET a = a + 1")));
    assert!(copies >= 20_000 * 16, "copies for a view: {copies}");
    assert_ok(&on_other("ROLLBACK"));
    // What a transaction has written, and what waits for EXEC.
    assert_ok(&on_other("BEGIN"));
    let private = client.taken(|| assert_ok(&on_other("UPDATE t SET a = a + 1")));
    assert!(private >= 20_000 * 16, "a transaction's rows: {private}");
    assert_ok(&on_other("ROLLBACK"));
    let queued = client.taken(|| {
        client.says("MULTI");
        client.call(&[b"SET", b"k", &value]);
    });
    assert!(queued >= MB, "a queue: {queued}");
    client.says("DISCARD");
    // What waits for a subscriber to take it.
    client.store.enter().execute(other, &[b"SUBSCRIBE", b"c"]);
    let message = client.taken(|| drop(client.call(&[b"PUBLISH", b"c", &value])));
    assert!(message >= MB, "a message: {message}");
}

#[test]
fn a_running_script_s_memory_counts() {
    let client = Client::new();
    PEAK.store(memory::used(), Ordering::Relaxed);
    let before = memory::used();
    let script = "local t = {} for i = 1, 100000 do t[i] = 'text ' .. i end return #t";
    assert_eq!(Reply::Int(100_000), client.call(&[b"EVAL", script.as_bytes(), b"0"]));
    assert!(PEAK.load(Ordering::Relaxed) - before > 100_000 * 16);
}

#[test]
fn a_sorting_statement_s_memory_counts() {
    let client = Client::new();
    client.fill("t", 50_000);
    PEAK.store(memory::used(), Ordering::Relaxed);
    let before = memory::used();
    assert_ok(
        &client.sql("SELECT max(x) FROM (SELECT b || 'x' AS x FROM t ORDER BY a % 100, b DESC LIMIT -1 OFFSET 1)"),
    );
    assert!(PEAK.load(Ordering::Relaxed) - before > 50_000 * 16);
}

#[test]
fn over_the_limit_reads_and_deletions_go_on() {
    let client = Client::new();
    client.fill("t", 1000);
    client.says("SET k v");
    client.says("SADD s 1 2 3");
    assert_ok(&client.says("CONFIG SET maxmemory 1"));
    for write in [
        "INSERT INTO t VALUES (5000, 1, 'x')",
        "INSERT INTO t (a) SELECT a FROM t LIMIT 1",
        "UPDATE t SET a = 1 WHERE id = 1",
        "UPDATE t SET a = a + 1 WHERE b LIKE 'row%'",
        "REPLACE INTO t VALUES (1, 1, 'x')",
        "CREATE TABLE u (id INTEGER PRIMARY KEY)",
        "CREATE TABLE u AS SELECT * FROM t",
        "CREATE INDEX i ON t (a)",
    ] {
        assert_oom(&client.sql(write));
    }
    assert_oom(&client.says("TABLE.PUT t id 5000 a 1"));
    assert_oom(&client.call(&[b"SQL.MANY", b"it", b"INSERT INTO t (a, b) VALUES (?, ?)", b"1", b"x"]));
    assert_oom(&client.says("SET k w"));
    for call in ["'SET', 'k', 'w'", "'SQL', 'INSERT INTO t (a) VALUES (1)'"] {
        let Reply::Error(error) = client.call(&[b"EVAL", format!("return redis.call({call})").as_bytes(), b"0"]) else {
            panic!("{call}")
        };
        assert!(error.message.contains(OOM), "{}", error.message);
    }
    assert_eq!(1000, client.count("SELECT count(*) FROM t"));
    assert_eq!(1000, client.count("SELECT sum(a > 0) FROM t"));
    assert_eq!(3, client.count("SELECT count(*) FROM \"set\"('s')"));
    assert_eq!(Reply::bulk("v"), client.says("GET k"));
    assert_eq!(Reply::Int(1), client.sql("DELETE FROM t WHERE id = 1"));
    assert_eq!(Reply::Int(500), client.sql("DELETE FROM t WHERE a % 2 = 0"));
    assert_eq!(Reply::Int(1), client.says("DEL k"));
    // What is not a write of its own is refused in a queue, which would grow.
    assert_ok(&client.says("MULTI"));
    assert_oom(&client.says("GET k"));
    assert!(client.says("EXEC").is_error());
    assert_ok(&client.sql("TRUNCATE t"));
    assert_ok(&client.sql("DROP TABLE t"));
}

/// CREATE INDEX looked at the memory before it began, and then took what it took.
#[test]
fn an_index_stops_at_the_limit_and_leaves_nothing() {
    let client = Client::new();
    client.fill("t", 300_000);
    let limit = client.leave(MB);
    assert_oom(&client.sql("CREATE INDEX t_b ON t (b)"));
    assert!(PEAK.load(Ordering::Relaxed) < limit + step(100_000), "{} over", PEAK.load(Ordering::Relaxed) - limit);
    assert!(memory::used() < limit);
    assert_eq!(0, client.count("SELECT count(*) FROM information_schema.indexes WHERE index_name = 't_b'"));
    assert_oom(&client.sql("CREATE INDEX t_e ON t (a + 1)"));
    assert_eq!(300_000, client.count("SELECT count(*) FROM t"));
    client.leave(100 * MB);
    assert_ok(&client.sql("CREATE INDEX t_b ON t (b)"));
    assert_eq!(1, client.count("SELECT count(*) FROM t WHERE b = 'row number 7'"));
}

#[test]
fn a_bulk_insert_stops_at_the_limit_and_leaves_nothing() {
    let client = Client::new();
    let table = client.fill("t", 100_000);
    client.sql("CREATE TABLE u (id INTEGER PRIMARY KEY, a INTEGER, b TEXT)");
    client.sql("CREATE INDEX u_a ON u (a)");
    let limit = client.leave(table / 2);
    let below = || PEAK.load(Ordering::Relaxed) < limit + step(100_000);
    assert_oom(&client.sql("INSERT INTO u SELECT * FROM t"));
    assert_eq!(0, client.count("SELECT count(*) FROM u"));
    assert!(below(), "INSERT .. SELECT: {} over", PEAK.load(Ordering::Relaxed) - limit);
    assert!(memory::used() < limit);
    assert_oom(&client.sql("UPDATE t SET b = b || ' and so much more than there was before'"));
    assert_eq!(100_000, client.count("SELECT sum(b = 'row number ' || id) FROM t"));
    assert!(below(), "UPDATE: {} over", PEAK.load(Ordering::Relaxed) - limit);
    assert_oom(&client.sql("CREATE TABLE v AS SELECT * FROM t"));
    assert!(client.sql("SELECT * FROM v").is_error());
    assert!(below(), "CREATE TABLE AS: {} over", PEAK.load(Ordering::Relaxed) - limit);
    // Inside a transaction the rows are private until COMMIT.
    assert_ok(&client.sql("BEGIN"));
    assert_oom(&client.sql("INSERT INTO u SELECT * FROM t"));
    assert_ok(&client.sql("ROLLBACK"));
    assert!(below(), "BEGIN: {} over", PEAK.load(Ordering::Relaxed) - limit);
}

#[test]
fn executemany_stops_at_the_limit_and_leaves_nothing() {
    let client = Client::new();
    client.sql("CREATE TABLE t (id INTEGER PRIMARY KEY, a INTEGER, b TEXT)");
    client.sql("INSERT INTO t VALUES (0, 0, 'there')");
    let texts: Vec<String> = (1..=100_000).map(|i| i.to_string()).collect();
    for statement in
        ["INSERT INTO t VALUES (?, 1, 'a text of some length')", "INSERT INTO t SELECT ?, 1, 'the same, by SQLite'"]
    {
        let mut args: Vec<&[u8]> = vec![b"SQL.MANY", b"i", statement.as_bytes()];
        args.extend(texts.iter().map(|text| text.as_bytes()));
        // The parameters themselves are read into values, which count too.
        let limit = client.leave(8 * MB);
        assert_oom(&client.call(&args));
        assert_eq!(1, client.count("SELECT count(*) FROM t"));
        let peak = PEAK.load(Ordering::Relaxed);
        assert!(peak < limit + step(100_000), "{statement}: {} over", peak - limit);
        client.says("CONFIG SET maxmemory 0");
    }
    // A few long rows are as much as many short ones.
    let long = vec![b'x'; MB as usize];
    let mut args: Vec<&[u8]> = vec![b"SQL.MANY", b"t", b"INSERT INTO t (b) VALUES (?)"];
    args.extend(std::iter::repeat_n(&long[..], 100));
    let limit = client.leave(10 * MB);
    assert_oom(&client.call(&args));
    let peak = PEAK.load(Ordering::Relaxed);
    // All of what was taken is one buffer, which may have been about to double.
    assert!(peak < limit + 10 * MB, "long rows: {} over", peak - limit);
}

#[test]
fn keys_make_room_for_rows() {
    let client = Client::new();
    client.policy("allkeys-lru");
    let table = client.fill("t", 50_000);
    (0..200_000).for_each(|i| assert_ok(&client.says(&format!("SET key:{i} a-value-of-some-length-{i}"))));
    client.sql("CREATE TABLE u (id INTEGER PRIMARY KEY, a INTEGER, b TEXT)");
    let limit = client.leave(table / 4);
    assert_eq!(Reply::Int(50_000), client.sql("INSERT INTO u SELECT * FROM t"));
    assert!(client.evicted() > 1000 && client.keys() < 200_000);
    assert!(PEAK.load(Ordering::Relaxed) < limit + step(50_000));
    // Tables themselves stay, whatever happens.
    assert_oom(&client.call(&[b"SQL", b"CREATE TABLE v AS SELECT x.* FROM t x, t y LIMIT 10000000"]));
    assert_eq!(0, client.keys());
    assert_eq!((50_000, 50_000), (client.count("SELECT count(*) FROM t"), client.count("SELECT count(*) FROM u")));
    assert_ok(&client.says("SET k v"));
}

#[test]
fn a_stream_of_writes_stays_within_the_limit() {
    for policy in [
        "allkeys-lru",
        "allkeys-lfu",
        "allkeys-random",
        "volatile-lru",
        "volatile-lfu",
        "volatile-random",
        "volatile-ttl",
    ] {
        let client = Client::new();
        client.policy(policy);
        (0..20_000).for_each(|i| assert_ok(&client.says(&format!("SET key:{i} value-{i} EX {}", 10_000 + i))));
        let limit = client.leave(64 * KB);
        (0..40_000).for_each(|i| assert_ok(&client.says(&format!("SET more:{i} value-{i} EX {}", 10_000 + i % 5000))));
        // A page of the table of keys, and the effect of a few evictions.
        let peak = PEAK.load(Ordering::Relaxed);
        assert!(peak < limit + 64 * KB, "{policy}: {} over", peak - limit);
        let evicted = client.evicted();
        assert!(evicted >= 30_000 && client.keys() as u64 == 60_000 - evicted, "{policy}: {evicted}");
    }
}

#[test]
fn without_volatile_keys_a_volatile_policy_refuses() {
    let client = Client::new();
    client.policy("volatile-ttl");
    (0..100).for_each(|i| assert_ok(&client.says(&format!("SET key:{i} v"))));
    client.says("SET going v EX 1000");
    client.leave(0);
    assert_ok(&client.says("CONFIG SET maxmemory 1"));
    assert_oom(&client.says("SET k v"));
    assert_eq!((1, 100), (client.evicted(), client.keys()));
}

#[test]
fn what_is_being_freed_is_not_evicted_twice() {
    let client = Client::new();
    client.policy("allkeys-lru");
    let (field, empty) = (vec![b'x'; 1000], memory::used());
    for key in 0..60u8 {
        for i in 0..1000u16 {
            client.call(&[b"HSET", &[b'h', key], &i.to_le_bytes(), &field]);
        }
    }
    let one = (memory::used() - empty) / 60;
    let (before, over) = (memory::used(), 10 * MB);
    assert_ok(&client.says(&format!("CONFIG SET maxmemory {}", before - over)));
    // The values are freed in another thread, which may not have begun.
    let (evicted, least) = (client.evicted(), over.div_ceil(one));
    assert!((least..=least + 2).contains(&evicted), "{evicted} of about {one} bytes for {over}");
    assert_ok(&client.says("SET k v"));
}

#[test]
fn a_small_tenacity_leaves_the_rest_for_later() {
    let client = Client::new();
    assert_ok(&client.says("CONFIG SET maxmemory-policy allkeys-lru maxmemory-eviction-tenacity 0"));
    (0..20_000).for_each(|i| assert_ok(&client.says(&format!("SET key:{i} value-{i}"))));
    assert_ok(&client.says(&format!("CONFIG SET maxmemory {}", memory::used() / 2)));
    let first = client.evicted();
    assert!(first > 0 && first < 2000, "{first}");
    // The command runs, though more is used than may be; the next one goes on, and so does the housekeeper.
    assert_ok(&client.says("SET k v"));
    assert!(client.evicted() > first);
    for _ in 0..10_000 {
        if !client.store.enter().state().is_over_limit() {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    assert!(!client.store.enter().state().is_over_limit() && client.keys() > 0);
}

#[test]
fn the_log_has_what_was_evicted() {
    let client = Client::new();
    client.policy("allkeys-lru");
    {
        let mut baton = client.store.enter();
        let state = baton.state();
        state.wants = Wants::REDO;
        state.recorded = Some(Vec::new());
    }
    client.fill("t", 5_000);
    (0..5_000).for_each(|i| assert_ok(&client.says(&format!("SET key:{i} value-{i}"))));
    client.sql("CREATE TABLE u (id INTEGER PRIMARY KEY, a INTEGER, b TEXT)");
    client.leave(0);
    // What is recorded is kept here, and takes more than was evicted for it: so this is the end of all keys, or near it.
    (0..500).for_each(|i| drop(client.says(&format!("SET more:{i} value-{i}"))));
    drop(client.sql("INSERT INTO u SELECT * FROM t"));
    assert!(client.evicted() > 500);
    client.says("CONFIG SET maxmemory 0");
    client.says("SET last v");
    let mut baton = client.store.enter();
    let state = baton.state();
    let (mut keyspace, mut tables) = (Keyspace::new(16), Tables::new(Box::new(peryton_core::engine::Memory::new())));
    for effect in state.recorded.as_ref().unwrap() {
        let mut record = Vec::new();
        redo::encode(effect, &mut record);
        assert!(redo::replay(&record, &mut keyspace, &mut tables).is_ok());
    }
    assert_eq!(state.keyspace.digest(), keyspace.digest());
    assert_eq!(state.tables.digest().unwrap(), tables.digest().unwrap());
}
