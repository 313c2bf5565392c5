"""What a store's tables, indexes and views are, and how SQLite says it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from peryton._calls import quoted
from peryton.porting.target import PortingError
from peryton.transactions import Transaction

# By affinity, so that SQLite keeps each value as it is: a DECIMAL is exact text, and ANY must not turn '1' into 1.
_INTEGERS = "INTEGER INT BIGINT SMALLINT TINYINT MEDIUMINT INT2 INT4 INT8 BOOLEAN BOOL".split()
_REALS = "REAL DOUBLE FLOAT".split()
_BLOBS = "BLOB BINARY VARBINARY LONGBLOB BYTEA".split()


@dataclass(slots=True)
class Column:
    """A column and what is demanded of it."""

    name: str
    declared: str
    not_null: bool
    default: str | None
    collation: str
    generated: str | None
    counts: bool
    """AUTO_INCREMENT."""

    def sqlite_type(self) -> str:
        """The type under which SQLite keeps the values as they are."""
        word = re.split(r"[ (]", self.declared.upper(), maxsplit=1)[0]
        kinds = (_INTEGERS, "INTEGER"), (_REALS, "REAL"), (_BLOBS, "BLOB"), (["ANY"], "")
        return next((name for words, name in kinds if word in words), "TEXT")


@dataclass(slots=True)
class Index:
    """An index other than the primary key."""

    name: str
    unique: bool
    parts: str
    condition: str | None

    def sqlite_text(self, table: str, name: str) -> str:
        """CREATE INDEX in SQLite's words."""
        unique = "UNIQUE " if self.unique else ""
        where = f" WHERE {self.condition}" if self.condition else ""
        return f"CREATE {unique}INDEX {quoted(name)} ON {quoted(table)} ({self.parts}){where}"


@dataclass(slots=True)
class Table:
    """A table's definition."""

    name: str
    rows: int
    columns: list[Column] = field(default_factory=list)
    key: str | None = None
    indexes: list[Index] = field(default_factory=list)
    foreign_keys: list[tuple[str, str]] = field(default_factory=list)
    """The table that a key refers to, and the clause."""
    checks: list[str] = field(default_factory=list)

    def parents(self) -> set[str]:
        """The tables that it refers to."""
        return {parent for parent, _ in self.foreign_keys}

    def written_columns(self) -> tuple[str, ...]:
        """The columns that rows are written with: those that are not generated."""
        return tuple(column.name for column in self.columns if column.generated is None)

    def sqlite_text(self, checks: Sequence[str]) -> str:
        """CREATE TABLE in SQLite's words, with these CHECKs."""
        single = [column for column in self.columns if self.key == quoted(column.name) or self.key == column.name]
        counting = single[0] if single and single[0].sqlite_type() == "INTEGER" else None
        parts = [self._column(column, column is counting) for column in self.columns]
        if self.key is not None and counting is None:
            parts.append(f"PRIMARY KEY ({self.key})")
        parts += checks
        parts += [clause for _, clause in self.foreign_keys]
        return f"CREATE TABLE {quoted(self.name)} (\n  " + ",\n  ".join(parts) + "\n)"

    def _column(self, column: Column, is_key: bool) -> str:
        words = [quoted(column.name), column.sqlite_type()]
        if is_key:
            words.append("PRIMARY KEY AUTOINCREMENT" if column.counts else "PRIMARY KEY")
        if column.not_null:
            words.append("NOT NULL")
        if column.default is not None:
            words.append(f"DEFAULT {column.default}")
        if column.collation in ("NOCASE", "RTRIM"):
            words.append(f"COLLATE {column.collation}")
        if column.generated is not None:
            words.append(f"GENERATED ALWAYS AS ({column.generated}) STORED")
        return " ".join(word for word in words if word)


@dataclass(slots=True)
class Schema:
    """Tables by name, and views with the statements that make them."""

    tables: dict[str, Table]
    views: dict[str, str]


def read(snapshot: Transaction, names: Sequence[str] = ()) -> Schema:
    """The definitions of these tables and views, or of all where none is named."""
    tables: dict[str, Table] = {}
    views: dict[str, str] = {}
    wanted = {name.lower() for name in names}
    for name, kind, rows, text in snapshot.sql(
        "SELECT table_name, table_type, table_rows, create_statement FROM information_schema.tables"
    ):
        if wanted and name.lower() not in wanted:
            continue
        wanted.discard(name.lower())
        if kind == "VIEW":
            views[name] = text
        else:
            tables[name] = Table(name, rows)
        if not wanted and names:
            break
    if wanted:
        raise PortingError(f"no such table: {', '.join(sorted(wanted))}")
    _read_columns(snapshot, tables)
    _read_keys(snapshot, tables)
    return Schema(tables, views)


def _read_columns(snapshot: Transaction, tables: Mapping[str, Table]) -> None:
    for table, name, declared, nullable, default, collation, extra, generated in snapshot.sql(
        "SELECT table_name, column_name, data_type, is_nullable, column_default, collation_name, extra, "
        "generation_expression FROM information_schema.columns ORDER BY table_name, ordinal_position"
    ):
        if table in tables:
            counts = "AUTO_INCREMENT" in (extra or "")
            tables[table].columns.append(
                Column(name, declared, nullable == "NO", default, collation, generated, counts)
            )


def _read_keys(snapshot: Transaction, tables: Mapping[str, Table]) -> None:
    for table, name, unique, parts, condition in snapshot.sql(
        "SELECT table_name, index_name, is_unique, columns, condition FROM information_schema.indexes"
    ):
        if table in tables and name == "PRIMARY":
            tables[table].key = parts
        elif table in tables:
            tables[table].indexes.append(Index(name, bool(unique), parts, condition))
    for table, name, columns, parent, parent_columns, on_delete, on_update in snapshot.sql(
        "SELECT table_name, constraint_name, columns, referenced_table, referenced_columns, on_delete, on_update "
        "FROM information_schema.foreign_keys"
    ):
        if table in tables:
            named = f"CONSTRAINT {quoted(name)} " if name else ""
            to = f"{quoted(parent)} ({parent_columns})" if parent_columns else quoted(parent)
            clause = f"{named}FOREIGN KEY ({columns}) REFERENCES {to} ON DELETE {on_delete} ON UPDATE {on_update}"
            tables[table].foreign_keys.append((parent, clause))
    for table, name, text in snapshot.sql(
        "SELECT table_name, constraint_name, check_clause FROM information_schema.check_constraints"
    ):
        if table in tables:
            tables[table].checks.append((f"CONSTRAINT {quoted(name)} " if name else "") + f"CHECK ({text})")


def in_order(parents: Mapping[str, Iterable[str]]) -> list[str]:
    """The names so that each comes after those it refers to; a circle is broken somewhere."""
    known = {name.lower(): name for name in parents}
    done: dict[str, None] = {}
    # A stack of its own, as a chain of tables may be longer than Python recurses.
    begun: set[str] = set()
    for first in sorted(parents):
        stack = [first]
        while stack:
            name = stack[-1]
            begun.add(name)
            above = [known[p.lower()] for p in sorted(parents[name]) if p.lower() in known]
            following = [parent for parent in above if parent not in begun]
            if following:
                stack.append(following[0])
            else:
                done.setdefault(stack.pop())
    return list(done)
