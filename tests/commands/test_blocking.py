"""Blocking pops: who is served, in which order, with what, and what a waiter never sees."""

from tests.commands.scenario import Scenarios, Stage, each

scenarios = Scenarios()


# One waiter


@scenarios
def a_push_wakes_the_waiter(stage: Stage) -> None:
    for pop, push in (("BLPOP k 0", "RPUSH"), ("BRPOP k 0", "LPUSH")):
        (waiter,) = stage.blocked((pop[:5], pop))
        stage.client("pusher")(push, "k", "1", "2", "3")
        waiter.read()
        stage.client("reader")("LRANGE", "k", 0, -1)
        waiter.quietly("DEL", "k")


@scenarios
def the_waiter_gets_the_head_after_the_whole_push(stage: Stage) -> None:
    (waiter,) = stage.blocked(("waiter", "BLPOP k 0"))
    stage.client("pusher")("LPUSH", "k", "a", "b", "c")
    waiter.read()


@scenarios
def a_timeout_answers_nil(stage: Stage) -> None:
    client = stage.client("client")
    for command in each(
        """
        BLPOP k 0.01 | BRPOP k j 0.01 | BLMOVE k j LEFT RIGHT 0.01 | BRPOPLPUSH k j 0.01 | BLMPOP 0.01 1 k LEFT
        BZPOPMIN k 0.01 | BZPOPMAX k 0.01 | BZMPOP 0.01 2 k j MAX
        """
    ):
        client(*command.split())
    client("DBSIZE")


@scenarios
def commands_behind_a_blocking_one_wait_for_it(stage: Stage) -> None:
    waiter = stage.client("waiter")
    waiter.connection.send_all([("BLPOP", "k", 0), ("PING",), ("LPUSH", "j", "x")])
    stage.wait_blocked(1)
    other = stage.client("other")
    other("EXISTS", "j")
    waiter.hears_nothing()
    other("RPUSH", "k", "v")
    waiter.read(3)
    other("EXISTS", "j", "k")


@scenarios
def several_keys_the_first_with_something_wins(stage: Stage) -> None:
    client = stage.client("client")
    client("RPUSH", "second", "2")
    client("RPUSH", "third", "3")
    client("BLPOP", "first", "second", "third", 0)
    client("BLPOP", "first", "second", "third", "second", 0)


@scenarios
def several_keys_the_waiter_gets_the_one_that_was_pushed(stage: Stage) -> None:
    waiter, second = stage.blocked(("waiter", "BLPOP k1 k2 k3 0"), ("second", "BRPOP k3 k3 k1 0"))
    pusher = stage.client("pusher")
    pusher("RPUSH", "k2", "v2")
    waiter.read()
    pusher("RPUSH", "k3", "v3", "w3")
    second.read()
    pusher("LRANGE", "k3", 0, -1)


@scenarios
def in_a_transaction_the_first_key_pushed_is_served_first(stage: Stage) -> None:
    (waiter,) = stage.blocked(("waiter", "BLPOP k1 k2 0"))
    pusher = stage.client("pusher")
    for command in ("MULTI", "RPUSH k2 b", "RPUSH k1 a", "EXEC"):
        pusher(*command.split())
    waiter.read()
    pusher("KEYS", "*")


@scenarios
def what_is_gone_at_the_end_of_a_transaction_was_never_there(stage: Stage) -> None:
    (waiter,) = stage.blocked(("waiter", "BLPOP k 0"))
    pusher = stage.client("pusher")
    for command in each("MULTI | RPUSH k a | DEL k | EXEC | MULTI | RPUSH k a b | LPOP k | EXEC"):
        pusher(*command.split())
    waiter.read()


@scenarios
def what_a_script_pushed_is_served_after_the_script(stage: Stage) -> None:
    (waiter,) = stage.blocked(("waiter", "BLPOP k 0"))
    pusher = stage.client("pusher")
    pusher("EVAL", "redis.call('RPUSH', KEYS[1], 'a', 'b') return redis.call('LLEN', KEYS[1])", 1, "k")
    waiter.read()
    pusher("LRANGE", "k", 0, -1)


@scenarios
def in_a_transaction_or_a_script_nothing_blocks(stage: Stage) -> None:
    client = stage.client("client")
    commands = (
        "BLPOP k 0",
        "BRPOPLPUSH k j 0",
        "BLMOVE k j LEFT LEFT 0",
        "BLMPOP 0 1 k LEFT",
        "BZPOPMIN k 0",
        "BZMPOP 0 1 k MIN",
    )
    client("MULTI")
    for command in commands:
        client(*command.split())
    client("EXEC")
    for command in commands:
        client("EVAL", "return redis.call(unpack(ARGV))", 0, *command.split())


# Several waiters


