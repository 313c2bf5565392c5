"""What each method of `Database` and `Table` asks, and how it shapes the answer; written once for all four doors
(embedded and remote, synchronous and asyncio).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import date, datetime
from decimal import Decimal
from itertools import chain, groupby
from typing import Any, Generic, NamedTuple, TypeAlias, TypeVar

from peryton import _core
from peryton._links import LeftOpen
from peryton._resp import Argument, argument
from peryton.results import Rows

T = TypeVar("T")
Value: TypeAlias = int | float | str | bytes | bytearray | memoryview | bool | date | datetime | Decimal | None
"""What a column or a parameter may hold; dates and decimals travel as their text."""
Parameters: TypeAlias = Sequence[Value] | Mapping[str, Value]
Record: TypeAlias = dict[str, Any]
"""A row by column name."""


class Call(NamedTuple, Generic[T]):
    """A request and what becomes of its reply."""

    args: Sequence[Argument]
    shape: Callable[[Any], T]


def command(args: Sequence[Argument]) -> Call[Any]:
    """Any command, its reply as it comes."""
    if not args:
        raise ValueError("a command needs a name")
    _refuse_session_commands(args)
    return Call(args, _as_is)


def sql(text: str, params: Parameters | None) -> Call[Rows]:
    """A statement with its parameters."""
    return Call(_statement(text, params), _rows)


def sql_in_transaction(text: str, params: Parameters | None) -> Call[Rows]:
    """A statement of a transaction, which may set savepoints."""
    return Call(_statement(text, params), _rows_or_status)


def _statement(text: str, params: Parameters | None) -> Sequence[Argument]:
    if not params:
        return ("SQL", text)
    if isinstance(params, Mapping):
        text, params = _positional(text, params)
    try:
        letters = "".join([_LETTERS[type(value)] for value in params])
        values: Iterable[Argument] = [b"" if value is None else value for value in params]  # type: ignore[misc]
    except KeyError:
        bound = list(map(_bind, params))
        letters = "".join([letter for letter, _ in bound])
        values = [value for _, value in bound]
    return ("SQL.BIND", letters, text, *values)


ROWS_AT_ONCE = 4_000
"""Rows of `sql_many` and `put_many` that are written in one atomic step, unless the caller says otherwise."""


def many(text: str, rows: Iterable[Parameters], batch: int) -> Iterator[Call[int]]:
    """A statement that writes, for many groups of parameters: a call for each batch of them."""
    if batch < 1:
        raise ValueError("a batch has at least one row")
    groups = iter(rows)
    first = next(groups, None)
    if first is None:
        return
    if isinstance(first, Mapping):
        text, names = _numbered(text)
        groups = (_values(names, row) for row in chain((first,), groups))  # type: ignore[arg-type]
    else:
        groups = chain((first,), groups)
    while packed := _core.pack(groups, batch, _plain_value):
        yield Call(("SQL.PACKED", text, packed), int)


def _plain_value(value: Value) -> Any:
    """A value as int, float, str or bytes."""
    plain = _bind(value)[1]
    return bytes(plain) if isinstance(plain, bytearray | memoryview) else plain


def call(procedure: str | Callable[..., Any], args: Sequence[Any]) -> Call[Any]:
    """A procedure with its arguments, by its name or, where that is the same, by the function itself."""
    name = procedure if isinstance(procedure, str) else _name_of(procedure)
    bound = [_bind(json.dumps(arg) if isinstance(arg, list | tuple | dict) else arg) for arg in args]
    return Call(("CALL.BIND", "".join(letter for letter, _ in bound), name, *(value for _, value in bound)), _as_is)


def _name_of(procedure: Callable[..., Any]) -> str:
    # Not above: a procedure's handle needs this module.
    from peryton.procedures import mark

    return mark.of(procedure).name


# --- the row API --------------------------------------------------------------------------------------------------


def get(table: str, key: Any) -> Call[Record | None]:
    """One row by primary key."""
    return Call(("TABLE.GET", table, *_key(key)), _record)


def get_many(table: str, keys: Iterable[Any]) -> Call[list[Record | None]]:
    """Many rows by primary key, in the keys' order."""
    listed = [_key(key) for key in keys]
    return Call(("TABLE.MGET", table, *(part for key in listed for part in key)), _records)


def put(table: str, record: Mapping[str, Value]) -> Call[int]:
    """Inserts a row, or replaces the row with its primary key."""
    if any(value is None for value in record.values()):
        # TABLE.PUT spells values as text and has no word for NULL.
        columns = ", ".join(map(quoted, record))
        marks = ", ".join("?" * len(record))
        call = sql(f"REPLACE INTO {quoted(table)} ({columns}) VALUES ({marks})", list(record.values()))
        return Call(call.args, int)
    return Call(("TABLE.PUT", table, *_fields(record)), int)


