"""`peryton shell`: SQL statements and Redis commands by hand, or from a file or the command line."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

import peryton
from peryton import PerytonError, _calls, _core
from peryton._links import Link
from peryton.cli import render
from peryton.cli.statement import QuoteError, is_complete, is_sql, split_arguments, split_statements
from peryton.client import Address, SocketLink

if TYPE_CHECKING:
    from prompt_toolkit import PromptSession

HELP = r"""
[b]SQL[/b] ends with a semicolon and may span lines:    SELECT name FROM airlines WHERE carrier = 'UA';
[b]Commands[/b] end with the line, as in redis-cli:        ZADD board 10 hind

  \d          the tables                  \d NAME    one table: columns and indexes
  \load FILE  load a Lua library, in the place of the one with its name
  \time N X   run a command or statement N times, and tell how long it took
  help NAME   what a command does         help       this page
  \q          leave (also Ctrl-D)
"""


@dataclass
class Target:
    """Where the shell's session leads, and what must be closed at the end."""

    link: Link
    name: str
    close: Callable[[], None]


def run(url: str | None, commands: Sequence[str], *, db: int | None, password: str | None) -> None:
    """Runs the shell; leaves with exit code 1 if anything failed without a terminal."""
    target = _open(url, db, password)
    shell = Shell(target.link, Console(highlight=False, soft_wrap=not sys.stdout.isatty()))
    try:
        if commands:
            shell.run_lines(line for command in commands for line in command.splitlines())
        elif sys.stdin.isatty():
            _interact(shell, target.name)
            return
        else:
            shell.run_lines(sys.stdin)
    finally:
        target.close()
    if shell.failures:
        raise SystemExit(1)


def _open(url: str | None, db: int | None, password: str | None) -> Target:
    if url is None:
        store = _core.Store()
        return Target(store.session(db or 0), "in memory", store.close)
    address = Address.parse(url if "://" in url else f"peryton://{url}").with_options(db=db, password=password)
    link = SocketLink(address)
    return Target(link, str(address), link.close)


