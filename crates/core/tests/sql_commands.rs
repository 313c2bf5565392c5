//! SQL as commands: parameters, bare verbs, rows by key, transactions, keys beside tables.

use peryton_core::reply::Reply;
use peryton_core::session::{Door, NoWaker, SessionId};
use peryton_core::store::Store;
use std::sync::Arc;

struct Client {
    store: Store,
    session: SessionId,
}

impl Client {
    fn new() -> Client {
        let store = Store::open(Default::default()).unwrap();
        let session = store.enter().open_session(Door::Embedded, Arc::new(NoWaker));
        Client { store, session }
    }

    fn send(&self, args: &[&str]) -> Reply {
        let args: Vec<&[u8]> = args.iter().map(|a| a.as_bytes()).collect();
        self.store.enter().execute(self.session, &args)
    }

    /// A reply as text: rows as (a,b), everything else as people would write it.
    fn ask(&self, args: &[&str]) -> String {
        show(&self.send(args))
    }

    /// A request split at spaces.
    fn line(&self, line: &str) -> String {
        self.ask(&line.split(' ').collect::<Vec<_>>())
    }
}

fn show(reply: &Reply) -> String {
    match reply {
        Reply::Int(i) => i.to_string(),
        Reply::Double(r) => format!("{r:?}"),
        Reply::Nil | Reply::NilArray => "nil".into(),
        Reply::Ok => "OK".into(),
        Reply::Status(text) => text.to_string(),
        Reply::Bulk(bytes) => format!("<{}>", String::from_utf8_lossy(bytes)),
        Reply::Verbatim(_, bytes) => String::from_utf8_lossy(bytes).into_owned(),
        Reply::Array(items) => format!("({})", items.iter().map(show).collect::<Vec<_>>().join(",")),
        Reply::Map(pairs) => {
            let pairs: Vec<String> =
                pairs.iter().map(|(name, value)| format!("{}:{}", show(name), show(value))).collect();
            format!("{{{}}}", pairs.join(","))
        }
        Reply::Error(error) => error.to_string(),
        other => format!("{other:?}"),
    }
}

fn filled() -> Client {
    let client = Client::new();
    assert_eq!("0", client.ask(&["SQL", "CREATE TABLE t (id INT PRIMARY KEY, name TEXT, x REAL, b BLOB)"]));
    assert_eq!("2", client.ask(&["SQL", "INSERT INTO t VALUES (1, 'one', 1.5, x'6162'), (2, 'two', NULL, NULL)"]));
    client
}

#[test]
fn parameters_and_reply_types() {
    let client = filled();
    let names = "(<id>,<name>,<x>,<b>)";
    assert_eq!(format!("({names},(1,one,1.5,<ab>))"), client.ask(&["SQL", "SELECT * FROM t WHERE id = ?", "1"]));
    assert_eq!(format!("({names},(2,two,nil,nil))"), client.ask(&["SQL", "SELECT * FROM t WHERE name = ?", "two"]));
    assert_eq!("1", client.ask(&["SQL.BIND", "irtb", "INSERT INTO t VALUES (?, ?3, ?2, ?4)", "3", "2.5", "7", "\0"]));
    assert_eq!("((<typeof(name)>),(text))", client.ask(&["SQL", "SELECT typeof(name) FROM t WHERE id = 3"]));
    assert_eq!("1", client.ask(&["SQL.BIND", "ni", "UPDATE t SET name = ? WHERE id = ?", "", "3"]));
    assert_eq!("((<n>),(1))", client.ask(&["SQL", "SELECT count(*) AS n FROM t WHERE name IS NULL"]));
    assert_eq!("SQL 1 types for 2 parameters", client.ask(&["SQL.BIND", "i", "SELECT ?, ?", "1", "2"]));
    assert_eq!("SQL parameter 1 is not an integer", client.ask(&["SQL.BIND", "i", "SELECT ?", "x"]));
    assert_eq!(
        "SQL 07001 the statement has 1 parameters, 2 given; hint: give as many values as there are ? in the statement, or \
         the highest number of ?1, ?2, ...",
        client.ask(&["SQL", "SELECT ?", "1", "2"])
    );
}

#[test]
fn verbs_typed_bare() {
    let client = Client::new();
    assert_eq!("0", client.line("CREATE TABLE t (id INT PRIMARY KEY, n INT)"));
    assert_eq!("2", client.line("INSERT INTO t VALUES (1, 10), (2, 20)"));
    assert_eq!("1", client.line("update t set n = n + 1 where id = 1"));
    assert_eq!("((<id>,<n>),(1,11),(2,20))", client.line("SELECT * FROM t ORDER BY id"));
    assert_eq!(
        "((<plan>,<table>,<path>,<index>,<terms>,<rows>),(hash look-up in PRIMARY of t by id,t,hash look-up,PRIMARY,id = ?,1))",
        client.line("EXPLAIN SELECT * FROM t WHERE id = 1")
    );
    assert_eq!("((<q>),(1))", client.line("WITH c AS (SELECT 1 AS q) SELECT q FROM c"));
    assert_eq!("((<name>,<rows>),(t,2))", client.line("SHOW TABLES"));
    assert_eq!("OK", client.line("SELECT 5"));
    assert_eq!("ERR DB index is out of range", client.line("SELECT 99"));
    assert_eq!("1", client.line("DELETE FROM t WHERE id = 2"));
    assert_eq!("0", client.line("ALTER TABLE t ADD x INT DEFAULT 3"));
    assert_eq!("((<id>,<n>,<x>),(1,11,3))", client.line("SELECT * FROM t WHERE id = 1"));
    assert_eq!("0", client.line("DROP TABLE t"));
}

