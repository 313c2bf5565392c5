"""A dump in SQL that SQLite reads: tables in the order of their foreign keys, rows, indexes, views."""

from __future__ import annotations

import math
import re
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from typing import TextIO

from peryton import Database
from peryton._calls import Value, quoted
from peryton.porting import catalog, target
from peryton.porting.catalog import Schema
from peryton.porting.csv_file import snapshot_rows
from peryton.porting.target import PortingError
from peryton.transactions import Transaction

_INSERT_CHARS = 64 * 1024
_INSERT_ROWS = 500


def export_sql(db: Database, out: TextIO, tables: Sequence[str] = ()) -> dict[str, int]:
    """Writes tables (all, and the views, where none is named) as SQL; gives each table's number of rows.

    All of it is one moment of the store: it is read in one transaction.
    """
    counts: dict[str, int] = {}
    judge = _Judge()
    with db.transaction(read_only=True) as snapshot, target.progress() as bar:
        schema = catalog.read(snapshot, tables)
        names = catalog.in_order({name: table.parents() for name, table in schema.tables.items()})
        out.write("PRAGMA foreign_keys=OFF;\nBEGIN TRANSACTION;\n")
        for name in names:
            out.write(judge.table(schema.tables[name]) + ";\n")
        for name in names:
            table = schema.tables[name]
            task = bar.add_task(name, total=table.rows)
            rows = snapshot_rows(snapshot, name, table.written_columns())
            counts[name] = 0
            for text, count in _inserts(name, table.written_columns(), rows):
                out.write(text)
                counts[name] += count
                bar.advance(task, count)
        for text in judge.indexes_and_views(schema, names):
            out.write(text + ";\n")
        out.write("COMMIT;\n")
        for line in _comments(_routines(snapshot, None if not tables else names)):
            out.write(line + "\n")
    return counts


def _routines(snapshot: Transaction, tables: Sequence[str] | None) -> Iterator[str]:
    """The triggers of the tables, or, without any, all triggers and schedules, as the statements that make them."""
    known = (
        "SELECT trigger_name, event_object_table FROM information_schema.triggers ORDER BY action_order, trigger_name"
    )
    triggers = [(str(name), table) for name, table in snapshot.sql(known)]
    for name in [name for name, table in triggers if tables is None or table in tables]:
        yield str(next(iter(snapshot.sql(f"SHOW CREATE TRIGGER {quoted(name)}")))[1])
    if tables is None:
        for row in list(snapshot.sql("SHOW SCHEDULES")):
            yield str(next(iter(snapshot.sql(f"SHOW CREATE SCHEDULE {quoted(str(row[0]))}")))[1])


def _comments(statements: Iterable[str]) -> Iterator[str]:
    """Statements that SQLite does not know, as lines that it skips."""
    for at, text in enumerate(statements):
        if at == 0:
            yield "-- Peryton's own. Without the two dashes, `peryton shell` takes these when the functions are loaded."
        yield from (f"-- {line}" for line in f"{text};".splitlines())


class _Judge:
    """An empty SQLite database that is asked whether SQLite takes a definition; what it refuses is left out."""

    def __init__(self) -> None:
        self._sqlite = sqlite3.connect(":memory:")
        self._names: set[str] = set()

    def table(self, table: catalog.Table) -> str:
        self._names.add(table.name.lower())
        kept: list[str] = []
        for clause in table.checks:
            text = table.sqlite_text([*kept, clause])
            if self._takes(text):
                self._sqlite.execute(f"DROP TABLE {quoted(table.name)}")
                kept.append(clause)
            else:
                target.warn(f"table {table.name}: SQLite does not take {clause}")
        text = table.sqlite_text(kept)
        try:
            self._sqlite.execute(text)
        except sqlite3.Error as error:
            raise PortingError(f"table {table.name}: SQLite does not take its definition: {error}") from error
        return text

    def indexes_and_views(self, schema: Schema, names: Iterable[str]) -> Iterator[str]:
        for name in names:
            for index in schema.tables[name].indexes:
                # SQLite's indexes share one space of names with its tables; Peryton's belong to their table.
                free = index.name
                while free.lower() in self._names:
                    free = f"{name}_{free}"
                self._names.add(free.lower())
                text = index.sqlite_text(name, free)
                if self._takes(text):
                    yield text
                else:
                    target.warn(f"index {index.name} of {name}: SQLite does not take it")
        pending = dict(schema.views)
        # A view may read another one: as long as some can be made, the rest is tried again.
        while made := [name for name, text in pending.items() if self._takes_view(name, text)]:
            yield from (pending.pop(name) for name in made)
        for name in pending:
            target.warn(f"view {name}: SQLite does not take it")

    def _takes(self, text: str) -> bool:
        try:
            self._sqlite.execute(text)
        except sqlite3.Error:
            return False
        return True

    def _takes_view(self, name: str, text: str) -> bool:
        if not self._takes(text):
            return False
        if self._takes(f"SELECT * FROM {quoted(name)} LIMIT 0"):
            return True
        self._sqlite.execute(f"DROP VIEW {quoted(name)}")
        return False


def _inserts(name: str, columns: Sequence[str], rows: Iterable[Sequence[Value]]) -> Iterator[tuple[str, int]]:
    head = f"INSERT INTO {quoted(name)} ({', '.join(map(quoted, columns))}) VALUES\n"
    group: list[str] = []
    chars = 0
    for row in rows:
        group.append(f"({', '.join(map(literal, row))})")
        chars += len(group[-1])
        if chars >= _INSERT_CHARS or len(group) >= _INSERT_ROWS:
            yield head + ",\n".join(group) + ";\n", len(group)
            group, chars = [], 0
    if group:
        yield head + ",\n".join(group) + ";\n", len(group)


def literal(value: Value) -> str:
    """A value in SQLite's words."""
    if value is None:
        return "NULL"
    if isinstance(value, bytes):
        return f"X'{value.hex()}'"
    if isinstance(value, float):
        if math.isinf(value):
            return "9e999" if value > 0 else "-9e999"
        return "NULL" if math.isnan(value) else repr(value)
    if isinstance(value, int):
        return str(int(value))
    text = str(value)
    # A NUL would end the statement for SQLite's shell, and it takes CR LF as it likes.
    if re.search("[\0\r]", text):
        return f"CAST(X'{text.encode().hex()}' AS TEXT)"
    return "'" + text.replace("'", "''") + "'"
