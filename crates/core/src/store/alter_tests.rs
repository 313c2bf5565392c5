//! A schema change as the doors beside plain SQL see it: long reads, transactions, row commands, Lua, triggers, batches.

use super::tests::Client;
use super::*;
use crate::env::simulated::SimulatedFiles;
use crate::reply::Reply;

fn sql(client: &Client, text: &str) -> Reply {
    let reply = client.call(&["SQL", text]);
    assert!(!matches!(reply, Reply::Error(_)), "{text}: {reply:?}");
    reply
}

/// Rows as text, a line each; the first line has the names.
fn shown(reply: Reply) -> Vec<String> {
    let cell = |reply: &Reply| match reply {
        Reply::Nil => "-".to_string(),
        Reply::Int(n) => n.to_string(),
        Reply::Double(r) => format!("{r:?}"),
        Reply::Verbatim(_, text) | Reply::Bulk(text) => String::from_utf8_lossy(text).into_owned(),
        other => panic!("{other:?}"),
    };
    let row = |reply: &Reply| match reply {
        Reply::Array(row) => row.iter().map(cell).collect::<Vec<_>>().join("|"),
        other => cell(other),
    };
    match reply {
        Reply::Array(rows) => rows.iter().map(row).collect(),
        Reply::Map(pairs) => pairs.iter().flat_map(|(name, value)| [cell(name), cell(value)]).collect(),
        other => panic!("{other:?}"),
    }
}

fn three() -> Client {
    let client = Client::new();
    sql(&client, "CREATE TABLE t (id INTEGER PRIMARY KEY, a INT, b TEXT)");
    sql(&client, "INSERT INTO t VALUES (1, 10, 'x'), (2, 20, 'y'), (3, 30, 'z')");
    client
}

#[test]
fn a_long_read_that_left_before_the_change_ends_with_the_old_definition() {
    let client = three();
    let other = client.another();
    client.call(&["CONFIG", "SET", "statement-slice", "0"]);
    let wait =
        "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n WHERE x < 300000) SELECT count(*) FROM n";
    assert_eq!(Reply::None, client.send(&["SQL", &format!("SELECT t.*, ({wait}) AS n FROM t")]));
    sql(&other, "ALTER TABLE t DROP COLUMN a, ADD COLUMN c INT DEFAULT 7, RENAME b TO bb");
    assert_eq!("id|a|b|n", shown(client.late())[0]);
    let now = shown(sql(&client, "SELECT * FROM t"));
    assert_eq!(["id|bb|c", "1|x|7", "2|y|7", "3|z|7"], *now);
    // One that leaves now, over rows of both versions.
    sql(&other, "UPDATE t SET c = 8 WHERE id = 2");
    assert_eq!(Reply::None, client.send(&["SQL", &format!("SELECT t.*, ({wait}) AS n FROM t")]));
    assert_eq!("2|y|8|300000", shown(client.late())[2]);
}

#[test]
fn an_open_transaction_hears_of_the_change_and_its_other_tables_go_on() {
    let client = three();
    let other = client.another();
    sql(&client, "CREATE TABLE u (id INTEGER PRIMARY KEY)");
    client.call(&["BEGIN"]);
    sql(&client, "INSERT INTO t VALUES (4, 40, 'w')");
    sql(&client, "INSERT INTO u VALUES (1)");
    assert!(client.error(&["SQL", "ALTER TABLE t ADD c INT"]).contains("inside a transaction"));
    sql(&other, "ALTER TABLE t ADD c INT DEFAULT 7");
    let error = client.error(&["SQL", "SELECT * FROM t"]);
    assert!(error.starts_with("CONFLICT 40001 table t: its definition has changed"), "{error}");
    sql(&client, "INSERT INTO u VALUES (2)");
    assert!(client.error(&["COMMIT"]).starts_with("CONFLICT 40001 table t: its definition has changed"));
    assert_eq!(["n", "0"], *shown(sql(&client, "SELECT count(*) AS n FROM u")));
    assert_eq!(["n", "3"], *shown(sql(&client, "SELECT count(*) AS n FROM t")));
    // Without rows of the table it commits.
    client.call(&["BEGIN"]);
    sql(&client, "INSERT INTO u VALUES (1)");
    sql(&other, "ALTER TABLE t DROP c");
    assert!(!matches!(client.call(&["COMMIT"]), Reply::Error(_)));
    assert_eq!(["n", "1"], *shown(sql(&client, "SELECT count(*) AS n FROM u")));
}

