"""Forms of writing through every door: upserts, RETURNING, many rows at once, rows to keys and keys to rows."""

from __future__ import annotations

from datetime import date
from decimal import Decimal
from typing import Any

import pytest

import peryton


@pytest.fixture
def table(door: Any) -> Any:
    """A door to a store with a table of three rows."""
    door.sql("CREATE TABLE t (id INT PRIMARY KEY, name TEXT, visits INT DEFAULT 1)")
    door.sql("INSERT INTO t (id, name) VALUES (1, 'Ada'), (2, 'Bo'), (3, 'Cy')")
    return door


def all_rows(door: Any) -> list[Any]:
    return list(door.sql("SELECT * FROM t ORDER BY id"))


def test_upserts_in_both_spellings(table: Any) -> None:
    sqlite = "INSERT INTO t (id, name) VALUES (?, ?) ON CONFLICT (id) DO UPDATE SET visits = visits + 1"
    mysql = "INSERT INTO t (id, name) VALUES (?, ?) ON DUPLICATE KEY UPDATE name = VALUES(name), visits = visits + 10"
    assert table.sql(sqlite, [1, "x"]).rowcount == 1
    assert table.sql(mysql, [2, "Bob"]).rowcount == 1
    assert table.sql(mysql, [4, "Di"]).rowcount == 1
    assert table.sql("INSERT INTO t (id) VALUES (3) ON CONFLICT DO NOTHING").rowcount == 0
    assert all_rows(table) == [(1, "Ada", 2), (2, "Bob", 11), (3, "Cy", 1), (4, "Di", 1)]


def test_returning(table: Any) -> None:
    rows = table.sql("INSERT INTO t (id, name) VALUES (?, ?) RETURNING id, upper(name) AS loud, visits", [9, "Ida"])
    assert (rows.columns, list(rows)) == (("id", "loud", "visits"), [(9, "IDA", 1)])
    assert list(table.sql("UPDATE t SET visits = visits + id WHERE id < 3 RETURNING *")) == [
        (1, "Ada", 2),
        (2, "Bo", 3),
    ]
    assert list(table.sql("DELETE FROM t WHERE id > 2 RETURNING name")) == [("Cy",), ("Ida",)]
    assert list(table.sql("REPLACE INTO t VALUES (1, 'A', 0) RETURNING name")) == [("A",)]
    assert len(all_rows(table)) == 2


def test_limits_of_writing(table: Any) -> None:
    assert table.sql("DELETE FROM t ORDER BY id DESC LIMIT 1").rowcount == 1
    assert table.sql("UPDATE t SET name = 'first' ORDER BY id LIMIT ?", [1]).rowcount == 1
    assert all_rows(table) == [(1, "first", 1), (2, "Bo", 1)]
    assert table.sql("UPDATE t SET id = id + 1").rowcount == 2
    assert table.sql("TRUNCATE TABLE t").rowcount == 2
    assert all_rows(table) == []


def test_many_rows_at_once(table: Any) -> None:
    insert = "INSERT INTO t VALUES (?, ?, ?)"
    assert table.sql_many(insert, ((i, f"n{i}", None if i % 2 else i) for i in range(100, 350)), batch=100) == 250
    assert table.sql("SELECT count(*), count(visits) FROM t").one() == (253, 128)
    assert (
        table.sql_many("UPDATE t SET name = :name WHERE id = :id", [{"id": 1, "name": "A"}, {"id": 2, "name": "B"}])
        == 2
    )
    assert table.sql_many("DELETE FROM t WHERE id = ?", [[100], [101], [1000]]) == 2
    assert table.sql_many(insert, []) == 0
    assert table.sql("SELECT name FROM t WHERE id = 1").scalar() == "A"


