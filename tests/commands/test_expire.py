"""Expire times where time really passes, or where its rounding and its bounds are exact."""

import time

from tests.commands.scenario import Scenarios, Stage, each

scenarios = Scenarios()

FOR_ACTIVE_EXPIRE_S = 20.0


@scenarios
def an_expired_key_is_never_seen(stage: Stage) -> None:
    client = stage.client("client")
    for setup in ("SET k v", "RPUSH k a", "SADD k a", "ZADD k 1 a", "HSET k f v"):
        client(*setup.split())
        client("PEXPIRE", "k", 10)
        stage.sleep(0.02)
        for command in each("EXISTS k | TYPE k | TTL k | PTTL k | EXPIRETIME k | PERSIST k | OBJECT ENCODING k"):
            client(*command.split())
        client(*setup.split())
        client("PTTL", "k")
        client("DEL", "k")


@scenarios
def an_expired_key_is_as_absent_for_every_command(stage: Stage) -> None:
    client = stage.client("client")
    for command in each(
        """
        GET k | APPEND k x | INCR k | SETNX k new | GETSET k new | SET k v XX | SET k v NX | SETRANGE k 2 x
        RENAME k other | COPY k other | EXPIRE k 100 | PERSIST k | DEL k | UNLINK k | TOUCH k | MOVE k 1 | GETDEL k
        GETEX k PERSIST | STRLEN k | SETBIT k 1 1 | HSET k f v | RPUSHX k v | LPUSH k v | SADD k v | ZADD k XX 1 a
        SORT k | KEYS * | RANDOMKEY | SCAN 0 | MGET k k | SUNION k | SUNIONSTORE other k
        SINTERSTORE k k | ZUNION 1 k | LMOVE k other LEFT LEFT | WATCH k
        """
    ):
        client.quietly("FLUSHALL")
        client.quietly("SET", "k", "v", "PXAT", 1)
        client(*command.split())
        client("TTL", "k")
        client("EXISTS", "k", "other")


@scenarios
def the_server_expires_by_itself(stage: Stage) -> None:
    client = stage.client("client")
    client.connection.pipeline([("SET", f"k{number}", "v", "PX", 1 + number % 20) for number in range(200)])
    client("SET", "stays", "v", "PX", 100_000)
    deadline = time.monotonic() + FOR_ACTIVE_EXPIRE_S
    while client.quietly("DBSIZE") != 1 and time.monotonic() < deadline:
        stage.sleep(0.01)
    client("DBSIZE")
    client("KEYS", "*")


@scenarios
def seconds_are_rounded_to_the_nearest(stage: Stage) -> None:
    client = stage.client("client")
    for millis in (100_400, 100_900, 999_999_900):
        # In one piece, so that no time passes in between.
        stage.note(f"{millis} ms", client.connection.pipeline([("SET", "k", "v", "PX", millis), ("TTL", "k")]))
    for moment in (4_102_444_800_000, 4_102_444_800_499, 4_102_444_800_500, 4_102_444_800_999):
        client("PEXPIREAT", "k", moment)
        client.note_exactly("EXPIRETIME", "k")
        client.note_exactly("PEXPIRETIME", "k")


@scenarios
def conditions_on_expire(stage: Stage) -> None:
    client = stage.client("client")
    for options in each("NX | XX | GT | LT | nx | NX XX | GT LT | NX GT | XX GT | XX LT | GT GT | NOPE | NX NOPE"):
        for has in ((), ("EXPIREAT", "k", 4_102_444_800)):
            client.quietly("SET", "k", "v")
            if has:
                client.quietly(*has)
            for moment in (4_102_444_700, 4_102_444_800, 4_102_444_900):
                client("EXPIREAT", "k", moment, *options.split())
                client("EXPIRETIME", "k")


