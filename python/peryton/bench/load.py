"""A load on a server, and what one measurement of it gives.

The generator itself is native (`peryton._core.load`): it patches a few digits in a prepared request and counts replies
without reading them, so that the client's share of the cost is small, known and the same for every server.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from peryton import _core

Command = tuple[str | bytes, ...]


@dataclass(frozen=True)
class Load:
    """What to send and how: commands with `%field%` placeholders over connections that pipeline."""

    commands: tuple[Command, ...]
    fields: tuple[str, ...] = ()
    connections: int = 50
    pipeline: int = 1
    #: How often each command is sent, relative to the others; empty: all alike.
    weights: tuple[int, ...] = ()
    #: Requests a second, sent when they are due, `pipeline` at a time, whatever is answered; times count from then.
    #: None: each connection sends its next batch when its last is answered.
    rate: float | None = None
    #: Length of the steps of a time series, seconds, for a load at a rate; 0: none is kept.
    slot_s: float = 0.0

    def weighted(self) -> list[tuple[int, Command]]:
        """The commands as the generator takes them."""
        weights = self.weights or (1,) * len(self.commands)
        return list(zip(weights, self.commands, strict=True))


@dataclass(frozen=True)
class Cpu:
    """CPU seconds: in the program's own code, and with the kernel's on its behalf."""

    user_s: float
    total_s: float


@dataclass(frozen=True)
class Phase:
    """A part of a load at a rate."""

    number: int
    #: When it began and ended, seconds after the warm-up.
    from_s: float
    until_s: float
    #: Requests that were due in it, and replies that came in it.
    asked: int
    answered: int
    #: From when a request was due to its reply: milliseconds by percentile.
    ms: dict[float, float]


@dataclass(frozen=True)
class Paced:
    """What else is known of a load at a rate."""

    sent: int
    #: How late requests went out, milliseconds by percentile: the generator's own share of the times.
    late_ms: dict[float, float]
    phases: list[Phase]
    #: For each step of time: replies, and the longest time among them, milliseconds.
    slots: list[tuple[int, float]]


@dataclass(frozen=True)
class Sample:
    """One measurement."""

    requests: int
    errors: int
    nils: int
    first_error: str | None
    seconds: float
    client: Cpu
    server: Cpu
    #: CPU time of all others on the machine meanwhile.
    others_s: float
    #: CPU time that the host of a virtual machine took away meanwhile.
    stolen_s: float
    #: From sending a batch to its last reply, or from when a request was due to its reply: milliseconds by percentile.
    batch_ms: dict[float, float]
    #: The longest such times, with the number of replies that had come by then.
    slowest_ms: list[tuple[float, int]]
    #: The longest that the server worked during one batch (see `Report::hardest`), with that number, if it was watched.
    hardest_ms: tuple[float, int] | None
    paced: Paced | None = None

    def metrics(self) -> dict[str, float]:
        """The figures a result keeps of it."""
        each_us = 1e6 / max(self.requests, 1)
        return {
            "rate": self.requests / self.seconds,
            "server_user_us": self.server.user_s * each_us,
            "server_cpu_us": self.server.total_s * each_us,
            "client_user_us": self.client.user_s * each_us,
            "client_cpu_us": self.client.total_s * each_us,
            "p50_ms": self.batch_ms[50.0],
            "p99_ms": self.batch_ms[99.0],
            "max_ms": self.batch_ms[100.0],
            "server_cores": self.server.total_s / self.seconds,
            "client_cores": self.client.total_s / self.seconds,
            "other_cores": (self.others_s + self.stolen_s) / self.seconds,
        }


def send(
    load: Load,
    port: int,
    *,
    requests: int | None = None,
    seconds: float = 1.0,
    warmup: float = 0.0,
    pids: Sequence[int] = (),
    watch_cpu: bool = False,
    seed: int = 1,
    control: _core.LoadControl | None = None,
) -> Sample:
    """Sends a load to a server on this machine: `requests` in all, or for `seconds` after a warm-up.

    `control` begins phases of a load at a rate, and ends it, from another thread.
    """
    report = _core.load(
        "127.0.0.1",
        port,
        load.weighted(),
        load.fields,
        connections=load.connections,
        pipeline=load.pipeline,
        requests=requests,
        seconds=seconds,
        warmup=warmup,
        pids=pids,
        watch_cpu=watch_cpu,
        seed=seed,
        rate=load.rate,
        slot=load.slot_s,
        control=control,
    )
    hardest, paced = report["hardest"], report["paced"]
    return Sample(
        requests=report["requests"],
        errors=report["errors"],
        nils=report["nils"],
        first_error=report["first_error"],
        seconds=report["seconds"],
        client=Cpu(*report["client_cpu_s"]),
        server=Cpu(*report["server_cpu_s"]),
        others_s=report["others_cpu_s"],
        stolen_s=report["stolen_cpu_s"],
        batch_ms=_milliseconds(report["batch_percentiles_ns"]),
        slowest_ms=[(ns / 1e6, replies) for ns, replies in report["slowest"]],
        hardest_ms=None if hardest is None else (hardest[0] / 1e6, hardest[1]),
        paced=None if paced is None else _paced(paced),
    )


def _paced(report: "_core._Paced") -> Paced:
    phases = [
        Phase(
            number=phase["number"],
            from_s=phase["from_ns"] / 1e9,
            until_s=phase["until_ns"] / 1e9,
            asked=phase["asked"],
            answered=phase["answered"],
            ms=_milliseconds(phase["percentiles_ns"]),
        )
        for phase in report["phases"]
    ]
    slots = [(answered, ns / 1e6) for answered, ns in report["slots"]]
    return Paced(report["sent"], _milliseconds(report["late_percentiles_ns"]), phases, slots)


def _milliseconds(percentiles: Sequence[tuple[float, int]]) -> dict[float, float]:
    return {percent: ns / 1e6 for percent, ns in percentiles}
