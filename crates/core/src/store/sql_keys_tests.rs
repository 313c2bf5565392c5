//! Keys and tables together: the keyspace read by SQL, changed by SQL, and made of rows.

use super::tests::Client;
use super::*;
use crate::env::Xoshiro;

fn rows(client: &Client, text: &str) -> Vec<String> {
    // A read that takes long goes on in another thread.
    match to_the_end(client, &["SQL", text]) {
        Reply::Array(rows) => rows.into_iter().skip(1).map(|row| shown(&row)).collect(),
        other => panic!("{text}: {other:?}"),
    }
}

fn shown(reply: &Reply) -> String {
    match reply {
        Reply::Nil => "NULL".into(),
        Reply::Int(i) => i.to_string(),
        Reply::Double(r) => r.to_string(),
        Reply::Bulk(bytes) | Reply::Verbatim(_, bytes) => String::from_utf8_lossy(bytes).into_owned(),
        Reply::Array(items) | Reply::Set(items) => items.iter().map(shown).collect::<Vec<_>>().join(" "),
        other => format!("{other:?}"),
    }
}

fn plan(client: &Client, text: &str) -> String {
    rows(client, &format!("EXPLAIN {text}")).join("\n").replace(" NULL", "")
}

/// Runs a command and then its slices, as the housekeeper would.
fn to_the_end(client: &Client, args: &[&str]) -> Reply {
    let mut reply = client.call(args);
    while reply == Reply::None {
        std::thread::sleep(Duration::from_millis(2));
        let mut baton = client.store.enter();
        baton.keep_house(Vec::new());
        let session = baton.state.sessions.get_mut(&client.session).unwrap();
        if let Some(last) = session.outbox.pop() {
            reply = last;
        }
    }
    reply
}

#[test]
fn what_is_looked_up_and_what_is_read_in_order_is_what_a_table_gives() {
    let client = Client::new();
    let mut random = Xoshiro::from_seed(11);
    client.call(&["SQL", "CREATE TABLE z (member TEXT, score REAL, rank INTEGER)"]);
    for size in [0, 1, 5, 100, 700] {
        client.call(&["DEL", "k"]);
        client.call(&["SQL", "DELETE FROM z"]);
        for i in 0..size {
            let score = (random.below(60) as f64 - 30.0) / 2.0;
            client.call(&["ZADD", "k", &score.to_string(), &format!("m{i}")]);
        }
        client.call(&["SQL", "INSERT INTO z SELECT member, score, rank FROM zset('k')"]);
        for i in 0..60 {
            // Every third read goes on in another thread, on a copy of the value.
            client.call(&["CONFIG", "SET", "statement-slice", if i % 3 == 0 { "0" } else { "60000000" }]);
            let number = random.below(70) as i64 - 35;
            let bound = if random.below(2) == 0 { format!("{number}") } else { format!("{number}.5") };
            let conditions = [
                format!("score >= {bound}"),
                format!("score > {bound} AND score <= {number} + 10"),
                format!("score < {bound}"),
                format!("score = {bound}"),
                format!("score BETWEEN {number} AND {bound}"),
                format!("member = 'm{}'", random.below(120)),
                format!("member IN ('m1', 'm{}', 'x')", random.below(120)),
                format!("member = 'M1' COLLATE NOCASE AND score > {bound}"),
                format!("score > 'x' OR score < '{bound}'"),
                "score > NULL".to_string(),
                format!("rank < {}", random.below(40)),
                "true".to_string(),
            ];
            let condition = &conditions[random.below(conditions.len() as u64) as usize];
            let orders =
                ["ORDER BY score, member", "ORDER BY score DESC, member", "ORDER BY rank", "ORDER BY rank DESC"];
            let order = orders[random.below(4) as usize];
            let limit = ["", " LIMIT 3", " LIMIT 2 OFFSET 4"][random.below(3) as usize];
            let query = |from: &str| format!("SELECT member, score, rank FROM {from} WHERE {condition} {order}{limit}");
            assert_eq!(rows(&client, &query("z")), rows(&client, &query("zset('k')")), "{size}: {}", query("z"));
            let ranks = |from: &str| format!("SELECT rank FROM {from} WHERE {condition} ORDER BY score DESC{limit}");
            let scores = |rows: Vec<String>| {
                let score = |rank: &String| self::rows(&client, &format!("SELECT score FROM z WHERE rank = {rank}"));
                rows.iter().flat_map(score).collect::<Vec<_>>()
            };
            // Equal scores come in any order.
            assert_eq!(scores(rows(&client, &ranks("z"))), scores(rows(&client, &ranks("zset('k')"))), "{condition}");
        }
    }
}

