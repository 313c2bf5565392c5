"""`peryton bench`: chooses servers, suites and scale, runs, reports."""

import datetime
import json
import os
import shlex
import shutil
import signal
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import click
from rich.console import Console

from peryton.bench import machine, peers
from peryton.bench.report import Run, show, to_json
from peryton.bench.runner import FULL, QUICK, TINY, Bench, Result, Scale
from peryton.bench.suites import LONG, SUITES
from peryton.bench.verdict import judge

_SCALES = {scale.name: scale for scale in (FULL, QUICK, TINY)}


@click.command()
@click.argument("suites", nargs=-1, type=click.Choice(list(SUITES)), metavar="[SUITE]...")
@click.option("--quick", "scale", flag_value="quick", help="A short form, under five minutes.")
@click.option("--tiny", "scale", flag_value="tiny", hidden=True)
@click.option("--full", "scale", flag_value="full", default=True, help="The form of record (the default).")
@click.option(
    "--json",
    "json_file",
    type=click.Path(dir_okay=False, writable=True, path_type=Path),
    help="Write all figures here.",
)
@click.option("--server", metavar="COMMAND", help="Measure this as Peryton; {port} in it stands for the port.")
@click.option("--without", multiple=True, metavar="PEER", help="Leave a peer out.")
@click.option("--pin/--no-pin", default=False, help="Servers on the first core, the client on the second.")
@click.option("--rounds", type=click.IntRange(1), help="Measure each server so often.")
@click.option("--seconds", type=click.FloatRange(0.01), help="Measure for so long each time.")
@click.option("--urgent", is_flag=True, help="Go before all others on the machine (root only).")
@click.option("--patience", type=float, metavar="SECONDS", help="Wait so long in all for a quiet machine.")
@click.option("--list", "list_suites", is_flag=True, help="List the suites and stop.")
def bench(
    suites: tuple[str, ...],
    scale: str,
    json_file: Path | None,
    server: str | None,
    without: tuple[str, ...],
    pin: bool,
    urgent: bool,
    rounds: int | None,
    seconds: float | None,
    patience: float | None,
    list_suites: bool,
) -> None:
    """Measure Peryton beside Redis and Valkey, in turns, with one client.

    It says how fast each is and what CPU a request costs it; it never fails for being slow.
    """
    if list_suites:
        for suite in SUITES.values():
            click.echo(f"{suite.name:12} {suite.title}")
        return
    if urgent:
        # Inherited by the servers. On a machine that others use, they then wait for us and not we for them.
        os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))
    console = Console(width=None if sys.stdout.isatty() else 160)
    changes: dict[str, Any] = {"rounds": rounds, "seconds": seconds, "patience": patience}
    chosen = replace(_SCALES[scale], **{name: value for name, value in changes.items() if value is not None})
    run = _run(suites, chosen, _command(server), without, pin)
    if json_file:
        json_file.write_text(json.dumps(to_json(run), indent=1) + "\n")
    show(run, console)


def _command(text: str | None) -> list[str] | None:
    """A command line; each server runs in a folder of its own, so its program is made absolute."""
    if text is None:
        return None
    program, *options = shlex.split(text)
    return [os.path.abspath(shutil.which(program) or program), *options]


def _run(names: tuple[str, ...], scale: Scale, server: list[str] | None, without: tuple[str, ...], pin: bool) -> Run:
    # A SIGTERM must unwind too, or the servers would stay behind.
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    programs, absent = peers.find(server)
    programs = [program for program in programs if program.name not in without]
    chosen = names or tuple(name for name in SUITES if scale.name == FULL.name or name not in LONG)
    facts = machine.facts() | {"load_average_before": machine.load_average()}
    started, clock = datetime.datetime.now(datetime.UTC), time.monotonic()
    results: list[Result] = []
    tell = Console(stderr=True)
    with (
        tell.status("starting") as status,
        Bench(programs, scale, pin=pin, tell=lambda text: status.update(text)) as bench,
    ):
        for name in chosen:
            results.extend(SUITES[name].run(bench))
    facts["load_average_after"] = machine.load_average()
    return Run(
        scale=scale,
        pinned=pin,
        machine=facts,
        started=started.isoformat(timespec="seconds"),
        seconds=time.monotonic() - clock,
        versions=bench.versions,
        absent=absent,
        results=results,
        verdicts=judge(results),
    )
