"""CSV in and out: a header of column names, then rows."""

from __future__ import annotations

import csv
import re
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from io import TextIOWrapper
from pathlib import Path
from typing import BinaryIO, TextIO, cast

from peryton import Database
from peryton._calls import Value, quoted
from peryton.porting import target
from peryton.porting.target import PortingError
from peryton.transactions import Transaction

_INTEGER = re.compile(r"-?(0|[1-9][0-9]*)")
_REAL = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][-+]?[0-9]+)?")
_EXACT_MAX = 2**53
_FIELD_BYTES_MAX = 2**31 - 1


@dataclass(frozen=True, slots=True)
class Form:
    """How a CSV file is written."""

    delimiter: str = ","
    null: str = ""
    """The text that stands for NULL."""


class Reader:
    """The records of a CSV file, each with the line it begins on."""

    def __init__(self, raw: BinaryIO, name: str, form: Form) -> None:
        self.name = name
        self._raw = raw
        self._text = TextIOWrapper(raw, encoding="utf-8-sig", newline="")
        self._form = form
        csv.field_size_limit(_FIELD_BYTES_MAX)
        self._reader = csv.reader(self._text, delimiter=form.delimiter, strict=True)
        self._line = 1
        header = next(self._records(), None)
        if header is None:
            raise PortingError(f"{name} is empty: its first line should name the columns")
        self.columns = header[1]
        folded = [column.lower() for column in self.columns]
        for column in self.columns:
            if not column or folded.count(column.lower()) > 1:
                raise PortingError(f"{name}, line 1: the column {column!r} has no name or is named twice")

    def rows(self) -> Iterator[tuple[int, list[str | None]]]:
        """Each row with its line; the text that stands for NULL is None."""
        width, null = len(self.columns), self._form.null
        for line, record in self._records():
            # An empty line is no record, unless there is only one column.
            if not record and width > 1:
                continue
            record = record or [""]
            if len(record) != width:
                after = self.columns[min(len(record), width) - 1]
                raise PortingError(
                    f"{self.name}, line {line}: {len(record)} fields where the header has {width} "
                    f"(the row differs from column {after} on)"
                )
            yield line, [None if field == null else field for field in record]

    def position(self) -> int:
        """How many bytes were read so far."""
        return self._raw.tell() if self._raw.seekable() else 0

    def detach(self) -> None:
        """Lets go of the file without closing it."""
        self._text.detach()

    def _records(self) -> Iterator[tuple[int, list[str]]]:
        while True:
            line = self._reader.line_num + 1
            try:
                record = next(self._reader)
            except StopIteration:
                return
            except csv.Error as error:
                raise PortingError(f"{self.name}, line {line}: {error}") from None
            except UnicodeDecodeError as error:
                raise PortingError(f"{self.name}, near line {line}: not UTF-8: {error.reason}") from None
            yield line, record


def import_csv(
    db: Database, path: str, table: str, *, form: Form, create: bool, key: str | None, batch: int
) -> tuple[int, float]:
    """Reads a CSV file (`-`: standard input) into a table; gives the number of rows and the seconds they took.

    Each batch is one atomic step. The batches before one that fails stay.
    """
    started = time.monotonic()
    name = "standard input" if path == "-" else path
    with ExitStack() as stack:
        raw: BinaryIO = sys.stdin.buffer if path == "-" else stack.enter_context(Path(path).open("rb"))
        if create and not raw.seekable():
            # Types are found from all values, so the data are read twice.
            spool = stack.enter_context(tempfile.TemporaryFile())
            shutil.copyfileobj(raw, spool)
            spool.seek(0)
            raw = cast(BinaryIO, spool)
        if create:
            reader = Reader(raw, name, form)
            _create(db, table, reader, key)
            reader.detach()
            raw.seek(0)
        return _load(db, Reader(raw, name, form), table, batch), time.monotonic() - started


def _create(db: Database, table: str, reader: Reader, key: str | None) -> None:
    guesses = [_Guess() for _ in reader.columns]
    for _, row in reader.rows():
        for guess, value in zip(guesses, row, strict=True):
            if value is not None:
                guess.see(value)
    columns = [f"{quoted(name)} {guess.type()}" for name, guess in zip(reader.columns, guesses, strict=True)]
    if key is not None:
        matching = [name for name in reader.columns if name.lower() == key.lower()]
        if not matching:
            raise PortingError(f"{reader.name}, line 1: no column {key} for the primary key")
        columns.append(f"PRIMARY KEY ({quoted(matching[0])})")
    db.sql(f"CREATE TABLE {quoted(table)} ({', '.join(columns)})")


class _Guess:
    """The narrowest of INTEGER, REAL and TEXT that keeps all values of a column."""

    def __init__(self) -> None:
        self._values = 0
        self._integer = self._real = True
        self._wide = False

    def see(self, value: str) -> None:
        self._values += 1
        if not self._real:
            return
        if _INTEGER.fullmatch(value) and value != "-0":
            number = int(value) if len(value) <= 20 else 2**64
            self._wide = self._wide or abs(number) > _EXACT_MAX
            self._real = not self._wide or (self._integer and -(2**63) <= number < 2**63)
            self._integer = self._integer and self._real
        else:
            self._integer = False
            # A long integer among fractions would lose digits as a REAL.
            self._real = bool(_REAL.fullmatch(value)) and not self._wide

    def type(self) -> str:
        if not self._values or not self._real:
            return "TEXT"
        return "INTEGER" if self._integer else "REAL"


