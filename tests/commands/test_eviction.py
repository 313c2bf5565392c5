"""The memory limit: its settings, what is refused, and which keys go, where Redis leaves that to no chance."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from tests.commands.scenario import Actor, Scenarios, Stage, each
from tests.support.resp import Connection
from tests.support.servers import Server

scenarios = Scenarios()

SETTINGS = {
    "maxmemory": "0",
    "maxmemory-policy": "noeviction",
    "maxmemory-samples": "5",
    "maxmemory-eviction-tenacity": "10",
    "lfu-log-factor": "10",
    "lfu-decay-time": "1",
}
POLICIES = [f"{keys}-{order}" for keys in ("allkeys", "volatile") for order in ("lru", "lfu", "random")]
POLICIES.append("volatile-ttl")


@contextmanager
def settings_kept(admin: Actor) -> Iterator[None]:
    """Puts back what the other tests expect.

    Begins when what was flushed before is free: until then nobody knows whether memory
    is short, and nothing is refused.
    """
    _wait_freed(admin)
    try:
        yield
    finally:
        admin.quietly("CONFIG", "SET", *(word for setting in SETTINGS.items() for word in setting))


@scenarios
def settings(stage: Stage) -> None:
    client = stage.client("client")
    tries = {
        "maxmemory": ["100mb", "1gb", "-1", "x", "0"],
        "maxmemory-policy": [*POLICIES, "ALLKEYS-LRU", "lru", ""],
        "maxmemory-samples": ["1", "64", "0", "-1", "x", "2147483647", "2147483648"],
        "maxmemory-eviction-tenacity": ["0", "100", "101", "-1", "x"],
        "lfu-log-factor": ["0", "1000", "-1", "x", "2147483647", "2147483648"],
        "lfu-decay-time": ["0", "1000", "-1", "x", "2147483647", "2147483648"],
    }
    with settings_kept(client):
        for name, values in tries.items():
            client("CONFIG", "GET", name)
            for value in values:
                client("CONFIG", "SET", name, value)
                client("CONFIG", "GET", name)
        # All or none.
        client("CONFIG", "SET", "lfu-log-factor", "7", "maxmemory-samples", "0")
        client("CONFIG", "GET", "lfu-log-factor")


@scenarios
def what_needs_memory_is_refused(stage: Stage) -> None:
    client, other = stage.clients("client", "other")
    with settings_kept(client):
        for command in each("SET s 1 | RPUSH l 1 2 3 | SADD set 1 2 | HSET h f 1 | ZADD z 1 a | SET going x EX 1000"):
            client(*command.split())
        for command in ("MULTI", "SET s 2"):
            other(*command.split())
        client("CONFIG", "RESETSTAT")
        client("CONFIG", "SET", "maxmemory", "1")
        for command in each(
            """
            SET s 2 | APPEND s x | INCR s | GETSET s 3 | SETRANGE s 5 x | RPUSH l 4 | SADD set 9 | HSET h g 1
            ZADD z 2 b | HINCRBY h f 1 | LINSERT l BEFORE 1 0 | COPY s t | RENAME s t | RENAME t s | MSET a 1 b 2
            SETEX a 10 x | GET s | LPOP l | SREM set 1 | HDEL h f | ZREM z a | EXPIRE s 1000 | PERSIST s | TTL s
            GETDEL s | EXISTS s | BITOP NOT d s | SORT l STORE d | SUNIONSTORE d set | LMOVE l l LEFT RIGHT
            SPOP set | DBSIZE | PING | SET | SELECT 1 | SELECT 0 | PUBLISH c m | EVAL return(1) 0
            EVAL return(redis.call('GET','l2')) 0 | SCRIPT FLUSH | MULTI | GET l | SET a b | DISCARD | MULTI | PING
            EXEC | MULTI | EXEC | WATCH l | UNWATCH
            """
        ):
            client(*command.split())
        other("EXEC")
        for script in (
            "return redis.call('SET', 'a', 'b')",
            "return redis.call('DEL', 'l') .. redis.call('SET', 'a', 'b')",
            "#!lua\nreturn redis.call('GET', 'a')",
            "#!lua flags=no-writes\nreturn redis.call('GET', 'a')",
            "#!lua flags=allow-oom\nreturn redis.call('SET', 'a', 'b')",
        ):
            client("EVAL", script, 0)
        client("EXISTS", "a", "l")
        client("INFO", "errorstats")


@scenarios
def who_queued_what_needs_no_memory_may_go_on(stage: Stage) -> None:
    client, other = stage.clients("client", "other")
    with settings_kept(client):
        for command in ("MULTI", "DEL s", "PING"):
            other(*command.split())
        client("CONFIG", "SET", "maxmemory", "1")
        other("EXEC")


@scenarios
def the_next_to_expire_goes_first(stage: Stage) -> None:
    client, listener = stage.clients("client", "listener")
    with settings_kept(client):
        client("CONFIG", "SET", "maxmemory-policy", "volatile-ttl", "maxmemory-samples", 64)
        client("CONFIG", "SET", "maxmemory-eviction-tenacity", 100, "notify-keyspace-events", "Ee")
        for i in range(15):
            client("SET", f"key:{i}", "v", "EX", 1000 + i * 7919 % 15 * 10)
            client("SET", f"stays:{i}", "v")
        client("CONFIG", "RESETSTAT")
        listener("PSUBSCRIBE", "*")
        client("CONFIG", "SET", "maxmemory", "1")
        client("SET", "k", "v")
        listener.read(15)
        client("DBSIZE")
        stage.note("evicted", _info(client, "evicted_keys"))
        client("SET", "k", "v")
        listener.hears_nothing()


@scenarios
def each_policy_takes_what_it_says(stage: Stage) -> None:
    client = stage.client("client")
    with settings_kept(client):
        for policy in POLICIES:
            client("CONFIG", "SET", "maxmemory-policy", policy, "maxmemory-eviction-tenacity", 100)
            _wait_freed(client)
            for i in range(20):
                client("SET", f"key:{i}", "v", *(("EX", 1000) if i % 2 else ()))
                if i % 5 == 0:
                    client("SELECT", i % 10)
            client("CONFIG", "RESETSTAT")
            client("CONFIG", "SET", "maxmemory", "1")
            client("SET", "k", "v")
            stage.note("evicted", _info(client, "evicted_keys"))
            for db in (0, 5):
                client("SELECT", db)
                client("DBSIZE")
            client("SET", "k", "v")
            client("CONFIG", "SET", "maxmemory", "0")
            client("SET", "k", "v")
            client("FLUSHALL")


@scenarios
def eviction_spoils_what_was_watched(stage: Stage) -> None:
    client, other = stage.clients("client", "other")
    with settings_kept(client):
        client("CONFIG", "SET", "maxmemory-policy", "allkeys-lru")
        for watched in ("k", "nosuch"):
            client("SET", "k", "v")
            other("WATCH", watched)
            client("CONFIG", "SET", "maxmemory", "1")
            client("EXISTS", "k")
            client("CONFIG", "SET", "maxmemory", "0")
            for command in ("MULTI", "PING", "EXEC"):
                other(command)


@scenarios
def how_often_keys_are_used(stage: Stage) -> None:
    client = stage.client("client")
    with settings_kept(client):
        client("SET", "k", "v")
        client("OBJECT", "FREQ", "k")
        client("OBJECT", "IDLETIME", "k")
        # Without a factor each use counts, and nothing is forgotten.
        client("CONFIG", "SET", "maxmemory-policy", "allkeys-lfu", "lfu-log-factor", 0, "lfu-decay-time", 0)
        # With a limit Redis has no integers that keys share.
        client("CONFIG", "SET", "maxmemory", "10gb")
        client("FLUSHALL")
        client("OBJECT", "FREQ", "nosuch")
        for command in each(
            """
            SET k v | GET k | GET k | APPEND k w | STRLEN k | SET k v | GETSET k w | INCR n | INCR n | EXPIRE k 1000
            TTL k | EXISTS k | TYPE k | TOUCH k | SETRANGE k 0 v | MGET k k | GETEX k PERSIST | GETRANGE k 0 1 | SET k 5
            INCR k | INCRBYFLOAT k 1 | SETEX k 100 v | SET k w KEEPTTL | SET k w NX | SET k w GET | MSET k 1
            """
        ):
            client(*command.split())
            client("OBJECT", "FREQ", command.split()[1])
        for command in each(
            """
            RPUSH l 1 2 | LRANGE l 0 -1 | LPOP l | SADD s a b | SMEMBERS s | SUNIONSTORE l s | SUNIONSTORE l s
            HSET h f v | HGET h f | HGETALL h | ZADD z 1 a | ZRANGE z 0 -1 | ZINCRBY z 1 a | SORT l ALPHA
            """
        ):
            client(*command.split())
            client("OBJECT", "FREQ", command.split()[1])
        client("OBJECT", "IDLETIME", "k")
        client("CONFIG", "SET", "maxmemory-policy", "volatile-ttl")
        client("OBJECT", "FREQ", "k")
        client("SET", "k", "v")
        client("OBJECT", "IDLETIME", "k")


def test_info_tells_of_eviction(oracle: Server, peer: Server) -> None:
    """The fields that Redis has for it, in the same sections."""
    names = {
        "stats": ["evicted_keys", "total_eviction_exceeded_time", "current_eviction_exceeded_time"],
        "memory": [
            *("maxmemory", "maxmemory_human", "maxmemory_policy", "mem_not_counted_for_evict"),
            *("lazyfree_pending_objects", "lazyfreed_objects"),
        ],
    }
    for server in (oracle, peer):
        with server.connect() as connection:
            for section, fields in names.items():
                lines = bytes(connection("INFO", section)).decode().splitlines()
                assert [field for field in fields if not any(line.startswith(field + ":") for line in lines)] == []


def test_what_clients_send_and_are_sent_counts(peer: Server) -> None:
    """Requests that are not whole yet, and replies that nobody has read."""
    megabytes = 8
    with peer.connect() as admin, peer.connect() as sender, peer.connect() as reader:
        admin("SET", "long", b"x" * (megabytes << 20))
        before = _used(admin)
        sender.socket.sendall(b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$%d\r\n" % (megabytes << 21) + b"x" * (megabytes << 20))
        _wait_used(admin, before + (megabytes << 20) * 9 // 10)
        between = _used(admin)
        reader.send_all([("GET", "long")] * 4)
        _wait_used(admin, between + (megabytes << 20))
        admin("DEL", "long")


def _used(connection: Connection) -> int:
    text = bytes(connection("INFO", "memory")).decode()
    return int(next(line for line in text.splitlines() if line.startswith("used_memory:")).partition(":")[2])


def _wait_used(connection: Connection, least: int) -> None:
    """What was sent arrives in its own time."""
    for _ in range(10_000):
        if _used(connection) >= least:
            return
    raise AssertionError(f"{_used(connection)} bytes are used, not {least}")


def _wait_freed(actor: Actor) -> None:
    for _ in range(10_000):
        if _info(actor, "lazyfree_pending_objects", "memory") == "lazyfree_pending_objects:0":
            return
    raise AssertionError("what was flushed is not freed")


def _info(actor: Actor, field: str, section: str = "stats") -> str:
    lines = bytes(actor.quietly("INFO", section)).decode().splitlines()
    return next(line for line in lines if line.startswith(field + ":"))


test_scenarios = scenarios.test()
