"""EVAL and its family: conversions, errors, the sandbox, the libraries, the script cache; as Redis does it."""

from __future__ import annotations

import hashlib

import pytest

from tests.commands.differential import show
from tests.commands.scenario import Scenarios, Stage, each
from tests.commands.scripts import GROUPS, scripts
from tests.support.resp import Connection, ConnectionClosed, Reply
from tests.support.servers import Server

scenarios = Scenarios()


@pytest.mark.parametrize("protocol", [2, 3], ids=["resp2", "resp3"])
@pytest.mark.parametrize("group", GROUPS)
def test_scripts(group: str, protocol: int, oracle: Server, peer: Server) -> None:
    sides = [server.connect(protocol) for server in (oracle, peer)]
    for connection in sides:
        connection("FLUSHALL")
        connection("SCRIPT", "FLUSH")
    differences = []
    for script, words in scripts(group):
        expected, actual = (_eval(connection, script, words) for connection in sides)
        if expected != actual:
            command = show([b"EVAL", script.encode(), *map(str.encode, words)])
            differences.append(f"{command}\n  oracle: {expected!r}\n  peer:   {actual!r}")
    if differences:
        pytest.fail(f"{len(differences)} scripts differ\n" + "\n".join(differences), pytrace=False)


def _eval(connection: Connection, script: str, words: list[str]) -> Reply:
    try:
        return connection("EVAL", script, *words)
    except (ConnectionClosed, OSError) as error:
        return f"{type(error).__name__}: {error}"


@scenarios
def the_script_cache(stage: Stage) -> None:
    client, other = stage.clients("client", "other")
    sha = hashlib.sha1(b"return 1").hexdigest()
    client("EVALSHA", sha, 0)
    client("SCRIPT", "LOAD", "return 1")
    client("EVALSHA", sha, 0)
    other("EVALSHA", sha.upper(), 0)
    client("SCRIPT", "EXISTS", sha, sha.upper(), "0" * 40, "short", "")
    client("SCRIPT", "FLUSH")
    client("EVALSHA", sha, 0)
    client("EVAL", "return 1", 0)
    client("SCRIPT", "EXISTS", sha)
    client("EVALSHA", "short", 0)
    client("EVALSHA", "", 0)
    client("EVALSHA", sha)
    client("EVALSHA", sha, "x")
    client("EVALSHA", sha, 5)
    client("EVALSHA_RO", sha, 0)
    for mode in ("SYNC", "ASYNC", "NOPE", "SYNC ASYNC"):
        client("SCRIPT", "FLUSH", *mode.split())
    for command in each("LOAD | EXISTS | KILL | NOPE | DEBUG NOPE | HELP | LOAD return( | FLUSH x y z"):
        client("SCRIPT", *command.split())
    client("SCRIPT", "LOAD", "return (")
    client("SCRIPT", "LOAD", "")
    client("EVAL", "", 0)


@scenarios
def read_only_scripts_refuse_writes(stage: Stage) -> None:
    client = stage.client("client")
    client("SET", "k", "v")
    for script in each(
        """
        return redis.call('GET', KEYS[1]) | return redis.call('SET', KEYS[1], 'w')
        return redis.pcall('DEL', KEYS[1]) | return redis.call('PUBLISH', 'c', 'm')
        return redis.call('SORT', KEYS[1]) | return redis.call('SORT_RO', KEYS[1])
        return redis.call('GETEX', KEYS[1]) | return redis.call('EVAL', 'return 1', 0)
        return redis.call('SPOP', 'none')
        return redis.call('BITFIELD', KEYS[1], 'GET', 'u8', 0)
        """
    ):
        client("EVAL_RO", script, 1, "k")
    client("GET", "k")


@scenarios
def flags_on_the_first_line(stage: Stage) -> None:
    client = stage.client("client")
    for first_line in each(
        """
        #!lua | #!lua flags=no-writes | #!lua flags=allow-oom | #!lua flags=allow-stale,no-writes | #!lua flags=
        #!lua flags=nope | #!python | #! | #!lua name=x | #!lua flags=no-writes flags=allow-oom | #!lua nope
        #!lua flags=no-cluster | #!lua flags=allow-cross-slot-keys | #! lua
        """
    ):
        client("EVAL", f"{first_line}\nreturn redis.call('SET', 'k', 'v')", 0)
        client("EVAL", f"{first_line}\nreturn redis.call('GET', 'k')", 0)
    client("EVAL", "#!lua", 0)
    client("EVAL", "#!lua\nreturn nope", 0)
    client("EVAL_RO", "#!lua\nreturn redis.call('GET', 'k')", 0)
    client("EVAL_RO", "#!lua flags=no-writes\nreturn redis.call('GET', 'k')", 0)


@scenarios
def a_script_that_fails_keeps_what_it_did(stage: Stage) -> None:
    client = stage.client("client")
    client("EVAL", "redis.call('SET', 'k', 'kept') redis.call('NOSUCH') redis.call('SET', 'k', 'never')", 0)
    client("GET", "k")
    client("EVAL", "redis.call('SET', 'k', 'twice') error('stop')", 0)
    client("GET", "k")


@scenarios
def a_script_works_in_the_callers_database_and_leaves_it(stage: Stage) -> None:
    client = stage.client("client")
    client("SELECT", 3)
    client("EVAL", "redis.call('SET', 'k', 'three') redis.call('SELECT', 4) return redis.call('SET', 'k', 'four')", 0)
    client("GET", "k")
    client("SELECT", 4)
    client("GET", "k")


@scenarios
def globals_do_not_leak_between_scripts(stage: Stage) -> None:
    client = stage.client("client")
    client("EVAL", "local t = setmetatable({}, {__index = function() return 'x' end}) return t.any", 0)
    client("EVAL", "table.x = 1", 0)
    client("EVAL", "return table.x", 0)
    client("EVAL", "redis.setresp(3) return 1", 0)
    client("HSET", "h", "f", "v")
    client("EVAL", "return #redis.call('HGETALL', 'h')", 0)
    client("EVAL", "math.randomseed(7) return {math.random(1000), math.random(1000), math.random(1000)}", 0)
    client("EVAL", "return {math.random(1000), math.random(1000)}", 0)
    client("EVAL", "return {math.random(1000), math.random(1000)}", 0)


@scenarios
def the_resp_version_of_a_script_is_its_own(stage: Stage) -> None:
    client = stage.client("client")
    client("HSET", "h", "f", "v")
    client("EVAL", "redis.setresp(3) return redis.call('HGETALL', 'h')", 0)
    client("HGETALL", "h")
    client("EVAL", "return redis.call('HGETALL', 'h')", 0)


@scenarios.not_yet("monitor")
def monitoring_is_not_for_scripts(stage: Stage) -> None:
    stage.client("client")("EVAL", "return redis.call('MONITOR')", 0)


test_scripting = scenarios.test()
