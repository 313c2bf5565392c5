"""`peryton import` and `peryton export`: CSV, SQLite databases and dumps, through a served URL."""

from __future__ import annotations

import os
import pty
import random
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import peryton

PIECES = ["a", "'", '"', ",", ";", "\n", "\r\n", "\r", "\u00e9", "\u2003", "\U0001f98c", "\\x", "--", " ", "NULL", "0"]


def run(*args: str, stdin: bytes | None = None) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [sys.executable, "-m", "peryton", *args], input=stdin or b"", capture_output=True, timeout=60, check=False
    )


class Served:
    """A store and its address."""

    def __init__(self, db: peryton.Database) -> None:
        self.db = db
        self.url = db.serve().address

    def load(self, *args: str, stdin: bytes | None = None) -> subprocess.CompletedProcess[bytes]:
        return run("import", *args, "--to", self.url, stdin=stdin)

    def save(self, *args: str) -> subprocess.CompletedProcess[bytes]:
        return run("export", *args, "--from", self.url)

    def rows(self, text: str) -> list[tuple[Any, ...]]:
        return list(self.db.sql(text))


@pytest.fixture
def served() -> Iterator[Served]:
    with peryton.open() as db:
        yield Served(db)


def seeded() -> random.Random:
    seed = random.randrange(2**32)
    print("seed", seed)
    return random.Random(seed)


def some_text(source: random.Random) -> str:
    return "".join(source.choices(PIECES, k=source.randrange(1, 8)))


def ok(done: subprocess.CompletedProcess[bytes]) -> subprocess.CompletedProcess[bytes]:
    assert done.returncode == 0, done.stderr.decode()
    return done


def fails(done: subprocess.CompletedProcess[bytes]) -> str:
    assert done.returncode == 1, (done.stdout, done.stderr)
    assert b"Traceback" not in done.stderr
    return done.stderr.decode()


def test_help_lists_both() -> None:
    text = run("--help").stdout.decode()
    assert "  import " in text
    assert "  export " in text


# --- CSV ----------------------------------------------------------------------------------------------------------


def test_create_finds_types_from_all_values(served: Served, tmp_path: Path) -> None:
    file = tmp_path / "deer.csv"
    file.write_text(
        "id,weight,zip,note,empty,big,mixed\n"
        '1,1,007,"a, b",,9007199254740993,1.5\n'
        '2,2.5,1,"x\ny",,9223372036854775807,9007199254740993\n'
        "3,,1,,,-1,\n"
    )
    done = ok(served.load(str(file), "--into", "deer", "--create", "--key", "id"))
    assert done.stdout.startswith(b"deer: 3 rows in ")
    assert done.stderr == b""
    kinds = served.rows("SELECT column_name, data_type, column_key FROM information_schema.columns")
    assert kinds == [
        ("id", "INTEGER", "PRI"),
        ("weight", "REAL", ""),
        ("zip", "TEXT", ""),
        ("note", "TEXT", ""),
        ("empty", "TEXT", ""),
        ("big", "INTEGER", ""),
        ("mixed", "TEXT", ""),
    ]
    assert served.rows("SELECT * FROM deer ORDER BY id") == [
        (1, 1.0, "007", "a, b", None, 9007199254740993, "1.5"),
        (2, 2.5, "1", "x\ny", None, 9223372036854775807, "9007199254740993"),
        (3, None, "1", None, None, -1, None),
    ]


def test_csv_round_trip_of_random_rows(served: Served, tmp_path: Path) -> None:
    source = seeded()
    served.db.sql("CREATE TABLE a (id INTEGER PRIMARY KEY, t TEXT, b BLOB, r REAL, d DECIMAL(8,2))")
    rows = [
        (
            n,
            source.choice([None, some_text(source)]),
            source.choice([None, b"", b"\\x", source.randbytes(5)]),
            source.choice([None, source.random(), 1e300, -0.5, float("-inf")]),
            source.choice([None, "1.50", "-3.00"]),
        )
        for n in range(3000)
    ]
    served.db.sql_many("INSERT INTO a VALUES (?, ?, ?, ?, ?)", rows)
    served.db.sql("CREATE TABLE b (id INTEGER PRIMARY KEY, t TEXT, b BLOB, r REAL, d DECIMAL(8,2))")
    file = str(tmp_path / "a.csv")
    options = ["--null", "\\N", "--delimiter", ";"]
    ok(served.save("a", "--csv", file, *options))
    ok(served.load(file, "--into", "b", "--batch", "700", *options))
    assert served.rows("SELECT * FROM b ORDER BY id") == rows


