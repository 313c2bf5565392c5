"""MULTI, EXEC and WATCH with several clients: what is isolated, what aborts, what a watch sees."""

import pytest

from tests.commands.scenario import Scenarios, Stage, each, play
from tests.support.servers import Server

scenarios = Scenarios()


@scenarios
def others_see_nothing_until_exec(stage: Stage) -> None:
    client, other = stage.clients("client", "other")
    client("MULTI")
    client("SET", "k", "1")
    client("INCR", "k")
    other("GET", "k")
    other("SET", "k", "40")
    client("GET", "k")
    client("EXEC")
    other("GET", "k")


@scenarios
def a_command_that_fails_does_not_stop_the_rest(stage: Stage) -> None:
    client = stage.client("client")
    for command in each("MULTI | SET k text | INCR k | LPUSH k x | SET k after | EXEC | GET k"):
        client(*command.split())


@scenarios
def a_command_refused_while_queueing_aborts(stage: Stage) -> None:
    client = stage.client("client")
    for wrong in ("NOSUCH", "GET", "SET k", "CLIENT NOPE", "SET k v EX"):
        for command in ("MULTI", "SET k 1", wrong, "GET k", "EXEC", "EXISTS k"):
            client(*command.split())


@scenarios
def discard_forgets_the_queue_and_the_watch(stage: Stage) -> None:
    client, other = stage.clients("client", "other")
    client("WATCH", "k")
    client("MULTI")
    client("SET", "k", "mine")
    client("DISCARD")
    other("SET", "k", "other")
    client("MULTI")
    client("GET", "k")
    client("EXEC")


@scenarios
def a_connection_that_ends_executes_nothing(stage: Stage) -> None:
    client, other = stage.clients("client", "other")
    client("MULTI")
    client("SET", "k", "1")
    client.leave()
    other("EXISTS", "k")


@scenarios
def reset_and_quit_leave_a_transaction(stage: Stage) -> None:
    client, other = stage.clients("client", "other")
    client("MULTI")
    client("SET", "k", "1")
    client("RESET")
    client("EXEC")
    client("MULTI")
    client("SET", "k", "2")
    client("QUIT")
    client.read()
    other("EXISTS", "k")


@scenarios
def watches_of_two_clients_are_their_own(stage: Stage) -> None:
    first, second = stage.clients("first", "second")
    for client in (first, second):
        client("WATCH", "k")
        client("MULTI")
        client("INCR", "k")
    first("EXEC")
    second("EXEC")
    first("GET", "k")


@scenarios
def a_watch_ends_with_exec_even_an_empty_or_an_aborted_one(stage: Stage) -> None:
    client, other = stage.clients("client", "other")
    for ending in (("EXEC",), ("NOSUCH", "EXEC")):
        client("WATCH", "k")
        client("MULTI")
        for command in ending:
            client(command)
        other("INCR", "k")
        client("MULTI")
        client("PING")
        client("EXEC")


@scenarios
def a_watch_is_of_the_chosen_database(stage: Stage) -> None:
    client, other = stage.clients("client", "other")
    client("SELECT", 1)
    client("WATCH", "k")
    client("SELECT", 0)
    other("SET", "k", "0")
    client("MULTI")
    client("PING")
    client("EXEC")
    client("SELECT", 1)
    client("WATCH", "k")
    other("SELECT", 1)
    other("SET", "k", "1")
    client("MULTI")
    client("PING")
    client("EXEC")


@scenarios
def swapping_databases_touches_the_keys_that_differ(stage: Stage) -> None:
    client, other = stage.clients("client", "other")
    for setup in ((), ("SET", "k", "here")):
        if setup:
            other(*setup)
        client("WATCH", "k")
        other("SWAPDB", 0, 1)
        client("MULTI")
        client("PING")
        client("EXEC")


@scenarios
def a_watched_key_that_expires(stage: Stage) -> None:
    client, other = stage.clients("client", "other")
    client.together(("SET", "k", "v", "PX", 50), ("WATCH", "k"))
    stage.sleep(0.1)
    client("MULTI")
    client("PING")
    client("EXEC")
    # Expired already when it was watched: its removal is no change.
    other("SET", "j", "v", "PXAT", 1)
    client("WATCH", "j")
    other("GET", "j")
    client("MULTI")
    client("PING")
    client("EXEC")


@scenarios
def a_queue_of_many_commands(stage: Stage) -> None:
    client = stage.client("client")
    client("MULTI")
    client.connection.pipeline([("INCRBY", "k", number) for number in range(1000)])
    client("EXEC")


