//! Errors of statements as clients get them: with an SQLSTATE, the place in the statement, and a hint.
//!
//! ```text
//! SQL 42S02 no such table: dear at position 15; hint: did you mean deer?
//! ```
//! The first word is the code that Redis clients switch on; the five letters after it are stable, as the words after them
//! are not. Most sentences are SQLite's own, which tells no finer code, so the state is found by their words.

use super::run::Host;
use super::token::{Kind, Token, Tokens};
use super::{executor, many, source};
use crate::error::{Code, Error, Result};
use crate::reply::Reply;
use crate::table::catalog::Catalog;
use crate::table::datum::DatumRef;
use std::borrow::Cow;

/// Runs one statement; see [`executor::execute`].
#[inline]
pub fn execute(host: &mut dyn Host, text: &[u8], params: &[DatumRef<'_>]) -> Result<Reply> {
    executor::execute(host, text, params).map_err(|error| dressed(host, text, error))
}

/// Runs one statement for many groups of parameters; see [`many::execute`].
pub fn execute_many(host: &mut dyn Host, text: &[u8], values: &[DatumRef<'_>]) -> Result<u64> {
    many::execute(host, text, values).map_err(|error| dressed(host, text, error))
}

/// The error of a statement that somebody ended while it was run elsewhere.
pub fn cancelled() -> Error {
    Error::new(Code::Cancelled, "57014 the statement was cancelled")
}

/// The error with what helps to mend the statement. It is made once: an error that comes out of a nested statement has
/// it already.
#[cold]
pub fn dressed(host: &mut dyn Host, statement: &[u8], error: Error) -> Error {
    let Some(state) = state(&error) else { return error };
    if state_in(&error.message).is_some() {
        return error;
    }
    let text = String::from_utf8_lossy(statement);
    // SQLite's name of the one schema is nobody's.
    let message = &*shortened(&error.message).replace("no such table: main.", "no such table: ");
    // What a routine says is about its own statements.
    let is_own = !is_of_routine(message);
    let place = if !is_own || message.contains(" at position ") { None } else { place(message, &text) };
    let place = place.map_or(String::new(), |place| format!(" at position {place}"));
    // A conflict says by itself what to do.
    let hint = if !is_own || error.code == Code::Conflict { None } else { hint(host.catalog(), message, &text) };
    let hint = hint.map_or(String::new(), |hint| format!("; hint: {hint}"));
    Error::new(error.code, format!("{state} {message}{place}{hint}"))
}

/// What is quoted in a sentence can be as long as a statement.
const MESSAGE_CHARS_MAX: usize = 1000;

fn shortened(message: &str) -> Cow<'_, str> {
    let count = message.chars().count();
    if count <= MESSAGE_CHARS_MAX {
        return message.into();
    }
    let part = MESSAGE_CHARS_MAX / 2;
    let (front, back) = (message.chars().take(part), message.chars().skip(count - part));
    front.chain(" .. ".chars()).chain(back).collect::<String>().into()
}

/// The SQLSTATE of a statement's error.
pub fn sqlstate(error: &Error) -> Option<&str> {
    if matches!(error.code, Code::Err | Code::Custom) { None } else { state_in(&error.message) }
}

/// The state at the front of a sentence: each has a digit; ALTER, CHECK and STORE begin sentences.
fn state_in(message: &str) -> Option<&str> {
    let (word, _) = message.split_once(' ')?;
    let is_state = word.len() == 5
        && word.bytes().all(|b| b.is_ascii_uppercase() || b.is_ascii_digit())
        && word.bytes().any(|b| b.is_ascii_digit());
    is_state.then_some(word)
}

/// Words of a sentence, and the SQLSTATE that they mean; the first that fits counts.
const SQL: [(&str, &str); 53] = [
    ("Expression tree is too large", "54001"),
    ("Recursion limit", "54001"),
    ("nested too deep", "54001"),
    ("too many columns", "54011"),
    ("too many terms", "54000"),
    ("too many SQL variables", "54000"),
    ("too many FROM clause terms", "54000"),
    ("no transaction is open", "25P01"),
    ("transaction is open already", "25001"),
    ("inside a transaction", "25001"),
    ("no such savepoint", "3B001"),
    ("no such table", "42S02"),
    ("no such view", "42S02"),
    ("no such index", "42S12"),
    ("no such column", "42S22"),
    ("has no column named", "42S22"),
    ("no such trigger", "42704"),
    ("no such schedule", "42704"),
    ("no such event", "42704"),
    ("no definition can call it", "42P17"),
    ("no such function", "42883"),
    ("wrong number of arguments to function", "42883"),
    ("no such collation", "42704"),
    ("unknown type", "42704"),
    ("duplicate column name", "42S21"),
    ("stands twice", "42701"),
    ("ambiguous column name", "42702"),
    ("columns but", "21S01"),
    ("values for", "21S01"),
    ("do not have the same number of result columns", "21S02"),
    ("sub-select returns", "21000"),
    ("more than one primary key", "42P16"),
    ("has no primary key", "42P16"),
    ("parameters,", "07001"),
    ("types for", "07001"),
    ("parameter ", "07006"),
    ("not supported", "0A000"),
    ("not implemented", "0A000"),
    ("is not part of", "0A000"),
    ("not authorized", "42501"),
    ("prohibited", "42501"),
    ("not UTF-8", "22021"),
    ("integer overflow", "22003"),
    ("malformed JSON", "22032"),
    ("bad JSON path", "22032"),
    ("pattern too complex", "22019"),
    ("regular expression", "2201B"),
    ("ESCAPE expression", "22019"),
    ("misuse of aggregate", "42803"),
    ("misuse of window", "42P20"),
    ("definitions cannot change", "55006"),
    ("already exists", "42S01"),
    ("already another table", "42S01"),
];

const CONSTRAINT: [(&str, &str); 9] = [
    ("UNIQUE constraint", "23505"),
    ("NOT NULL constraint", "23502"),
    ("CHECK constraint", "23514"),
    ("FOREIGN KEY", "23503"),
    ("cannot be dropped", "23503"),
    ("too long", "22001"),
    ("out of range", "22003"),
    ("not UTF-8", "22021"),
    ("cannot store", "22018"),
];

const LIMIT: [(&str, &str); 3] = [("deep", "54001"), ("too many columns", "54011"), ("columns", "54011")];

fn state(error: &Error) -> Option<&'static str> {
    let message = &*error.message;
    let among = |list: &[(&str, &'static str)]| list.iter().find(|(words, _)| message.contains(words)).map(|(_, s)| *s);
    Some(match error.code {
        Code::Sql if message.contains("index") && message.contains("already exists") => "42S11",
        Code::Sql
            if ["trigger ", "schedule "].iter().any(|word| message.starts_with(word))
                && message.ends_with("already exists") =>
        {
            "42710"
        }
        Code::Sql if is_of_routine(message) => {
            if message.contains("which is gone") {
                "42883"
            } else {
                "38000"
            }
        }
        Code::Sql if is_syntax(message) => "42601",
        Code::Sql => among(&SQL).unwrap_or("42000"),
        Code::Constraint if is_of_routine(message) => "09000",
        Code::Constraint => among(&CONSTRAINT).unwrap_or("23000"),
        Code::Limit => among(&LIMIT).unwrap_or("54000"),
        Code::Cancelled => "57014",
        Code::Conflict => "40001",
        Code::Engine => "58000",
        Code::Bug => "XX000",
        // Words of Redis have Redis's sentences.
        _ => return None,
    })
}

/// Does a trigger or a function of a library speak? Where many rows are written, the number of one may come first.
fn is_of_routine(message: &str) -> bool {
    let after_row = message.strip_prefix("row ").and_then(|rest| rest.split_once(": ")).map(|(_, rest)| rest);
    let message = after_row.unwrap_or(message);
    let is_definition = message.ends_with("already exists") || message.contains("no definition can call it");
    !is_definition && (message.starts_with("trigger ") || message.starts_with("function "))
}

fn is_syntax(message: &str) -> bool {
    ["syntax error", "incomplete input", "unrecognized token", "the statement is empty"]
        .iter()
        .any(|w| message.contains(w))
}

/// What a sentence of the form "no such x: name" names.
fn named<'m>(message: &'m str, before: &str) -> Option<&'m str> {
    let rest = message.split_once(before)?.1;
    let rest = rest.split_once(" at position").map_or(rest, |(name, _)| name);
    let rest = rest.split_once(" - should").map_or(rest, |(name, _)| name);
    (!rest.is_empty()).then_some(rest)
}

