"""Keyspace notifications: which events each command gives, in which order, under which flags."""

import hashlib
from collections.abc import Iterable

import pytest

from tests.commands.scenario import Scenarios, Stage, each, play
from tests.support.resp import Push
from tests.support.servers import Server

scenarios = Scenarios()

# Every event of the keyspace, each command after what it needs. Commands joined by ";" are
# sent at once, so that the server has no time to expire a key by itself in between.
CATALOGUE = each("""
SET s v | SET s v EX 100 | SET s v KEEPTTL | SET s w XX GET | SET new v NX | SET new v NX | SETNX n v | SETNX n v
SETEX s 100 v | PSETEX s 100000 v | MSET a 1 b 2 | MSETNX c 1 d 2 | MSETNX a 1 e 2 | GETSET s 10 | APPEND s 0
SETRANGE s 1 5 | SETRANGE s 1 | SETRANGE missing 0 | INCR s | DECR s | INCRBY s 5 | DECRBY s 5 | INCRBYFLOAT s 1.5
SETBIT bits 7 1 | BITOP NOT bits2 bits | BITOP AND bits missing | BITFIELD bits SET u8 0 5 INCRBY u8 0 1
BITFIELD bits GET u8 0 | GETEX s EX 100 | GETEX s PERSIST | GETEX s PERSIST | GETEX s EXAT 1 | GETDEL n | GETDEL n
GET missing | GET a | MGET a missing | STRLEN missing | EXISTS missing | TYPE missing | TTL missing | TOUCH missing
LPUSH l a b | RPUSH l c d | LPUSHX l e | RPUSHX missing e | LINSERT l BEFORE a x | LINSERT l BEFORE zzz x
LSET l 0 z | LREM l 1 z | LREM l 1 zzz | LTRIM l 0 2 | LTRIM l 0 -1 | LMOVE l m LEFT RIGHT | RPOPLPUSH m m
BLMOVE m l LEFT LEFT 0 | LPOP l | RPOP l 1 | LMPOP 1 l LEFT COUNT 9 | RPUSH l a | BLPOP l 0 | RPUSH l a b
BRPOP l 0 | LTRIM l 5 9 | RPUSH l b a | SORT l ALPHA STORE l2 | SORT missing STORE l2 | SORT l BY nosort GET # ALPHA
SADD t a b c | SADD t a | SREM t a | SREM t zzz | SMOVE t u b | SMOVE t u zzz | SPOP t 9 | SADD t x | SMOVE t u x
SADD v b y | SINTERSTORE w u v | SUNIONSTORE w u v | SDIFFSTORE w u v | SINTERSTORE w missing u | SREM u b x
ZADD z 1 a 2 b 3 c | ZADD z 1 a | ZADD z XX CH 5 a | ZADD z INCR 1 a | ZADD z GT INCR -1 a | ZINCRBY z 1 a
ZREM z a | ZREM z zzz | ZADD z 1 a 4 d 5 e 6 f | ZREMRANGEBYSCORE z 1 1 | ZREMRANGEBYRANK z 0 0
ZREMRANGEBYLEX z - + | ZADD z 1 a 2 b 3 c | ZPOPMIN z | ZPOPMAX z 1 | ZMPOP 1 z MIN COUNT 9 | ZADD z 1 a
BZPOPMIN z 0 | ZADD z 1 a | BZMPOP 0 1 z MAX | ZADD z 1 a 2 b | ZUNIONSTORE y 1 z | ZINTERSTORE y 2 z missing
ZDIFFSTORE y 2 z missing | ZRANGESTORE y z 0 -1 | ZRANGESTORE y missing 0 -1 | HSET h f 1 g 2 | HSET h f 1
HSETNX h f 1 | HSETNX h i 1 | HMSET h j 1 | HINCRBY h f 1 | HINCRBYFLOAT h f 1.5 | HDEL h f zzz | HDEL h zzz
HDEL h g i j | SET s v | EXPIRE s 100 | PEXPIREAT s 4102444800000 | EXPIRE s 100 NX | PERSIST s | PERSIST s
EXPIRE s -1 | SET s v | EXPIREAT s 1 | SET s v PXAT 1 ; GET s | SET s v | RENAME s s2 | RENAMENX s2 a | RENAME s2 a
COPY a cp | COPY a cp REPLACE | MOVE a 1 | DEL cp missing | UNLINK b missing | SWAPDB 1 2 | FLUSHDB | FLUSHALL
SET k v | SELECT 1 | SET k v | DEL k | SELECT 0 | DEL k
""")


