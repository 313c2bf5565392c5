"""The doors: one behaviour is tested embedded and remote, synchronous and asyncio."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
import redis

import peryton
from peryton import aio


class AsyncDoor:
    """An `aio.Database` with the surface of a `Database`: each call runs the event loop until it is answered."""

    def __init__(self, runner: asyncio.Runner, database: aio.Database) -> None:
        self._runner = runner
        self.database = database

    def run(self, awaitable: Any) -> Any:
        async def wait() -> Any:
            return await awaitable

        return self._runner.run(wait())

    def sql(self, *args: Any) -> Any:
        return self.run(self.database.sql(*args))

    def sql_many(self, *args: Any, **options: Any) -> Any:
        return self.run(self.database.sql_many(*args, **options))

    def command(self, *args: Any) -> Any:
        return self.run(self.database.command(*args))

    def pipeline(self, requests: Any) -> Any:
        return self.run(self.database.pipeline(requests))

    def table(self, name: str) -> AsyncTable:
        return AsyncTable(self, self.database.table(name))

    def close(self) -> None:
        self.run(self.database.close())

    @property
    def closed(self) -> bool:
        return self.database.closed


class AsyncTable:
    """An `aio.Table` with the surface of a `Table`."""

    def __init__(self, door: AsyncDoor, table: aio.Table) -> None:
        self._door = door
        self._table = table

    def __getattr__(self, name: str) -> Any:
        return lambda *args: self._door.run(getattr(self._table, name)(*args))

    def scan(self, *args: Any) -> Iterator[Any]:
        async def collect() -> list[Any]:
            return [row async for row in self._table.scan(*args)]

        return iter(self._door.run(collect()))


@pytest.fixture
def store() -> Iterator[peryton.Database]:
    """An embedded store with a server on it."""
    with peryton.open() as database:
        yield database


@pytest.fixture(params=["embedded", "remote", "unix", "aio-embedded", "aio-remote"])
def door(request: pytest.FixtureRequest, tmp_path: Any) -> Iterator[Any]:
    """A `Database` through each door, on a store of its own."""
    kind = request.param
    if kind == "embedded":
        with peryton.open() as database:
            yield database
        return
    if kind == "aio-embedded":
        with asyncio.Runner() as runner:
            database = runner.run(aio.open())
            yield AsyncDoor(runner, database)
            runner.run(database.close())
        return
    with peryton.open() as store:
        path = str(tmp_path / "peryton.sock") if kind == "unix" else None
        server = store.serve("" if kind == "unix" else "127.0.0.1", unixsocket=path)
        if kind != "aio-remote":
            with peryton.connect(server.address) as database:
                yield database
            return
        with asyncio.Runner() as runner:
            remote = runner.run(aio.connect(server.address))
            yield AsyncDoor(runner, remote)
            runner.run(remote.close())


@pytest.fixture(params=["embedded-2", "embedded-3", "tcp-2", "tcp-3"])
def client(request: pytest.FixtureRequest, store: peryton.Database) -> Iterator[redis.Redis]:
    """A redis-py client, embedded and over TCP, in both protocols."""
    kind, protocol = request.param.split("-")
    if kind == "embedded":
        made = store.redis(protocol=int(protocol))
    else:
        made = redis.Redis(port=store.serve().port, protocol=int(protocol))
    yield made
    made.close()
