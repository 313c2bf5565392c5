"""A small raw RESP2/RESP3 client whose replies keep their exact protocol type.

Ordinary clients turn replies into convenient Python values, and so hide whether
a server sent ``+OK`` or ``$2``, ``*-1`` or ``$-1``. The tests compare exactly
that, so every RESP type has a Python type of its own here, and values of
different RESP types are never equal:

==================  ===========================================
RESP                here
==================  ===========================================
``+`` simple        :class:`Simple`
``-`` / ``!`` error  :class:`Error` / :class:`BulkError`
``:`` integer       ``int``
``$`` bulk          ``bytes``
``$-1``, ``*-1``    :data:`NIL_BULK`, :data:`NIL_ARRAY`
``*`` array         ``list``
``_`` null          :data:`NULL`
``,`` double        :class:`Double` (its text)
``#`` boolean       :class:`Boolean` (``t`` or ``f``)
``=`` verbatim      :class:`Verbatim` (``txt:...``)
``(`` big number    :class:`BigNumber` (its text)
``%`` map           :class:`Map` (a list of pairs, in the order sent)
``~`` set           :class:`Set`
``>`` push          :class:`Push`
==================  ===========================================

``|`` attributes are read and dropped.
"""

from __future__ import annotations

import socket
from collections.abc import Iterable, Sequence
from typing import Any

Argument = bytes | str | int | float
Command = Sequence[Argument]


