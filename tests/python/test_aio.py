"""What is particular to asyncio: many tasks at once, and cancelling them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

import peryton
from peryton import aio


@asynccontextmanager
async def opened(kind: str) -> AsyncIterator[aio.Database]:
    async with await aio.open() as store:
        if kind == "embedded":
            yield store
            return
        async with await aio.connect(store.serve().address) as remote:
            yield remote


@pytest.fixture(params=["embedded", "remote"])
def with_database(request: pytest.FixtureRequest) -> Callable[[Callable[[aio.Database], Awaitable[Any]]], Any]:
    def run(work: Callable[[aio.Database], Awaitable[Any]]) -> Any:
        async def main() -> Any:
            async with opened(request.param) as database:
                return await asyncio.wait_for(work(database), 20)

        return asyncio.run(main())

    return run


def test_many_tasks_at_once(with_database: Any) -> None:
    async def work(database: aio.Database) -> None:
        await asyncio.gather(*(database.command("INCR", "n") for _ in range(500)))
        assert await database.command("GET", "n") == b"500"

    with_database(work)


def test_a_waiting_task_delays_no_other(with_database: Any) -> None:
    async def work(database: aio.Database) -> None:
        waiting = asyncio.create_task(database.command("BLPOP", "q", 0))
        await asyncio.sleep(0.05)
        assert await database.command("PING") == "PONG"
        await database.command("RPUSH", "q", "x")
        assert await waiting == [b"q", b"x"]

    with_database(work)


def test_who_leaves_does_not_wait_for_whoever_has_the_store() -> None:
    async def work() -> None:
        async with await aio.open() as store:
            endless = asyncio.create_task(store.command("EVAL", "while true do end", 0))
            await asyncio.sleep(0.1)
            endless.cancel()
            with pytest.raises(asyncio.CancelledError):
                await endless
            while True:
                try:
                    await store.command("SCRIPT", "KILL")
                    break
                except peryton.ReplyError:
                    await asyncio.sleep(0.01)
            assert await store.command("PING") == "PONG"

    asyncio.run(asyncio.wait_for(work(), 30))


def test_a_cancelled_task_stops_waiting(with_database: Any) -> None:
    async def work(database: aio.Database) -> None:
        waiting = asyncio.create_task(database.command("BLPOP", "q", 0))
        await asyncio.sleep(0.05)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        await asyncio.sleep(0.05)
        await database.command("RPUSH", "q", "x")
        assert await database.command("LLEN", "q") == 1

    with_database(work)


def test_a_closed_database_says_so(with_database: Any) -> None:
    async def work(database: aio.Database) -> None:
        await database.close()
        await database.close()
        with pytest.raises(peryton.ClosedError):
            await database.command("PING")

    with_database(work)


def test_closing_ends_waits() -> None:
    async def main() -> None:
        store = await aio.open()
        waiting = asyncio.create_task(store.command("BLPOP", "q", 0))
        await asyncio.sleep(0.05)
        await store.close()
        with pytest.raises(peryton.ClosedError):
            await waiting

    asyncio.run(main())


def test_timeouts_and_wrong_addresses() -> None:
    async def main() -> None:
        with pytest.raises(peryton.NetworkError, match="cannot connect"):
            await aio.connect("peryton://127.0.0.1:1")
        async with await aio.open() as store:
            remote = await aio.connect(store.serve().address, timeout=0.1)
            with pytest.raises(peryton.WaitTimeoutError):
                await remote.command("BLPOP", "q", 0)
            assert await remote.command("PING") == "PONG"
            await remote.close()

    asyncio.run(main())


def test_redis_py_s_asyncio_client() -> None:
    async def main() -> None:
        async with await aio.open() as store:
            with pytest.raises(TypeError, match=r"call db\.serve\(\) first"):
                store.redis()
            store.serve()
            client = store.redis(decode_responses=True)
            await client.set("k", "v")
            assert await client.get("k") == "v"
            await client.aclose()

    asyncio.run(main())
