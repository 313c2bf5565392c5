"""Transactions through every door of the Python package."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

import peryton
from peryton import aio

from .conftest import AsyncDoor, AsyncTable


class AsyncTransaction:
    """An `aio.Transaction` with the surface of a `Transaction`."""

    def __init__(self, door: AsyncDoor, transaction: aio.Transaction) -> None:
        self._door = door
        self._transaction = transaction

    def __getattr__(self, name: str) -> Any:
        return lambda *args: self._door.run(getattr(self._transaction, name)(*args))

    def table(self, name: str) -> Any:
        return AsyncTable(self._door, self._transaction.table(name))  # type: ignore[arg-type]

    @contextmanager
    def savepoint(self) -> Iterator[None]:
        with run_inside(self._door, self._transaction.savepoint()):
            yield


@contextmanager
def run_inside(door: AsyncDoor, manager: Any) -> Iterator[Any]:
    """An asynchronous context manager as one that is not."""
    value = door.run(manager.__aenter__())
    try:
        yield value
    except BaseException as error:
        if not door.run(manager.__aexit__(type(error), error, error.__traceback__)):
            raise
        return
    door.run(manager.__aexit__(None, None, None))


@contextmanager
def transaction(door: Any, **options: Any) -> Iterator[Any]:
    if isinstance(door, AsyncDoor):
        with run_inside(door, door.database.transaction(**options)) as opened:
            yield AsyncTransaction(door, opened)
        return
    with door.transaction(**options) as opened:
        yield opened


def run_transaction(door: Any, work: Callable[[Any], Any], **options: Any) -> Any:
    """`run_transaction` with the same work for both kinds of door; the asynchronous kind awaits what it gives."""
    if not isinstance(door, AsyncDoor):
        return door.run_transaction(work, **options)

    async def awaited(opened: aio.Transaction) -> Any:
        result = work(opened)
        return await result if asyncio.iscoroutine(result) else result

    return door.run(door.database.run_transaction(awaited, **options))


@pytest.fixture
def accounts(door: Any) -> Any:
    door.sql("CREATE TABLE accounts (id INTEGER PRIMARY KEY, balance INTEGER)")
    door.sql("INSERT INTO accounts VALUES (1, 100), (2, 100)")
    return door


def balances(door: Any) -> list[int]:
    return [row[0] for row in door.sql("SELECT balance FROM accounts ORDER BY id")]


def test_a_block_commits_rows_and_keys(accounts: Any) -> None:
    with transaction(accounts) as t:
        t.sql("UPDATE accounts SET balance = balance - ? WHERE id = 1", [30])
        t.command("SET", "log", "paid")
        assert t.pipeline([("GET", "log"), ("NOSUCH",)])[0] == b"paid"
        t.table("accounts").put({"id": 3, "balance": 7})
        t.table("accounts").put_many([{"id": 4, "balance": 8}])
        assert t.sql_many("INSERT INTO accounts VALUES (?, ?)", [(5, None)]) == 1
        assert t.table("accounts").get(1)["balance"] == 70
        assert balances(accounts) == [100, 100]
        assert accounts.command("GET", "log") is None
    assert balances(accounts) == [70, 100, 7, 8, None]
    assert accounts.command("GET", "log") == b"paid"


def in_transaction(door: Any, work: Callable[[Any], Any]) -> None:
    with transaction(door) as t:
        work(t)


def test_an_exception_rolls_back(accounts: Any) -> None:
    def work(t: Any) -> None:
        t.sql("UPDATE accounts SET balance = 0")
        t.command("SET", "log", "never")
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        in_transaction(accounts, work)
    assert balances(accounts) == [100, 100]
    assert accounts.command("GET", "log") is None
    assert "transactions_open:0" in accounts.command("INFO", "stats")


def test_a_failed_statement_may_be_caught(accounts: Any) -> None:
    with transaction(accounts) as t:
        t.sql("UPDATE accounts SET balance = 1 WHERE id = 1")
        with pytest.raises(peryton.ConstraintError):
            t.sql("INSERT INTO accounts VALUES (3, 3), (1, 1)")
    assert balances(accounts) == [1, 100]


def test_the_first_to_commit_wins(accounts: Any) -> None:
    def rows(t: Any) -> None:
        t.sql("UPDATE accounts SET balance = 0")
        accounts.sql("UPDATE accounts SET balance = balance + 1 WHERE id = 1")

    def keys(t: Any) -> None:
        t.command("INCR", "k")
        accounts.command("INCR", "k")

    with pytest.raises(peryton.ConflictError, match="table accounts: row id = 1 has changed"):
        in_transaction(accounts, rows)
    assert balances(accounts) == [101, 100]
    with pytest.raises(peryton.ConflictError, match="key k has changed"):
        in_transaction(accounts, keys)
    assert accounts.command("GET", "k") == b"1"


def test_reads_are_of_one_instant(accounts: Any) -> None:
    with transaction(accounts, read_only=True) as t:
        accounts.sql("UPDATE accounts SET balance = 0")
        assert balances(t) == [100, 100]
        with pytest.raises(peryton.ReadOnlyError):
            t.sql("DELETE FROM accounts")


def test_savepoints_take_back_a_part(accounts: Any) -> None:
    def part(t: Any) -> None:
        with t.savepoint():
            t.sql("UPDATE accounts SET balance = 2")
            with t.savepoint():
                t.sql("DELETE FROM accounts")
            assert balances(t) == []
            raise ZeroDivisionError

    with transaction(accounts) as t:
        t.sql("UPDATE accounts SET balance = 1 WHERE id = 1")
        with pytest.raises(ZeroDivisionError):
            part(t)
        assert balances(t) == [1, 100]
        t.sql("SAVEPOINT mine")
        t.sql("DELETE FROM accounts")
        t.sql("ROLLBACK TO mine")
    assert balances(accounts) == [1, 100]


def test_a_transaction_is_run_again_after_a_conflict(accounts: Any) -> None:
    attempts: list[int] = []

    def work(t: Any) -> Any:
        attempts.append(1)
        if len(attempts) < 4 and not isinstance(accounts, AsyncDoor):
            accounts.sql("UPDATE accounts SET balance = balance + 1 WHERE id = 1")
        return t.sql("UPDATE accounts SET balance = balance + 100 WHERE id = 1")

    async def meddle(t: aio.Transaction) -> Any:
        attempts.append(1)
        result = await t.sql("UPDATE accounts SET balance = balance + 100 WHERE id = 1")
        if len(attempts) < 4:
            await accounts.database.sql("UPDATE accounts SET balance = balance + 1 WHERE id = 1")
        return result

    result = run_transaction(accounts, meddle if isinstance(accounts, AsyncDoor) else work)
    assert (result.rowcount, len(attempts), balances(accounts)) == (1, 4, [203, 100])
    attempts.clear()
    with pytest.raises(peryton.ConflictError):
        run_transaction(accounts, meddle if isinstance(accounts, AsyncDoor) else work, retries=1)
    assert len(attempts) == 2


def test_statements_of_a_session_are_refused_outside(accounts: Any) -> None:
    for run in (
        lambda: accounts.sql("BEGIN"),
        lambda: accounts.sql("  savepoint s"),
        lambda: accounts.command("BEGIN"),
        lambda: accounts.command("SQL", "begin;"),
        lambda: accounts.pipeline([("SQL", "BEGIN")]),
    ):
        with pytest.raises(ValueError, match=r"transaction\(\)"):
            run()
    assert "transactions_open:0" in accounts.command("INFO", "stats")
    with transaction(accounts) as t, pytest.raises(ValueError, match="belongs to one session"):
        t.command("COMMIT")


def test_a_transaction_is_used_in_its_block(store: peryton.Database) -> None:
    t = store.transaction()
    with pytest.raises(RuntimeError, match="with block"):
        t.sql("SELECT 1")
    with t, pytest.raises(RuntimeError, match="open already"), t:
        pass
    with pytest.raises(RuntimeError, match="with block"):
        t.command("PING")


def test_threads_count_together(door: Any) -> None:
    if isinstance(door, AsyncDoor):
        pytest.skip("threads are for the synchronous doors")
    door.sql("CREATE TABLE counters (id INTEGER PRIMARY KEY, n INTEGER)")
    door.sql("INSERT INTO counters VALUES (1, 0)")

    def add(t: peryton.Transaction) -> None:
        (n,) = t.sql("SELECT n FROM counters WHERE id = 1").one()
        t.sql("UPDATE counters SET n = ? WHERE id = 1", [n + 1])
        t.command("INCR", "count")

    def count() -> None:
        for _ in range(25):
            door.run_transaction(add, retries=1000)

    threads = [threading.Thread(target=count) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert door.sql("SELECT n FROM counters").one() == (100,)
    assert door.command("GET", "count") == b"100"


def test_a_cancelled_task_rolls_back(store: peryton.Database) -> None:
    async def main() -> None:
        async with await aio.connect(store.serve().address) as db:
            await db.sql("CREATE TABLE t (a INTEGER PRIMARY KEY)")

            async def work() -> None:
                async with db.transaction() as t:
                    await t.sql("INSERT INTO t VALUES (1)")
                    await asyncio.sleep(60)

            task = asyncio.create_task(work())
            while "transactions_open:1" not in await db.command("INFO", "stats"):
                await asyncio.sleep(0.01)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            while "transactions_open:0" not in await db.command("INFO", "stats"):
                await asyncio.sleep(0.01)
            assert len(await db.sql("SELECT * FROM t")) == 0

    asyncio.run(main())


def test_a_connection_that_goes_rolls_back(store: peryton.Database) -> None:
    store.sql("CREATE TABLE t (a INTEGER PRIMARY KEY)")
    remote = peryton.connect(store.serve().address)
    t = remote.transaction()
    t.__enter__()
    t.sql("INSERT INTO t VALUES (1)")
    t._open_link().close()
    while "transactions_open:0" not in store.command("INFO", "stats"):
        pass
    assert len(store.sql("SELECT * FROM t")) == 0
