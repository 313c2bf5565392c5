"""The chapters of the demo. Each takes the stage and a way to the data, and leaves what it made for the next."""

from __future__ import annotations

import random
import shutil
import subprocess
import time
from typing import Any

import redis
from rich.console import RenderableType
from rich.text import Text

import peryton
from peryton import Database, Rows
from peryton.cli import render
from peryton.demo import data
from peryton.demo.stage import Stage

_BATCH_ROWS = 400
_SESSIONS = 1000

SESSION_SCRIPT = """\
-- KEYS[1] is a session. One round trip: the visitor, the plane they look at, its last flights, and a new deadline.
local session = redis.call('HMGET', KEYS[1], 'name', 'tailnum')
if not session[1] then return redis.error_reply('NOSESSION it has expired') end
redis.call('EXPIRE', KEYS[1], 1800)
redis.call('HINCRBY', KEYS[1], 'views', 1)
local flights = redis.call('SQL', [[
  SELECT month || '/' || day AS day, origin, dest, coalesce(arr_delay, 'cancelled') AS late
  FROM flights WHERE tailnum = ? ORDER BY time_hour DESC LIMIT 3]], session[2])
return {session[1], session[2], flights}
"""


def load(stage: Stage, db: Database, limit: int | None) -> None:
    """Tables from the CSV files, then their indexes."""
    stage.chapter(
        "Tables", "Five CSV files become SQL tables. Primary keys are hash indexes unless they ask for a B-tree."
    )
    stage.step("Create a table", data.FLIGHTS.create, lambda: db.sql(data.FLIGHTS.create))
    for source in data.SOURCES[:-1]:
        db.sql(source.create)
    stage.console.print()
    for source in data.SOURCES:
        rows = min(source.rows, limit or source.rows)
        with stage.progress(source.table, rows) as advance:
            for batch in data.batches(source, _BATCH_ROWS, limit):
                values = [value for row in batch for value in row]
                advance(db.sql(source.insert(len(batch)), values).rowcount)
    for index in data.INDEXES:
        kind = "equality only, a few bytes a row" if "HASH" in index else "order, ranges and prefixes"
        stage.step(f"Build an index: {kind}", index, lambda index=index: db.sql(index))  # type: ignore[misc]


def query(stage: Stage, db: Database) -> None:
    """Joins and aggregates, and how the store finds its rows."""
    stage.chapter("SQL", "Joins, aggregates, window functions: SQLite's queries over Peryton's tables.")
    _sql(
        stage,
        db,
        "Which airlines fly most, and how late are they?",
        """\
SELECT a.name, count(*) AS flights, round(avg(f.arr_delay), 1) AS minutes_late
FROM flights f JOIN airlines a ON a.carrier = f.carrier
GROUP BY a.carrier ORDER BY flights DESC LIMIT 5""",
    )
    _sql(
        stage,
        db,
        "The worst departures, with the plane and the weather: a range of an ordered index, then three joins by key",
        """\
SELECT f.month || '/' || f.day AS day, a.name AS airline, f.origin, f.dest, f.dep_delay AS minutes,
       p.manufacturer, round(w.visib, 1) AS visibility
FROM flights f JOIN airlines a ON a.carrier = f.carrier
LEFT JOIN planes p ON p.tailnum = f.tailnum
LEFT JOIN weather w ON w.origin = f.origin AND w.time_hour = f.time_hour
WHERE f.dep_delay >= 800 ORDER BY f.dep_delay DESC""",
    )
    _sql(
        stage,
        db,
        "The busiest day of each airport: a window function",
        """\
SELECT origin, month || '/' || day AS day, flights FROM (
  SELECT origin, month, day, count(*) AS flights,
         row_number() OVER (PARTITION BY origin ORDER BY count(*) DESC) AS place
  FROM flights GROUP BY origin, month, day)
WHERE place = 1 ORDER BY origin""",
    )
    _sql(
        stage,
        db,
        "One flight by its primary key",
        "SELECT carrier, flight, origin, dest, dep_delay FROM flights WHERE id = 117",
    )
    _sql(stage, db, "How it was found", "EXPLAIN SELECT * FROM flights WHERE id = 117")
    _sql(stage, db, "And a range", "EXPLAIN SELECT * FROM flights WHERE dep_delay BETWEEN 60 AND 65")