def test_standard_input_and_output(served: Served) -> None:
    data = b"id,name\n1,Ada\n2,\xc3\xa9\n"
    ok(served.load("-", "--into", "t", "--create", stdin=data))
    assert ok(served.save("t", "--csv", "-")).stdout == data
    served.db.sql("CREATE VIEW v AS SELECT name FROM t WHERE id = 1")
    assert ok(served.save("v", "--csv", "-")).stdout == b"name\nAda\n"


def test_texts_that_look_like_null_are_told(served: Served) -> None:
    served.db.sql("CREATE TABLE t (a TEXT)")
    served.db.sql("INSERT INTO t VALUES (''), (NULL), ('x')")
    assert b"1 texts of t read as NULL again" in ok(served.save("t", "--csv", "-")).stderr


def test_what_does_not_fit_names_line_and_column_and_leaves_nothing_of_its_batch(
    served: Served, tmp_path: Path
) -> None:
    served.db.sql("CREATE TABLE t (id INTEGER PRIMARY KEY, n INTEGER, s TEXT)")
    file = tmp_path / "t.csv"
    file.write_text('id,n,s\n1,1,"two\nlines"\n2,2,b\n3,3,c\n4,four,d\n5,5,e\n')
    error = fails(served.load(str(file), "--into", "t", "--batch", "2"))
    assert f"{file}, line 6, column n: " in error
    assert "four" in error
    assert served.rows("SELECT id FROM t ORDER BY id") == [(1,), (2,)]


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"", "is empty"),
        (b"id,id\n", "line 1: the column 'id'"),
        (b"id,zz\n1,2\n", "line 1: table t has no column zz"),
        (b"id,s\n1,a\n2\n", "line 3: 1 fields where the header has 2"),
        (b"id,s\n1,a\n2,b,c\n", "line 3: 3 fields where the header has 2"),
        (b'id,s\n1,a\n2,"b\n', "line 3: unexpected end of data"),
        (b"id,s\n1,a\n1,b\n", "line 3, column id: "),
        (b"id,b\n1,\\x0\n", "line 2, column b: "),
        (b"id,s\n1,\xff\n", "not UTF-8"),
    ],
)
def test_errors_name_the_line(served: Served, data: bytes, expected: str) -> None:
    served.db.sql("CREATE TABLE t (id INTEGER PRIMARY KEY, s TEXT, b BLOB)")
    assert f"{expected}" in fails(served.load("-", "--into", "t", stdin=data))
    assert served.rows("SELECT * FROM t") == []


def test_a_missing_table_is_told(served: Served) -> None:
    assert "no table t; --create makes it" in fails(served.load("-", "--into", "t", stdin=b"a\n1\n"))
    fails(served.save("t", "--csv", "-"))
    assert "no such table: t" in fails(served.save("--sql", "-", "--table", "t"))


def test_a_failed_export_leaves_the_old_file(served: Served, tmp_path: Path) -> None:
    file = tmp_path / "t.csv"
    file.write_text("old")
    fails(served.save("t", "--csv", str(file)))
    assert file.read_text() == "old"
    assert list(tmp_path.iterdir()) == [file]


def test_a_place_that_cannot_be_written_is_told(served: Served, tmp_path: Path) -> None:
    assert "cannot write" in fails(served.save("--sql", str(tmp_path / "none" / "x.sql")))


def test_options_that_contradict_are_refused(tmp_path: Path) -> None:
    for args in (
        ["import", "-"],
        ["import", "-", "--into", "t", "--lenient"],
        ["import", "-", "--into", "t", "--key", "a"],
        ["import", "-", "--into", "t", "--delimiter", "ab"],
        ["import", "-", "--into", "t", "--dir", str(tmp_path), "--to", "localhost"],
        ["export", "t"],
        ["export", "--csv", "-"],
        ["export", "t", "--csv", "-", "--sql", "-"],
    ):
        done = run(*args)
        assert done.returncode == 2, args
        assert b"Usage" in done.stderr


