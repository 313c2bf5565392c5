"""What a server knows of its clients: names, lists, kills, pauses, silences, protocol and identity."""

import re
from collections.abc import Collection

from tests.commands.scenario import Actor, Scenarios, Stage, each

scenarios = Scenarios()

COMPARED_FIELDS = ("name", "flags", "db", "sub", "psub", "ssub", "multi", "cmd", "user", "redir", "resp", "events")
LAYOUT_ONLY = re.compile(r"=\S*")


def listed(text: bytes, names: Collection[str | None]) -> list[str]:
    """Of the clients with these names, the fields that do not depend on the machine; in no promised order."""
    rows = [dict(field.split("=", 1) for field in line.split()) for line in text.decode().splitlines()]
    return sorted(
        " ".join(f"{field}={row.get(field)}" for field in COMPARED_FIELDS) for row in rows if row.get("name") in names
    )


def text_of(reply: bytes) -> bytes:
    """The text of a bulk or, in RESP3, of a verbatim string."""
    return bytes(reply).removeprefix(b"txt:")


@scenarios
def names(stage: Stage) -> None:
    client = stage.client("client")
    for name in ("plain", "", "with space", "new\nline", "\u00fc", "a" * 300, "!~"):
        client("CLIENT", "SETNAME", name)
        client("CLIENT", "GETNAME")
    client("RESET")
    client("CLIENT", "GETNAME")
    client("HELLO", 2, "SETNAME", "greeted")
    client("CLIENT", "GETNAME")
    client("HELLO", 2, "SETNAME", "not ok")


@scenarios
def ids_grow(stage: Stage) -> None:
    one, two = stage.clients("one", "two")
    stage.note("order", one.id() < two.id())
    stage.note("again", one.id() == one.id())
    one.quietly("RESET")
    stage.note("after reset", one.id() < two.id())


@scenarios
def the_list_shows_what_each_client_is_doing(stage: Stage) -> None:
    asker, waits, listens, queues, chooses = stage.clients("asker", "waits", "listens", "queues", "chooses")
    for client in (asker, waits, listens, queues, chooses):
        client("CLIENT", "SETNAME", client.name)
    waits.send("BLPOP", "k", 0)
    stage.wait_blocked(1)
    listens("SUBSCRIBE", "a", "b")
    listens.read()
    listens("PSUBSCRIBE", "p*")
    queues("WATCH", "k")
    queues("MULTI")
    queues("PING")
    chooses("SELECT", 3)
    chooses("NOSUCH")
    everyone: list[str | None] = [client.name for client in (asker, waits, listens, queues, chooses)]
    whole = text_of(asker.quietly("CLIENT", "LIST"))
    stage.note("list", listed(whole, everyone))
    # Fields of later versions may follow, as a client must expect.
    layout = LAYOUT_ONLY.sub("=", whole.decode().splitlines()[0])
    stage.note("layout", layout.partition(" lib-name=")[0])
    stage.note("by type", listed(text_of(asker.quietly("CLIENT", "LIST", "TYPE", "pubsub")), everyone))
    ids = [client.id() for client in (asker, chooses)]
    stage.note("by id", listed(text_of(asker.quietly("CLIENT", "LIST", "ID", *ids)), everyone))
    stage.note("info", listed(text_of(asker.quietly("CLIENT", "INFO")), everyone))


@scenarios
def a_reply_with_a_layout_is_verbatim_in_resp3(stage: Stage) -> None:
    client = stage.client("client")
    for command in (("CLIENT", "LIST"), ("CLIENT", "INFO"), ("INFO",), ("INFO", "server"), ("INFO", "nothing")):
        reply = client.quietly(*command)
        stage.note(" ".join(command), (type(reply).__name__, reply[:4] == b"txt:"))


@scenarios
def kill_by_every_filter(stage: Stage) -> None:
    killer = stage.client("killer")

    def victim(name: str, *setup: str) -> Actor:
        client = stage.client(name)
        for words in setup:
            client(*words.split())
        return client

    client = victim("by id")
    killer.together(("CLIENT", "KILL", "ID", client.id()))
    client.read()
    client = victim("by addr")
    killer.together(("CLIENT", "KILL", "ADDR", address(client)))
    client.read()
    client = victim("by the old form")
    killer.together(("CLIENT", "KILL", address(client)))
    client.read()
    client = victim("by type", "SUBSCRIBE a")
    killer("CLIENT", "KILL", "TYPE", "pubsub")
    client.read()
    client = victim("by two", "SUBSCRIBE a")
    killer.together(("CLIENT", "KILL", "TYPE", "normal", "ADDR", address(client)))
    client.hears_nothing()
    for wrong in each(
        """
        KILL | KILL ID | KILL ID x | KILL ID 0 | KILL TYPE nothing | KILL USER nobody | KILL SKIPME maybe
        KILL ADDR 1.2.3.4:5 | KILL 1.2.3.4:5 | KILL NOPE x | KILL LADDR 1.2.3.4:5 | KILL ID 1 ADDR
        KILL TYPE master
        """
    ):
        killer("CLIENT", *wrong.split())


def address(client: Actor) -> str:
    host, port = client.connection.socket.getsockname()
    return f"{host}:{port}"