def keys(stage: Stage, db: Database) -> None:
    """A live leaderboard and sessions, in Redis's structures."""
    stage.chapter("Keys", "The same store is a Redis: here a live leaderboard and visitors' sessions that expire.")
    arrivals = db.sql("SELECT carrier, count(*) FROM flights WHERE arr_delay <= 0 GROUP BY carrier ORDER BY carrier")
    stage.step(
        "Every airline gets a point for each flight that was on time",
        "ZADD ontime <points> <carrier> ...",
        lambda: db.pipeline([("ZADD", "ontime", points, carrier) for carrier, points in arrivals]),
        language="text",
        show=lambda replies: Text(f"{sum(replies)} airlines on the board"),
    )
    stage.step(
        "One more arrival, and the leaders now",
        "ZINCRBY ontime 1 UA\nZREVRANGE ontime 0 4 WITHSCORES",
        lambda: db.pipeline([("ZINCRBY", "ontime", 1, "UA"), ("ZREVRANGE", "ontime", 0, 4, "WITHSCORES")])[1],
        language="text",
        show=_board,
    )
    planes = db.sql("SELECT DISTINCT tailnum FROM flights WHERE dep_delay > 120 AND tailnum IS NOT NULL LIMIT 500")
    dice = random.Random(2013)
    requests: list[tuple[Any, ...]] = []
    for number in range(_SESSIONS):
        session = f"session:{number}"
        plane = dice.choice(planes.column())
        requests.append(("HSET", session, "name", f"visitor {number}", "tailnum", plane, "views", 0))
        requests.append(("EXPIRE", session, 1800))
    stage.step(
        f"{_SESSIONS:,} visitors come, each with a session of half an hour; one pipeline of {len(requests):,} commands",
        "HSET session:0 name ... tailnum ... views 0\nEXPIRE session:0 1800\n...",
        lambda: db.pipeline(requests),
        language="text",
        show=lambda replies: Text(f"{len(replies):,} replies, all well"),
    )


def together(stage: Stage, db: Database) -> None:
    """What two systems side by side cannot do."""
    stage.chapter("Both at once", "Keys and tables are one store: one query joins them, one script changes both.")
    _sql(
        stage,
        db,
        "The leaderboard with the airlines' names: a sorted set joined with a table",
        """\
SELECT a.name, z.score AS points
FROM zset('ontime') z JOIN airlines a ON a.carrier = z.member
ORDER BY z.score DESC LIMIT 5""",
    )
    stage.step(
        "A session look-up in one round trip: a Lua routine reads the session, prolongs it and queries the flights",
        SESSION_SCRIPT,
        lambda: db.command("EVAL", SESSION_SCRIPT, 1, "session:42"),
        language="lua",
    )
    sha = db.command("SCRIPT", "LOAD", SESSION_SCRIPT)
    rounds = 2000
    stage.step(
        f"The same for {rounds:,} page views, in one pipeline",
        f"EVALSHA {peryton_text(sha)[:12]}... 1 session:<n>",
        lambda: db.pipeline([("EVALSHA", sha, 1, f"session:{n % _SESSIONS}") for n in range(rounds)]),
        language="text",
        show=_script_count,
    )


def clients(stage: Stage, port: int) -> None:
    """Redis's own clients."""
    stage.chapter("Your clients", "Any Redis client works unchanged, and may speak SQL too.")
    code = """\
r = redis.Redis(port={port}, decode_responses=True)
with r.pipeline() as pipe:
    pipe.hincrby("session:42", "views", 1)
    pipe.zrevrank("ontime", "UA")
    pipe.execute_command("SQL", "SELECT name FROM airlines WHERE carrier = ?", "UA")
    result = pipe.execute()"""

    def through_redis_py() -> Any:
        client = redis.Redis(port=port, decode_responses=True)
        with client, client.pipeline() as pipe:
            pipe.hincrby("session:42", "views", 1)
            pipe.zrevrank("ontime", "UA")
            pipe.execute_command("SQL", "SELECT name FROM airlines WHERE carrier = ?", "UA")  # type: ignore[no-untyped-call]
            return pipe.execute()

    stage.step(
        "redis-py: keys and a table in one transaction",
        code.format(port=port),
        through_redis_py,
        language="python",
        show=lambda result: Text(repr(result)),
    )
    cli = shutil.which("redis-cli")
    if cli is None:
        stage.note("redis-cli is not installed here; with it: redis-cli -p PORT")
        return
    for words in (
        ["ZREVRANGE", "ontime", "0", "2", "WITHSCORES"],
        ["SQL", "SELECT faa, name FROM airports WHERE name LIKE 'San F%'"],
        ["TABLE.GET", "planes", "N14228"],
    ):
        shown = " ".join(f'"{word}"' if " " in word else word for word in words)
        stage.step(
            "redis-cli",
            f"redis-cli -p {port} {shown}",
            lambda words=words: _redis_cli(cli, port, words),  # type: ignore[misc]
            language="text",
            show=Text,
        )