class Shell:
    """Runs what was typed and prints what came of it."""

    def __init__(self, link: Link, console: Console) -> None:
        self._link = link
        self._console = console
        self.failures = 0

    def run_lines(self, lines: Iterable[str]) -> None:
        """Runs lines as they come from a file; SQL is gathered until its semicolon."""
        pending = ""
        for line in lines:
            pending = f"{pending}\n{line.rstrip()}" if pending else line.strip()
            if is_sql(pending) and not is_complete(pending):
                continue
            self.run(pending)
            pending = ""
        # The last statement of a file, or the only one of -c, needs no semicolon.
        self.run(pending)

    def run(self, text: str) -> None:
        """Runs one line, or one or more SQL statements."""
        text = text.strip()
        if not text or text.startswith(("--", "#")):
            return
        try:
            self._run(text)
        except (PerytonError, QuoteError) as error:
            self.failures += 1
            self._console.print(Text(f"(error) {error}", style="red"))

    def _run(self, text: str) -> None:
        if text.startswith("\\d"):
            self._describe(text[2:].strip(" ;"))
        elif text.startswith("\\load"):
            self._load(text[5:].strip())
        elif text.startswith("\\time"):
            self._time(text[5:].strip())
        elif text.lower() == "help" or text in ("\\?", "\\h"):
            self._console.print(HELP.strip())
        elif text.lower().startswith("help "):
            self._help(text[5:].strip())
        elif is_sql(text):
            for statement in split_statements(text):
                self._sql(statement)
        else:
            self._command(split_arguments(text))

    def _sql(self, statement: str) -> None:
        started = time.perf_counter()
        rows = self._ask(_calls.sql(statement, None))
        seconds = time.perf_counter() - started
        if rows.columns:
            self._console.print(render.rows_table(rows))
        self._console.print(Text(f"{render.row_count(rows)} in {duration(seconds)}", style="dim"))

    def _command(self, args: list[bytes]) -> None:
        self._console.print(Text(render.reply_text(self._link.execute(args))))

    def _load(self, name: str) -> None:
        """Loads a Lua library from a file."""
        try:
            code = Path(name).expanduser().read_bytes()
        except OSError as error:
            raise PerytonError(f"cannot read {name!r}: {error.strerror or error}") from None
        library = _calls.text_of(self._link.execute(("FUNCTION", "LOAD", "REPLACE", code)))
        reply = self._link.execute(("FUNCTION", "LIST", "LIBRARYNAME", library))
        [about] = [_calls._mapping(each) for each in reply]
        names = sorted(_calls.text_of(_calls._mapping(function)["name"]) for function in about["functions"])
        self._console.print(Text(f"{library}: {', '.join(names)}"))

    def _time(self, text: str) -> None:
        """Runs a command or statement several times; prints its last reply and its times."""
        count, _, rest = text.partition(" ")
        if not count.isdigit() or int(count) < 1 or not rest.strip():
            raise PerytonError("\\time wants a number of times and what to run: \\time 1000 CALL f 1")
        rest = rest.strip().rstrip(";")
        args: Sequence[Any] = ("SQL", rest) if is_sql(rest) else split_arguments(rest)
        times = []
        for _ in range(int(count)):
            started = time.perf_counter()
            reply = self._link.execute(args)
            times.append(time.perf_counter() - started)
        times.sort()
        self._console.print(Text(render.reply_text(reply)))
        told = {"fastest": times[0], "median": times[len(times) // 2], "p99": times[-1 - len(times) // 100]}
        words = ", ".join(f"{name} {duration(seconds)}" for name, seconds in told.items())
        self._console.print(Text(f"{count} times: {words}", style="dim"))

    def _describe(self, name: str) -> None:
        if not name:
            self._sql("SHOW TABLES")
            return
        for statement in (f"DESCRIBE {_calls.quoted(name)}", f"SHOW INDEXES FROM {_calls.quoted(name)}"):
            self._console.print(render.rows_table(self._ask(_calls.sql(statement, None))))
        triggers = self._ask(_calls.sql(f"SHOW TRIGGERS FROM {_calls.quoted(name)}", None))
        if len(triggers) > 0:
            self._console.print(render.rows_table(triggers))

    def _help(self, name: str) -> None:
        docs = command_docs(self._link, name)
        if not docs:
            self._console.print(Text(f"there is no command {name.upper()}"))
        for command, doc in docs.items():
            grid = Table.grid(padding=(0, 2))
            grid.add_row(Text(command.upper(), style="bold"), Text(doc.get("summary", "")))
            for field in ("complexity", "since", "group"):
                if field in doc:
                    grid.add_row(Text(field, style="dim"), Text(doc[field]))
            self._console.print(grid)

    def _ask(self, call: _calls.Call[Any]) -> Any:
        return call.shape(self._link.execute(call.args))


def duration(seconds: float) -> str:
    """A time in the unit that suits it."""
    if seconds < 1e-3:
        return f"{seconds * 1e6:.0f} µs"
    return f"{seconds * 1e3:.1f} ms" if seconds < 1 else f"{seconds:.2f} s"


def table_names(link: Link) -> list[str]:
    """The names of all tables."""
    call = _calls.sql("SHOW TABLES", None)
    return [str(name) for name in call.shape(link.execute(call.args)).column("name")]


def command_docs(link: Link, name: str) -> dict[str, dict[str, str]]:
    """COMMAND DOCS of one command, as text."""
    reply = link.execute(("COMMAND", "DOCS", name))
    text = _calls.text_of
    return {
        text(command): {text(field): text(value) for field, value in doc.items() if isinstance(value, str | bytes)}
        for command, doc in reply.items()
    }


# --- at a terminal ------------------------------------------------------------------------------------------------


def _interact(shell: Shell, name: str) -> None:
    """Reads from the terminal until Ctrl-D or \\q."""
    from prompt_toolkit import PromptSession
    from prompt_toolkit.auto_suggest import AutoSuggestFromHistory
    from prompt_toolkit.history import FileHistory

    from peryton.cli.complete import ShellCompleter

    history = Path("~/.local/state/peryton/history").expanduser()
    history.parent.mkdir(parents=True, exist_ok=True)
    session: PromptSession[str] = PromptSession(
        history=FileHistory(str(history)),
        auto_suggest=AutoSuggestFromHistory(),
        completer=ShellCompleter(shell._link),
        complete_while_typing=False,
    )
    shell._console.print(f"[b]Peryton[/b] {peryton.__version__}, {name}. [dim]help explains, Ctrl-D leaves.[/dim]")
    while (text := _read(session)) is not None:
        try:
            shell.run(text)
        except KeyboardInterrupt:
            shell._console.print("[dim]interrupted; the session is over[/dim]")
            return


def _read(session: PromptSession[str]) -> str | None:
    """One command or whole SQL statement; None at the end."""
    text = ""
    while True:
        try:
            text += session.prompt("peryton> " if not text else "    ...> ") + "\n"
        except KeyboardInterrupt:
            text = ""
            continue
        except EOFError:
            return None
        if text.strip() in ("\\q", "quit", "exit", "quit;", "exit;"):
            return None
        if not is_sql(text) or is_complete(text):
            return text