def test_a_directory_keeps_what_was_imported(tmp_path: Path) -> None:
    done = ok(run("import", "-", "--into", "t", "--create", "--dir", str(tmp_path), stdin=b"a\n1\n"))
    assert done.stdout.startswith(b"t: 1 row in ")
    assert done.stderr == b""
    assert ok(run("export", "t", "--csv", "-", "--dir", str(tmp_path))).stdout == b"a\n1\n"


def test_progress_shows_only_on_a_terminal(served: Served, tmp_path: Path) -> None:
    file = tmp_path / "t.csv"
    file.write_text("a\n" + "1\n" * 20_000)
    assert ok(served.load(str(file), "--into", "t", "--create")).stderr == b""
    master, slave = pty.openpty()
    command = [sys.executable, "-m", "peryton", "import", str(file), "--into", "t", "--to", served.url]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=slave, env=os.environ | {"TERM": "xterm"}) as done:
        os.close(slave)
        shown = b""
        try:
            while more := os.read(master, 65536):
                shown += more
        except OSError:
            pass
    os.close(master)
    assert done.returncode == 0
    assert b"%" in shown


# --- SQLite -------------------------------------------------------------------------------------------------------

SCHEMA = """
CREATE TABLE herd (name VARCHAR(20) COLLATE NOCASE NOT NULL UNIQUE, id INTEGER PRIMARY KEY AUTOINCREMENT,
    founded DATE DEFAULT '2020-01-01', CHECK (length(name) >= 1));
CREATE TABLE deer (herd INTEGER NOT NULL REFERENCES herd(id) ON DELETE CASCADE, nr INT, mother INTEGER,
    weight DOUBLE DEFAULT 1e-3, photo BLOB, "the note" TEXT, price DECIMAL(8, 2), anything,
    heavy GENERATED ALWAYS AS (weight * 2) VIRTUAL, -- a comment, with a comma
    PRIMARY KEY (herd, nr), FOREIGN KEY (herd, mother) REFERENCES deer (herd, nr));
CREATE INDEX by_note ON deer ("the note" DESC, weight) WHERE weight > 0;
CREATE VIEW first_ones AS SELECT nr FROM heavy_ones WHERE nr < 100;
CREATE VIEW heavy_ones AS SELECT herd, nr FROM deer WHERE weight > 0.5;
CREATE TRIGGER t AFTER INSERT ON herd BEGIN SELECT 1; END;
"""


def make_sqlite(path: Path, source: random.Random) -> None:
    with closing(sqlite3.connect(path)) as db:
        db.executescript(SCHEMA)
        db.executemany("INSERT INTO herd (id, name) VALUES (?, ?)", [(n, f"h{n}'\n\u00e9") for n in (7, 3, 5)])
        rows = [
            (
                source.choice((7, 3, 5)),
                n,
                source.choice([None, source.random()]),
                source.choice([None, b"", source.randbytes(4)]),
                source.choice([None, "", some_text(source), "a\0b"]),
                source.choice([None, 1.5, 3]),
                source.choice([None, 1, "1", 1.0, b"1"]),
            )
            for n in range(1000)
        ]
        db.executemany(
            'INSERT INTO deer (herd, nr, weight, photo, "the note", price, anything) VALUES (?, ?, ?, ?, ?, ?, ?)', rows
        )
        # Mothers come after their children, too.
        db.execute("UPDATE deer SET mother = (SELECT max(d.nr) FROM deer d WHERE d.herd = deer.herd) WHERE nr % 2")
        db.commit()


def sqlite_rows(path: Path, text: str) -> list[tuple[Any, ...]]:
    with closing(sqlite3.connect(path)) as db:
        return db.execute(text).fetchall()