#[test]
fn row_commands_and_batches_know_the_new_columns() {
    let client = three();
    client.call(&["TABLE.GET", "t", "1"]);
    client.call(&["SQL.MANY", "iit", "INSERT INTO t VALUES (?, ?, ?)", "4", "40", "w"]);
    sql(&client, "ALTER TABLE t ADD c INT NOT NULL DEFAULT 7, DROP a");
    assert_eq!(["id", "1", "b", "x", "c", "7"], *shown(client.call(&["TABLE.GET", "t", "1"])));
    client.call(&["TABLE.PUT", "t", "id", "2", "c", "9"]);
    client.call(&["TABLE.PUT", "t", "id", "5", "b", "v"]);
    assert_eq!(["id", "2", "b", "-", "c", "9"], *shown(client.call(&["TABLE.GET", "t", "2"])));
    assert_eq!(["id", "5", "b", "v", "c", "7"], *shown(client.call(&["TABLE.GET", "t", "5"])));
    assert!(client.error(&["TABLE.PUT", "t", "id", "6", "a", "1"]).contains("no column named a"));
    assert!(client.error(&["SQL.MANY", "iit", "INSERT INTO t VALUES (?, ?, ?)", "7", "1", "w"]).contains("CONSTRAINT"));
    client.call(&["SQL.MANY", "iti", "INSERT INTO t VALUES (?, ?, ?)", "7", "u", "1", "8", "t", "2"]);
    let rows = shown(sql(&client, "SELECT * FROM t ORDER BY id"));
    assert_eq!(["id|b|c", "1|x|7", "2|-|9", "3|z|7", "4|w|7", "5|v|7", "7|u|1", "8|t|2"], *rows);
}