@scenarios
def killing_oneself(stage: Stage) -> None:
    client = stage.client("client")
    client("CLIENT", "KILL", "ID", client.id())
    client = stage.client("once more")
    client("CLIENT", "KILL", "ID", client.id(), "SKIPME", "no")
    client.read()


@scenarios
def silence(stage: Stage) -> None:
    client = stage.client("client")
    client.send("CLIENT", "REPLY", "OFF")
    for word in ("SET k 1", "INCR k", "NOSUCH"):
        client.send(*word.split())
    client("CLIENT", "REPLY", "ON")
    client("GET", "k")
    client.send("CLIENT", "REPLY", "SKIP")
    client.send("INCR", "k")
    client("INCR", "k")
    client.send("CLIENT", "REPLY", "SKIP")
    client.send("CLIENT", "REPLY", "SKIP")
    client.send("INCR", "k")
    client("GET", "k")
    client("CLIENT", "REPLY", "NOPE")


@scenarios.not_yet("client|pause")
def a_pause_holds_writes_or_everything(stage: Stage) -> None:
    client, other = stage.clients("client", "other")
    other("CLIENT", "PAUSE", 100_000, "WRITE")
    client("GET", "k")
    client.send("SET", "k", "v")
    client.hears_nothing()
    other("CLIENT", "UNPAUSE")
    client.read()
    other("CLIENT", "PAUSE", 60)
    client("PING")
    other("CLIENT", "PAUSE", "abc")
    other("CLIENT", "PAUSE", -1)
    other("CLIENT", "PAUSE", 1, "NOPE")


@scenarios
def hello_changes_the_protocol(stage: Stage) -> None:
    client = stage.client("client", protocol=2)
    for command in each(
        """
        HSET h f v | HGETALL h | HELLO 3 | HGETALL h | GET nothing | BLPOP nothing 0.001 | ZADD z 1.5 a | ZSCORE z a
        SMEMBERS nothing | EXISTS h | HELLO 2 | HGETALL h | GET nothing | ZSCORE z a | HELLO | HELLO 3 | HELLO
        RESET | HGETALL h | HELLO 4 | HELLO 1 | HELLO x | HELLO 3 NOPE | HELLO 3 AUTH x | HELLO 3 AUTH default x
        HELLO 3 AUTH nobody x | HELLO 3 SETNAME | GET nothing
        """
    ):
        client(*command.split())


@scenarios
def reset_puts_everything_back(stage: Stage) -> None:
    client, other = stage.clients("client", "other")
    for command in each("SELECT 2 | CLIENT SETNAME x | CLIENT NO-EVICT on | WATCH k | MULTI | SET k v | RESET"):
        client(*command.split())
    for command in ("EXEC", "CLIENT GETNAME", "SET k v", "HGETALL k2"):
        client(*command.split())
    other("GET", "k")


@scenarios
def each_client_has_its_own_database(stage: Stage) -> None:
    one, two = stage.clients("one", "two")
    one("SELECT", 1)
    one("SET", "k", "1")
    two("GET", "k")
    two("SELECT", 1)
    two("GET", "k")
    two("SELECT", 15)
    two("SELECT", 16)
    two("GET", "k")


@scenarios
def quit_says_goodbye(stage: Stage) -> None:
    client = stage.client("client")
    client.connection.send_all([("SET", "k", "v"), ("QUIT",), ("SET", "k", "after")])
    client.read(3)
    stage.client("other")("GET", "k")


@scenarios.not_yet("monitor")
def a_monitor_sees_every_command(stage: Stage) -> None:
    monitor, client = stage.clients("monitor", "client")
    monitor("MONITOR")
    client("SET", "k", b'\x00 "quoted" \xff\r\n\\')
    client("SELECT", 2)
    client("EVAL", "return redis.call('GET', KEYS[1])", 1, "k")
    client("NOSUCH", "x")
    client("MULTI")
    client("PING")
    client("EXEC")
    client("AUTH", "secret")
    client("PING", "last")
    while True:
        line = bytes(monitor.connection.read())
        stage.note("monitor", re.sub(rb"^[0-9.]+ \[(\d+) [0-9.:]+\]|^[0-9.]+", rb"TIME [\1 ADDRESS]", line))
        if b'"last"' in line:
            break


@scenarios
def a_no_evict_client_and_other_small_switches(stage: Stage) -> None:
    client = stage.client("client")
    for command in each(
        """
        NO-EVICT ON | NO-EVICT OFF | NO-EVICT MAYBE | NO-EVICT | GETREDIR | TRACKINGINFO | CACHING YES | UNBLOCK 0
        UNBLOCK x | UNBLOCK 1 NOPE | NOPE | SETNAME | ID x
        LIST TYPE nothing | LIST ID | LIST ID x | LIST NOPE | INFO x | GETNAME x
        """
    ):
        client("CLIENT", *command.split())


@scenarios.not_yet("client|tracking")
def tracking_can_be_switched(stage: Stage) -> None:
    client = stage.client("client")
    client("CLIENT", "TRACKING", "OFF")
    client("CLIENT", "TRACKING", "MAYBE")


@scenarios
def limits_of_a_client_without_a_password(stage: Stage) -> None:
    client = stage.client("client")
    for command in ("AUTH x", "AUTH default x", "AUTH nobody x", "AUTH", "AUTH a b c"):
        client(*command.split())


test_clients = scenarios.test()
