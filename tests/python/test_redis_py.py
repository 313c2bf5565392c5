"""redis-py works on an embedded store as it does over TCP, in both protocols."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest
import redis

import peryton


def test_every_type(client: redis.Redis) -> None:
    assert client.set("s", "v", ex=100) is True
    assert client.get("s") == b"v"
    assert client.hset("h", mapping={"a": 1, "b": 2}) == 2
    assert client.hgetall("h") == {b"a": b"1", b"b": b"2"}
    assert client.sadd("set", "x", "y") == 2
    assert client.smembers("set") == {b"x", b"y"}
    assert client.zadd("z", {"m": 1.5, "n": 2}) == 2
    pairs = client.zrange("z", 0, -1, withscores=True)
    assert [(member, float(score)) for member, score in pairs] == [(b"m", 1.5), (b"n", 2.0)]
    assert client.zscore("z", "m") == 1.5
    assert client.rpush("l", 1, 2, 3) == 3
    assert client.lrange("l", 0, -1) == [b"1", b"2", b"3"]
    assert client.incrbyfloat("f", 1.5) == 1.5
    assert client.exists("s", "h", "none") == 2
    assert 0 < client.ttl("s") <= 100
    assert client.type("h") == b"hash"
    assert client.expire("h", 100) is True
    assert sorted(client.scan_iter()) == [b"f", b"h", b"l", b"s", b"set", b"z"]


def test_server_commands(client: redis.Redis) -> None:
    assert client.ping() is True
    assert client.info("server")["redis_version"].startswith("7.")
    assert client.config_get("maxmemory") == {"maxmemory": "0"}
    assert client.dbsize() == 0
    assert client.client_id() > 0
    assert "get" in client.command()
    assert client.echo("x") == b"x"


def test_errors_are_redis_py_s(client: redis.Redis) -> None:
    client.set("s", "v")
    with pytest.raises(redis.ResponseError, match="WRONGTYPE"):
        client.lpush("s", 1)
    with pytest.raises(redis.exceptions.NoScriptError):
        client.evalsha("0" * 40, 0)
    with pytest.raises(redis.ResponseError, match="unknown command"):
        client.execute_command("NOSUCH")
    assert client.ping() is True


def test_pipelines_and_transactions(client: redis.Redis) -> None:
    with client.pipeline() as pipe:
        assert pipe.set("a", 1).incr("a").get("a").execute() == [True, 2, b"2"]
    with client.pipeline(transaction=False) as pipe:
        pipe.set("s", "v").lpush("s", 1).get("s")
        replies = pipe.execute(raise_on_error=False)
    assert replies[0] is True
    assert isinstance(replies[1], redis.ResponseError)
    assert replies[2] == b"v"
    with client.pipeline() as pipe, pytest.raises(redis.ResponseError, match="WRONGTYPE"):
        pipe.set("s", "v").lpush("s", 1).execute()


def test_watch_sees_a_change(client: redis.Redis) -> None:
    client.set("k", 1)
    with client.pipeline() as pipe:
        pipe.watch("k")
        client.set("k", 2)
        pipe.multi()
        pipe.set("k", 3)
        with pytest.raises(redis.WatchError):
            pipe.execute()
    assert client.transaction(lambda pipe: pipe.multi() or pipe.incr("k"), "k") == [3]


def test_pubsub(client: redis.Redis) -> None:
    with client.pubsub(ignore_subscribe_messages=True) as pubsub:
        pubsub.subscribe("news")
        pubsub.psubscribe("n*")
        assert _message(pubsub) is None
        assert client.publish("news", "hello") == 2
        first, second = _message(pubsub), _message(pubsub)
        assert first == {"type": "message", "pattern": None, "channel": b"news", "data": b"hello"}
        assert second == {"type": "pmessage", "pattern": b"n*", "channel": b"news", "data": b"hello"}
        assert pubsub.get_message(timeout=0.01) is None
        pubsub.unsubscribe()
        assert client.publish("news", "again") == 1


def test_pubsub_in_a_thread_with_a_handler(client: redis.Redis) -> None:
    seen: list[bytes] = []
    pubsub = client.pubsub()
    pubsub.subscribe(news=lambda message: seen.append(message["data"]))
    thread = pubsub.run_in_thread(sleep_time=0.01)
    for number in range(20):
        client.publish("news", number)
    _until(lambda: len(seen) == 20)
    thread.stop()
    thread.join(5)
    assert seen == [str(number).encode() for number in range(20)]


def test_blocking_commands(client: redis.Redis) -> None:
    assert client.blpop("q", timeout=0.05) is None
    got: list[Any] = []
    thread = threading.Thread(target=lambda: got.append(client.blpop(["q", "r"], timeout=5)))
    thread.start()
    time.sleep(0.05)
    client.rpush("r", "x")
    thread.join(5)
    assert [list(reply) for reply in got] == [[b"r", b"x"]]


def test_what_stands_behind_a_blocking_command_waits_for_it(store: peryton.Database) -> None:
    client = store.redis()
    pipe = client.pipeline(transaction=False)
    pipe.blpop("q", timeout=5).set("after", 1).get("after")
    replies: list[Any] = []
    thread = threading.Thread(target=lambda: replies.extend(pipe.execute()))
    thread.start()
    time.sleep(0.05)
    assert store.command("EXISTS", "after") == 0
    store.command("RPUSH", "q", "x")
    thread.join(5)
    assert [list(replies[0]), *replies[1:]] == [[b"q", b"x"], True, b"1"]


def test_a_lock(client: redis.Redis) -> None:
    with client.lock("lock", timeout=5) as lock:
        assert client.lock("lock", blocking=False).acquire() is False
        assert lock.extend(5) is True
    assert client.exists("lock") == 0


@pytest.mark.parametrize("protocol", [2, 3])
def test_decoded_responses(store: peryton.Database, protocol: int) -> None:
    client = store.redis(protocol=protocol, decode_responses=True)
    client.set("k", "ä")
    client.hset("h", "f", "v")
    assert client.get("k") == "ä"
    assert client.hgetall("h") == {"f": "v"}
    store.command("SET", "bytes", b"\xff")
    with pytest.raises(UnicodeDecodeError):
        client.get("bytes")
    assert client.get("k") == "ä"
    latin = store.redis(protocol=protocol, decode_responses=True, encoding="latin-1")
    assert latin.get("bytes") == "ÿ"


def test_an_embedded_client_has_a_database_and_a_name(store: peryton.Database) -> None:
    client = store.redis(db=2, client_name="worker")
    client.set("k", 1)
    assert client.client_getname() in ("worker", b"worker")
    assert store.command("GET", "k") is None
    assert store.redis(db=2).get("k") == b"1"


def test_a_closed_store_closes_its_clients() -> None:
    store = peryton.open()
    client = store.redis()
    assert client.ping() is True
    store.close()
    with pytest.raises(redis.ConnectionError):
        client.ping()


def test_connections_go_when_the_client_goes(store: peryton.Database) -> None:
    before = len(store.redis().client_list())
    clients = [store.redis() for _ in range(20)]
    for client in clients:
        client.ping()
    assert len(store.redis().client_list()) >= before + 20
    del clients, client
    _until(lambda: len(store.redis().client_list()) <= before + 2)


def _message(pubsub: Any) -> Any:
    """The next message that is none of the subscriptions' own."""
    for _ in range(10):
        if message := pubsub.get_message(timeout=0.05):
            return message
    return None


def _until(done: Any) -> None:
    end = time.monotonic() + 5
    while not done():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.01)