class Listening:
    """A listener to all notifications, and a client whose commands cause them."""

    def __init__(self, stage: Stage, flags: str) -> None:
        self.listener, self.publisher = stage.clients("listener", "publisher")
        self.publisher("CONFIG", "SET", "notify-keyspace-events", flags)
        self.listener("PSUBSCRIBE", "__key*__:*")
        self.listener("SUBSCRIBE", "marker")
        self._message = Push if stage.protocol == 3 else list

    def events_of(self, commands: Iterable[str]) -> None:
        """Run the commands and record the notifications after each; a message of ours says that there are no more."""
        for at, command in enumerate(commands):
            self.publisher.together(*(words.split() for words in command.split(" ; ")))
            self.publisher.quietly("PUBLISH", "marker", at)
            self.listener.read_until(self._message([b"message", b"marker", b"%d" % at]))


@pytest.mark.parametrize(
    "flags", ["KEA", "KEg", "KE$", "KEl", "KEs", "KEz", "KEh", "KEx", "KEm", "KEn", "KEd", "KEt", "KEe"]
)
def test_events_of_every_command(flags: str, oracle: Server, peer: Server) -> None:
    play(lambda stage: Listening(stage, flags).events_of(CATALOGUE), 2, oracle, peer)


@pytest.mark.parametrize("flags", ["KA", "EA", "A", "K", "E", "KE", "", "KEAmn", "Kg$", "Elsz"])
def test_flags_choose_channels_and_classes(flags: str, oracle: Server, peer: Server) -> None:
    commands = ["SET s v", "RPUSH l a", "GET missing", "SADD t a", "HSET h f v", "ZADD z 1 a", "DEL s", "EXPIRE l -1"]
    play(lambda stage: Listening(stage, flags).events_of(commands), 3, oracle, peer)


@scenarios
def flags_read_back_in_their_own_order(stage: Stage) -> None:
    client = stage.client("client")
    for flags in each("KEA | AKE | Ex | gK$ | KEg$lshzxetdmn | A |  | KEx | mnKE | KE? | q | K E"):
        client("CONFIG", "SET", "notify-keyspace-events", flags)
        client("CONFIG", "GET", "notify-keyspace-events")


@scenarios
def an_expired_event_comes_when_the_key_is_touched(stage: Stage) -> None:
    listening = Listening(stage, "KEA")
    for touch in each("GET k | EXISTS k | TTL k | SET k w | DEL k | RENAME k j | RPUSH k v | EXPIRE k 100 | COPY k j"):
        listening.events_of(["FLUSHALL", f"SET k v PXAT 1 ; {touch}"])


@scenarios
def an_expired_event_comes_by_itself(stage: Stage) -> None:
    listening = Listening(stage, "Ex")
    listening.publisher("SET", "k", "v", "PX", 5)
    listening.listener.read()


@scenarios
def events_of_a_transaction_and_of_a_script(stage: Stage) -> None:
    listening = Listening(stage, "KEA")
    for command in ("MULTI", "SET k v", "DEL k"):
        listening.publisher(*command.split())
    listening.listener.hears_nothing()
    listening.events_of(["EXEC"])
    listening.publisher("SCRIPT", "LOAD", SCRIPT)
    listening.events_of([f"EVALSHA {hashlib.sha1(SCRIPT.encode()).hexdigest()} 1 k"])


SCRIPT = "redis.call('SET', KEYS[1], 'v') redis.call('EXPIRE', KEYS[1], 100) return redis.call('DEL', KEYS[1])"


@scenarios
def events_of_waking_a_waiter(stage: Stage) -> None:
    listening = Listening(stage, "KEA")
    waiter, mover = stage.clients("waiter", "mover")
    mover.send("BLMOVE", "k", "j", "LEFT", "RIGHT", 0)
    stage.wait_blocked(1)
    waiter.send("BLPOP", "k", 0)
    stage.wait_blocked(2)
    listening.events_of(["RPUSH k a b"])
    mover.read()
    waiter.read()
    waiter.send("BZPOPMIN", "z", 0)
    stage.wait_blocked(1)
    listening.events_of(["ZADD z 1 a"])
    waiter.read()


test_notifications = scenarios.test()
