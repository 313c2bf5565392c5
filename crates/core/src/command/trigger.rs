//! Calls the routines of triggers: those of rows inside the statement that writes them, those of keys when a command is done.

use super::context::{Context, Origin};
use super::{atomic, dispatch, routine};
use crate::error::{Code, Error, Result};
use crate::keyspace::Event;
use crate::limits;
use crate::procedure::lua::{Cell, Field};
use crate::sql::{Fired, Firing};
use crate::state::State;
use crate::table::catalog::TableDef;
use crate::table::datum::DatumRef;
use crate::table::trigger::{RowEvent, Timing, TriggerDef};
use crate::table::types::ColumnType;
use crate::txn::Effect;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;

/// Calls the routine of a trigger of rows.
///
/// # Errors
/// The routine refuses the row or failed, or there is none: the statement fails.
pub(super) fn fire(ctx: &mut Context<'_>, firing: &Firing<'_>) -> Result<Fired> {
    let trigger = firing.trigger;
    let fired = nested(ctx, trigger, |ctx| tell_of_row(ctx, firing));
    let fired = fired.map_err(|error| refusal(firing, error));
    note(ctx.state, trigger, fired.as_ref().err());
    fired
}

fn text(text: &str) -> Field<'_> {
    Field::Value(DatumRef::Text(text.as_bytes()))
}

fn tell_of_row(ctx: &mut Context<'_>, firing: &Firing<'_>) -> Result<Fired> {
    let Firing { trigger, table, old, new } = *firing;
    let Some(rows) = trigger.rows() else { return Ok(Fired::default()) };
    let (old, new) = (old.map(|old| cells(table, old)), new.map(|new| cells(table, new)));
    let event = match rows.event {
        RowEvent::Insert => "insert",
        RowEvent::Update => "update",
        RowEvent::Delete => "delete",
    };
    let when = if rows.timing == Timing::Before { "before" } else { "after" };
    let mut fields = vec![
        ("trigger", text(&trigger.name)),
        ("table", text(&table.name)),
        ("when", text(when)),
        ("event", text(event)),
    ];
    fields.extend(old.as_deref().map(|row| ("old", Field::Row(row))));
    fields.extend(new.as_deref().map(|row| ("new", Field::Row(row))));
    let changes_row = rows.timing == Timing::Before && rows.event != RowEvent::Delete;
    let told = routine::tell(ctx, trigger.routine.as_bytes(), &fields, changes_row.then_some("new"))?;
    Ok(Fired { refused: told.refused && rows.timing == Timing::Before, new: told.row })
}

/// The values of the columns that `SELECT *` shows, with their names.
fn cells<'a>(table: &'a TableDef, values: &'a [DatumRef<'a>]) -> Vec<Cell<'a>> {
    let columns = table.columns.iter().filter(|column| !column.hidden).zip(values);
    columns
        .map(|(column, value)| Cell {
            name: &column.name,
            value: *value,
            is_blob: column.ctype == ColumnType::Blob || matches!(value, DatumRef::Blob(_)),
        })
        .collect()
}

/// Runs `body` as the doing of a trigger that others have fired.
///
/// # Errors
/// They fire each other too deeply; or that of `body`.
fn nested<T>(
    ctx: &mut Context<'_>,
    trigger: &Arc<TriggerDef>,
    body: impl FnOnce(&mut Context<'_>) -> Result<T>,
) -> Result<T> {
    if ctx.state.tables.catalog.libraries.of_function(&trigger.routine).is_none() {
        let text = format!(
            "trigger {} calls function {}, which is gone: load a library that has it, or drop the trigger",
            trigger.name, trigger.routine
        );
        return Err(Error::new(Code::Sql, text));
    }
    let depth = ctx.state.routines.firing.len();
    if depth >= limits::TRIGGER_DEPTH_MAX {
        return Err(too_deep(ctx.state.routines.firing.iter(), trigger));
    }
    ctx.state.routines.firing.push(trigger.clone());
    let result = catch_unwind(AssertUnwindSafe(|| body(ctx)));
    ctx.state.routines.firing.truncate(depth);
    result.unwrap_or_else(|panic| resume_unwind(panic))
}

/// The error that names those that fire each other.
fn too_deep<'a>(chain: impl Iterator<Item = &'a Arc<TriggerDef>>, last: &TriggerDef) -> Error {
    let names: Vec<&str> = chain.map(|trigger| trigger.name.as_str()).chain([last.name.as_str()]).collect();
    let text = format!("triggers fire each other more than {} deep: {}", limits::TRIGGER_DEPTH_MAX, names.join(" -> "));
    Error::new(Code::Limit, text)
}

/// The failure of a statement that a trigger of rows has failed.
fn refusal(firing: &Firing<'_>, error: Error) -> Error {
    match error.code {
        // It is not about the row.
        Code::Cancelled | Code::Oom | Code::MisConf | Code::Conflict | Code::Bug | Code::Limit | Code::Sql => error,
        code => {
            let word = if code == Code::Custom || code == Code::Err { "" } else { code.word() };
            let space = if word.is_empty() { "" } else { " " };
            let (trigger, table) = (&firing.trigger.name, &firing.table.name);
            let why = error.message.strip_prefix("ERR ").unwrap_or(&error.message);
            let text = format!("trigger {trigger} of table {table}: {word}{space}{why}");
            Error::new(Code::Constraint, text)
        }
    }
}

