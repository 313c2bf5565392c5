"""Procedures that run too long, are cancelled, or are in the way when the store closes."""

from __future__ import annotations

import gc
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

import peryton
from peryton import Handle
from peryton.exceptions import ProcedureError, StoppedError
from peryton.procedures import StopProcedure

from .conftest import until

NEVER_AGAIN = Retry(NoBackoff(), 0)
"""By itself redis-py sends a request again when its connection was closed."""


class Caller(threading.Thread):
    """Calls a procedure over a connection of its own, and keeps what came of it."""

    def __init__(self, client: redis.Redis, *request: Any) -> None:
        super().__init__(daemon=True)
        self.client = client
        self.number = client.client_id()
        self.request = request
        self.reply: Any = None
        self.error = ""
        self.start()

    def run(self) -> None:
        try:
            self.reply = self.client.execute_command(*self.request)
        except Exception as error:
            # Not only its own errors: redis-py finds itself without a socket when that is closed under it.
            self.error = str(error)


@pytest.fixture(params=["embedded", "tcp"])
def clients(request: pytest.FixtureRequest, store: peryton.Database) -> Iterator[Any]:
    """Makes clients of the store, each with a connection of its own."""
    server = store.serve()
    if request.param == "embedded":
        yield lambda: store.redis(single_connection_client=True, retry=NEVER_AGAIN)
    else:
        yield lambda: redis.Redis(port=server.port, single_connection_client=True, retry=NEVER_AGAIN)


class Spinner:
    """A procedure that never ends by itself, and what is known of its runs."""

    def __init__(self, store: peryton.Database) -> None:
        self.running = threading.Semaphore(0)
        self.stopped = threading.Semaphore(0)
        store.sql("CREATE TABLE t (id INTEGER PRIMARY KEY)")

        @store.procedure
        def spin(db: Handle) -> None:
            db.command("SET", "k", "lost")
            db.sql("INSERT INTO t VALUES (1)")
            self.running.release()
            try:
                while True:
                    pass
            finally:
                self.stopped.release()


def undone(store: peryton.Database) -> bool:
    return store.command("GET", "k") is None and store.sql("SELECT count(*) FROM t").scalar() == 0


def test_an_endless_loop_is_ended_when_its_time_is_up(store: peryton.Database) -> None:
    spinner = Spinner(store)
    store.command("CONFIG", "SET", "python-time-limit", 50)
    with pytest.raises(StoppedError, match="CANCELLED 57014 procedure spin took too long") as caught:
        store.call("spin")
    assert "what it did is undone" in str(caught.value)
    # It is not only answered, but over; and its thread is there for others.
    assert spinner.stopped.acquire(timeout=60)
    assert undone(store)
    store.register(peryton.procedure(name="f")(lambda db: 7))
    assert [store.call("f") for _ in range(20)] == [7] * 20


def test_the_time_of_statements_bounds_it_too(store: peryton.Database) -> None:
    spinner = Spinner(store)
    store.command("CONFIG", "SET", "statement-timeout", 50)
    with pytest.raises(StoppedError, match="took too long"):
        store.sql("CALL spin()")
    assert spinner.stopped.acquire(timeout=60)


@pytest.mark.parametrize("how", ["cancel", "kill", "unblock", "gone"])
def test_whoever_may_ends_it(store: peryton.Database, clients: Any, how: str) -> None:
    spinner, other = Spinner(store), clients()
    caller = Caller(clients(), "CALL", "spin")
    assert spinner.running.acquire(timeout=60)
    if how == "cancel":
        assert other.execute_command("CANCEL", caller.number) == 1
    elif how == "kill":
        assert other.client_kill_filter(_id=str(caller.number)) == 1
    elif how == "unblock":
        assert other.client_unblock(caller.number, error=True) == 1
    else:
        caller.client.connection.disconnect()
    assert spinner.stopped.acquire(timeout=60)
    caller.join(60)
    assert not caller.is_alive()
    if how == "cancel":
        assert "procedure spin was cancelled: it was stopped, and what it did is undone" in caller.error
    until(lambda: undone(store))
    assert other.execute_command("CANCEL", other.client_id()) == 0


def test_one_that_swallows_its_end_is_ended_again(store: peryton.Database) -> None:
    swallowed, over = [], threading.Event()

    @store.procedure
    def stubborn(db: Handle) -> None:
        try:
            while True:
                try:
                    while True:
                        pass
                except StopProcedure:
                    swallowed.append(1)
                    if len(swallowed) == 3:
                        raise
        finally:
            over.set()

    store.command("CONFIG", "SET", "python-time-limit", 20)
    with pytest.raises(StoppedError, match="took too long"):
        store.call("stubborn")
    assert over.wait(60)
    assert len(swallowed) == 3
    store.register(peryton.procedure(name="f")(lambda db: 7))
    assert store.call("f") == 7


def test_a_plain_except_lets_its_end_pass(store: peryton.Database) -> None:
    @store.procedure
    def careless(db: Handle) -> None:
        while True:
            try:
                while True:
                    pass
            except Exception:
                continue

    store.command("CONFIG", "SET", "python-time-limit", 20)
    with pytest.raises(StoppedError):
        store.call("careless")


