"""Procedures from modules: how a server loads them, and loads them anew."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import peryton
from peryton import aio
from peryton.exceptions import ProcedureError, ReplyError
from peryton.procedures.modules import LoadError

COUNTER = """
import peryton

@peryton.procedure
def count(db: peryton.Handle, by: int = 1) -> int:
    '''Counts.'''
    return db.command("INCRBY", "n", by)

@peryton.procedure(name="reset")
def put_back(db: peryton.Handle) -> None:
    db.command("DEL", "n")

def no_procedure(db: peryton.Handle) -> None: ...
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder that Python finds modules in; they are forgotten afterwards."""
    monkeypatch.syspath_prepend(str(tmp_path))
    before = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - before:
        del sys.modules[name]


def names(store: peryton.Database) -> list[str]:
    return [about[b"name"].decode() for about in store.command("PROCEDURE", "LIST")]


def test_all_of_a_module_or_those_named(folder: Path, store: peryton.Database) -> None:
    (folder / "counter_a.py").write_text(COUNTER)
    assert store.load_procedures("counter_a:count") == ["count"]
    assert names(store) == ["count"]
    assert store.call("count", 2) == 2
    assert store.load_procedures("counter_a") == ["count", "reset"]
    with peryton.open() as other:
        assert other.load_procedures("counter_a:put_back") == ["reset"]


def test_an_asynchronous_handle_loads_modules_too(folder: Path) -> None:
    (folder / "counter_aio.py").write_text(COUNTER)

    async def work() -> None:
        async with await aio.open() as store:
            assert await store.load_procedures("counter_aio:count") == ["count"]
            assert await store.call("count", 2) == 2
            server = store.serve()
            async with await aio.connect(server.address) as remote:
                with pytest.raises(TypeError, match="this store is remote"):
                    await remote.load_procedures("counter_aio")

    asyncio.run(work())


def test_what_does_not_load_says_why(folder: Path, store: peryton.Database) -> None:
    (folder / "broken.py").write_text("import nowhere_to_be_found\n")
    (folder / "syntax.py").write_text("def f(:\n")
    (folder / "leaves.py").write_text("raise SystemExit(3)\n")
    (folder / "bare.py").write_text("def f(db): ...\n")
    (folder / "twin.py").write_text(COUNTER)
    (folder / "counter_b.py").write_text(COUNTER)
    for spec, why in [
        ("no_such_module", "the module no_such_module does not load: ModuleNotFoundError"),
        ("broken", "No module named 'nowhere_to_be_found'"),
        ("syntax", "the module syntax does not load: SyntaxError"),
        ("leaves", "the module leaves does not load: it ends the program"),
        ("bare", "the module bare has no procedures"),
        ("counter_b:nothing", "the module counter_b has no procedure nothing"),
        ("counter_b:no_procedure", "the module counter_b has no procedure no_procedure"),
    ]:
        with pytest.raises(LoadError, match=why):
            store.load_procedures(spec)
    with pytest.raises(LoadError, match="two procedures are called count"):
        store.load_procedures("counter_b", "twin")
    assert names(store) == []


def test_reload_brings_the_new_and_drops_the_old(folder: Path, store: peryton.Database) -> None:
    (folder / "counter_c.py").write_text(COUNTER)
    store.register(peryton.procedure(name="own")(lambda db: "mine"))
    store.load_procedures("counter_c")
    assert store.call("count") == 1
    # The same size and, often, the same second: what Python compiled before must not be taken.
    (folder / "counter_c.py").write_text(COUNTER.replace('"reset"', '"erase"').replace("by: int = 1", "by: int = 5"))
    assert store.command("PROCEDURE", "RELOAD") == ["count", "erase"]
    assert names(store) == ["count", "erase", "own"]
    assert store.call("count") == 6
    with pytest.raises(ReplyError, match="there is no procedure reset"):
        store.call("reset")
    (about, *_) = store.command("PROCEDURE", "LIST")
    assert about[b"calls"] == 2


def test_the_old_ones_stay_when_the_new_do_not_load(folder: Path, store: peryton.Database) -> None:
    package = folder / "shop"
    package.mkdir()
    (package / "__init__.py").write_text("from shop.prices import price\n")
    prices = "import peryton\n\n@peryton.procedure\ndef price(db: peryton.Handle) -> int:\n    return helper()\n\n"
    (package / "prices.py").write_text(prices + "def helper() -> int:\n    return 1\n")
    store.load_procedures("shop")
    assert store.call("price") == 1
    for broken in ("def helper() -> int:\n    return 2\n\nraise ValueError('no')\n", "def helper( :\n"):
        (package / "prices.py").write_text(prices + broken)
        with pytest.raises(ProcedureError, match=r"RELOAD: the module shop does not load: .*the old procedures stay"):
            store.command("PROCEDURE", "RELOAD")
        # With the functions that they had: the half that did load changed nothing.
        assert store.call("price") == 1
    (package / "prices.py").write_text(prices + "def helper() -> int:\n    return 3\n")
    assert store.command("PROCEDURE", "RELOAD") == ["price"]
    assert store.call("price") == 3


def test_a_remote_store_has_its_server_load_them(store: peryton.Database) -> None:
    with peryton.connect(store.serve().address) as remote:
        for ask in (lambda: remote.register(print), lambda: remote.load_procedures("counter")):
            with pytest.raises(TypeError, match="its server loads procedures"):
                ask()


def test_reload_without_modules(store: peryton.Database) -> None:
    with pytest.raises(ReplyError, match="this store has no procedures"):
        store.command("PROCEDURE", "RELOAD")
    store.register(peryton.procedure(name="own")(lambda db: None))
    with pytest.raises(ProcedureError, match="no procedures came from modules"):
        store.command("PROCEDURE", "RELOAD")


# --- peryton serve ----------------------------------------------------------------------------------------------------


@contextmanager
def served(folder: Path, *options: str) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    command = [sys.executable, "-m", "peryton", "serve", "--port", "0", "--quiet", *options]
    process = subprocess.Popen(
        command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=dict(os.environ)
    )
    try:
        assert process.stdout is not None
        for line in process.stdout:
            if line.startswith("Ready at "):
                yield line.split()[2], process
                break
        else:
            yield "", process
    finally:
        process.terminate()
        process.communicate(timeout=60)


def test_a_server_loads_and_reloads_and_ends(tmp_path: Path) -> None:
    (tmp_path / "counter.py").write_text(COUNTER)
    (tmp_path / "more.py").write_text(
        "import time, peryton\n\n@peryton.procedure\ndef rest(db: peryton.Handle) -> None:\n"
        "    db.command('PUBLISH', 'resting', '1')\n    while True:\n        pass\n"
    )
    options = ("--procedures", "counter:count", "--procedures", "more", "--procedure-threads", "2")
    with served(tmp_path, *options) as (address, process):
        with peryton.connect(address) as db:
            assert names(db) == ["count", "rest"]
            assert db.call("count", 3) == 3
            assert db.sql("CALL count(4)").one() == (7,)
            (tmp_path / "counter.py").write_text(COUNTER.replace("by: int = 1", "by: int = 100"))
            assert db.command("PROCEDURE", "RELOAD") == ["count", "rest"]
            assert db.call("count") == 107
            waiting: Any = peryton.connect(address)._pool.take()
            waiting._socket.sendall(b"*2\r\n$4\r\nCALL\r\n$4\r\nrest\r\n")
            db.command("PING")
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0


@pytest.mark.parametrize(
    ("spec", "why"), [("nowhere", "the module nowhere does not load"), ("counter:none", "has no procedure none")]
)
def test_a_server_with_a_bad_module_does_not_start(tmp_path: Path, spec: str, why: str) -> None:
    (tmp_path / "counter.py").write_text(COUNTER)
    with served(tmp_path, "--procedures", spec) as (address, process):
        assert address == ""
        assert process.wait(60) == 1
        assert process.stderr is not None
        error = process.stderr.read()
    assert why in error
    assert error.startswith("peryton: ")
    assert "Traceback" not in error


def test_the_shell_tells_the_statement_from_the_command(tmp_path: Path) -> None:
    (tmp_path / "counter.py").write_text(COUNTER)
    with served(tmp_path, "--procedures", "counter") as (address, _):
        script = "CALL count 5\nCALL count(6);\nCALL count (\n  2\n);\nPROCEDURE LIST\n"
        done = subprocess.run(
            [sys.executable, "-m", "peryton", "shell", address],
            input=script,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "(integer) 5" in done.stdout
    assert "11" in done.stdout
    assert "13" in done.stdout
