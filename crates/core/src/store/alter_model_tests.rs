//! Schema changes among writes, crashes and checkpoints, against a model that rewrites every row at each change.

use super::tests::Client;
use super::*;
use crate::env::Xoshiro;
use crate::env::simulated::SimulatedFiles;
use std::collections::BTreeMap;

#[derive(Clone, Debug, PartialEq)]
enum Value {
    Null,
    Int(i64),
    Real(f64),
    Text(String),
}

impl Value {
    fn sql(&self) -> String {
        match self {
            Value::Null => "NULL".into(),
            Value::Int(n) => n.to_string(),
            Value::Real(r) => format!("{r:?}"),
            Value::Text(text) => format!("'{text}'"),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    Int,
    Real,
    Text,
}

impl Kind {
    fn sql(self) -> &'static str {
        match self {
            Kind::Int => "INTEGER",
            Kind::Real => "REAL",
            Kind::Text => "TEXT",
        }
    }
}

#[derive(Clone, Debug)]
struct Column {
    name: String,
    kind: Kind,
    not_null: bool,
    default: Value,
    index: Option<String>,
}

#[derive(Clone, Debug, Default)]
struct Model {
    columns: Vec<Column>,
    /// The values beside the key, in the order of the columns.
    rows: BTreeMap<i64, Vec<Value>>,
    /// A name that was never used.
    next_name: usize,
}

struct World {
    random: Xoshiro,
    files: SimulatedFiles,
    client: Option<Client>,
    model: Model,
    what: String,
    refused: usize,
}

fn open(files: &SimulatedFiles) -> Client {
    let options = Options {
        files: Some(Arc::new(files.clone())),
        durability: Some(Durability::Sync),
        log: LogSettings { segment_bytes: 60_000, ..LogSettings::default() },
        ..Options::default()
    };
    let store = Store::open(options).unwrap();
    let session = store.enter().open_session(Door::Embedded, Arc::new(crate::session::NoWaker));
    Client::of(store, session)
}

impl World {
    fn new(seed: u64) -> World {
        let files = SimulatedFiles::new(seed);
        let client = open(&files);
        client.call(&["SQL", "CREATE TABLE t (id INTEGER PRIMARY KEY)"]);
        let (random, model) = (Xoshiro::from_seed(seed), Model::default());
        World { random, files, client: Some(client), model, what: String::new(), refused: 0 }
    }

    fn client(&self) -> &Client {
        self.client.as_ref().unwrap()
    }

    fn below(&mut self, n: usize) -> usize {
        self.random.below(n as u64) as usize
    }

    fn value(&mut self, kind: Kind) -> Value {
        let n = self.below(40) as i64 - 20;
        match kind {
            _ if self.below(8) == 0 => Value::Null,
            Kind::Int if n == 0 => Value::Int(i64::MAX),
            Kind::Int => Value::Int(n * 37),
            Kind::Real => Value::Real(n as f64 + 0.5),
            Kind::Text => Value::Text("x".repeat(if n == 0 { 3000 } else { n.unsigned_abs() as usize % 7 })),
        }
    }

    /// Runs a statement that must succeed, or must not.
    fn run(&mut self, text: &str, is_fine: bool) {
        let reply = self.client().call(&["SQL", text]);
        let failed = matches!(reply, Reply::Error(_));
        assert_eq!(is_fine, !failed, "{}: {text}: {reply:?} {:?}", self.what, self.model.columns);
        self.refused += usize::from(failed);
    }

    /// Some columns, with values; None for one of them: DEFAULT.
    fn insert(&mut self) {
        let id = self.below(60) as i64;
        let (mut names, mut values, mut row) = (vec!["id".to_string()], vec![id.to_string()], Vec::new());
        for column in self.model.columns.clone() {
            let value = if self.below(3) == 0 { column.default.clone() } else { self.value(column.kind) };
            if value != column.default || self.below(2) == 0 {
                names.push(column.name.clone());
                values.push(value.sql());
            }
            row.push(value);
        }
        let breaks =
            self.model.columns.iter().zip(&row).any(|(column, value)| column.not_null && *value == Value::Null);
        let fine = !breaks && !self.model.rows.contains_key(&id);
        self.run(&format!("INSERT INTO t ({}) VALUES ({})", names.join(", "), values.join(", ")), fine);
        if fine {
            self.model.rows.insert(id, row);
        }
    }

    fn update(&mut self) {
        if self.model.columns.is_empty() {
            return;
        }
        let at = self.below(self.model.columns.len());
        let column = self.model.columns[at].clone();
        let (value, id) = (self.value(column.kind), self.below(60) as i64);
        let op = ["=", "<", ">="][self.below(3)];
        let hit = |row: i64| match op {
            "=" => row == id,
            "<" => row < id,
            _ => row >= id,
        };
        let any = self.model.rows.keys().any(|row| hit(*row));
        let fine = !(any && column.not_null && value == Value::Null);
        self.run(&format!("UPDATE t SET {} = {} WHERE id {op} {id}", column.name, value.sql()), fine);
        if fine {
            self.model.rows.iter_mut().filter(|(row, _)| hit(**row)).for_each(|(_, row)| row[at] = value.clone());
        }
    }

