"""What wakes a client that waits for a key, and what it then finds there."""

from tests.commands.scenario import Scenarios, Stage

scenarios = Scenarios()


@scenarios
def a_key_of_another_type_wakes_nobody(stage: Stage) -> None:
    lists, sorted_sets = stage.blocked(("lists", "BLPOP k 0"), ("zsets", "BZPOPMIN k 0"))
    pusher = stage.client("pusher")
    pusher("SET", "k", "text")
    pusher("DEL", "k")
    pusher("ZADD", "k", 1, "a", 2, "b")
    sorted_sets.read()
    lists.hears_nothing()
    pusher("DEL", "k")
    pusher("RPUSH", "k", "v")
    lists.read()


@scenarios
def renaming_copying_moving_and_storing_wake_too(stage: Stage) -> None:
    maker = stage.client("maker")
    for name, command in {
        "rename": "RENAME source k",
        "renamenx": "RENAMENX source k",
        "copy": "COPY source k",
        "store": "SORT source ALPHA STORE k",
        "lmove": "LMOVE source k LEFT LEFT",
        "linsert": "LPUSHX k v",
    }.items():
        maker("RPUSH", "source", "b", "a", "c")
        (waiter,) = stage.blocked((name, "BLPOP k 0"))
        maker(*command.split())
        waiter.hears_nothing()
        maker("FLUSHALL")
        waiter.leave()
        stage.wait_blocked(0)


@scenarios
def moving_between_databases_wakes(stage: Stage) -> None:
    maker = stage.client("maker")
    first = stage.client("first")
    first("SELECT", 1)
    first.send("BLPOP", "k", 0)
    stage.wait_blocked(1)
    maker("RPUSH", "k", "zero")
    first.hears_nothing()
    maker("MOVE", "k", 1)
    first.read()
    first.send("BLPOP", "k", 0)
    stage.wait_blocked(1)
    maker("RPUSH", "k", "swapped")
    maker("SWAPDB", 0, 1)
    first.read()


@scenarios
def storing_a_sorted_set_wakes(stage: Stage) -> None:
    maker = stage.client("maker")
    for name, command in {
        "zunionstore": "ZUNIONSTORE k 2 source other",
        "zinterstore": "ZINTERSTORE k 1 source",
        "zdiffstore": "ZDIFFSTORE k 2 source other",
        "zrangestore": "ZRANGESTORE k source 0 -1",
        "zincrby": "ZINCRBY k 5 m",
        "rename": "RENAME source k",
    }.items():
        maker("ZADD", "source", 1, "a", 2, "b")
        (waiter,) = stage.blocked((name, "BZPOPMAX k 0"))
        maker(*command.split())
        waiter.hears_nothing()
        maker("FLUSHALL")
        waiter.leave()
        stage.wait_blocked(0)


@scenarios
def a_move_to_a_key_of_another_type_fails_and_loses_nothing(stage: Stage) -> None:
    maker = stage.client("maker")
    maker("SET", "j", "text")
    first, second, third = stage.blocked(
        ("first", "BRPOPLPUSH k j 0"), ("second", "BLMOVE k j LEFT LEFT 0"), ("third", "BLPOP k 0")
    )
    maker("RPUSH", "k", "1", "2")
    first.read()
    second.read()
    third.read()
    maker("LRANGE", "k", 0, -1)


@scenarios
def emptying_the_keyspace_leaves_the_waiters(stage: Stage) -> None:
    (waiter,) = stage.blocked(("waiter", "BLPOP k 0"))
    maker = stage.client("maker")
    maker("FLUSHALL")
    maker("FLUSHDB")
    waiter.hears_nothing()
    maker("RPUSH", "k", "v")
    waiter.read()


# Several at once


@scenarios
def pops_of_many_take_up_to_their_count(stage: Stage) -> None:
    lists, sorted_sets = stage.blocked(
        ("lists", "BLMPOP 0 2 k j RIGHT COUNT 3"), ("zsets", "BZMPOP 0 2 x z MAX COUNT 2")
    )
    maker = stage.client("maker")
    maker("RPUSH", "j", "1", "2", "3", "4", "5")
    lists.read()
    maker("LRANGE", "j", 0, -1)
    maker("ZADD", "z", 1, "a", 2.5, "b", 3, "c")
    sorted_sets.read()
    maker("ZRANGE", "z", 0, -1, "WITHSCORES")


@scenarios
def sorted_set_waiters_in_order(stage: Stage) -> None:
    waiters = stage.blocked(("low", "BZPOPMIN z 0"), ("high", "BZPOPMAX y z 0"), ("many", "BZMPOP 0 1 z MIN COUNT 9"))
    maker = stage.client("maker")
    maker("ZADD", "z", 1, "a", "inf", "b", 3, "c", -1.5, "d")
    for waiter in waiters:
        waiter.read()
    maker("EXISTS", "z")


test_waking = scenarios.test()
