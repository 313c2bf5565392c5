"""The store that an import writes to or an export reads from, and what both report."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Sequence

import click
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

import peryton
from peryton import Database, PerytonError, ReplyError
from peryton._calls import Value, quoted

Row = Sequence[Value]
Warn = Callable[[str], None]


class PortingError(PerytonError):
    """What is imported or exported does not fit; the message names where.

    Solution: mend the named place, or choose other options; what is in batches before it has stayed.
    """


def open_target(url: str | None, directory: str | None) -> Database:
    """The store of `--to` (or `--from`) and `--dir`; without either, the server at the usual address."""
    if url is not None and directory is not None:
        raise click.UsageError("a store has either an address or a directory")
    if directory is not None:
        return peryton.open(directory)
    if url is None:
        return peryton.connect()
    try:
        return peryton.connect(url if "://" in url else f"peryton://{url}")
    except ValueError as error:
        raise click.UsageError(str(error)) from None


def warn(text: str) -> None:
    """Tells what was left out, and goes on."""
    click.echo(f"warning: {text}", err=True)


def progress(*, quiet: bool = False) -> Progress:
    """A progress bar on standard error, which shows nothing where that is no terminal."""
    return Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TaskProgressColumn(),
        TimeRemainingColumn(),
        console=Console(stderr=True),
        disable=quiet or not sys.stderr.isatty(),
        transient=True,
    )


def rate(count: int, seconds: float) -> str:
    """A number of rows and how fast they went."""
    rows = "1 row" if count == 1 else f"{count:,} rows"
    return f"{rows} in {seconds:.2f} s ({count / max(seconds, 1e-9):,.0f}/s)"


def insert_text(table: str, columns: Iterable[str]) -> str:
    """The statement that inserts a row."""
    names = list(columns)
    return f"INSERT INTO {quoted(table)} ({', '.join(map(quoted, names))}) VALUES ({', '.join('?' * len(names))})"


def write_batch(
    db: Database, text: str, columns: Sequence[str], rows: Sequence[Row], place: Callable[[int], str]
) -> None:
    """Writes rows in one atomic step. An error names the place of the row that fails, and its column if it has one."""
    try:
        db.sql_many(text, rows, batch=max(len(rows), 1))
    except ReplyError as error:
        found = _first_failure(db, text, rows)
        if found is None:
            raise PortingError(f"{place(0)} to {place(len(rows) - 1)}: {error}") from error
        index, reason = found
        raise PortingError(f"{place(index)}{_column(reason, columns)}: {reason}") from error


class _Undo(Exception):
    """Leaves a transaction that was only a trial."""


def _first_failure(db: Database, text: str, rows: Sequence[Row]) -> tuple[int, ReplyError] | None:
    # The error of a batch does not say which row it was: row by row the same rows fail the same way, and the
    # transaction leaves nothing of the trial.
    found: tuple[int, ReplyError] | None = None
    try:
        with db.transaction() as trial:
            for index, row in enumerate(rows):
                try:
                    trial.sql(text, row)
                except ReplyError as error:
                    found = index, error
                    break
            raise _Undo
    except _Undo:
        pass
    return found


def _column(error: ReplyError, columns: Sequence[str]) -> str:
    """`, column x` where the error speaks of one of the columns."""
    for found in re.finditer(r"[^\s.]+\.(\S+?)[:;,]?(?=\s|$)", error.message):
        if found[1] in columns:
            return f", column {found[1]}"
    return ""