def test_many_rows_fail_together(table: Any) -> None:
    before = all_rows(table)
    with pytest.raises(peryton.ConstraintError, match="UNIQUE constraint failed"):
        table.sql_many("INSERT INTO t VALUES (?, ?, ?)", [(7, "a", 1), (8, "b", 1), (1, "c", 1)])
    assert all_rows(table) == before
    with pytest.raises(peryton.ConstraintError, match="UNIQUE constraint failed"):
        table.sql_many("INSERT INTO t VALUES (?, ?, ?)", [(7, "a", 1), (8, "b", 1), (1, "c", 1)], batch=2)
    assert len(all_rows(table)) == len(before) + 2, "the first batch stays"
    with pytest.raises(ValueError, match="row 2 has 1 values, the first one has 2"):
        table.sql_many("UPDATE t SET name = ? WHERE id = ?", [("a", 1), ("b",)])
    with pytest.raises(TypeError, match="cannot be a set"):
        table.sql_many("UPDATE t SET name = ? WHERE id = ?", [({1}, 1)])
    with pytest.raises(OverflowError):
        table.sql_many("UPDATE t SET visits = ? WHERE id = ?", [(2**63, 1)])
    with pytest.raises(peryton.SqlError, match="may not return rows"):
        table.sql_many("SELECT ?", [(1,)])
    with pytest.raises(ValueError, match="no value for the parameter :name"):
        table.sql_many("UPDATE t SET name = :name", [{"name": "a"}, {}])
    with pytest.raises(ValueError, match="at least one row"):
        table.sql_many("UPDATE t SET name = ?", [("a",)], batch=0)


def test_many_rows_of_all_kinds(door: Any) -> None:
    door.sql(
        "CREATE TABLE k (id INT PRIMARY KEY, a ANY)"
        if False
        else "CREATE TABLE k (id INT PRIMARY KEY, r REAL, b BLOB, d DATE, m DECIMAL(6, 2), f BOOLEAN)"
    )
    rows = [
        (1, 1.5, b"\xff\x00", date(2026, 11, 30), Decimal("1.50"), True),
        (2, None, bytearray(b"x"), None, None, False),
    ]
    assert door.sql_many("INSERT INTO k VALUES (?, ?, ?, ?, ?, ?)", rows) == 2
    found = list(door.sql("SELECT id, r, b, d, m + 0, f FROM k ORDER BY id"))
    assert found == [(1, 1.5, b"\xff\x00", "2026-11-30", 1.5, 1), (2, None, b"x", None, None, 0)]


def test_put_many_groups_by_columns(table: Any) -> None:
    records = [{"id": 1, "name": "x"}, {"id": 5, "name": None}, {"id": 6}, {"visits": 9, "id": 7}]
    assert table.table("t").put_many(records) == 4
    assert [row for row in all_rows(table) if row[0] in (1, 5, 6, 7)] == [
        (1, "x", 1),
        (5, None, 1),
        (6, None, 1),
        (7, None, 9),
    ]


def test_rows_to_keys_and_keys_to_rows(table: Any) -> None:
    assert table.sql("SELECT name, id FROM t STORE INTO HASH 'names'").rowcount == 3
    assert table.command("HGET", "names", "Bo") == b"2"
    assert table.sql("SELECT name, id * 10 FROM t STORE INTO ZSET ?", ["board"]).rowcount == 3
    assert list(table.sql("SELECT member FROM zset('board') WHERE score >= 20 ORDER BY score DESC")) == [
        ("Cy",),
        ("Bo",),
    ]
    joined = "SELECT t.id FROM zset('board') z JOIN t ON t.name = z.member ORDER BY z.score"
    assert list(table.sql(joined)) == [(1,), (2,), (3,)]
    assert table.sql("INSERT INTO t (id, name) SELECT value + 100, field FROM hash('names')").rowcount == 3
    assert table.sql("SELECT field FROM hash('names') WHERE field IN ('Ada', 'Zoe')").one() == ("Ada",)
    assert table.sql("SELECT type FROM keys WHERE key = 'names'").scalar() == "hash"


def test_keys_are_deleted_by_pattern(door: Any) -> None:
    door.pipeline([["SET", f"{'x' if i % 2 else 'y'}:{i}", "v"] for i in range(3000)])
    assert door.sql("DELETE FROM keys WHERE key GLOB 'x:*'").rowcount == 1500
    assert door.command("DBSIZE") == 1500
    assert door.sql("DELETE FROM keys").rowcount == 1500
