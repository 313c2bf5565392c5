"""Clients that hold on to the server: they do not read, say nothing, or announce more than they send.

Their limits are settings of Redis, so both servers are judged where there is a Redis.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator

import pytest

from tests.support.resp import Connection, Simple
from tests.support.servers import Server

OK = Simple(b"OK")
MEGABYTE = 1 << 20


@pytest.fixture(params=["oracle", "peer"])
def server(request: pytest.FixtureRequest) -> Server:
    found: Server = request.getfixturevalue(request.param)
    return found


@pytest.fixture
def admin(server: Server) -> Iterator[Connection]:
    """Another client, which changes settings, puts them back, and must be served meanwhile."""
    with server.connect() as connection:
        names = ("client-output-buffer-limit", "timeout")
        before = {name: connection("CONFIG", "GET", name)[1] for name in names}
        yield connection
        for name, value in before.items():
            assert connection("CONFIG", "SET", name, value) == OK
        connection("FLUSHALL")


def used_memory(connection: Connection) -> int:
    lines = connection("INFO", "memory").decode().splitlines()
    return next(int(line.split(":")[1]) for line in lines if line.startswith("used_memory:"))


def is_known(connection: Connection, client: int) -> bool:
    return any(f"id={client} " in line for line in connection("CLIENT", "LIST").decode().splitlines())


def wait_until_gone(connection: Connection, client: int) -> None:
    deadline = time.monotonic() + 20
    while is_known(connection, client):
        assert time.monotonic() < deadline, f"client {client} is still there"
        time.sleep(0.05)


def wait_for_memory(connection: Connection, below: int) -> None:
    deadline = time.monotonic() + 20
    while (used := used_memory(connection)) > below:
        assert time.monotonic() < deadline, f"{used} bytes are still used"
        time.sleep(0.05)


def test_a_client_that_does_not_read_is_closed_at_the_hard_limit(server: Server, admin: Connection) -> None:
    assert admin("CONFIG", "SET", "client-output-buffer-limit", "normal 2mb 0 0") == OK
    assert admin("SET", "large", b"x" * MEGABYTE) == OK
    before = used_memory(admin)
    with server.connect() as slow:
        number = slow("CLIENT", "ID")
        with contextlib.suppress(ConnectionError):
            for _ in range(100):
                slow.send("GET", "large")
                assert admin("PING") == Simple(b"PONG")
                if not is_known(admin, number):
                    break
        wait_until_gone(admin, number)
        assert slow.read_to_end().count(b"$%d\r\n" % MEGABYTE) < 50
    wait_for_memory(admin, before + 4 * MEGABYTE)


def test_below_the_limit_a_client_that_does_not_read_is_served_no_further(peer: Server) -> None:
    """Redis would go on up to the limit; here the requests wait, and so little memory is used."""
    with peer.connect() as admin, peer.connect() as slow:
        assert admin("SET", "large", b"x" * MEGABYTE) == OK
        before = used_memory(admin)
        slow.send_all([("GET", "large")] * 100)
        assert admin("PING") == Simple(b"PONG")
        # Four megabytes and the reply that went past them, in a buffer that grows by doubling.
        assert used_memory(admin) - before < 12 * MEGABYTE
        assert [len(reply) for reply in slow.read_many(100)] == [MEGABYTE] * 100
        admin("FLUSHALL")


def test_a_subscriber_that_does_not_read_is_closed_at_the_hard_limit(server: Server, admin: Connection) -> None:
    assert admin("CONFIG", "SET", "client-output-buffer-limit", "pubsub 8mb 0 0") == OK
    before = used_memory(admin)
    with server.connect() as slow:
        number = slow("CLIENT", "ID")
        slow("SUBSCRIBE", "news")
        heard = [admin("PUBLISH", "news", b"x" * MEGABYTE) for _ in range(40)]
        assert heard[0] == 1
        assert heard[-1] == 0
        wait_until_gone(admin, number)
    wait_for_memory(admin, before + 4 * MEGABYTE)


def test_a_subscriber_that_reads_too_slowly_is_closed_after_the_soft_limits_time(
    server: Server, admin: Connection
) -> None:
    assert admin("CONFIG", "SET", "client-output-buffer-limit", "pubsub 1gb 2mb 3") == OK
    with server.connect() as slow, server.connect() as quick:
        number = slow("CLIENT", "ID")
        for subscriber in (slow, quick):
            subscriber("SUBSCRIBE", "news")
        assert [admin("PUBLISH", "news", b"x" * MEGABYTE) for _ in range(12)] == [2] * 12
        assert len(quick.read_many(12)) == 12
        # Nothing more is sent: time alone must close it.
        wait_until_gone(admin, number)
        assert admin("PUBLISH", "news", "more") == 1
        assert quick.read() == [b"message", b"news", b"more"]


def test_a_client_that_says_nothing_is_closed_after_the_timeout(server: Server, admin: Connection) -> None:
    with server.connect() as idle, server.connect() as subscriber, server.connect() as waiting:
        numbers = [connection("CLIENT", "ID") for connection in (idle, subscriber, waiting)]
        subscriber("SUBSCRIBE", "news")
        waiting.send("BLPOP", "queue", 0)
        # Long enough for the others here not to be idlers, however busy the machine is.
        assert admin("CONFIG", "SET", "timeout", 3) == OK
        deadline = time.monotonic() + 20
        while is_known(admin, numbers[0]):
            assert time.monotonic() < deadline
            time.sleep(0.1)
        assert idle.read_to_end() == b""
        # Subscribers and those who wait in a command are no idlers.
        assert [is_known(admin, number) for number in numbers] == [False, True, True]
        # Redis may close one it has just served, before the reply is sent: it counts the time of waiting then.
        assert admin("CONFIG", "SET", "timeout", 0) == OK
        assert admin("PUBLISH", "news", "still here") == 1
        assert admin("LPUSH", "queue", "something") == 1
        assert waiting.read() == [b"queue", b"something"]


@pytest.mark.parametrize(
    "announced", [b"*2147483647\r\n", b"*1000000\r\n$4\r\n", b"*2\r\n$4\r\nECHO\r\n$536870912\r\n"]
)
def test_announcing_much_takes_no_memory(announced: bytes, peer: Server) -> None:
    """Redis makes room for all that is announced, half a gigabyte a client."""
    with peer.connect() as admin:
        before = used_memory(admin)
        connections = [peer.connect() for _ in range(20)]
        for connection in connections:
            connection.send_raw(announced)
            connection.send_raw(b"x" * 1000)
        assert admin("PING") == Simple(b"PONG")
        assert used_memory(admin) - before < 10 * MEGABYTE
        for connection in connections:
            connection.close()