def test_a_statement_inside_is_ended_too(store: peryton.Database) -> None:
    running = threading.Event()
    endless = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT count(*) FROM n"

    @store.procedure
    def read(db: Handle) -> None:
        running.set()
        db.sql(endless)

    @store.procedure
    def write(db: Handle) -> None:
        running.set()
        db.sql(f"INSERT INTO t SELECT * FROM ({endless.replace('count(*)', 'x')})")

    store.sql("CREATE TABLE t (id INTEGER)")
    other = store.redis(single_connection_client=True)
    # What a connection says at first would wait for the statement; CANCEL does not.
    other.ping()
    for name in ("read", "write"):
        running.clear()
        caller = Caller(store.redis(single_connection_client=True), "CALL", name)
        assert running.wait(60)

        def cancel(number: int = caller.number) -> bool:
            try:
                return bool(other.execute_command("CANCEL", number))
            except redis.RedisError:
                # The statement holds the store: its own session is to be named.
                return False

        until(lambda: cancel() or not caller.is_alive())
        caller.join(60)
        assert "CANCELLED" in caller.error
    assert store.sql("SELECT count(*) FROM t").scalar() == 0


def test_who_waits_for_a_thread_is_answered_too(store: peryton.Database) -> None:
    gate, inside = threading.Event(), threading.Semaphore(0)

    @store.procedure
    def hold(db: Handle) -> None:
        inside.release()
        gate.wait()

    holders = [Caller(store.redis(single_connection_client=True), "CALL", "hold") for _ in range(4)]
    for _ in holders:
        assert inside.acquire(timeout=60)
    waiting = Caller(store.redis(single_connection_client=True), "CALL", "hold")
    other = store.redis()
    until(lambda: other.execute_command("CANCEL", waiting.number))
    waiting.join(60)
    assert "procedure hold was cancelled: it did not begin" in waiting.error
    gate.set()
    for holder in holders:
        holder.join(60)
        assert holder.error == ""


def test_c_code_that_does_not_return_is_left_behind(store: peryton.Database) -> None:
    """Nothing ends it, but its caller is answered, its session is closed, and another thread takes its place."""
    lock, outcome = threading.Lock(), []
    lock.acquire()

    @store.procedure
    def stuck(db: Handle) -> None:
        db.command("SET", "k", "lost")
        try:
            lock.acquire()
        except StopProcedure:
            outcome.append("stopped")
        try:
            db.command("SET", "k", "late")
        except BaseException as error:
            outcome.append(type(error).__name__)
            raise

    store.command("CONFIG", "SET", "python-time-limit", 50)
    threads = threading.active_count()
    for _ in range(4):
        with pytest.raises(StoppedError, match="took too long"):
            store.call("stuck")
    # All four threads are lost, and four others serve.
    store.register(peryton.procedure(name="f")(lambda db: 7))
    store.command("CONFIG", "SET", "python-time-limit", 10_000)
    assert store.call("f") == 7
    assert store.command("GET", "k") is None
    for _ in range(4):
        lock.release()
        # The next one may run into the open lock only when this one has it.
        until(lambda: lock.locked())
    until(lambda: threading.active_count() <= threads)
    assert store.command("GET", "k") is None
    assert [store.call("f") for _ in range(8)] == [7] * 8


def test_the_end_of_a_store_waits_for_none_for_long() -> None:
    store = peryton.open()
    lock, running = threading.Lock(), threading.Semaphore(0)
    lock.acquire()

    @store.procedure
    def stuck(db: Handle) -> None:
        running.release()
        lock.acquire()

    @store.procedure
    def spin(db: Handle) -> None:
        running.release()
        while True:
            pass

    errors: list[str] = []

    def call(name: str) -> None:
        try:
            store.call(name)
        except peryton.PerytonError as error:
            errors.append(type(error).__name__)

    callers = [threading.Thread(target=call, args=(name,)) for name in ("stuck", "spin", "spin")]
    for caller in callers:
        caller.start()
    for _ in callers:
        assert running.acquire(timeout=60)
    store.close()
    for caller in callers:
        caller.join(60)
        assert not caller.is_alive()
    assert len(errors) == 3
    lock.release()


PROGRAM = """
import threading, peryton
store = peryton.open()
running = threading.Event()
@store.procedure
def work(db):
    running.set()
    {body}
threading.Thread(target=lambda: store.call("work"), daemon=True).start()
running.wait()
print("leaving", flush=True)
"""


@pytest.mark.parametrize(
    "body",
    [
        "pass",
        "while True: pass",
        "threading.Lock().__enter__(); lock = threading.Lock(); lock.acquire(); lock.acquire()",
    ],
    ids=["idle", "spinning", "stuck"],
)
def test_a_program_ends_while_one_runs(body: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM.format(body=body)], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.stdout, done.returncode) == ("leaving\n", 0), done.stderr
    assert "Traceback" not in done.stderr or "StoppedError" in done.stderr or "ClosedError" in done.stderr


def test_errors_in_handles_kept_by_threads_of_a_procedure(store: peryton.Database) -> None:
    """A thread that a procedure started may work on, but not with the handle."""
    kept: list[str] = []

    @store.procedure
    def start(db: Handle) -> None:
        def later() -> None:
            time.sleep(0)
            gate.wait()
            try:
                db.command("SET", "k", "late")
            except ProcedureError as error:
                kept.append(str(error))

        thread = threading.Thread(target=later)
        threads.append(thread)
        thread.start()

    gate, threads = threading.Event(), []  # type: ignore[var-annotated]
    store.call("start")
    gate.set()
    threads[0].join()
    assert "has ended" in kept[0]
    assert store.command("GET", "k") is None


def test_a_store_that_nobody_holds_ends_with_its_threads() -> None:
    def f(db: Handle) -> int:
        return 7

    before = threading.active_count()
    store = peryton.open()
    store.register(f)
    assert store.call("f") == 7
    assert threading.active_count() == before + 4
    del store
    until(lambda: gc.collect() >= 0 and threading.active_count() == before)
