"""Reads and compares the whole content of two servers' keyspaces."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tests.commands.compare import COMPARES_ENCODINGS, ZSET_ENCODINGS, multiset, near_time, pairs
from tests.commands.generators.values import ALL_KEYS
from tests.support.resp import Command, Connection, Reply, Simple

_READERS: dict[bytes, tuple[str | bytes, ...]] = {
    b"string": ("GET", b"?"),
    b"list": ("LRANGE", b"?", "0", "-1"),
    b"hash": ("HGETALL", b"?"),
    b"set": ("SMEMBERS", b"?"),
    b"zset": ("ZRANGE", b"?", "0", "-1", "WITHSCORES"),
}


@dataclass(frozen=True)
class Entry:
    """What one server says of one key."""

    type: Reply
    encoding: Reply
    pttl: Reply
    content: Reply

    def differences(self, other: Entry, was_sorted: bool) -> list[str]:
        """The names of the fields that differ."""
        exact = ("type", "encoding") if COMPARES_ENCODINGS else ("type",)
        names = [name for name in exact if getattr(self, name) != getattr(other, name)]
        if was_sorted and {self.encoding, other.encoding} == ZSET_ENCODINGS:
            names.remove("encoding")
        if not near_time([b"PTTL"], self.pttl, other.pttl):
            names.append("pttl")
        if not self._same_content(other):
            names.append("content")
        return names

    def _same_content(self, other: Entry) -> bool:
        ours, theirs = self.content, other.content
        if ours == theirs:
            return True
        if type(ours) is not type(theirs) or not isinstance(ours, list):
            return False
        if self.type == Simple(b"hash"):
            return multiset(pairs(ours)) == multiset(pairs(theirs))
        # A set of integers comes back in ascending order from both; other sets in any.
        return self.type == Simple(b"set") and self.encoding != b"intset" and multiset(ours) == multiset(theirs)


State = dict[tuple[int, Any], Any]
"""(database, key) to its Entry, and (database, None) to its DBSIZE and key names."""


def read_state(connection: Connection, databases: int) -> State:
    """Everything in the first so many databases; leaves the connection in database 0."""
    state: State = {}
    for database in range(databases):
        connection("SELECT", database)
        # Touch every key, so that the expired ones are gone before they are counted.
        *_, keys, size = connection.pipeline([("EXISTS", *ALL_KEYS), ("KEYS", "*"), ("DBSIZE",)])
        sound = type(keys) is list and all(type(key) is bytes for key in keys)
        names = sorted(keys) if sound else []
        state[database, None] = (size, names if sound else keys)
        for name, entry in zip(names, _entries(connection, names)):
            state[database, name] = entry
    connection("SELECT", 0)
    return state


def _entries(connection: Connection, names: list[bytes]) -> list[Entry]:
    types = connection.pipeline([("TYPE", name) for name in names])
    commands: list[Command] = []
    for name, kind in zip(names, types):
        reader = [name if word == b"?" else word for word in _READERS.get(bytes(kind), ("ECHO", "unknown type"))]
        commands += [("OBJECT", "ENCODING", name), ("PTTL", name), reader]
    replies = connection.pipeline(commands)
    return [Entry(kind, *replies[3 * at : 3 * at + 3]) for at, kind in enumerate(types)]


def state_differences(left: State, right: State, was_sorted: bool = False) -> list[tuple[str, str]]:
    """For each thing in which the two keyspaces differ, what each of them says.

    After a SORT a sorted set may have either encoding.
    """
    lines = []
    for place in sorted(left.keys() | right.keys(), key=repr):
        ours, theirs = left.get(place), right.get(place)
        if isinstance(ours, Entry) and isinstance(theirs, Entry):
            for name in ours.differences(theirs, was_sorted):
                lines.append(_line(f"{_label(place)} {name}", getattr(ours, name), getattr(theirs, name)))
        elif ours != theirs:
            lines.append(_line(_label(place), ours, theirs))
    return lines


def _line(what: str, ours: Any, theirs: Any) -> tuple[str, str]:
    return f"{what}: {ours!r}", f"{what}: {theirs!r}"


def _label(place: tuple[int, Any]) -> str:
    database, key = place
    return f"db {database} " + ("size and keys" if key is None else f"key {key!r}")
