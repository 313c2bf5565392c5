"""Triggers of keys miss nothing, whoever removes a key: a client, its deadline or the want of memory."""

from __future__ import annotations

import os
import random
import shlex
import sys
import threading
from collections.abc import Iterator

import pytest

import peryton
from peryton import Handle
from tests.support.resp import Connection
from tests.support.servers import Server, start

from .conftest import until

SEED = int(os.environ.get("PERYTON_SEED", "0")) or random.SystemRandom().randrange(1 << 32)
STEPS = 20_000 if "PERYTON_LONG" in os.environ else 3000

LIBRARY = """#!lua name=mirror
redis.register_function('keep', function(event) redis.call('HSET', 'mirror', event.key, event.event) end)
redis.register_function('forget', function(event) redis.call('HDEL', 'mirror', event.key) end)
redis.register_function('count', function(event) redis.call('HINCRBY', 'counts', tostring(event.new.kind), 1) end)
"""


@pytest.fixture
def server() -> Iterator[Server]:
    """A server of its own: its memory limit is nobody else's."""
    given = os.environ.get("PERYTON_SERVE")
    words = shlex.split(given) if given else [sys.executable, "-m", "peryton", "serve", "--quiet"]
    made = start("peryton", lambda port, _: [*words, "--port", str(port)])
    try:
        yield made
    finally:
        made.stop()


def info(client: Connection, name: str) -> int:
    return int(dict(line.split(":", 1) for line in bytes(client("INFO")).decode().split("\r\n") if ":" in line)[name])


def test_a_mirror_of_the_keys_follows_evictions_and_deadlines(server: Server) -> None:
    print("PERYTON_SEED", SEED)
    dice = random.Random(SEED)
    with server.connect() as client:
        client("FUNCTION", "LOAD", LIBRARY)
        client("SQL", "CREATE TRIGGER keep ON KEYS 'k:*' FOR 'set', 'rename_to' CALL keep")
        client("SQL", "CREATE TRIGGER forget ON KEYS 'k:*' FOR 'del', 'expired', 'evicted', 'rename_from' CALL forget")
        # Only keys with a deadline go, so that the mirror stays.
        client("CONFIG", "SET", "maxmemory-policy", "volatile-random")
        client("CONFIG", "SET", "maxmemory", info(client, "used_memory") + (3 << 20))
        for _ in range(STEPS):
            key = f"k:{dice.randrange(400)}"
            choice = dice.randrange(10)
            if choice < 7:
                reply = client("SET", key, "x" * dice.choice([10, 1000, 30_000]), "PX", dice.choice([5, 100_000]))
            elif choice == 7:
                reply = client("DEL", key)
            elif choice == 8:
                reply = client("GET", key)
            else:
                reply = client("EVAL", "redis.call('SET', KEYS[1], 'y', 'PX', 100000) return 1", 1, key)
            assert not isinstance(reply, Exception), reply
        client("CONFIG", "SET", "maxmemory", 0)
        assert info(client, "evicted_keys") > 0
        until(lambda: not any(0 < client("PTTL", key) < 1000 for key in client("KEYS", "k:*")))
        assert info(client, "expired_keys") > 0
        # KEYS hides those whose time is up before their event; what EXISTS meets is removed, and the trigger told.
        for key in client("HKEYS", "mirror"):
            client("EXISTS", key)
        assert sorted(client("HKEYS", "mirror")) == sorted(client("KEYS", "k:*"))


def test_procedures_on_many_threads_fire_triggers_of_rows_once_each() -> None:
    rows, threads = 40, 4
    with peryton.open() as store:
        store.command("FUNCTION", "LOAD", LIBRARY)
        store.sql("CREATE TABLE t (id INTEGER PRIMARY KEY AUTO_INCREMENT, kind TEXT)")
        store.sql("CREATE TRIGGER count AFTER INSERT ON t CALL count")

        @store.procedure
        @peryton.procedure(name="add")
        def add(db: Handle, kind: str, fails: bool) -> None:
            """Two rows, or none."""
            db.sql("INSERT INTO t (kind) VALUES (?)", kind)
            db.table("t").put({"kind": kind})
            if fails:
                raise ValueError("not these")

        def work(number: int) -> None:
            for turn in range(rows):
                try:
                    store.call("add", f"kind {number}", turn % 5 == 0)
                except peryton.exceptions.ProcedureError:
                    assert turn % 5 == 0

        workers = [threading.Thread(target=work, args=(number,)) for number in range(threads)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        expected = {f"kind {number}".encode(): b"%d" % (2 * (rows - rows // 5)) for number in range(threads)}
        flat = store.command("HGETALL", "counts")
        found = flat if isinstance(flat, dict) else dict(zip(flat[::2], flat[1::2], strict=True))
        assert found == expected
        counted = {kind.encode(): b"%d" % n for kind, n in store.sql("SELECT kind, count(*) FROM t GROUP BY kind")}
        assert counted == expected
