"""The demo's own server: a child process on a free port, with a data directory that goes when it goes."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import peryton

_READY = "Ready at "
_STOP_SECONDS_MAX = 20


@dataclass(frozen=True, slots=True)
class Running:
    """A server that runs."""

    address: str
    pid: int
    directory: str

    @property
    def port(self) -> int:
        """Its TCP port."""
        return int(self.address.rsplit(":", 1)[1])


@contextmanager
def running_server() -> Iterator[Running]:
    """Starts `peryton serve`, waits until it is ready, and stops it with SIGTERM at the end."""
    directory = tempfile.mkdtemp(prefix="peryton-demo-")
    command = [sys.executable, "-m", "peryton", "serve", "--port", "0", "--dir", directory, "--quiet"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        if not line.startswith(_READY):
            process.wait(_STOP_SECONDS_MAX)
            raise peryton.NetworkError(f"the server did not start (exit code {process.returncode})")
        yield Running(line.removeprefix(_READY).strip(), process.pid, directory)
    finally:
        process.terminate()
        try:
            process.wait(_STOP_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        shutil.rmtree(directory, ignore_errors=True)
