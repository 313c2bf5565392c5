"""A run: servers started once, measured in turns, and what came of it.

A result holds, for each contender and metric, one figure per round. Medians and ratios are made from these only when
they are shown, so that the JSON keeps everything.

How it stays fair: every server gets the same requests from the same generator, in turns, so that a busy minute falls
on all of them; it waits for a quiet machine and measures again what others disturbed, while its patience lasts, which
depends on the others alone and never on the figure. Nothing is tied to a core unless asked for: on a busy machine a
tied server waits for a core that others use while another is free (docs/performance.md has the figures).
"""

import contextlib
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import redis

from peryton.bench import machine, peers
from peryton.bench.load import Load, Sample, send
from peryton.bench.peers import Program, Server, StartError

Figures = dict[str, list[float]]

#: More CPU than this used by others makes a sample noisy, cores.
NOISE_CORES = 0.15
#: How often a noisy sample is measured again.
_REPEATS = 2
#: For how long the machine is watched before a sample, seconds.
_WATCH_S = 0.1
_REASON_CHARS = 120


@dataclass(frozen=True)
class Scale:
    """How much is measured."""

    name: str
    rounds: int
    seconds: float
    warmup: float
    #: Time to spend on waiting for a quiet machine and on measuring again what others disturbed, seconds.
    patience: float
    #: Random keys of the command workloads.
    keys: int
    #: Rows of the table that is read by key.
    rows: int
    #: Keys whose memory is measured.
    memory_keys: int
    #: Rows whose memory is measured.
    memory_rows: int
    #: Keys inserted to watch the dictionary grow, and how often.
    growth_keys: int
    growth_rounds: int
    #: Keys, and as many rows, that are saved and read again, and how often.
    stock: int
    stock_rounds: int
    #: For how long a load is watched before a save and after it, seconds.
    phase_s: float


FULL = Scale("full", 5, 3.0, 0.5, 600.0, 100_000, 1_000_000, 1_000_000, 10_000_000, 4_000_000, 3, 5_000_000, 3, 10.0)
QUICK = Scale("quick", 3, 0.8, 0.2, 40.0, 100_000, 1_000_000, 1_000_000, 1_000_000, 4_000_000, 2, 500_000, 2, 1.5)
TINY = Scale("tiny", 2, 0.05, 0.01, 0.0, 1_000, 1_000, 2_000, 2_000, 2_000, 1, 2_000, 1, 0.1)


@dataclass
class Result:
    """What was measured under one name."""

    name: str
    title: str
    #: By contender, by metric, one figure per round.
    figures: dict[str, Figures] = field(default_factory=dict)
    #: Contenders without figures, and why.
    failed: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    #: By contender, for each round, what happened when; only the JSON shows it.
    series: dict[str, list[dict[str, Any]]] = field(default_factory=dict)

    def add(self, contender: str, metrics: Mapping[str, float]) -> None:
        """Adds a round's figures."""
        figures = self.figures.setdefault(contender, {})
        for metric, figure in metrics.items():
            figures.setdefault(metric, []).append(figure)

    def fail(self, contender: str, reason: str) -> None:
        """Gives a contender up."""
        self.failed[contender] = reason
        self.figures.pop(contender, None)

    def typical(self, contender: str, metric: str) -> float | None:
        """The figure that stands for all rounds; None when there is none."""
        figures = self.figures.get(contender, {}).get(metric)
        return typical(metric, figures) if figures else None

    def spread(self, contender: str, metric: str) -> float | None:
        """How far the rounds lie apart: (largest - smallest) / typical."""
        figures = self.figures.get(contender, {}).get(metric)
        middle = self.typical(contender, metric)
        return (max(figures) - min(figures)) / middle if figures and middle else None

    def ratio(self, metric: str, contender: str, beside: str) -> "Ratio | None":
        """One contender's figures over another's."""
        mine, theirs = (self.figures.get(name, {}).get(metric) for name in (contender, beside))
        if not mine or not theirs or not all(theirs):
            return None
        rounds = [ours / other for ours, other in zip(mine, theirs, strict=False)]
        return Ratio(typical(metric, mine) / typical(metric, theirs), min(rounds), max(rounds))


def typical(metric: str, figures: Sequence[float]) -> float:
    """The median; the mean for user CPU, which the kernel samples by ticks, so that only many ticks say something."""
    return statistics.fmean(figures) if metric.endswith("_user_us") else statistics.median(figures)


