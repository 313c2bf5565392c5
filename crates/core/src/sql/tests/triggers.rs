//! Triggers of rows, with routines of the test in the place of Lua's.

use super::{Routine, TestStore, text_of};
use crate::error::{Code, Error, Result};
use crate::keyspace::Keyspace;
use crate::reply::Reply;
use crate::sql::run::{Fired, Firing};
use crate::table::datum::{Datum, DatumRef};
use crate::table::library::{FunctionDef, LibraryDef, ScriptFlags};
use crate::txn::{Effect, redo, undo};
use std::rc::Rc;
use std::sync::Arc;

/// Gives a store routines that triggers can call.
fn teach(store: &mut TestStore, routines: &[(&str, Rc<Routine>)]) {
    let function = |name: &str| FunctionDef { name: name.into(), description: None, flags: ScriptFlags::default() };
    let functions = routines.iter().map(|(name, _)| function(name)).collect();
    let library = LibraryDef { name: "test".into(), code: b"".as_slice().into(), functions };
    store.tables.put_library(Arc::new(library), &mut store.changes).unwrap();
    for (name, routine) in routines {
        store.routines.insert(name.to_string(), routine.clone());
    }
}

fn shown(row: Option<&[DatumRef<'_>]>) -> String {
    let row = row.map(|row| row.iter().map(ToString::to_string).collect::<Vec<_>>().join(","));
    row.map_or("-".into(), |row| format!("({row})"))
}

/// Writes what happened into the table `told`.
fn tell(store: &mut TestStore, firing: &Firing<'_>) -> Result<Fired> {
    let line = format!("{} {} {}", firing.trigger.name, shown(firing.old), shown(firing.new));
    store.try_run("INSERT INTO told (line) VALUES (?)", &[Datum::text(line)]).map(|_| Fired::default())
}

fn refuse(_: &mut TestStore, _: &Firing<'_>) -> Result<Fired> {
    Err(Error::new(Code::Constraint, "not today"))
}

/// Doubles the last column of the new row.
fn double(_: &mut TestStore, firing: &Firing<'_>) -> Result<Fired> {
    let mut new: Vec<Datum> = firing.new.unwrap().iter().map(|value| DatumRef::to_owned(*value)).collect();
    if let Some(Datum::Int(number)) = new.last_mut() {
        *number *= 2;
    }
    Ok(Fired { new: Some(new), refused: false })
}

fn store() -> TestStore {
    let mut store = TestStore::with(&[
        "CREATE TABLE told (n INTEGER PRIMARY KEY AUTO_INCREMENT, line TEXT)",
        "CREATE TABLE t (id INTEGER PRIMARY KEY, a TEXT DEFAULT 'd', b INTEGER)",
    ]);
    teach(&mut store, &[("tell", Rc::new(tell)), ("refuse", Rc::new(refuse)), ("double", Rc::new(double))]);
    store
}

/// What was told, and forgets it.
fn told(store: &mut TestStore) -> Vec<String> {
    let lines = store.rows("SELECT line FROM told ORDER BY n", &[]).iter().map(|row| text_of(&row[0])).collect();
    store.run("DELETE FROM told");
    lines
}

#[test]
fn every_write_of_a_row_fires_in_the_order_of_the_triggers() {
    let mut store = store();
    for timing in ["BEFORE", "AFTER"] {
        for event in ["INSERT", "UPDATE", "DELETE"] {
            let name = format!("{}{}", &timing[..1], &event[..1]);
            store.run(&format!("CREATE TRIGGER {name} {timing} {event} ON t FOR EACH ROW CALL tell"));
        }
    }
    for (statement, lines) in [
        ("INSERT INTO t VALUES (1, 'x', 2)", vec!["BI - (1,'x',2)", "AI - (1,'x',2)"]),
        (
            "INSERT INTO t (b, id) VALUES (3, 2), (4, 3)",
            vec!["BI - (2,'d',3)", "AI - (2,'d',3)", "BI - (3,'d',4)", "AI - (3,'d',4)"],
        ),
        ("UPDATE t SET b = b + 1 WHERE id = 1", vec!["BU (1,'x',2) (1,'x',3)", "AU (1,'x',2) (1,'x',3)"]),
        ("DELETE FROM t WHERE id = 1", vec!["BD (1,'x',3) -", "AD (1,'x',3) -"]),
        (
            "REPLACE INTO t VALUES (2, 'y', 0)",
            vec!["BI - (2,'y',0)", "BD (2,'d',3) -", "AD (2,'d',3) -", "AI - (2,'y',0)"],
        ),
        (
            "INSERT INTO t VALUES (2, 'z', 9) ON CONFLICT (id) DO UPDATE SET b = excluded.b",
            vec!["BI - (2,'z',9)", "BU (2,'y',0) (2,'y',9)", "AU (2,'y',0) (2,'y',9)"],
        ),
        ("INSERT OR IGNORE INTO t VALUES (2, 'z', 9)", vec!["BI - (2,'z',9)"]),
        ("INSERT INTO t SELECT id + 10, a, b FROM t WHERE id = 2", vec!["BI - (12,'y',9)", "AI - (12,'y',9)"]),
        ("TRUNCATE t", vec![]),
    ] {
        store.run(statement);
        assert_eq!(lines, told(&mut store), "{statement}");
    }
    assert_eq!(0, store.count("t"));
}

#[test]
fn keys_that_move_through_each_other_are_told_when_they_are_written() {
    let mut store = store();
    store.run("INSERT INTO t VALUES (1, 'x', 1), (2, 'y', 2)");
    store.run("CREATE TRIGGER u AFTER UPDATE OF id ON t CALL tell");
    store.run("UPDATE t SET id = 3 - id");
    let mut lines = told(&mut store);
    lines.sort();
    assert_eq!(vec!["u (1,'x',1) (2,'x',1)", "u (2,'y',2) (1,'y',2)"], lines);
    store.run("UPDATE t SET b = 7");
    assert!(told(&mut store).is_empty(), "it is not of b");
}

#[test]
fn a_before_trigger_changes_the_row_that_is_judged_then() {
    let mut store = store();
    store.run(
        "CREATE TABLE c (id INTEGER PRIMARY KEY, g INTEGER GENERATED ALWAYS AS (b + 1), b INTEGER CHECK (b < 10))",
    );
    store.run("CREATE TRIGGER d BEFORE INSERT ON c CALL double");
    store.run("CREATE TRIGGER e BEFORE UPDATE ON c CALL double");
    store.run("INSERT INTO c (id, b) VALUES (1, 2)");
    assert_eq!(vec![vec![Datum::Int(1), Datum::Int(5), Datum::Int(4)]], store.rows("SELECT * FROM c", &[]));
    let error = store.error("INSERT INTO c (id, b) VALUES (2, 5)");
    assert!(error.contains("CHECK constraint failed"), "{error}");
    store.run("UPDATE c SET id = 7");
    assert_eq!(vec![vec![Datum::Int(7), Datum::Int(9), Datum::Int(8)]], store.rows("SELECT * FROM c", &[]));
    assert!(store.error("UPDATE c SET b = 8").contains("CHECK constraint failed"));
}

#[test]
fn a_refusal_takes_the_whole_statement_back() {
    let mut store = store();
    store.run("INSERT INTO t VALUES (1, 'x', 1), (2, 'y', 2)");
    store.run("CREATE TRIGGER log AFTER UPDATE ON t CALL tell");
    store.run("CREATE TRIGGER no BEFORE UPDATE ON t WHEN (NEW.b > 5 AND OLD.id = 2) CALL refuse");
    let before = store.tables.digest().unwrap();
    let error = store.error("UPDATE t SET b = 9");
    assert!(error.contains("not today"), "{error}");
    assert_eq!(before, store.tables.digest().unwrap());
    store.run("UPDATE t SET b = 5");
    assert_eq!(2, told(&mut store).len());
    store.run("UPDATE t SET b = 9 WHERE id = 1");
    assert_eq!(vec!["log (1,'x',5) (1,'x',9)"], told(&mut store));
}

#[test]
fn a_trigger_that_takes_the_row_away_leaves_nothing_to_write() {
    let mut store = store();
    let remove = |store: &mut TestStore, firing: &Firing<'_>| {
        let id = DatumRef::to_owned(firing.old.unwrap()[0]);
        store.try_run("DELETE FROM t WHERE id = ?", &[id]).map(|_| Fired::default())
    };
    teach(&mut store, &[("remove", Rc::new(remove)), ("tell", Rc::new(tell))]);
    store.run("INSERT INTO t VALUES (1, 'x', 1), (2, 'y', 2)");
    store.run("CREATE TRIGGER r BEFORE UPDATE ON t WHEN OLD.id = 1 CALL remove");
    store.run("CREATE TRIGGER told AFTER UPDATE ON t CALL tell");
    assert_eq!(Reply::Int(1), store.run("UPDATE t SET b = 3"));
    assert_eq!(1, store.count("t"));
    assert_eq!(vec!["told (2,'y',2) (2,'y',3)"], told(&mut store));
}

