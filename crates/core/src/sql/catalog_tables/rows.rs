//! The rows of `information_schema`, from the catalog, the engine's numbers and the cache of statements.

use super::Each;
use crate::engine::Statistics;
use crate::sql::run::{Host, Outcome};
use crate::sql::schema::{
    action_words, create_schedule_statement, create_statement, create_trigger_statement, event_words, filter_of,
    index_columns, key_word, method, show_index_name, table_of,
};
use crate::sql::vtab;
use crate::table::catalog::TableDef;
use crate::table::datum::Datum;
use crate::table::time::from_ms;
use crate::table::trigger::Fires;
use std::sync::Arc;

fn all(host: &mut dyn Host) -> Vec<Arc<TableDef>> {
    host.catalog().tables().cloned().collect()
}

fn text(text: impl AsRef<str>) -> Datum {
    Datum::text(text)
}

fn maybe(text: Option<impl AsRef<str>>) -> Datum {
    text.map_or(Datum::Null, Datum::text)
}

fn number(n: impl TryInto<i64>) -> Datum {
    Datum::Int(n.try_into().unwrap_or(i64::MAX))
}

/// Tables and views.
pub fn tables(host: &mut dyn Host, each: Each<'_>) -> Outcome<()> {
    for def in all(host) {
        let rows = host.source().row_count(def.id)?;
        let (bytes, index_bytes) = match host.table_memory(def.id) {
            Some(memory) => (number(memory.rows), number(memory.total() - memory.rows)),
            None => (Datum::Null, Datum::Null),
        };
        let (name, statement) = (text(&def.name), text(create_statement(&def)));
        each(&[name, text("BASE TABLE"), text(&def.engine), number(rows), bytes, index_bytes, statement]);
    }
    let null = || Datum::Null;
    for view in host.catalog().views() {
        each(&[text(&view.name), text("VIEW"), null(), null(), null(), null(), text(&view.sql)]);
    }
    Ok(())
}

/// Columns of tables, in their order.
pub fn columns(host: &mut dyn Host, each: Each<'_>) -> Outcome<()> {
    for def in all(host) {
        for (place, column) in def.columns.iter().filter(|c| !c.hidden).enumerate() {
            let extra = match (column.autoincrement, column.generated.is_some()) {
                (true, _) => "AUTO_INCREMENT",
                (_, true) => "STORED GENERATED",
                _ => "",
            };
            each(&[
                text(&def.name),
                text(&column.name),
                number(place + 1),
                maybe(column.default.as_ref()),
                text(if column.not_null { "NO" } else { "YES" }),
                text(&column.declared),
                text(vtab::name(column.collation)),
                text(key_word(&def, column.position)),
                text(extra),
                maybe(column.generated.as_ref()),
            ]);
        }
    }
    Ok(())
}

/// Indexes, with what the planner knows of them.
pub fn indexes(host: &mut dyn Host, each: Each<'_>) -> Outcome<()> {
    for def in all(host) {
        let statistics: Arc<Statistics> = host.source().statistics(def.id)?;
        let memory = host.table_memory(def.id);
        for index in &def.indexes {
            let known = statistics.indexes.iter().find(|known| known.id == index.id);
            let bytes = memory.as_ref().and_then(|m| m.indexes.iter().find(|(id, _)| *id == index.id));
            each(&[
                text(&def.name),
                text(show_index_name(index)),
                Datum::Int(index.unique.into()),
                text(method(index.method)),
                text(index_columns(&def, index)),
                maybe(filter_of(&def, index)),
                known.map_or(Datum::Null, |known| number(known.entries)),
                known.and_then(|known| known.distinct.last()).map_or(Datum::Null, |n| number(*n)),
                bytes.map_or(Datum::Null, |(_, bytes)| number(*bytes)),
            ]);
        }
    }
    Ok(())
}

/// Views.
pub fn views(host: &mut dyn Host, each: Each<'_>) -> Outcome<()> {
    host.catalog().views().for_each(|view| each(&[text(&view.name), text(&view.sql)]));
    Ok(())
}

