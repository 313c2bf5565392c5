"""`peryton check`, `peryton backup` and `peryton restore`: what a data directory holds, and copies of it."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

from peryton import _core
from peryton.porting import target as places


def check(directory: str, *, repair: bool) -> None:
    """Tells what is in a directory; leaves with code 1 if something is wrong."""
    report = _read(directory, repair=repair)
    found = _contents(report)
    if report["trouble"] is None:
        _tell_good(directory, found, report)
        return
    click.echo(f"{directory} is damaged.\n{report['trouble']}", err=True)
    click.echo(f"Before that: {found}.", err=True)
    if report["repaired"]:
        click.echo("Repaired: the log ends there now. Files set aside have names that end in .damaged.", err=True)
        return
    if report["repairable"]:
        click.echo("`peryton check --repair` cuts it there. Copy the directory first.", err=True)
    raise SystemExit(1)


def _tell_good(directory: str, found: str, report: dict[str, Any]) -> None:
    if report["next"] == 1 and report["checkpoint"] is None:
        click.echo(f"{directory} holds no data.")
        return
    source = f"{report['records']:,} changes of the log"
    if report["checkpoint"] is not None:
        source = f"the checkpoint at {report['checkpoint']:,} and {source}"
    click.echo(f"{directory} is good: {found}, from {source}.")
    if report["cut"] is not None:
        file, offset, size = report["cut"]
        click.echo(
            f"The last {size:,} bytes of {file} (from {offset:,} on) are a write that a crash cut short; the next"
        )
        click.echo("opening cuts them off. Nobody was promised what was in them.")


def backup(target: str, *, url: str | None, directory: str | None) -> None:
    """Has the store write a copy, and puts it where it is wanted."""
    place = _new(target)
    name = f"{place.name.lstrip('.') or 'backup'}-{time.time_ns()}"
    safe = "".join(char if char.isascii() and (char.isalnum() or char in "-_.") else "_" for char in name)[-90:]
    with places.open_target(url, directory) as db:
        written = Path(os.fsdecode(db.command("BACKUP", safe.lstrip("."))))
    if not written.is_dir():
        raise click.ClickException(f"the server has written {written}, which cannot be seen from here: fetch it there")
    # To another file system this copies, which no store has made durable.
    shutil.move(written, place)
    _sync_all(place)
    size = sum(file.stat().st_size for file in place.iterdir())
    click.echo(f"{place}: {size:,} bytes")


def restore(source: str, directory: str) -> None:
    """Reads a backup, and writes what it holds as a store of its own."""
    place = _new(directory)
    with _hearing() as hear:
        report = _core.restore(source, os.fspath(place), progress=hear)
    if report["trouble"] is not None:
        raise click.ClickException(f"{source} is damaged and was not restored. {report['trouble']}")
    if not place.exists():
        raise click.ClickException(f"{source} holds no data")
    click.echo(f"{place}: {_contents(report)}")


def _contents(report: dict[str, Any]) -> str:
    keys, rows, tables = (
        f"{report[name]:,} {name[:-1] if report[name] == 1 else name}" for name in ("keys", "rows", "tables")
    )
    return f"{keys} and {rows} in {tables}"


def _new(path: str) -> Path:
    place = Path(path).absolute()
    if place.exists() and (not place.is_dir() or any(place.iterdir())):
        raise click.UsageError(f"{place} exists and is not empty")
    if place.exists():
        place.rmdir()
    place.parent.mkdir(parents=True, exist_ok=True)
    return place


def _sync_all(place: Path) -> None:
    """Makes a directory durable, with its files and its name."""
    for path in (*place.iterdir(), place, place.parent):
        handle = os.open(path, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def _read(directory: str, *, repair: bool = False) -> dict[str, Any]:
    """The core's report, with a bar while it reads."""
    with _hearing() as hear:
        return dict(_core.check(directory, repair=repair, progress=hear))


@contextmanager
def _hearing() -> Iterator[Callable[[str, int, int], None]]:
    """A bar, and what moves it."""
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("Reading", total=None)

        def hear(phase: str, done: int, total: int) -> None:
            bar.update(task, description=f"Reading the {phase}", completed=done, total=total)

        yield hear
