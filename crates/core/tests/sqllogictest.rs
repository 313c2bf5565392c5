//! SQLite's sqllogictest files, run through the `SQL` command. Skipped, visibly, where the files are not.
//!
//! They lie in `shared/data/sqllogictest` beside or above the project; `SQLLOGICTEST` names other files (separated by
//! spaces, relative to that directory), `SQLLOGICTEST=all` runs all of them.

mod support;

use peryton_core::reply::Reply;
use peryton_core::session::{Door, NoWaker, SessionId};
use peryton_core::store::Store;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use support::md5;

/// What runs by default: a file of each family, those that take long left out.
const FILES: [&str; 12] = [
    "select1.test.gz",
    "select2.test.gz",
    "select3.test.gz",
    "evidence/in1.test.gz",
    "evidence/in2.test.gz",
    "evidence/slt_lang_aggfunc.test.gz",
    "evidence/slt_lang_createview.test.gz",
    "evidence/slt_lang_droptable.test.gz",
    "evidence/slt_lang_dropview.test.gz",
    "evidence/slt_lang_replace.test.gz",
    "evidence/slt_lang_update.test.gz",
    "index/orderby/10/slt_good_0.test.gz",
];

fn directory() -> Option<PathBuf> {
    let ancestors = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().map(|a| a.join("shared/data/sqllogictest"));
    ancestors.into_iter().find(|path| path.is_dir())
}

/// The text of a compressed file; None when it is not one (a file may be kept apart and leave a stub).
fn text_of(path: &Path) -> Option<String> {
    let output = Command::new("gzip").arg("-dc").arg(path).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
}

/// One record of a file.
#[derive(Debug)]
struct Record {
    line: usize,
    sql: String,
    kind: RecordKind,
}

#[derive(Debug)]
enum RecordKind {
    Ok,
    Error,
    Query { types: Vec<u8>, sort: String, expected: Vec<String> },
}

/// All records that an engine called sqlite is to run, and the values from which on results are hashed.
fn records(text: &str) -> (Vec<Record>, usize) {
    let mut records = Vec::new();
    let mut threshold = 0;
    let mut lines = text.lines().enumerate().peekable();
    let mut skip = false;
    while let Some((number, line)) = lines.next() {
        let words: Vec<&str> = line.split('#').next().unwrap_or("").split_whitespace().collect();
        match words[..] {
            ["skipif", engine] => skip |= engine == "sqlite",
            ["onlyif", engine] => skip |= engine != "sqlite",
            ["halt"] if !skip => break,
            ["halt"] => skip = false,
            ["hash-threshold", n] => threshold = n.parse().unwrap_or(0),
            ["statement" | "query", ..] => {
                let record = read_record(number + 1, &words, &mut lines);
                if !skip {
                    records.push(record);
                }
                skip = false;
            }
            _ => {}
        }
    }
    (records, threshold)
}

fn read_record<'a>(
    line: usize,
    words: &[&str],
    lines: &mut std::iter::Peekable<impl Iterator<Item = (usize, &'a str)>>,
) -> Record {
    let mut sql = Vec::new();
    let mut expected = Vec::new();
    let mut in_result = false;
    while let Some((_, text)) = lines.next_if(|(_, text)| !text.trim_end().is_empty()) {
        match text.trim_end() {
            "----" => in_result = true,
            text if in_result => expected.push(text.to_string()),
            text => sql.push(text),
        }
    }
    let kind = match words {
        ["statement", "error", ..] => RecordKind::Error,
        ["query", types, rest @ ..] => RecordKind::Query {
            types: types.bytes().collect(),
            sort: rest.first().copied().unwrap_or("nosort").into(),
            expected,
        },
        _ => RecordKind::Ok,
    };
    Record { line, sql: sql.join("\n"), kind }
}

/// A value as the files write it.
fn show(value: &Reply, kind: u8) -> String {
    let text = match value {
        Reply::Nil => return "NULL".into(),
        Reply::Int(i) => i.to_string(),
        Reply::Double(r) => format!("{r:?}"),
        Reply::Verbatim(_, bytes) | Reply::Bulk(bytes) => String::from_utf8_lossy(bytes).into_owned(),
        other => panic!("{other:?}"),
    };
    let number = || match value {
        Reply::Int(i) => *i as f64,
        Reply::Double(r) => *r,
        _ => text.parse().unwrap_or(0.0),
    };
    match (kind, value) {
        (b'I', Reply::Int(i)) => i.to_string(),
        (b'I', _) => (number() as i64).to_string(),
        (b'R', _) => three_places(number()),
        _ if text.is_empty() => "(empty)".into(),
        _ => text.chars().map(|c| if (' '..='~').contains(&c) { c } else { '@' }).collect(),
    }
}

/// A number with three places, of no more than 16 significant digits, as SQLite's own runner prints it.
fn three_places(number: f64) -> String {
    if number.abs() < 1e12 || !number.is_finite() {
        return format!("{number:.3}");
    }
    let text = format!("{:.15e}", number.abs());
    let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let (digits, exponent) = (digits.replace('.', ""), exponent.parse::<usize>().unwrap_or(0));
    let digits = format!("{digits:0<width$}", width = exponent + 4);
    let sign = if number < 0.0 { "-" } else { "" };
    format!("{sign}{}.{}", &digits[..=exponent], &digits[exponent + 1..exponent + 4])
}

/// Records on which Peryton differs on purpose, and why.
const DIFFERENT: [(&str, &[usize], &str); 1] = [(
    "evidence/slt_lang_replace.test.gz",
    &[38, 42, 58, 62],
    "a text longer than VARCHAR(n) is refused; SQLite ignores n",
)];