/// Routines, and how they were used.
pub fn routines(host: &mut dyn Host, each: Each<'_>) -> Outcome<()> {
    for routine in host.routines() {
        let uses = &routine.uses;
        each(&[
            text(&routine.name),
            maybe(routine.library.as_ref()),
            text(&routine.language),
            text(&routine.flags),
            number(uses.calls),
            number(uses.failures),
            number(uses.timed),
            number(uses.total_ns / 1000),
            number(uses.max_ns / 1000),
            uses.quantile_ns(0.99).map_or(Datum::Null, |ns| number(ns / 1000)),
        ]);
    }
    Ok(())
}

/// Foreign keys.
pub fn foreign_keys(host: &mut dyn Host, each: Each<'_>) -> Outcome<()> {
    for def in all(host) {
        for key in &def.foreign_keys {
            each(&[
                text(&def.name),
                maybe(key.name.as_ref()),
                text(key.columns.join(", ")),
                text(&key.parent),
                maybe((!key.parent_columns.is_empty()).then(|| key.parent_columns.join(", "))),
                text(action_words(key.on_delete)),
                text(action_words(key.on_update)),
            ]);
        }
    }
    Ok(())
}

/// CHECKs.
pub fn checks(host: &mut dyn Host, each: Each<'_>) -> Outcome<()> {
    for def in all(host) {
        def.checks
            .iter()
            .for_each(|check| each(&[text(&def.name), maybe(check.name.as_ref()), text(&check.expression)]));
    }
    Ok(())
}

/// Triggers, in the order in which they were made.
pub fn triggers(host: &mut dyn Host, each: Each<'_>) -> Outcome<()> {
    let mut triggers: Vec<_> = host.catalog().triggers().iter().cloned().collect();
    triggers.sort_by_key(|trigger| trigger.number);
    for trigger in triggers {
        let catalog = host.catalog();
        let (table, pattern, timing) = match &trigger.fires {
            Fires::Rows(rows) => (text(table_of(catalog, rows)), Datum::Null, rows.timing.word()),
            Fires::Keys(keys) => (Datum::Null, text(&keys.pattern), "AFTER"),
        };
        let (event, statement) = (event_words(catalog, &trigger), create_trigger_statement(catalog, &trigger));
        let runs = host.trigger_runs(&trigger.name);
        each(&[
            text(&trigger.name),
            table,
            pattern,
            text(timing),
            text(event),
            maybe(trigger.rows().and_then(|rows| rows.condition.as_ref())),
            number(trigger.number),
            text(&trigger.routine),
            number(runs.calls),
            number(runs.failures),
            maybe(runs.last_error),
            text(statement),
        ]);
    }
    Ok(())
}

/// Schedules, and how their calls went.
pub fn schedules(host: &mut dyn Host, each: Each<'_>) -> Outcome<()> {
    let schedules: Vec<_> = host.catalog().schedules.iter().cloned().collect();
    for schedule in schedules {
        let runs = host.schedule_runs(&schedule.name);
        each(&[
            text(&schedule.name),
            number(schedule.every_ms),
            text(&schedule.routine),
            maybe(runs.next_ms.map(from_ms)),
            maybe(runs.last_ms.map(from_ms)),
            number(runs.runs.calls),
            number(runs.runs.failures),
            maybe(runs.runs.last_error),
            text(create_schedule_statement(&schedule)),
        ]);
    }
    Ok(())
}

/// Statements in the cache. What is answered without SQLite is counted and not timed.
pub fn statements(host: &mut dyn Host, each: Each<'_>) -> Outcome<()> {
    for (statement, usage) in host.sql().statements() {
        let statement = text(String::from_utf8_lossy(statement));
        let calls = number(usage.calls);
        if usage.fast {
            each(&[statement, calls, Datum::Null, Datum::Null, text("fast")]);
        } else {
            let ms = Datum::Real(usage.ns as f64 / 1e6);
            each(&[statement, calls, ms, number(usage.rows), text("sqlite")]);
        }
    }
    Ok(())
}