def put_many(table: str, records: Iterable[Mapping[str, Value]]) -> Iterator[Call[int]]:
    """Inserts or replaces rows: a call for each batch of neighbours with the same columns."""
    for names, group in groupby(records, key=tuple):
        if not names:
            raise ValueError("a row without columns")
        columns = ", ".join(map(quoted, names))
        text = f"REPLACE INTO {quoted(table)} ({columns}) VALUES ({', '.join('?' * len(names))})"
        yield from many(text, (tuple(record.values()) for record in group), ROWS_AT_ONCE)


def delete(table: str, keys: Iterable[Any]) -> Call[int]:
    """Deletes rows by primary key; gives how many there were."""
    return Call(("TABLE.DEL", table, *(part for key in keys for part in _key(key))), int)


def scan(table: str, cursor: Argument, count: int) -> Call[tuple[Any, list[Record]]]:
    """The next page of all rows, and the cursor to go on from (`0` at the end)."""
    return Call(("TABLE.SCAN", table, cursor, "COUNT", count, "ROWS"), _page)


def info(table: str) -> Call[Record]:
    """What the store knows of a table."""
    return Call(("TABLE.INFO", table), _plain)


# --- shapes -------------------------------------------------------------------------------------------------------


def _as_is(reply: Any) -> Any:
    return reply


def quoted(name: str) -> str:
    """A name as SQL takes it, whatever it holds."""
    return '"' + name.replace('"', '""') + '"'


def text_of(value: Any) -> str:
    """A name that arrived as bulk or verbatim string."""
    return value.decode("utf-8", "surrogateescape") if isinstance(value, bytes) else str(value)


def _rows(reply: Any) -> Rows:
    if isinstance(reply, list):
        columns = tuple(map(text_of, reply[0]))
        rows = list(map(tuple, reply[1:]))
        return Rows(columns, rows, len(rows))
    if not isinstance(reply, int):
        # Only the statements about transactions answer with a status.
        raise LeftOpen("BEGIN, COMMIT and savepoints belong to one session: use `with db.transaction() as t:`")
    return Rows((), [], reply)


def _rows_or_status(reply: Any) -> Rows:
    return Rows((), [], 0) if isinstance(reply, str) else _rows(reply)


def _record(reply: Any) -> Record | None:
    return None if reply is None else _mapping(reply)


def _records(reply: Any) -> list[Record | None]:
    return [_record(row) for row in reply]


def _mapping(reply: Any) -> Record:
    pairs = reply.items() if isinstance(reply, dict) else zip(reply[::2], reply[1::2], strict=True)
    return {text_of(name): value for name, value in pairs}


def _plain(reply: Any) -> Any:
    """A reply of names and numbers with its byte strings as text, however deep they stand."""
    if isinstance(reply, dict):
        return {_plain(name): _plain(value) for name, value in reply.items()}
    if isinstance(reply, list):
        return [_plain(item) for item in reply]
    return text_of(reply) if isinstance(reply, bytes) else reply


def _page(reply: Any) -> tuple[Any, list[Record]]:
    cursor, (columns, *rows) = reply
    names = [text_of(column) for column in columns]
    return cursor, [dict(zip(names, row, strict=True)) for row in rows]


# --- arguments ----------------------------------------------------------------------------------------------------


# The kinds of value that travel as they are; the rest passes through `_bind`.
_LETTERS: dict[type, str] = {int: "i", float: "r", str: "t", bytes: "b", type(None): "n"}


def _bind(value: Value) -> tuple[str, Argument]:
    """A parameter's type letter and bytes, as SQL.BIND takes them."""
    # bool before int, datetime before date: each is a subclass of the other.
    if value is None:
        return "n", b""
    if isinstance(value, bool):
        return "i", int(value)
    if isinstance(value, int):
        return "i", value
    if isinstance(value, float):
        return "r", value
    if isinstance(value, str):
        return "t", value
    if isinstance(value, bytes | bytearray | memoryview):
        return "b", argument(value)
    if isinstance(value, datetime):
        return "t", value.isoformat(" ")
    if isinstance(value, date):
        return "t", value.isoformat()
    if isinstance(value, Decimal):
        return "t", format(value, "f")
    raise TypeError(f"a parameter cannot be a {type(value).__name__}")


