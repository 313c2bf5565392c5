"""Publish and subscribe between clients: delivery, order, counts, and what a subscriber may do."""

from tests.commands.scenario import Scenarios, Stage, each

scenarios = Scenarios()


@scenarios
def a_message_reaches_every_subscriber_once_for_each_way(stage: Stage) -> None:
    one, two, publisher = stage.clients("one", "two", "publisher")
    one("SUBSCRIBE", "news")
    two("SUBSCRIBE", "news")
    two("PSUBSCRIBE", "n*")
    publisher("PUBLISH", "news", "first")
    publisher("PUBLISH", "notes", "second")
    publisher("PUBLISH", "other", "nobody")
    one.read()
    two.read(3)
    one.hears_nothing()


@scenarios
def messages_arrive_in_the_order_published(stage: Stage) -> None:
    reader, publisher = stage.clients("reader", "publisher")
    reader("SUBSCRIBE", "a", "b")
    reader.read()
    publisher.connection.pipeline([("PUBLISH", "ab"[number % 2], number) for number in range(50)])
    reader.read(50)


@scenarios
def subscribing_answers_once_for_each_channel(stage: Stage) -> None:
    client = stage.client("client")
    client("SUBSCRIBE", "a", "b", "a")
    client.read(2)
    client("PSUBSCRIBE", "a*", "?")
    client.read()
    client("UNSUBSCRIBE", "a", "nothing")
    client.read()
    client("UNSUBSCRIBE")
    client("PUNSUBSCRIBE", "a*")
    client("PUNSUBSCRIBE")
    client("UNSUBSCRIBE")
    client("PUNSUBSCRIBE")
    client("GET", "k")


@scenarios
def a_resp2_subscriber_may_do_little(stage: Stage) -> None:
    client = stage.client("client", protocol=2)
    client("SUBSCRIBE", "a")
    for command in each(
        """
        GET k | PUBLISH a x | MULTI | EXEC | HELLO 3 | PUBSUB NUMPAT | NOSUCH | GET | CLIENT ID | SELECT 1 | PING
        PING text | PSUBSCRIBE p* | SSUBSCRIBE s | SUNSUBSCRIBE s | PUNSUBSCRIBE p*
        """
    ):
        client(*command.split())
    client("UNSUBSCRIBE", "a")
    client("GET", "k")


@scenarios
def a_resp3_subscriber_may_do_everything(stage: Stage) -> None:
    client = stage.client("client", protocol=3)
    client("SUBSCRIBE", "a")
    for command in each("GET k | SET k v | PING | PING text | MULTI | GET k | EXEC | NOSUCH | PUBSUB NUMSUB a"):
        client(*command.split())
    client("PUBLISH", "a", "to myself")
    client.read()


@scenarios
def a_subscriber_leaves_by_reset_quit_or_going_away(stage: Stage) -> None:
    resets, quits, goes, publisher = stage.clients("resets", "quits", "goes", "publisher")
    for client in (resets, quits, goes):
        client("SUBSCRIBE", "a")
    publisher("PUBSUB", "NUMSUB", "a")
    resets("RESET")
    resets("GET", "k")
    quits("QUIT")
    quits.read()
    publisher("PUBSUB", "NUMSUB", "a")
    publisher("PUBLISH", "a", "x")
    goes.read()


@scenarios
def counts_of_channels_and_patterns(stage: Stage) -> None:
    one, two, asker = stage.clients("one", "two", "asker")
    one("SUBSCRIBE", "a", "b")
    one.read()
    two("SUBSCRIBE", "b")
    one("PSUBSCRIBE", "x*")
    two("PSUBSCRIBE", "x*", "y*")
    two.read()
    for command in each(
        """
        PUBSUB CHANNELS | PUBSUB CHANNELS a* | PUBSUB CHANNELS [ | PUBSUB NUMSUB | PUBSUB NUMSUB a b c b
        PUBSUB NUMPAT | PUBSUB SHARDCHANNELS | PUBSUB SHARDNUMSUB a | PUBLISH b x | PUBLISH xy z
        """
    ):
        asker(*command.split())


