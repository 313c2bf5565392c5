//! What SQLite says of a definition: the table is made for a moment in a database of SQLite's own, which refuses unknown
//! names, queries, functions that change their mind and generated columns that use each other, and tells types.

use super::rules::{Rules, requalified};
use crate::error::{Code, Error, Result};
use crate::sql::error::sql;
use crate::sql::sqlite::{Connection, Step, functions};
use crate::sql::token::{Tokens, quote_name};
use crate::sql::vtab;
use crate::table::catalog::TableDef;
use crate::table::datum::DatumRef;
use crate::table::types::{Collation, ColumnType};

/// What an expression's values are like.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Kind {
    /// The type of a column that holds them.
    pub ctype: ColumnType,
    /// How they compare.
    pub collation: Collation,
}

/// Judges the CHECKs and generated columns of a definition.
pub fn table(def: &TableDef) -> Result<()> {
    let generated = def.columns.iter().filter(|c| !c.hidden).filter_map(|c| Some((c, c.generated.as_ref()?)));
    for (column, expression) in generated.clone() {
        let whose = format!("generated column {}.{}", def.name, column.name);
        refuse_row_ids(def, expression, &whose)?;
        let bare = TableDef { checks: Vec::new(), ..def.clone() };
        make(&connect()?, &bare).map_err(|error| about(error, &whose))?;
    }
    for check in &def.checks {
        let whose = format!("CHECK ({}) of table {}", check.expression, def.name);
        refuse_row_ids(def, &check.expression, &whose)?;
        let alone = TableDef { checks: vec![check.clone()], ..def.clone() };
        let connection = connect()?;
        let expression = requalified(&check.expression, &def.name, None);
        // SQLite lets a CHECK change its mind, but not an index, which demands the rest as well.
        let index = format!("CREATE INDEX judged ON {} (({}\n))", quote_name(&def.name), expression);
        let judged = make(&connection, &alone).and_then(|()| run(&connection, &index));
        judged.map_err(|error| about(error, &whose))?;
    }
    Rules::new(def)?;
    Ok(())
}

/// Judges an expression of an index and tells what its values are like.
pub fn index_expression(def: &TableDef, expression: &str) -> Result<Kind> {
    let whose = format!("index on {} ({expression})", def.name);
    refuse_row_ids(def, expression, &whose)?;
    let connection = connect()?;
    let table = quote_name(&def.name);
    let judged = || -> Result<Kind> {
        make(&connection, def)?;
        run(&connection, &format!("CREATE INDEX judged ON {table} (({expression}\n))"))?;
        run(&connection, &format!("CREATE TABLE \"judge of types\" AS SELECT ({expression}\n) AS e FROM {table}"))?;
        let ctype = run(&connection, "SELECT type FROM pragma_table_info('judge of types')")?;
        let ctype = match &*ctype {
            "" => ColumnType::Any,
            "TEXT" => ColumnType::Text { chars_max: None },
            "INT" => ColumnType::Integer,
            "REAL" => ColumnType::Real,
            _ => return Err(sql("an index on a CAST AS NUMERIC is not supported: cast to INTEGER, REAL or TEXT")),
        };
        let collation = collation_of(&connection, &format!("SELECT ({expression}\n) = 'x' FROM {table}"))?;
        Ok(Kind { ctype, collation })
    };
    judged().map_err(|error| about(error, &whose))
}

/// The collation of the comparison that a query returns: that of the last one in the program that SQLite makes of it.
fn collation_of(connection: &Connection, query: &str) -> Result<Collation> {
    let mut program = connection.prepare(&format!("EXPLAIN {query}"), false)?;
    let mut collation = Collation::default();
    while program.step() == Step::Row {
        let opcode = text_of(program.column(1));
        if opcode == "ResultRow" {
            break;
        }
        if matches!(&*opcode, "Eq" | "Ne") {
            let name = text_of(program.column(5));
            // "NOCASE-8"
            let name = name.split('-').next().unwrap_or_default();
            collation = vtab::collation_named(name.as_bytes()).unwrap_or_default();
        }
    }
    Ok(collation)
}

fn text_of(value: DatumRef<'_>) -> String {
    match value {
        DatumRef::Text(bytes) => String::from_utf8_lossy(bytes).into_owned(),
        _ => String::new(),
    }
}

/// Judges the condition of a partial index.
pub fn index_filter(def: &TableDef, condition: &str) -> Result<()> {
    let whose = format!("condition of an index on {} ({condition})", def.name);
    refuse_row_ids(def, condition, &whose)?;
    let column = def.columns.iter().find(|c| !c.hidden).map(|c| quote_name(&c.name)).unwrap_or_default();
    let connection = connect()?;
    let text = format!("CREATE INDEX judged ON {} ({column}) WHERE {condition}", quote_name(&def.name));
    make(&connection, def).and_then(|()| run(&connection, &text)).map_err(|error| about(error, &whose))?;
    Ok(())
}

fn connect() -> Result<Connection> {
    let connection = Connection::open_native()?;
    functions::register(&connection)?;
    Ok(connection)
}

fn about(error: Error, whose: &str) -> Error {
    // A place in the judge's own text would mislead.
    let message = error.message.split(" at position ").next().unwrap_or_default();
    let message = message.replace(" prohibited in index expressions", " are not allowed here");
    Error::new(error.code, format!("{whose}: {message}"))
}

/// Row ids are the engine's affair, and name nothing in a row.
pub(super) fn refuse_row_ids(def: &TableDef, expression: &str, whose: &str) -> Result<()> {
    let tokens = Tokens::all(expression)?;
    for token in super::rules::names_of(&tokens) {
        let name = token.name().unwrap_or_default();
        let is_row_id = ["rowid", "_rowid_", "oid"].iter().any(|id| name.eq_ignore_ascii_case(id));
        if is_row_id && def.column(&name).is_none() {
            return Err(sql(format!("{whose}: no such column: {name}")));
        }
    }
    Ok(())
}

/// Makes the table in SQLite's own form, without what SQLite need not judge.
fn make(connection: &Connection, def: &TableDef) -> Result<()> {
    let columns = def.columns.iter().filter(|c| !c.hidden).map(|c| {
        let name = match c.ctype.sqlite_name() {
            "" => "ANY",
            name => name,
        };
        let generated = c.generated.as_ref().map_or(String::new(), |e| format!(" AS ({e}\n) STORED"));
        format!("{} {name} COLLATE {}{generated}", quote_name(&c.name), vtab::name(c.collation))
    });
    let checks = def.checks.iter().map(|check| format!("CHECK ({}\n)", check.expression));
    let parts: Vec<String> = columns.chain(checks).collect();
    run(connection, &format!("CREATE TABLE {} ({}) STRICT", quote_name(&def.name), parts.join(", "))).map(|_| ())
}

/// Runs a statement and gives the text in the first column of its last row.
fn run(connection: &Connection, text: &str) -> Result<String> {
    let mut statement = connection.prepare(text, false)?;
    let mut answer = String::new();
    loop {
        match statement.step() {
            Step::Done => return Ok(answer),
            Step::Failed(code) => return Err(connection.error(code, text)),
            Step::Row => {
                answer = match statement.column(0) {
                    DatumRef::Text(bytes) => String::from_utf8_lossy(bytes).into_owned(),
                    DatumRef::Null => String::new(),
                    _ => return Err(Error::new(Code::Bug, "judge.rs: a text was expected")),
                };
            }
        }
    }
}
