"""How long a store takes from the start of its process until it answers.

Peryton reads its checkpoint of keys and of a table with two indexes beside its primary key. Beside it stand Redis and
Valkey, which read the same keys from their RDB file, and SQLite, which builds the same two indexes on a table in a
file: together they have then what Peryton has.
"""

import contextlib
import shutil
import sqlite3
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from peryton.bench.checkpoint import prepare
from peryton.bench.data import DIGITS, USUAL, fill_stock, millions
from peryton.bench.embedded import SQLITE
from peryton.bench.peers import OURS, Server
from peryton.bench.runner import Bench, Result, Unsound

#: A journal would only slow it down; the rows come from the page cache.
_FAST_SQLITE = ("journal_mode = OFF", "synchronous = OFF", "temp_store = MEMORY", "cache_size = -1000000")
_START_S_MAX = 900.0


def run(bench: Bench) -> Iterator[Result]:
    """Each is started several times, in turns."""
    count = bench.scale.stock
    stock = f"{millions(count)} keys, {millions(count)} rows, two indexes"
    result = Result("restart", f"from the start of the process to the first answers: {stock}")
    with contextlib.ExitStack() as stack:
        servers = {}
        for name in bench.contenders():
            with bench.failing(result, name):
                servers[name] = stack.enter_context(bench.fresh(name, promise="interval" if name == OURS else ""))
                _fill(bench, servers[name])
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="peryton-bench-sqlite-")))
        bench.tell(f"sqlite: {millions(count)} rows")
        _fill_sqlite(folder / "rows", count)
        for _ in range(bench.scale.stock_rounds):
            bench.wait_for_quiet()
            bench.tell("sqlite: two indexes")
            indexes_s = _build_indexes(folder, count)
            result.add(SQLITE, {"indexes_s": indexes_s})
            for name, server in servers.items():
                if name not in result.failed:
                    with bench.failing(result, name):
                        bench.tell(f"{name}: starting with {millions(count)} keys")
                        measure(server, count, result, indexes_s)
    yield result


def _fill(bench: Bench, server: Server) -> None:
    """Leaves it with the keys and rows, saved and stopped."""
    if server.name == OURS:
        prepare(server)
    fill_stock(server, bench.scale.stock, bench.tell)
    bench.tell(f"{server.name}: saving")
    server.command("SAVE")
    server.halt()


def measure(server: Server, count: int, result: Result, indexes_s: float) -> None:
    """Starts it and asks until it answers; together with SQLite's share where it has no tables."""
    begun = time.monotonic()
    server.restart(_START_S_MAX)
    metrics = {"ping_s": time.monotonic() - begun}
    with contextlib.closing(server.client()) as client:
        key = USUAL.key().replace("%key%", f"{count - 1:0{DIGITS}}")
        if client.get(key) != USUAL.value.encode():
            raise Unsound("the last key is not there")
        metrics["get_s"] = time.monotonic() - begun
        if server.name == OURS:
            client.execute_command("SQL", "SELECT a FROM bench WHERE id = ?", count)  # type: ignore[no-untyped-call]
            metrics["select_s"] = time.monotonic() - begun
        _check(server, count)
    server.halt()
    if server.name == OURS:
        result.add(OURS, metrics | {"items_per_s": 2 * count / metrics["select_s"]})
        return
    result.add(server.name, metrics)
    together = metrics["get_s"] + indexes_s
    result.add(beside(server.name), {"select_s": together, "items_per_s": 2 * count / together})


def beside(name: str) -> str:
    """A server for the keys together with SQLite for the rows."""
    return f"{name} + {SQLITE}"


def _check(server: Server, count: int) -> None:
    """Refuses a server that began without all of it."""
    counts = [server.command("DBSIZE")]
    if server.name == OURS:
        rows = server.command("SQL", "SELECT count(*) FROM bench")
        counts.append(rows[1][0] if isinstance(rows, list) else None)
    if any(found != count for found in counts):
        raise Unsound(f"after the start it has {counts} of {count}")


def _fill_sqlite(file: Path, rows: int) -> None:
    with contextlib.closing(sqlite3.connect(file)) as database:
        database.execute("PRAGMA synchronous = OFF")
        database.execute("CREATE TABLE bench (id INTEGER PRIMARY KEY, a INTEGER, b INTEGER)")
        database.execute(
            "INSERT INTO bench WITH RECURSIVE n (id) AS (SELECT 1 UNION ALL SELECT id + 1 FROM n LIMIT ?1) "
            "SELECT id, abs(random() % ?1), abs(random() % ?1) FROM n",
            (rows,),
        )
        database.commit()


def _build_indexes(folder: Path, rows: int) -> float:
    """Opens a copy of the file and builds both indexes; how long that takes."""
    file = folder / "copy"
    shutil.copyfile(folder / "rows", file)
    begun = time.monotonic()
    with contextlib.closing(sqlite3.connect(file, isolation_level=None)) as database:
        for setting in _FAST_SQLITE:
            database.execute(f"PRAGMA {setting}")
        database.execute("CREATE INDEX bench_a ON bench (a)")
        database.execute("CREATE INDEX bench_b ON bench (b)")
        database.execute("SELECT a FROM bench WHERE id = ?", (rows,)).fetchone()
        return time.monotonic() - begun