#[test]
fn rows_that_are_put_back_while_they_are_replaced_end_the_statement() {
    let mut store = store();
    let again = |store: &mut TestStore, firing: &Firing<'_>| {
        let id = DatumRef::to_owned(firing.old.unwrap()[0]);
        store.try_run("INSERT INTO t (id) VALUES (?)", &[id]).map(|_| Fired::default())
    };
    teach(&mut store, &[("again", Rc::new(again))]);
    store.run("INSERT INTO t VALUES (1, 'x', 1)");
    store.run("CREATE TRIGGER again AFTER DELETE ON t CALL again");
    let error = store.error("REPLACE INTO t VALUES (1, 'y', 2)");
    assert!(error.contains("put back what is to be replaced"), "{error}");
    assert_eq!(vec![vec![Datum::text("x")]], store.rows("SELECT a FROM t", &[]));
}

#[test]
fn foreign_keys_fire_the_triggers_of_the_rows_that_they_change() {
    let mut store = store();
    store.run("CREATE TABLE p (id INTEGER PRIMARY KEY)");
    store.run(
        "CREATE TABLE c (id INTEGER PRIMARY KEY, p INTEGER REFERENCES p (id) ON DELETE CASCADE ON UPDATE CASCADE)",
    );
    store.run("INSERT INTO p VALUES (1), (2)");
    store.run("INSERT INTO c VALUES (10, 1), (11, 1), (12, 2)");
    store.run("CREATE TRIGGER d AFTER DELETE ON c CALL tell");
    store.run("CREATE TRIGGER u BEFORE UPDATE OF p ON c CALL tell");
    store.run("DELETE FROM p WHERE id = 1");
    assert_eq!(vec!["d (10,1) -", "d (11,1) -"], told(&mut store));
    store.run("UPDATE p SET id = 5 WHERE id = 2");
    assert_eq!(vec!["u (12,2) (12,5)"], told(&mut store));
}