@scenarios
def sharded_channels_are_a_world_of_their_own(stage: Stage) -> None:
    reader, publisher = stage.clients("reader", "publisher")
    reader("SSUBSCRIBE", "a", "b")
    reader.read()
    reader("SUBSCRIBE", "a")
    publisher("SPUBLISH", "a", "sharded")
    publisher("PUBLISH", "a", "plain")
    reader.read(2)
    publisher("PUBSUB", "SHARDCHANNELS")
    publisher("PUBSUB", "SHARDNUMSUB", "a", "b", "c")
    publisher("PUBSUB", "CHANNELS")
    reader("SUNSUBSCRIBE", "a")
    publisher("SPUBLISH", "a", "nobody")
    reader("SUNSUBSCRIBE")
    reader("SUNSUBSCRIBE")


@scenarios
def publishing_in_a_transaction_waits_for_exec(stage: Stage) -> None:
    reader, publisher = stage.clients("reader", "publisher")
    reader("SUBSCRIBE", "a")
    publisher("MULTI")
    publisher("PUBLISH", "a", "one")
    publisher("PUBLISH", "a", "two")
    reader.hears_nothing()
    publisher("EXEC")
    reader.read(2)
    publisher("MULTI")
    publisher("PUBLISH", "a", "never")
    publisher("DISCARD")
    reader.hears_nothing()


@scenarios
def subscribing_in_a_transaction(stage: Stage) -> None:
    client, publisher = stage.clients("client", "publisher")
    client("MULTI")
    client("SUBSCRIBE", "a")
    client("PING")
    client("EXEC")
    publisher("PUBLISH", "a", "x")
    client.read()


@scenarios
def publishing_from_a_script(stage: Stage) -> None:
    reader, publisher = stage.clients("reader", "publisher")
    reader("SUBSCRIBE", "a")
    publisher("EVAL", "return {redis.call('PUBLISH', 'a', ARGV[1]), redis.call('PUBLISH', 'b', 'x')}", 0, "from Lua")
    reader.read()
    publisher("EVAL", "return redis.call('SUBSCRIBE', 'a')", 0)
    publisher("EVAL", "return redis.call('PSUBSCRIBE', 'a')", 0)
    publisher("EVAL", "return redis.call('PUBSUB', 'NUMPAT')", 0)


@scenarios
def channels_and_messages_are_bytes(stage: Stage) -> None:
    reader, publisher = stage.clients("reader", "publisher")
    reader("SUBSCRIBE", b"\x00\xff\r\n", "")
    reader.read()
    publisher("PUBLISH", b"\x00\xff\r\n", b"\r\n\x00")
    publisher("PUBLISH", "", "")
    publisher("PUBLISH", b"\x00\xff\r\n", b"x" * 100_000)
    reader.read(3)


@scenarios
def channels_have_no_database(stage: Stage) -> None:
    reader, publisher = stage.clients("reader", "publisher")
    reader("SELECT", 1)
    reader("SUBSCRIBE", "a")
    publisher("SELECT", 2)
    publisher("PUBLISH", "a", "x")
    reader.read()


@scenarios
def a_killed_subscriber_counts_no_more(stage: Stage) -> None:
    reader, publisher = stage.clients("reader", "publisher")
    reader("SUBSCRIBE", "a")
    publisher("CLIENT", "KILL", "TYPE", "pubsub")
    reader.read()
    publisher("PUBLISH", "a", "x")
    publisher("PUBSUB", "NUMSUB", "a")


@scenarios
def a_subscriber_that_pipelines(stage: Stage) -> None:
    client, publisher = stage.clients("client", "publisher")
    client.connection.send_all([("SUBSCRIBE", "a"), ("PING",), ("UNSUBSCRIBE", "a"), ("ECHO", "x"), ("SUBSCRIBE", "b")])
    client.read(5)
    publisher("PUBLISH", "b", "y")
    client.read()


test_pubsub = scenarios.test()
