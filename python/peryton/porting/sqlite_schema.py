"""The definitions of a SQLite database, translated to Peryton's."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass, field

from peryton._calls import quoted

_TOKEN = re.compile(
    r"""[xX]?'(?:[^']|'')*' | "(?:[^"]|"")*" | `(?:[^`]|``)*` | \[[^]]*\] | --[^\n]* | /\*.*?\*/
    | (?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)? | [\w$]+ | ->> | -> | <= | >= | <> | != | == | << | >> | \|\| | \S""",
    re.DOTALL | re.VERBOSE,
)
_PLAIN_DEFAULT = re.compile(
    r"""[-+]?\d+(\.\d*)?(e[-+]?\d+)? | x?'(?:[^']|'')*'
    | NULL | TRUE | FALSE | CURRENT_(TIME|DATE|TIMESTAMP)""",
    re.IGNORECASE | re.VERBOSE,
)
_FITS = {
    "INTEGER": "typeof({c}) IN ('integer', 'null')",
    "REAL": "typeof({c}) IN ('real', 'integer', 'null')",
    "TEXT": "typeof({c}) IN ('text', 'null')",
    "BLOB": "typeof({c}) IN ('blob', 'null')",
    "DATE": "{c} IS date({c})",
    "DATETIME": "{c} IS datetime({c})",
    "ANY": "1",
}


@dataclass(slots=True)
class Column:
    """A column: its name, Peryton's type, and what else is said of it."""

    name: str
    kind: str
    not_null: bool
    generated: bool
    clauses: list[str] = field(default_factory=list)
    """DEFAULT, COLLATE and GENERATED, each of which may be left out if Peryton refuses it."""


@dataclass(slots=True)
class Table:
    """A table of the file."""

    name: str
    columns: list[Column]
    key: list[str]
    clauses: list[str] = field(default_factory=list)
    """UNIQUE, CHECK."""
    foreign_keys: list[tuple[str, str]] = field(default_factory=list)
    """The parent and the clause."""

    def parents(self) -> set[str]:
        """The tables that it refers to."""
        return {parent for parent, _ in self.foreign_keys}

    def text(self, name: str, column_clauses: list[list[str]], clauses: list[str]) -> str:
        """CREATE TABLE with these of the clauses."""
        parts = []
        for column, chosen in zip(self.columns, column_clauses, strict=True):
            words = [quoted(column.name), column.kind, *(["NOT NULL"] if column.not_null else []), *chosen]
            parts.append(" ".join(words))
        if self.key:
            parts.append(f"PRIMARY KEY ({', '.join(map(quoted, self.key))}) USING BTREE")
        return f"CREATE TABLE {quoted(name)} ({', '.join([*parts, *clauses])})"


def read_table(sqlite: sqlite3.Connection, name: str) -> Table:
    """A table's definition. Columns of SQLite's NUMERIC affinity get the type that holds the values they have."""
    sql = sqlite.execute("SELECT sql FROM sqlite_schema WHERE type = 'table' AND name = ?", (name,)).fetchone()[0]
    parts = list(definitions(sql))
    columns: list[Column] = []
    keys: list[tuple[int, str]] = []
    for _, column, declared, not_null, default, key, hidden in sqlite.execute(f"PRAGMA table_xinfo({quoted(name)})"):
        if hidden == 1:
            continue
        made = Column(column, kind_of(sqlite, name, column, declared), bool(not_null), hidden in (2, 3))
        if default is not None:
            plain = _PLAIN_DEFAULT.fullmatch(default)
            made.clauses.append(f"DEFAULT {default}" if plain else f"DEFAULT ({default})")
        tokens = next((part for part in parts if part and unquoted(part[0]).lower() == column.lower()), [])
        made.clauses += _column_clauses(tokens, made.generated)
        if key:
            keys.append((key, column))
        columns.append(made)
    table = Table(name, columns, [column for _, column in sorted(keys)])
    table.clauses += _unique_clauses(sqlite, name)
    table.clauses += [check for part in parts for check in _checks(part)]
    table.foreign_keys += _foreign_keys(sqlite, name)
    return table


def kind_of(sqlite: sqlite3.Connection, table: str, column: str, declared: str) -> str:
    """Peryton's type for a column, by SQLite's rules of affinity."""
    upper = declared.upper()
    if "INT" in upper or upper in ("BOOLEAN", "BOOL"):
        return "INTEGER"
    if any(word in upper for word in ("CHAR", "CLOB", "TEXT")):
        return "TEXT"
    if "BLOB" in upper:
        return "BLOB"
    if upper in ("", "ANY"):
        return "ANY"
    if any(word in upper for word in ("REAL", "FLOA", "DOUB")):
        return "REAL"
    for kind in _candidates(upper):
        if misfit(sqlite, table, column, kind) is None and (
            kind != "REAL" or not _has_long_integers(sqlite, table, column)
        ):
            return kind
    return "ANY"


