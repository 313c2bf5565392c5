"""What a server says of itself and of its commands: COMMAND, INFO, CONFIG, SLOWLOG."""

from __future__ import annotations

from typing import Any

import pytest

from tests.commands.compare import pairs
from tests.commands.generators import FAMILIES
from tests.commands.not_yet import is_not_yet
from tests.commands.scenario import Scenarios, Stage, each
from tests.support.servers import Server

scenarios = Scenarios()

COMMANDS = sorted({name for family in FAMILIES.values() for name in family.names})
OF_LATER_VERSIONS = ("client|no-touch", "client|setinfo")


def test_the_command_table(oracle: Server, peer: Server) -> None:
    """Name, arity, flags, keys, categories and subcommands of every command that the generators draw."""
    tables = []
    for server in (oracle, peer):
        with server.connect() as connection:
            tables.append({name: _row(connection("COMMAND", "INFO", name)[0]) for name in COMMANDS})
    different = [
        f"{name}: {tables[0][name]} != {tables[1][name]}" for name in COMMANDS if tables[0][name] != tables[1][name]
    ]
    if different:
        pytest.fail("\n".join(different), pytrace=False)


def test_the_version_and_the_group_of_every_command(oracle: Server, peer: Server) -> None:
    """Of COMMAND DOCS, whose other words are each server's own."""
    origins = []
    for server in (oracle, peer):
        with server.connect(protocol=3) as connection:
            origins.append({name: _origin(connection("COMMAND", "DOCS", name)) for name in COMMANDS})
    different = [name for name in COMMANDS if origins[0][name] != origins[1][name]]
    assert different == [], [(origins[0][name], origins[1][name]) for name in different]


def _origin(docs: Any) -> Any:
    return [(name, [(field, text) for field, text in doc if field in (b"since", b"group")]) for name, doc in docs]


def _row(reply: Any) -> Any:
    if not isinstance(reply, list):
        return reply
    name, arity, flags, first, last, step, categories, _, keys, subcommands = reply
    if name == b"select":
        arity = 2  # Peryton's takes a statement, too
    # Redis has notes in some key specifications, and hints to proxies in a list of its own; Peryton has neither.
    specs = [[(field, value) for field, value in pairs(spec) if field != b"notes"] for spec in keys]
    others = {row[0].decode() for row in subcommands}
    others = {other for other in others if not is_not_yet(other) and other not in OF_LATER_VERSIONS}
    return (name, arity, flags, first, last, step, categories, specs, others)


@scenarios
def the_keys_of_a_command(stage: Stage) -> None:
    client = stage.client("client")
    for command in each(
        """
        GET k | MGET a b c | MSET a 1 b 2 | SET k v | DEL a b | RENAME a b | BITOP AND d a b
        LMOVE a b LEFT LEFT | BLPOP a b 0 | BLMPOP 0 2 a b LEFT | ZUNION 2 a b | ZUNIONSTORE d 2 a b WEIGHTS 1 2
        ZINTERCARD 2 a b LIMIT 5 | SORT a BY w_* STORE d | SORT a STORE d STORE e | EVAL script 2 a b c
        EVAL script 0 a | EVAL script 9 a | COPY a b | SMOVE a b m | OBJECT ENCODING a
        MEMORY USAGE a | WATCH a b | PING | PUBLISH c m | SUBSCRIBE c | KEYS a | NOSUCH a | GET
        MSET a | LCS a b | ZDIFFSTORE d 1 a | SINTERCARD 1 a | LMPOP 2 a b LEFT | MULTI | EXEC | CONFIG GET a
        SSUBSCRIBE c
        """
    ):
        client("COMMAND", "GETKEYS", *command.split())


@scenarios
def the_keys_of_a_function(stage: Stage) -> None:
    stage.client("client")("COMMAND", "GETKEYS", "FCALL", "f", 1, "a", "b")


@scenarios.not_yet("x")
def the_keys_of_a_stream(stage: Stage) -> None:
    stage.client("client")("COMMAND", "GETKEYS", "XADD", "s", "*", "f", "v")


@scenarios
def unknown_commands_are_told_apart(stage: Stage) -> None:
    client = stage.client("client")
    client("COMMAND", "INFO", "nosuch", "get", "GET", "object|nosuch")
    client("COMMAND", "LIST", "FILTERBY", "PATTERN", "hincr*")
    client("COMMAND", "LIST", "FILTERBY", "ACLCAT", "nosuch")
    for command in each(
        "COMMAND NOPE | COMMAND COUNT x | COMMAND LIST NOPE | COMMAND LIST FILTERBY x | COMMAND DOCS nosuch"
    ):
        client(*command.split())


