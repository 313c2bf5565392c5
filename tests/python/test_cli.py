"""The command line."""

from __future__ import annotations

import os
import pty
import re
import select
import subprocess
import sys
import time
from pathlib import Path

import pytest

import peryton
from peryton.cli import render, statement


def run(*args: str, stdin: str | None = None, env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "peryton", *args],
        input=stdin,
        stdin=subprocess.DEVNULL if stdin is None else None,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env=os.environ | (env or {}),
    )


def test_version_and_help() -> None:
    assert run("--version").stdout == f"peryton, version {peryton.__version__}\n"
    for command in ("serve", "shell", "demo"):
        done = run(command, "--help")
        assert done.returncode == 0
        assert done.stdout.startswith(f"Usage: peryton {command}") or command in done.stdout


# --- serve --------------------------------------------------------------------------------------------------------


def test_an_open_address_without_a_password_is_refused() -> None:
    done = run("serve", "--bind", "0.0.0.0", "--port", "0")
    assert done.returncode == 1
    assert done.stdout == ""
    assert "other machines could reach it and there is no password" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_taken_port_is_one_line(store: peryton.Database) -> None:
    port = store.serve().port
    done = run("serve", "--port", str(port))
    assert done.returncode == 1
    assert done.stderr.startswith(f"peryton: ERR cannot listen on 127.0.0.1:{port}: Address already in use")
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize("size", ["much", "5x", "mb"])
def test_a_size_that_is_none(size: str) -> None:
    done = run("serve", "--port", "0", "--maxmemory", size)
    assert done.returncode == 2
    assert "is no number of bytes; write 500mb or 2gb" in done.stderr


# --- shell --------------------------------------------------------------------------------------------------------


def test_commands_from_the_command_line() -> None:
    done = run("shell", "-c", 'SET k "a\\n\\x00"', "-c", "GET k", "-c", "RPUSH l 1 'two words'", "-c", "LRANGE l 0 -1")
    assert done.stdout == 'OK\n"a\\n\\x00"\n(integer) 2\n1) "1"\n2) "two words"\n'
    assert (done.stderr, done.returncode) == ("", 0)


def test_routines_are_loaded_called_and_timed(tmp_path: Path) -> None:
    library = "#!lua name=sums\nredis.register_function('add', function(keys, args) return args[1] + args[2] end)"
    (tmp_path / "sums.lua").write_text(library)
    script = (
        f"\\load {tmp_path}/sums.lua\nCALL add 20 22\n\\time 20 CALL add 1 2\n"
        "\\time 3 SELECT 7;\n\\load nowhere.lua\n\\time x\n"
    )
    done = run("shell", stdin=script)
    lines = done.stdout.splitlines()
    assert lines[:3] == ["sums: add", "(integer) 42", "(integer) 3"]
    assert re.fullmatch(r"20 times: fastest [\d.]+ µs, median .*, p99 .*s", lines[3])
    assert any(line.startswith("3 times: ") for line in lines)
    assert "cannot read 'nowhere.lua': No such file or directory" in done.stdout
    assert "\\time wants a number of times" in done.stdout
    assert done.returncode == 1


def test_commands_from_standard_input(store: peryton.Database) -> None:
    address = store.serve().address
    done = run("shell", address, stdin="SET k 1\n\n# a remark\nINCR k\nSELECT 3\nEXISTS k\n")
    assert done.stdout == "OK\n(integer) 2\nOK\n(integer) 0\n"
    assert store.command("GET", "k") == b"2"


def test_an_error_is_shown_and_the_exit_code_is_1() -> None:
    done = run("shell", "-c", "NOSUCH", "-c", "PING", "-c", 'SET k "open')
    assert done.stdout.splitlines()[0].startswith("(error) ERR unknown command 'NOSUCH'")
    assert done.stdout.splitlines()[1:] == ["PONG", '(error) a " is not closed']
    assert done.returncode == 1


def test_an_address_where_nobody_listens() -> None:
    done = run("shell", "127.0.0.1:1", "-c", "PING")
    assert done.stderr.startswith("peryton: cannot connect to peryton://127.0.0.1:1/0")
    assert done.returncode == 1


def test_a_password_from_the_environment(store: peryton.Database) -> None:
    address = store.serve(password="secret").address
    assert run("shell", address, "-c", "PING").returncode == 1
    assert run("shell", address, "-c", "PING", env={"PERYTON_PASSWORD": "secret"}).stdout == "PONG\n"


