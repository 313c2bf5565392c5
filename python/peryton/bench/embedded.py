"""Statements in one process: an embedded store beside Python's sqlite3, both in memory, in turns."""

import random
import sqlite3
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import peryton
from peryton.bench.peers import OURS
from peryton.bench.runner import Bench, Result

SQLITE = "sqlite"
_KEYS = 16
_BY_KEY = "SELECT * FROM t WHERE id = ?"
_BY_KEYS = f"SELECT * FROM t WHERE id IN ({', '.join('?' * _KEYS)})"
_UPDATE = "UPDATE t SET a = ? WHERE id = ?"
_INSERT = "INSERT INTO t VALUES (?, ?, ?, ?)"
_TABLES = (
    "CREATE TABLE t (id INTEGER PRIMARY KEY, a INTEGER, b TEXT, c REAL)",
    "CREATE TABLE g (id INTEGER PRIMARY KEY, k INTEGER, v REAL)",
)

Row = tuple[Any, ...]
Run = Callable[[str, Sequence[Row]], object]


@dataclass(frozen=True)
class Peer:
    """A database with the tables: runs a statement once for each row of parameters."""

    name: str
    each: Run
    many: Run


def _peryton(store: peryton.Database) -> Peer:
    def each(text: str, rows: Sequence[Row]) -> None:
        run = store.sql
        for row in rows:
            run(text, row)

    return Peer(OURS, each, store.sql_many)


def _sqlite(database: sqlite3.Connection) -> Peer:
    def each(text: str, rows: Sequence[Row]) -> None:
        run = database.execute
        for row in rows:
            run(text, row).fetchall()

    return Peer(SQLITE, each, database.executemany)


@dataclass(frozen=True)
class Case:
    """A statement, its parameters, and how many rows a run of it counts for."""

    name: str
    title: str
    text: str
    rows: Sequence[Row]
    weight: int = 1
    many: bool = False


def _cases(count: int, dice: random.Random) -> Iterator[Case]:
    ids = [dice.randrange(1, count + 1) for _ in range(min(count, 20_000))]
    yield Case("sql-point", "SELECT by primary key", _BY_KEY, [(i,) for i in ids])
    yield Case("sql-update", "UPDATE by primary key", _UPDATE, [(i, i) for i in ids])
    lists = [tuple(dice.sample(range(1, count + 1), _KEYS)) for _ in range(len(ids) // _KEYS)]
    yield Case("sql-in", f"SELECT of {_KEYS} keys in one IN (rows)", _BY_KEYS, lists, weight=_KEYS)
    group = "SELECT k, count(*), sum(v) FROM g GROUP BY k"
    yield Case("sql-group", "GROUP BY (rows)", group, [()] * 3, weight=count)
    join = "SELECT count(*), sum(g.v) FROM t JOIN g ON g.id = t.id"
    yield Case("sql-join", "a join by key (rows)", join, [()] * 3, weight=count)
    hashed = "SELECT count(*) FROM g JOIN t ON t.c = g.v"
    yield Case("sql-join-hash", "a join on a column without index (rows)", hashed, [()] * 3, weight=count)
    rows = [(count + i, i, "new", 0.5) for i in range(1, len(ids) + 1)]
    yield Case("sql-insert", "INSERT by executemany (rows)", _INSERT, rows, many=True)


def run(bench: Bench) -> Iterator[Result]:
    """Each case on both, in turns; the figure is rows or statements a second."""
    count = min(bench.scale.rows, 100_000)
    dice = random.Random(7)
    with peryton.open() as store:
        database = sqlite3.connect(":memory:", isolation_level=None)
        peers = [_peryton(store), _sqlite(database)]
        for peer in peers:
            _fill(peer, count)
        for case in _cases(count, dice):
            bench.tell(case.title)
            result = Result(case.name, f"in one process: {case.title}, {count:,} rows in the table")
            for _ in range(bench.scale.rounds):
                for peer in peers:
                    result.add(peer.name, {"per_second": _rate(peer, case)})
            yield result
        database.close()


def _fill(peer: Peer, count: int) -> None:
    for text in _TABLES:
        peer.each(text, [()])
    rows = [(i, i * 7 % 1000, f"text number {i}", i / 3) for i in range(1, count + 1)]
    peer.many(_INSERT, rows)
    peer.each("INSERT INTO g SELECT id, a % 100, c FROM t", [()])


def _rate(peer: Peer, case: Case) -> float:
    start = time.perf_counter()
    (peer.many if case.many else peer.each)(case.text, case.rows)
    seconds = time.perf_counter() - start
    if case.many:
        # The next round inserts the same keys.
        peer.each("DELETE FROM t WHERE b = 'new'", [()])
    return len(case.rows) * case.weight / seconds