def _candidates(upper: str) -> list[str]:
    """The types to try for a column of NUMERIC affinity; the first that holds its values is taken."""
    if upper.startswith(("DEC", "NUM")):
        return ["REAL", "TEXT"]
    dated = {"DATE": ["DATE"], "DATETIME": ["DATETIME"], "TIMESTAMP": ["DATETIME"]}.get(upper, [])
    return [*dated, "INTEGER", "TEXT", "REAL"]


def misfit(sqlite: sqlite3.Connection, table: str, column: str, kind: str) -> tuple[int, str] | None:
    """The number of the first row whose value does not fit that type of column, and what it is."""
    fits = _FITS[kind].format(c=quoted(column))
    found: tuple[int, str] | None = None
    if sqlite.execute(f"SELECT 1 FROM {quoted(table)} WHERE NOT ({fits}) LIMIT 1").fetchone():
        rows = sqlite.execute(f"SELECT ({fits}), typeof({quoted(column)}) FROM {quoted(table)}")
        found = next(((number, held) for number, (good, held) in enumerate(rows, 1) if not good), None)
    elif kind == "TEXT":
        # The connection gives text that is not UTF-8 as bytes.
        texts = enumerate(sqlite.execute(f"SELECT {quoted(column)} FROM {quoted(table)}"), 1)
        found = next(((number, "text that is not UTF-8") for number, (held,) in texts if type(held) is bytes), None)
    return found


def _has_long_integers(sqlite: sqlite3.Connection, table: str, column: str) -> bool:
    name = quoted(column)
    long = f"typeof({name}) = 'integer' AND CAST(CAST({name} AS REAL) AS INTEGER) <> {name}"
    return sqlite.execute(f"SELECT 1 FROM {quoted(table)} WHERE {long} LIMIT 1").fetchone() is not None


def definitions(sql: str) -> Iterator[list[str]]:
    """The tokens of each definition between the outer parentheses of CREATE TABLE."""
    depth = 0
    part: list[str] = []
    for token in _TOKEN.findall(sql):
        if token.startswith(("--", "/*")):
            continue
        if token == ")":
            depth -= 1
        if depth == 0 or (depth == 1 and token == ","):
            if part:
                yield part
            part = []
        else:
            part.append(token)
        if token == "(":
            depth += 1


def unquoted(token: str) -> str:
    """A name without its quotes."""
    if token[0] == "[":
        return token[1:-1]
    if token[0] in "\"'`":
        return token[1:-1].replace(token[0] * 2, token[0])
    return token


def _group(tokens: list[str], at: int) -> list[str]:
    """The tokens in the parentheses that open at `at`, with them."""
    depth = 0
    for end in range(at, len(tokens)):
        depth += (tokens[end] == "(") - (tokens[end] == ")")
        if depth == 0:
            return tokens[at : end + 1]
    return tokens[at:]


def _outside(tokens: list[str]) -> Iterator[tuple[int, str]]:
    """The words that stand in no parentheses."""
    depth = 0
    for at, token in enumerate(tokens):
        depth += (token == "(") - (token == ")")
        if depth == 0:
            yield at, token.upper()


def _checks(part: list[str]) -> Iterator[str]:
    for at, word in _outside(part):
        if word == "CHECK":
            yield "CHECK " + " ".join(_group(part, at + 1))


def _column_clauses(tokens: list[str], generated: bool) -> Iterator[str]:
    for at, word in _outside(tokens):
        if word == "COLLATE" and at + 1 < len(tokens):
            yield f"COLLATE {unquoted(tokens[at + 1])}"
        elif word == "AS" and generated:
            expression = " ".join(_group(tokens, at + 1))
            yield f"GENERATED ALWAYS AS {expression} STORED"


def _unique_clauses(sqlite: sqlite3.Connection, table: str) -> Iterator[str]:
    for _, index, unique, origin, *_ in sqlite.execute(f"PRAGMA index_list({quoted(table)})").fetchall():
        if unique and origin == "u":
            parts = [
                quoted(column) + (f" COLLATE {collation}" if collation != "BINARY" else "")
                for _, _, column, _, collation, is_key in sqlite.execute(f"PRAGMA index_xinfo({quoted(index)})")
                if is_key
            ]
            yield f"UNIQUE ({', '.join(parts)})"


def _foreign_keys(sqlite: sqlite3.Connection, table: str) -> Iterator[tuple[str, str]]:
    keys: dict[int, list[tuple[str, ...]]] = {}
    for number, _, parent, *rest in sqlite.execute(f"PRAGMA foreign_key_list({quoted(table)})"):
        keys.setdefault(number, []).append((parent, *rest))
    for pairs in keys.values():
        parent, _, _, on_update, on_delete, _ = pairs[0]
        own = ", ".join(quoted(pair[1]) for pair in pairs)
        others = ", ".join(quoted(pair[2]) for pair in pairs if pair[2] is not None)
        to = f"{quoted(parent)} ({others})" if others else quoted(parent)
        yield parent, f"FOREIGN KEY ({own}) REFERENCES {to} ON DELETE {on_delete} ON UPDATE {on_update}"
