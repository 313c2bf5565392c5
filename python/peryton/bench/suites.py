"""The workloads. Each suite yields results; a later issue adds its own to `SUITES`."""

import sqlite3
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from peryton.bench import checkpoint, embedded, huge_values, procedures, restart
from peryton.bench.data import DIGITS, INDEXES, SMALL, USUAL, Strings, fill_table, millions
from peryton.bench.load import Command, Load, Sample, send
from peryton.bench.peers import OURS, Server
from peryton.bench.runner import Bench, Data, Result, Workload, check

PIPELINES = (1, 16, 64)


@dataclass(frozen=True)
class Suite:
    """Workloads that are run together."""

    name: str
    title: str
    run: Callable[[Bench], Iterator[Result]]


# --- commands ---------------------------------------------------------------------------------------------------------


def _bulk(value: str) -> bytes:
    return f"${len(value)}\r\n{value}\r\n".encode()


def _strings(bench: Bench, strings: Strings, suffix: str = "") -> Iterator[Result]:
    commands: dict[str, tuple[Command, bytes]] = {
        "set": (("SET", strings.key(), strings.value), b"+OK\r\n"),
        "get": (("GET", strings.key()), _bulk(strings.value)),
    }
    for pipeline in PIPELINES:
        for name, (command, reply) in commands.items():
            load = Load((command,), strings.fields(bench.scale.keys), pipeline=pipeline)
            title = f"{name.upper()} {len(strings.value)} B, pipeline {pipeline}"
            workload = Workload(f"{name}{suffix}-p{pipeline}", title, load, reply, strings.data(), hits=name == "get")
            # What is judged there is user CPU, a small part of all: it takes more ticks.
            yield bench.throughput(replace(workload, longer=2.0) if pipeline == 1 else workload)


def _small_strings(bench: Bench) -> Iterator[Result]:
    yield from _strings(bench, SMALL)


def _usual_strings(bench: Bench) -> Iterator[Result]:
    yield from _strings(bench, USUAL, "32")


def _durable(bench: Bench) -> Iterator[Result]:
    """SET with the promise that Redis calls appendfsync always, and the one it calls everysec."""
    load = Load((("SET", SMALL.key(), SMALL.value),), SMALL.fields(bench.scale.keys))
    for promise, pipeline in (("sync", 1), ("sync", 16), ("interval", 16)):
        title = f"SET at {promise}, pipeline {pipeline}"
        work = replace(load, pipeline=pipeline)
        yield bench.throughput(
            Workload(f"set-{promise}-p{pipeline}", title, work, b"+OK\r\n", SMALL.data(), promise=promise)
        )


def _scripts(bench: Bench) -> Iterator[Result]:
    command = ("EVAL", "return redis.call('GET', KEYS[1])", "1", SMALL.key())
    load = Load((command,), SMALL.fields(bench.scale.keys), pipeline=16)
    reply = _bulk(SMALL.value)
    yield bench.throughput(
        Workload("eval-get-p16", "EVAL of one GET, pipeline 16", load, reply, SMALL.data(), hits=True)
    )


# --- tables -----------------------------------------------------------------------------------------------------------


def _select(bench: Bench) -> Iterator[Result]:
    rows = bench.scale.rows
    load = Load((("SQL", "SELECT * FROM bench WHERE id = ?", "%id%"),), (f"id=uniform:1:{rows + 1}",), pipeline=16)
    reply = b"*2\r\n*3\r\n$2\r\nid\r\n$1\r\na\r\n$1\r\nb\r\n*3\r\n:500000\r\n:500000\r\n:500000\r\n"
    data = Data("table", lambda server, scale: fill_table(server, scale.rows))
    title = f"SELECT of {millions(rows)} rows, pipeline 16"
    yield bench.throughput(Workload("select-p16", title, load, reply, data, only=(OURS,)))


def _wire(bench: Bench) -> Iterator[Result]:
    """SELECT by key beside GET, and sixteen keys in one statement beside one."""
    rows = bench.scale.rows
    data = Data("table", lambda server, scale: fill_table(server, scale.rows))
    row = b"*1\r\n:500000\r\n"

    def select(keys: int, pipeline: int) -> Workload:
        marks = "= ?" if keys == 1 else f"IN ({', '.join('?' * keys)})"
        command = ("SQL", f"SELECT a FROM bench WHERE id {marks}", *["%id%"] * keys)
        load = Load((command,), (f"id=uniform:1:{rows + 1}",), pipeline=pipeline)
        reply = f"*{keys + 1}\r\n".encode() + b"*1\r\n$1\r\na\r\n" + row * keys
        name = f"select-p{pipeline}" if keys == 1 else f"select-in-p{pipeline}"
        title = f"SELECT of {keys} key{'s' * (keys > 1)}, pipeline {pipeline}"
        return Workload(name, title, load, reply, data, only=(OURS,))

    load = Load((("GET", SMALL.key()),), SMALL.fields(bench.scale.keys), pipeline=1)
    get = Workload("wire-get-p1", "GET beside it, pipeline 1", load, _bulk(SMALL.value), SMALL.data(), only=(OURS,))
    alone, several, beside = bench.in_turns([select(1, 1), select(_KEYS_AT_ONCE, 1), get])
    yield from (alone, several, beside)
    yield _beside("select-beside-get", "SELECT of one key, beside GET", alone, "get", beside)
    yield _beside_one(several, alone, 1)
    alone, several = bench.in_turns([select(1, 64), select(_KEYS_AT_ONCE, 64)])
    yield from (alone, several)
    yield _beside_one(several, alone, 64)


def _beside_one(several: Result, alone: Result, pipeline: int) -> Result:
    title = f"rows of {_KEYS_AT_ONCE} keys in one IN, beside one key at a time, pipeline {pipeline}"
    return _beside(f"in-beside-one-p{pipeline}", title, several, "one key", alone, weight=_KEYS_AT_ONCE)