/// Counts a call, and tells the log of a failure that is not that of the call before.
fn note(state: &mut State, trigger: &Arc<TriggerDef>, failure: Option<&Error>) {
    state.routines.note(trigger, state.stats.commands, failure.map(ToString::to_string));
}

/// Fires the triggers of keys for what an effect says happened. What they do becomes part of the effect, and may fire others.
#[cold]
pub(super) fn fire_keys(state: &mut State, effect: &mut Effect) {
    if state.routines.is_occupied() {
        // Keys that make room for a statement's rows: it is not over, nor logged, and this would be logged before it.
        let routines = &mut state.routines;
        let room = limits::TRIGGER_EVENTS_MAX.saturating_sub(routines.waiting.len());
        let events: Vec<Event> = effect.keys.events.iter().take(room).cloned().collect();
        return routines.waiting.extend(events);
    }
    let mut firing = KeysFiring::default();
    for event in std::mem::take(&mut state.routines.waiting) {
        firing.fire(state, effect, &event, None);
    }
    let mut at = 0;
    while let Some(event) = effect.keys.events.get(at) {
        if state.routines.classes().intersects(event.class) {
            let (event, cause) = (event.clone(), firing.cause_of(at));
            firing.fire(state, effect, &event, cause);
        }
        at += 1;
    }
}

/// Fires triggers of keys for what happened while nobody could be called.
pub(crate) fn keep_house(state: &mut State) {
    if state.routines.waiting.is_empty() || state.routines.is_occupied() {
        return;
    }
    let mut effect = state.new_effect();
    fire_keys(state, &mut effect);
    dispatch::commit_alone(state, effect);
}

/// Which trigger made an event, and because of which.
struct Cause {
    trigger: Arc<TriggerDef>,
    before: Option<usize>,
}

/// Triggers of keys while they are fired.
#[derive(Default)]
struct KeysFiring {
    causes: Vec<Cause>,
    /// The cause of each event of the effect that triggers made.
    made: Vec<Option<usize>>,
}

impl KeysFiring {
    fn cause_of(&self, event: usize) -> Option<usize> {
        self.made.get(event).copied().flatten()
    }

    /// The triggers that led to what one did, the first of them first.
    fn chain(&self, cause: Option<usize>) -> Vec<Arc<TriggerDef>> {
        let mut chain = Vec::new();
        let mut next = cause;
        while let Some(cause) = next.map(|at| &self.causes[at]) {
            chain.push(cause.trigger.clone());
            next = cause.before;
        }
        chain.reverse();
        chain
    }

    fn fire(&mut self, state: &mut State, effect: &mut Effect, event: &Event, cause: Option<usize>) {
        for trigger in state.routines.fired_by(event) {
            let chain = self.chain(cause);
            let result = if chain.len() >= limits::TRIGGER_DEPTH_MAX {
                Err(too_deep(chain.iter(), &trigger))
            } else if effect.keys.events.len() > limits::TRIGGER_EVENTS_MAX {
                let text = format!("triggers have made more than {} events", limits::TRIGGER_EVENTS_MAX);
                Err(Error::new(Code::Limit, text))
            } else {
                // Those that others made before have their cause, or none.
                self.made.resize(effect.keys.events.len(), None);
                let result = tell_of_key(state, effect, &trigger, event);
                self.causes.push(Cause { trigger: trigger.clone(), before: cause });
                self.made.resize(effect.keys.events.len(), Some(self.causes.len() - 1));
                result
            };
            if let Err(error) = &result
                && state.routines.trigger_runs(&trigger.name).last_error.as_deref() != Some(&error.to_string())
            {
                state.env.log(3, &format!("trigger {} of key events: {error}", trigger.name));
            }
            note(state, &trigger, result.as_ref().err());
        }
    }
}

/// Calls the routine of a trigger of keys. If it fails, what it did is undone.
fn tell_of_key(state: &mut State, effect: &mut Effect, trigger: &Arc<TriggerDef>, event: &Event) -> Result<()> {
    let mut session = dispatch::nobody(state);
    (session.db, session.authenticated) = (event.db, true);
    let mut ctx = Context { state, session: &mut session, effect, origin: Origin::Exec, ready: None };
    let key = Field::Value(DatumRef::Blob(&event.key));
    let (db, name) = (Field::Value(DatumRef::Int(event.db as i64)), text(event.name));
    let fields = [("trigger", text(&trigger.name)), ("key", key), ("event", name), ("db", db)];
    let tell = |ctx: &mut Context<'_>| {
        nested(ctx, trigger, |ctx| routine::tell(ctx, trigger.routine.as_bytes(), &fields, None))
    };
    atomic::run(&mut ctx, true, tell, Result::is_ok).map(drop)
}
