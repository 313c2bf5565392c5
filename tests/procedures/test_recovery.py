"""What is defined comes back: libraries, triggers and schedules after random changes, checkpoints and reopenings."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import pytest

import peryton
from peryton.exceptions import PerytonError

SEEDS = range(6)
STEPS = 90


class Definer:
    """Changes definitions at random."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.payloads: list[bytes] = [b"no payload"]

    def library(self) -> str:
        body = "if type(e) == 'table' and e.new then redis.call('INCR', 'count') end return"
        functions = self.random.sample("fghij", 2)
        lines = [
            f"redis.register_function('{f}', function(e) {body} {self.random.randint(0, 9)} end)" for f in functions
        ]
        return "\n".join([f"#!lua name={self.random.choice('abc')}", *lines])

    def change(self, db: peryton.Database) -> None:
        """One change, which may be refused."""
        pick, number = self.random.choice, self.random.randint
        table, function = pick("tu"), pick("fghij")
        row_event = f"{pick(('BEFORE', 'AFTER'))} {pick(('INSERT', 'UPDATE', 'DELETE'))} ON {table}"
        command: tuple[Any, ...] = pick(
            (
                ("FUNCTION", "LOAD", self.library()),
                ("FUNCTION", "LOAD", "REPLACE", self.library()),
                ("FUNCTION", "DELETE", pick("abc")),
                ("FUNCTION", "FLUSH"),
                ("FUNCTION", "RESTORE", pick(self.payloads), pick(("APPEND", "REPLACE", "FLUSH"))),
                ("FUNCTION", "DUMP"),
                ("SQL", f"CREATE TRIGGER r{number(0, 3)} {row_event} CALL {function}"),
                ("SQL", f"CREATE TRIGGER r{number(0, 3)} ON KEYS 'k*' CALL {function}"),
                ("SQL", f"DROP TRIGGER r{number(0, 3)}"),
                ("SQL", f"CREATE SCHEDULE s{number(0, 2)} EVERY {number(1, 9)} DAYS CALL {function}"),
                ("SQL", f"DROP SCHEDULE s{number(0, 2)}"),
                ("SQL", f"CREATE TABLE {table} (id INTEGER PRIMARY KEY, n INT)"),
                ("SQL", pick((f"DROP TABLE {table}", "ALTER TABLE t RENAME TO u"))),
                ("SQL", f"INSERT OR REPLACE INTO {table} VALUES ({number(0, 9)}, {number(0, 9)})"),
                ("SQL", f"UPDATE {table} SET n = n + 1"),
                ("SET", f"k{number(0, 3)}", number(0, 9)),
                (
                    "EVAL",
                    "peryton.psql(ARGV[1]) error('left as it is')",
                    0,
                    f"CREATE TRIGGER r1 {row_event} CALL {function}",
                ),
                ("EVAL", "#!lua flags=atomic\npcall(peryton.sql, ARGV[1]) error('undone')", 0, "DROP TRIGGER r1"),
                ("SAVE",),
            )
        )
        try:
            reply = db.command(*command)
        except PerytonError:
            return
        if command == ("FUNCTION", "DUMP"):
            self.payloads.append(reply)


def state(db: peryton.Database) -> list[Any]:
    """Definitions and data."""
    tables = [str(name) for (name,) in db.sql("SELECT table_name FROM information_schema.tables ORDER BY 1")]
    kept = [name for name in tables if name in ("t", "u")]
    return [
        sorted(map(repr, db.command("FUNCTION", "LIST", "WITHCODE"))),
        [db.sql(f"SHOW CREATE TRIGGER {row[0]}").one() for row in list(db.sql("SHOW TRIGGERS"))],
        [db.sql(f"SHOW CREATE SCHEDULE {row[0]}").one() for row in list(db.sql("SHOW SCHEDULES"))],
        {name: list(db.sql(f"SELECT * FROM {name} ORDER BY id")) for name in kept},
        sorted((key, db.command("GET", key)) for key in db.command("KEYS", "*")),
    ]


@pytest.mark.parametrize("seed", SEEDS)
def test_definitions_come_back(seed: int, tmp_path: Path) -> None:
    definer = Definer(seed)
    db = peryton.open(tmp_path)
    try:
        for step in range(STEPS):
            definer.change(db)
            if definer.random.random() < 0.1:
                before = state(db)
                db.close()
                db = peryton.open(tmp_path)
                assert state(db) == before, f"seed {seed}, step {step}"
    finally:
        db.close()
