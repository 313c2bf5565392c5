"""A real redis-py client on an embedded store: its connections call the store, no socket and no bytes between them.

redis-py talks to a server through a connection, which packs requests, sends them to a socket and lets a parser read
the replies. Here the packed form is the list of arguments itself, the "socket" is a session of the store, and the
parser hands out the session's replies in the shapes that redis-py's own parsers make. All else (pool, pipelines,
pub/sub, retries, response callbacks) is redis-py's code, unchanged.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import redis
import redis.connection
from redis._parsers import _RESP3Parser

from peryton import _core
from peryton._resp import Argument
from peryton.exceptions import ClosedError

Request = tuple[Argument, ...]
_UNSET = object()


def embedded_client(store: _core.Store, **options: Any) -> redis.Redis:
    """A redis-py client of `store`; `options` as for `redis.Redis`, where those about sockets mean nothing."""
    settings: dict[str, Any] = {"socket_timeout": None, "decode_responses": False} | options
    single = settings.pop("single_connection_client", False)
    if hasattr(redis.connection, "MaintNotificationsConfig"):
        # They tell clients of a cluster's maintenance, of which a store in the same process has none.
        config = redis.connection.MaintNotificationsConfig
        settings.setdefault("maint_notifications_config", config(enabled=False))
    pool = redis.ConnectionPool(connection_class=EmbeddedConnection, store=store, **settings)
    client = redis.Redis(connection_pool=pool, single_connection_client=single)
    client.auto_close_connection_pool = True
    return client


class _Packer:
    """Packs a request into what `_SessionSocket.sendall` takes: a batch of argument lists."""

    def __init__(self, encode: Any) -> None:
        self._encode = encode

    def pack(self, *args: Any) -> list[list[Request]]:
        # A command's name may hold its subcommand ("CONFIG GET"), which the store wants apart.
        name = args[0].encode() if isinstance(args[0], str) else args[0]
        return [[(*name.split(), *map(self._encode, args[1:]))]]


class _SessionSocket:
    """A session in the place of a socket."""

    def __init__(self, session: _core.Session) -> None:
        self.session = session

    def sendall(self, batch: list[Request]) -> None:
        try:
            self.session.send(batch)
        except ClosedError as error:
            raise ConnectionError(str(error)) from error

    def shutdown(self, how: int) -> None:
        pass

    def close(self) -> None:
        # As with a socket: whoever drops a client must not wait for another's statement.
        self.session.leave()


class _SessionParser(_RESP3Parser):
    """Hands out a session's replies as redis-py's parsers would."""

    def __init__(self, socket_read_size: int) -> None:
        super().__init__(socket_read_size)  # type: ignore[no-untyped-call]
        self._session: _core.Session | None = None

    def on_connect(self, connection: Any) -> None:
        self._session = connection._sock.session
        self._protocol = connection.protocol
        self._timeout = connection.socket_timeout
        self.encoder = connection.encoder
        encoder = connection.encoder
        # The core decodes UTF-8 by itself; any other encoding is left to redis-py's encoder.
        plain = encoder.encoding.lower().replace("_", "-") in ("utf-8", "utf8") and encoder.encoding_errors == "strict"
        self._decode_here = encoder.decode_responses and not plain
        self._decode_there = encoder.decode_responses and plain

    def on_disconnect(self) -> None:
        self._session = None

    def can_read(self, timeout: float | None = 0) -> bool:
        return self._session is not None and self._open_session().pending(timeout)

    def read_response(self, disable_decoding: bool = False, push_request: bool = False, timeout: Any = _UNSET) -> Any:
        seconds = timeout if timeout is None or isinstance(timeout, int | float) else self._timeout
        while True:
            decode = self._decode_there and not disable_decoding
            try:
                is_push, reply = self._open_session().receive(
                    seconds, protocol=self._protocol, decode=decode, error=self.parse_error
                )
            except ClosedError as error:
                raise redis.ConnectionError(str(error)) from error
            if self._decode_here and not disable_decoding:
                reply = _decoded(reply, self.encoder)
            if isinstance(reply, redis.ConnectionError):
                raise reply
            if not is_push or self._protocol == 2:
                return reply
            reply = self.handle_push_response(reply)  # type: ignore[no-untyped-call]
            if push_request:
                return reply

    def _open_session(self) -> _core.Session:
        if self._session is None:
            raise redis.ConnectionError("the connection to the embedded store is closed")
        return self._session


def _decoded(reply: Any, encoder: Any) -> Any:
    """The reply with all its byte strings decoded."""
    if isinstance(reply, list):
        return [_decoded(item, encoder) for item in reply]
    if isinstance(reply, dict):
        return {_decoded(key, encoder): _decoded(value, encoder) for key, value in reply.items()}
    return encoder.decode(reply)


class EmbeddedConnection(redis.connection.AbstractConnection):
    """redis-py's connection, to a store in the same process."""

    def __init__(self, store: _core.Store, **options: Any) -> None:
        self._store = store
        options.pop("parser_class", None)
        super().__init__(parser_class=_SessionParser, **options)
        self._command_packer = _Packer(self.encoder.encode)

    def repr_pieces(self) -> list[tuple[str, Any]]:
        """What its `repr` shows."""
        return [("store", self._store), ("db", self.db)]

    def pack_commands(self, commands: Iterable[Iterable[Any]]) -> list[list[Request]]:
        """All requests of a pipeline as one batch, which the store runs under one hold of the baton."""
        return [[request for command in commands for (request,) in self._command_packer.pack(*command)]]

    def _connect(self) -> _SessionSocket:
        try:
            session = self._store.session()
        except ClosedError as error:
            raise redis.ConnectionError(str(error)) from error
        return _SessionSocket(session)

    def _host_error(self) -> str:
        return "the embedded store"