#[test]
fn access_paths_are_shown() {
    let client = Client::new();
    for (text, path) in [
        ("SELECT * FROM zset('k') WHERE score > 3 ORDER BY score DESC", "range of scores in zset, from the end"),
        ("SELECT * FROM zset('k') WHERE member = 'a'", "look-up in zset"),
        ("SELECT * FROM hash('k') WHERE field = 'a'", "look-up in hash"),
        ("SELECT * FROM set('k') WHERE member = 'a' COLLATE NOCASE", "all of set"),
        ("SELECT * FROM list('k') WHERE position = 2", "look-up in list"),
        ("SELECT * FROM keys WHERE key = 'a'", "one key of keys"),
        ("SELECT * FROM keys WHERE key GLOB 'a:*'", "scan of keys with a pattern"),
        ("DELETE FROM keys WHERE key GLOB 'a:*'", "scan of keys with a pattern"),
    ] {
        let plan = plan(&client, text);
        assert!(plan.ends_with(path) && !plan.contains("sort"), "{text}: {plan}");
    }
}

#[test]
fn values_of_all_types_are_looked_up() {
    let client = Client::new();
    client.call(&["HSET", "h", "a", "1", "b", "2"]);
    client.call(&["RPUSH", "l", "x", "y", "z"]);
    client.call(&["SADD", "s", "1", "2", "3"]);
    client.call(&["SET", "str", "v"]);
    client.call(&["SQL", "CREATE TABLE t (id INT PRIMARY KEY, name TEXT)"]);
    client.call(&["SQL", "INSERT INTO t SELECT value, field FROM hash('h')"]);
    for (text, expected) in [
        ("SELECT * FROM hash('h') WHERE field = 'b'", "b 2"),
        ("SELECT * FROM hash('h') WHERE field = 'c'", ""),
        ("SELECT value FROM list('l') WHERE position = 1", "y"),
        ("SELECT value FROM list('l') WHERE position = -1", ""),
        ("SELECT value FROM list('l') WHERE position = '2'", "z"),
        ("SELECT member FROM set('s') WHERE member = 3", "3"),
        ("SELECT member FROM set('s') WHERE member = 4", ""),
        ("SELECT value FROM string('str')", "v"),
        ("SELECT name FROM t WHERE id IN (SELECT member FROM set('s')) ORDER BY id", "a|b"),
        ("SELECT t.name, h.value FROM t JOIN hash('h') h ON h.field = t.name ORDER BY 1", "a 1|b 2"),
        ("SELECT key, type, ttl_ms, encoding FROM keys WHERE key = 'h'", "h hash NULL listpack"),
        ("SELECT key FROM keys WHERE key IN ('h', 's', 'none') ORDER BY key", "h|s"),
        ("SELECT bytes > 0 FROM keys WHERE key GLOB 's*' ORDER BY key", "1|1"),
        ("SELECT count(*), count(bytes) FROM keys", "4 4"),
    ] {
        assert_eq!(expected, rows(&client, text).join("|"), "{text}");
    }
    assert!(client.error(&["SQL", "SELECT * FROM set('h')"]).starts_with("WRONGTYPE"));
}

