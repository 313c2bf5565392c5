//! TABLE.GET, TABLE.PUT and their kin: rows by primary key, without SQL.

use super::arguments;
use super::context::Context;
use super::dispatch;
use super::spec::{Flags, Group, Keys, Run, Spec};
use super::sql::Statement;
use super::transact;
use crate::error::{Error, Result};
use crate::limits;
use crate::reply::Reply;
use crate::sql::executor::{reply, table_info};
use crate::sql::records::{self, Records, ShowAt};
use crate::sql::report;
use crate::sql::schema::{method, show_index_name};
use crate::sql::table_info::TableInfo;
use crate::table::catalog::{IndexColumn, IndexDef};
use crate::table::datum::DatumRef;
use crate::table::row::Row;

const READ: Flags = Flags::READONLY.union(Flags::SQL);
const WRITE: Flags = Flags::WRITE.union(Flags::SQL);
const SCAN_COUNT: usize = 10;

const fn row(
    name: &'static str,
    run: Run,
    arity: i32,
    flags: Flags,
    cost: &'static str,
    usage: &'static str,
    summary: &'static str,
) -> Spec {
    Spec::row(Group::Table, name, run, arity, flags, Keys::None, "peryton", cost, usage, summary)
}

pub(super) const COMMANDS: &[Spec] = &[
    row(
        "table.get",
        get,
        -3,
        READ.union(Flags::FAST),
        "O(1) by a hash key, O(log N) by an ordered one",
        "table key [key ...]",
        "Gets a row by primary key, one value for each column of the key: its columns and values, or nil.",
    ),
    row(
        "table.mget",
        mget,
        -3,
        READ.union(Flags::FAST),
        "O(N) for N keys",
        "table key [key ...]",
        "Gets rows by primary key, in the order of the keys; a key of several columns takes as many values.",
    ),
    row(
        "table.put",
        put,
        -4,
        WRITE.union(Flags::DENYOOM),
        "O(1) for each index",
        "table column value [column value ...]",
        "Inserts a row, or replaces the one with its key; columns not named get their defaults.",
    ),
    row(
        "table.del",
        del,
        -3,
        WRITE,
        "O(N) for N keys",
        "table key [key ...]",
        "Deletes rows by primary key and tells how many there were.",
    ),
    row(
        "table.scan",
        scan,
        -3,
        READ,
        "O(N) for N rows shown",
        "table cursor [COUNT count] [ROWS]",
        "Shows some rows and the cursor to go on from; 0 begins and ends. With ROWS the columns are named once, as SQL does.",
    ),
    row("table.info", info, 2, READ, "O(1)", "table", "Tells a table's columns, indexes, rows and bytes."),
];