fn is_different(file: &str, line: usize) -> bool {
    DIFFERENT.iter().any(|(name, lines, _)| *name == file && lines.contains(&line))
}

struct Runner {
    store: Store,
    session: SessionId,
}

impl Runner {
    fn new() -> Runner {
        let store = Store::open(Default::default()).unwrap();
        let session = store.enter().open_session(Door::Embedded, Arc::new(NoWaker));
        Runner { store, session }
    }

    fn sql(&self, text: &str) -> Reply {
        let reply = self.store.enter().execute(self.session, &[b"SQL", text.as_bytes()]);
        if reply != Reply::None { reply } else { self.late_reply() }
    }

    /// The reply to a long query, which goes on in another thread.
    fn late_reply(&self) -> Reply {
        loop {
            let mut baton = self.store.enter();
            if let Some(reply) = baton.activate(self.session).and_then(|mut active| active.session().outbox.pop()) {
                return reply;
            }
            drop(baton);
            std::thread::yield_now();
        }
    }

    /// None when the record passes, otherwise what went wrong.
    fn run(&self, record: &Record, threshold: usize) -> Option<String> {
        // Peryton takes one statement at a time; a record may hold several, one after another.
        let statements: Vec<&str> = record.sql.split(";\n").collect();
        let (last, before) = statements.split_last()?;
        let failed = before.iter().map(|text| self.sql(text)).find(Reply::is_error);
        let reply = failed.unwrap_or_else(|| self.sql(last));
        match (&record.kind, reply) {
            (RecordKind::Ok, Reply::Error(error)) => Some(error.to_string()),
            (RecordKind::Error, Reply::Error(_)) | (RecordKind::Ok, _) => None,
            (RecordKind::Error, reply) => Some(format!("no error but {reply:?}")),
            // A query that fails has no rows: the files say that by expecting none.
            (RecordKind::Query { expected, .. }, Reply::Error(_)) if expected.is_empty() => None,
            (RecordKind::Query { .. }, Reply::Error(error)) => Some(error.to_string()),
            (RecordKind::Query { types, sort, expected }, Reply::Array(rows)) => {
                compare(types, sort, expected, &rows[1..], threshold)
            }
            (_, reply) => Some(format!("no rows but {reply:?}")),
        }
    }
}

fn compare(types: &[u8], sort: &str, expected: &[String], rows: &[Reply], threshold: usize) -> Option<String> {
    let mut shown: Vec<Vec<String>> = Vec::new();
    for row in rows {
        let Reply::Array(row) = row else { return Some("a row is no array".into()) };
        if row.len() != types.len() {
            return Some(format!("{} columns, not {}", row.len(), types.len()));
        }
        shown.push(row.iter().zip(types).map(|(value, kind)| show(value, *kind)).collect());
    }
    if sort == "rowsort" {
        shown.sort();
    }
    let mut values: Vec<String> = shown.into_iter().flatten().collect();
    if sort == "valuesort" {
        values.sort();
    }
    let hashed = expected.len() == 1 && expected[0].contains(" values hashing to ");
    if hashed || (threshold > 0 && values.len() > threshold) {
        let all: String = values.iter().flat_map(|v| [v.as_str(), "\n"]).collect();
        let found = format!("{} values hashing to {}", values.len(), md5::hex(all.as_bytes()));
        return (expected != [found.clone()])
            .then(|| format!("{found}, not {expected:?}: {:?}", &values[..values.len().min(12)]));
    }
    (values != expected).then(|| format!("{values:?}, not {expected:?}"))
}

#[test]
fn the_files_pass() {
    let Some(directory) = directory() else {
        eprintln!("SKIPPED: no shared/data/sqllogictest beside or above the project");
        return;
    };
    let wanted = std::env::var("SQLLOGICTEST").unwrap_or_else(|_| FILES.join(" "));
    let files: Vec<PathBuf> = match wanted.as_str() {
        "all" => all_files(&directory),
        names => names.split_whitespace().map(|name| directory.join(name)).collect(),
    };
    let (mut passed, mut different, mut failures) = (0, 0, Vec::new());
    for file in files {
        let Some(text) = text_of(&file) else {
            eprintln!("SKIPPED: {} cannot be read", file.display());
            continue;
        };
        let name = file.strip_prefix(&directory).unwrap_or(&file).display().to_string();
        let (records, threshold) = records(&text);
        let runner = Runner::new();
        let mut failed = 0;
        for record in &records {
            match runner.run(record, threshold) {
                None => passed += 1,
                Some(_) if is_different(&name, record.line) => different += 1,
                Some(why) => {
                    failed += 1;
                    failures.push(format!("{name}:{}: {}\n    {why}", record.line, record.sql));
                }
            }
        }
        eprintln!("{name}: {} records, {failed} failed", records.len());
    }
    eprintln!("{passed} records passed, {different} differ on purpose, {} failed", failures.len());
    let shown: Vec<&str> = failures.iter().take(25).map(|f| f.as_str()).collect();
    assert!(failures.is_empty(), "{}", shown.join("\n"));
}

fn all_files(directory: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    let mut directories = vec![directory.to_path_buf()];
    while let Some(directory) = directories.pop() {
        for entry in std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()) {
            match entry.extension() {
                Some(extension) if extension == "gz" => files.push(entry),
                _ if entry.is_dir() => directories.push(entry),
                _ => {}
            }
        }
    }
    files.sort();
    files
}
