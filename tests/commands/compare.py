"""Decides whether two servers answered alike: exactly, except where Redis promises less.

What is promised less, and how it is compared here:

* the order of members, fields and keys of unordered collections: as multisets;
* draws at random: each server's draw must come from what the command before it
  in the same step listed on that server, and be of the same size and type;
* remaining and absolute times of relative expires: within `TIME_TOLERANCE_S`;
* sizes, identities, clocks and versions: by type only.

Types are always exact, and so is the text of every error.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

from tests.commands.generators.script import unwrap
from tests.support.resp import Error, Map, Reply, Simple

TIME_TOLERANCE_S = 3
COMPARES_ENCODINGS = os.environ.get("PERYTON_ENCODINGS", "1") != "0"
"""A peer whose encodings have other names can still be judged by everything else."""

Rule = Callable[[list[bytes], Reply, Reply, Reply, Reply], bool]
"""(command, the two replies, the two replies to the command before) -> alike?"""

SORTS = ("sort", "sort_ro")
ZSET_ENCODINGS = {b"listpack", b"skiplist"}
"""Redis's SORT makes a skip list of a sorted set that it reads, which Peryton's does not: after one, both are right."""

QUEUED = Simple(b"QUEUED")
ENDS_MULTI = ("exec", "discard", "reset")


class Comparer:
    """Compares the replies to one sequence of commands, in order."""

    def __init__(self) -> None:
        self._queued: list[list[bytes]] | None = None
        self._before: tuple[Reply, Reply] = (None, None)
        self._sorted = False

    def alike(self, command: list[bytes], left: Reply, right: Reply) -> bool:
        whole, command = command, unwrap(command)
        name = command_name(command)
        queued = self._queued or []
        if left == QUEUED:
            self._queued = [*queued, command]
        elif name in ENDS_MULTI and not _arity_error(left):
            self._queued = None
        if name == "exec" and _same_shape(left, right, len(queued)):
            inner = Comparer()
            inner._sorted = self._sorted
            return all(inner.alike(*answer) for answer in zip(queued, left, right))
        if name == "command" and len(command) == 1:
            return type(left) is type(right)
        self._sorted |= name in SORTS
        if self._sorted and name == "object" and {left, right} == ZSET_ENCODINGS:
            return True
        result = left == right or _rule(command, name)(command, left, right, *self._before)
        if name == "lcs" and command is not whole:
            # Its map went through a Lua table, which has no order.
            result = result or unordered_pairs(command, left, right)
        self._before = (left, right)
        return bool(result)

    def alike_streams(self, command: list[bytes], left: list[Reply], right: list[Reply]) -> bool:
        """The same for a command that may answer with any number of replies and messages."""
        if len(left) != len(right):
            return False
        if all([self.alike(command, ours, theirs) for ours, theirs in zip(left, right)]):
            return True
        name = command_name(command)
        if name.endswith("unsubscribe") and len(command) == 1:
            # From everything, in any order; the counts go down one by one all the same.
            return multiset(r[:2] for r in left) == multiset(r[:2] for r in right) and _last(left) == _last(right)
        # One message for each matching pattern, in any order; the reply comes last.
        return name in ("publish", "spublish") and multiset(left) == multiset(right) and left[-1:] == right[-1:]


def command_name(command: list[bytes]) -> str:
    return command[0].decode(errors="replace").lower() if command else ""


def _last(replies: list[Any]) -> list[Any]:
    return [reply[-1] for reply in replies]


def _arity_error(reply: Reply) -> bool:
    return isinstance(reply, Error) and reply.startswith(b"ERR wrong number of arguments")


def _same_shape(left: Reply, right: Reply, size: int) -> bool:
    return type(left) is list and type(right) is list and len(left) == len(right) == size


def _rule(command: list[bytes], name: str) -> Rule:
    if len(command) > 1 and name in CONTAINERS:
        name = f"{name} {command[1].decode(errors='replace').lower()}"
        if name.endswith(" help") and len(command) == 2:
            return helped
    return RULES.get(name, exact)


# Rules


def exact(_: list[bytes], left: Reply, right: Reply, *__: Reply) -> bool:
    return bool(left == right)


def unordered(_: list[bytes], left: Reply, right: Reply, *__: Reply) -> bool:
    return _collection(left, right) and multiset(left) == multiset(right)


def unordered_pairs(_: list[bytes], left: Reply, right: Reply, *__: Reply) -> bool:
    return _collection(left, right) and multiset(pairs(left)) == multiset(pairs(right))


def same_type(_: list[bytes], left: Reply, right: Reply, *__: Reply) -> bool:
    return type(left) is type(right) and not isinstance(left, Error)


def near_time(command: list[bytes], left: Reply, right: Reply, *__: Reply) -> bool:
    if type(left) is not int or type(right) is not int or left < 0 or right < 0:
        return bool(left == right)
    unit = 1000 if command_name(command).startswith("p") else 1
    return abs(left - right) <= TIME_TOLERANCE_S * unit


def same_types_inside(_: list[bytes], left: Reply, right: Reply, *__: Reply) -> bool:
    return _collection(left, right) and len(left) == len(right) and [*map(type, left)] == [*map(type, right)]


def drawn(command: list[bytes], left: Reply, right: Reply, left_from: Reply, right_from: Reply) -> bool:
    """A draw at random: each server from its own collection, alike in size and type."""
    if type(left) is not type(right):
        return False
    if not isinstance(left_from, list) or not isinstance(right_from, list):
        return unordered(command, left, right)  # a draw of everything
    if not isinstance(left, list):
        return type(left) is bytes and left in left_from and right in right_from
    of_pairs = command_name(command) in ("hrandfield", "zrandmember")
    sides = [(left, left_from), (right, right_from)]
    if len(command) > 3:  # WITHVALUES or WITHSCORES
        chosen = [(pairs(reply), pairs(source)) for reply, source in sides]
    else:
        chosen = [(reply, [key for key, _ in pairs(source)] if of_pairs else source) for reply, source in sides]
    distinct = not command[2].startswith(b"-")
    return len(left) == len(right) and all(_drawn_from(source, members, distinct) for members, source in chosen)


def _drawn_from(source: list[Any], members: list[Any], distinct: bool) -> bool:
    counts = multiset(members)
    return counts.keys() <= multiset(source).keys() and (not distinct or max(counts.values(), default=1) == 1)


def scanned(command: list[bytes], left: Reply, right: Reply, *_: Reply) -> bool:
    """A scan run to its end: the same elements, each at least once."""
    if type(left) is not list or type(right) is not list or len(left) != 2 or left[0] != right[0]:
        return bool(left == right)
    paired = command_name(command) in ("hscan", "zscan")
    sides = [pairs(reply[1]) if paired else reply[1] for reply in (left, right)]
    return multiset(sides[0]).keys() == multiset(sides[1]).keys()


def sorted_alike(command: list[bytes], left: Reply, right: Reply, source_type: Reply, _: Reply) -> bool:
    """SORT, where BY leaves the order open: equal texts, or a set that is not sorted at all."""
    options = [argument.upper() for argument in command[2:]]
    if b"BY" not in options or not _collection(left, right) or len(left) != len(right):
        return bool(left == right)
    pattern = command[2:][len(options) - 1 - options[::-1].index(b"BY") + 1]
    # Without the type, which comes from the command before, the source may be a set.
    has_order = source_type in (Simple(b"list"), Simple(b"zset"), Simple(b"none"))
    open_order = b"ALPHA" in options if b"*" in pattern else not has_order
    if not open_order:
        return bool(left == right)
    width = max(1, options.count(b"GET"))
    rows = [Counter(repr(side[at : at + width]) for at in range(0, len(side), width)) for side in (left, right)]
    return b"LIMIT" in options or rows[0] == rows[1]


def helped(_: list[bytes], left: Reply, right: Reply, *__: Reply) -> bool:
    """HELP: lines of status, of which the first names the command; the others are the server's own."""
    lines = type(left) is list and type(right) is list and all(type(line) is Simple for line in left + right)
    return lines and bool(left[0] == right[0]) and len(right) > 1


