"""What servers are filled with: keys of 16 bytes, and a table of three integers."""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from peryton.bench.load import Load, send
from peryton.bench.peers import OURS, Server
from peryton.bench.runner import Data, Scale, check

#: Keys are 16 bytes: a prefix that belongs to the data set, and so many digits.
DIGITS = 12
_FILL = Load((), connections=4, pipeline=64)
_ROWS_AT_ONCE = 100
_TABLE = "CREATE TABLE bench (id INTEGER, a INTEGER, b INTEGER, PRIMARY KEY (id) USING HASH)"
#: Made after the rows.
INDEXES = ("CREATE INDEX bench_a ON bench (a) USING BTREE", "CREATE INDEX bench_b ON bench (b) USING BTREE")
#: What is filled between two words of progress.
_PART = 250_000


@dataclass(frozen=True)
class Strings:
    """Keys of one length of value."""

    prefix: str
    value: str

    def key(self) -> str:
        """The key with its placeholder."""
        return f"{self.prefix}:%key%"

    def fields(self, keys: int) -> tuple[str, ...]:
        """A random key."""
        return (f"key=uniform:0:{keys}:{DIGITS}",)

    def data(self) -> Data:
        """All keys, so that every GET is a hit."""
        return Data(f"strings-{self.prefix}", self.fill)

    def fill(self, server: Server, scale: Scale, keys: int | None = None) -> None:
        """Sets each key once."""
        self.fill_part(server, 0, keys or scale.keys)

    def fill_part(self, server: Server, first: int, count: int) -> None:
        """Sets `count` keys from number `first` on."""
        fields = (f"key=sequence:{first}:{DIGITS}",)
        check(
            send(
                replace(_FILL, commands=(("SET", self.key(), self.value),), fields=fields), server.port, requests=count
            )
        )


#: redis-benchmark's own: 3 bytes.
SMALL = Strings("key", "xxx")
USUAL = Strings("k32", "x" * 32)


def fill_table(server: Server, rows: int) -> None:
    """Rows (1 .., random, random), a hundred a statement."""
    server.command("SQL", _TABLE)
    _fill_rows(server, 0, rows, rows)


def _fill_rows(server: Server, first: int, count: int, rows: int) -> None:
    """Rows with the keys first + 1 .. first + count; the others' values lie below `rows`."""
    whole = count - count % _ROWS_AT_ONCE
    for at_once, begin, times in (
        (_ROWS_AT_ONCE, first + 1, whole // _ROWS_AT_ONCE),
        (1, first + whole + 1, count - whole),
    ):
        values = ", ".join(["(?, ?, ?)"] * at_once)
        command = ("SQL", f"INSERT INTO bench VALUES {values}", *(("%id%", "%n%", "%n%") * at_once))
        load = Load((command,), (f"id=sequence:{begin}", f"n=uniform:0:{max(rows, 1)}"), connections=4, pipeline=4)
        if times:
            check(send(load, server.port, requests=times, seed=begin))


def fill_stock(server: Server, count: int, tell: Callable[[str], None]) -> None:
    """So many keys, and on Peryton as many rows with two indexes beside the primary key."""
    for first, part in _parts(count):
        tell(f"{server.name}: {millions(first)} of {millions(count)} keys")
        USUAL.fill_part(server, first, part)
    if server.name != OURS:
        return
    server.command("SQL", _TABLE)
    for first, part in _parts(count):
        tell(f"{server.name}: {millions(first)} of {millions(count)} rows")
        _fill_rows(server, first, part, count)
    for index in INDEXES:
        tell(f"{server.name}: {index}")
        server.command("SQL", index)


def _parts(count: int) -> Iterator[tuple[int, int]]:
    for first in range(0, count, _PART):
        yield first, min(_PART, count - first)


def millions(count: int) -> str:
    """A count in words."""
    return re.sub(r"\.0$", "", f"{count / 1e6:.1f}") + " M" if count >= 100_000 else str(count)