const LIBRARY: &str = r#"#!lua name=l
redis.register_function('tell', function(e)
  local function words(row)
    if not row then return '-' end
    local names = {}
    for name in pairs(row) do names[#names + 1] = name .. '=' .. tostring(row[name]) end
    table.sort(names)
    return table.concat(names, ',')
  end
  redis.call('RPUSH', 'told', e.trigger .. ' ' .. words(e.old) .. ' ' .. words(e.new))
end)
redis.register_function('read', function(keys, args)
  local row = peryton.sql('SELECT * FROM t WHERE id = ?', 1)[1]
  local got = peryton.get('t', 2)
  return {tostring(row.a), tostring(row.c), tostring(got.c)}
end)
redis.register_function{function_name = 'half', flags = {'atomic'}, callback = function(keys, args)
  redis.call('SET', 'k', 1)
  redis.call('SQL', 'UPDATE t SET b = ? WHERE id = 1', 'changed')
  redis.call('SQL', 'ALTER TABLE t ADD late INT DEFAULT 5')
  redis.call('SQL', 'UPDATE t SET late = 6 WHERE id = 2')
  if args[1] == 'fail' then error('no') end
end}
"#;

#[test]
fn triggers_and_functions_see_the_rows_as_they_are_now() {
    let client = three();
    assert_eq!(Reply::bulk("l"), client.call(&["FUNCTION", "LOAD", LIBRARY]));
    sql(&client, "CREATE TRIGGER u AFTER UPDATE OF a ON t WHEN (new.a > 10 AND old.b <> 'no') CALL tell");
    sql(&client, "CREATE TRIGGER d AFTER DELETE ON t CALL tell");
    assert_eq!(["10", "nil", "nil"], *shown(client.call(&["FCALL", "read", "0"])));
    sql(&client, "ALTER TABLE t ADD c INT DEFAULT 7");
    assert_eq!(["10", "7", "7"], *shown(client.call(&["FCALL", "read", "0"])));
    assert!(client.error(&["SQL", "ALTER TABLE t DROP a"]).contains("trigger u needs it"));
    assert!(client.error(&["SQL", "ALTER TABLE t DROP b"]).contains("trigger u needs it"));
    sql(&client, "ALTER TABLE t RENAME a TO aa, RENAME b TO \"b b\"");
    let made = shown(sql(&client, "SHOW CREATE TRIGGER u")).join(" ");
    assert!(made.contains("UPDATE OF aa ON t") && made.contains("new.aa > 10 AND old.\"b b\" <> 'no'"), "{made}");
    sql(&client, "UPDATE t SET aa = 11 WHERE id = 1");
    // Another form, and so another position.
    sql(&client, "ALTER TABLE t ALTER aa TYPE TEXT");
    sql(&client, "UPDATE t SET c = 0 WHERE id = 1");
    sql(&client, "UPDATE t SET aa = '99' WHERE id = 1");
    sql(&client, "DELETE FROM t WHERE id = 2");
    let told = shown(client.call(&["LRANGE", "told", "0", "-1"]));
    let expected = [
        "u aa=10,b b=x,c=7,id=1 aa=11,b b=x,c=7,id=1",
        "u aa=11,b b=x,c=0,id=1 aa=99,b b=x,c=0,id=1",
        "d aa=20,b b=y,c=7,id=2 -",
    ];
    assert_eq!(expected, *told);
}

#[test]
fn an_atomic_function_that_fails_takes_its_schema_change_back() {
    let client = three();
    client.call(&["FUNCTION", "LOAD", LIBRARY]);
    let digest = |client: &Client| client.store.enter().state().tables.digest().unwrap();
    let before = digest(&client);
    assert!(client.error(&["FCALL", "half", "0", "fail"]).contains("no"));
    assert_eq!(before, digest(&client));
    assert_eq!(["id|a|b", "1|10|x"], *shown(sql(&client, "SELECT * FROM t WHERE id = 1")));
    client.call(&["FCALL", "half", "0", "go"]);
    let rows = shown(sql(&client, "SELECT * FROM t ORDER BY id"));
    assert_eq!(["id|a|b|late", "1|10|changed|5", "2|20|y|6", "3|30|z|5"], *rows);
}

#[test]
fn rows_of_old_versions_survive_a_checkpoint_and_what_comes_after() {
    let files = SimulatedFiles::new(7);
    let open = |files: &SimulatedFiles| {
        let store = Store::open(Options { files: Some(Arc::new(files.clone())), ..Options::default() }).unwrap();
        let session = store.enter().open_session(Door::Embedded, Arc::new(crate::session::NoWaker));
        Client::of(store, session)
    };
    let client = open(&files);
    sql(&client, "CREATE TABLE t (id INTEGER PRIMARY KEY, a INT, b TEXT)");
    sql(&client, "INSERT INTO t VALUES (1, 10, 'x'), (2, 20, 'y'), (3, 30, 'z')");
    sql(&client, "ALTER TABLE t ADD c TEXT DEFAULT 'c', DROP a");
    sql(&client, "UPDATE t SET b = 'yy' WHERE id = 2");
    assert!(!matches!(client.call(&["SAVE"]), Reply::Error(_)));
    sql(&client, "ALTER TABLE t RENAME c TO cc, ADD d INT DEFAULT 4, ALTER cc SET DEFAULT 'other'");
    sql(&client, "INSERT INTO t (id) VALUES (4)");
    sql(&client, "UPDATE t SET d = 5 WHERE id = 3");
    let expected = ["id|b|cc|d", "1|x|c|4", "2|yy|c|4", "3|z|c|5", "4|-|other|4"];
    let made = shown(sql(&client, "SHOW CREATE TABLE t"));
    drop(client);
    for _ in 0..2 {
        let client = open(&files);
        assert_eq!(expected, *shown(sql(&client, "SELECT * FROM t ORDER BY id")));
        assert_eq!(made, shown(sql(&client, "SHOW CREATE TABLE t")));
        let columns = "SELECT column_name AS name FROM information_schema.columns WHERE table_name = 't'";
        assert_eq!(["name", "id", "b", "cc", "d"], *shown(sql(&client, columns)));
        assert!(!matches!(client.call(&["SAVE"]), Reply::Error(_)));
    }
}