def greeted(_: list[bytes], left: Reply, right: Reply, *__: Reply) -> bool:
    """HELLO: its identity may be the server's own, its fields and types may not."""
    if not _collection(left, right):
        return bool(left == right)
    own = (b"server", b"version", b"id")
    sides = [[(key, type(value) if key in own else value) for key, value in pairs(reply)] for reply in (left, right)]
    return bool(sides[0] == sides[1])


# Parts


def pairs(reply: Reply) -> list[tuple[Any, Any]]:
    """The pairs of a map, of an array of pairs or of a flat array."""
    if isinstance(reply, Map):
        return list(reply)
    if reply and all(type(item) is list and len(item) == 2 for item in reply):
        return [(key, value) for key, value in reply]
    return list(zip(reply[::2], reply[1::2]))


def multiset(items: Iterable[Any]) -> Counter[str]:
    """Items counted by what they look like, which tells the types apart too."""
    return Counter(map(repr, items))


def _collection(left: Reply, right: Reply) -> bool:
    return isinstance(left, list) and type(left) is type(right)


def listed(command: list[bytes], left: Reply, right: Reply, *_: Reply) -> bool:
    """FUNCTION LIST: libraries in any order, and the functions of each."""
    if not _collection(left, right):
        return bool(left == right)
    sides = [
        multiset(
            [(key, sorted(map(repr, value))) if key == b"functions" else (key, value) for key, value in pairs(library)]
            for library in reply
        )
        for reply in (left, right)
    ]
    return sides[0] == sides[1]


def loaded(command: list[bytes], left: Reply, right: Reply, *_: Reply) -> bool:
    """FUNCTION LOAD and RESTORE: of several names that are taken, any may be named."""
    kinds = [
        [what for what in (b"ERR Function ", b"ERR Library ") if isinstance(side, Error) and side.startswith(what)]
        for side in (left, right)
    ]
    return kinds[0] == kinds[1] != [] and all(side.endswith(b" already exists") for side in (left, right))


CONTAINERS = ("function", "object", "pubsub", "client", "command", "config", "memory", "script", "slowlog")

RULES: dict[str, Rule] = {
    **dict.fromkeys(("smembers", "sinter", "sunion", "sdiff", "keys", "hkeys", "hvals"), unordered),
    **dict.fromkeys(("pubsub channels", "pubsub shardchannels", "command list"), unordered),
    **dict.fromkeys(("hgetall", "config get"), unordered_pairs),
    **dict.fromkeys(("ttl", "pttl", "expiretime", "pexpiretime"), near_time),
    **dict.fromkeys(("object idletime", "object refcount", "memory usage", "lastsave"), same_type),
    **dict.fromkeys(("client id", "client info", "client list", "command count", "slowlog len"), same_type),
    "function list": listed,
    **dict.fromkeys(("function load", "function restore"), loaded),
    "function dump": same_type,
    **dict.fromkeys(("time", "role"), same_types_inside),
    **dict.fromkeys(("randomkey", "spop", "srandmember", "hrandfield", "zrandmember"), drawn),
    **dict.fromkeys(("scan", "hscan", "sscan", "zscan"), scanned),
    **dict.fromkeys(("sort", "sort_ro"), sorted_alike),
    "hello": greeted,
    **({} if COMPARES_ENCODINGS else {"object encoding": same_type}),
}