@scenarios
def waiters_are_served_in_the_order_they_came(stage: Stage) -> None:
    waiters = stage.blocked(
        ("first", "BLPOP k 0"), ("second", "BRPOP k 0"), ("third", "BLPOP k 0"), ("fourth", "BLPOP k 0")
    )
    pusher = stage.client("pusher")
    pusher("RPUSH", "k", "1", "2", "3")
    for waiter in waiters[:3]:
        waiter.read()
    waiters[3].hears_nothing()
    pusher("EXISTS", "k")
    pusher("RPUSH", "k", "4")
    waiters[3].read()


@scenarios
def waiters_of_different_kinds_share_one_queue(stage: Stage) -> None:
    waiters = stage.blocked(
        *(("pop", "BLPOP k 0"), ("move", "BLMOVE k j RIGHT LEFT 0"), ("many", "BLMPOP 0 2 x k LEFT COUNT 2")),
        *(("rotate", "BRPOPLPUSH k k 0"), ("last", "BRPOP k 0")),
    )
    pusher = stage.client("pusher")
    pusher("RPUSH", "k", "1", "2", "3", "4", "5", "6")
    for waiter in waiters:
        waiter.read()
    pusher("LRANGE", "k", 0, -1)
    pusher("LRANGE", "j", 0, -1)


@scenarios
def a_move_wakes_the_waiter_on_its_destination(stage: Stage) -> None:
    waiters = stage.blocked(("end", "BLPOP c 0"), ("middle", "BLMOVE b c LEFT RIGHT 0"), ("start", "BRPOPLPUSH a b 0"))
    pusher = stage.client("pusher")
    pusher("LPUSH", "a", "v")
    for waiter in waiters:
        waiter.read()
    pusher("DBSIZE")


@scenarios
def a_circle_of_moves_ends(stage: Stage) -> None:
    waiters = stage.blocked(("forth", "BLMOVE a b LEFT RIGHT 0"), ("back", "BLMOVE b a LEFT RIGHT 0"))
    pusher = stage.client("pusher")
    pusher("LPUSH", "a", "v")
    for waiter in waiters:
        waiter.read()
    pusher("LRANGE", "a", 0, -1)
    pusher("LRANGE", "b", 0, -1)


@scenarios
def a_waiter_that_left_or_was_killed_takes_nothing(stage: Stage) -> None:
    first, second, third, pusher = stage.clients("first", "second", "third", "pusher")
    second_id = second.id()
    for count, waiter in enumerate((first, second, third), start=1):
        waiter.send("BLPOP", "k", 0)
        stage.wait_blocked(count)
    first.leave()
    stage.wait_blocked(2)
    pusher("CLIENT", "KILL", "TYPE", "normal", "ID", second_id)
    second.read()
    stage.wait_blocked(1)
    pusher("RPUSH", "k", "v", "w")
    third.read()
    pusher("LRANGE", "k", 0, -1)


@scenarios
def waiters_time_out_by_their_own_deadlines(stage: Stage) -> None:
    (never,) = stage.blocked(("never", "BLPOP k 0"))
    slow, quick = stage.clients("slow", "quick")
    slow.send("BLPOP", "k", 0.15)
    quick.send("BLPOP", "k", 0.05)
    quick.read()
    slow.read()
    stage.client("pusher")("RPUSH", "k", "v")
    never.read()


# From outside


@scenarios
def client_unblock_answers_as_a_timeout_or_an_error(stage: Stage) -> None:
    first, second = stage.clients("first", "second")
    ids = [client.id() for client in (first, second)]
    other = stage.client("other")
    other.quietly("CLIENT", "UNBLOCK", ids[0])
    for how in ((), ("TIMEOUT",), ("ERROR",)):
        first.send("BLPOP", "k", 0)
        stage.wait_blocked(1)
        stage.note("unblocked", other.quietly("CLIENT", "UNBLOCK", ids[0], *how))
        first.read()
    stage.note("not blocked", other.quietly("CLIENT", "UNBLOCK", ids[1]))
    first.send("BLMOVE", "k", "j", "LEFT", "LEFT", 0)
    stage.wait_blocked(1)
    stage.note("unblocked", other.quietly("CLIENT", "UNBLOCK", ids[0], "TIMEOUT"))
    first.read()
    first("PING")


@scenarios
def a_watching_client_that_blocks_is_still_watching(stage: Stage) -> None:
    client, other = stage.clients("client", "other")
    client("WATCH", "w")
    client.send("BLPOP", "k", 0)
    stage.wait_blocked(1)
    other("SET", "w", "1")
    other("RPUSH", "k", "v")
    client.read()
    client("MULTI")
    client("PING")
    client("EXEC")


test_blocking = scenarios.test()
