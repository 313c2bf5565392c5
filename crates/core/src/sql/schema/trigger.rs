//! CREATE TRIGGER, DROP TRIGGER, and what SHOW tells of triggers.

use super::show::{rows, text};
use super::{all_or_none, table};
use crate::error::{Code, Error, Result};
use crate::keyspace::events;
use crate::limits;
use crate::reply::Reply;
use crate::sql::constraint::RowEvaluator;
use crate::sql::ddl::{CreateTrigger, Drop, On};
use crate::sql::error::sql;
use crate::sql::run::Host;
use crate::sql::token::show_name;
use crate::table::catalog::{Catalog, TableDef};
use crate::table::trigger::{Fires, OnKeys, OnRows, TriggerDef};

/// CREATE TRIGGER.
pub fn create(host: &mut dyn Host, statement: &CreateTrigger) -> Result<Reply> {
    if host.catalog().triggers().get(&statement.name).is_some() {
        return match statement.if_not_exists {
            true => Ok(Reply::Int(0)),
            false => Err(sql(format!("trigger {} already exists", statement.name))),
        };
    }
    if host.catalog().triggers().len() >= limits::TRIGGERS_MAX {
        return Err(Error::new(
            Code::Limit,
            format!("there are {} triggers, and no more can be", limits::TRIGGERS_MAX),
        ));
    }
    check_routine(host.catalog(), &statement.routine)?;
    let fires = match &statement.on {
        On::Rows { timing, event, columns, table: name, condition } => {
            if host.catalog().view(name).is_some() {
                return Err(sql(format!("{name} is a view: triggers are for tables")));
            }
            let def = table(host.catalog(), name)?;
            let columns = columns.iter().map(|column| position(&def, column)).collect::<Result<_>>()?;
            let rows = OnRows { table: def.id, timing: *timing, event: *event, columns, condition: condition.clone() };
            check_condition(&def, &statement.name, &rows)?;
            Fires::Rows(rows)
        }
        On::Keys { pattern, events } => Fires::Keys(on_keys(pattern, events)?),
    };
    let number = host.catalog().triggers().next_number();
    let trigger = TriggerDef { name: statement.name.clone(), number, routine: statement.routine.clone(), fires };
    let (tables, changes) = host.write()?;
    tables.create_trigger(trigger, changes)?;
    Ok(Reply::Int(0))
}

/// An error if no library has the function.
pub fn check_routine(catalog: &Catalog, routine: &str) -> Result<()> {
    match catalog.libraries.of_function(routine) {
        Some(_) => Ok(()),
        None => Err(sql(format!("no such function: {routine}: FUNCTION LOAD the library that has it first"))),
    }
}

fn position(def: &TableDef, column: &str) -> Result<u16> {
    let found = def.column(column).filter(|(_, column)| !column.hidden);
    let missing = || sql(format!("table {} has no column named {column}", def.name));
    found.map(|(_, column)| column.position).ok_or_else(missing)
}

fn check_condition(def: &TableDef, name: &str, rows: &OnRows) -> Result<()> {
    let Some(condition) = &rows.condition else { return Ok(()) };
    RowEvaluator::judge_condition(def, rows.event, condition).map_err(|error| {
        let message = error.message.split(" at position ").next().unwrap_or_default();
        Error::new(error.code, format!("WHEN of trigger {name}: {message}"))
    })
}

fn on_keys(pattern: &str, names: &[String]) -> Result<OnKeys> {
    let names: Vec<String> = names.iter().map(|name| name.to_ascii_lowercase()).collect();
    if let Some(unknown) = names.iter().find(|name| events::class_of(name).is_none()) {
        return Err(sql(format!("no such event of keys: {unknown}; they have the names of Redis's notifications")));
    }
    Ok(OnKeys { pattern: pattern.to_string(), events: names })
}

/// DROP TRIGGER.
pub fn drop(host: &mut dyn Host, statement: &Drop) -> Result<Reply> {
    all_or_none(host, |host| {
        for name in &statement.names {
            if statement.if_exists && host.catalog().triggers().get(name).is_none() {
                continue;
            }
            let (tables, changes) = host.write()?;
            tables.drop_trigger(name, changes)?;
        }
        Ok(Reply::Int(0))
    })
}