QUERIES = [
    "SELECT * FROM herd ORDER BY id",
    "SELECT *, heavy, typeof(anything) FROM deer ORDER BY nr",
    "SELECT * FROM heavy_ones ORDER BY nr",
    "SELECT * FROM first_ones ORDER BY nr",
]


def test_sqlite_in_and_a_dump_out_give_equal_rows(served: Served, tmp_path: Path) -> None:
    old, new, dump = tmp_path / "old.db", tmp_path / "new.db", tmp_path / "dump.sql"
    make_sqlite(old, seeded())
    done = ok(served.load(str(old), "--batch", "300"))
    assert done.stderr.decode() == "warning: trigger t: it is SQL, and Peryton's call functions\n"
    assert b"deer: 1,000\n" in done.stdout
    for query in QUERIES:
        assert served.rows(query) == sqlite_rows(old, query)
    for broken in (
        "INSERT INTO herd (name) VALUES ('')",
        "INSERT INTO herd (name) SELECT upper(name) FROM herd",
        "INSERT INTO deer (herd, nr) VALUES (99, 5000)",
        "INSERT INTO deer (herd, nr) VALUES (NULL, 5000)",
    ):
        with pytest.raises(peryton.ConstraintError):
            served.db.sql(broken)
    served.db.sql("INSERT INTO herd (name) VALUES ('new')")
    assert served.rows("SELECT id, founded FROM herd WHERE name = 'NEW'") == [(8, "2020-01-01")]
    served.db.sql("DELETE FROM herd WHERE name = 'new'")
    assert ("by_note", '"the note" DESC, weight', "weight > 0") in served.rows(
        "SELECT index_name, columns, condition FROM information_schema.indexes"
    )

    ok(served.save("--sql", str(dump)))
    text = dump.read_bytes().decode()
    assert text.index('CREATE TABLE "herd"') < text.index('CREATE TABLE "deer"')
    with closing(sqlite3.connect(new)) as db:
        db.executescript(text)
        assert db.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        assert db.execute("PRAGMA foreign_key_check").fetchall() == []
    for query in QUERIES:
        assert sqlite_rows(new, query) == sqlite_rows(old, query)
    with closing(sqlite3.connect(new)) as db, pytest.raises(sqlite3.IntegrityError):
        db.execute("INSERT INTO herd (name) VALUES ('')")
    assert ("by_note",) in sqlite_rows(new, "SELECT name FROM sqlite_schema WHERE type = 'index'")

    # And back again into a store that is empty.
    with peryton.open() as other:
        again = Served(other)
        ok(again.load(str(new)))
        for query in QUERIES:
            assert again.rows(query) == sqlite_rows(old, query)


def test_values_of_another_type_are_named_or_make_the_column_untyped(served: Served, tmp_path: Path) -> None:
    file = tmp_path / "a.db"
    with closing(sqlite3.connect(file)) as db:
        db.execute("CREATE TABLE t (a INTEGER, b TEXT PRIMARY KEY)")
        db.execute("INSERT INTO t VALUES (1, 'x'), ('many', 'y'), (2, NULL)")
        db.commit()
    error = fails(served.load(str(file)))
    assert f"{file}, table t, row 2, column a: text in a column of INTEGER" in error
    assert served.rows("SHOW TABLES") == []
    done = ok(served.load(str(file), "--lenient"))
    assert b"the column is ANY now" in done.stderr
    assert b"NULL in the primary key" in done.stderr
    assert served.rows("SELECT a, b FROM t ORDER BY rowid") == [(1, "x"), ("many", "y"), (2, None)]


def test_text_that_is_not_utf_8_is_named_or_kept_as_bytes(served: Served, tmp_path: Path) -> None:
    file = tmp_path / "a.db"
    with closing(sqlite3.connect(file)) as db:
        db.executescript("CREATE TABLE t (a TEXT); INSERT INTO t VALUES ('x'), (CAST(X'ff' AS TEXT));")
    assert "row 2, column a: text that is not UTF-8" in fails(served.load(str(file)))
    assert served.rows("SHOW TABLES") == []
    ok(served.load(str(file), "--lenient"))
    assert served.rows("SELECT a FROM t ORDER BY rowid") == [("x",), (b"\xff",)]