    fn delete(&mut self) {
        let id = self.below(60) as i64;
        self.run(&format!("DELETE FROM t WHERE id = {id}"), true);
        self.model.rows.remove(&id);
    }

    fn write(&mut self) {
        match self.below(8) {
            0..4 => self.insert(),
            4..7 => self.update(),
            _ => self.delete(),
        }
    }

    fn transaction(&mut self) {
        let before = self.model.clone();
        self.client().call(&["BEGIN"]);
        for _ in 0..1 + self.below(5) {
            self.write();
        }
        let commits = self.below(3) > 0;
        self.client().call(&[if commits { "COMMIT" } else { "ROLLBACK" }]);
        if !commits {
            self.model = before;
        }
    }

    /// One to three new columns, perhaps with something in the same statement that cannot be.
    fn add(&mut self) {
        let before = self.model.clone();
        let (mut changes, mut fine) = (Vec::new(), true);
        for _ in 0..1 + self.below(3) {
            let kind = [Kind::Int, Kind::Real, Kind::Text][self.below(3)];
            let (default, not_null) = (self.value(kind), self.below(3) == 0);
            self.model.next_name += 1;
            let name = format!("c{}", self.model.next_name);
            let not = if not_null { " NOT NULL" } else { "" };
            let (place, at) = match self.below(3) {
                0 if !self.model.columns.is_empty() => {
                    let after = self.below(self.model.columns.len());
                    (format!(" AFTER {}", self.model.columns[after].name), after + 1)
                }
                1 => (" AFTER id".to_string(), 0),
                _ => (String::new(), self.model.columns.len()),
            };
            changes.push(format!("ADD COLUMN {name} {}{not} DEFAULT {}{place}", kind.sql(), default.sql()));
            fine &= !(not_null && default == Value::Null && !self.model.rows.is_empty());
            self.model.rows.values_mut().for_each(|row| row.insert(at, default.clone()));
            self.model.columns.insert(at, Column { name, kind, not_null, default, index: None });
        }
        if self.below(5) == 0 {
            changes.push("DROP COLUMN nope".into());
            fine = false;
        }
        self.run(&format!("ALTER TABLE t {}", changes.join(", ")), fine);
        if !fine {
            self.model = before;
        }
    }

    fn change_column(&mut self) {
        let at = self.below(self.model.columns.len());
        let column = self.model.columns[at].clone();
        let name = &column.name;
        match self.below(8) {
            0 | 1 => {
                self.run(&format!("ALTER TABLE t DROP COLUMN {name}"), column.index.is_none());
                if column.index.is_none() {
                    self.model.columns.remove(at);
                    self.model.rows.values_mut().for_each(|row| drop(row.remove(at)));
                }
            }
            2 => {
                self.model.next_name += 1;
                let new = format!("c{}", self.model.next_name);
                self.run(&format!("ALTER TABLE t RENAME COLUMN {name} TO {new}"), true);
                self.model.columns[at].name = new;
            }
            3 => {
                let default = self.value(column.kind);
                let text = match default {
                    Value::Null => "DROP DEFAULT".to_string(),
                    _ => format!("SET DEFAULT {}", default.sql()),
                };
                self.run(&format!("ALTER TABLE t ALTER COLUMN {name} {text}"), true);
                self.model.columns[at].default = default;
            }
            4 => {
                let not_null = self.below(2) == 0;
                let fine = !not_null || self.model.rows.values().all(|row| row[at] != Value::Null);
                let word = if not_null { "SET" } else { "DROP" };
                self.run(&format!("ALTER TABLE t ALTER {name} {word} NOT NULL"), fine);
                if fine {
                    self.model.columns[at].not_null = not_null;
                }
            }
            5 => self.retype(at),
            _ => match column.index {
                Some(index) => {
                    self.run(&format!("DROP INDEX {index}"), true);
                    self.model.columns[at].index = None;
                }
                None => {
                    self.model.next_name += 1;
                    // It keeps its name when its column gets another.
                    let index = format!("i{}", self.model.next_name);
                    self.run(&format!("CREATE INDEX {index} ON t ({name})"), true);
                    self.model.columns[at].index = Some(index);
                }
            },
        }
    }