class _Text(bytes):
    """A reply made of text whose RESP type is part of its identity."""

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and bytes.__eq__(self, other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return hash((type(self).__name__, bytes(self)))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({bytes(self)!r})"


class Simple(_Text):
    """``+OK``."""


class Error(_Text):
    """``-ERR ...``, a reply, not an exception: the tests compare errors too."""


class BulkError(Error):
    """``!21``: an error sent with a length."""


class Double(_Text):
    """``,3.14``, kept as text: two servers must print a double alike."""


class Boolean(_Text):
    """``#t`` or ``#f``."""


class Verbatim(_Text):
    """``=``, with its three-letter format and colon."""


class BigNumber(_Text):
    """``(``, kept as text."""


class Nil(_Text):
    """One of the three ways to say "nothing"."""


NIL_BULK = Nil(b"$-1")
NIL_ARRAY = Nil(b"*-1")
NULL = Nil(b"_")


class _Aggregate(list[Any]):
    """A collection reply that is not a plain array."""

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and list.__eq__(self, other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = None

    def __repr__(self) -> str:
        return f"{type(self).__name__}({list.__repr__(self)})"


class Set(_Aggregate):
    """``~``."""


class Push(_Aggregate):
    """``>``: data that answers no request."""


class Map(_Aggregate):
    """``%``, as a list of ``(key, value)`` pairs."""


Reply = Any
"""Any of the types above; ``Any`` because collections nest them freely."""

_TEXTS: dict[int, type[_Text]] = {
    ord("+"): Simple,
    ord("-"): Error,
    ord(","): Double,
    ord("#"): Boolean,
    ord("("): BigNumber,
}
_BULKS: dict[int, type[bytes]] = {ord("$"): bytes, ord("="): Verbatim, ord("!"): BulkError}
_AGGREGATES: dict[int, type[list[Any]]] = {ord("*"): list, ord("~"): Set, ord(">"): Push}


class ConnectionClosed(Exception):
    """The server closed the connection before a whole reply arrived."""


class ProtocolViolation(Exception):
    """The server sent bytes that are not RESP."""


def encode_argument(argument: Argument) -> bytes:
    """The bytes of one argument; text is UTF-8, numbers are their shortest decimal text."""
    if isinstance(argument, bytes):
        return argument
    return (argument if isinstance(argument, str) else repr(argument)).encode()


def encode(command: Command) -> bytes:
    """A command as an array of bulk strings."""
    parts = [b"*%d\r\n" % len(command)]
    for argument in command:
        data = encode_argument(argument)
        parts.append(b"$%d\r\n%b\r\n" % (len(data), data))
    return b"".join(parts)


class Connection:
    """One socket to a server. Send and read are separate, so that a test may pipeline or block."""

    def __init__(self, port: int, host: str = "127.0.0.1", timeout: float = 10.0) -> None:
        self.socket = socket.create_connection((host, port), timeout=timeout)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._buffer = b""
        self._position = 0

    def __enter__(self) -> Connection:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self.socket.close()

    # Sending

    def send_raw(self, data: bytes) -> None:
        self.socket.sendall(data)

    def send(self, *command: Argument) -> None:
        """Send one command and do not wait for its reply."""
        self.send_raw(encode(command))

    def send_all(self, commands: Iterable[Command]) -> None:
        """Send commands as one pipeline and do not wait for the replies."""
        self.send_raw(b"".join(encode(command) for command in commands))

    # Reading

    def read(self, timeout: float | None = None) -> Reply:
        """The next reply or push; raises TimeoutError when none comes whole in time.

        After a timeout the bytes that did come are kept, so reading may go on.
        """
        if timeout is not None:
            before = self.socket.gettimeout()
            self.socket.settimeout(timeout)
            try:
                return self.read()
            finally:
                self.socket.settimeout(before)
        if self._position > 1 << 16 or self._position == len(self._buffer):
            self._buffer = self._buffer[self._position :]
            self._position = 0
        start = self._position
        try:
            return self._value()
        except TimeoutError:
            self._position = start
            raise

    def read_many(self, count: int) -> list[Reply]:
        return [self.read() for _ in range(count)]

    def read_to_end(self, timeout: float = 20.0) -> bytes:
        """Every byte until the server closes the connection; TimeoutError if it does not."""
        self.socket.settimeout(timeout)
        data = self._buffer[self._position :]
        self._buffer, self._position = b"", 0
        try:
            while chunk := self.socket.recv(1 << 16):
                data += chunk
        except ConnectionResetError:
            pass  # closed while input of ours was still unread
        return data

    # Sending and reading

    def __call__(self, *command: Argument) -> Reply:
        """One command, one reply."""
        self.send(*command)
        return self.read()

    def pipeline(self, commands: Sequence[Command]) -> list[Reply]:
        """Several commands at once, one reply each."""
        self.send_all(commands)
        return self.read_many(len(commands))

    # Parsing

    def _fill(self) -> None:
        chunk = self.socket.recv(1 << 16)
        if not chunk:
            raise ConnectionClosed(self._buffer[self._position :][:200])
        self._buffer += chunk

    def _line(self) -> bytes:
        searched = self._position
        while (end := self._buffer.find(b"\r\n", searched)) < 0:
            searched = max(self._position, len(self._buffer) - 1)
            self._fill()
        line = self._buffer[self._position : end]
        self._position = end + 2
        return line

    def _bytes(self, length: int) -> bytes:
        while len(self._buffer) - self._position < length + 2:
            self._fill()
        end = self._position + length
        data = self._buffer[self._position : end]
        if self._buffer[end : end + 2] != b"\r\n":
            raise ProtocolViolation(f"bulk of {length} bytes not followed by CRLF")
        self._position = end + 2
        return data

    def _value(self) -> Reply:
        line = self._line()
        if not line:
            raise ProtocolViolation("empty line where a reply should start")
        kind, rest = line[0], line[1:]
        if kind == 58:  # ":"
            return int(rest)
        if kind in _TEXTS:
            return _TEXTS[kind](rest)
        if kind == 95:  # "_"
            return NULL
        if kind in _BULKS:
            return NIL_BULK if rest == b"-1" else _BULKS[kind](self._bytes(int(rest)))
        if kind in _AGGREGATES:
            if rest == b"-1":
                return NIL_ARRAY
            return _AGGREGATES[kind](self._value() for _ in range(int(rest)))
        if kind == 37:  # "%"
            return Map((self._value(), self._value()) for _ in range(int(rest)))
        if kind == 124:  # "|"
            for _ in range(2 * int(rest)):
                self._value()
            return self._value()
        raise ProtocolViolation(f"unknown reply type in {line[:60]!r}")
