"""Triggers, Lua functions in SQL and schedules, through every door."""

from __future__ import annotations

import time
from typing import Any

import pytest

import peryton

LIBRARY = """#!lua name=people
redis.register_function('tidy', function(event)
  event.new.email = string.lower(event.new.email)
  if not string.find(event.new.email, '@') then error('no address: ' .. event.new.email) end
end)
redis.register_function('count', function(event)
  redis.call('HINCRBY', 'people', event.event, 1)
end)
redis.register_function('forget', function(event)
  peryton.sql('DELETE FROM people WHERE email = ?', event.key)
end)
redis.register_function('tick', function(keys, args) redis.call('RPUSH', 'ticks', args[1]) end)
redis.register_function{function_name = 'twice', callback = function(a) return a * 2 end, flags = {'pure'}}
"""


@pytest.fixture
def people(door: Any) -> Any:
    """A door to a store with a library and a table whose rows fire triggers."""
    door.command("FUNCTION", "LOAD", LIBRARY)
    door.sql("CREATE TABLE people (id INTEGER PRIMARY KEY AUTO_INCREMENT, email TEXT UNIQUE, note BLOB)")
    door.sql("CREATE TRIGGER tidy BEFORE INSERT ON people CALL tidy")
    door.sql("CREATE TRIGGER born AFTER INSERT ON people CALL count")
    door.sql("CREATE TRIGGER gone AFTER DELETE ON people WHEN (OLD.id > 0) CALL count")
    return door


def counted(door: Any) -> dict[str, int]:
    pairs = door.command("HGETALL", "people")
    found = dict(pairs) if isinstance(pairs, dict) else dict(zip(pairs[::2], pairs[1::2], strict=True))
    return {(k.decode() if isinstance(k, bytes) else k): int(v) for k, v in found.items()}


def test_rows_that_are_written_in_any_way_fire(people: Any) -> None:
    people.sql("INSERT INTO people (email, note) VALUES (?, ?), (?, ?)", ["Ann@X", b"\x00\xff", "BOB@x", None])
    people.sql_many("INSERT INTO people (email) VALUES (?)", [[f"N{i}@x"] for i in range(50)])
    people.table("people").put({"id": 99, "email": "Put@X"})
    assert people.sql("SELECT email, note FROM people WHERE id = 1").one() == ("ann@x", b"\x00\xff")
    assert people.sql("SELECT email FROM people WHERE id = 99").scalar() == "put@x"
    people.table("people").delete(99)
    people.sql("DELETE FROM people WHERE id <= 10")
    assert counted(people) == {"insert": 53, "delete": 11}


def test_the_same_statement_in_a_loop_fires_as_well(people: Any) -> None:
    # What an embedded caller keeps of a statement must not pass by a trigger that was made meanwhile.
    people.sql("DROP TRIGGER tidy, born, gone")
    insert, update = "INSERT INTO people (id, email) VALUES (?, ?)", "UPDATE people SET note = ? WHERE id = ?"
    for i in range(1, 6):
        people.sql(insert, [i, f"A{i}@x"])
        people.sql(update, [b"x", i])
    people.sql("CREATE TRIGGER tidy BEFORE INSERT ON people CALL tidy")
    people.sql("CREATE TRIGGER changed AFTER UPDATE OF note ON people CALL count")
    for i in range(6, 11):
        people.sql(insert, [i, f"A{i}@x"])
        people.sql(update, [b"x", i])
    emails = people.sql("SELECT email FROM people ORDER BY id").column("email")
    assert emails == [f"A{i}@x" for i in range(1, 6)] + [f"a{i}@x" for i in range(6, 11)]
    assert counted(people) == {"update": 5}


def test_a_refusal_is_an_integrity_error_and_leaves_nothing(people: Any) -> None:
    with pytest.raises(peryton.ConstraintError, match=r"trigger tidy of table people: .*no address: nobody") as caught:
        people.sql("INSERT INTO people (email) VALUES ('a@x'), ('nobody')")
    assert caught.value.sqlstate == "09000"
    assert people.sql("SELECT count(*) FROM people").scalar() == 0
    assert counted(people) == {}


def test_keys_fire_triggers(people: Any) -> None:
    people.sql("INSERT INTO people (email) VALUES ('a@x'), ('b@x')")
    people.sql("CREATE TRIGGER forget ON KEYS '*@x' FOR 'del' CALL forget")
    people.command("SET", "a@x", "session")
    people.command("DEL", "a@x")
    assert people.sql("SELECT email FROM people").column("email") == ["b@x"]


def test_sql_calls_functions(people: Any) -> None:
    people.sql("INSERT INTO people (id, email) VALUES (1, 'a@x'), (2, 'b@x'), (3, 'c@x')")
    assert people.sql("SELECT id FROM people WHERE twice(id) > ? ORDER BY id", [3]).column("id") == [2, 3]
    with pytest.raises(peryton.SqlError, match="no such function"):
        people.sql("SELECT tidy(1)")


def test_schedules_run_by_themselves(people: Any) -> None:
    people.sql("CREATE SCHEDULE often EVERY 10 MILLISECONDS CALL tick WITH ('x')")
    deadline = time.monotonic() + 20
    while people.command("LLEN", "ticks") < 3:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    people.sql("DROP SCHEDULE often")
    assert set(people.command("LRANGE", "ticks", 0, -1)) <= {b"x", "x"}
    assert people.sql("SELECT count(*) FROM information_schema.schedules").scalar() == 0
