"""Starts and stops the servers under test: Peryton, and the Redis that judges it.

``PERYTON_PEER`` chooses what stands in Peryton's place: ``peryton`` (the
default), ``redis``, or the path of any server that takes Redis's options, which
is how the suite itself is tested. ``PERYTON_PEER_OPTIONS`` adds options to its
command line.
"""

from __future__ import annotations

import os
import shlex
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.support.resp import Connection, ConnectionClosed

START_TIMEOUT_S = 20.0
PORTS_TRIED = 3
"""Another process may take a free port before the server does."""
ORACLE_VERSION = "7.0.15"


def free_port() -> int:
    """A loopback port that nothing listened on a moment ago."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def redis_command(executable: str, port: int, folder: Path) -> list[str]:
    """The command line of a Redis that keeps nothing on disk."""
    return [
        executable,
        *("--port", str(port)),
        *("--bind", "127.0.0.1"),
        *("--dir", str(folder)),
        *("--save", ""),
        *("--appendonly", "no"),
        *("--enable-debug-command", "yes"),
        *("--hz", "500"),  # the grain of its timeouts for blocked clients
        *("--daemonize", "no"),
    ]


def peryton_command(port: int) -> list[str]:
    """The command line of a Peryton that keeps nothing on disk."""
    start = os.environ.get("PERYTON_SERVE")
    words = shlex.split(start) if start else [sys.executable, "-m", "peryton", "serve"]
    return [*words, "--port", str(port), "--dir", "none", "--enable-debug-command"]


CommandLine = Callable[[int, Path], list[str]]
"""Makes a server's command line of its port and its folder."""


@dataclass(eq=False)
class Server:
    """A running server process; ``log`` holds what it printed."""

    name: str
    port: int
    process: subprocess.Popen[bytes]
    log: Path
    folder: tempfile.TemporaryDirectory[str]
    connections: list[Connection] = field(default_factory=list)

    def connect(self, protocol: int = 2, timeout: float = 10.0) -> Connection:
        """A new connection that speaks RESP2 or RESP3; closed at the latest by `stop`."""
        if self.died():
            raise ConnectionClosed(f"{self.name} ended with status {self.process.returncode}\n{self.log_tail()}")
        connection = Connection(self.port, timeout=timeout)
        self.connections.append(connection)
        if protocol != 2:
            connection("HELLO", protocol)
        return connection

    def __repr__(self) -> str:
        return f"<{self.name} on port {self.port}>"

    def log_tail(self, lines: int = 40) -> str:
        text = self.log.read_text(errors="replace").splitlines()
        return "\n".join(text[-lines:])

    def died(self) -> bool:
        return self.process.poll() is not None

    def stop(self) -> None:
        """Close our connections and end the process, by its own handle only."""
        for connection in self.connections:
            connection.close()
        self.process.terminate()
        try:
            self.process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.folder.cleanup()


def start(name: str, command_line: CommandLine) -> Server:
    """Start a server and wait until it answers; its log is part of the error if it does not."""
    for _ in range(PORTS_TRIED):
        server = _launch(name, command_line)
        try:
            is_up = _answers(server)
        except BaseException:
            # As a test's time limit, which interrupts whatever is being done.
            server.stop()
            raise
        if is_up:
            return server
        tail = server.log_tail()
        server.stop()
        if b"in use" not in tail.lower().encode():
            break
    raise RuntimeError(f"{name} did not answer\n{server.process.args!r}\n{tail}")


def _launch(name: str, command_line: CommandLine) -> Server:
    port, folder = free_port(), tempfile.TemporaryDirectory(prefix=f"{name}-")
    log = Path(folder.name, "server.log")
    # Redis sorts text by LC_COLLATE (SORT ... ALPHA), so the locale is fixed.
    environment = os.environ | {"LC_ALL": "C"}
    with log.open("wb") as output:
        process = subprocess.Popen(
            command_line(port, Path(folder.name)),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env=environment,
        )
    return Server(name, port, process, log, folder)


def _answers(server: Server) -> bool:
    """Whether the server, and not another process that took the port first, answers in time."""
    deadline = time.monotonic() + START_TIMEOUT_S
    while time.monotonic() < deadline and not server.died():
        try:
            with Connection(server.port, timeout=1) as connection:
                info = bytes(connection("INFO"))
                if b"process_id:%d\r\n" % server.process.pid in info and b"\nloading:0\r\n" in info:
                    return True
        except (OSError, ConnectionClosed):
            pass
        time.sleep(0.02)
    return False


def start_redis(executable: str, name: str = "redis", options: Sequence[str] = ()) -> Server:
    return start(name, lambda port, folder: [*redis_command(executable, port, folder), *options])


def start_oracle() -> Server:
    """The real Redis; where it is not to be had, skip with the reason, but fail under CI."""
    executable = shutil.which("redis-server")
    version = _version(executable) if executable else "none"
    if executable and version == ORACLE_VERSION:
        return start_redis(executable, "oracle")
    reason = f"the oracle is redis-server {ORACLE_VERSION}, and PATH has {version}"
    if os.environ.get("CI"):
        pytest.fail(reason)
    pytest.skip(reason)


def _version(executable: str) -> str:
    shown = subprocess.run([executable, "--version"], capture_output=True, text=True, check=False).stdout
    words = [word.removeprefix("v=") for word in shown.split() if word.startswith("v=")]
    return words[0] if words else f"a server of unknown version ({shown.strip()[:60]})"


def start_peer() -> Server:
    """The server to be judged, as PERYTON_PEER says."""
    peer = os.environ.get("PERYTON_PEER", "peryton")
    options = shlex.split(os.environ.get("PERYTON_PEER_OPTIONS", ""))
    if peer != "peryton":
        executable = shutil.which("redis-server" if peer == "redis" else peer)
        if executable is None:
            pytest.fail(f"PERYTON_PEER={peer}: no such server")
        return start_redis(executable, "peer", options)
    return start("peryton", lambda port, _: [*peryton_command(port), *options])
