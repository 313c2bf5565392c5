"""SQL and the row API through every door: what goes in comes out, with its type."""

from __future__ import annotations

from datetime import date, datetime
from decimal import Decimal
from typing import Any

import pytest

import peryton
from peryton import Rows, _calls

CREATE = "CREATE TABLE t (id INTEGER, name TEXT, weight REAL, data BLOB, PRIMARY KEY (id) USING HASH)"


@pytest.fixture
def table(door: Any) -> Any:
    """A door to a store with the table t of three rows."""
    assert door.sql(CREATE).rowcount == 0
    insert = "INSERT INTO t VALUES (?, ?, ?, ?), (?, ?, ?, ?), (?, ?, ?, ?)"
    values = [1, "one", 1.5, b"\x00\xff", 2, "zwei €", -0.25, b"", 3, None, None, None]
    assert door.sql(insert, values).rowcount == 3
    return door


def test_rows_have_the_types_of_their_columns(table: Any) -> None:
    rows = table.sql("SELECT * FROM t ORDER BY id")
    assert rows.columns == ("id", "name", "weight", "data")
    assert list(rows) == [(1, "one", 1.5, b"\x00\xff"), (2, "zwei €", -0.25, b""), (3, None, None, None)]
    assert rows.rowcount == len(rows) == 3
    assert rows[0] == (1, "one", 1.5, b"\x00\xff")
    assert rows[1:] == [rows[1], rows[2]]
    assert rows.dicts()[2] == {"id": 3, "name": None, "weight": None, "data": None}
    assert rows.column("name") == ["one", "zwei €", None]
    assert repr(rows) == "<Rows: 3 of (id, name, weight, data)>"


def test_no_row_one_row_one_value(table: Any) -> None:
    none = table.sql("SELECT name FROM t WHERE id = 9")
    assert (len(none), none.columns, none.scalar()) == (0, ("name",), None)
    assert table.sql("SELECT name FROM t WHERE id = 1").one() == ("one",)
    assert table.sql("SELECT count(*) FROM t").scalar() == 3
    with pytest.raises(ValueError, match="expected one row, got 3"):
        table.sql("SELECT id FROM t").one()


def test_statements_that_change_tell_how_many(table: Any) -> None:
    changed = table.sql("UPDATE t SET weight = 0 WHERE id > 1")
    assert (changed.rowcount, len(changed), changed.columns) == (2, 0, ())
    assert repr(changed) == "<Rows: 2 changed>"
    assert table.sql("DELETE FROM t WHERE id = 9").rowcount == 0


@pytest.mark.parametrize(
    ("given", "found"),
    [
        (None, None),
        (7, 7),
        (-(2**63), -(2**63)),
        (1.5, 1.5),
        (1e300, 1e300),
        ("12", "12"),
        ("", ""),
        ("it's ä; --", "it's ä; --"),
        (b"12", b"12"),
        (bytearray(b"x"), b"x"),
        (memoryview(b"x"), b"x"),
        (True, 1),
        (date(2026, 11, 30), "2026-11-30"),
        (datetime(2026, 11, 30, 9, 5), "2026-11-30 09:05:00"),
        (Decimal("1.50"), "1.50"),
    ],
)
def test_a_parameter_comes_back_as_what_it_is(door: Any, given: Any, found: Any) -> None:
    value = door.sql("SELECT ? AS x", [given]).scalar()
    assert (value, type(value)) == (found, type(found))


def test_parameters_by_name(table: Any) -> None:
    rows = table.sql("SELECT :b AS b, ':a' AS q, id FROM t WHERE id = :a AND :b = :b -- :c", {"a": 1, "b": "x"})
    assert rows.dicts() == [{"b": "x", "q": ":a", "id": 1}]
    with pytest.raises(ValueError, match="no value for the parameter :missing"):
        table.sql("SELECT :missing", {"a": 1})


def test_an_error_names_what_and_where(table: Any) -> None:
    for statement, names in (
        ("SELECT * FROM nowhere", "nowhere"),
        ("SELECT nothing FROM t", "nothing"),
        ("SELEKT 1", "SELEKT"),
        ("SELECT 1 +", "incomplete"),
    ):
        with pytest.raises(peryton.SqlError, match=names):
            table.sql(statement)
    with pytest.raises(peryton.ConstraintError):
        table.sql("INSERT INTO t VALUES (1, 'again', 0, NULL)")
    with pytest.raises(TypeError, match="a parameter cannot be a object"):
        table.sql("SELECT ?", [object()])
    assert table.sql("SELECT count(*) FROM t").scalar() == 3


def test_a_failed_statement_changes_nothing(table: Any) -> None:
    with pytest.raises(peryton.ConstraintError):
        table.sql("INSERT INTO t VALUES (4, 'four', 0, NULL), (1, 'again', 0, NULL)")
    assert table.sql("SELECT count(*) FROM t").scalar() == 3


def test_sql_over_the_keyspace(table: Any) -> None:
    table.command("ZADD", "z", 2, "one", 1, "zwei €")
    rows = table.sql("SELECT t.id, z.score FROM zset('z') z JOIN t ON t.name = z.member ORDER BY z.score")
    assert list(rows) == [(2, 1.0), (1, 2.0)]