/// The statement that makes a trigger.
pub fn create_statement(catalog: &Catalog, trigger: &TriggerDef) -> String {
    let (name, routine) = (show_name(&trigger.name), show_name(&trigger.routine));
    match &trigger.fires {
        Fires::Rows(fires) => {
            let (timing, table) = (fires.timing.word(), show_name(&table_of(catalog, fires)).into_owned());
            let when = fires.condition.as_ref().map_or(String::new(), |condition| format!(" WHEN ({condition})"));
            let event = event_words(catalog, trigger);
            format!("CREATE TRIGGER {name} {timing} {event} ON {table} FOR EACH ROW{when} CALL {routine}")
        }
        Fires::Keys(keys) => {
            let events = match keys.events.is_empty() {
                true => String::new(),
                false => format!(" FOR {}", keys.events.iter().map(|e| quoted(e)).collect::<Vec<_>>().join(", ")),
            };
            format!("CREATE TRIGGER {name} ON KEYS {}{events} CALL {routine}", quoted(&keys.pattern))
        }
    }
}

/// A text in SQL's quotes.
pub fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

/// The name of the table whose rows fire a trigger.
pub fn table_of(catalog: &Catalog, rows: &OnRows) -> String {
    catalog.table_by_id(rows.table).map_or("?".into(), |def| def.name.clone())
}

/// "UPDATE OF a, b"; "set, del"; empty for any event of keys.
pub fn event_words(catalog: &Catalog, trigger: &TriggerDef) -> String {
    match &trigger.fires {
        Fires::Rows(rows) if rows.columns.is_empty() => rows.event.word().to_string(),
        Fires::Rows(rows) => {
            let def = catalog.table_by_id(rows.table);
            let name = |position: &u16| {
                let column = def.and_then(|def| def.column_at(*position));
                column.map_or("?".into(), |column| show_name(&column.name).into_owned())
            };
            let names: Vec<String> = rows.columns.iter().map(name).collect();
            format!("{} OF {}", rows.event.word(), names.join(", "))
        }
        Fires::Keys(keys) => keys.events.join(", "),
    }
}

/// SHOW TRIGGERS, of all or of one table.
pub fn show(host: &mut dyn Host, of: Option<&str>) -> Result<Reply> {
    let wanted = of.map(|name| table(host.catalog(), name)).transpose()?;
    let catalog = host.catalog();
    let mut triggers: Vec<_> = catalog.triggers().iter().cloned().collect();
    triggers.sort_by_key(|trigger| trigger.number);
    triggers
        .retain(|trigger| wanted.as_ref().is_none_or(|def| trigger.rows().is_some_and(|rows| rows.table == def.id)));
    let row = |trigger: &TriggerDef| {
        let (on, timing) = match &trigger.fires {
            Fires::Rows(rows) => (table_of(catalog, rows), rows.timing.word()),
            Fires::Keys(keys) => (format!("KEYS {}", quoted(&keys.pattern)), "AFTER"),
        };
        let condition = trigger.rows().and_then(|rows| rows.condition.as_ref()).map_or(Reply::Nil, text);
        let runs = host.trigger_runs(&trigger.name);
        vec![
            text(&trigger.name),
            text(on),
            text(timing),
            text(event_words(catalog, trigger)),
            condition,
            text(&trigger.routine),
            Reply::Int(runs.calls as i64),
            Reply::Int(runs.failures as i64),
            runs.last_error.map_or(Reply::Nil, text),
        ]
    };
    let shown: Vec<Vec<Reply>> = triggers.iter().map(|trigger| row(trigger)).collect();
    Ok(rows(&["name", "on", "timing", "event", "condition", "routine", "calls", "failures", "last_error"], shown))
}

/// SHOW CREATE TRIGGER.
pub fn show_create(catalog: &Catalog, name: &str) -> Result<Reply> {
    let missing = || sql(format!("no such trigger: {name}"));
    let trigger = catalog.triggers().get(name).ok_or_else(missing)?;
    Ok(rows(&["name", "sql"], [vec![text(&trigger.name), text(create_statement(catalog, trigger))]]))
}