/// Runs a command of the row API; its errors tell as much as those of statements do.
macro_rules! told {
    ($($name:ident => $plain:ident),*) => {
        $(fn $name(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<Reply> {
            $plain(ctx, args).map_err(|error| report::dressed(&mut Statement::new(ctx), args[1], error))
        })*
    };
}

told!(get => get_plain, mget => mget_plain, put => put_plain, del => del_plain, scan => scan_plain, info => info_plain);

/// A row as column names and values.
fn record(info: &TableInfo, row: Row<'_>) -> Reply {
    let visible = info.def.columns.iter().filter(|c| !c.hidden);
    Reply::Map(visible.map(|c| (Reply::bulk(&c.name), reply(row.get(c.position)))).collect())
}

fn get_plain(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<Reply> {
    let host = &mut Statement::new(ctx);
    let records = Records::open(host, args[1])?;
    let mut found = Reply::Nil;
    let keys = records.get_many(host, &args[2..], &mut |_, row| found = record(&records.info, row))?;
    if keys > 1 {
        return Err(Error::err("more than one key given: TABLE.MGET gets many"));
    }
    Ok(found)
}

/// Shows a procedure the rows that have these keys; see [`Records::show`].
pub(super) fn show(
    ctx: &mut Context<'_>,
    table: &[u8],
    keys: &[DatumRef<'_>],
    columns: Option<&[&[u8]]>,
    show: ShowAt<'_>,
) -> Result<()> {
    transact::follow(ctx)?;
    let host = &mut Statement::new(ctx);
    let shown = Records::known(host, table).and_then(|records| records.show(host, keys, columns, show));
    let shown = shown.map_err(|error| report::dressed(host, table, error));
    dispatch::count_look(ctx.state, shown.as_ref().err());
    shown
}

fn mget_plain(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<Reply> {
    let host = &mut Statement::new(ctx);
    let records = Records::open(host, args[1])?;
    let mut rows = vec![Reply::Nil; (args.len() - 2) / records.key_parts()];
    records.get_many(host, &args[2..], &mut |place, row| rows[place] = record(&records.info, row))?;
    Ok(Reply::Array(rows))
}

fn put_plain(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<Reply> {
    if !args.len().is_multiple_of(2) {
        return Err(super::dispatch::wrong_arity("table.put"));
    }
    let host = &mut Statement::new(ctx);
    Records::open(host, args[1])?.put(host, &args[2..])?;
    Ok(Reply::Int(1))
}

fn del_plain(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<Reply> {
    let host = &mut Statement::new(ctx);
    let deleted = Records::open(host, args[1])?.delete(host, &args[2..])?;
    Ok(Reply::Int(deleted as i64))
}

fn scan_plain(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<Reply> {
    let from = arguments::cursor(args[2])?;
    let (options, as_rows) = match &args[3..] {
        [options @ .., last] if arguments::is(last, "ROWS") => (options, true),
        options => (options, false),
    };
    let count = match options {
        [] => SCAN_COUNT,
        [word, count] if arguments::is(word, "COUNT") => arguments::positive_or(count, "syntax error")?,
        _ => return Err(Error::syntax()),
    };
    let host = &mut Statement::new(ctx);
    let info = table_info(host, &String::from_utf8_lossy(args[1]))?;
    let count = count.min(limits::ARGUMENTS_MAX);
    let visible = || info.def.columns.iter().filter(|c| !c.hidden);
    let values = |row: Row<'_>| Reply::Array(visible().map(|c| reply(row.get(c.position))).collect());
    let (next, mut rows) =
        records::scan(host, &info, from, count, |row| if as_rows { values(row) } else { record(&info, row) })?;
    if as_rows {
        rows.insert(0, Reply::Array(visible().map(|c| Reply::bulk(&c.name)).collect()));
    }
    Ok(Reply::Array(vec![Reply::bulk(next.to_string()), Reply::Array(rows)]))
}

fn info_plain(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<Reply> {
    let host = &mut Statement::new(ctx);
    let info = table_info(host, &String::from_utf8_lossy(args[1]))?;
    let tables = &ctx.state.tables;
    let rows = tables.source().row_count(info.def.id).unwrap_or(0);
    let memory = tables.engine().memory(info.def.id)?;
    let columns = info.def.columns.iter().filter(|c| !c.hidden).map(|c| {
        map([
            ("name", Reply::bulk(&c.name)),
            ("type", Reply::bulk(&c.declared)),
            ("null", Reply::Int((!c.not_null).into())),
            ("default", Reply::bulk_or_nil(c.default.as_ref())),
        ])
    });
    let indexes = info.def.indexes.iter().map(|index| {
        let bytes = memory.indexes.iter().find(|(id, _)| *id == index.id).map_or(0, |(_, bytes)| *bytes);
        map([
            ("name", Reply::bulk(show_index_name(index))),
            ("columns", index_columns(&info, index)),
            ("unique", Reply::Int(index.unique.into())),
            ("method", Reply::bulk(method(index.method))),
            ("bytes", Reply::Int(bytes as i64)),
        ])
    });
    Ok(map([
        ("name", Reply::bulk(&info.def.name)),
        ("engine", Reply::bulk(&info.def.engine)),
        ("rows", Reply::Int(rows as i64)),
        ("bytes", Reply::Int(memory.total() as i64)),
        ("columns", Reply::Array(columns.collect())),
        ("indexes", Reply::Array(indexes.collect())),
    ]))
}

fn index_columns(info: &TableInfo, index: &IndexDef) -> Reply {
    let name = |c: &IndexColumn| info.def.column_at(c.position).map_or(String::new(), |column| column.name.clone());
    Reply::bulks(index.columns.iter().map(name))
}

fn map<const N: usize>(pairs: [(&str, Reply); N]) -> Reply {
    Reply::Map(pairs.into_iter().map(|(name, value)| (Reply::bulk(name), value)).collect())
}
