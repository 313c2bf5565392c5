"""Statements that an embedded store keeps by their text's object do what the same statements do as requests."""

from __future__ import annotations

import random
import threading
from collections.abc import Sequence
from typing import Any

import pytest

import peryton
from peryton import _calls

SEEDS = range(6)
TABLES = (
    "CREATE TABLE t (id INTEGER PRIMARY KEY, a INTEGER, b TEXT, c REAL)",
    "CREATE TABLE t (a TEXT, id INTEGER NOT NULL, PRIMARY KEY (id) USING BTREE)",
    "CREATE TABLE t (id INTEGER PRIMARY KEY, a INTEGER UNIQUE CHECK (a <> 3), b BLOB DEFAULT x'00')",
)
STATEMENTS = (
    ("SELECT * FROM t WHERE id = ?", "k"),
    ("SELECT a, id AS number FROM t WHERE id = ?", "k"),
    ("SELECT * FROM t WHERE id IN (?, ?, 3)", "kk"),
    ("SELECT id FROM t WHERE a = ?", "v"),
    ("UPDATE t SET a = ? WHERE id = ?", "vk"),
    ("UPDATE t SET a = ?, b = ? WHERE id = ?", "vvk"),
    ("INSERT INTO t (id, a) VALUES (?, ?)", "kv"),
    ("REPLACE INTO t (id, a) VALUES (?, ?)", "kv"),
    ("DELETE FROM t WHERE id = ?", "k"),
    ("SELECT 7 AS seven", ""),
    ("SELECT * FROM t WHERE id = ? ORDER BY a LIMIT 2", "k"),
    ("UPDATE t SET c = ? WHERE id = ?", "vk"),
)
CHANGES = (
    "DROP TABLE t",
    *TABLES,
    "CREATE INDEX t_a ON t (a)",
    "DROP INDEX t_a",
    "ALTER TABLE t RENAME TO u",
    "ALTER TABLE u RENAME TO t",
    "ALTER TABLE t ADD COLUMN d INTEGER NOT NULL DEFAULT 4 AFTER id, ADD COLUMN IF NOT EXISTS c REAL",
    "ALTER TABLE t DROP COLUMN d",
    "ALTER TABLE t DROP COLUMN b, ADD b TEXT DEFAULT 'again'",
    "ALTER TABLE t RENAME a TO aa",
    "ALTER TABLE t RENAME aa TO a",
    "ALTER TABLE t ALTER a TYPE TEXT",
    "ALTER TABLE t ALTER c TYPE INTEGER",
    "TRUNCATE TABLE t",
)


def _outcome(run: Any, text: str, params: Sequence[Any]) -> Any:
    try:
        rows = run(text, params)
    except peryton.PerytonError as error:
        return type(error), str(error)
    return rows.columns, list(rows), rows.rowcount


def _by_request(db: peryton.Database) -> Any:
    return lambda text, params: db._run(_calls.sql(text, params))


def _value(dice: random.Random) -> Any:
    big = dice.choice((2**31, -(2**63), 2**63 - 1, 255, 256))
    return dice.choice(
        (dice.randrange(6), dice.randrange(6), None, "x", "7", "é" * 40, b"\x00\xff", 0.5, -0.0, 1e300, big)
    )


@pytest.mark.parametrize("seed", SEEDS)
def test_kept_statements_answer_as_requests_do(seed: int) -> None:
    dice = random.Random(seed)
    with peryton.open() as kept, peryton.open() as asked:
        for step in range(1500):
            if step == 0 or dice.random() < 0.03:
                change = dice.choice(CHANGES) if step else TABLES[0]
                assert _outcome(kept.sql, change, ()) == _outcome(_by_request(asked), change, ()), (seed, step)
            text, kinds = dice.choice(STATEMENTS)
            params = [dice.randrange(12) if kind == "k" and dice.random() < 0.9 else _value(dice) for kind in kinds]
            if dice.random() < 0.02:
                params.append(1)
            place = (seed, step, text, params)
            assert _outcome(kept.sql, text, params) == _outcome(_by_request(asked), text, params), place
        every = "SELECT * FROM t ORDER BY id"
        assert _outcome(kept.sql, every, ()) == _outcome(_by_request(asked), every, ())


@pytest.fixture
def db() -> Any:
    """A store with the first table and a row."""
    with peryton.open() as store:
        store.sql(TABLES[0])
        store.sql("INSERT INTO t VALUES (1, 2, 'b', 0.5)")
        yield store


