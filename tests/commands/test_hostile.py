"""Bytes that are no RESP, or RESP meant to hurt: the error text of Redis, a closed connection, nobody else disturbed.

Unlike the other tests these state what they expect, so that they judge the peer
even where no Redis is at hand; where there is one, it is judged as well.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.resp import Connection, Simple, encode
from tests.support.servers import Server

INLINE_BYTES_MAX = 64 * 1024
ARGUMENT_BYTES_MAX = 512 * 1024 * 1024


@pytest.fixture(params=["oracle", "peer"])
def server(request: pytest.FixtureRequest) -> Server:
    found: Server = request.getfixturevalue(request.param)
    return found


@pytest.fixture(autouse=True)
def bystander(server: Server) -> Iterator[Connection]:
    """Another client, which must be served before and after."""
    with server.connect() as connection:
        assert connection("SET", "bystander", "here") == Simple(b"OK")
        yield connection
        assert connection("GET", "bystander") == b"here"
        with server.connect() as late:
            assert late("PING") == Simple(b"PONG")


PING = b"*1\r\n$4\r\nPING\r\n"
COUNT = b"invalid multibulk length"
LENGTH = b"invalid bulk length"

# What is sent, and the text after "Protocol error: "; the connection is closed then.
VIOLATIONS = {
    "count that is no number": (b"*abc\r\n", COUNT),
    "no count": (b"*\r\n", COUNT),
    "count past 31 bits": (b"*2147483648\r\n", COUNT),
    "count past 64 bits": (b"*99999999999999999999\r\n", COUNT),
    "count with a space": (b"*1 \r\n", COUNT),
    "count with a sign": (b"*+1\r\n", COUNT),
    "count with a leading zero": (b"*01\r\n$4\r\nPING\r\n", COUNT),
    "count without a carriage return": (b"*1\n$4\r\nPING\r\n", COUNT),
    "negative length": (b"*1\r\n$-1\r\n", LENGTH),
    "length past the limit": (b"*1\r\n$%d\r\n" % (ARGUMENT_BYTES_MAX + 1), LENGTH),
    "length past 64 bits": (b"*1\r\n$99999999999999999999\r\n", LENGTH),
    "length that is no number": (b"*1\r\n$abc\r\n", LENGTH),
    "no length": (b"*1\r\n$\r\n", LENGTH),
    "length with a sign": (b"*1\r\n$+4\r\nPING\r\n", LENGTH),
    "length with a leading zero": (b"*1\r\n$04\r\nPING\r\n", LENGTH),
    "length with a space": (b"*1\r\n$4 \r\nPING\r\n", LENGTH),
    "negative length in the second argument": (b"*2\r\n$4\r\nECHO\r\n$-1\r\n", LENGTH),
    "simple string as argument": (b"*1\r\n+PING\r\n", b"expected '$', got '+'"),
    "integer as argument": (b"*1\r\n:1\r\n", b"expected '$', got ':'"),
    "array as argument": (b"*1\r\n*1\r\n$4\r\nPING\r\n", b"expected '$', got '*'"),
    "text as argument": (b"*1\r\nPING\r\n", b"expected '$', got 'P'"),
    "high byte as argument": (b"*1\r\n\xff\r\n", b"expected '$', got '\xff'"),
    "empty line as argument": (b"*1\r\n\r\n", b"expected '$', got ' '"),
    "endless count": (b"*" + b"1" * (INLINE_BYTES_MAX + 1), b"too big mbulk count string"),
    "endless length": (b"*1\r\n$" + b"1" * (INLINE_BYTES_MAX + 1), b"too big bulk count string"),
    "endless line": (b"a" * (INLINE_BYTES_MAX + 1), b"too big inline request"),
    "open double quote": (b'"open\r\n', b"unbalanced quotes in request"),
    "open single quote": (b"'open\r\n", b"unbalanced quotes in request"),
    "text after a quote": (b'"a"b\r\n', b"unbalanced quotes in request"),
}


@pytest.mark.parametrize("name", VIOLATIONS)
def test_a_violation_is_named_and_ends_the_connection(name: str, server: Server) -> None:
    data, text = VIOLATIONS[name]
    with server.connect() as connection:
        connection.send_raw(data)
        assert connection.read_to_end() == b"-ERR Protocol error: " + text + b"\r\n"


@pytest.mark.parametrize("name", [name for name, (data, _) in VIOLATIONS.items() if data.endswith(b"\n")])
def test_what_came_before_a_violation_is_answered_and_what_came_after_is_not(name: str, server: Server) -> None:
    data, text = VIOLATIONS[name]
    with server.connect() as connection:
        connection.send_raw(PING + b"PING\r\n" + data + b"SET bystander gone\r\n")
        assert connection.read_to_end() == b"+PONG\r\n+PONG\r\n-ERR Protocol error: " + text + b"\r\n"


@pytest.mark.parametrize("name", VIOLATIONS)
def test_a_violation_in_pieces(name: str, server: Server) -> None:
    data, text = VIOLATIONS[name]
    size = max(1, len(data) // 50)
    with server.connect() as connection:
        try:
            for at in range(0, len(data), size):
                connection.send_raw(data[at : at + size])
        except (ConnectionResetError, BrokenPipeError):
            pass  # closed before the last piece; the reset may take the text with it
        assert connection.read_to_end() in (b"-ERR Protocol error: " + text + b"\r\n", b"")


def test_a_transaction_ends_with_its_connection(server: Server, bystander: Connection) -> None:
    with server.connect() as connection:
        connection.send_raw(b"MULTI\r\nSET bystander gone\r\n*x\r\nEXEC\r\n")
        assert connection.read_to_end().startswith(b"+OK\r\n+QUEUED\r\n-ERR Protocol error")


# Odd, but to be understood: what is sent before a PING, and the reply to it.
ACCEPTED = {
    "empty array": (b"*0\r\n", b""),
    "null array": (b"*-1\r\n", b""),
    "empty line": (b"\r\n", b""),
    "inline": (b"PING\r\n", b"+PONG\r\n"),
    "inline with a bare newline": (b"PING\n", b"+PONG\r\n"),
    "inline in blanks": (b"  \tPING  \r\n", b"+PONG\r\n"),
    "inline in lower case": (b"ping\r\n", b"+PONG\r\n"),
    "inline quoted": (b'ECHO "a\\x41\\n\\r\\t\\b\\a\\\\\\" b"\r\n', b'$11\r\naA\n\r\t\x08\x07\\" b\r\n'),
    "inline in single quotes": (b"ECHO 'it\\'s\\n'\r\n", b"$6\r\nit's\\n\r\n"),
    "inline with an empty argument": (b'ECHO ""\r\n', b"$0\r\n\r\n"),
    "inline with high bytes": (b"ECHO \xff\xfe\r\n", b"$2\r\n\xff\xfe\r\n"),
    "inline with a bad escape": (b'ECHO "\\xzz"\r\n', b"$3\r\nxzz\r\n"),
    "bulk longer than said": (b"*1\r\n$3\r\nPING\r\n", b"-ERR unknown command 'PIN', with args beginning with: \r\n"),
    "any two bytes after a bulk": (b"*1\r\n$4\r\nPINGxx", b"+PONG\r\n"),
    "no name": (b"*1\r\n$0\r\n\r\n", b"-ERR unknown command '', with args beginning with: \r\n"),
    "a reply as a request": (b"+OK\r\n", b"-ERR unknown command '+OK', with args beginning with: \r\n"),
    "a RESP3 type as a request": (b"%1\r\n", b"-ERR unknown command '%1', with args beginning with: \r\n"),
    "a long name": (
        b"x" * 300 + b"\r\n",
        b"-ERR unknown command '" + b"x" * 128 + b"', with args beginning with: \r\n",
    ),
    "line breaks in a name": (
        b"*2\r\n$4\r\na\r\nb\r\n$3\r\n\r\nc\r\n",
        b"-ERR unknown command 'a  b', with args beginning with: '  c' \r\n",
    ),
    "many arguments": (
        b"a" + b" bb" * 5000 + b"\r\n",
        b"-ERR unknown command 'a', with args beginning with: " + b"'bb' " * 26 + b"\r\n",
    ),
}


@pytest.mark.parametrize("name", ACCEPTED)
def test_odd_requests_that_are_understood(name: str, server: Server) -> None:
    data, reply = ACCEPTED[name]
    expected = reply.removeprefix(b"+PONG\r\n" if name == "bulk longer than said" else b"") + b"+PONG\r\n"
    with server.connect() as connection:
        connection.send_raw(data + PING)
        assert read_exactly(connection, len(expected)) == expected


def read_exactly(connection: Connection, count: int) -> bytes:
    data = b""
    while len(data) < count and (chunk := connection.socket.recv(count - len(data))):
        data += chunk
    return data


@pytest.mark.parametrize(
    "request_line", [b"POST / HTTP/1.1\r\n", b"Host: here\r\n", b"*2\r\n$5\r\nhost:\r\n$1\r\nx\r\n"]
)
def test_a_web_browser_is_shown_the_door(request_line: bytes, server: Server) -> None:
    with server.connect() as connection:
        connection.send_raw(request_line + b"SET bystander gone\r\n")
        assert connection.read_to_end() == b""


# Pieces


def test_commands_split_at_every_byte(server: Server) -> None:
    commands = [("SET", "split", b"a\r\n\x00$b"), ("GET", "split"), ("ECHO", ""), ("PING",)]
    data = b"".join(map(encode, commands)) + b"PING\r\n"
    expected = b"+OK\r\n$6\r\na\r\n\x00$b\r\n$0\r\n\r\n+PONG\r\n+PONG\r\n"
    with server.connect() as connection:
        for byte in data:
            connection.send_raw(bytes([byte]))
        assert read_exactly(connection, len(expected)) == expected
        for at in range(1, len(data)):
            connection.send_raw(data[:at])
            connection.send_raw(data[at:])
            assert read_exactly(connection, len(expected)) == expected


def test_half_a_command_does_nothing(server: Server, bystander: Connection) -> None:
    data = encode(("SET", "bystander", "gone"))
    for at in range(1, len(data)):
        with server.connect() as connection:
            connection.send_raw(data[:at])


def test_inline_and_arrays_mixed(server: Server) -> None:
    with server.connect() as connection:
        connection.send_raw((b"PING\r\n" + PING + b"\r\n" + PING + b"PING\n") * 100)
        assert connection.read_many(400) == [Simple(b"PONG")] * 400


# Sizes


def test_ten_thousand_commands_in_one_piece(server: Server) -> None:
    with server.connect() as connection:
        connection.send_all([("ECHO", number) for number in range(10_000)])
        assert connection.read_many(10_000) == [b"%d" % number for number in range(10_000)]


def test_an_argument_of_ten_megabytes(server: Server) -> None:
    value = bytes(range(256)) * 40_000
    with server.connect() as connection:
        assert connection("SET", "large", value) == Simple(b"OK")
        assert connection("GET", "large") == value
        assert connection("DEL", "large") == 1


def test_ten_thousand_arguments(server: Server) -> None:
    with server.connect() as connection:
        assert connection("RPUSH", "many", *range(10_000)) == 10_000
        assert len(connection("LRANGE", "many", 0, -1)) == 10_000
        assert connection("DEL", "many") == 1


def test_many_clients_at_once(server: Server) -> None:
    connections = [server.connect() for _ in range(300)]
    for connection in connections:
        connection.send("PING")
    assert [connection.read() for connection in connections] == [Simple(b"PONG")] * 300
    for connection in connections:
        connection.close()
