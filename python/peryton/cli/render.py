"""Replies as redis-cli prints them, rows as a table."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rich import box
from rich.table import Table
from rich.text import Text

from peryton import Rows

ROWS_SHOWN_MAX = 1000
"""Most rows of a result that are printed."""


def reply_text(reply: Any) -> str:
    """A reply as redis-cli shows it."""
    return "\n".join(_lines(reply))


def _lines(reply: Any) -> Iterator[str]:
    """The lines of a reply; nested ones are indented behind their numbers."""
    if isinstance(reply, dict):
        yield from _aggregate([(key, value) for key, value in reply.items()], "#", "(empty hash)")
    elif isinstance(reply, list | tuple):
        yield from _aggregate([(None, item) for item in reply], ")", "(empty array)")
    else:
        yield _scalar(reply)


def _aggregate(items: list[tuple[Any, Any]], mark: str, empty: str) -> Iterator[str]:
    if not items:
        yield empty
    width = len(str(len(items)))
    for number, (key, value) in enumerate(items, 1):
        head = f"{number:>{width}}{mark} "
        if key is not None:
            head += f"{_scalar(key)} => "
        for line_number, line in enumerate(_lines(value)):
            yield (head if line_number == 0 else " " * len(head)) + line


def _scalar(reply: Any) -> str:
    if reply is None:
        return "(nil)"
    if isinstance(reply, bool):
        return "(true)" if reply else "(false)"
    if isinstance(reply, int):
        return f"(integer) {reply}"
    if isinstance(reply, float):
        return f"(double) {reply!r}"
    if isinstance(reply, Exception):
        return f"(error) {reply}"
    if isinstance(reply, bytes):
        return _quoted(reply)
    return str(reply)


_ESCAPED = {ord('"'): '\\"', ord("\\"): "\\\\", 10: "\\n", 13: "\\r", 9: "\\t", 7: "\\a", 8: "\\b"}


def _quoted(data: bytes) -> str:
    out = "".join(_ESCAPED.get(b) or (chr(b) if 32 <= b < 127 else f"\\x{b:02x}") for b in data)
    return f'"{out}"'


def rows_table(rows: Rows, *, limit: int = ROWS_SHOWN_MAX) -> Table:
    """Rows as a table; numbers stand to the right."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, header_style="bold")
    for index, name in enumerate(rows.columns):
        numeric = all(isinstance(row[index], int | float | None) for row in rows[:limit])
        table.add_column(Text(name), justify="right" if numeric else "left", overflow="fold")
    for row in rows[:limit]:
        table.add_row(*map(cell, row))
    return table


def cell(value: Any) -> Text:
    """One value of a row."""
    if value is None:
        return Text("NULL", style="dim")
    if isinstance(value, bytes):
        return Text(f"x'{value.hex()}'")
    if isinstance(value, float):
        return Text(f"{value:.6g}" if abs(value) < 1e15 else repr(value))
    return Text(str(value))


def row_count(rows: Rows) -> str:
    """How many rows there are, or were changed."""
    count = rows.rowcount
    if rows.columns:
        more = f", the first {ROWS_SHOWN_MAX:,} shown" if count > ROWS_SHOWN_MAX else ""
        return f"{count:,} row{'' if count == 1 else 's'}{more}"
    return f"{count:,} row{'' if count == 1 else 's'} changed"