@scenarios
def info_has_sections_and_counts_keys(stage: Stage) -> None:
    client = stage.client("client")
    client("SET", "a", "1")
    client("SET", "b", "1", "EX", 1000)
    client("SELECT", 3)
    client("SADD", "t", "x")
    # Redis counts errors under any bytes that a script, perhaps of another test, began its error with.
    whole = bytes(client.quietly("INFO")).removeprefix(b"txt:").decode(errors="replace")
    lines = whole.split("\r\n")
    stage.note("ends with a line break", whole.endswith("\r\n"))
    for section in ("Server", "Clients", "Memory", "Persistence", "Stats", "Replication", "CPU", "Keyspace"):
        stage.note(f"# {section}", f"# {section}" in lines)
    for line in lines:
        if line.startswith("db"):
            stage.note("keyspace", line.rpartition(",")[0])
    fields = {line.partition(":")[0] for line in lines}
    for field in each(
        """
        redis_version | redis_mode | os | arch_bits | process_id | run_id | tcp_port | uptime_in_seconds
        connected_clients | blocked_clients | used_memory | used_memory_human | used_memory_rss
        used_memory_peak | maxmemory | maxmemory_policy | loading | rdb_changes_since_last_save | aof_enabled
        total_connections_received | total_commands_processed | instantaneous_ops_per_sec | expired_keys
        evicted_keys | keyspace_hits | keyspace_misses | pubsub_channels | role | connected_slaves
        used_cpu_sys | used_cpu_user
        """
    ):
        stage.note(field, field in fields)
    for arguments in ("keyspace", "KEYSPACE", "nothing", "keyspace nothing"):
        reply = bytes(client.quietly("INFO", *arguments.split())).removeprefix(b"txt:").decode()
        stage.note(arguments, [line.rpartition(",")[0] or line for line in reply.split("\r\n")])


@scenarios
def hits_and_misses_are_counted(stage: Stage) -> None:
    client = stage.client("client")
    client("CONFIG", "RESETSTAT")
    client("SET", "k", "v")
    for command in each(
        "GET k | GET none | MGET k none | EXISTS k none | HGET none f | SET k w | TTL k | TYPE none | STRLEN k"
    ):
        client(*command.split())
    reply = bytes(client.quietly("INFO", "stats")).decode(errors="replace")
    for line in reply.split("\r\n"):
        if line.startswith("keyspace_"):
            stage.note("stats", line)


@scenarios
def settings_are_read_and_changed(stage: Stage) -> None:
    client = stage.client("client")
    for name, value in {
        "maxmemory-policy": "allkeys-lru",
        "maxmemory": "100mb",
        "timeout": "1000",
        "hash-max-listpack-entries": "5",
        "set-max-intset-entries": "5",
        "zset-max-listpack-value": "5",
        "slowlog-log-slower-than": "1000000",
        "slowlog-max-len": "5",
        "lua-time-limit": "4000",
        "proto-max-bulk-len": "512mb",
    }.items():
        before = client.quietly("CONFIG", "GET", name)
        client("CONFIG", "SET", name, value)
        client("CONFIG", "GET", name)
        client("CONFIG", "SET", name, "nonsense")
        client("CONFIG", "GET", name.upper())
        if isinstance(before, list) and before:
            client.quietly("CONFIG", "SET", name, before[-1][1] if isinstance(before[-1], tuple) else before[-1])
    for command in each(
        """
        GET nosuch | GET | SET nosuch 1 | SET maxmemory | SET maxmemory 0 nosuch 1 | SET timeout 0 timeout 0
        NOPE | GET timeout maxmemory | GET databases | GET save | GET appendonly | RESETSTAT x
        """
    ):
        client("CONFIG", *command.split())


@scenarios
def the_slow_log(stage: Stage) -> None:
    client = stage.client("client")
    client("CONFIG", "SET", "slowlog-log-slower-than", 0)
    client("SLOWLOG", "RESET")
    client("SET", "k", "v" * 300)
    client("RPUSH", "l", *range(50))
    client("CONFIG", "SET", "slowlog-log-slower-than", 10_000)
    for entry in client.quietly("SLOWLOG", "GET", 10):
        number, _, micros, arguments, address, name = entry
        stage.note("entry", (type(number), micros >= 0, arguments, b":" in address, name))
    for command in each("LEN | GET 1 x | GET -2 | GET x | NOPE | RESET | LEN | GET"):
        client("SLOWLOG", *command.split())


@scenarios
def wrong_arguments_to_server_commands(stage: Stage) -> None:
    client = stage.client("client")
    for command in each(
        """
        DBSIZE x | FLUSHALL x | FLUSHDB x y | SWAPDB 0 | SWAPDB 0 99 | SWAPDB x 0 | SELECT | SELECT x
        SELECT 99999999999999999999 | PING a b | ECHO | TIME x | ROLE x | LASTSAVE x | WAIT x 0 | WAIT 0 -1
        WAIT 0 x | DEBUG NOPE | DEBUG | SHUTDOWN NOPE | MEMORY NOPE | OBJECT NOPE k
        READONLY | CLUSTER INFO | ASKING | RESET x | COMMAND x
        """
    ):
        client(*command.split())


@scenarios.not_yet("replicaof")
def wrong_arguments_to_replicaof(stage: Stage) -> None:
    stage.client("client")("REPLICAOF", "x")


@scenarios.not_yet("latency")
def wrong_arguments_to_latency(stage: Stage) -> None:
    stage.client("client")("LATENCY", "NOPE")


test_server = scenarios.test()