/// The name that is wrong, without its schema or table.
fn wrong_name(message: &str) -> Option<&str> {
    let before = ["no such table: ", "no such view: ", "no such index: ", "no such column: ", "has no column named "];
    let name = before.iter().find_map(|before| named(message, before))?;
    name.rsplit('.').next()
}

/// Where the wrong name stands, in characters from 1.
fn place(message: &str, text: &str) -> Option<usize> {
    let name = wrong_name(message)?;
    let is_it = |t: &Token<'_>| t.name().is_some_and(|found| t.kind != Kind::Text && found.eq_ignore_ascii_case(name));
    let token = Tokens::new(text).map_while(Result::ok).find(is_it)?;
    Some(text[..token.start].chars().count() + 1)
}

/// The hint that another name was meant.
fn meant(message: &str, names: &[&str]) -> Option<String> {
    let near = nearest(wrong_name(message)?, names.iter().copied())?;
    Some(format!("did you mean {near}?"))
}

fn hint(catalog: &Catalog, message: &str, text: &str) -> Option<String> {
    if message.contains("no such table") || message.contains("no such view") {
        let mut names: Vec<&str> = catalog.tables().map(|t| t.name.as_str()).collect();
        names.extend(catalog.views().map(|v| v.name.as_str()));
        source::names().for_each(|name| names.push(name));
        return meant(message, &names).or(Some("SHOW TABLES lists the tables".into()));
    }
    if message.contains("no such index") {
        let indexes = catalog.tables().flat_map(|t| &t.indexes).map(|i| i.name.as_str());
        return meant(message, &indexes.collect::<Vec<_>>());
    }
    if message.contains("no such column: \"") {
        return Some("a text stands in single quotes, a name in double quotes".into());
    }
    if message.contains("no such column") || message.contains("has no column named") {
        return meant(message, &columns_of_mentioned(catalog, text))
            .or(Some("DESCRIBE lists a table's columns".into()));
    }
    let hints = [
        ("parameters,", "give as many values as there are ? in the statement, or the highest number of ?1, ?2, ..."),
        ("one statement at a time", "send each by itself; MULTI and EXEC make them one step"),
        ("UNIQUE constraint failed: ", "INSERT OR IGNORE and OR REPLACE say what to do then"),
        ("took too long", "EXPLAIN shows how the rows are found; an index or smaller batches help"),
        ("a statement of", "give values as parameters, or use several statements"),
        ("Expression tree is too large", "a long list belongs into IN (...) or into a table"),
        ("too many terms in compound", "use VALUES with several rows, or a table"),
        ("too many SQL variables", "use several statements"),
    ];
    hints.iter().find(|(words, _)| message.contains(words)).map(|(_, hint)| hint.to_string())
}