#[test]
fn rows_are_stored_into_keys() {
    let client = Client::new();
    client.call(&["DEBUG", "EFFECTS", "START"]);
    client.call(&["SQL", "CREATE TABLE t (id INT PRIMARY KEY, name TEXT, score REAL)"]);
    client.call(&["SQL", "INSERT INTO t VALUES (1, 'a', 1.5), (2, 'b', -2), (3, 'a', 7), (4, NULL, 0)"]);
    let named = "FROM t WHERE name IS NOT NULL ORDER BY id";
    for (text, count, command, expected) in [
        (format!("SELECT name, score {named} STORE INTO HASH 'k'"), 2, ["HGET", "k", "a"], "7"),
        (format!("SELECT name, score {named} STORE INTO ZSET 'k'"), 2, ["ZSCORE", "k", "a"], "7"),
        (format!("SELECT name {named} STORE INTO LIST 'k'"), 3, ["LINDEX", "k", "2"], "a"),
        (format!("SELECT name {named} STORE INTO SET 'k'"), 2, ["SISMEMBER", "k", "b"], "1"),
        ("WITH q AS (SELECT id FROM t) SELECT id FROM q STORE INTO LIST 'k'".into(), 4, ["LLEN", "k", ""], "4"),
        ("VALUES ('x', '3.25') STORE INTO ZSET 'k'".into(), 1, ["ZSCORE", "k", "x"], "3.25"),
    ] {
        assert_eq!(Reply::Int(count), client.call(&["SQL", &text]), "{text}");
        let command: Vec<&str> = command.into_iter().filter(|word| !word.is_empty()).collect();
        assert_eq!(expected, shown(&client.call(&command)), "{text}");
    }
    client.call(&["EXPIRE", "k", "100"]);
    assert_eq!(Reply::Int(2), client.call(&["SQL", "SELECT id FROM t WHERE id < ? STORE INTO SET ?", "3", "k"]));
    assert_eq!(Reply::Int(-1), client.call(&["TTL", "k"]));
    // No rows, no key; and bare, in a transaction, in a script.
    assert_eq!(Reply::Int(0), client.call(&["SQL", "SELECT id FROM t WHERE false STORE INTO SET 'k'"]));
    assert_eq!(Reply::Int(0), client.call(&["EXISTS", "k"]));
    assert_eq!(Reply::Int(4), client.call(&["SELECT", "id FROM t STORE INTO LIST 'bare'"]));
    client.call(&["MULTI"]);
    client.call(&["SQL", "SELECT id FROM t STORE INTO LIST 'multi'"]);
    client.call(&["EXEC"]);
    assert_eq!(Reply::Int(4), client.call(&["LLEN", "multi"]));
    let script = "return redis.call('SQL', \"SELECT id FROM t STORE INTO LIST 'lua'\")";
    assert_eq!(Reply::Int(4), client.call(&["EVAL", script, "0"]));
    assert!(client.error(&["EVAL_RO", script, "0"]).contains("not allowed from read-only scripts"));
    for (text, message) in [
        ("SELECT id FROM t STORE INTO HASH 'lua'", "HASH takes two columns, field and value; the query has 1"),
        ("SELECT name FROM t ORDER BY id STORE INTO SET 'lua'", "row 4: a key holds no NULL"),
        ("SELECT id, name FROM t WHERE id < 4 STORE INTO ZSET 'lua'", "a score is a number, not a"),
        ("SELECT q FROM t STORE INTO SET 'lua'", "no such column: q"),
    ] {
        assert!(client.error(&["SQL", text]).contains(message), "{text}");
    }
    assert_eq!(Reply::Int(4), client.call(&["LLEN", "lua"]), "errors leave the key");
    assert_eq!(Reply::Ok, client.call(&["DEBUG", "EFFECTS", "CHECK"]));
}