def embedded(stage: Stage) -> None:
    """The same surface without a server."""
    stage.chapter(
        "In your process", "The same store and the same surface inside a Python program: no server, no socket."
    )
    code = """\
with peryton.open() as db:
    db.sql("CREATE TABLE airlines (carrier TEXT, name TEXT, PRIMARY KEY (carrier) USING HASH)")
    db.table("airlines").put_many(airlines)
    r = db.redis(decode_responses=True)      # a real redis-py client, and no socket
    r.zincrby("seen", 1, "UA")
    db.table("airlines").get("UA"), r.zrange("seen", 0, -1)"""
    with peryton.open() as db:
        names = [{"carrier": row[0], "name": row[1]} for batch in data.batches(data.AIRLINES, 100) for row in batch]

        def work() -> Any:
            db.sql(data.AIRLINES.create)
            db.table("airlines").put_many(names)
            client = db.redis(decode_responses=True)
            client.zincrby("seen", 1, "UA")
            return db.table("airlines").get("UA"), client.zrange("seen", 0, -1)

        stage.step("peryton.open()", code, work, language="python", show=lambda result: Text(repr(result)))
        calls = 20_000
        seconds = _timed(lambda: [db.command("GET", "none") for _ in range(calls)])
        rows = _timed(lambda: [db.table("airlines").get("UA") for _ in range(calls)])
        select = "SELECT name FROM airlines WHERE carrier = ?"
        selects = _timed(lambda: [db.sql(select, ["UA"]) for _ in range(calls)])
        for name, total in (("GET", seconds), ("a row by key", rows), ("SELECT by key", selects)):
            stage.note(f"{name:<14} {total / calls * 1e6:5.1f} µs a call, {calls / total:>9,.0f} a second")


def size(stage: Stage, db: Database) -> None:
    """What it costs."""
    info = peryton_text(db.command("INFO", "memory"))
    facts = dict(line.split(":", 1) for line in info.splitlines() if ":" in line)
    used = int(facts.get("used_memory", 0))
    rows = sum(db.sql(f"SELECT count(*) FROM {source.table}").scalar() for source in data.SOURCES)
    stage.console.print()
    stage.note(f"The server holds {rows:,} rows and {db.command('DBSIZE'):,} keys in {used / 1e6:,.0f} MB.")


def peryton_text(value: Any) -> str:
    """A reply that may be bytes, as text."""
    return value.decode() if isinstance(value, bytes) else str(value)


def _sql(stage: Stage, db: Database, title: str, statement: str) -> Rows:
    return stage.step(title, statement, lambda: db.sql(statement))


def _board(pairs: Any) -> RenderableType:
    return render.rows_table(Rows(("carrier", "points"), [(peryton_text(m), int(s)) for m, s in pairs], len(pairs)))


def _script_count(replies: list[Any]) -> RenderableType:
    failed = [reply for reply in replies if isinstance(reply, Exception)]
    return Text(f"{len(replies):,} replies{f', {len(failed)} failed: {failed[0]}' if failed else ', all well'}")


def _redis_cli(cli: str, port: int, words: list[str]) -> str:
    # --no-raw: as at a terminal, with types and numbers.
    command = [cli, "--no-raw", "-p", str(port), *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=20, check=True)
    return done.stdout.strip("\n")


def _timed(work: Any) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started