def _load(db: Database, reader: Reader, table: str, batch: int) -> int:
    converters = _converters(db, table, reader)
    text = target.insert_text(table, reader.columns)
    raw_size = _size(reader)
    count = 0
    rows: list[list[Value]] = []
    lines: list[int] = []

    def flush() -> None:
        nonlocal count
        target.write_batch(db, text, reader.columns, rows, lambda index: f"{reader.name}, line {lines[index]}")
        count += len(rows)
        rows.clear()
        lines.clear()

    with target.progress() as bar:
        task = bar.add_task(table, total=raw_size)
        for line, row in reader.rows():
            values: list[Value] = list(row)
            for at, convert in converters:
                field = row[at]
                if field is not None:
                    try:
                        values[at] = convert(field)
                    except ValueError as error:
                        where = f"{reader.name}, line {line}, column {reader.columns[at]}"
                        raise PortingError(f"{where}: {error}") from None
            rows.append(values)
            lines.append(line)
            if len(rows) >= batch:
                flush()
                bar.update(task, completed=reader.position())
        if rows:
            flush()
    return count


def _size(reader: Reader) -> int | None:
    raw = reader._raw
    if not raw.seekable():
        return None
    here = raw.tell()
    end = raw.seek(0, 2)
    raw.seek(here)
    return end


def _converters(db: Database, table: str, reader: Reader) -> list[tuple[int, Callable[[str], Value]]]:
    """What turns a field into a value, for the columns whose type does not take the text itself."""
    known = {
        name.lower(): kind
        for name, kind in db.sql(
            "SELECT column_name, data_type FROM information_schema.columns WHERE lower(table_name) = lower(?)", [table]
        )
    }
    if not known:
        raise PortingError(f"no table {table}; --create makes it")
    for name in reader.columns:
        if name.lower() not in known:
            raise PortingError(f"{reader.name}, line 1: table {table} has no column {name}")
    kinds = {"BLOB": blob_of, "REAL": _real_of}
    return [(at, kinds[kind]) for at, name in enumerate(reader.columns) if (kind := known[name.lower()]) in kinds]


def _real_of(field: str) -> Value:
    # The store reads the text of a number by itself, but has no words for these two.
    return float(field) if field in ("inf", "-inf") else field


def blob_of(field: str) -> bytes:
    r"""The bytes of a field of a BLOB column: `\x00ff` in hexadecimal, or else the text's own."""
    if not field.startswith("\\x"):
        return field.encode()
    try:
        return bytes.fromhex(field[2:])
    except ValueError:
        raise ValueError(f"{field[:40]!r} begins as hexadecimal and is not") from None


def export_csv(db: Database, table: str, out: TextIO, form: Form) -> int:
    """Writes a table or view as CSV; gives the number of rows."""
    like_null = 0

    def field(value: Value) -> str:
        nonlocal like_null
        if value is None:
            return form.null
        text = "\\x" + value.hex() if isinstance(value, bytes) else str(value)
        if text == form.null:
            like_null += 1
        return text

    count = 0
    with db.transaction(read_only=True) as snapshot:
        columns = snapshot.sql(f"SELECT * FROM {quoted(table)} LIMIT 0").columns
        kind = "SELECT table_type FROM information_schema.tables WHERE lower(table_name) = lower(?)"
        is_view = list(snapshot.sql(kind, [table])) == [("VIEW",)]
        # A view has no key to go on from: its rows come at once.
        query = f"SELECT * FROM {quoted(table)}"
        rows = iter(snapshot.sql(query)) if is_view else snapshot_rows(snapshot, table, columns)
        line = _line_maker(form)
        out.write(line(columns))
        for row in rows:
            out.write(line([field(value) for value in row]))
            count += 1
    if like_null:
        target.warn(f"{like_null} texts of {table} read as NULL again: choose another --null")
    return count


def _line_maker(form: Form) -> Callable[[Sequence[str]], str]:
    # Python's writer leaves a lone CR bare when lines end with LF, and its reader takes that as the end of a line.
    special = re.compile(f'[{re.escape(form.delimiter)}"\r\n]|^\\s|\\s$')

    def line(fields: Sequence[str]) -> str:
        if fields == [""]:
            return '""\n'
        return form.delimiter.join([shown(text) for text in fields]) + "\n"

    def shown(text: str) -> str:
        return '"' + text.replace('"', '""') + '"' if special.search(text) else text

    return line


def snapshot_rows(snapshot: Transaction, table: str, columns: tuple[str, ...]) -> Iterator[tuple[Value, ...]]:
    """All rows of a table in the order of `columns`, a page at a time."""
    for record in snapshot.table(table).scan():
        yield tuple(record[name] for name in columns)