def test_a_circle_of_tables_loses_a_foreign_key_and_says_so(served: Served, tmp_path: Path) -> None:
    file = tmp_path / "a.db"
    with closing(sqlite3.connect(file)) as db:
        db.executescript(
            "CREATE TABLE a (id INTEGER PRIMARY KEY, b REFERENCES b(id));"
            "CREATE TABLE b (id INTEGER PRIMARY KEY, a REFERENCES a(id));"
            "INSERT INTO a VALUES (1, 1); INSERT INTO b VALUES (1, 1); CREATE VIEW v AS SELECT 1 FROM nowhere;"
        )
    told = ok(served.load(str(file))).stderr.decode()
    assert told.count("FOREIGN KEY") == 1
    assert "view v: left out" in told
    assert served.rows("SELECT a.id, b.id FROM a JOIN b ON a.b = b.id AND b.a = a.id") == [(1, 1)]
    assert len(served.rows("SELECT * FROM information_schema.foreign_keys")) == 1


def test_what_stands_in_a_definition_is_read_whole(served: Served, tmp_path: Path) -> None:
    file = tmp_path / "a.db"
    with closing(sqlite3.connect(file)) as db:
        db.executescript(
            "CREATE TABLE s (n INTEGER CHECK (n BETWEEN -5 AND 1.5e1 AND 'a,)b' <> 'x' /* ) */ AND x'00' <> 'y' || n),"
            "t TEXT DEFAULT ('a' || 'b'), m MONEY, bo BOOLEAN, p TEXT COLLATE RTRIM, [d e] TIMESTAMP, UNIQUE (n, p));"
            "INSERT INTO s (n, m, bo, p) VALUES (1, 2.5, 1, 'x '), (2, 3, 0, NULL);"
        )
    assert ok(served.load(str(file))).stderr == b""
    assert served.rows("SELECT * FROM s ORDER BY n") == [(1, "ab", 2.5, 1, "x ", None), (2, "ab", 3.0, 0, None, None)]
    assert served.rows("SELECT data_type FROM information_schema.columns WHERE column_name IN ('m', 'd e')") == [
        ("REAL",),
        ("DATETIME",),
    ]
    for broken in ("(n) VALUES (16)", "(n, p) VALUES (1, 'x')"):
        with pytest.raises(peryton.ConstraintError):
            served.db.sql(f"INSERT INTO s {broken}")


def test_only_the_named_tables_and_what_cannot_be_kept_is_told(served: Served, tmp_path: Path) -> None:
    file = tmp_path / "a.db"
    with closing(sqlite3.connect(file)) as db:
        db.executescript(
            "CREATE TABLE a (id INTEGER PRIMARY KEY); CREATE TABLE b (a REFERENCES a(id), c CHECK (random() > c));"
            "INSERT INTO a VALUES (1); INSERT INTO b VALUES (1, -9223372036854775808);"
        )
    done = ok(served.load(str(file), "--table", "B"))
    told = done.stderr.decode()
    assert "FOREIGN KEY" in told
    assert "CHECK" in told
    assert served.rows("SHOW TABLES") == [("b", 1)]
    assert "has no table zz" in fails(served.load(str(file), "--table", "zz"))
    assert "table b exists already" in fails(served.load(str(file), "--table", "b"))


def test_rows_that_break_a_foreign_key_are_told_or_free_the_table(served: Served, tmp_path: Path) -> None:
    file = tmp_path / "a.db"
    with closing(sqlite3.connect(file)) as db:
        db.executescript("CREATE TABLE a (id INTEGER PRIMARY KEY); CREATE TABLE b (a INTEGER REFERENCES a);")
        db.executescript("INSERT INTO a VALUES (1); INSERT INTO b VALUES (1), (2);")
    error = fails(served.load(str(file)))
    assert "table b, row 2" in error
    assert served.rows("SELECT * FROM b") == []
    served.db.sql("DROP TABLE b, a")
    assert b"left out" in ok(served.load(str(file), "--lenient")).stderr
    assert served.rows("SELECT * FROM b ORDER BY a") == [(1,), (2,)]


# --- dumps --------------------------------------------------------------------------------------------------------


