"""The doors through which procedures are called, on one embedded store whose procedures a test registers."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import redis

import peryton
from peryton import aio


class Door:
    """Calls procedures of the embedded store `store`."""

    def __init__(self, store: Any, call: Callable[..., Any], sql: Callable[..., Any]) -> None:
        self.store = store
        self.register = store.register
        self.call = call
        self.sql = sql


@pytest.fixture
def store() -> Iterator[peryton.Database]:
    with peryton.open() as database:
        yield database


@pytest.fixture(params=["embedded", "remote", "unix", "aio-embedded", "aio-remote"])
def door(request: pytest.FixtureRequest, tmp_path: Any) -> Iterator[Door]:
    """Typed calls: `db.call` and `db.sql`, embedded and remote, synchronous and awaited."""
    kind = request.param
    if kind.startswith("aio"):
        with asyncio.Runner() as runner:
            yield from _awaited(runner, kind == "aio-remote")
        return
    with peryton.open() as store:
        if kind == "embedded":
            yield Door(store, store.call, store.sql)
            return
        path = str(tmp_path / "peryton.sock") if kind == "unix" else None
        server = store.serve("" if kind == "unix" else "127.0.0.1", unixsocket=path)
        with peryton.connect(server.address) as remote:
            yield Door(store, remote.call, remote.sql)


def _awaited(runner: asyncio.Runner, is_remote: bool) -> Iterator[Door]:
    def awaiting(method: Callable[..., Any]) -> Callable[..., Any]:
        async def run(*args: Any) -> Any:
            return await method(*args)

        return lambda *args: runner.run(run(*args))

    store = runner.run(aio.open())
    database = runner.run(aio.connect(store.serve().address)) if is_remote else store
    yield Door(store, awaiting(database.call), awaiting(database.sql))
    runner.run(database.close())
    runner.run(store.close())


@pytest.fixture(params=["embedded-2", "embedded-3", "tcp-2", "tcp-3"])
def client(request: pytest.FixtureRequest, store: peryton.Database) -> Iterator[redis.Redis]:
    """A redis-py client, embedded and over TCP, in both protocols, with `.protocol`."""
    kind, protocol = request.param.split("-")
    if kind == "embedded":
        made = store.redis(protocol=int(protocol))
    else:
        made = redis.Redis(port=store.serve().port, protocol=int(protocol))
    made.protocol = int(protocol)
    yield made
    made.close()


def until(condition: Callable[[], Any]) -> Any:
    """Waits until a condition holds; the limit is for a test that hangs, not for a slow machine."""
    deadline = time.monotonic() + 60
    while not (found := condition()):
        assert time.monotonic() < deadline
        time.sleep(0.005)
    return found
