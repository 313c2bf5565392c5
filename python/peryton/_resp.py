"""The RESP3 codec of Peryton's client: requests to bytes and bytes to Python values, without any I/O.

The synchronous and the asyncio client share it, so neither knows the protocol. Values come back as `_core` gives them
for an embedded store: bulk strings as bytes, status and verbatim strings as str, sets as lists, errors as exception
objects (raised by the caller when they stand at the top).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, TypeAlias

from peryton.exceptions import NetworkError, error_from_reply

Argument: TypeAlias = bytes | bytearray | memoryview | str | int | float
"""What a request may be made of."""


class Push(list[Any]):
    """A message the client did not ask for, such as one from a subscribed channel."""


class _Pending:
    """The type of `PENDING`."""


PENDING: Final = _Pending()
"""Returned by `Decoder.next` when the bytes so far hold no further whole value."""


def argument(value: Argument) -> bytes | bytearray | memoryview:
    """One argument as bytes."""
    if isinstance(value, bytes | bytearray):
        return value
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, bool):
        raise TypeError("an argument is bytes, str, int or float, not bool: write 1 or 0")
    if isinstance(value, int):
        return b"%d" % value
    if isinstance(value, float):
        return repr(value).encode()
    if isinstance(value, memoryview):
        return value.cast("B") if value.c_contiguous else value.tobytes()
    raise TypeError(f"an argument is bytes, str, int or float, not {type(value).__name__}")


def encode(args: Sequence[Argument]) -> bytes:
    """One request."""
    parts = [b"*%d\r\n" % len(args)]
    arg: Any
    for arg in args:
        # The usual kinds first: this loop is most of what a client does.
        kind = type(arg)
        if kind is str:
            data = arg.encode()
        elif kind is bytes:
            data = arg
        elif kind is int:
            data = b"%d" % arg
        else:
            data = argument(arg)
        parts.append(b"$%d\r\n%b\r\n" % (len(data), data))
    return b"".join(parts)


def encode_many(requests: Iterable[Sequence[Argument]]) -> bytes:
    """Several requests, one after another."""
    return b"".join(map(encode, requests))


class _Frame:
    """An aggregate whose elements are still arriving."""

    __slots__ = ("items", "make", "missing")

    def __init__(self, missing: int, make: Callable[[list[Any]], Any]) -> None:
        self.items: list[Any] = []
        self.missing = missing
        self.make = make


def _pairs(items: list[Any]) -> dict[Any, Any]:
    keys = (tuple(key) if isinstance(key, list) else key for key in items[::2])
    return dict(zip(keys, items[1::2], strict=True))


def _verbatim(data: bytes) -> str:
    return data[4:].decode("utf-8", "surrogateescape")


def _error(data: bytes) -> Exception:
    return error_from_reply(data.decode("utf-8", "replace"))


# What the rest of the line, the announced bytes, or the announced elements become, by the value's first byte.
_LINES: dict[int, Callable[[bytes], Any]] = {
    ord("+"): lambda line: line.decode("utf-8", "surrogateescape"),
    ord("-"): _error,
    ord(":"): int,
    ord("("): int,
    ord(","): float,
    ord("#"): lambda line: line == b"t",
    ord("_"): lambda _: None,
}
_BLOBS: dict[int, Callable[[bytes], Any]] = {ord("$"): bytes, ord("="): _verbatim, ord("!"): _error}
_AGGREGATES: dict[int, tuple[int, Callable[[list[Any]], Any]]] = {
    ord("*"): (1, lambda items: items),
    ord("~"): (1, lambda items: items),
    ord(">"): (1, Push),
    ord("%"): (2, _pairs),
}


class Decoder:
    """Turns bytes, in pieces of any size, into values; never parses a byte twice."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._at = 0
        self._stack: list[_Frame] = []
        self._blob: tuple[int, Callable[[bytes], Any]] | None = None
        self._line_from = 0

    def feed(self, data: bytes) -> None:
        """Takes what arrived."""
        if self._at:
            del self._buffer[: self._at]
            self._line_from -= self._at
            self._at = 0
        self._buffer += data

    def next(self) -> Any:
        """The next whole value, or `PENDING`."""
        while True:
            value = self._step()
            if value is PENDING:
                return PENDING
            if isinstance(value, _Frame):
                if value.missing:
                    self._stack.append(value)
                    continue
                value = value.make(value.items)
            # A finished value completes its aggregate, which may complete the one around it.
            while self._stack:
                frame = self._stack[-1]
                frame.items.append(value)
                frame.missing -= 1
                if frame.missing:
                    break
                value = frame.make(self._stack.pop().items)
            else:
                return value

    def _step(self) -> Any:
        """One scalar, one aggregate's header as a `_Frame`, or `PENDING`."""
        if self._blob:
            return self._take_blob()
        end = self._buffer.find(b"\r\n", max(self._at, self._line_from))
        if end < 0:
            # Look again from here only; the last byte may be half of the line's end.
            self._line_from = max(self._at, len(self._buffer) - 1)
            return PENDING
        mark = self._buffer[self._at]
        line = bytes(self._buffer[self._at + 1 : end])
        self._at = end + 2
        if mark in _LINES:
            return _LINES[mark](line)
        if mark not in _BLOBS and mark not in _AGGREGATES:
            raise NetworkError(f"the server does not speak RESP3: a value cannot begin with {chr(mark)!r}")
        try:
            size = int(line)
        except ValueError:
            raise NetworkError(f"the server does not speak RESP3: {line[:20]!r} is no length") from None
        if size < 0:
            return None
        if mark in _BLOBS:
            self._blob = (size, _BLOBS[mark])
            return self._take_blob()
        factor, make = _AGGREGATES[mark]
        return _Frame(size * factor, make)

    def _take_blob(self) -> Any:
        assert self._blob is not None
        size, make = self._blob
        end = self._at + size
        if len(self._buffer) < end + 2:
            return PENDING
        data = bytes(self._buffer[self._at : end])
        self._at = end + 2
        self._blob = None
        return make(data)
