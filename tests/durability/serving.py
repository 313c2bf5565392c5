"""Starts a server on a data directory, and ends it."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.support.servers import Server, start


@contextmanager
def serve(folder: Path, durability: str, *options: str) -> Iterator[Server]:
    """A server with its data in `folder`; stopped, if it still runs, at the end of the block."""
    given = os.environ.get("PERYTON_SERVE")
    words = shlex.split(given) if given else [sys.executable, "-m", "peryton", "serve", "--quiet"]
    kept = ["--dir", str(folder), "--durability", durability, "--enable-debug-command", *options]
    server = start("peryton", lambda port, _: [*words, "--port", str(port), *kept])
    try:
        yield server
    finally:
        server.stop()
