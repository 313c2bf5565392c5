"""Client-side caching: which keys are invalidated, when, and to whom."""

from tests.commands.scenario import Actor, Scenarios, Stage

scenarios = Scenarios()


def caching(stage: Stage, *options: str) -> tuple[Actor, Actor]:
    cache, other = stage.client("cache", protocol=3), stage.client("other")
    cache("CLIENT", "TRACKING", "ON", *options)
    return cache, other


@scenarios.not_yet("client|tracking")
def a_key_that_was_read_is_invalidated_once(stage: Stage) -> None:
    cache, other = caching(stage)
    other("MSET", "a", "1", "b", "2")
    cache("GET", "a")
    other("SET", "a", "2")
    other("SET", "a", "3")
    other("SET", "b", "3")
    cache.read()
    cache.hears_nothing()
    cache("GET", "a")
    other("DEL", "a")
    cache.read()
    cache("CLIENT", "TRACKINGINFO")


@scenarios.not_yet("client|tracking")
def ones_own_writes_invalidate_unless_told_not_to(stage: Stage) -> None:
    for options in ((), ("NOLOOP",)):
        cache, _ = caching(stage, *options)
        cache("GET", "k")
        cache("SET", "k", "1")
        cache.hears_nothing()
        cache("CLIENT", "TRACKING", "OFF")


@scenarios.not_yet("client|tracking")
def broadcasting_by_prefix(stage: Stage) -> None:
    cache, other = caching(stage, "BCAST", "PREFIX", "user:", "PREFIX", "item:")
    for key in ("user:1", "item:2", "other:3"):
        other("SET", key, "v")
    cache.read(2)
    cache.hears_nothing()
    cache("CLIENT", "TRACKINGINFO")


@scenarios.not_yet("client|tracking")
def opting_in_and_out(stage: Stage) -> None:
    cache, other = caching(stage, "OPTIN")
    cache("GET", "a")
    cache("CLIENT", "CACHING", "YES")
    cache("GET", "b")
    other("MSET", "a", "1", "b", "2")
    cache.read()
    cache.hears_nothing()
    cache("CLIENT", "TRACKING", "OFF")
    cache("CLIENT", "TRACKING", "ON", "OPTOUT")
    cache("CLIENT", "CACHING", "NO")
    cache("GET", "a")
    cache("GET", "b")
    other("MSET", "a", "2", "b", "3")
    cache.read()
    cache.hears_nothing()


@scenarios.not_yet("client|tracking")
def emptying_the_keyspace_invalidates_everything(stage: Stage) -> None:
    cache, other = caching(stage)
    cache("GET", "a")
    other("FLUSHALL")
    cache.read()


@scenarios.not_yet("client|tracking")
def an_expired_key_is_invalidated(stage: Stage) -> None:
    cache, other = caching(stage)
    other("SET", "k", "v", "PX", 20)
    cache("GET", "k")
    cache.read()


@scenarios.not_yet("client|tracking")
def options_that_do_not_go_together(stage: Stage) -> None:
    client = stage.client("client", protocol=3)
    for options in (
        *(
            "ON PREFIX a",
            "ON BCAST OPTIN",
            "ON OPTIN OPTOUT",
            "ON REDIRECT 999999",
            "ON REDIRECT x",
            "ON NOPE",
            "MAYBE",
        ),
        *("ON BCAST PREFIX a PREFIX ab", "ON BCAST PREFIX a", "ON", "OFF", "ON OPTIN", "ON OPTOUT", "OFF"),
    ):
        client("CLIENT", "TRACKING", *options.split())


test_tracking = scenarios.test()
