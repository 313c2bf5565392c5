"""A store in a directory: what comes back when it is opened again, and what is said when it cannot."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import time
from pathlib import Path

import pytest

import peryton
from peryton import Database, _core
from tests.durability.serving import serve
from tests.support.resp import Connection, ConnectionClosed, Simple

OK = Simple(b"OK")

PROMISES = ["sync", "interval"]


def fill(db: Database) -> None:
    """One of everything that is kept."""
    db.command("SET", "string", "value")
    db.command("SET", "mortal", "soon gone", "PX", 3_600_000)
    db.command("RPUSH", "list", *range(300))
    db.command("HSET", "hash", "field", "x" * 100)
    db.command("SADD", "set", 3, 1, 2)
    db.command("ZADD", "zset", 1.5, "a", 2.5, "b")
    db.command("SETRANGE", "big", 5_000_000, "end")
    db.sql("CREATE TABLE deer (id INTEGER PRIMARY KEY AUTO_INCREMENT, name TEXT NOT NULL, weight DECIMAL)")
    db.sql("CREATE UNIQUE INDEX deer_name ON deer (name)")
    db.sql("CREATE INDEX deer_upper ON deer (upper(name)) WHERE weight > 10")
    db.sql(
        "CREATE TABLE antler (deer INTEGER REFERENCES deer (id) ON DELETE CASCADE, points INTEGER CHECK (points > 0))"
    )
    db.sql("CREATE VIEW heavy AS SELECT name FROM deer WHERE weight > 100")
    db.sql_many("INSERT INTO deer (name, weight) VALUES (?, ?)", [(f"deer {n}", n) for n in range(500)])
    db.sql("DELETE FROM deer WHERE id > 490")
    db.sql("INSERT INTO antler VALUES (1, 8), (2, 10)")


def check(db: Database) -> None:
    """All of it is there, and works."""
    assert db.command("GET", "string") == b"value"
    assert 3_000_000 < db.command("PTTL", "mortal") <= 3_600_000
    assert db.command("LRANGE", "list", 0, -1) == [b"%d" % n for n in range(300)]
    assert db.command("HGETALL", "hash") == {b"field": b"x" * 100}
    assert sorted(db.command("SMEMBERS", "set")) == [b"1", b"2", b"3"]
    assert db.command("ZRANGE", "zset", 0, -1, "WITHSCORES") == [[b"a", 1.5], [b"b", 2.5]]
    assert db.command("STRLEN", "big") == 5_000_003
    assert list(db.sql("SELECT count(*), max(id) FROM deer")) == [(490, 490)]
    assert list(db.sql("SELECT id FROM deer WHERE name = 'deer 41'")) == [(42,)]
    assert list(db.sql("SELECT count(*) FROM heavy")) == [(389,)]
    with pytest.raises(peryton.ConstraintError):
        db.sql("INSERT INTO deer (name) VALUES ('deer 1')")
    with pytest.raises(peryton.ConstraintError):
        db.sql("INSERT INTO antler VALUES (1, 0)")
    with pytest.raises(peryton.ConstraintError):
        db.sql("INSERT INTO antler VALUES (491, 1)")


@pytest.mark.parametrize("saved", [False, True], ids=["log", "checkpoint"])
@pytest.mark.parametrize("promise", PROMISES)
def test_all_comes_back(tmp_path: Path, promise: str, saved: bool) -> None:
    with peryton.open(tmp_path, durability=promise) as db:
        fill(db)
        if saved:
            assert db.command("SAVE") == "OK"
            assert [file.suffix for file in tmp_path.iterdir()].count(".ckp") == 1
        check(db)
    with peryton.open(tmp_path, durability=promise) as db:
        check(db)
        # Numbers that were given are not given again, although their rows are gone.
        assert list(db.sql("INSERT INTO deer (name) VALUES ('new') RETURNING id")) == [(501,)]
        db.sql("DELETE FROM deer WHERE id = 1")
        assert list(db.sql("SELECT deer FROM antler")) == [(2,)]
    with peryton.open(tmp_path) as db:
        assert list(db.sql("SELECT id FROM deer WHERE name = 'new'")) == [(501,)]


def test_what_was_dropped_stays_dropped(tmp_path: Path) -> None:
    with peryton.open(tmp_path) as db:
        fill(db)
        db.command("SAVE")
        db.sql("DROP TABLE antler")
        db.sql("DROP VIEW heavy")
        db.sql("DROP INDEX deer_name")
        db.sql("TRUNCATE deer")
        db.command("FLUSHALL")
    with peryton.open(tmp_path) as db:
        assert db.command("DBSIZE") == 0
        assert [row[0] for row in db.sql("SHOW TABLES")] == ["deer"]
        assert list(db.sql("SELECT count(*) FROM deer")) == [(0,)]


def test_without_a_log_only_save_writes(tmp_path: Path) -> None:
    with peryton.open(tmp_path, durability="none") as db:
        db.command("SET", "a", 1)
        db.command("SAVE")
        db.command("SET", "a", 2)
        db.command("SAVE")
        db.command("SET", "a", 3)
        with pytest.raises(peryton.ReplyError, match="no log"):
            db.command("DURABILITY", "SYNC")
    with peryton.open(tmp_path, durability="sync") as db:
        assert db.command("GET", "a") == b"2"
        db.command("SET", "a", 4)
    with peryton.open(tmp_path, durability="none") as db:
        assert db.command("GET", "a") == b"4"


def test_shutdown_save_makes_a_checkpoint_where_there_is_no_log(tmp_path: Path) -> None:
    with serve(tmp_path, "none") as server, Connection(server.port) as client:
        assert client("SET", "a", 1) == OK
        with contextlib.suppress(OSError, ConnectionClosed):
            client("SHUTDOWN", "SAVE")
        server.process.wait(20)
    with serve(tmp_path, "none") as server, Connection(server.port) as client:
        assert client("GET", "a") == b"1"


def test_a_store_in_memory_cannot_promise_anything() -> None:
    with pytest.raises(ValueError, match="in memory"):
        peryton.open(durability="sync")
    with peryton.open() as db:
        for command in ("SAVE", "BGSAVE"):
            with pytest.raises(peryton.ReplyError, match="in memory"):
                db.command(command)
        assert db.command("DURABILITY") == b"none"


def test_the_promise_can_be_chosen_at_each_level(tmp_path: Path) -> None:
    with peryton.open(tmp_path, durability="interval") as db:
        server = db.serve()
        with Connection(server.port) as one, Connection(server.port) as other:
            assert one("DURABILITY") == b"interval"
            assert one("DURABILITY", "SYNC") == OK
            assert (one("DURABILITY"), other("DURABILITY")) == (b"sync", b"interval")
            one("SET", "a", 1)
            assert is_durable(other)
            assert other("CONFIG", "SET", "appendfsync", "always") == OK
            assert (other("DURABILITY"), other("CONFIG", "GET", "durability")[1]) == (b"sync", b"sync")
            assert one("DURABILITY", "NONE") == OK
            assert one("BEGIN", "DURABILITY", "SYNC") == OK
            one("SET", "b", 1)
            assert one("COMMIT") == OK
            assert is_durable(other)
            assert one("DURABILITY", "often").startswith(b"ERR")


def is_durable(connection: Connection) -> bool:
    """Whether everything that was written down is on disk, as INFO tells."""
    lines = bytes(connection("INFO", "persistence")).decode().splitlines()
    info = dict(line.split(":", 1) for line in lines if ":" in line)
    return info["log_durable_lsn"] == info["log_lsn"]


def test_bgsave_says_what_it_does(tmp_path: Path) -> None:
    with peryton.open(tmp_path) as db:
        before = db.command("LASTSAVE")
        db.command("SET", "a", 1)
        time.sleep(1.1)
        assert db.command("BGSAVE") == "Background saving started"
        deadline = time.monotonic() + 20
        while db.command("LASTSAVE") == before:
            assert time.monotonic() < deadline
            time.sleep(0.02)
        info = dict(line.split(":", 1) for line in db.command("INFO", "persistence").splitlines() if ":" in line)
        assert (info["rdb_changes_since_last_save"], info["rdb_last_bgsave_status"]) == ("0", "ok")


def test_the_log_before_a_checkpoint_goes(tmp_path: Path) -> None:
    with peryton.open(tmp_path, durability="sync") as db:
        for number in range(3):
            db.command("SET", "a", number)
            db.command("SAVE")
        db.command("SET", "a", "last")
        db.command("SAVE")
        names = sorted(file.name for file in tmp_path.iterdir())
        assert len([name for name in names if name.startswith("checkpoint-")]) == 1
        assert len([name for name in names if name.startswith("wal-")]) <= 2


def test_a_torn_tail_is_cut(tmp_path: Path) -> None:
    with peryton.open(tmp_path, durability="sync") as db:
        db.command("SET", "a", 1)
        db.command("SET", "b", 2)
    log = the_log(tmp_path)
    log.write_bytes(log.read_bytes().rstrip(b"\0")[:-40])
    assert "a write that a crash cut short" in peryton_cli("check", str(tmp_path)).stdout
    with peryton.open(tmp_path) as db:
        assert (db.command("GET", "a"), db.command("GET", "b")) == (b"1", None)


def test_damage_is_named_and_can_be_cut_off(tmp_path: Path) -> None:
    with peryton.open(tmp_path, durability="sync") as db:
        for number in range(50):
            db.command("SET", f"key {number}", "x" * 50)
    log = the_log(tmp_path)
    data = bytearray(log.read_bytes())
    at = data.index(b"key 20")
    data[at] ^= 1
    log.write_bytes(data)
    with pytest.raises(peryton.ReplyError, match=rf"{log.name}.*offset \d+"):
        peryton.open(tmp_path)
    looked = peryton_cli("check", str(tmp_path))
    assert looked.returncode == 1
    assert log.name in looked.stderr
    assert "--repair" in looked.stderr
    assert data == log.read_bytes()
    assert peryton_cli("check", "--repair", str(tmp_path)).returncode == 0
    with peryton.open(tmp_path) as db:
        assert sorted(db.command("KEYS", "*")) == sorted(b"key %d" % number for number in range(20))
    assert peryton_cli("check", str(tmp_path)).returncode == 0


def test_a_damaged_checkpoint_is_named(tmp_path: Path) -> None:
    with peryton.open(tmp_path) as db:
        fill(db)
        db.command("SAVE")
    (checkpoint,) = tmp_path.glob("*.ckp")
    data = bytearray(checkpoint.read_bytes())
    data[len(data) // 2] ^= 1
    checkpoint.write_bytes(data)
    with pytest.raises(peryton.ReplyError, match=checkpoint.name):
        peryton.open(tmp_path)


def test_a_backup_is_a_data_directory(tmp_path: Path) -> None:
    with peryton.open(tmp_path / "data") as db:
        fill(db)
        server = db.serve()
        made = peryton_cli("backup", "--from", server.address, str(tmp_path / "copy"))
        assert made.returncode == 0, made.stderr
        db.command("FLUSHALL")
        for name in ("../up", "", "a/b", ".hidden"):
            with pytest.raises(peryton.ReplyError, match="name"):
                db.command("BACKUP", name)
    again = peryton_cli("backup", "--dir", str(tmp_path / "data"), str(tmp_path / "copy"))
    assert again.returncode == 2, "it exists"
    restored = peryton_cli("restore", str(tmp_path / "copy"), str(tmp_path / "restored"))
    assert restored.returncode == 0, restored.stderr
    with peryton.open(tmp_path / "restored") as db:
        check(db)
    with peryton.open(tmp_path / "copy") as db:
        check(db)


def test_a_data_directory_is_restored_with_its_log(tmp_path: Path) -> None:
    with peryton.open(tmp_path / "data", durability="sync") as db:
        db.command("SET", "saved", 1)
        db.command("SAVE")
        fill(db)
        busy = peryton_cli("restore", str(tmp_path / "data"), str(tmp_path / "no"))
        assert busy.returncode != 0
        assert "is open in process" in busy.stderr
    restored = peryton_cli("restore", str(tmp_path / "data"), str(tmp_path / "deep" / "new"))
    assert restored.returncode == 0, restored.stderr
    assert [file.suffix for file in (tmp_path / "deep" / "new").iterdir() if file.name != "LOCK"] == [".ckp"]
    with peryton.open(tmp_path / "deep" / "new") as db:
        check(db)
        assert db.command("GET", "saved") == b"1"
    (tmp_path / "empty").mkdir()
    for source in ("empty", "damaged"):
        if source == "damaged":
            (tmp_path / "data").rename(tmp_path / source)
            (checkpoint,) = (tmp_path / source).glob("*.ckp")
            checkpoint.write_bytes(checkpoint.read_bytes()[:-1])
        nothing = peryton_cli("restore", str(tmp_path / source), str(tmp_path / "no"))
        assert nothing.returncode == 1
        assert source in nothing.stderr
        assert not (tmp_path / "no").exists()


def test_a_reply_that_was_looked_for_is_shown_when_it_is_safe(tmp_path: Path) -> None:
    store = _core.Store(str(tmp_path), durability="interval")
    reader, writer = store.session(), store.session()
    assert reader.execute(("DURABILITY", "SYNC")) == "OK"
    for number in range(20):
        reader.send([("BLPOP", "list", 0)])
        writer.execute(("RPUSH", "list", number))
        while not reader.pending(0.0):
            pass
        assert reader.receive()[1] == [b"list", b"%d" % number]
        lines = writer.execute(("INFO", "persistence")).splitlines()
        info = dict(line.split(":", 1) for line in lines if ":" in line)
        assert info["log_durable_lsn"] == info["log_lsn"]
    store.close()


def test_what_a_dropped_store_holds_is_kept_when_the_interpreter_ends(tmp_path: Path) -> None:
    program = """
import sys, peryton
def work(n):
    db = peryton.open(sys.argv[1])
    for key in range(n):
        db.command("SET", key, "x" * 1000)
work(3000)
"""
    subprocess.run([sys.executable, "-c", program, str(tmp_path)], check=True)
    with peryton.open(tmp_path) as db:
        assert db.command("DBSIZE") == 3000


def the_log(folder: Path) -> Path:
    """The one segment that holds something."""
    return max(folder.glob("wal-*.log"), key=lambda file: len(file.read_bytes().rstrip(b"\0")))


def peryton_cli(*words: str) -> subprocess.CompletedProcess[str]:
    """Runs the command line."""
    return subprocess.run([sys.executable, "-m", "peryton", *words], capture_output=True, text=True, check=False)
