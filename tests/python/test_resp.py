"""The client's RESP3 codec."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from peryton import NetworkError, ReplyError, WrongTypeError, _resp

EXAMPLES: list[tuple[bytes, Any]] = [
    (b"+OK\r\n", "OK"),
    (b":-12\r\n", -12),
    (b"$3\r\na\r\n\r\n", b"a\r\n"),
    (b"$0\r\n\r\n", b""),
    (b"$-1\r\n", None),
    (b"*-1\r\n", None),
    (b"_\r\n", None),
    (b",1.5\r\n", 1.5),
    (b",inf\r\n", float("inf")),
    (b"#t\r\n", True),
    (b"#f\r\n", False),
    (b"=7\r\ntxt:abc\r\n", "abc"),
    (b"(1234567890123456789012\r\n", 1234567890123456789012),
    (b"*0\r\n", []),
    (b"*2\r\n*1\r\n:1\r\n*0\r\n", [[1], []]),
    (b"~2\r\n:1\r\n:2\r\n", [1, 2]),
    (b"%2\r\n+a\r\n:1\r\n*1\r\n:9\r\n%0\r\n", {"a": 1, (9,): {}}),
    (b">2\r\n+message\r\n+x\r\n", ["message", "x"]),
]


def decode_all(data: bytes, cut: int) -> list[Any]:
    decoder = _resp.Decoder()
    values = []
    for start in range(0, len(data), cut):
        decoder.feed(data[start : start + cut])
        while (value := decoder.next()) is not _resp.PENDING:
            values.append(value)
    return values


@pytest.mark.parametrize("cut", [1, 2, 3, 7, 10_000])
def test_values_split_anywhere(cut: int) -> None:
    data = b"".join(data for data, _ in EXAMPLES)
    assert decode_all(data, cut) == [value for _, value in EXAMPLES]


def test_errors_are_objects_wherever_they_stand() -> None:
    [top, nested] = decode_all(b"-WRONGTYPE no\r\n*1\r\n!8\r\nERR oops\r\n", 5)
    assert isinstance(top, WrongTypeError)
    assert isinstance(nested[0], ReplyError)
    assert (nested[0].code, nested[0].args) == ("ERR", ("oops",))


def test_a_push_is_told_from_a_reply() -> None:
    [push, reply] = decode_all(b">1\r\n:1\r\n*1\r\n:1\r\n", 100)
    assert isinstance(push, _resp.Push)
    assert not isinstance(reply, _resp.Push)


@pytest.mark.parametrize("bad", [b"HTTP/1.1 400\r\n", b"$x\r\n", b"*1x\r\n"])
def test_what_is_no_resp_is_a_network_error(bad: bytes) -> None:
    decoder = _resp.Decoder()
    decoder.feed(bad)
    with pytest.raises(NetworkError, match="does not speak RESP3"):
        decoder.next()


def test_a_deep_reply_needs_no_deep_stack() -> None:
    depth = 20_000
    [value] = decode_all(b"*1\r\n" * depth + b":1\r\n", 1 << 20)
    for _ in range(depth):
        [value] = value
    assert value == 1


ARGUMENTS = st.lists(st.one_of(st.binary(), st.text(), st.integers(), st.floats(allow_nan=False)), min_size=1)


@settings(deadline=None)
@given(ARGUMENTS, st.integers(1, 50))
def test_a_request_is_an_array_of_bulk_strings(args: list[Any], cut: int) -> None:
    [read] = decode_all(_resp.encode(args), cut)
    assert read == [bytes(_resp.argument(arg)) for arg in args]