#[test]
fn definitions_are_judged_when_they_are_made() {
    let mut store = store();
    store.run("CREATE VIEW v AS SELECT * FROM t");
    store.run("CREATE TRIGGER a AFTER INSERT ON t CALL tell");
    for (statement, message) in [
        ("CREATE TRIGGER a AFTER INSERT ON t CALL tell", "trigger a already exists"),
        ("CREATE TRIGGER b AFTER INSERT ON t CALL nosuch", "no such function: nosuch"),
        ("CREATE TRIGGER b AFTER INSERT ON nosuch CALL tell", "no such table: nosuch"),
        ("CREATE TRIGGER b AFTER INSERT ON v CALL tell", "v is a view"),
        ("CREATE TRIGGER b INSTEAD OF INSERT ON v CALL tell", "INSTEAD OF"),
        ("CREATE TRIGGER b AFTER UPDATE OF x ON t CALL tell", "has no column named x"),
        ("CREATE TRIGGER b AFTER INSERT ON t WHEN (OLD.a = 1) CALL tell", "no such column: OLD.a"),
        ("CREATE TRIGGER b AFTER UPDATE ON t WHEN (a = 1) CALL tell", "ambiguous column name: a"),
        ("CREATE TRIGGER b AFTER INSERT ON t WHEN (NEW.rowid = 1) CALL tell", "no such column: rowid"),
        ("CREATE TRIGGER b AFTER INSERT ON t WHEN (SELECT 1) CALL tell", "cannot query"),
        ("CREATE TRIGGER b AFTER INSERT ON t WHEN (count(*)) CALL tell", "misuse of aggregate"),
        ("CREATE TRIGGER b AFTER INSERT ON t WHEN (NEW.a = ?) CALL tell", "cannot have parameters"),
        ("CREATE TRIGGER b AFTER INSERT ON t FOR EACH STATEMENT CALL tell", "not supported"),
        ("CREATE TRIGGER b AFTER INSERT ON t BEGIN SELECT 1; END", "one statement at a time"),
        ("CREATE TRIGGER b AFTER INSERT ON t BEGIN", "CALL f"),
        ("CREATE TRIGGER b ON KEYS 'x*' FOR 'sett' CALL tell", "no such event of keys: sett"),
        ("DROP TRIGGER nosuch", "no such trigger: nosuch"),
    ] {
        let error = store.error(statement);
        assert!(error.contains(message), "{statement}: {error}");
    }
    store.run("CREATE TRIGGER IF NOT EXISTS A AFTER DELETE ON t CALL tell");
    store.run("DROP TRIGGER IF EXISTS nosuch, a");
    assert!(store.tables.catalog.triggers().is_empty());
}