/// The columns of the tables that the statement names.
fn columns_of_mentioned<'c>(catalog: &'c Catalog, text: &str) -> Vec<&'c str> {
    let tables = Tokens::new(text).map_while(Result::ok).filter_map(|t| catalog.table(&t.name()?));
    tables.flat_map(|t| t.columns.iter().filter(|c| !c.hidden).map(|c| c.name.as_str())).collect()
}

/// The name that differs least, if it differs little.
fn nearest<'n>(wrong: &str, names: impl Iterator<Item = &'n str>) -> Option<&'n str> {
    let wrong = wrong.trim_matches('"').to_lowercase();
    // Long names would take the square of their length.
    if wrong.chars().count() > 64 {
        return None;
    }
    let near = names.filter(|n| n.len() <= 256).map(|name| (distance(&wrong, &name.to_lowercase()), name));
    near.filter(|(d, _)| *d <= 1 + wrong.chars().count() / 4).min().map(|(_, name)| name)
}

/// How many letters must be put in, taken out, exchanged or swapped with the next to make one name of the other.
fn distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    let (mut before, mut row): (Vec<usize>, Vec<usize>) = (Vec::new(), (0..=b.len()).collect());
    for i in 1..=a.len() {
        let mut next = vec![i];
        for j in 1..=b.len() {
            let changed = usize::from(a[i - 1] != b[j - 1]);
            let mut least = (row[j] + 1).min(next[j - 1] + 1).min(row[j - 1] + changed);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                least = least.min(before[j - 2] + 1);
            }
            next.push(least);
        }
        before = std::mem::replace(&mut row, next);
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sql::tests::TestStore;
    use crate::table::datum::Datum;

    fn error(store: &mut TestStore, text: &str, params: &[Datum]) -> String {
        let params: Vec<DatumRef<'_>> = params.iter().map(Datum::as_ref).collect();
        crate::sql::execute(store, text.as_bytes(), &params).unwrap_err().to_string()
    }

    #[test]
    fn errors_have_a_state_a_place_and_a_hint() {
        let mut store = TestStore::with(&[
            "CREATE TABLE deer (id INT PRIMARY KEY, name VARCHAR(4) NOT NULL, weight REAL)",
            "CREATE INDEX by_name ON deer (name)",
            "INSERT INTO deer VALUES (1, 'Ada', 90)",
        ]);
        let mut wrong = Vec::new();
        for (text, expected) in [
            ("SELECT * FROM dear", "SQL 42S02 no such table: dear at position 15; hint: did you mean deer?"),
            ("SELECT é, x FROM d", "SQL 42S02 no such table: d at position 18; hint: SHOW TABLES lists the tables"),
            ("DROP TABLE xyz", "SQL 42S02 no such table: xyz at position 12; hint: SHOW TABLES lists the tables"),
            ("DROP TABLE Deers", "SQL 42S02 no such table: Deers at position 12; hint: did you mean deer?"),
            ("SELECT nmae FROM deer", "SQL 42S22 no such column: nmae at position 8; hint: did you mean name?"),
            (
                "SELECT d.wieght FROM deer d",
                "SQL 42S22 no such column: d.wieght at position 8; hint: did you mean weight?",
            ),
            (
                "INSERT INTO deer (id, nam) VALUES (1, 2)",
                "SQL 42S22 table deer has no column named nam at position 23; hint: did you mean name?",
            ),
            ("SELECT xyzzy FROM deer", "SQL 42S22 no such column: xyzzy at position 8; hint: DESCRIBE lists a table's"),
            ("DROP INDEX by_nam", "SQL 42S12 no such index: by_nam at position 12; hint: did you mean by_name?"),
            ("SELECT FROM deer", "SQL 42601 near \"FROM\": syntax error at position 8"),
            ("SELECT 1; SELECT 2", "SQL 42601 syntax error at position 11: one statement at a time: a second one"),
            ("SELECT (", "SQL 42601 incomplete input"),
            ("", "SQL 42601 the statement is empty"),
            ("SELECT nope(1)", "SQL 42883 no such function: nope at position 8"),
            ("SELECT abs(1, 2)", "SQL 42883 wrong number of arguments to function abs()"),
            ("SELECT ?", "SQL 07001 the statement has 1 parameters, 0 given; hint: give as many values"),
            ("CREATE TABLE deer (a INT)", "SQL 42S01 table deer already exists"),
            ("CREATE INDEX by_name ON deer (id)", "SQL 42S11 index by_name already exists"),
            ("CREATE TABLE x (a INT, a INT)", "SQL 42S21 duplicate column name: x.a"),
            ("SELECT id FROM deer, deer AS x", "SQL 42702 ambiguous column name: id at position 8"),
            ("INSERT INTO deer VALUES (1, 2)", "SQL 21S01 table deer has 3 columns but 2 values were supplied"),
            ("SELECT 1 UNION SELECT 1, 2", "SQL 21S02 SELECTs to the left and right of UNION"),
            ("PRAGMA x", "SQL 0A000 PRAGMA is not part of Peryton's SQL"),
            ("SELECT sum(9223372036854775807) FROM (VALUES (1), (2))", "SQL 22003 integer overflow"),
            ("SELECT json('{')", "SQL 22032 malformed JSON"),
            ("SELECT sum(count(*)) FROM deer", "SQL 42803 misuse of aggregate function count() at position 12"),
            (
                "INSERT INTO deer VALUES (1, 'Bo', 1)",
                "CONSTRAINT 23505 UNIQUE constraint failed: deer.id: 1 exists; hint: INSERT OR IGNORE",
            ),
            ("INSERT INTO deer (id) VALUES (2)", "CONSTRAINT 23502 NOT NULL constraint failed: deer.name"),
            ("INSERT INTO deer VALUES (2, 'Berta', 1)", "CONSTRAINT 22001 cannot store TEXT 'Berta' in VARCHAR(4)"),
            (
                "INSERT INTO deer VALUES ('x', 'Bo', 1)",
                "CONSTRAINT 22018 cannot store TEXT 'x' in INTEGER column deer.id",
            ),
            ("SELECT zeroblob(2000000000)", "LIMIT 54000 string or blob too big"),
            // Sentences that begin with a word of five letters had no state.
            ("ALTER TABLE deer MODIFY x INT", "SQL 0A000 ALTER TABLE .. MODIFY is not supported yet"),
            ("SELECT 1 STORE INTO HASH 'x'", "SQL 42000 STORE INTO HASH takes two columns"),
            ("CREATE TABLE x (a INT DEFAULT (b), b INT)", "SQL 42S22 DEFAULT of x.a: no such column: b at position 32"),
            // Places in clauses that SQLite does not see as they stand.
            (
                "INSERT INTO deer VALUES (1, 'Bo', 1) RETURNING id + é, nmae",
                "SQL 42S22 no such column: é at position 53",
            ),
            (
                "DELETE FROM deer RETURNING id, nmae",
                "SQL 42S22 no such column: nmae at position 32; hint: did you mean name?",
            ),
            ("DELETE FROM deer ORDER BY nmae LIMIT 1", "SQL 42S22 no such column: nmae at position 27"),
            ("UPDATE deer SET id = 1 WHERE nmae LIMIT 2", "SQL 42S22 no such column: nmae at position 30"),
            ("DELETE FROM deer RETURNING id,", "SQL 42601 syntax error at position 30: the clause is not complete"),
            ("DELETE FROM deer RETURNING id id id", "SQL 42601 near \"id\": syntax error at position 34"),
            (
                "INSERT INTO deer (id) VALUES (1) ON CONFLICT (id) DO UPDATE SET weight = wieght",
                "SQL 42S22 no such column: wieght at position 74; hint: did you mean weight?",
            ),
            (
                "INSERT INTO deer (id) VALUES (1) ON CONFLICT (id) DO UPDATE SET weight = 1, name = excluded.nix WHERE 1",
                "SQL 42S22 no such column: excluded.nix at position 84",
            ),
            (
                "INSERT INTO deer (id) VALUES (1) ON CONFLICT (id) DO UPDATE SET weight = 1 WHERE",
                "SQL 42601 syntax error at position 75: the clause is not complete",
            ),
            (
                "INSERT INTO deer (id) VALUES (1) ON DUPLICATE KEY UPDATE weight = weight + + nope(1)",
                "SQL 42883 no such function: nope at position 78",
            ),
            (
                "SELECT 1 FROM information_schema.tables, information_schema.columns WHERE nope",
                "SQL 42S22 no such column: nope at position 75",
            ),
            ("INSERT INTO deer VALUES (1, DEFAULT, DEFAULT, nope)", "SQL 42S22 no such column: nope at position 47"),
        ] {
            let found = error(&mut store, text, &[]);
            if !found.starts_with(expected) {
                wrong.push(format!("{text}: {found}"));
            }
        }
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
        assert!(error(&mut store, "SELECT 1", &[Datum::Int(1)]).starts_with("SQL 07001 "));
        let long = error(&mut store, &format!("CREATE TABLE x (a INT CHECK (a > {}))", "a + ".repeat(9000)), &[]);
        assert!(long.len() < 1200, "{} bytes of message", long.len());
        for (text, state) in [
            (format!("SELECT {}1", "1 + ".repeat(600)), "54001"),
            (format!("SELECT {}1", "(".repeat(3000)), "54001"),
            (format!("SELECT {}1", "1, ".repeat(3000)), "54011"),
            (format!("CREATE TABLE x (a INT {})", ", CHECK (a > 1)".repeat(1001)), "54000"),
            (format!("CREATE TABLE x (a INT {})", ", KEY (abs(a))".repeat(65)), "54000"),
        ] {
            let found = error(&mut store, &text, &[]);
            assert!(found.contains(state), "{found}");
        }
        store.deadline_ns = Some(50);
        let endless = "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) SELECT sum(x) FROM c";
        assert!(
            error(&mut store, endless, &[]).starts_with("CANCELLED 57014 the statement took too long; hint: EXPLAIN")
        );
    }

    #[test]
    fn what_is_dressed_stays_so() {
        let mut store = TestStore::new();
        let once = dressed(&mut store, b"DROP TABLE x", Error::new(Code::Sql, "no such table: x"));
        assert_eq!(once, dressed(&mut store, b"SELECT 1", once.clone()));
        let redis = Error::wrong_type();
        assert_eq!(redis, dressed(&mut store, b"SELECT * FROM set('x')", redis.clone()));
    }

    #[test]
    fn distances_count_letters() {
        for (a, b, expected) in
            [("", "", 0), ("deer", "dear", 1), ("name", "nmae", 1), ("ab", "", 2), ("kitten", "sitting", 3)]
        {
            assert_eq!(expected, distance(a, b), "{a} {b}");
            assert_eq!(expected, distance(b, a));
        }
    }
}