def test_rows_by_key(table: Any) -> None:
    t = table.table("t")
    assert t.get(1) == {"id": 1, "name": "one", "weight": 1.5, "data": b"\x00\xff"}
    assert t.get(9) is None
    assert [row and row["id"] for row in t.get_many([3, 9, 1])] == [3, None, 1]
    assert t.get_many([]) == []


def test_putting_and_deleting_rows(table: Any) -> None:
    t = table.table("t")
    t.put({"id": 1, "name": "uno"})
    assert t.get(1) == {"id": 1, "name": "uno", "weight": None, "data": None}
    t.put({"id": 1, "name": None, "weight": 2, "data": b"\xff"})
    assert t.get(1) == {"id": 1, "name": None, "weight": 2.0, "data": b"\xff"}
    assert t.put_many({"id": number, "name": str(number)} for number in range(10, 20)) == 10
    assert t.delete(10, 11, 99) == 2
    assert t.delete() == 0
    assert table.sql("SELECT count(*) FROM t").scalar() == 11
    with pytest.raises(peryton.SqlError, match="nowhere"):
        table.table("nowhere").get(1)


def test_scanning_a_table_in_batches(door: Any) -> None:
    door.sql(CREATE)
    door.table("t").put_many({"id": number} for number in range(250))
    assert sorted(row["id"] for row in door.table("t").scan(100)) == list(range(250))
    door.sql("DELETE FROM t")
    assert list(door.table("t").scan()) == []


def test_a_key_of_several_columns(door: Any) -> None:
    door.sql("CREATE TABLE p (x INTEGER, y TEXT, z INTEGER, PRIMARY KEY (x, y) USING BTREE)")
    p = door.table("p")
    p.put({"x": 1, "y": "a", "z": 10})
    assert p.get((1, "a")) == {"x": 1, "y": "a", "z": 10}
    assert [row and row["z"] for row in p.get_many([(1, "b"), (1, "a")])] == [None, 10]
    assert p.delete((1, "a")) == 1


def test_what_is_known_of_a_table(table: Any) -> None:
    info = table.table("t").info()
    assert (info["name"], info["rows"]) == ("t", 3)
    assert [(column["name"], column["type"]) for column in info["columns"]] == [
        ("id", "INTEGER"),
        ("name", "TEXT"),
        ("weight", "REAL"),
        ("data", "BLOB"),
    ]
    assert info["indexes"][0]["columns"] == ["id"]


# --- results and parameters, without a store ----------------------------------------------------------------------


def test_rows_compare_with_lists_of_tuples() -> None:
    rows = Rows(("a",), [(1,), (2,)], 2)
    assert rows == [(1,), (2,)]
    assert rows == Rows(("a",), [(1,), (2,)], 2)
    assert rows != Rows(("b",), [(1,), (2,)], 2)
    assert (1,) in rows


@pytest.mark.parametrize(
    ("text", "params", "rewritten", "values"),
    [
        ("SELECT :a, :b, :a", {"a": 1, "b": 2}, "SELECT ?1, ?2, ?1", [1, 2]),
        ("SELECT ':a', \":a\", [:a], `:a`, :a", {"a": 1}, "SELECT ':a', \":a\", [:a], `:a`, ?1", [1]),
        ("SELECT 1 -- :a\n, :a /* :b */", {"a": 1}, "SELECT 1 -- :a\n, ?1 /* :b */", [1]),
        ("SELECT :a::b", {"a": 1, "b": 2}, "SELECT ?1:?2", [1, 2]),
        ("SELECT :1", {"a": 1}, "SELECT :1", []),
    ],
)
def test_named_parameters_become_numbered(text: str, params: Any, rewritten: str, values: list[int]) -> None:
    assert _calls.sql(text, params).args[2:] == (rewritten, *values)


def test_errors_tell_state_place_and_hint(table: Any) -> None:
    with pytest.raises(peryton.SqlError) as caught:
        table.sql("SELECT nmae FROM t")
    error = caught.value
    assert (error.code, error.sqlstate, error.position) == ("SQL", "42S22", 8)
    assert (error.message, error.hint) == ("no such column: nmae", "did you mean name?")
    assert str(error) == "SQL 42S22 no such column: nmae at position 8; hint: did you mean name?"
    with pytest.raises(peryton.ConstraintError) as caught:
        table.sql("INSERT INTO t VALUES (1, NULL, NULL, NULL)")
    assert (caught.value.sqlstate, caught.value.position) == ("23505", None)
    with pytest.raises(peryton.SqlError) as caught:
        table.sql("SELECT 1; SELECT 2")
    assert (caught.value.sqlstate, caught.value.position) == ("42601", 11)
    assert caught.value.message == "syntax error: one statement at a time: a second one begins here"
    with pytest.raises(peryton.SqlError) as caught:
        table.table("tt").get(1)
    assert (caught.value.sqlstate, caught.value.hint) == ("42S02", "did you mean t?")
    table.command("SET", "k", "v")
    with pytest.raises(peryton.WrongTypeError) as wrong:
        table.command("LPUSH", "k", "v")
    assert (wrong.value.sqlstate, wrong.value.position, wrong.value.hint) == (None, None, None)