#[test]
fn definitions_are_shown_as_the_statements_that_make_them() {
    let mut store = store();
    let statements = [
        "CREATE TRIGGER one BEFORE UPDATE OF a, b ON t FOR EACH ROW WHEN (NEW.b > OLD.b) CALL tell",
        "CREATE TRIGGER \"two words\" AFTER DELETE ON t FOR EACH ROW CALL tell",
        "CREATE TRIGGER keys ON KEYS 'it''s*' FOR 'set', 'expired' CALL tell",
        "CREATE TRIGGER any ON KEYS '*' CALL tell",
        "CREATE SCHEDULE often EVERY 10 MILLISECONDS CALL tell",
        "CREATE SCHEDULE seldom EVERY 3 DAYS CALL tell WITH ('a', '-1', 'it''s')",
    ];
    for statement in statements {
        store.run(statement);
        let (kind, name) = if statement.contains("SCHEDULE") { ("SCHEDULE", 2) } else { ("TRIGGER", 2) };
        let name = statement.splitn(4, ' ').nth(name).unwrap();
        let name = if name.starts_with('"') { "\"two words\"" } else { name };
        let rows = store.rows(&format!("SHOW CREATE {kind} {name}"), &[]);
        assert_eq!(statement, text_of(&rows[0][1]));
    }
    let names = store.rows("SELECT trigger_name FROM information_schema.triggers ORDER BY action_order", &[]);
    assert_eq!("one two words keys any", names.iter().map(|row| text_of(&row[0])).collect::<Vec<_>>().join(" "));
    assert_eq!(4, store.rows("SHOW TRIGGERS", &[]).len());
    assert_eq!(2, store.rows("SHOW TRIGGERS FROM t", &[]).len());
    assert_eq!(2, store.rows("SELECT * FROM information_schema.schedules", &[]).len());
    store.run("ALTER TABLE t RENAME TO \"t 2\"");
    let rows = store.rows("SHOW CREATE TRIGGER \"two words\"", &[]);
    assert!(text_of(&rows[0][1]).contains("ON \"t 2\""), "{rows:?}");
    for (statement, message) in [
        ("CREATE SCHEDULE x EVERY 9 MILLISECONDS CALL tell", "from 10 milliseconds"),
        ("CREATE SCHEDULE x EVERY 20000 DAYS CALL tell", "to 10000 days"),
        ("CREATE SCHEDULE x EVERY 1 FORTNIGHT CALL tell", "expected a number and MILLISECONDS"),
        ("CREATE SCHEDULE x EVERY 1 DAY CALL nosuch", "no such function"),
        ("CREATE SCHEDULE seldom EVERY 1 DAY CALL tell", "already exists"),
        ("DROP SCHEDULE x", "no such schedule: x"),
    ] {
        let error = store.error(statement);
        assert!(error.contains(message), "{statement}: {error}");
    }
    store.run("DROP TABLE \"t 2\"");
    assert_eq!(2, store.tables.catalog.triggers().len(), "those of its rows are gone");
}

