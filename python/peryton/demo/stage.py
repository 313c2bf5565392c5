"""How the demo looks: chapters, and steps that show what ran, what came back and how long it took."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from rich.console import Console, RenderableType
from rich.padding import Padding
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.rule import Rule
from rich.syntax import Syntax
from rich.text import Text

from peryton import Rows
from peryton.cli import render
from peryton.cli.shell import duration

T = TypeVar("T")
_ROWS_SHOWN = 8


class Stage:
    """Prints the story and counts its steps and time."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self.steps = 0
        self._chapters = 0

    def chapter(self, title: str, about: str) -> None:
        """Begins a chapter."""
        self._chapters += 1
        self.console.print()
        self.console.print(Rule(f"[bold]{self._chapters}  {title}[/bold]", align="left", style="cyan"))
        self.console.print(Text(about), style="dim")

    def step(
        self,
        title: str,
        code: str,
        work: Callable[[], T],
        *,
        language: str = "sql",
        show: Callable[[T], RenderableType | None] | None = None,
    ) -> T:
        """Says what comes, shows the code, runs it, and shows its result and its time."""
        self.steps += 1
        self.console.print()
        self.console.print(Text.assemble(("▸ ", "cyan"), (title, "bold")))
        if code:
            syntax = Syntax(code, language, theme="ansi_dark", background_color="default", word_wrap=True)
            self.console.print(Padding(syntax, (0, 0, 0, 2)))
        started = time.perf_counter()
        result = work()
        seconds = time.perf_counter() - started
        shown = (show or shown_result)(result)
        if shown is not None:
            self.console.print(Padding(shown, (0, 0, 0, 2)))
        count = f"{render.row_count(result)} in " if isinstance(result, Rows) and result.rowcount else ""
        self.console.print(Padding(Text(f"{count}{duration(seconds)}", style="green"), (0, 0, 0, 2)))
        return result

    def note(self, text: str) -> None:
        """A remark between steps."""
        self.console.print(Padding(Text(text, style="dim"), (0, 0, 0, 2)))

    @contextmanager
    def progress(self, title: str, total: int) -> Iterator[Callable[[int], None]]:
        """A progress bar at a terminal, one line at the end elsewhere; gives the function that advances it."""
        started = time.perf_counter()
        done = 0

        if not self.console.is_terminal:

            def count(more: int) -> None:
                nonlocal done
                done += more

            yield count
        else:
            columns = (TextColumn("  {task.description:<9}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
            with Progress(*columns, console=self.console, transient=True) as bar:
                task = bar.add_task(title, total=total)

                def advance(more: int) -> None:
                    nonlocal done
                    done += more
                    bar.advance(task, more)

                yield advance
        seconds = time.perf_counter() - started
        rate = f"{done / seconds:,.0f} rows/s"
        self.console.print(f"  {title:<9} {done:>9,} rows  [green]{duration(seconds):>8}[/green]  [dim]{rate}[/dim]")


def shown_result(result: Any) -> RenderableType | None:
    """A result as the shell shows it, cut to a few rows."""
    if isinstance(result, Rows):
        if not result.columns:
            return None
        table = render.rows_table(result, limit=_ROWS_SHOWN)
        if len(result) > _ROWS_SHOWN:
            table.caption = f"and {len(result) - _ROWS_SHOWN:,} more"
            table.caption_justify = "left"
        return table
    return Text(render.reply_text(result))
