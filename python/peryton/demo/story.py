"""The order of the demo's chapters."""

from __future__ import annotations

import signal
import sys
import time

from rich.console import Console
from rich.text import Text

import peryton
from peryton.cli.shell import duration
from peryton.demo import data, steps
from peryton.demo.server import running_server
from peryton.demo.stage import Stage


def run(*, rows: int | None, keep: bool) -> None:
    """Tells the whole story; at the end the server is stopped, unless it is to be kept until Ctrl-C."""
    console = Console(highlight=False)
    stage = Stage(console)
    data.folder()
    # Ended from outside, the demo still stops the server that it started.
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    started = time.perf_counter()
    console.print(Text.assemble(("Peryton ", "bold"), (peryton.__version__, "bold"), ": half stag, half bird"))
    with running_server() as server, peryton.connect(server.address) as db:
        stage.note(f"A server of its own (pid {server.pid}) listens at {server.address}.")
        steps.load(stage, db, rows)
        steps.query(stage, db)
        steps.keys(stage, db)
        steps.together(stage, db)
        steps.clients(stage, server.port)
        steps.embedded(stage)
        steps.size(stage, db)
        seconds = time.perf_counter() - started
        console.print()
        console.print(
            f"[bold green]{stage.steps} steps in {duration(seconds)}.[/bold green] Next: [b]make serve[/b], "
            "then [b]peryton shell peryton://127.0.0.1:7379[/b]"
        )
        if keep:
            _wait(console, server.address)


def _wait(console: Console, address: str) -> None:
    console.print(f"The server stays at {address}; Ctrl-C stops it.")
    try:
        while True:
            time.sleep(3600)
    except KeyboardInterrupt:
        console.print("Stopping")