_KEYS_AT_ONCE = 16


def _beside(name: str, title: str, ours: Result, what: str, other: Result, weight: int = 1) -> Result:
    """Two workloads of ours as one result; each request of the first counts for `weight`."""
    result = Result(name, title)
    pairs = ((OURS, ours, weight), (what, other, 1))
    for contender, measured, times in pairs:
        for rate in measured.figures.get(OURS, {}).get("rate", []):
            result.add(contender, {"per_second": rate * times})
    return result


# --- memory -----------------------------------------------------------------------------------------------------------


def _key_memory(bench: Bench) -> Iterator[Result]:
    keys = bench.scale.memory_keys
    result = Result("key-memory", f"{millions(keys)} keys of 16 bytes with 32-byte values, beyond an empty server")
    bench.tell(result.title)
    for name in bench.contenders():
        with bench.failing(result, name), bench.fresh(name) as server:
            before = _memory(server)
            USUAL.fill(server, bench.scale, keys)
            result.add(name, {f"{what}_bytes": grown / keys for what, grown in _growth(server, before).items()})
    yield result


def _row_memory(bench: Bench) -> Iterator[Result]:
    rows = bench.scale.memory_rows
    result = Result("row-memory", f"{millions(rows)} rows (int, int, int), hash primary key, one ordered index")
    bench.tell(result.title)
    with bench.failing(result, OURS), bench.fresh(OURS) as server:
        before = _memory(server)
        fill_table(server, rows)
        server.command("SQL", INDEXES[0])
        result.add(OURS, {f"{what}_bytes": grown / rows for what, grown in _growth(server, before).items()})
    result.add("sqlite", {"used_bytes": _sqlite_bytes(rows) / rows})
    result.notes.append("SQLite: pages of a database in memory, rowid table and an index made after the rows")
    yield result


def _memory(server: Server) -> dict[str, int]:
    used = server.used_memory()
    return {"rss": server.rss_bytes(), **({} if used is None else {"used": used})}


def _growth(server: Server, before: dict[str, int]) -> dict[str, int]:
    """What grew; a server whose figure stands still does not count."""
    grown = {what: now - before[what] for what, now in _memory(server).items() if what in before}
    return {what: by for what, by in grown.items() if by > 0}


def _sqlite_bytes(rows: int) -> int:
    """Size of the same table in SQLite."""
    database = sqlite3.connect(":memory:")
    database.execute("CREATE TABLE bench (id INTEGER PRIMARY KEY, a INTEGER, b INTEGER)")
    database.execute(
        "INSERT INTO bench WITH RECURSIVE n (id) AS (SELECT 1 UNION ALL SELECT id + 1 FROM n LIMIT ?1) "
        "SELECT id, abs(random() % ?1), abs(random() % ?1) FROM n",
        (rows,),
    )
    database.execute("CREATE INDEX bench_a ON bench (a)")
    sizes = [database.execute(f"PRAGMA {name}").fetchone()[0] for name in ("page_count", "page_size")]
    database.close()
    return int(sizes[0] * sizes[1])


# --- growth -----------------------------------------------------------------------------------------------------------


def _growth_stalls(bench: Bench) -> Iterator[Result]:
    """The longest growth step while keys are added one after the other.

    A batch also takes long when the machine is busy and the server waits for a core. Its CPU clock tells the two apart,
    to a tick of 4 ms: what is judged is for how long the server worked during one batch.
    """
    keys = bench.scale.growth_keys
    result = Result(
        "growth",
        f"longest batch while {millions(keys)} keys are inserted: its time, and the server's work in one",
    )
    bench.tell(result.title)
    load = Load((("SET", USUAL.key(), USUAL.value),), (f"key=sequence:0:{DIGITS}",), connections=4, pipeline=16)
    for _ in range(bench.scale.growth_rounds):
        for name in bench.contenders():
            if name not in result.failed:
                with bench.failing(result, name), bench.fresh(name) as server:
                    sample = send(load, server.port, requests=keys, pids=[server.pid], watch_cpu=True)
                    check(sample)
                    result.add(name, _longest(sample))
    yield result


def _longest(sample: Sample) -> dict[str, float]:
    (wait_ms, wait_at), (work_ms, work_at) = sample.slowest_ms[0], sample.hardest_ms or (0.0, 0)
    return {
        "longest_ms": wait_ms,
        "longest_at_key": wait_at,
        "longest_work_ms": work_ms,
        "longest_work_at_key": work_at,
        "p99_ms": sample.batch_ms[99.0],
    }


SUITES = {
    suite.name: suite
    for suite in (
        Suite("strings", "SET and GET, 3 bytes", _small_strings),
        Suite("strings32", "SET and GET, 32 bytes", _usual_strings),
        Suite("durable", "SET that reaches the disk", _durable),
        Suite("scripts", "a command from Lua", _scripts),
        Suite("procedures", "routines beside the data: Lua, SQL and Python", procedures.run),
        Suite("select", "rows by key over the wire", _select),
        Suite("sql", "statements in one process, beside Python's sqlite3", embedded.run),
        Suite("sql-wire", "statements over the wire", _wire),
        Suite("key-memory", "memory of keys", _key_memory),
        Suite("row-memory", "memory of rows", _row_memory),
        Suite("checkpoint", "service while all is saved, at half of the highest rate", checkpoint.run),
        Suite("huge-values", "the longest wait beside huge values that are saved", huge_values.run),
        Suite("restart", "time until a store answers again", restart.run),
        Suite("growth", "stalls of a growing dictionary", _growth_stalls),
    )
}
#: Left out of a short run unless named.
LONG = ("strings32", "huge-values")