def _positional(text: str, params: Mapping[str, Value]) -> tuple[str, list[Value]]:
    """`:name` parameters as numbered ones (`?1`), since requests carry values by position."""
    text, names = _numbered(text)
    return text, _values(names, params)


def _values(names: Iterable[str], params: Mapping[str, Value]) -> list[Value]:
    """The values of named parameters, in the order of their numbers."""
    try:
        return [params[name] for name in names]
    except KeyError as missing:
        raise ValueError(f"no value for the parameter :{missing.args[0]}") from None


def _numbered(text: str) -> tuple[str, list[str]]:
    """The text with `?1` in the place of the first name, and so on, and the names."""
    out: list[str] = []
    order: dict[str, int] = {}
    for piece, is_code in pieces(text):
        if not is_code:
            out.append(piece)
            continue
        at = 0
        while (colon := piece.find(":", at)) >= 0:
            end = colon + 1
            while end < len(piece) and (piece[end].isalnum() or piece[end] == "_"):
                end += 1
            name = piece[colon + 1 : end]
            if not name or name[0].isdigit():
                out.append(piece[at:end])
            else:
                out += (piece[at:colon], f"?{order.setdefault(name, len(order) + 1)}")
            at = end
        out.append(piece[at:])
    return "".join(out), list(order)


def pieces(text: str) -> Iterable[tuple[str, bool]]:
    """Splits SQL text into code and what is not code: quoted strings, quoted names and comments."""
    ends = {"'": "'", '"': '"', "`": "`", "[": "]", "--": "\n", "/*": "*/"}
    start = at = 0
    while at < len(text):
        opening = text[at : at + 2] if text[at : at + 2] in ends else text[at]
        if opening not in ends:
            at += 1
            continue
        close = text.find(ends[opening], at + len(opening))
        end = len(text) if close < 0 else close + len(ends[opening])
        yield text[start:at], True
        yield text[at:end], False
        start = at = end
    yield text[start:], True


def _key(key: Any) -> Sequence[Argument]:
    """A primary key as arguments: one value, or a tuple for a key of several columns."""
    parts = key if isinstance(key, tuple | list) else (key,)
    return [_bind(part)[1] for part in parts]


def _fields(record: Mapping[str, Value]) -> list[Argument]:
    out: list[Argument] = []
    for name, value in record.items():
        out += (name, _bind(value)[1])
    return out


# Commands that change the state of one session. A Database gives each call any of its sessions, so the change would
# land on one of them; each has a better way.
_SESSION_COMMANDS = {
    "SELECT": "open or connect with db=n",
    "MULTI": "use .redis().pipeline()",
    "EXEC": "use .redis().pipeline()",
    "DISCARD": "use .redis().pipeline()",
    "WATCH": "use .redis().pipeline()",
    "UNWATCH": "use .redis().pipeline()",
    "BEGIN": "use .transaction()",
    "START": "use .transaction()",
    "COMMIT": "use .transaction()",
    "END": "use .transaction()",
    "ROLLBACK": "use .transaction()",
    "SAVEPOINT": "use .transaction()",
    "RELEASE": "use .transaction()",
    "SUBSCRIBE": "use .redis().pubsub()",
    "PSUBSCRIBE": "use .redis().pubsub()",
    "SSUBSCRIBE": "use .redis().pubsub()",
    "UNSUBSCRIBE": "use .redis().pubsub()",
    "PUNSUBSCRIBE": "use .redis().pubsub()",
    "SUNSUBSCRIBE": "use .redis().pubsub()",
    "MONITOR": "use .redis().monitor()",
    "HELLO": "the client has done it",
    "RESET": "close the handle",
    "QUIT": "use .close()",
}

_CONTROL = {"BEGIN", "START", "COMMIT", "END", "ROLLBACK", "SAVEPOINT", "RELEASE"}


def _refuse_session_commands(args: Sequence[Argument]) -> None:
    name = args[0]
    text = name if isinstance(name, str) else bytes(argument(name)).decode("utf-8", "replace")
    if text.upper() in ("SQL", "SQL.BIND") and len(args) > 1:
        words = str(args[1] if text.upper() == "SQL" else args[2 if len(args) > 2 else 1]).split(None, 1)
        text = words[0].strip(";") if words and words[0].strip(";").upper() in _CONTROL else "SQL"
    if (advice := _SESSION_COMMANDS.get(text.upper())) is None:
        return
    # SELECT with anything but a database's number is SQL typed bare.
    if text.upper() != "SELECT" or (len(args) == 2 and bytes(argument(args[1])).isdigit()):
        raise ValueError(f"{text.upper()} belongs to one session, and this handle has several: {advice}")
