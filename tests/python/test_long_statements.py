"""Statements that take long: others are served meanwhile, and whoever may end them can."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import redis

import peryton

ENDLESS = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT count(*) FROM n"
ENDLESS_WRITE = "INSERT INTO t WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT x FROM n"

Connect = Callable[[], Any]


@pytest.fixture(params=["embedded", "remote"])
def connect(request: pytest.FixtureRequest) -> Iterator[Connect]:
    """Makes redis-py clients of one store, each with a connection of its own."""
    with peryton.open() as db:
        db.sql("CREATE TABLE t (id INTEGER PRIMARY KEY)")
        if request.param == "embedded":
            yield lambda: db.redis(decode_responses=True, single_connection_client=True)
        else:
            server = db.serve(port=0)
            yield lambda: redis.Redis(port=server.port, decode_responses=True, single_connection_client=True)
            server.stop()


class Runner(threading.Thread):
    """Runs one statement and keeps what came of it."""

    def __init__(self, client: Any, statement: str) -> None:
        super().__init__()
        self.client, self.statement = client, statement
        self.number = client.client_id()
        self.error = ""
        self.start()

    def run(self) -> None:
        try:
            self.client.execute_command("SQL", self.statement)
        except redis.RedisError as error:
            self.error = str(error)


def until(condition: Callable[[], Any]) -> Any:
    deadline = time.monotonic() + 30
    while not (found := condition()):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    return found


def waits(client: Any, number: int) -> bool:
    """Does the client of this number wait for something, as CLIENT LIST tells?"""
    return any(line["id"] == str(number) and "b" in line["flags"] for line in client.client_list())


def test_others_are_served_while_a_read_runs_and_may_cancel_it(connect: Connect) -> None:
    other = connect()
    runner = Runner(connect(), ENDLESS)
    until(lambda: waits(other, runner.number))
    assert other.set("k", "v")
    assert other.execute_command("SQL", "INSERT INTO t VALUES (1)") == 1
    assert runner.is_alive()
    assert other.execute_command("CANCEL", runner.number) == 1
    runner.join()
    assert "cancelled" in runner.error
    assert other.execute_command("CANCEL", runner.number) == 0


def test_reads_side_by_side_have_their_own_answers(connect: Connect) -> None:
    text = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n WHERE x < {}) SELECT count(*) FROM n"
    answers: dict[int, Any] = {}

    def ask(count: int) -> None:
        answers[count] = connect().execute_command("SQL", text.format(count))[1][0]

    threads = [threading.Thread(target=ask, args=(100_000 + i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert answers == {count: count for count in range(100_000, 100_008)}


def test_a_write_that_overruns_is_cancelled_and_leaves_nothing(connect: Connect) -> None:
    other = connect()
    other.config_set("busy-reply-threshold", 50)
    runner = Runner(connect(), ENDLESS_WRITE)
    # Until the statement holds the store there is nothing to cancel.
    until(lambda: unless_busy(other, "CANCEL", runner.number))
    runner.join()
    assert "cancelled" in runner.error
    assert until(lambda: unless_busy(other, "SQL", "SELECT count(*) FROM t")) == [["count(*)"], [0]]


def unless_busy(client: Any, *args: Any) -> Any:
    """The reply, or None when the store was busy."""
    try:
        return client.execute_command(*args)
    except redis.exceptions.RedisError as error:
        if "busy" in str(error).lower():
            return None
        raise
