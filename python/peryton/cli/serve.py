"""`peryton serve`: a store with a RESP door, until a signal stops it."""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import sys
import threading
import time
from dataclasses import dataclass
from types import FrameType

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

import peryton

_UNITS = {"": 1, "b": 1, "k": 1000, "kb": 1024, "m": 1000**2, "mb": 1024**2, "g": 1000**3, "gb": 1024**3}
_DURABILITY = {
    "sync": "a reply waits until what it tells of is on disk",
    "interval": "changes are on disk within a second",
    "none": "nothing is written but by SAVE",
}


@dataclass(frozen=True, slots=True)
class Settings:
    """What the command line asked for."""

    bind: str
    port: int
    unixsocket: str | None
    directory: str | None
    durability: str
    maxmemory: int
    password: str | None
    debug_commands: bool
    quiet: bool
    procedures: tuple[str, ...]
    procedure_threads: int


def byte_count(text: str) -> int:
    """A number of bytes from text such as `500mb`."""
    number = text.lower().rstrip("bgkm")
    unit = text.lower()[len(number) :]
    try:
        return int(float(number) * _UNITS[unit])
    except (ValueError, KeyError):
        raise click.BadParameter(f"{text!r} is no number of bytes; write 500mb or 2gb") from None


def run(settings: Settings) -> None:
    """Serves until SIGINT or SIGTERM, then closes the store and returns."""
    stop = _stop_on_signals()
    durability = settings.durability if settings.directory else None
    # Before anything is read: a port that is taken is known at once, and clients hear that the store is loading.
    door = peryton.Loading(
        settings.bind, settings.port, unixsocket=settings.unixsocket, password=settings.password or None
    )
    with (
        contextlib.closing(door),
        peryton.open(
            settings.directory,
            durability=durability,
            maxmemory=settings.maxmemory,
            debug_commands=settings.debug_commands,
            progress=_Progress(door, settings.quiet),
            procedure_threads=settings.procedure_threads,
        ) as db,
    ):
        if settings.procedures:
            _load_procedures(db, settings)
        server = db.serve_at(door)
        if not settings.quiet:
            _banner(settings, server)
        print(f"Ready at {server.address}", flush=True)
        # The short wait lets a signal's handler run.
        while not stop.is_set() and not server.wait(0.2):
            pass
        if not stop.is_set() and not server.shut_down:
            raise peryton.StoppedError("the server ended by itself; its message is above", "BUG")
        if not settings.quiet:
            print("Stopping", flush=True)


def _load_procedures(db: peryton.Database, settings: Settings) -> None:
    # As for `python -m`: modules are looked for where the server is started, too.
    sys.path.insert(0, os.getcwd())
    logging.basicConfig(format="%(asctime)s %(name)s: %(message)s", level=logging.WARNING)
    logging.getLogger("peryton.procedures").setLevel(logging.INFO)
    names = db.load_procedures(*settings.procedures)
    if not settings.quiet:
        print(f"Procedures: {', '.join(names)}", flush=True)


class _Progress:
    """Tells clients how far reading the data is, and prints it: at most a line a second, and none when it is quick."""

    def __init__(self, door: peryton.Loading, quiet: bool) -> None:
        self._door = door
        self._quiet = quiet
        self._next = time.monotonic() + 1.0

    def __call__(self, phase: str, done: int, total: int) -> None:
        """Hears how far it is."""
        self._door.tell(done, total)
        if not self._quiet and time.monotonic() >= self._next:
            self._next = time.monotonic() + 1.0
            part = 100 * done // max(total, 1)
            print(f"Reading the {phase}: {part} % of {total:,} bytes", flush=True)


def _stop_on_signals() -> threading.Event:
    """An event that the first SIGINT or SIGTERM sets; after that, signals act as they do on any program."""
    stop = threading.Event()

    def on_signal(number: int, frame: FrameType | None) -> None:
        stop.set()
        for each in (signal.SIGINT, signal.SIGTERM):
            signal.signal(each, signal.SIG_DFL)

    for each in (signal.SIGINT, signal.SIGTERM):
        signal.signal(each, on_signal)
    return stop


def _banner(settings: Settings, server: peryton.Server) -> None:
    console = Console(highlight=False)
    facts = Table.grid(padding=(0, 2))
    facts.add_column(style="dim")
    facts.add_row("pid", str(os.getpid()))
    facts.add_row("address", server.address)
    if settings.unixsocket:
        facts.add_row("socket", settings.unixsocket)
    facts.add_row("data", settings.directory or "in memory, gone when this process ends")
    if settings.directory:
        facts.add_row("durability", f"{settings.durability}: {_DURABILITY[settings.durability]}")
    if settings.maxmemory:
        facts.add_row("memory", f"at most {settings.maxmemory:,} bytes")
    facts.add_row("password", "asked for" if settings.password else "none")
    facts.add_row("try", f"redis-cli -p {server.port}    or    peryton shell {server.address}")
    console.print(Text.assemble(("Peryton ", "bold"), (peryton.__version__, "bold"), " serves keys and tables"))
    console.print(facts)
    sys.stdout.flush()
