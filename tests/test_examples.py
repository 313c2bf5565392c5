"""The examples run, embedded and on a server, and do what they say."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parent.parent / "examples"

PRINTED = {
    "sessions": """\
open t1 OK
open t2 OK
open t1 again: TAKEN this token is in use
t1 is ann for the 1 time
t1 is ann for the 2 time
closed 2
t1 is None
""",
    "rate_limiter": """\
10000 passes, 2 left
10100 passes, 1 left
10100 passes, 0 left
10200 waits 800 ms
10999 waits 1 ms
11001 passes, 0 left
11050 waits 50 ms
11101 passes, 1 left
""",
    "inventory": """\
reserved 10 out of stock 2
hind and fawn: OUTOFSTOCK only 0 left
hinds left 5
released 1
stags left 1 held 9 noted 9
""",
    "cache": """\
{'id': 1, 'title': 'antler', 'price': '9.50'}
{'id': 1, 'title': 'antler', 'price': '9.50'}
{'id': 1, 'title': 'antler', 'price': '9.50'}
changed True
{'id': 1, 'title': 'antler', 'price': '8.75'}
no such article: None
hits 2 misses 3
""",
}


def run(name: str, *address: str) -> str:
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / name / "use.py"), *address],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_each_example_is_tested() -> None:
    assert {folder.name for folder in EXAMPLES.iterdir() if folder.is_dir()} - {"__pycache__"} == set(PRINTED)


@pytest.mark.parametrize("name", PRINTED)
def test_it_runs_in_a_store_of_its_own(name: str) -> None:
    assert run(name) == PRINTED[name]


@pytest.mark.parametrize("name", PRINTED)
def test_it_runs_on_a_server(name: str) -> None:
    options = ["--procedures", name] if (EXAMPLES / name / f"{name}.py").exists() else []
    command = [sys.executable, "-m", "peryton", "serve", "--port", "0", "--quiet", *options]
    with subprocess.Popen(command, cwd=EXAMPLES / name, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            address = next(line.split()[2] for line in server.stdout if line.startswith("Ready at "))
            assert run(name, address) == PRINTED[name]
        finally:
            server.terminate()