def test_the_shell_at_a_terminal(tmp_path: Path) -> None:
    master, slave = pty.openpty()
    environment = os.environ | {"HOME": str(tmp_path), "TERM": "xterm", "PROMPT_TOOLKIT_NO_CPR": "1"}
    command = [sys.executable, "-m", "peryton", "shell"]
    process = subprocess.Popen(command, stdin=slave, stdout=slave, stderr=slave, env=environment)
    os.close(slave)

    seen = ""

    def read_until(wanted: str) -> None:
        """Reads until something matches, everything that was ever shown taken together."""
        nonlocal seen
        end = time.monotonic() + 30
        while not re.search(wanted, seen, re.DOTALL):
            assert time.monotonic() < end, seen
            if select.select([master], [], [], 0.1)[0]:
                seen += os.read(master, 65536).decode(errors="replace")

    # What is typed before a prompt stands there may be lost.
    read_until("peryton>")
    os.write(master, b"SET answer 42\r")
    read_until("OK.*peryton>")
    os.write(master, b"GET answer\r")
    read_until('"42".*peryton>')
    os.write(master, b"GET ans\x03")
    read_until("GET ans.*peryton>")
    os.write(master, b"\x04")
    assert process.wait(20) == 0
    os.close(master)
    assert "SET answer 42" in (tmp_path / ".local/state/peryton/history").read_text()


# --- what the shell understands -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("SELECT 1 FROM t", True),
        ("select 3", False),
        ("SELECT 3;", False),
        ("SELECT count(*)", True),
        ("with x as (select 1) select * from x", True),
        ("SET k v", False),
        ("INSERT INTO t VALUES (1)", True),
        ("TABLE.GET t 1", False),
        ("", False),
    ],
)
def test_sql_is_told_from_commands(line: str, expected: bool) -> None:
    assert statement.is_sql(line) is expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("SELECT 1;", True),
        ("SELECT 1", False),
        ("SELECT ';'", False),
        ("SELECT ';';", True),
        ("SELECT 1 -- ;", False),
        ("SELECT 1; -- done", True),
        ("SELECT 1; /* ; */ ", True),
        ("SELECT 'open;", False),
        ('SELECT "a;b" FROM `c;d`, [e;f];', True),
    ],
)
def test_where_a_statement_ends(text: str, expected: bool) -> None:
    assert statement.is_complete(text) is expected


def test_statements_are_split_outside_quotes() -> None:
    text = "INSERT INTO t VALUES (';'); SELECT 1 /* ; */;\n;  SELECT 'it''s; fine' "
    assert statement.split_statements(text) == [
        "INSERT INTO t VALUES (';')",
        "SELECT 1 /* ; */",
        "SELECT 'it''s; fine'",
    ]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("SET k v", [b"SET", b"k", b"v"]),
        ("SET \"a b\" 'c d'", [b"SET", b"a b", b"c d"]),
        (r'"\x00\xfF\n\t\"\\\q"', [b'\x00\xff\n\t"\\q']),
        (r"'it\'s \n'", [b"it's \\n"]),
        ("SET k ''", [b"SET", b"k", b""]),
        ("ä", ["ä".encode()]),
        ("  ", []),
    ],
)
def test_arguments_are_quoted_as_in_redis_cli(line: str, expected: list[bytes]) -> None:
    assert statement.split_arguments(line) == expected


@pytest.mark.parametrize("line", ['"open', "'open", '"a"b', '"x\\"'])
def test_quotes_that_do_not_close(line: str) -> None:
    with pytest.raises(statement.QuoteError):
        statement.split_arguments(line)


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        (None, "(nil)"),
        (7, "(integer) 7"),
        (1.5, "(double) 1.5"),
        (True, "(true)"),
        ("OK", "OK"),
        (b'\x00"\\', '"\\x00\\"\\\\"'),
        ([], "(empty array)"),
        ([b"a", [1, None]], '1) "a"\n2) 1) (integer) 1\n   2) (nil)'),
        ({b"k": 1}, '1# "k" => (integer) 1'),
        ([1] * 10, "\n".join(f"{n:>2}) (integer) 1" for n in range(1, 11))),
    ],
)
def test_replies_look_as_in_redis_cli(reply: object, expected: str) -> None:
    assert render.reply_text(reply) == expected