    fn retype(&mut self, at: usize) {
        let column = self.model.columns[at].clone();
        let to = [Kind::Int, Kind::Real, Kind::Text][self.below(3)];
        let fitted = |value: &Value| match (value, to) {
            (Value::Null, _)
            | (Value::Int(_), Kind::Int)
            | (Value::Real(_), Kind::Real)
            | (Value::Text(_), Kind::Text) => Some(value.clone()),
            (Value::Int(n), Kind::Real) if n.unsigned_abs() < 1_000_000 => Some(Value::Real(*n as f64)),
            (Value::Int(n), Kind::Text) => Some(Value::Text(n.to_string())),
            (Value::Real(r), Kind::Text) => Some(Value::Text(format!("{r:?}"))),
            (Value::Real(r), Kind::Int) if r.fract() == 0.0 => Some(Value::Int(*r as i64)),
            (Value::Text(text), Kind::Int) => text.parse().ok().map(Value::Int),
            (Value::Text(text), Kind::Real) => text.parse().ok().filter(|r: &f64| r.is_finite()).map(Value::Real),
            _ => None,
        };
        let values: Option<Vec<Value>> = self.model.rows.values().map(|row| fitted(&row[at])).collect();
        let (default, same) = (fitted(&column.default), column.kind == to);
        let fine = values.is_some() && default.is_some() && (same || column.index.is_none());
        self.run(&format!("ALTER TABLE t ALTER COLUMN {} SET DATA TYPE {}", column.name, to.sql()), fine);
        if let (true, Some(values), Some(default)) = (fine, values, default) {
            self.model.columns[at].kind = to;
            self.model.rows.values_mut().zip(values).for_each(|(row, value)| row[at] = value);
            // The text of the default stays; what it gives is what fits.
            self.model.columns[at].default = default;
        }
    }

    fn reopen(&mut self) {
        let seed = self.random.next();
        let client = self.client.take().unwrap();
        let promise = client.store.enter().activate(client.session).unwrap().promise();
        client.store.keep(promise).unwrap();
        let after = if self.below(2) == 0 { self.files.crash(seed) } else { self.files.clone() };
        let digest = |client: &Client| client.store.enter().state().tables.digest().unwrap();
        let before = digest(&client);
        drop(client);
        self.files = after;
        let client = open(&self.files);
        assert_eq!(before, digest(&client), "{}: after opening again", self.what);
        self.client = Some(client);
    }

    fn step(&mut self) {
        match self.below(20) {
            0..9 => self.write(),
            9 | 10 => self.transaction(),
            11 | 12 => self.add(),
            13..17 if !self.model.columns.is_empty() => self.change_column(),
            17 => {
                let store = self.client().store.clone();
                store.enter().state().journal.saves.wanted = true;
                store.shared.saver.ring();
            }
            18 => self.reopen(),
            _ => self.insert(),
        }
    }

    fn rows(&self, text: &str) -> Vec<Vec<Value>> {
        let reply = self.client().call(&["SQL", text]);
        let Reply::Array(rows) = reply else { panic!("{}: {text}: {reply:?}", self.what) };
        let value = |reply: Reply| match reply {
            Reply::Nil => Value::Null,
            Reply::Int(n) => Value::Int(n),
            Reply::Double(r) => Value::Real(r),
            Reply::Verbatim(_, text) => Value::Text(String::from_utf8_lossy(&text).into_owned()),
            other => panic!("{}: {text}: {other:?}", self.what),
        };
        let row = |row: Reply| match row {
            Reply::Array(row) => row.into_iter().map(value).collect(),
            other => panic!("{other:?}"),
        };
        rows.into_iter().skip(1).map(row).collect()
    }

    fn compare(&mut self) {
        let whole = |(id, row): (&i64, &Vec<Value>)| [vec![Value::Int(*id)], row.clone()].concat();
        let expected: Vec<Vec<Value>> = self.model.rows.iter().map(whole).collect();
        assert_eq!(expected, self.rows("SELECT * FROM t ORDER BY id"), "{}", self.what);
        // By key, and by a column, which may have an index.
        let id = self.below(60) as i64;
        let one: Vec<_> = self.model.rows.iter().filter(|(key, _)| **key == id).map(whole).collect();
        assert_eq!(one, self.rows(&format!("SELECT * FROM t WHERE id = {id}")), "{}", self.what);
        if !self.model.columns.is_empty() {
            let at = self.below(self.model.columns.len());
            let column = self.model.columns[at].clone();
            let value = self.value(column.kind);
            let found = self.model.rows.iter().filter(|(_, row)| row[at] == value && value != Value::Null);
            let expected: Vec<Vec<Value>> = found.map(|(id, _)| vec![Value::Int(*id)]).collect();
            let query = format!("SELECT id FROM t WHERE {} = {} ORDER BY id", column.name, value.sql());
            assert_eq!(expected, self.rows(&query), "{}: {query}", self.what);
        }
    }
}

#[test]
fn schema_changes_among_writes_and_crashes_give_what_the_model_has() {
    let rounds = if std::env::var_os("PERYTON_LONG").is_some() { 500 } else { 12 };
    let base: u64 = std::env::var("PERYTON_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(1);
    let mut refused = 0;
    for seed in base..base + rounds {
        let mut world = World::new(seed);
        for step in 0..250 {
            world.what = format!("seed {seed}, step {step}");
            world.step();
            world.compare();
        }
        world.reopen();
        world.compare();
        refused += world.refused;
    }
    assert!(refused as u64 > rounds, "what cannot be was tried, too");
}
