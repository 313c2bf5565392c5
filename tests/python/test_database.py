"""`Database` behaves alike through every door."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest

import peryton


def test_values_keep_their_bytes(door: Any) -> None:
    every_byte = bytes(range(256))
    assert door.command("SET", "k", every_byte) == "OK"
    assert door.command("GET", "k") == every_byte
    assert door.command("GET", b"k") == every_byte
    assert door.command("GET", "none") is None


@pytest.mark.parametrize(
    ("given", "stored"),
    [
        ("text", b"text"),
        ("äöü€", "äöü€".encode()),
        (b"\x00\xff", b"\x00\xff"),
        (bytearray(b"array"), b"array"),
        (memoryview(b"a view")[2:], b"view"),
        (-7, b"-7"),
        (2**70, str(2**70).encode()),
        (1e22, b"1e+22"),
        (0.1, b"0.1"),
        ("", b""),
    ],
)
def test_arguments_of_every_kind(door: Any, given: Any, stored: bytes) -> None:
    door.command("SET", "k", given)
    assert door.command("GET", "k") == stored


@pytest.mark.parametrize("wrong", [None, True, object(), ["a"]])
def test_an_argument_of_another_kind_is_a_type_error(door: Any, wrong: Any) -> None:
    with pytest.raises(TypeError, match="argument"):
        door.command("SET", "k", wrong)
    assert door.command("PING") == "PONG"


def test_an_error_reply_is_raised_with_its_code(door: Any) -> None:
    with pytest.raises(peryton.ReplyError, match="unknown command 'NOSUCH'") as caught:
        door.command("NOSUCH")
    assert caught.value.code == "ERR"
    assert str(caught.value).startswith("ERR unknown command")


def test_a_pipeline_returns_errors_in_their_place(door: Any) -> None:
    replies = door.pipeline([("SET", "k", 1), ("NOSUCH",), ("GET", "k")])
    assert replies[0] == "OK"
    assert isinstance(replies[1], peryton.ReplyError)
    assert replies[2] == b"1"
    assert door.pipeline([]) == []


def test_commands_of_one_session_are_refused(door: Any) -> None:
    for name in ("MULTI", "multi", b"SUBSCRIBE", "HELLO"):
        with pytest.raises(ValueError, match="belongs to one session"):
            door.command(name)
    with pytest.raises(ValueError, match="open or connect with db=n"):
        door.command("SELECT", "3")
    with pytest.raises(ValueError, match="needs a name"):
        door.command()


def test_closing_twice_is_harmless_and_later_use_an_error(door: Any) -> None:
    door.close()
    door.close()
    assert door.closed
    with pytest.raises(peryton.ClosedError):
        door.command("PING")


def test_each_database_is_a_keyspace_of_its_own(store: peryton.Database) -> None:
    address = store.serve().address
    with peryton.connect(f"{address}/3") as three, peryton.connect(address, db=3) as also_three:
        three.command("SET", "k", "three")
        assert store.command("GET", "k") is None
        assert also_three.command("GET", "k") == b"three"
    assert store.redis(db=3).get("k") == b"three"
    with pytest.raises(ValueError, match="db is 0 to 15"):
        peryton.open(db=16).command("PING")
    with pytest.raises(peryton.ReplyError, match="DB index is out of range"):
        peryton.connect(f"{address}/16")


def test_threads_share_a_database(door: Any) -> None:
    if type(door).__name__ == "AsyncDoor":
        pytest.skip("an asyncio handle belongs to one event loop")

    def work(number: int) -> None:
        for step in range(50):
            door.command("SET", f"k{number}", step)
            assert door.command("GET", f"k{number}") == str(step).encode()

    threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [door.command("GET", f"k{n}") for n in range(8)] == [b"49"] * 8


def test_a_session_of_its_own_for_every_thread_that_waits(door: Any) -> None:
    if type(door).__name__ == "AsyncDoor":
        pytest.skip("see test_aio")
    got: list[Any] = []
    waiting = threading.Thread(target=lambda: got.append(door.command("BLPOP", "q", 0)))
    waiting.start()
    time.sleep(0.05)
    door.command("RPUSH", "q", "x")
    waiting.join(5)
    assert got == [[b"q", b"x"]]


def test_a_wrong_address_says_so() -> None:
    with pytest.raises(peryton.NetworkError, match=r"cannot connect to peryton://127.0.0.1:1/0"):
        peryton.connect("peryton://127.0.0.1:1")
    with pytest.raises(ConnectionError):
        peryton.connect("unix:///nowhere/peryton.sock")
    with pytest.raises(ValueError, match="is no address"):
        peryton.connect("http://127.0.0.1")
    with pytest.raises(ValueError, match="which is no number"):
        peryton.connect("peryton://127.0.0.1/first")


def test_a_server_with_a_password(store: peryton.Database) -> None:
    port = store.serve(password="secret").port
    with pytest.raises(peryton.AuthError):
        peryton.connect(f"peryton://127.0.0.1:{port}").command("PING")
    with pytest.raises(peryton.AuthError):
        peryton.connect(f"peryton://:wrong@127.0.0.1:{port}")
    with peryton.connect(f"peryton://:secret@127.0.0.1:{port}") as remote:
        assert remote.command("PING") == "PONG"
    assert store.command("PING") == "PONG"


def test_another_machine_may_not_reach_a_store_without_a_password(store: peryton.Database) -> None:
    with pytest.raises(peryton.ReplyError, match="password"):
        store.serve("0.0.0.0")


def test_a_server_that_stops_breaks_its_connections(store: peryton.Database) -> None:
    server = store.serve()
    remote = peryton.connect(server.address)
    assert server.running
    server.stop()
    server.stop()
    assert not server.running
    assert server.wait(0)
    with pytest.raises(peryton.NetworkError):
        remote.command("PING")
    assert store.command("PING") == "PONG"


def test_a_slow_server_is_a_timeout(store: peryton.Database) -> None:
    remote = peryton.connect(store.serve().address, timeout=0.1)
    with pytest.raises(peryton.WaitTimeoutError, match=r"did not answer in 0\.1 s"):
        remote.command("BLPOP", "q", 0)
    assert remote.command("PING") == "PONG"


def test_a_closed_store_ends_waits(store: peryton.Database) -> None:
    failures: list[BaseException] = []

    def wait() -> None:
        try:
            store.command("BLPOP", "q", 0)
        except peryton.PerytonError as error:
            failures.append(error)

    thread = threading.Thread(target=wait)
    thread.start()
    time.sleep(0.05)
    store.close()
    thread.join(5)
    assert [type(failure) for failure in failures] == [peryton.ClosedError]


def test_exceptions_can_be_pickled() -> None:
    import pickle

    error = pickle.loads(pickle.dumps(peryton.SqlError("no such table: t", "SQL")))
    assert (str(error), error.code, type(error)) == ("SQL no such table: t", "SQL", peryton.SqlError)
