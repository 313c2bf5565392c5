"""Connecting to a Peryton server: its address, and a session with it over a socket."""

from __future__ import annotations

import socket
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from peryton import _resp
from peryton._resp import Argument
from peryton.exceptions import NetworkError, WaitTimeoutError

DEFAULT_PORT = 7379
_RECEIVE_BYTES = 256 * 1024


@dataclass(frozen=True, slots=True)
class Address:
    """Where a server is and how to enter it."""

    host: str = "127.0.0.1"
    port: int = DEFAULT_PORT
    path: str | None = None
    """Path of a Unix socket, in place of host and port."""
    db: int = 0
    username: str | None = None
    password: str | None = None
    timeout: float | None = None
    """Seconds to wait for the connection and for each piece of a reply; None waits for ever."""

    def __str__(self) -> str:
        """The address as a URL, without its password."""
        where = f"unix://{self.path}?db=" if self.path else f"peryton://{self.host}:{self.port}/"
        return f"{where}{self.db}"

    @staticmethod
    def parse(url: str) -> Address:
        """Reads `peryton://[user:password@]host[:port][/db]`, the same with `redis://`, or `unix://path[?db=n]`."""
        parts = urlsplit(url)
        query = {name: values[-1] for name, values in parse_qs(parts.query).items()}
        username = unquote(parts.username) if parts.username else None
        password = unquote(parts.password) if parts.password else query.get("password")
        if parts.scheme == "unix":
            path = unquote(parts.path)
            if not path:
                raise ValueError(f"{url!r} names no socket: write unix:///path/to/socket")
            return Address(path=path, db=_db(query.get("db"), url), username=username, password=password)
        if parts.scheme not in ("peryton", "redis"):
            raise ValueError(f"{url!r} is no address: it begins with peryton://, redis:// or unix://")
        return Address(
            host=parts.hostname or "127.0.0.1",
            port=parts.port or (6379 if parts.scheme == "redis" else DEFAULT_PORT),
            db=_db(parts.path.strip("/") or query.get("db"), url),
            username=username,
            password=password,
        )

    def with_options(self, **options: Any) -> Address:
        """A copy with the given fields; None leaves a field as it is."""
        return replace(self, **{name: value for name, value in options.items() if value is not None})

    def hello(self) -> list[Sequence[Argument]]:
        """The requests that open a session."""
        hello: list[Argument] = ["HELLO", 3]
        if self.password is not None:
            hello += ("AUTH", self.username or "default", self.password)
        requests: list[Sequence[Argument]] = [hello]
        if self.db:
            requests.append(("SELECT", self.db))
        return requests


def _db(text: str | None, url: str) -> int:
    try:
        return int(text or 0)
    except ValueError:
        raise ValueError(f"{url!r} names the database {text!r}, which is no number") from None


class SocketLink:
    """One session over a socket."""

    def __init__(self, address: Address) -> None:
        self._address = address
        self._decoder = _resp.Decoder()
        try:
            self._socket = _open_socket(address)
        except TimeoutError:
            raise WaitTimeoutError(f"{address} does not answer") from None
        except OSError as error:
            raise NetworkError(f"cannot connect to {address}: {error.strerror or error}") from error
        try:
            for reply in self.pipeline(address.hello()):
                if isinstance(reply, Exception):
                    raise reply
        except BaseException:
            self.close()
            raise

    def execute(self, args: Sequence[Argument]) -> Any:
        """Sends a request and waits for its reply."""
        self._send(_resp.encode(args))
        reply = self._receive()
        if isinstance(reply, Exception):
            raise reply
        return reply

    def pipeline(self, requests: Sequence[Sequence[Argument]]) -> list[Any]:
        """Sends several requests at once and waits for all replies."""
        self._send(_resp.encode_many(requests))
        return [self._receive() for _ in requests]

    def close(self) -> None:
        """Closes the socket."""
        self._socket.close()

    def _send(self, data: bytes) -> None:
        try:
            self._socket.sendall(data)
        except TimeoutError:
            raise WaitTimeoutError(f"{self._address} takes no more requests") from None
        except OSError as error:
            raise NetworkError(f"the connection to {self._address} broke: {error.strerror or error}") from error

    def _receive(self) -> Any:
        """The next reply. Pushes, which no session of a Database asks for, are dropped."""
        while True:
            value = self._decoder.next()
            if value is _resp.PENDING:
                self._decoder.feed(self._more())
            elif not isinstance(value, _resp.Push):
                return value

    def _more(self) -> bytes:
        try:
            data = self._socket.recv(_RECEIVE_BYTES)
        except TimeoutError:
            raise WaitTimeoutError(f"{self._address} did not answer in {self._address.timeout} s") from None
        except OSError as error:
            raise NetworkError(f"the connection to {self._address} broke: {error.strerror or error}") from error
        if not data:
            raise NetworkError(f"{self._address} closed the connection")
        return data


def _open_socket(address: Address) -> socket.socket:
    if address.path is not None:
        unix = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        unix.settimeout(address.timeout)
        unix.connect(address.path)
        return unix
    tcp = socket.create_connection((address.host, address.port), address.timeout)
    tcp.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return tcp
