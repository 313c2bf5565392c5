"""Routines beside the data: the origins' table, the same in SQL and in Python, and what Python's lock costs others.

`one_set`, `one_get`, `set_session` (four SETs) and `get_session` (two GETs and logic) are the same library on every
server. Beside them stand plain SET and GET in the same turns.
"""

import contextlib
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import peryton
from peryton.bench import routines
from peryton.bench.data import DIGITS, SMALL
from peryton.bench.load import Command, Load, send
from peryton.bench.peers import OURS, Program, Server
from peryton.bench.runner import Bench, Data, Result, Scale, Workload, check

_TOKEN, _USER = "tok:%id%", "usr:%=id%"
_NOW = "1700000000"
_STEPS = 10
#: The server whose procedures are measured.
_PYTHON = ("--procedures", "peryton.bench.routines")
_LIBRARY = Path(__file__).with_name("routines.lua").read_text()
_SESSIONS = "CREATE TABLE sessions (token TEXT, user TEXT, made INTEGER, seen INTEGER, PRIMARY KEY (token) USING HASH)"


def run(bench: Bench) -> Iterator[Result]:
    """All of it."""
    for pipeline in (1, 16):
        yield from _routines(bench, pipeline)
    yield from _round_trips(bench)
    for pipeline in (1, 16):
        yield from bench.in_turns(list(_in_sql(bench, pipeline)))
    yield from bench.in_turns(list(_in_python(bench)))
    yield _embedded(bench)
    yield _beside_a_spinner(bench)


def _fields(bench: Bench) -> tuple[str, ...]:
    return (*SMALL.fields(bench.scale.keys), f"id=uniform:0:{bench.scale.keys}:{DIGITS}")


# --- data -------------------------------------------------------------------------------------------------------------


def _fill(server: Server, scale: Scale) -> None:
    """The library, the keys of SET and GET, a session for each key, and a chain of as many keys."""
    server.command("FUNCTION", "LOAD", "REPLACE", _LIBRARY)
    SMALL.fill(server, scale)
    _fill_by(server, scale, ("FCALL", "set_session", "1", _TOKEN, _USER, _NOW))
    _fill_by(server, scale, ("SET", "hop:%id%", "hop:%next%"))


def _fill_by(server: Server, scale: Scale, command: Command) -> None:
    fields = (f"id=sequence:0:{DIGITS}", f"next=uniform:0:{scale.keys}:{DIGITS}")
    check(send(Load((command,), fields, connections=4, pipeline=64), server.port, requests=scale.keys))


def _fill_table(server: Server, scale: Scale) -> None:
    server.command("SQL", _SESSIONS)
    _fill_by(server, scale, ("SQL", "REPLACE INTO sessions VALUES (?, ?, ?, ?)", _TOKEN, _USER, _NOW, _NOW))


_DATA = Data("procedures", _fill)
_TABLE = Data("procedures-table", _fill_table)


# --- routines beside commands -----------------------------------------------------------------------------------------


def _calls(bench: Bench, pipeline: int) -> Iterator[Workload]:
    """SET, GET and the four routines."""
    user = "usr:" + "0" * DIGITS
    commands: dict[str, tuple[str, Command, bytes]] = {
        "proc-set": ("SET", ("SET", SMALL.key(), SMALL.value), b"+OK\r\n"),
        "proc-one-set": ("a routine of one SET", ("FCALL", "one_set", "1", SMALL.key(), SMALL.value), b"+OK\r\n"),
        "proc-set-session": (
            "set_session (4 SETs)",
            ("FCALL", "set_session", "1", _TOKEN, _USER, _NOW),
            b"+OK\r\n",
        ),
        "proc-get": ("GET", ("GET", SMALL.key()), b"$3\r\nxxx\r\n"),
        "proc-one-get": ("a routine of one GET", ("FCALL", "one_get", "1", SMALL.key()), b"$3\r\nxxx\r\n"),
        "proc-get-session": (
            "get_session (2 GETs and logic)",
            ("FCALL", "get_session", "1", _TOKEN),
            f"${len(user)}\r\n{user}\r\n".encode(),
        ),
    }
    for name, (title, command, reply) in commands.items():
        load = Load((command,), _fields(bench), pipeline=pipeline)
        title = f"{title}, pipeline {pipeline}"
        yield Workload(f"{name}-p{pipeline}", title, load, reply, _DATA, hits="get" in name)