def test_the_columns_are_those_of_the_table_as_it_is(db: Any) -> None:
    text = "SELECT * FROM t WHERE id = ?"
    for _ in range(3):
        assert db.sql(text, (1,)).dicts() == [{"id": 1, "a": 2, "b": "b", "c": 0.5}]
    db.sql("DROP TABLE t")
    with pytest.raises(peryton.SqlError, match="no such table"):
        db.sql(text, (1,))
    db.sql(TABLES[1])
    db.sql("INSERT INTO t VALUES ('new', 1)")
    for _ in range(3):
        assert db.sql(text, (1,)).dicts() == [{"a": "new", "id": 1}]


def test_old_rows_have_the_new_columns(db: Any) -> None:
    text = "SELECT * FROM t WHERE id = ?"
    assert db.sql(text, (1,)).dicts() == [{"id": 1, "a": 2, "b": "b", "c": 0.5}]
    db.sql("ALTER TABLE t ADD COLUMN d TEXT DEFAULT 'd' AFTER id, DROP COLUMN b, RENAME c TO cc")
    for _ in range(3):
        assert db.sql(text, (1,)).dicts() == [{"id": 1, "d": "d", "a": 2, "cc": 0.5}]
    db.table("t").put_many({"id": n, "a": n} for n in range(2, 5))
    db.sql_many("INSERT INTO t VALUES (?, ?, ?, ?)", [(n, "own", n, 0.25) for n in range(5, 8)])
    assert db.table("t").get(1) == {"id": 1, "d": "d", "a": 2, "cc": 0.5}
    assert [row["d"] for row in db.table("t").get_many([4, 5])] == ["d", "own"]
    assert db.sql("UPDATE t SET a = ? WHERE id = ?", (3, 1)).rowcount == 1
    assert db.sql(text, (1,)).dicts() == [{"id": 1, "d": "d", "a": 3, "cc": 0.5}]
    with pytest.raises(peryton.SqlError, match="no such column: c"):
        db.sql("SELECT c FROM t")


def test_calls_are_counted_and_slow_ones_noted(db: Any) -> None:
    text = "UPDATE t SET a = ?, b = ? WHERE id = ?"
    db.command("CONFIG", "SET", "slowlog-log-slower-than", 0)
    for a in range(5):
        db.sql(text, (a, "b", 1))
    db.command("CONFIG", "SET", "slowlog-log-slower-than", -1)
    assert db.sql("SELECT calls FROM information_schema.statements WHERE statement = ?", (text,)).scalar() == 5
    assert db.command("SLOWLOG", "GET")[0][3] == [
        b"SQL.BIND",
        b"iti",
        text.encode(),
        b"4",
        b"b",
        b"1",
    ]
    stats = db.command("INFO", "commandstats")
    assert "cmdstat_sql.bind:calls=6" in str(stats)


def test_what_is_no_number_is_refused(db: Any) -> None:
    for _ in range(2):
        with pytest.raises(peryton.SqlError, match="parameter 1 is not a number"):
            db.sql("UPDATE t SET c = ? WHERE id = ?", (float("nan"), 1))
    assert db.sql("SELECT c FROM t WHERE id = 1").scalar() == 0.5


def test_a_transaction_sees_its_own_rows_and_others_do_not(db: Any) -> None:
    text = "SELECT a FROM t WHERE id = ?"
    assert db.sql(text, (1,)).scalar() == 2
    with db.transaction() as t:
        t.sql("UPDATE t SET a = ? WHERE id = ?", (9, 1))
        assert t.sql(text, (1,)).scalar() == 9
        assert db.sql(text, (1,)).scalar() == 2
    assert db.sql(text, (1,)).scalar() == 9


def test_threads_share_what_is_kept(db: Any) -> None:
    text = "UPDATE t SET a = ? WHERE id = ?"
    db.sql_many("INSERT INTO t (id, a) VALUES (?, ?)", [(i, 0) for i in range(2, 6)])
    failures: list[BaseException] = []

    def work(row: int) -> None:
        try:
            for a in range(300):
                db.sql(text, (a, row))
                assert db.sql("SELECT a FROM t WHERE id = ?", (row,)).scalar() == a
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(row,)) for row in range(1, 6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    assert db.sql("SELECT a FROM t").column() == [299] * 5