#[test]
fn rows_by_key_without_sql() {
    let client = filled();
    let one = "{<id>:1,<name>:one,<x>:1.5,<b>:<ab>}";
    assert_eq!(one, client.line("TABLE.GET t 1"));
    assert_eq!("nil", client.line("TABLE.GET t 7"));
    assert_eq!("nil", client.line("TABLE.GET t abc"));
    assert_eq!(format!("({one},nil,{one})"), client.line("TABLE.MGET t 1 7 1"));
    assert_eq!("1", client.line("TABLE.PUT t id 1 name uno b raw"));
    assert_eq!("{<id>:1,<name>:uno,<x>:nil,<b>:<raw>}", client.line("TABLE.GET t 1"));
    assert_eq!("1", client.line("TABLE.PUT t id 9"));
    assert_eq!("2", client.line("TABLE.DEL t 1 9 77"));
    assert_eq!("(<0>,({<id>:2,<name>:two,<x>:nil,<b>:nil}))", client.line("TABLE.SCAN t 0"));
    assert!(client.line("TABLE.INFO t").starts_with("{<name>:<t>,<engine>:<memory>,<rows>:1,"));
    assert!(client.line("TABLE.GET nope 1").contains("no such table: nope"));
    assert!(client.line("TABLE.PUT t id x").contains("cannot store TEXT 'x' in INT"));
    assert!(client.line("TABLE.PUT t nope 1").contains("no column named nope"));
    assert!(client.line("TABLE.GET t 1 2").contains("TABLE.MGET"));
}

#[test]
fn composite_keys_and_scans() {
    let client = Client::new();
    client.line("CREATE TABLE p (a INT, b TEXT, c INT, PRIMARY KEY (a, b))");
    for i in 0..25 {
        client.ask(&["SQL", "INSERT INTO p VALUES (?, ?, ?)", &(i % 5).to_string(), &format!("k{i}"), &i.to_string()]);
    }
    assert_eq!("{<a>:3,<b>:k8,<c>:8}", client.line("TABLE.GET p 3 k8"));
    assert_eq!("({<a>:3,<b>:k8,<c>:8},nil)", client.line("TABLE.MGET p 3 k8 4 k8"));
    assert!(client.line("TABLE.GET p 3").contains("a key of table p has 2 values, 1 given"));
    let (mut cursor, mut seen) = ("0".to_string(), 0);
    loop {
        let Reply::Array(page) = client.send(&["TABLE.SCAN", "p", &cursor, "COUNT", "7"]) else { panic!() };
        let Reply::Array(rows) = &page[1] else { panic!() };
        seen += rows.len();
        cursor = show(&page[0]).trim_matches(['<', '>']).to_string();
        if cursor == "0" {
            break;
        }
    }
    assert_eq!(25, seen);
}

#[test]
fn statements_in_transactions_and_beside_keys() {
    let client = filled();
    assert_eq!("OK", client.line("MULTI"));
    assert_eq!("QUEUED", client.ask(&["SQL", "INSERT INTO t (id) VALUES (5)"]));
    assert_eq!("QUEUED", client.line("SET k v"));
    assert_eq!("QUEUED", client.ask(&["SQL", "INSERT INTO t (id) VALUES (5)"]));
    let replies = client.line("EXEC");
    assert_eq!(
        "(1,OK,CONSTRAINT 23505 UNIQUE constraint failed: t.id: 5 exists; hint: INSERT OR IGNORE and OR REPLACE say what \
         to do then)",
        replies
    );
    client.line("ZADD board 10 1 5.5 2 3 nobody");
    let joined = "SELECT t.name, z.score FROM zset('board') z JOIN t ON t.id = z.member ORDER BY z.score DESC";
    assert_eq!("((<name>,<score>),(one,10.0),(two,5.5))", client.ask(&["SQL", joined]));
    client.line("HSET h f 1 g 2");
    assert_eq!("((<field>,<value>),(f,1),(g,2))", client.ask(&["SQL", "SELECT * FROM hash('h') ORDER BY field"]));
    client.line("RPUSH l a b");
    assert_eq!("((<value>),(b),(a))", client.ask(&["SQL", "SELECT value FROM list('l') ORDER BY position DESC"]));
    client.line("SADD s 2 3");
    assert_eq!("((<id>),(2))", client.ask(&["SQL", "SELECT id FROM t WHERE id IN (SELECT member FROM set('s'))"]));
    assert_eq!("((<value>),(v))", client.ask(&["SQL", "SELECT value FROM string('k')"]));
    assert!(client.ask(&["SQL", "SELECT * FROM hash('k')"]).starts_with("WRONGTYPE"));
    let keys = client.ask(&["SQL", "SELECT key, type FROM keys ORDER BY key"]);
    assert_eq!("((<key>,<type>),(board,zset),(h,hash),(k,string),(l,list),(s,set))", keys);
    client.line("FLUSHALL");
    assert_eq!("((<n>),(3))", client.ask(&["SQL", "SELECT count(*) AS n FROM t"]));
}