@scenarios
def scripts_in_a_transaction(stage: Stage) -> None:
    client = stage.client("client")
    client("MULTI")
    client("EVAL", "return redis.call('INCR', KEYS[1])", 1, "k")
    client("EVAL", "return redis.call('NOSUCH')", 0)
    client("EVALSHA", "0" * 40, 0)
    client("SCRIPT", "LOAD", "return 1")
    client("EXEC")


@scenarios
def changing_protocol_in_a_transaction(stage: Stage) -> None:
    client = stage.client("client")
    client("MULTI")
    client("HELLO", 3)
    client("HGETALL", "k")
    client("HELLO", 2)
    client("HGETALL", "k")
    client("EXEC")
    client("HGETALL", "k")


test_transactions = scenarios.test()


# Does this command count as a change of the watched key?

SETUP = (
    *("SET s 10", "RPUSH l a b", "SADD t 1 2", "ZADD z 1 a 2 b", "HSET h f 1", "SET live v EX 1000"),
    "SET other text",
)
TOUCHES = each("""
SET s 10 | SET s 11 XX | SET s 1 NX | GET s | GETSET s 10 | GETDEL s | GETEX s | GETEX s EX 100 | GETEX live PERSIST
GETEX s PERSIST | APPEND s x | SETRANGE s 0 x | SETBIT s 1 0 | INCR s | INCRBY s 0 | INCRBYFLOAT s 0
BITFIELD s GET u8 0 | BITFIELD s SET u8 0 49 | BITOP AND s s | MSET s 10 | MSETNX s 1 new 2 | STRLEN s
SETEX s 100 10 | DEL s | DEL missing | UNLINK s | EXPIRE s 100 | EXPIRE s 100 XX | EXPIRE live 1000 NX | PERSIST s
PERSIST live | TOUCH s | RENAME s s2 | RENAME other s | RENAMENX s other | COPY other s | COPY other s REPLACE
MOVE s 1 | COPY s new | EXPIRE s -1 | EXPIREAT s 1 | FLUSHDB | FLUSHALL | OBJECT ENCODING s | LPUSH l x | LPUSHX l x
LPUSHX missing x | LPOP l | LPOP l 0 | LSET l 0 a | LREM l 0 zzz | LREM l 0 a | LTRIM l 0 -1
LINSERT l BEFORE zzz x | LINSERT l BEFORE a x | LMOVE l l LEFT RIGHT | RPOPLPUSH l m | BLPOP l 0 | LMPOP 1 l LEFT
LRANGE l 0 -1 | SORT l ALPHA | SORT l ALPHA STORE l | SORT missing STORE l | SADD t 1 | SADD t 3 | SREM t 9
SREM t 1 | SMOVE t u 9 | SMOVE t u 1 | SMOVE t t 1 | SPOP t 9 | SPOP t 0 | SINTERSTORE t t t
SINTERSTORE t missing t | SUNIONSTORE u t | SMEMBERS t | ZADD z 1 a | ZADD z 5 a | ZADD z NX 5 a | ZADD z GT 0 a
ZADD z XX 1 new | ZINCRBY z 0 a | ZREM z q | ZREM z a | ZREMRANGEBYSCORE z 50 60 | ZREMRANGEBYRANK z 0 0 | ZPOPMIN z
ZPOPMIN z 0 | ZUNIONSTORE z 1 z | ZINTERSTORE z 1 missing | ZRANGESTORE z z 0 -1 | ZRANGESTORE z z 5 9
ZADD z INCR 0 a | ZMPOP 1 z MIN | HSET h f 1 | HSET h f 2 | HSETNX h f 1 | HDEL h q | HDEL h f | HINCRBY h f 0
HINCRBYFLOAT h f 0 | HGETALL h
""")


@pytest.mark.parametrize("command", TOUCHES)
def test_what_a_watch_counts_as_a_change(command: str, oracle: Server, peer: Server) -> None:
    def scenario(stage: Stage) -> None:
        watcher, other = stage.clients("watcher", "other")
        for words in SETUP:
            other.quietly(*words.split())
        watcher("WATCH", *["s", "l", "t", "z", "h", "live", "missing", "other", "u", "m", "new"])
        other(*command.split())
        watcher("MULTI")
        watcher("PING")
        watcher("EXEC")

    play(scenario, 2, oracle, peer)