def test_a_dump_has_triggers_and_schedules_as_comments(served: Served, tmp_path: Path) -> None:
    library = "#!lua name=l\nredis.register_function('f', function() end)"
    served.db.command("FUNCTION", "LOAD", library)
    statements = [
        "CREATE TRIGGER a AFTER UPDATE OF b ON t FOR EACH ROW WHEN (NEW.b\n > ';--') CALL f",
        "CREATE TRIGGER k ON KEYS 'a''b*' FOR 'del' CALL f",
        "CREATE SCHEDULE s EVERY 5 MINUTES CALL f WITH ('a''b', '2')",
    ]
    served.db.sql("CREATE TABLE t (id INTEGER PRIMARY KEY, b TEXT)")
    served.db.sql("CREATE TABLE u (id INTEGER PRIMARY KEY)")
    for statement in statements:
        served.db.sql(statement)
    dump, new = tmp_path / "d.sql", tmp_path / "d.db"

    def said() -> list[str]:
        lines = dump.read_text().split("COMMIT;\n")[1].splitlines()
        assert all(line.startswith("-- ") for line in lines)
        return "\n".join(line[3:] for line in lines[1:]).removesuffix(";").split(";\n")

    ok(served.save("--sql", str(dump)))
    assert said() == statements
    with closing(sqlite3.connect(new)) as db:
        db.executescript(dump.read_text())
    with peryton.open() as other:
        other.command("FUNCTION", "LOAD", library)
        other.sql("CREATE TABLE t (id INTEGER PRIMARY KEY, b TEXT)")
        for statement in said():
            other.sql(statement)
        (row,) = other.sql("SHOW CREATE TRIGGER a")
        assert row[1] == statements[0]
    ok(served.save("--sql", str(dump), "--table", "u"))
    assert said() == [""]
    ok(served.save("--sql", str(dump), "--table", "t"))
    assert said() == statements[:1]


def test_a_dump_says_it_in_the_words_of_sqlite(served: Served, tmp_path: Path) -> None:
    served.db.sql(
        "CREATE TABLE t (id INTEGER PRIMARY KEY USING HASH, d DECIMAL(6,2) UNIQUE, x ANY, j JSON, day DATE, "
        "g INTEGER GENERATED ALWAYS AS (id + 1) STORED, z TEXT DEFAULT (lower('X')), "
        "n INTEGER NOT NULL DEFAULT 5, r REAL, "
        "CHECK (j REGEXP '^.'), CHECK (n > 0))"
    )
    served.db.sql("CREATE INDEX i ON t (n) USING HASH")
    served.db.sql('CREATE TABLE "wei\'rd ""t" ("a b" TEXT)')
    served.db.sql('CREATE INDEX t ON "wei\'rd ""t" ("a b" COLLATE NOCASE DESC)')
    served.db.sql("CREATE VIEW b AS SELECT id FROM t")
    served.db.sql("CREATE VIEW a AS SELECT id FROM b")
    served.db.sql(
        "INSERT INTO t (id, d, x, j, day, r) "
        "VALUES (1, '1.50', '1', '[1]', '2024-02-29', ?), (?, '2.00', 1, '1', NULL, ?)",
        [float("inf"), -(2**63), 0.1],
    )
    served.db.sql('INSERT INTO "wei\'rd ""t" VALUES (?), (?), (?)', ["a\0b", "';\n--", "\r\n"])
    dump, new = tmp_path / "d.sql", tmp_path / "d.db"
    told = ok(served.save("--sql", str(dump))).stderr.decode()
    assert "REGEXP" in told
    with closing(sqlite3.connect(new)) as db:
        db.executescript(dump.read_bytes().decode())
    for query in (
        "SELECT *, typeof(x), typeof(d) FROM t ORDER BY id",
        'SELECT * FROM "wei\'rd ""t" ORDER BY 1',
        "SELECT * FROM a ORDER BY 1",
    ):
        assert sqlite_rows(new, query) == served.rows(query)
    assert len(sqlite_rows(new, "SELECT 1 FROM sqlite_schema WHERE type = 'index' AND sql IS NOT NULL")) == 3