#[test]
fn keys_are_deleted_in_slices() {
    let client = Client::new();
    client.call(&["DEBUG", "EFFECTS", "START"]);
    for i in 0..5000 {
        client.call(&["SET", &format!("{}:{i}", if i % 3 == 0 { "x" } else { "y" }), "v"]);
    }
    assert_eq!(Reply::Int(1667), to_the_end(&client, &["SQL", "DELETE FROM keys WHERE key GLOB 'x:*'"]));
    assert_eq!(Reply::Int(3333), client.call(&["DBSIZE"]));
    assert_eq!(Reply::Int(1), to_the_end(&client, &["DELETE", "FROM keys WHERE key = 'y:1'"]));
    assert_eq!(Reply::Int(7), client.call(&["SQL", "DELETE FROM keys WHERE type = 'string' LIMIT 7"]));
    // Nobody comes between a transaction's or a script's commands.
    client.call(&["MULTI"]);
    client.call(&["SQL", "DELETE FROM keys WHERE key GLOB 'y:1*'"]);
    client.call(&["DBSIZE"]);
    let Reply::Array(replies) = client.call(&["EXEC"]) else { panic!() };
    assert!(matches!(replies[0], Reply::Int(n) if n > 700), "{replies:?}");
    let script = "return redis.call('SQL', 'DELETE FROM keys')";
    assert_eq!(replies[1], client.call(&["EVAL", script, "0"]));
    assert_eq!(Reply::Int(0), client.call(&["DBSIZE"]));
    assert!(client.error(&["SQL", "DELETE FROM keys RETURNING key"]).contains("not supported yet"));
    assert_eq!(Reply::Ok, client.call(&["DEBUG", "EFFECTS", "CHECK"]));
}

#[test]
fn others_are_served_between_slices() {
    let client = Client::new();
    let other = client.another();
    (0..3000).for_each(|i| drop(client.call(&["SET", &format!("k{i}"), "v"])));
    // One hold of the baton, so that the housekeeper does not go on meanwhile.
    let mut baton = client.store.enter();
    let call = |baton: &mut Baton<'_>, client: &Client, args: &[&str]| {
        baton.execute(client.session, &args.iter().map(|arg| arg.as_bytes()).collect::<Vec<_>>())
    };
    assert_eq!(Reply::None, call(&mut baton, &client, &["SQL", "DELETE FROM keys"]));
    let Reply::Int(left) = call(&mut baton, &other, &["DBSIZE"]) else { panic!() };
    assert!(left > 0 && left < 3000, "{left} are left after the first slice");
    // A wait that is ended from outside takes the rest of the work with it.
    let id = client.session.to_string();
    assert_eq!(Reply::Int(1), call(&mut baton, &other, &["CLIENT", "UNBLOCK", &id]));
    drop(baton);
    std::thread::sleep(Duration::from_millis(3));
    client.store.enter().keep_house(Vec::new());
    assert_eq!(Reply::Int(left), other.call(&["DBSIZE"]));
}

#[test]
fn what_a_transaction_stores_and_deletes_is_its_own_until_commit() {
    let a = Client::new();
    let b = a.another();
    a.call(&["SQL", "CREATE TABLE t (id INT PRIMARY KEY)"]);
    a.call(&["SQL", "INSERT INTO t VALUES (1), (2), (3)"]);
    a.call(&["SET", "gone:1", "v"]);
    a.call(&["SET", "gone:2", "v"]);
    a.call(&["BEGIN"]);
    a.call(&["SQL", "INSERT INTO t VALUES (4)"]);
    assert_eq!(Reply::Int(4), a.call(&["SQL", "SELECT id FROM t STORE INTO LIST 'ids'"]));
    assert_eq!(Reply::Int(2), a.call(&["SQL", "DELETE FROM keys WHERE key GLOB 'gone:*'"]));
    assert_eq!(vec!["4"], rows(&a, "SELECT value FROM list('ids') WHERE position = 3"));
    assert_eq!(Reply::Int(2), b.call(&["EXISTS", "gone:1", "gone:2", "ids"]));
    a.call(&["ROLLBACK"]);
    assert_eq!(Reply::Int(2), b.call(&["EXISTS", "gone:1", "gone:2", "ids"]));
    a.call(&["BEGIN"]);
    assert_eq!(Reply::Int(3), a.call(&["SQL", "SELECT id FROM t STORE INTO LIST 'ids'"]));
    assert_eq!(Reply::Int(2), a.call(&["SQL", "DELETE FROM keys WHERE key GLOB 'gone:*'"]));
    a.call(&["COMMIT"]);
    assert_eq!(Reply::Int(3), b.call(&["LLEN", "ids"]));
    assert_eq!(Reply::Int(0), b.call(&["EXISTS", "gone:1", "gone:2"]));
}
