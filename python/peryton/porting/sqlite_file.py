"""A SQLite database file in: definitions, rows in batches, then indexes, views last."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path

from peryton import Database, ReplyError
from peryton._calls import quoted
from peryton.porting import catalog, sqlite_schema, target
from peryton.porting.sqlite_schema import Table
from peryton.porting.target import PortingError

_MAGIC = b"SQLite format 3\0"


def is_sqlite(path: str) -> bool:
    """Whether the file is a SQLite database."""
    if path == "-":
        return False
    with Path(path).open("rb") as file:
        return file.read(len(_MAGIC)) == _MAGIC


def import_sqlite(
    db: Database, path: str, tables: Sequence[str] = (), *, lenient: bool = False, batch: int
) -> tuple[dict[str, int], float]:
    """Copies tables (all, with the views, where none is named) of a SQLite database; gives the rows of each table.

    A value that does not fit its strict column is an error before anything is written; `lenient` makes the column ANY
    and leaves out keys that the rows break.
    """
    started = time.monotonic()
    with closing(sqlite3.connect(f"{Path(path).resolve().as_uri()}?mode=ro", uri=True)) as sqlite:
        sqlite.text_factory = _text
        # One moment of the file, also while others write to it.
        sqlite.isolation_level = None
        sqlite.execute("BEGIN")
        try:
            counts = _Import(db, sqlite, path, lenient, batch).run(tables)
        except sqlite3.Error as error:
            raise PortingError(f"{path}: {error}") from error
    return counts, time.monotonic() - started


def _text(data: bytes) -> str | bytes:
    # What SQLite calls TEXT need not be UTF-8; then it can only be kept as bytes.
    try:
        return data.decode()
    except UnicodeDecodeError:
        return data


class _Import:
    def __init__(self, db: Database, sqlite: sqlite3.Connection, path: str, lenient: bool, batch: int) -> None:
        self._db = db
        self._sqlite = sqlite
        self._path = path
        self._lenient = lenient
        self._batch = batch

    def run(self, wanted: Sequence[str]) -> dict[str, int]:
        tables = {name: sqlite_schema.read_table(self._sqlite, name) for name in self._names(wanted)}
        there = {name.lower() for name, _ in self._db.sql("SHOW TABLES")}
        for name in tables:
            if name.lower() in there:
                raise PortingError(f"table {name} exists already; DROP or RENAME it, or choose others with --table")
        for table in tables.values():
            self._fit(table)
        names = catalog.in_order({name: table.parents() for name, table in tables.items()})
        made: set[str] = set()
        counts: dict[str, int] = {}
        for name in names:
            made.add(name.lower())
            self._check_parents(tables[name], made)
            self._create(tables[name])
        with target.progress() as bar:
            for name in names:
                total = self._sqlite.execute(f"SELECT count(*) FROM {quoted(name)}").fetchone()[0]
                task = bar.add_task(name, total=total)
                counts[name] = 0
                for count in self._copy(tables[name]):
                    counts[name] += count
                    bar.advance(task, count)
        self._indexes(names)
        if not wanted:
            self._views()
        return counts

    def _names(self, wanted: Sequence[str]) -> list[str]:
        kinds = {
            name: kind
            for schema, name, kind, *_ in self._sqlite.execute("PRAGMA table_list")
            if schema == "main" and not name.lower().startswith("sqlite_")
        }
        triggers = self._sqlite.execute("SELECT name FROM sqlite_schema WHERE type = 'trigger'")
        for name in [name for (name,) in triggers] if not wanted else []:
            target.warn(f"trigger {name}: it is SQL, and Peryton's call functions")
        if wanted:
            folded = {name.lower(): name for name, kind in kinds.items() if kind == "table"}
            unknown = [name for name in wanted if name.lower() not in folded]
            if unknown:
                raise PortingError(f"{self._path} has no table {', '.join(unknown)}")
            return list(dict.fromkeys(folded[name.lower()] for name in wanted))
        for name, kind in kinds.items():
            if kind == "virtual":
                target.warn(f"virtual table {name}: not copied")
        return [name for name, kind in kinds.items() if kind == "table"]

    def _fit(self, table: Table) -> None:
        """Sees to it that every value fits its column, before anything is written."""
        for column in table.columns:
            found = sqlite_schema.misfit(self._sqlite, table.name, column.name, column.kind)
            if found is None:
                continue
            number, held = found
            place = f"{self._path}, table {table.name}, row {number}, column {column.name}"
            if not self._lenient:
                raise PortingError(f"{place}: {held} in a column of {column.kind}; --lenient makes it untyped")
            target.warn(f"{place}: {held} in a column of {column.kind}; the column is ANY now")
            column.kind = "ANY"
        for name in table.key:
            # SQLite lets NULL into primary keys other than INTEGER.
            query = f"SELECT 1 FROM {quoted(table.name)} WHERE {quoted(name)} IS NULL LIMIT 1"
            if self._sqlite.execute(query).fetchone() is None:
                continue
            if not self._lenient:
                raise PortingError(f"{self._path}, table {table.name}, column {name}: NULL in the primary key")
            target.warn(f"table {table.name}: NULL in the primary key, which is UNIQUE now")
            table.clauses.append(f"UNIQUE ({', '.join(map(quoted, table.key))})")
            table.key = []
            break
        if self._lenient and self._sqlite.execute(f"PRAGMA foreign_key_check({quoted(table.name)})").fetchone():
            target.warn(f"table {table.name}: rows break its foreign keys, which are left out")
            table.foreign_keys = []

    def _check_parents(self, table: Table, made: set[str]) -> None:
        """Leaves out the foreign keys whose rows cannot be written after those they refer to."""
        for key in list(table.foreign_keys):
            if key[0].lower() not in made:
                target.warn(f"table {table.name}: {key[1]}: left out, as {key[0]} is not copied before it")
                table.foreign_keys.remove(key)

    def _create(self, table: Table) -> None:
        columns = [column.clauses for column in table.columns]
        clauses = table.clauses + [clause for _, clause in table.foreign_keys]
        try:
            self._db.sql(table.text(table.name, columns, clauses))
        except ReplyError:
            self._create_without_refused(table)

    def _create_without_refused(self, table: Table) -> None:
        """Adds one clause after the other to the bare table, and leaves out what is refused."""
        columns: list[list[str]] = [[] for _ in table.columns]
        clauses: list[str] = []
        self._db.sql(table.text(table.name, columns, clauses))
        for at, column in enumerate(table.columns):
            for clause in column.clauses:
                columns[at].append(clause)
                if not self._remade(table, columns, clauses, f"column {column.name}: {clause}"):
                    columns[at].pop()
                    column.generated = column.generated and not clause.startswith("GENERATED")
        for clause in [*table.clauses, *(clause for _, clause in table.foreign_keys)]:
            clauses.append(clause)
            if not self._remade(table, columns, clauses, clause):
                clauses.pop()
                table.foreign_keys = [key for key in table.foreign_keys if key[1] != clause]

    def _remade(self, table: Table, columns: list[list[str]], clauses: list[str], what: str) -> bool:
        scratch = f"{table.name} (import)"
        try:
            self._db.sql(table.text(scratch, columns, clauses))
        except ReplyError as error:
            target.warn(f"table {table.name}, {what}: left out: {error.message}")
            return False
        self._db.sql(f"DROP TABLE {quoted(table.name)}")
        self._db.sql(f"ALTER TABLE {quoted(scratch)} RENAME TO {quoted(table.name)}")
        return True

    def _copy(self, table: Table) -> Iterator[int]:
        """Writes the rows; gives the number of each batch."""
        if table.name.lower() not in {parent.lower() for parent in table.parents()}:
            yield from self._copy_into(table, table.name)
            return
        # Rows that refer to others of their table come in any order. One statement for all is judged at its end.
        staging = f"{table.name} (rows)"
        plain = ", ".join(f"{quoted(column.name)} {column.kind}" for column in table.columns if not column.generated)
        self._db.sql(f"CREATE TABLE {quoted(staging)} ({plain})")
        try:
            yield from self._copy_into(table, staging)
            names = ", ".join(quoted(column.name) for column in table.columns if not column.generated)
            try:
                self._db.sql(f"INSERT INTO {quoted(table.name)} ({names}) SELECT {names} FROM {quoted(staging)}")
            except ReplyError as error:
                raise PortingError(f"{self._path}, table {table.name}: {error}") from error
        finally:
            self._db.sql(f"DROP TABLE {quoted(staging)}")

    def _copy_into(self, table: Table, name: str) -> Iterator[int]:
        columns = [column.name for column in table.columns if not column.generated]
        text = target.insert_text(name, columns)
        cursor = self._sqlite.execute(f"SELECT {', '.join(map(quoted, columns))} FROM {quoted(table.name)}")
        done = 0
        while rows := cursor.fetchmany(self._batch):
            first = done + 1
            place = f"{self._path}, table {table.name}, row "
            target.write_batch(self._db, text, columns, rows, lambda at: f"{place}{first + at}")  # noqa: B023
            done += len(rows)
            yield len(rows)

    def _indexes(self, names: Sequence[str]) -> None:
        query = "SELECT name, sql FROM sqlite_schema WHERE type = 'index' AND sql IS NOT NULL AND tbl_name = ?"
        for name in names:
            for index, text in self._sqlite.execute(query, (name,)).fetchall():
                refused = self._refused(text)
                if refused:
                    target.warn(f"index {index} of {name}: left out: {refused}")

    def _views(self) -> None:
        query = "SELECT name, sql FROM sqlite_schema WHERE type = 'view'"
        pending: dict[str, str] = dict(self._sqlite.execute(query))
        while True:
            # A view may read one that comes later: as long as some can be made, the rest is tried again.
            refused = {name: why for name, text in pending.items() if (why := self._refused(text))}
            if len(refused) in (0, len(pending)):
                break
            pending = {name: pending[name] for name in refused}
        for name, why in refused.items():
            target.warn(f"view {name}: left out: {why}")

    def _refused(self, text: str) -> str | None:
        """Runs a definition; why it was refused, if it was."""
        try:
            self._db.sql(text)
        except ReplyError as error:
            return error.message
        return None
