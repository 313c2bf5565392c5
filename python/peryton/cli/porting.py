"""`peryton import` and `peryton export`: bulk in and out."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

import click

from peryton.porting import target
from peryton.porting.csv_file import Form, export_csv, import_csv
from peryton.porting.dump import export_sql
from peryton.porting.sqlite_file import import_sqlite, is_sqlite


def import_file(
    file: str,
    *,
    into: str | None,
    create: bool,
    key: str | None,
    tables: tuple[str, ...],
    lenient: bool,
    batch: int,
    delimiter: str,
    null: str,
    url: str | None,
    directory: str | None,
) -> None:
    """Reads a file, which is a SQLite database if it begins as one, and CSV otherwise."""
    sqlite = is_sqlite(file)
    if sqlite and (into or create or key):
        raise click.UsageError(f"{file} is a SQLite database: --into, --create and --key are for CSV")
    if not sqlite and not into:
        raise click.UsageError("CSV needs --into TABLE")
    if not sqlite and (tables or lenient):
        raise click.UsageError(f"{file} is no SQLite database: --table and --lenient are for those")
    if key and not create:
        raise click.UsageError("--key goes with --create")
    form = _form(delimiter, null)
    with target.open_target(url, directory) as db:
        if sqlite:
            counts, seconds = import_sqlite(db, file, tables, lenient=lenient, batch=batch)
            for name, count in counts.items():
                click.echo(f"{name}: {count:,}")
            click.echo(target.rate(sum(counts.values()), seconds))
        else:
            assert into is not None
            count, seconds = import_csv(db, file, into, form=form, create=create, key=key, batch=batch)
            click.echo(f"{into}: {target.rate(count, seconds)}")


def export(
    table: str | None,
    *,
    csv_file: str | None,
    sql_file: str | None,
    tables: tuple[str, ...],
    delimiter: str,
    null: str,
    url: str | None,
    directory: str | None,
) -> None:
    """Writes CSV or SQL; what was written is told on standard error."""
    if (csv_file is None) == (sql_file is None):
        raise click.UsageError("say either --csv FILE or --sql FILE")
    if csv_file is not None and (table is None or tables):
        raise click.UsageError("CSV holds one table: peryton export TABLE --csv FILE")
    form = _form(delimiter, null)
    with target.open_target(url, directory) as db, _output(csv_file or sql_file or "-") as out:
        if csv_file is not None:
            assert table is not None
            count = export_csv(db, table, out, form)
        else:
            count = sum(export_sql(db, out, [*([table] if table else []), *tables]).values())
    click.echo(f"{count:,} rows", err=True)


def _form(delimiter: str, null: str) -> Form:
    delimiter = {"\\t": "\t", "tab": "\t"}.get(delimiter, delimiter)
    if len(delimiter) != 1 or delimiter in '"\r\n':
        raise click.BadParameter("a delimiter is one character, or tab", param_hint="--delimiter")
    return Form(delimiter, null)


@contextmanager
def _output(path: str) -> Iterator[TextIO]:
    if path == "-":
        sys.stdout.reconfigure(encoding="utf-8", newline="")  # type: ignore[union-attr]
        yield sys.stdout
        sys.stdout.flush()
        return
    if Path(path).exists() and not Path(path).is_file():
        with Path(path).open("w", encoding="utf-8", newline="") as out:
            yield out
        return
    # A file of that name is replaced only by a whole one.
    beside = Path(f"{path}.part")
    try:
        with beside.open("w", encoding="utf-8", newline="") as out:
            yield out
        beside.replace(path)
    except OSError as error:
        raise target.PortingError(f"cannot write {path}: {error.strerror or error}") from error
    finally:
        beside.unlink(missing_ok=True)