@scenarios
def bounds_of_expire_times(stage: Stage) -> None:
    client = stage.client("client")
    numbers = (
        "9223372036854775807",
        "9223372036854775",
        "9223372036854776",
        "9223370000000000000",
        "-9223372036854775808",
    )
    for number in (*numbers, "-1", "0", "1.5", "abc", "", " 1", "+1", "1e3"):
        for command in ("EXPIRE k {}", "PEXPIRE k {}", "EXPIREAT k {}", "PEXPIREAT k {}"):
            client.quietly("SET", "k", "v")
            client(*[word.format(number) for word in command.split()])
            client("EXISTS", "k")
        for command in each(
            """
            SET k w EX {} | SET k w PX {} | SET k w EXAT {} | SET k w PXAT {} | SETEX k {} w | PSETEX k {} w
            GETEX k EX {} | GETEX k PX {} | GETEX k EXAT {} | GETEX k PXAT {}
            """
        ):
            client.quietly("SET", "k", "v")
            client(*[word.format(number) for word in command.split()])


@scenarios
def who_keeps_the_expire_time(stage: Stage) -> None:
    client = stage.client("client")
    for setup, changes in {
        "SET k 1": """
            SET k 2 | SET k 2 KEEPTTL | GETSET k 2 | APPEND k 2 | INCR k | SETRANGE k 0 2 | SETBIT k 1 1 | MSET k 2
            BITFIELD k SET u8 0 1 | GETEX k | GETEX k PERSIST | INCRBYFLOAT k 1 | SET k 2 GET | SETNX k 2
            BITOP NOT k k | RENAME k j | COPY k j | SET k 2 XX | SET k 2 NX
            """,
        "RPUSH k b a": "LPUSH k c | LSET k 0 z | SORT k ALPHA STORE k | LMOVE k k LEFT RIGHT",
        "SADD k a b": "SREM k a | SUNIONSTORE k k | SINTERSTORE k k k | SMOVE k j a",
        "ZADD k 1 a 2 b": "ZINCRBY k 1 a | ZUNIONSTORE k 1 k | ZRANGESTORE k k 0 -1",
        "HSET k f v": "HSET k g v | HDEL k nothing | HINCRBY k n 1",
    }.items():
        for change in each(changes):
            client.quietly("FLUSHALL")
            client(*setup.split())
            client("EXPIREAT", "k", 4_102_444_800)
            client(*change.split())
            client("EXPIRETIME", "k")
            client("EXPIRETIME", "j")


@scenarios
def renaming_over_a_key_takes_the_other_expire_time(stage: Stage) -> None:
    client = stage.client("client")
    for source_has in (False, True):
        for target_has in (False, True):
            client("MSET", "a", "1", "b", "2")
            if source_has:
                client("EXPIREAT", "a", 4_102_444_800)
            if target_has:
                client("EXPIREAT", "b", 4_102_444_900)
            client("RENAME", "a", "b")
            client("EXPIRETIME", "b")
            client("DEL", "b")


@scenarios
def expire_times_survive_a_move_and_a_swap(stage: Stage) -> None:
    client = stage.client("client")
    client("SET", "k", "v", "EXAT", 4_102_444_800)
    client("MOVE", "k", 1)
    client("SWAPDB", 1, 2)
    client("SELECT", 2)
    client("EXPIRETIME", "k")
    client("COPY", "k", "k", "DB", 0)
    client("SELECT", 0)
    client("EXPIRETIME", "k")


@scenarios
def inside_one_script_time_stands_still(stage: Stage) -> None:
    client = stage.client("client")
    client.together(("SET", "k", "v", "PX", 30), ("EVAL", SPIN_PAST_THE_DEADLINE, 1, "k"))
    client("EXISTS", "k")


# PTTL is not asked: in Redis 7.0 it alone looks at the clock, so that a key that exists has no time left.
SPIN_PAST_THE_DEADLINE = """
local before = redis.call('EXISTS', KEYS[1])
local function now() local t = redis.call('TIME') return t[1] * 1000 + t[2] / 1000 end
local start, calls = now(), 0
while now() - start < 60 and calls < 200000 do calls = calls + 1 end
return {before, redis.call('EXISTS', KEYS[1])}
"""


test_expire = scenarios.test()
