"""A run as tables in the terminal and as JSON."""

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from peryton.bench.peers import CEILING, OURS, Absent
from peryton.bench.runner import Result, Scale
from peryton.bench.verdict import Verdict


@dataclass(frozen=True)
class Run:
    """All that a run found."""

    scale: Scale
    pinned: bool
    machine: dict[str, Any]
    started: str
    seconds: float
    versions: dict[str, str]
    absent: Sequence[Absent]
    results: Sequence[Result]
    verdicts: Sequence[Verdict]


def to_json(run: Run) -> dict[str, Any]:
    """The run with every round's figures."""
    return {"format": 1, **asdict(run)}


def show(run: Run, console: Console) -> None:
    """Prints the run: its circumstances, the figures, the verdicts."""
    _show_head(run, console)
    throughput = [result for result in run.results if any("rate" in figures for figures in result.figures.values())]
    others = [result for result in run.results if result not in throughput]
    if throughput:
        console.print(
            "\n[bold]Requests[/] (median of the rounds; +- their spread; CPU of one request; p99 of a batch's time; "
            "ceiling: a server that does nothing)"
        )
        console.print(_throughput_table(throughput))
    for result in others:
        console.print(f"[bold]{result.title}[/]")
        console.print(_plain_table(result))
    for result in run.results:
        for name, reason in result.failed.items():
            console.print(f"[red]{result.name}: {name} failed:[/] {escape(reason)}")
        for note in result.notes:
            console.print(f"[dim]{result.name}: {escape(note)}[/]")
    if run.verdicts:
        console.print("\n[bold]Targets[/] (ours over the peer's; in brackets the rounds' range)")
        console.print(_verdict_table(run.verdicts))


def _show_head(run: Run, console: Console) -> None:
    facts = run.machine
    pinned = "server on one core, client on another" if run.pinned else "not pinned"
    rounds = f"{run.scale.rounds} rounds of {run.scale.seconds:g} s in turns"
    console.print(
        f"[bold]Peryton's bench, {run.scale.name} form[/] "
        f"({rounds}, 50 connections, {run.scale.keys:,} keys, {pinned}; {run.seconds:.0f} s in all)"
    )
    console.print(f"{facts['cores']} cores of {facts['cpu']}, {facts['memory_mb']:,} MB, Linux {facts['kernel']}")
    console.print(", ".join(f"{name} {version or '(version unknown)'}" for name, version in run.versions.items()))
    for absent in run.absent:
        console.print(f"[yellow]absent: {absent.name} ({absent.remedy})[/]")


def _throughput_table(results: Iterable[Result]) -> Table:
    table = Table(box=box.SIMPLE_HEAD)
    table.add_column("workload")
    table.add_column("server")
    for name in (
        "requests/s",
        "+-",
        "ours /",
        "server user us",
        "server CPU us",
        "client CPU us",
        "client busy",
        "p99 ms",
    ):
        table.add_column(name, justify="right")
    for result in results:
        first = True
        for contender in [*(name for name in result.figures if name != CEILING), CEILING]:
            if contender in result.figures:
                style = "bold" if contender == OURS else "dim" if contender == CEILING else ""
                table.add_row(
                    result.title if first else "", contender, *_throughput_cells(result, contender), style=style
                )
                first = False
        table.add_section()
    return table


def _throughput_cells(result: Result, contender: str) -> list[str]:
    def cell(metric: str, form: str) -> str:
        figure = result.typical(contender, metric)
        return "" if figure is None else format(figure, form)

    ratio = result.ratio("rate", OURS, contender) if contender not in (OURS, CEILING) else None
    spread = result.spread(contender, "rate")
    return [
        cell("rate", ",.0f"),
        "" if spread is None else f"{spread:.0%}",
        "" if ratio is None else f"{ratio.value:.2f}x",
        cell("server_user_us", ".3f"),
        cell("server_cpu_us", ".3f"),
        cell("client_cpu_us", ".3f"),
        cell("client_cores", ".0%"),
        cell("p99_ms", ".2f"),
    ]


def _plain_table(result: Result) -> Table:
    """Contenders down, metrics across; bytes and times alike."""
    metrics = list(dict.fromkeys(metric for figures in result.figures.values() for metric in figures))
    table = Table(box=box.SIMPLE_HEAD)
    table.add_column("server")
    for metric in metrics:
        table.add_column(metric.replace("_", " "), justify="right")
    for contender in result.figures:
        cells = [result.typical(contender, metric) for metric in metrics]
        table.add_row(contender, *("" if cell is None else _plain(cell) for cell in cells))
    return table


def _plain(figure: float) -> str:
    return f"{figure:,.0f}" if abs(figure) >= 1000 else f"{figure:.2f}"


def _verdict_table(verdicts: Iterable[Verdict]) -> Table:
    table = Table(box=box.SIMPLE_HEAD)
    for name in ("issue", "target", "beside", "wanted", "found", "verdict"):
        table.add_column(name)
    for verdict in verdicts:
        target, figure = verdict.target, verdict.figure
        unit = "x" if target.beside else ""
        bound = f">= {target.at_least:,g}{unit}" if target.at_least is not None else f"<= {target.at_most:,g}{unit}"
        found = "-"
        if figure is not None:
            form = ",.0f" if abs(figure.value) >= 1000 else ".2f"
            found = f"{figure.value:{form}}{unit} ({figure.low:{form}} .. {figure.high:{form}})"
        word = {True: "[green]met[/]", False: "[red]not met[/]", None: "[yellow]not measured[/]"}[verdict.met]
        remark = f", {escape(verdict.remark)}" if verdict.remark else ""
        table.add_row(str(target.issue), target.wanted, target.beside or "", bound, found, word + remark)
    return table
