//! CREATE SCHEDULE, DROP SCHEDULE, and what SHOW tells of schedules.

use super::all_or_none;
use super::show::{rows, text};
use super::trigger::{check_routine, quoted};
use crate::error::{Code, Error, Result};
use crate::limits;
use crate::reply::Reply;
use crate::sql::ddl::{CreateSchedule, Drop};
use crate::sql::error::sql;
use crate::sql::run::Host;
use crate::sql::token::show_name;
use crate::table::catalog::Catalog;
use crate::table::schedule::ScheduleDef;
use crate::table::time::from_ms;

/// CREATE SCHEDULE.
pub fn create(host: &mut dyn Host, statement: &CreateSchedule) -> Result<Reply> {
    if host.catalog().schedules.get(&statement.name).is_some() {
        return match statement.if_not_exists {
            true => Ok(Reply::Int(0)),
            false => Err(sql(format!("schedule {} already exists", statement.name))),
        };
    }
    if host.catalog().schedules.len() >= limits::SCHEDULES_MAX {
        let text = format!("there are {} schedules, and no more can be", limits::SCHEDULES_MAX);
        return Err(Error::new(Code::Limit, text));
    }
    check_routine(host.catalog(), &statement.routine)?;
    let schedule = ScheduleDef {
        name: statement.name.clone(),
        every_ms: statement.every_ms,
        routine: statement.routine.clone(),
        arguments: statement.arguments.iter().map(|argument| argument.as_bytes().into()).collect(),
    };
    let (tables, changes) = host.write()?;
    tables.create_schedule(schedule, changes)?;
    Ok(Reply::Int(0))
}

/// DROP SCHEDULE.
pub fn drop(host: &mut dyn Host, statement: &Drop) -> Result<Reply> {
    all_or_none(host, |host| {
        for name in &statement.names {
            if statement.if_exists && host.catalog().schedules.get(name).is_none() {
                continue;
            }
            let (tables, changes) = host.write()?;
            tables.drop_schedule(name, changes)?;
        }
        Ok(Reply::Int(0))
    })
}

/// "5 MINUTES"
pub fn period(every_ms: u64) -> String {
    let units =
        [(86_400_000, "DAYS"), (3_600_000, "HOURS"), (60_000, "MINUTES"), (1000, "SECONDS"), (1, "MILLISECONDS")];
    let fits = units.iter().find(|(ms, _)| every_ms.is_multiple_of(*ms));
    fits.map_or(String::new(), |(ms, word)| format!("{} {word}", every_ms / ms))
}

/// The statement that makes a schedule.
pub fn create_statement(schedule: &ScheduleDef) -> String {
    let arguments: Vec<String> =
        schedule.arguments.iter().map(|argument| quoted(&String::from_utf8_lossy(argument))).collect();
    let with = if arguments.is_empty() { String::new() } else { format!(" WITH ({})", arguments.join(", ")) };
    let (name, routine) = (show_name(&schedule.name), show_name(&schedule.routine));
    format!("CREATE SCHEDULE {name} EVERY {} CALL {routine}{with}", period(schedule.every_ms))
}

/// SHOW SCHEDULES.
pub fn show(host: &mut dyn Host) -> Reply {
    let row = |schedule: &ScheduleDef| {
        let runs = host.schedule_runs(&schedule.name);
        let time = |ms: Option<i64>| ms.map_or(Reply::Nil, |ms| text(from_ms(ms)));
        vec![
            text(&schedule.name),
            text(period(schedule.every_ms)),
            text(&schedule.routine),
            time(runs.next_ms),
            time(runs.last_ms),
            Reply::Int(runs.runs.calls as i64),
            Reply::Int(runs.runs.failures as i64),
            runs.runs.last_error.map_or(Reply::Nil, text),
        ]
    };
    let shown: Vec<Vec<Reply>> = host.catalog().schedules.iter().map(|schedule| row(schedule)).collect();
    rows(&["name", "every", "routine", "next_run", "last_run", "runs", "failures", "last_error"], shown)
}

/// SHOW CREATE SCHEDULE.
pub fn show_create(catalog: &Catalog, name: &str) -> Result<Reply> {
    let schedule = catalog.schedules.get(name).ok_or_else(|| sql(format!("no such schedule: {name}")))?;
    Ok(rows(&["name", "sql"], [vec![text(&schedule.name), text(create_statement(schedule))]]))
}