def _routines(bench: Bench, pipeline: int) -> Iterator[Result]:
    results = bench.in_turns(list(_calls(bench, pipeline)))
    yield from results
    a_set, one_set, set_session, get, one_get, get_session = results
    for name, title, routine, what, other in (
        ("one-set-beside-set", "a routine of one SET, beside SET", one_set, "set", a_set),
        ("one-get-beside-get", "a routine of one GET, beside GET", one_get, "get", get),
        ("set-session-beside-one", "set_session, beside the routine of one SET", set_session, "one set", one_set),
        ("get-session-beside-one", "get_session, beside the routine of one GET", get_session, "one get", one_get),
    ):
        yield _beside(f"proc-{name}-p{pipeline}", f"{title}, pipeline {pipeline}", routine, what, other)


def _beside(name: str, title: str, ours: Result, what: str, other: Result, weight: float = 1.0) -> Result:
    """Two workloads of ours as one result; each request of the second counts for `weight`."""
    result = Result(name, title)
    for contender, measured, times in ((OURS, ours, 1.0), (what, other, weight)):
        for rate in measured.figures.get(OURS, {}).get("rate", []):
            result.add(contender, {"per_second": rate * times})
    return result


def _round_trips(bench: Bench) -> Iterator[Result]:
    """Ten look-ups, each by what the last one found: in one routine, and by a client that waits for each reply."""
    hop = "hop:" + "0" * DIGITS
    reply = f"${len(hop)}\r\n{hop}\r\n".encode()
    fields = (f"id=uniform:0:{bench.scale.keys}:{DIGITS}",)

    def workload(name: str, title: str, command: Command) -> Workload:
        return Workload(name, title, Load((command,), fields, connections=1), reply, _DATA, hits=True)

    once = workload(
        "proc-follow", f"a routine of {_STEPS} dependent GETs, one client", ("FCALL", "follow", "1", "hop:%id%")
    )
    each = workload("proc-follow-get", "one GET, one client", ("GET", "hop:%id%"))
    routine, get = bench.in_turns([once, each])
    yield from (routine, get)
    title = f"{_STEPS} dependent look-ups as one routine, beside {_STEPS} round trips of a client"
    yield _beside("proc-round-trips", title, routine, "round trips", get, weight=1 / _STEPS)


# --- the same session in SQL and in Python ----------------------------------------------------------------------------


def _in_sql(bench: Bench, pipeline: int) -> Iterator[Workload]:
    """A session as a row: one statement to write it, one to read it."""
    write = ("SQL", "REPLACE INTO sessions VALUES (?, ?, ?, ?)", _TOKEN, _USER, _NOW, _NOW)
    read = ("SQL", "SELECT user FROM sessions WHERE token = ?", _TOKEN)
    row = b"*2\r\n*1\r\n$4\r\nuser\r\n*1\r\n$16\r\nusr:000000000000\r\n"
    for name, title, command, reply in (
        ("set", "set_session as SQL on a table", write, b":1\r\n"),
        ("get", "get_session as SQL on a table", read, row),
    ):
        load = Load((command,), _fields(bench), pipeline=pipeline)
        yield Workload(
            f"sql-{name}-session-p{pipeline}", f"{title}, pipeline {pipeline}", load, reply, _TABLE, only=(OURS,)
        )


def _in_python(bench: Bench) -> Iterator[Workload]:
    """The procedures. A connection waits for each, so pipelining changes little."""
    nothing, ok, user = b"$-1\r\n", b"$2\r\nOK\r\n", b"$16\r\nusr:000000000000\r\n"
    commands: tuple[tuple[str, str, Command, bytes], ...] = (
        ("empty", "an empty Python procedure", ("CALL", "py_empty"), nothing),
        ("set-session", "set_session in Python", ("CALL", "py_set_session", _TOKEN, _USER, _NOW), ok),
        ("get-session", "get_session in Python", ("CALL", "py_get_session", _TOKEN), user),
    )
    for name, title, command, reply in commands:
        load = Load((command,), _fields(bench))
        yield Workload(
            f"python-{name}", title, load, reply, _DATA, only=(OURS,), hits=name == "get-session", options=_PYTHON
        )


