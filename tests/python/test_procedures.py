"""Scripts and functions over tables and keys, through every door of the Python package."""

from __future__ import annotations

from typing import Any

import pytest

import peryton

LIBRARY = """#!lua name=shop
local reserve = peryton.prepare('UPDATE stock SET free = free - ? WHERE id = ? AND free >= ? RETURNING free')

redis.register_function{function_name = 'reserve', flags = {'atomic'}, callback = function(keys, args)
  local left = {}
  for i = 1, #args, 2 do
    local item, count = args[i], tonumber(args[i + 1])
    redis.call('HINCRBY', keys[1], item, count)
    local row = reserve(count, item, count)[1]
    if not row then return redis.error_reply('SOLDOUT ' .. item) end
    left[#left + 1] = row.free
  end
  return left
end}

redis.register_function{function_name = 'look', flags = {'no-writes'}, callback = function(keys, args)
  local row = peryton.get('stock', args[1], {'free', 'note'})
  return row and {row.free, row.note or 'none'}
end}

redis.register_function('both', function(keys, args)
  return {peryton.call('reserve', keys, args), peryton.call('look', keys, args)}
end)
"""


@pytest.fixture
def shop(door: Any) -> Any:
    door.sql("CREATE TABLE stock (id TEXT PRIMARY KEY, free INT NOT NULL, note TEXT)")
    door.sql("INSERT INTO stock VALUES ('pen', 5, NULL), ('ink', 2, 'blue')")
    door.command("FUNCTION", "LOAD", LIBRARY)
    return door


def _text(value: Any) -> Any:
    return value.decode() if isinstance(value, bytes) else value


def test_functions_work_on_keys_and_tables(shop: Any) -> None:
    assert shop.command("FCALL", "reserve", 1, "cart:1", "pen", 2, "ink", 1) == [3, 1]
    assert [_text(value) for value in shop.command("FCALL_RO", "look", 0, "pen")] == [3, "none"]
    assert [_text(value) for value in shop.command("FCALL", "look", 0, "ink")] == [1, "blue"]
    assert shop.command("FCALL", "look", 0, "cup") is None
    assert _text(shop.command("HGET", "cart:1", "ink")) == "1"


def test_what_is_atomic_leaves_nothing_when_it_fails(shop: Any) -> None:
    with pytest.raises(peryton.PerytonError, match="SOLDOUT ink"):
        shop.command("FCALL", "reserve", 1, "cart:1", "pen", 2, "ink", 3)
    assert shop.command("EXISTS", "cart:1") == 0
    assert [_text(value) for value in shop.command("FCALL", "look", 0, "pen")] == [5, "none"]
    # An error that a function returns is a value for its caller.
    failed, seen = shop.command("EVAL", "return peryton.call('both', KEYS, ARGV)", 1, "cart:1", "pen", 9)
    assert "SOLDOUT pen" in str(failed)
    assert [_text(value) for value in seen] == [5, "none"]
    assert shop.command("EXISTS", "cart:1") == 0
    assert [
        [_text(value) for value in values]
        for values in shop.command("EVAL", "return peryton.call('both', KEYS, ARGV)", 1, "cart:1", "pen", 1)
    ] == [[4], [4, "none"]]


def test_values_keep_their_types(shop: Any) -> None:
    shop.sql("CREATE TABLE v (id INT PRIMARY KEY, r REAL, b BLOB, t TEXT)")
    script = """
        peryton.sql('INSERT INTO v VALUES (?, ?, ?, ?)', 1, 1.5, peryton.blob('\\0\\255'), 'text')
        peryton.sql('INSERT INTO v VALUES (?, ?, ?, ?)', '9007199254740993', 2, nil, nil)
        return {peryton.get('v', '9007199254740993').id, #peryton.mget('v', {1, 2})}"""
    id_, count = shop.command("EVAL", script, 0)
    assert (_text(id_), count) == ("9007199254740993", 2)
    rows = [tuple(row) for row in shop.sql("SELECT * FROM v ORDER BY id")]
    assert rows == [(1, 1.5, b"\0\xff", "text"), (9007199254740993, 2.0, None, None)]


def test_errors_of_statements_tell_their_state(shop: Any) -> None:
    state = shop.command("EVAL", "return peryton.psql('INSERT INTO stock VALUES (?, 1, NULL)', 'pen').sqlstate", 0)
    assert _text(state) == "23505"
    with pytest.raises(peryton.PerytonError, match="42S02 no such table: none"):
        shop.command("EVAL", "return peryton.sql('SELECT * FROM none')", 0)


def test_limits_end_what_takes_too_much(shop: Any) -> None:
    shop.command("CONFIG", "SET", "procedure-call-limit", 50)
    with pytest.raises(peryton.PerytonError, match="procedure-call-limit"):
        shop.command("EVAL", "while true do redis.pcall('PING') end", 0)
    shop.command("CONFIG", "SET", "procedure-call-limit", 0)
    shop.command("CONFIG", "SET", "procedure-time-limit", 10)
    with pytest.raises(peryton.PerytonError, match="procedure-time-limit"):
        shop.command("EVAL", "while true do pcall(function() while true do end end) end", 0)
    shop.command("CONFIG", "SET", "procedure-time-limit", 0)
    assert shop.command("EVAL", "return 1", 0) == 1


def test_routines_are_counted(shop: Any) -> None:
    shop.command("FCALL", "look", 0, "pen")
    rows = shop.sql("SELECT routine_name, flags, calls, failures FROM information_schema.routines ORDER BY 1")
    assert [tuple(row) for row in rows] == [
        ("both", "", 0, 0),
        ("look", "no-writes", 1, 0),
        ("reserve", "atomic", 0, 0),
    ]
