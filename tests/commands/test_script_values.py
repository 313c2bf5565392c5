"""Scripts at random, beside Redis: the same comes back of values, errors and libraries, texts of errors included.

Environment:

``PERYTON_SCRIPTS``  how many scripts a run has (default 2500 for each protocol)
``PERYTON_SEED``     the first seed (default 1); a failure names its own
"""

from __future__ import annotations

import os
import re
from typing import Any

import pytest

from tests.commands.differential import show
from tests.commands.generators.lua import Generator, Script
from tests.support.resp import Connection, Map, Set
from tests.support.servers import Server

SCRIPTS = int(os.environ.get("PERYTON_SCRIPTS", "2500"))
FIRST_SEED = int(os.environ.get("PERYTON_SEED", "1"))
BATCH = 100
SHOWN = int(os.environ.get("PERYTON_SHOWN", "12"))
PREPARATION: list[tuple[Any, ...]] = [
    ("FLUSHALL",),
    ("HSET", "h", "f", "v"),
    ("SADD", "s", "a"),
    ("ZADD", "z", 1.5, "a"),
    ("SET", "str", "text"),
]


@pytest.mark.parametrize("protocol", [2, 3], ids=["resp2", "resp3"])
def test_scripts_at_random(protocol: int, oracle: Server, peer: Server) -> None:
    sides = [server.connect(protocol) for server in (oracle, peer)]
    differences = []
    for seed in range(FIRST_SEED, FIRST_SEED + max(1, SCRIPTS // BATCH)):
        generator = Generator(seed)
        batch = [generator.script() for _ in range(BATCH)]
        expected, actual = (_answers(connection, batch) for connection in sides)
        for (text, words), ours, theirs in zip(batch, expected, actual):
            if normal(ours) != normal(theirs):
                command = show([b"EVAL", text.encode(), *map(str.encode, words)])
                differences.append(f"seed {seed}: {command}\n  oracle: {ours!r}\n  peer:   {theirs!r}")
    if differences:
        lines = "\n".join(differences[:SHOWN])
        pytest.fail(f"{len(differences)} of {SCRIPTS} scripts differ\n{lines}", pytrace=False)


def _answers(connection: Connection, batch: list[Script]) -> list[Any]:
    """The replies to a batch, which begins with the same data and settings on both sides."""
    evals = [("EVAL", text, *words) for text, words in batch]
    replies = connection.pipeline([*PREPARATION, *evals, ("SCRIPT", "FLUSH")])
    return replies[len(PREPARATION) : -1]


EXCEPTIONS: list[tuple[bytes, bytes]] = [
    # What has no text is told with its address by one and without by the other.
    (rb"(function|userdata|table|thread)(: (0x[0-9a-f]+|\(nil\)|NULL|builtin.*?))?(?= script:|$)", rb"\1"),
    # LuaJIT does not tell that a value came from an index.
    (rb" field '\?' \(a (\w+) value\)", rb" a \1 value"),
    # NaN has a sign for C's printf, and none for LuaJIT.
    (rb"-nan", rb"nan"),
]
"""Patterns in texts, and what stands for them on both sides, where the two engines' Lua differs."""


def normal(reply: Any) -> Any:
    """A reply without what the two engines' Lua does differently."""
    if isinstance(reply, (Map, Set)):
        return type(reply)(sorted((normal(item) for item in reply), key=repr))
    if isinstance(reply, (list, tuple)):
        return type(reply)(normal(item) for item in reply)
    if isinstance(reply, bytes):
        text = bytes(reply)
        for pattern, stand_in in EXCEPTIONS:
            text = re.sub(pattern, stand_in, text, flags=re.DOTALL)
        return type(reply)(text)
    return reply