#[test]
fn definitions_are_redone_and_taken_back() {
    let mut store = store();
    store.changes.wants |= crate::keyspace::Wants::UNDO;
    let mut digests = vec![store.tables.digest().unwrap()];
    let mut effects = Vec::new();
    for statement in [
        "CREATE TRIGGER a AFTER INSERT ON t WHEN (NEW.b > 1) CALL tell",
        "CREATE TRIGGER k ON KEYS 'x' FOR 'set' CALL tell",
        "CREATE SCHEDULE s EVERY 1 HOUR CALL tell WITH ('x')",
        "DROP TABLE t",
        "DROP TRIGGER k",
        "DROP SCHEDULE s",
    ] {
        store.changes.list.clear();
        store.run(statement);
        let mut effect = Effect::default();
        effect.tables.list = std::mem::take(&mut store.changes.list);
        effects.push(effect);
        digests.push(store.tables.digest().unwrap());
    }
    let mut keyspace = Keyspace::new(1);
    let mut replayed = self::store();
    for (effect, digest) in effects.iter().zip(&digests[1..]) {
        let mut record = Vec::new();
        redo::encode(effect, &mut record);
        redo::replay(&record, &mut keyspace, &mut replayed.tables).unwrap();
        assert_eq!(*digest, replayed.tables.digest().unwrap());
    }
    for (effect, digest) in effects.into_iter().zip(&digests).rev() {
        undo::undo(effect, &mut keyspace, &mut store.tables).unwrap();
        assert_eq!(*digest, store.tables.digest().unwrap());
    }
}

#[test]
fn many_groups_of_parameters_and_rows_by_key_fire() {
    let mut store = store();
    store.run("CREATE TRIGGER b BEFORE INSERT ON t CALL double");
    store.run("CREATE TRIGGER i AFTER INSERT ON t CALL tell");
    store.run("CREATE TRIGGER d AFTER DELETE ON t CALL tell");
    let values = [1, 10, 2, 20].map(DatumRef::Int);
    let changed = crate::sql::execute_many(&mut store, b"INSERT INTO t (id, b) VALUES (?, ?)", &values).unwrap();
    assert_eq!(2, changed);
    assert_eq!(vec!["i - (1,'d',20)", "i - (2,'d',40)"], told(&mut store));
    let records = crate::sql::records::Records::open(&mut store, b"t").unwrap();
    records.put(&mut store, &[b"id", b"1", b"b", b"3"]).unwrap();
    assert_eq!(vec!["d (1,'d',20) -", "i - (1,'d',6)"], told(&mut store));
    assert_eq!(1, records.delete(&mut store, &[b"1"]).unwrap());
    assert_eq!(vec!["d (1,'d',6) -"], told(&mut store));
}