@dataclass(frozen=True)
class Ratio:
    """A ratio of typical figures, and the smallest and largest of the rounds' own."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Data:
    """What a server holds before a workload is measured on it."""

    name: str
    fill: Callable[[Server, Scale], None]


@dataclass(frozen=True)
class Workload:
    """A load that is measured for a time."""

    name: str
    title: str
    load: Load
    #: What a server answers to each request, for the ceiling.
    reply: bytes
    data: Data | None = None
    #: Only these contenders can answer it; empty: all.
    only: tuple[str, ...] = ()
    #: A null in a reply means that the data was not there.
    hits: bool = False
    #: Measure this many times longer than others.
    longer: float = 1.0
    #: Changes are written to disk: sync or interval; empty: they are not.
    promise: str = ""
    #: Further options of our server.
    options: tuple[str, ...] = ()


class Unsound(Exception):
    """A measurement that says nothing about speed: errors or missing data in the replies."""


class Bench:
    """One run."""

    def __init__(
        self,
        programs: Sequence[Program],
        scale: Scale,
        *,
        pin: bool = False,
        tell: Callable[[str], None] = lambda text: None,
    ) -> None:
        self.programs = {program.name: program for program in programs}
        self.scale = scale
        self.pin = pin
        self.tell = tell
        self.versions: dict[str, str] = {}
        self._patience = scale.patience
        self._servers: dict[Program, Server] = {}

    def __enter__(self) -> "Bench":
        return self

    def __exit__(self, *error: object) -> None:
        peers.stop_all(self._servers.values())
        self._servers.clear()

    def contenders(self, only: Sequence[str] = ()) -> list[str]:
        """Names of the programs to measure, ours first."""
        return [name for name in self.programs if not only or name in only]

    def server(self, program: Program) -> Server:
        """The program's server of this run; one that has died is started again."""
        server = self._servers.get(program)
        if server is None or server.process.poll() is not None:
            if server is not None:
                server.stop()
            server = self._servers[program] = self._start(program)
        return server

    @contextlib.contextmanager
    def fresh(self, name: str, promise: str = "") -> Iterator[Server]:
        """A server of its own, empty, for what memory shows; with a promise (sync, interval) its data is on disk."""
        program = self.programs[name]
        with self.fresh_with(peers.promising(program, promise) if promise else program) as server:
            yield server

    @contextlib.contextmanager
    def fresh_with(self, program: Program) -> Iterator[Server]:
        """A server of its own that is started so."""
        with self._start(program) as server:
            yield server

    def _start(self, program: Program) -> Server:
        server = peers.start(program, core=0 if self.pin else None)
        if program.name != peers.CEILING:
            self.versions[program.name] = server.version
        return server

    def throughput(self, workload: Workload) -> Result:
        """Measures a workload on every contender in turns, and on the server that does nothing."""
        return self.in_turns([workload])[0]

    def in_turns(self, workloads: Sequence[Workload]) -> list[Result]:
        """Measures several workloads, a round of each in turns: what is to be compared should see the same machine."""
        results = [Result(workload.name, workload.title) for workload in workloads]
        for number in range(self.scale.rounds):
            for workload, result in zip(workloads, results, strict=True):
                self.tell(workload.title)
                for program in self._programs(workload):
                    if program.name not in result.failed:
                        with self.failing(result, program.name):
                            result.add(program.name, self._quiet_sample(program, workload, seed=number + 1).metrics())
        for result in results:
            note_noise(result)
        return results

    def _programs(self, workload: Workload) -> list[Program]:
        """Whom a workload is measured on."""
        programs = [self.programs[name] for name in self.contenders(workload.only)]
        if workload.promise:
            programs = [peers.promising(program, workload.promise) for program in programs]
        if workload.options:
            programs = [
                Program(program.name, (*program.argv, *workload.options)) if program.name == peers.OURS else program
                for program in programs
            ]
        return [*programs, peers.ceiling(workload.reply)]

    def _quiet_sample(self, program: Program, workload: Workload, seed: int) -> Sample:
        """A sample that others did not disturb, as far as patience lasts."""
        self.wait_for_quiet()
        sample = self._sample(self.server(program), workload, seed)
        for _ in range(_REPEATS):
            if self._patience <= 0 or sample.metrics()["other_cores"] <= NOISE_CORES:
                break
            self._patience -= sample.seconds + self.scale.warmup
            self.wait_for_quiet()
            sample = self._sample(self.server(program), workload, seed)
        return sample

    def wait_for_quiet(self) -> None:
        """Waits until others leave the machine alone, as far as patience lasts."""
        begun = time.monotonic()
        while self._patience > 0 and machine.busy_cores(_WATCH_S) > NOISE_CORES:
            self._patience -= time.monotonic() - begun
            begun = time.monotonic()

    def _sample(self, server: Server, workload: Workload, seed: int) -> Sample:
        data = workload.data
        is_real = server.name != peers.CEILING
        if data and is_real and data.name not in server.filled:
            data.fill(server, self.scale)
            server.filled.add(data.name)
        with machine.on_core(1 if self.pin else None):
            sample = send(
                workload.load,
                server.port,
                seconds=self.scale.seconds * workload.longer,
                warmup=self.scale.warmup,
                pids=[server.pid],
                seed=seed,
            )
        check(sample, hits=workload.hits and is_real)
        return sample

    @contextlib.contextmanager
    def failing(self, result: Result, contender: str) -> Iterator[None]:
        """Turns a contender's failure into its reason; the run goes on with the others."""
        try:
            yield
        except (OSError, StartError, Unsound, redis.RedisError) as error:
            result.fail(contender, (str(error) or type(error).__name__)[:_REASON_CHARS])


def check(sample: Sample, *, hits: bool = False) -> None:
    """Refuses a sample whose replies were not what was asked for."""
    if sample.errors:
        raise Unsound(f"{sample.errors} of {sample.requests} replies were errors: {sample.first_error}")
    if hits and sample.nils:
        raise Unsound(f"{sample.nils} of {sample.requests} replies were null: the data is not there")
    if not sample.requests:
        raise Unsound("no replies came in the measured time")


def note_noise(result: Result) -> None:
    """Says so when others used the machine meanwhile."""
    others = [cores for figures in result.figures.values() for cores in figures.get("other_cores", [])]
    noisy = [cores for cores in others if cores > NOISE_CORES]
    if noisy:
        text = f"noisy: in {len(noisy)} of {len(others)} samples others used {min(noisy):.2f} to {max(noisy):.2f} cores"
        result.notes.append(text)