def _embedded(bench: Bench) -> Result:
    """The same calls in one process, from one thread."""
    result = Result("python-embedded", "calls of Python procedures in one process, one thread")
    bench.tell(result.title)
    with peryton.open() as store:
        for procedure in (routines.py_empty, routines.py_set_session, routines.py_get_session):
            store.register(procedure)
        calls = {
            "empty": lambda: store.call("py_empty"),
            "set_session": lambda: store.call("py_set_session", "tok:1", "usr:1", 1_700_000_000),
            "get_session": lambda: store.call("py_get_session", b"tok:1"),
        }
        for _ in range(bench.scale.rounds):
            result.add(OURS, {f"{name}_per_s": _rate(call, bench.scale.seconds) for name, call in calls.items()})
    return result


def _rate(call: object, seconds: float) -> float:
    assert callable(call)
    begun, count = time.perf_counter(), 0
    until = begun + seconds
    while time.perf_counter() < until:
        for _ in range(20):
            call()
        count += 20
    return count / (time.perf_counter() - begun)


# --- what others notice -----------------------------------------------------------------------------------------------


def _beside_a_spinner(bench: Bench) -> Result:
    """GET of others alone, beside a procedure that keeps Python busy, and beside another process that is as busy.

    The last two differ in Python's lock alone: what they have in common is the core that is taken.
    """
    result = Result(
        "python-spinning", "GETs a second: alone, beside a procedure that spins, beside a process that spins"
    )
    bench.tell(result.title)
    program = bench.programs[OURS]
    with (
        bench.failing(result, OURS),
        bench.fresh_with(Program(program.name, (*program.argv, *_PYTHON))) as server,
    ):
        SMALL.fill(server, bench.scale)
        load = Load((("GET", SMALL.key()),), SMALL.fields(bench.scale.keys), pipeline=16)
        for number in range(bench.scale.rounds):
            seconds = bench.scale.seconds + bench.scale.warmup + 1.0
            alone = _gets(bench, load, server, number)
            with _spinning_procedure(server, seconds):
                beside = _gets(bench, load, server, number)
            with _spinning_process(seconds):
                other = _gets(bench, load, server, number)
            ratios = {"kept": beside / alone, "kept_beside_a_process": other / alone, "of_that": beside / other}
            result.add(OURS, {"per_second": beside, "alone_per_s": alone, "process_per_s": other, **ratios})
    return result


def _gets(bench: Bench, load: Load, server: Server, number: int) -> float:
    bench.wait_for_quiet()
    sample = send(load, server.port, seconds=bench.scale.seconds, warmup=bench.scale.warmup, seed=number + 1)
    check(sample, hits=True)
    return sample.metrics()["rate"]


@contextlib.contextmanager
def _spinning_procedure(server: Server, seconds: float) -> Iterator[None]:
    text = str(seconds).encode()
    with socket.create_connection(("127.0.0.1", server.port)) as connection:
        connection.sendall(b"*3\r\n$4\r\nCALL\r\n$7\r\npy_spin\r\n$%d\r\n%s\r\n" % (len(text), text))
        _until_it_runs(server)
        yield
        # Its client is gone, so it is stopped.


def _until_it_runs(server: Server) -> None:
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        if b"flags=b" in bytes(str(server.command("CLIENT", "LIST")), "utf-8"):
            return
        time.sleep(0.01)


@contextlib.contextmanager
def _spinning_process(seconds: float) -> Iterator[None]:
    code = f"import time\nuntil = time.monotonic() + {seconds}\nwhile time.monotonic() < until: pass"
    with subprocess.Popen([sys.executable, "-c", code]) as process:
        time.sleep(0.1)
        try:
            yield
        finally:
            process.kill()
